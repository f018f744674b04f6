/*
 * spilled.c - the books of GPUSHIM_SPILL: what was served from host memory, by address.
 * Owns: the table of spilled allocations.   Lock: the table's; the sums are atomic.
 */
#include "shim/limits/spilled.h"

#include "shim/limits/charge_table.h"

bool gs_spilled_wanted; /* immutable after start */

static struct {
    uint64_t bytes, most_bytes, count; /* atomic */
} devices[GS_MAX_DEVICES];

static void end(int device, size_t bytes);
static struct gs_charge_table table = GS_CHARGE_TABLE(end);
static uint64_t budget;     /* immutable after start */
static uint64_t used_bytes; /* atomic; of all devices, with attempts */

/* What this thread is freeing, or NULL. */
static _Thread_local struct gs_charge *freeing;

void gs_spilled_start(const struct gs_options *options)
{
    budget = options->spill_bytes;
    gs_spilled_wanted = budget != 0;
}

void gs_spilled_reset(void)
{
    gs_charges_reset(&table);
    __builtin_memset(devices, 0, sizeof(devices));
    used_bytes = 0;
    gs_spilled_wanted = false;
}

/* ---- the budget -------------------------------------------------------------------- */

bool gs_spilled_take(size_t bytes)
{
    uint64_t used = __atomic_load_n(&used_bytes, __ATOMIC_RELAXED), sum;
    do {
        if (__builtin_add_overflow(used, (uint64_t)bytes, &sum) || sum > budget) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&used_bytes, &used, sum, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return true;
}

void gs_spilled_return(size_t bytes)
{
    (void)__atomic_sub_fetch(&used_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
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

static void end(int device, size_t bytes)
{
    (void)__atomic_sub_fetch(&devices[device].bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
    gs_spilled_return(bytes);
}

struct gs_spilled gs_spilled_of(int device)
{
    return (struct gs_spilled){
        .count = __atomic_load_n(&devices[device].count, __ATOMIC_RELAXED),
        .most_bytes = __atomic_load_n(&devices[device].most_bytes, __ATOMIC_RELAXED)};
}

/* ---- the table --------------------------------------------------------------------- */

void gs_spilled_record(uint64_t addr, size_t bytes, int device, CUcontext context)
{
    count(device, bytes);
    gs_charges_record(&table, addr, bytes, device, context);
}

bool gs_spilled_has(uint64_t addr)
{
    return gs_spilled_wanted && gs_charges_have(&table, addr);
}

void gs_spilled_leave(uint64_t addr)
{
    freeing = gs_charges_leave(&table, addr);
}

void gs_spilled_left(bool freed)
{
    gs_charges_left(&table, freeing, freed);
    freeing = NULL;
}

void gs_spilled_context_lost(CUcontext context)
{
    if (gs_spilled_wanted) {
        gs_charges_context_lost(&table, context);
    }
}
