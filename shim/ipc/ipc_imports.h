/*
 * ipc_imports.h - pointers opened by a sealed handle (ipc_seal.h), with the driver
 * mapping of each.
 *
 * The driver counts the opens of a mapping. Each open by a sealed handle is one open of
 * the driver's mapping, and each close one close. The list only maps the program's
 * pointers to the driver's.
 */
#ifndef GS_IPC_IMPORTS_H
#define GS_IPC_IMPORTS_H

#include "shim/ipc/ipc_seal.h"

struct gs_import {
    CUdeviceptr pointer; /* the program's pointer */
    CUdeviceptr base;    /* the driver's pointer */
    uint64_t buffer_id;  /* the driver's id of that mapping; 0: not available */
    size_t bytes;        /* from `pointer`, as its exporter requested */
    CUipcMemHandle driver;
    CUcontext context; /* the mapping ends with it; NULL: not known */
};

/* Adds an open. Errors: GS_ERR_HOST_NOMEM */
enum gs_status gs_imports_add(const struct gs_import *import) GS_MUST_USE;

/* Removes an open.
 * Errors: GS_ERR_NOT_FOUND */
enum gs_status gs_imports_take(CUdeviceptr pointer, struct gs_import *out) GS_MUST_USE;

/* The import around an address, if the driver still has its mapping there.
 * Errors: GS_ERR_NOT_FOUND */
enum gs_status gs_imports_find(CUdeviceptr address, struct gs_import *out) GS_MUST_USE;

/* Returns true if an address is inside a mapping of these, but not at its start. */
bool gs_imports_surround(CUdeviceptr address);

/* The first returns true if this pointer is open in the same mapping; the second, if any
 * import has this driver's handle. */
bool gs_imports_has(const struct gs_import *import);
bool gs_imports_has_handle(const CUipcMemHandle *driver);

/* Called when the context has ended: drops the mappings opened in it. */
void gs_imports_context_ends(CUcontext context);

/* Returns true if there ever was an import. */
bool gs_imports_any(void);

void gs_imports_reset(void); /* in a forked child */

#endif
