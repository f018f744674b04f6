/*
 * ipc_imports.c - the map of imported pointers; a process has few.
 * Owns:  the map.   Lock: imports.lock, never held across a call out of this file.
 */
#include "shim/ipc/ipc_imports.h"

#include <stdlib.h>
#include <string.h>

#include "gs_hash.h"
#include "gs_locks.h"
#include "shim/link/real.h"

struct entry {
    UT_hash_handle hh; /* in imports.all, by import.pointer */
    struct gs_import import;
    unsigned opens;
};

static struct {
    struct gs_mutex lock;
    struct entry *all; /* under lock */
    bool any;          /* atomic */
} imports = {.lock = GS_MUTEX(GS_RANK_IMPORTS)};

static bool is_same(const struct gs_import *left, const struct gs_import *right)
{
    return left->base == right->base && left->buffer_id == right->buffer_id;
}

/* Counts one more open. An entry for another mapping at the same address is out of
 * date. */
static void count_open(struct entry *entry, const struct gs_import *import)
{
    entry->opens = is_same(&entry->import, import) ? entry->opens + 1 : 1;
    entry->import = *import;
}

enum gs_status gs_imports_add(const struct gs_import *import)
{
    struct entry *made = calloc(1, sizeof(*made));
    enum gs_status status = GS_OK;
    gs_mutex_lock(&imports.lock);
    struct entry *entry = GS_HASH_FIND(imports.all, &import->pointer);
    if (!entry && made) {
        made->import = *import;
        if (GS_HASH_ADD(imports.all, import.pointer, made)) {
            entry = made;
            made = NULL;
        }
    }
    if (entry) {
        count_open(entry, import);
        __atomic_store_n(&imports.any, true, __ATOMIC_RELEASE);
    } else {
        status = GS_ERR_HOST_NOMEM;
    }
    gs_mutex_unlock(&imports.lock);
    free(made);
    return status;
}

enum gs_status gs_imports_take(CUdeviceptr pointer, struct gs_import *out)
{
    if (!gs_imports_any()) {
        return GS_ERR_NOT_FOUND;
    }
    gs_mutex_lock(&imports.lock);
    struct entry *found = GS_HASH_FIND(imports.all, &pointer);
    enum gs_status status = found ? GS_OK : GS_ERR_NOT_FOUND;
    if (found) {
        *out = found->import;
        if (--found->opens == 0) {
            HASH_DEL(imports.all, found);
            free(found);
        }
    }
    gs_mutex_unlock(&imports.lock);
    return status;
}

/* The mapping around an address; its id distinguishes it from an earlier mapping
 * there. */
struct mapping {
    CUdeviceptr base;
    uint64_t buffer_id;
};

static bool find_mapping(CUdeviceptr address, struct mapping *out)
{
    const struct gs_real *real = gs_real();
    return gs_imports_any() &&
           real->cuPointerGetAttribute(&out->base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                       address) == CUDA_SUCCESS &&
           real->cuPointerGetAttribute(&out->buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                       address) == CUDA_SUCCESS;
}

static bool is_of(const struct gs_import *import, const struct mapping *mapping)
{
    return import->base == mapping->base && import->buffer_id == mapping->buffer_id;
}

enum gs_status gs_imports_find(CUdeviceptr address, struct gs_import *out)
{
    enum gs_status status = GS_ERR_NOT_FOUND;
    struct mapping mapping = {0};
    if (!find_mapping(address, &mapping)) {
        return status;
    }
    gs_mutex_lock(&imports.lock);
    for (const struct entry *entry = imports.all; entry; entry = entry->hh.next) {
        if (is_of(&entry->import, &mapping) &&
            address - entry->import.pointer < entry->import.bytes) {
            *out = entry->import;
            status = GS_OK;
            break;
        }
    }
    gs_mutex_unlock(&imports.lock);
    return status;
}

bool gs_imports_surround(CUdeviceptr address)
{
    struct mapping mapping = {0};
    bool found = false;
    if (!find_mapping(address, &mapping) || address == mapping.base) {
        return false;
    }
    gs_mutex_lock(&imports.lock);
    for (const struct entry *entry = imports.all; entry && !found;
         entry = entry->hh.next) {
        found = is_of(&entry->import, &mapping);
    }
    gs_mutex_unlock(&imports.lock);
    return found;
}

bool gs_imports_has(const struct gs_import *import)
{
    gs_mutex_lock(&imports.lock);
    const struct entry *entry = GS_HASH_FIND(imports.all, &import->pointer);
    bool has = entry && is_same(&entry->import, import);
    gs_mutex_unlock(&imports.lock);
    return has;
}

bool gs_imports_has_handle(const CUipcMemHandle *driver)
{
    bool has = false;
    gs_mutex_lock(&imports.lock);
    for (const struct entry *entry = imports.all; entry && !has; entry = entry->hh.next) {
        has = memcmp(&entry->import.driver, driver, sizeof(*driver)) == 0;
    }
    gs_mutex_unlock(&imports.lock);
    return has;
}

void gs_imports_context_ends(CUcontext context)
{
    struct entry *entry, *next;
    if (!gs_imports_any()) {
        return;
    }
    gs_mutex_lock(&imports.lock);
    HASH_ITER (hh, imports.all, entry, next) {
        if (entry->import.context == context) {
            HASH_DEL(imports.all, entry);
            free(entry);
        }
    }
    gs_mutex_unlock(&imports.lock);
}

bool gs_imports_any(void)
{
    return __atomic_load_n(&imports.any, __ATOMIC_ACQUIRE);
}

void gs_imports_reset(void)
{
    gs_mutex_init(&imports.lock, GS_RANK_IMPORTS);
    imports.all = NULL;
    imports.any = false;
}
