/*
 * origin.h - where the driver's functions come from.
 *
 * Lock: none. A search calls the loader (definers.h).
 */
#ifndef GS_ORIGIN_H
#define GS_ORIGIN_H

#include "shim/link/definers.h"

struct gs_origin {
    struct gs_definers definers;
    struct gs_module_ref module; /* the driver; `dynamic` NULL: none */
    bool by_scope;               /* the global scope's definitions come first */
};

/* The origin for calls by name. Returns whether there is a driver, or a library that
 * stands for it. Out: a zeroed struct is filled */
bool gs_origin_by_name(struct gs_origin *origin);

/* The origin for a handle of the program's that has answered `found`; handle NULL: not
 * known. Returns whether the handle has a driver. May clear dlerror. */
bool gs_origin_by_handle(void *handle, const void *found, struct gs_origin *origin);

#endif
