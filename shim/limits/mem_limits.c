/*
 * mem_limits.c - charges against GPUSHIM_MEM_LIMIT, and the pool's limits by device.
 *
 * The limit stands at the boundary to the driver: a segment of the pool is charged when
 * the pool gets it, other memory by the call that makes it. A refused charge looks to its
 * caller like the driver's own out of memory, so that the pool gives idle memory back and
 * tries again just as on a device of that size. Sizes are rounded up as the device counts
 * them: 2 MiB and more to 2 MiB, smaller ones to 512 bytes.
 *
 * Not charged, because the program asks for it through no hooked call or may hold more of
 * it than the device has: what a context, its modules and its stacks take, memory nodes
 * of graphs, managed memory, pinned memory, and imported memory (it is charged where it
 * was made, if anywhere).
 *
 * Owns:  charged bytes by device; the table of who is charged for what.
 * Lock:  table.lock for the table; the sums are atomic. Neither over a driver call.
 * Source: architecture, decision 7; reuse safety, C8 (docs/tuning.md)
 */
#include "mem_limits.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "context_switch.h"
#include "gs_locks.h"
#include "log.h"
#include "machine_memory.h"
#include "platform.h"
#include "gs_clock.h"

/* How often the driver is asked how much of a device is free, at most. */
#define LOOK_NS ((uint64_t)1000000000)
/* Others share the device once they have taken so much of the reserve more. */
#define OTHERS_SHARE 4u

bool gs_limits_charging; /* immutable after start */

/* Shares of the options; immutable after start. */
static uint64_t mem_share, pool_share, release_share, reserve_share;
static bool release_given; /* by the user; immutable after start */

static struct device {
    uint64_t met;           /* atomic: 1 once the members below are final */
    uint64_t limit_bytes;   /* of the program */
    uint64_t reserve_bytes; /* to be left free */
    bool integrated;        /* its memory is the machine's */
    uint64_t charged;       /* atomic */
    uint64_t others_least;  /* atomic: the least that was not the pool's */
    uint64_t next_look;     /* atomic: when the driver is asked again what is free */
} devices[GS_MAX_DEVICES];

/* A charge, by its address or handle. Open addressing; a key of 0 is a free slot. */
struct charge {
    uint64_t key;
    size_t bytes;
    CUcontext context; /* NULL: outlives every context */
    uint8_t kind, device;
};

static struct {
    struct gs_mutex lock;
    struct charge *slots; /* under lock */
    size_t room, count;   /* room: a power of two, or 0 */
} table = {.lock = GS_MUTEX(GS_RANK_LIMITS)};

/* The charge of what the thread is freeing; the thread's own. */
static _Thread_local struct charge leaving;

static struct device *device_of(int device)
{
    return &devices[device >= 0 && device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1];
}

static size_t counted(size_t bytes)
{
    size_t step = bytes >= GS_LARGE_BYTES ? GS_LARGE_BYTES : GS_BLOCK_BYTES;
    return bytes > SIZE_MAX - step ? SIZE_MAX : (bytes + step - 1) & ~(step - 1);
}

void gs_limits_start(const struct gs_options *options)
{
    mem_share = options->mem_limit;
    pool_share = options->pool_limit;
    release_share = options->pool_release;
    reserve_share = options->pool_reserve;
    release_given = gs_options_given(environ, "GPUSHIM_POOL_RELEASE");
    gs_limits_charging = mem_share != gs_share_percent(100);
}

void gs_limits_reset(void)
{
    gs_mutex_init(&table.lock, GS_RANK_LIMITS);
    table.slots = NULL; /* another thread may have been changing them */
    table.room = table.count = 0;
    memset(devices, 0, sizeof(devices));
    gs_limits_charging = false;
}

/* ---- the devices ------------------------------------------------------------------- */

/* A share of the device as the pool takes limits: all of it is none. */
static size_t limit_of(uint64_t share, uint64_t total)
{
    return share == gs_share_percent(100) ? SIZE_MAX
                                          : (size_t)gs_share_bytes(share, total);
}

/* What sort of device it is; says so where it is an unusual one. */
static struct gs_platform look_at(int ordinal)
{
    struct gs_platform platform = gs_platform_read(ordinal, "", environ);
    char text[128];
    if (*gs_platform_text(&platform, text, sizeof(text))) {
        gs_log_line(GS_LOG_INFO, "GPU %d: %s", ordinal, text);
    }
    return platform;
}

