/*
 * spill.c - serves from host memory what a full device has refused.
 *
 * The memory is managed memory whose pages stay on the host: the device could hold them
 * only in place of other managed memory, since the program's own cannot be moved. A
 * device that cannot reach host memory while the host runs has none of it, nor has an
 * allocation while a stream captures, which managed memory would end.
 *
 * Owns:   the table of spilled allocations.
 * Lock:   spill_lock for the table; the sums are atomic.
 * Design: docs/tuning.md
 */
#include "spill.h"

#include <stdlib.h>

#include "captures.h"
#include "gs_hash.h"
#include "gs_locks.h"
#include "log.h"
#include "notify.h"
#include "real.h"
#include "text.h"

bool gs_spill_wanted; /* immutable after start */

struct spilled {
    UT_hash_handle hh; /* in table, by address */
    CUdeviceptr addr;
    size_t bytes;
    CUcontext context; /* which the memory ends with */
    int device;
};

static struct {
    uint64_t bytes, most_bytes, count; /* atomic */
    uint64_t told;                     /* atomic: 1 once a line was logged */
} devices[GS_MAX_DEVICES];

static struct gs_mutex spill_lock = GS_MUTEX(GS_RANK_LIMITS);
static struct spilled *table;  /* under spill_lock */
static uint64_t budget;        /* immutable after start */
static uint64_t spilled_bytes; /* atomic; of all devices, with attempts */

/* What this thread is freeing, or NULL. */
static _Thread_local struct spilled *freeing;

void gs_spill_start(const struct gs_options *options)
{
    budget = options->spill_bytes;
    gs_spill_wanted = budget != 0;
}

void gs_spill_reset(void)
{
    gs_mutex_init(&spill_lock, GS_RANK_LIMITS);
    table = NULL; /* another thread may have been changing it */
    __builtin_memset(devices, 0, sizeof(devices));
    spilled_bytes = 0;
    gs_spill_wanted = false;
}

/* ---- the budget -------------------------------------------------------------------- */

static bool take_budget(size_t bytes)
{
    uint64_t used = __atomic_load_n(&spilled_bytes, __ATOMIC_RELAXED), sum;
    do {
        if (__builtin_add_overflow(used, (uint64_t)bytes, &sum) || sum > budget) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&spilled_bytes, &used, sum, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return true;
}

static void return_budget(size_t bytes)
{
    (void)__atomic_sub_fetch(&spilled_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

static void count(int device, size_t bytes)
{
    uint64_t now = __atomic_add_fetch(&devices[device].bytes, bytes, __ATOMIC_RELAXED);
    uint64_t most = __atomic_load_n(&devices[device].most_bytes, __ATOMIC_RELAXED);
    (void)__atomic_add_fetch(&devices[device].count, 1, __ATOMIC_RELAXED);
    while (most < now &&
           !__atomic_compare_exchange_n(&devices[device].most_bytes, &most, now, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static void end(struct spilled *spilled)
{
    if (spilled) {
        (void)__atomic_sub_fetch(&devices[spilled->device].bytes, spilled->bytes,
                                 __ATOMIC_RELAXED);
        return_budget(spilled->bytes);
        free(spilled);
    }
}

/* ---- the table --------------------------------------------------------------------- */

/* Removes an allocation; NULL: it is none of these. spill_lock is held. */
static struct spilled *take(CUdeviceptr addr)
{
    struct spilled *found = GS_HASH_FIND(table, &addr);
    if (found) {
        HASH_DEL(table, found);
    }
    return found;
}

/* Returns false if there was no memory for it: it ends at once. */
static bool put(struct spilled *spilled)
{
    gs_mutex_lock(&spill_lock);
    struct spilled *old = take(spilled->addr); /* freed past the hooks */
    bool kept = GS_HASH_ADD(table, addr, spilled);
    gs_mutex_unlock(&spill_lock);
    end(old);
    return kept;
}

void gs_spill_leave(CUdeviceptr addr)
{
    if (!gs_spill_wanted) {
        return;
    }
    gs_mutex_lock(&spill_lock);
    freeing = take(addr);
    gs_mutex_unlock(&spill_lock);
}

void gs_spill_left(bool freed)
{
    struct spilled *spilled = freeing;
    freeing = NULL;
    if (spilled && (freed || !put(spilled))) {
        end(spilled);
    }
}

void gs_spill_context_lost(CUcontext context)
{
    struct spilled *spilled, *next;
    if (!gs_spill_wanted || !context) {
        return;
    }
    gs_mutex_lock(&spill_lock);
    HASH_ITER (hh, table, spilled, next) {
        if (spilled->context == context) {
            HASH_DEL(table, spilled);
            end(spilled);
        }
    }
    gs_mutex_unlock(&spill_lock);
}

/* ---- allocation -------------------------------------------------------------------- */

static bool can_reach_host(CUdevice device)
{
    const struct gs_real *real = gs_real_now();
    int value = 0;
    return real->cuDeviceGetAttribute && real->cuMemAllocManaged &&
           real->cuDeviceGetAttribute(&value,
                                      CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                                      device) == CUDA_SUCCESS &&
           value != 0;
}

/* Its pages stay on the host, and the device reaches them without a fault. */
static void keep_on_host(CUdeviceptr addr, size_t bytes, CUdevice device)
{
    const struct gs_real *real = gs_real_now();
    if (real->cuMemAdvise) {
        gs_notify_begin("cuMemAlloc_v2", false);
        (void)real->cuMemAdvise(addr, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                                CU_DEVICE_CPU);
        (void)real->cuMemAdvise(addr, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device);
        gs_notify_end();
    }
}

static void tell_once(int device, size_t bytes)
{
    uint64_t untold = 0;
    char text[24];
    if (__atomic_compare_exchange_n(&devices[device].told, &untold, 1, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        gs_log_line(GS_LOG_WARN,
                    "GPU %d is full: %s and what follows come from host memory, which is "
                    "slower (GPUSHIM_SPILL)",
                    device, gs_text_bytes(bytes, text));
    }
}

bool gs_spill_alloc(struct gs_state *state, const struct gs_call *request,
                    CUdeviceptr *out, size_t bytes)
{
    struct gs_call managed = *request;
    int device = request->device;
    if (!out || bytes == 0 || device < 0 || device >= GS_MAX_DEVICES ||
        gs_captures_active() || !can_reach_host(device) || !take_budget(bytes)) {
        return false;
    }
    struct spilled *spilled = calloc(1, sizeof(*spilled));
    if (!spilled ||
        gs_real_now()->cuMemAllocManaged(out, bytes, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS) {
        return_budget(bytes);
        free(spilled);
        return false;
    }
    keep_on_host(*out, bytes, device);
    *spilled = (struct spilled){
        .addr = *out, .bytes = bytes, .context = request->owner, .device = device};
    count(device, bytes);
    if (!put(spilled)) {
        end(spilled);
    }
    tell_once(device, bytes);
    managed.kind = GS_MEMORY_MANAGED;
    managed.charged = true; /* no memory of the device */
    gs_record_alloc(state, &managed, *out, bytes, NULL);
    return true;
}

struct gs_spilled gs_spill_of(int device)
{
    return (struct gs_spilled){
        .count = __atomic_load_n(&devices[device].count, __ATOMIC_RELAXED),
        .most_bytes = __atomic_load_n(&devices[device].most_bytes, __ATOMIC_RELAXED)};
}
