/*
 * ipc_imports.c - the list of them; a process has few.
 * Owns:  the list.   Lock: imports.lock, never held across a call of anybody's.
 */
#include "ipc_imports.h"

#include <stdlib.h>
#include <string.h>

#include "gs_locks.h"
#include "real.h"

struct entry {
    struct gs_import import;
    unsigned opens;
    struct entry *next;
};

static struct {
    struct gs_mutex lock;
    struct entry *first; /* under lock */
    bool any;            /* atomic */
} imports = {.lock = GS_MUTEX(GS_RANK_IMPORTS)};

/* imports.lock is held. The link that leads to it, or to the end of the list. */
static struct entry **find_pointer(CUdeviceptr pointer)
{
    struct entry **link = &imports.first;
    while (*link && (*link)->import.pointer != pointer) {
        link = &(*link)->next;
    }
    return link;
}

static bool is_same(const struct gs_import *left, const struct gs_import *right)
{
    return left->base == right->base && left->buffer_id == right->buffer_id;
}

/* What an open of another mapping has left at the same address has ended unseen. */
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
    struct entry **link = find_pointer(import->pointer);
    if (!*link && made) {
        *link = made;
        made = NULL;
    }
    if (*link) {
        count_open(*link, import);
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
    struct entry *ended = NULL;
    if (!gs_imports_any()) {
        return GS_ERR_NOT_FOUND;
    }
    gs_mutex_lock(&imports.lock);
    struct entry **link = find_pointer(pointer);
    bool found = *link != NULL;
    if (found) {
        *out = (*link)->import;
        if (--(*link)->opens == 0) {
            ended = *link;
            *link = ended->next;
        }
    }
    gs_mutex_unlock(&imports.lock);
    free(ended);
    return found ? GS_OK : GS_ERR_NOT_FOUND;
}

/* The mapping around an address; its number tells it from one that was there before. */
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
    for (const struct entry *entry = imports.first; entry; entry = entry->next) {
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
    for (const struct entry *entry = imports.first; entry && !found;
         entry = entry->next) {
        found = is_of(&entry->import, &mapping);
    }
    gs_mutex_unlock(&imports.lock);
    return found;
}

bool gs_imports_has(const struct gs_import *import)
{
    gs_mutex_lock(&imports.lock);
    const struct entry *entry = *find_pointer(import->pointer);
    bool has = entry && is_same(&entry->import, import);
    gs_mutex_unlock(&imports.lock);
    return has;
}

bool gs_imports_has_handle(const CUipcMemHandle *driver)
{
    bool has = false;
    gs_mutex_lock(&imports.lock);
    for (const struct entry *entry = imports.first; entry && !has; entry = entry->next) {
        has = memcmp(&entry->import.driver, driver, sizeof(*driver)) == 0;
    }
    gs_mutex_unlock(&imports.lock);
    return has;
}

void gs_imports_context_ends(CUcontext context)
{
    struct entry *ended = NULL;
    if (!gs_imports_any()) {
        return;
    }
    gs_mutex_lock(&imports.lock);
    for (struct entry **link = &imports.first; *link;) {
        struct entry *entry = *link;
        if (entry->import.context != context) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        entry->next = ended;
        ended = entry;
    }
    gs_mutex_unlock(&imports.lock);
    while (ended) {
        struct entry *next = ended->next;
        free(ended);
        ended = next;
    }
}

bool gs_imports_any(void)
{
    return __atomic_load_n(&imports.any, __ATOMIC_ACQUIRE);
}

void gs_imports_reset(void)
{
    gs_mutex_init(&imports.lock, GS_RANK_IMPORTS);
    imports.first = NULL;
    imports.any = false;
}