/* What of the used bytes is not the pool's; the least of it is kept. */
static uint64_t note_others(struct gs_state *state, struct device *device, int ordinal,
                            size_t used_bytes)
{
    uint64_t own = state->pool ? gs_pool_reserved_on(state->pool, ordinal) : 0;
    uint64_t others = used_bytes > own ? used_bytes - own : 0;
    if (!__atomic_load_n(&device->met, __ATOMIC_ACQUIRE) ||
        others < __atomic_load_n(&device->others_least, __ATOMIC_RELAXED)) {
        __atomic_store_n(&device->others_least, others, __ATOMIC_RELAXED);
    }
    return others;
}

void gs_limits_meet(struct gs_state *state, int ordinal)
{
    struct device *device = device_of(ordinal);
    size_t free_bytes, total_bytes;
    if (ordinal < 0 || __atomic_load_n(&device->met, __ATOMIC_ACQUIRE) ||
        gs_real()->cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) {
        return;
    }
    /* Two threads may be here at once: they write the same. */
    bool integrated = look_at(ordinal).integrated;
    uint64_t release = integrated && !release_given
                           ? gs_share_percent(GS_PLATFORM_SHARED_IDLE)
                           : release_share;
    __atomic_store_n(&device->integrated, integrated, __ATOMIC_RELAXED);
    uint64_t limit = gs_share_bytes(mem_share, total_bytes);
    __atomic_store_n(&device->limit_bytes, limit < total_bytes ? limit : total_bytes,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&device->reserve_bytes, gs_share_bytes(reserve_share, total_bytes),
                     __ATOMIC_RELAXED);
    if (state->pool) {
        struct gs_pool_limits limits = {
            .reserved_bytes = limit_of(pool_share, total_bytes),
            .device_bytes = limit < free_bytes ? limit : free_bytes,
            .idle_bytes = limit_of(release, total_bytes)};
        gs_pool_set_limits(state->pool, ordinal, &limits);
        gs_pool_set_free(state->pool, ordinal, limits.device_bytes, 0);
    }
    note_others(state, device, ordinal, total_bytes - free_bytes);
    __atomic_store_n(&device->met, 1, __ATOMIC_RELEASE);
}

