/*
 * ipc_imports.h - pointers that were opened by a sealed handle (ipc_seal.h): where the
 * driver's mapping begins that they lie in.
 *
 * The driver counts the opens of a mapping, so each open of ours is one of its own, and
 * each close, too. What is kept here is only what the program's pointer stands for.
 */
#ifndef GS_IPC_IMPORTS_H
#define GS_IPC_IMPORTS_H

#include "ipc_seal.h"

struct gs_import {
    CUdeviceptr pointer; /* what the program has */
    CUdeviceptr base;    /* what the driver gave */
    uint64_t buffer_id;  /* the driver's number of that mapping; 0: it tells none */
    size_t bytes;        /* from `pointer`, as its exporter asked for them */
    CUipcMemHandle driver;
    CUcontext context; /* with which the mapping ends; NULL: not known */
};

/* One more open of it. Errors: GS_ERR_HOST_NOMEM */
enum gs_status gs_imports_add(const struct gs_import *import) GS_MUST_USE;

/* One open less. Errors: GS_ERR_NOT_FOUND */
enum gs_status gs_imports_take(CUdeviceptr pointer, struct gs_import *out) GS_MUST_USE;

/* The one that an address lies in, as far as the driver still has that mapping there.
 * Errors: GS_ERR_NOT_FOUND */
enum gs_status gs_imports_find(CUdeviceptr address, struct gs_import *out) GS_MUST_USE;

/* Whether an address lies inside such a mapping, not at its start. */
bool gs_imports_surround(CUdeviceptr address);

/* Whether this pointer is open, of the same mapping; any of this driver's handle. */
bool gs_imports_has(const struct gs_import *import);
bool gs_imports_has_handle(const CUipcMemHandle *driver);

/* The context has ended, and with it the mappings that were made in it. */
void gs_imports_context_ends(CUcontext context);

/* Whether there ever was one. */
bool gs_imports_any(void);

void gs_imports_reset(void); /* in a forked child */

#endif
