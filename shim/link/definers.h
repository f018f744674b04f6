/*
 * definers.h - the loaded libraries after the shim that define hooked functions of the
 * driver: the driver itself, a library that stands in front of it (a quota library in
 * /etc/ld.so.preload), a framework's trampolines, a driver that forwards to another.
 *
 * Lock: none. A search calls the loader, so it must not run under a lock that a library's
 * constructor may need.
 */
#ifndef GS_DEFINERS_H
#define GS_DEFINERS_H

#include "shim/link/elf_module.h"

#define GS_DEFINERS 24

struct gs_definers {
    struct gs_module_ref modules[GS_DEFINERS]; /* in load order */
    bool in_scope[GS_DEFINERS]; /* the global scope has it after the shim */
    size_t count;
};

/*
 * Finds the libraries that define a hooked function, without the shim, its copies, and
 * what stands before it in the global scope. Further ones than GS_DEFINERS are ignored.
 * May clear dlerror.
 */
void gs_definers_find(struct gs_definers *out);

/* The first definition in the global scope after the shim; NULL: none. */
void *gs_definers_next(const struct gs_definers *definers, const char *name,
                       uint32_t hash);

#endif