bool gs_limits_charge(int ordinal, size_t bytes)
{
    struct device *device = device_of(ordinal);
    uint64_t charged = __atomic_load_n(&device->charged, __ATOMIC_RELAXED), sum;
    uint64_t limit = __atomic_load_n(&device->limit_bytes, __ATOMIC_RELAXED);
    bool met = __atomic_load_n(&device->met, __ATOMIC_ACQUIRE);
    do {
        if (__builtin_add_overflow(charged, (uint64_t)counted(bytes), &sum) ||
            (met && sum > limit)) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&device->charged, &charged, sum, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return true;
}

void gs_limits_uncharge(int ordinal, size_t bytes)
{
    __atomic_sub_fetch(&device_of(ordinal)->charged, (uint64_t)counted(bytes),
                       __ATOMIC_RELAXED);
}

uint64_t gs_limits_charged(int ordinal)
{
    return __atomic_load_n(&device_of(ordinal)->charged, __ATOMIC_RELAXED);
}

bool gs_limits_refused(int ordinal, size_t driver_free, size_t *left, size_t *limit)
{
    const struct device *device = device_of(ordinal);
    uint64_t most = __atomic_load_n(&device->limit_bytes, __ATOMIC_RELAXED);
    uint64_t charged = gs_limits_charged(ordinal);
    uint64_t room = most > charged ? most - charged : 0;
    if (!gs_limits_charging || !__atomic_load_n(&device->met, __ATOMIC_ACQUIRE) ||
        room >= driver_free) {
        return false;
    }
    *left = (size_t)room;
    *limit = (size_t)most;
    return true;
}

void gs_limits_correct(const struct gs_context *context, size_t was, size_t bytes)
{
    if (gs_limits_charging && context) {
        __atomic_add_fetch(&device_of(context->device)->charged,
                           (uint64_t)counted(bytes) - (uint64_t)counted(was),
                           __ATOMIC_RELAXED);
    }
}

size_t gs_limits_most(int ordinal)
{
    const struct device *device = device_of(ordinal);
    return __atomic_load_n(&device->met, __ATOMIC_ACQUIRE)
               ? (size_t)__atomic_load_n(&device->limit_bytes, __ATOMIC_RELAXED)
               : SIZE_MAX;
}

void gs_limits_info(int ordinal, size_t idle, size_t *free_bytes, size_t *total_bytes)
{
    const struct device *device = device_of(ordinal);
    uint64_t limit = __atomic_load_n(&device->limit_bytes, __ATOMIC_RELAXED);
    uint64_t charged = __atomic_load_n(&device->charged, __ATOMIC_RELAXED);
    size_t room = *total_bytes - *free_bytes < idle ? *total_bytes : *free_bytes + idle;
    if (gs_limits_charging && __atomic_load_n(&device->met, __ATOMIC_ACQUIRE)) {
        uint64_t left = limit + idle > charged ? limit + idle - charged : 0;
        room = left < room ? (size_t)left : room;
        if (limit < *total_bytes) {
            *total_bytes = (size_t)limit;
        }
        room = room < *total_bytes ? room : *total_bytes;
    }
    *free_bytes = room;
}

/* ---- the table; table.lock is held ------------------------------------------------- */

static size_t place_of(uint64_t key)
{
    return (size_t)((key * 0x9e3779b97f4a7c15u) >> 20) & (table.room - 1);
}

/* Addresses are one space of keys, and each kind of handle is one. */
static unsigned space_of(unsigned kind)
{
    return kind == GS_CHARGE_DEVICE ? GS_CHARGE_CONTEXT : kind;
}

static struct charge *find(enum gs_charge_kind kind, uint64_t key)
{
    for (size_t i = table.room ? place_of(key) : 0; table.room && table.slots[i].key;
         i = (i + 1) & (table.room - 1)) {
        if (table.slots[i].key == key &&
            space_of(table.slots[i].kind) == space_of(kind)) {
            return &table.slots[i];
        }
    }
    return NULL;
}

static void put(const struct charge *charge)
{
    size_t i = place_of(charge->key);
    while (table.slots[i].key) {
        i = (i + 1) & (table.room - 1);
    }
    table.slots[i] = *charge;
    table.count++;
}

/* Room for one more, at most half full. */
static bool grow(void)
{
    struct charge *old = table.slots;
    size_t old_room = table.room;
    if (2 * (table.count + 1) <= table.room) {
        return true;
    }
    struct charge *slots = calloc(old_room ? 2 * old_room : 64, sizeof(*slots));
    if (!slots) {
        return false;
    }
    table.slots = slots;
    table.room = old_room ? 2 * old_room : 64;
    table.count = 0;
    for (size_t i = 0; i < old_room; i++) {
        if (old[i].key) {
            put(&old[i]);
        }
    }
    free(old);
    return true;
}

/* Take a slot out; the run behind it closes up. */
static void take(struct charge *slot)
{
    size_t i = (size_t)(slot - table.slots);
    slot->key = 0;
    table.count--;
    for (i = (i + 1) & (table.room - 1); table.slots[i].key;
         i = (i + 1) & (table.room - 1)) {
        struct charge moved = table.slots[i];
        table.slots[i].key = 0;
        table.count--;
        put(&moved);
    }
}

/* ---- charges by key ---------------------------------------------------------------- */

void gs_limits_record(enum gs_charge_kind kind, uint64_t key, size_t bytes, int device,
                      CUcontext context)
{
    struct charge charge = {
        .key = key,
        .bytes = bytes,
        .context = kind == GS_CHARGE_CONTEXT || kind == GS_CHARGE_ARRAY ? context : NULL,
        .kind = (uint8_t)kind,
        .device = (uint8_t)(device_of(device) - devices)};
    if (!gs_limits_charging) {
        return;
    }
    gs_mutex_lock(&table.lock);
    struct charge *old = find(kind, key); /* freed where nobody saw it */
    if (old) {
        gs_limits_uncharge(old->device, old->bytes);
        take(old);
    }
    bool kept = key && grow();
    if (kept) {
        put(&charge);
    }
    gs_mutex_unlock(&table.lock);
    if (!kept) {
        gs_limits_uncharge(device, bytes);
    }
}

void gs_limits_leave(enum gs_charge_kind kind, uint64_t key)
{
    if (!gs_limits_charging) {
        return;
    }
    leaving.key = 0;
    gs_mutex_lock(&table.lock);
    struct charge *found = key ? find(kind, key) : NULL;
    if (found) {
        leaving = *found;
        take(found);
    }
    gs_mutex_unlock(&table.lock);
}

void gs_limits_left(bool freed)
{
    if (!gs_limits_charging || !leaving.key) {
        return;
    }
    if (freed) {
        gs_limits_uncharge(leaving.device, leaving.bytes);
    } else {
        gs_limits_record((enum gs_charge_kind)leaving.kind, leaving.key, leaving.bytes,
                         leaving.device, leaving.context);
    }
    leaving.key = 0;
}

void gs_limits_context_lost(CUcontext context)
{
    if (!gs_limits_charging || !context) {
        return;
    }
    gs_mutex_lock(&table.lock);
    for (size_t i = 0; i < table.room;) {
        if (table.slots[i].key && table.slots[i].context == context) {
            gs_limits_uncharge(table.slots[i].device, table.slots[i].bytes);
            take(&table.slots[i]); /* another may have moved here */
        } else {
            i++;
        }
    }
    gs_mutex_unlock(&table.lock);
}

/* ---- giving back ------------------------------------------------------------------- */

static bool is_current(const struct gs_context *context)
{
    CUcontext now = NULL;
    return gs_real()->cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == context->handle;
}

/* Has somebody else taken memory since the device was met, so that it is worth the
 * driver's calls to keep nothing from them? Memory of the program's that is not the
 * pool's counts as somebody else's. */
static bool is_shared(struct gs_state *state, struct device *device, int ordinal,
                      size_t used_bytes)
{
    uint64_t least = __atomic_load_n(&device->others_least, __ATOMIC_RELAXED);
    return note_others(state, device, ordinal, used_bytes) >
           least +
               __atomic_load_n(&device->reserve_bytes, __ATOMIC_RELAXED) / OTHERS_SHARE;
}

/* What the device has less free than it should. *shared: others have taken it. */
static GS_NOINLINE size_t ask_missing(struct gs_state *state, struct device *device,
                                      int ordinal, bool *shared)
{
    uint64_t reserve = __atomic_load_n(&device->reserve_bytes, __ATOMIC_RELAXED);
    size_t free_bytes, total_bytes;
    if (gs_real()->cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) {
        return 0;
    }
    *shared = is_shared(state, device, ordinal, total_bytes - free_bytes);
    uint64_t left = free_bytes;
    gs_limits_info(ordinal, 0, &free_bytes, &total_bytes);
    gs_pool_set_free(state->pool, ordinal, free_bytes, *shared ? (size_t)reserve : 0);
    struct gs_machine_memory machine;
    if (__atomic_load_n(&device->integrated, __ATOMIC_RELAXED) &&
        gs_machine_memory_read("", &machine) && machine.available_bytes < left) {
        left = machine.available_bytes;
    }
    return left < reserve ? (size_t)(reserve - left) : 0;
}

/* Is it time to ask the driver how much of the device is free? For one thread in
 * LOOK_NS: some drivers take milliseconds for the answer. */
static bool is_time_to_look(struct device *device)
{
    uint64_t at = __atomic_load_n(&device->next_look, __ATOMIC_RELAXED);
    uint64_t now = gs_now_coarse_ns();
    return now >= at &&
           __atomic_compare_exchange_n(&device->next_look, &at, now + LOOK_NS, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* What is to go back for the reserve, now; where others share the device, the pool keeps
 * no more idle memory than is left then, until the next look. */
static size_t look_for_missing(struct gs_state *state, const struct gs_context *context)
{
    bool shared = false;
    size_t missing =
        ask_missing(state, device_of(context->device), context->device, &shared);
    if (shared) {
        gs_pool_set_missing(state->pool, context->device, missing);
    }
    return missing;
}

size_t gs_limits_missing_now(struct gs_state *state, const struct gs_context *context)
{
    return is_time_to_look(device_of(context->device)) && is_current(context)
               ? look_for_missing(state, context)
               : 0;
}

size_t gs_limits_missing(struct gs_state *state, const struct gs_context *context)
{
    size_t missing = 0;
    bool pushed;
    if (is_time_to_look(device_of(context->device)) &&
        gs_context_push(context->handle, &pushed) == CUDA_SUCCESS) {
        missing = look_for_missing(state, context);
        gs_context_pop(pushed);
    }
    return missing;
}
