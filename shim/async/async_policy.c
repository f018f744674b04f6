/*
 * async_policy.c - the private memory pools, one a device, and the conditions for their
 * use.
 *
 * Owns:  the pools; like their memory, they live as long as the process.
 * Lock:  none; a row is published with compare-and-swap, and the pool of a slower thread
 *        is destroyed.
 */
#include "shim/async/async_policy.h"

#include "shim/settings/log.h"

enum service { SERVICE_UNKNOWN, SERVICE_POOL, SERVICE_DRIVER };

static struct row {
    int service;        /* atomic: enum service */
    CUmemoryPool made;  /* atomic; NULL: none yet */
    CUmemoryPool shown; /* atomic; the device's default pool, set before `made` */
} rows[GS_MAX_DEVICES];

static bool in_use; /* atomic: any row has a pool */

bool gs_async_in_use(void)
{
    return GS_UNLIKELY(__atomic_load_n(&in_use, __ATOMIC_ACQUIRE));
}

bool gs_async_wanted(const struct gs_state *state)
{
    return state->options.async == GS_ASYNC_POOL || gs_thread.in_stream ||
           gs_async_in_use();
}

/* ---- properties of the device's own pool ------------------------------------------- */

static const CUmemPool_attribute policies[] = {
    CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
};

/* Returns true if the pool is the current one, with all default properties. */
static bool is_plain(CUdevice device, CUmemoryPool pool)
{
    const struct gs_real *real = gs_real();
    CUmemoryPool current = NULL;
    if (real->cuDeviceGetMemPool(&current, device) != CUDA_SUCCESS || current != pool) {
        return false;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(policies); i++) {
        int allowed = 0;
        if (real->cuMemPoolGetAttribute(pool, policies[i], &allowed) != CUDA_SUCCESS ||
            !allowed) {
            return false;
        }
    }
    return true;
}

/* Gives `made` the access of `shown` to other devices. Returns false if a device
 * refuses. */
static bool copy_access(CUmemoryPool made, CUmemoryPool shown, CUdevice owner)
{
    const struct gs_real *real = gs_real();
    int count = 0;
    if (real->cuDeviceGetCount(&count) != CUDA_SUCCESS) {
        return false;
    }
    for (int device = 0; device < count; device++) {
        CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
        CUmemAccessDesc opened = {
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
        if (device == owner) {
            continue;
        }
        if (real->cuMemPoolGetAccess(&flags, shown, &opened.location) != CUDA_SUCCESS) {
            return false;
        }
        opened.flags = flags;
        if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            real->cuMemPoolSetAccess(made, &opened, 1) != CUDA_SUCCESS) {
            return false;
        }
    }
    return true;
}

static bool driver_has_pools(const struct gs_real *real)
{
    return real->cuDeviceGetCount && real->cuDeviceGetDefaultMemPool &&
           real->cuDeviceGetMemPool && real->cuMemPoolCreate && real->cuMemPoolDestroy &&
           real->cuMemPoolGetAccess;
}

/* ---- rows -------------------------------------------------------------------------- */

/* Creates the device's pool. Returns NULL on failure. */
static CUmemoryPool make(struct row *row, CUdevice device)
{
    const struct gs_real *real = gs_real();
    CUmemoryPool shown = NULL, made = NULL, none = NULL;
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_NONE,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    if (!driver_has_pools(real) ||
        real->cuDeviceGetDefaultMemPool(&shown, device) != CUDA_SUCCESS ||
        !is_plain(device, shown) ||
        real->cuMemPoolCreate(&made, &props) != CUDA_SUCCESS) {
        return NULL;
    }
    __atomic_store_n(&row->shown, shown, __ATOMIC_RELEASE);
    if (!copy_access(made, shown, device)) {
        real->cuMemPoolDestroy(made);
        return NULL;
    }
    if (!__atomic_compare_exchange_n(&row->made, &none, made, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        real->cuMemPoolDestroy(made);
        return none; /* another thread's */
    }
    __atomic_store_n(&in_use, true, __ATOMIC_RELEASE);
    return made;
}

static GS_NOINLINE CUmemoryPool begin(struct row *row, CUdevice device)
{
    int unknown = SERVICE_UNKNOWN;
    CUmemoryPool made = make(row, device);
    if (!made) {
        gs_async_end(device, "its default pool is not the current one as it was made");
        return NULL;
    }
    __atomic_compare_exchange_n(&row->service, &unknown, SERVICE_POOL, false,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&row->service, __ATOMIC_ACQUIRE) == SERVICE_POOL ? made : NULL;
}

CUmemoryPool gs_async_pool_of(const struct gs_state *state, int device)
{
    if (!gs_async_wanted(state) || !state->pool || device < 0 ||
        device >= GS_MAX_DEVICES) {
        return NULL;
    }
    struct row *row = &rows[device];
    switch (__atomic_load_n(&row->service, __ATOMIC_ACQUIRE)) {
    case SERVICE_POOL:
        return __atomic_load_n(&row->made, __ATOMIC_ACQUIRE);
    case SERVICE_DRIVER:
        return NULL;
    default:
        return begin(row, device);
    }
}

CUmemoryPool gs_async_pool_known(int device)
{
    return device >= 0 && device < GS_MAX_DEVICES
               ? __atomic_load_n(&rows[device].made, __ATOMIC_ACQUIRE)
               : NULL;
}

void gs_async_end(int device, const char *why)
{
    if (device < 0 || device >= GS_MAX_DEVICES ||
        __atomic_exchange_n(&rows[device].service, SERVICE_DRIVER, __ATOMIC_ACQ_REL) ==
            SERVICE_DRIVER) {
        return;
    }
    gs_log_line(GS_LOG_INFO,
                "the driver serves stream-ordered memory of GPU %d from now on: %s",
                device, why);
}

void gs_async_note_green(const struct gs_state *state)
{
    static struct gs_log_limit limit;
    if (gs_async_wanted(state)) {
        gs_log_once(&limit, GS_LOG_INFO,
                    "the driver serves memory in the order of green contexts' streams");
    }
}

CUmemoryPool gs_async_pool_shown(CUmemoryPool pool)
{
    for (int i = 0; i < GS_MAX_DEVICES && pool; i++) {
        if (__atomic_load_n(&rows[i].made, __ATOMIC_ACQUIRE) == pool) {
            return __atomic_load_n(&rows[i].shown, __ATOMIC_ACQUIRE);
        }
    }
    return pool;
}

void gs_async_policy_reset(void)
{
    for (int i = 0; i < GS_MAX_DEVICES; i++) {
        rows[i] = (struct row){.service = SERVICE_UNKNOWN};
    }
    in_use = false;
}
