/*
 * mem_limits.c - charges against GPUSHIM_MEM_LIMIT, and the pool's limits by device.
 *
 * Memory is charged at the boundary to the driver: a segment of the pool when the pool
 * gets it, other memory in the call that allocates it. To its caller a refused charge
 * looks like the driver's own out of memory, so that the pool reclaims idle memory and
 * tries again, as on a smaller device. Sizes are rounded up as on the device: 2 MiB and
 * more to 2 MiB, smaller ones to 512 bytes.
 *
 * Not charged, since the program allocates it through no hooked call or may hold more of
 * it than the device has: memory of a context, its modules and its stacks, memory nodes
 * of graphs, managed memory, pinned memory, and imported memory (charged where it was
 * allocated, if anywhere).
 *
 * Owns:  charged bytes by device; the table of charges.
 * Lock:  the table's; the sums are atomic.
 * Source: rule C8 (docs/free.md); docs/tuning.md
 */
#include "shim/limits/mem_limits.h"

#include <string.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_wait.h"
#include "shim/limits/charge_table.h"
#include "shim/limits/machine_memory.h"
#include "shim/limits/mem_group.h"
#include "shim/limits/platform.h"
#include "shim/settings/environment.h"
#include "shim/settings/log.h"
#include "shim/state/context_switch.h"

/* The shortest interval between two queries of a device's free memory. */
#define QUERY_NS ((uint64_t)1000000000)
/* Other processes share the device once their memory exceeds its minimum by
 * 1/OTHERS_SHARE of the reserve. */
#define OTHERS_SHARE 4u

/* How long a request waits for the idle memory of the group's other members, and the
 * budget for consecutive requests that get none. After a failure, requests do not ask for
 * ASK_PAUSE_NS: a program that allocates until it is refused must not wait each time. */
#define ASK_NS       ((uint64_t)500000000)
#define ASKS_NS      ((uint64_t)3000000000)
#define ASK_PAUSE_NS ((uint64_t)4000000000)
#define ASK_NAP_NS   ((uint64_t)5000000)
/* How often the trim thread of a member checks whether other members ask. */
#define GROUP_NAP_NS ((uint64_t)50000000)

bool gs_limits_charging; /* immutable after start */
bool gs_limits_managed;  /* likewise */

/* Shares of the options; atomic. */
static uint64_t mem_share, pool_share, release_share, reserve_share;
static bool release_given; /* set by the user; atomic */

static struct device {
    uint64_t met;           /* atomic: 1 once the following members are known */
    uint64_t limit_bytes;   /* of the program */
    uint64_t free_bytes;    /* of the device when it was met */
    uint64_t total_bytes;   /* of the device */
    uint64_t pool_bytes;    /* that the pool can have at best */
    uint64_t reserve_bytes; /* to be left free */
    uint64_t charged;       /* atomic; moves to `group` */
    uint64_t others;        /* atomic: bytes used outside the pool, by the last query */
    uint64_t others_least;  /* atomic: the least of them */
    uint64_t next_query;    /* atomic: time of the next query of free memory */
    uint64_t asked_at;      /* atomic: when memory of the group was last asked for, 0
                             * since an allocation succeeded ... */
    uint64_t asks_since;    /* atomic: ... and first in this row of requests */
    uint64_t asks_again;    /* atomic: none asks before this time */
    uint64_t over; /* atomic: 1 while more may be charged than a lowered limit; no memory
                    * is idle then */
    int group;     /* atomic: the place in the group's ledger, from 1 on; 0: none */
    bool integrated; /* host and device share the memory */
} devices[GS_MAX_DEVICES];

static struct gs_charge_table charges = GS_CHARGE_TABLE(gs_limits_uncharge);

/* The charge of the memory that this thread is freeing, or NULL. */
static _Thread_local struct gs_charge *freeing;

static struct device *device_of(int device)
{
    return &devices[device >= 0 && device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1];
}

static size_t charged_bytes(size_t bytes)
{
    size_t step = bytes >= GS_LARGE_BYTES ? GS_LARGE_BYTES : GS_BLOCK_BYTES;
    return bytes > SIZE_MAX - step ? SIZE_MAX : (bytes + step - 1) & ~(step - 1);
}

static void take_pool_shares(const struct gs_options *options)
{
    __atomic_store_n(&pool_share, options->pool_limit, __ATOMIC_RELAXED);
    __atomic_store_n(&release_share, options->pool_release, __ATOMIC_RELAXED);
    __atomic_store_n(&reserve_share, options->pool_reserve, __ATOMIC_RELAXED);
}

void gs_limits_start(const struct gs_options *options)
{
    __atomic_store_n(&mem_share, options->mem_limit, __ATOMIC_RELAXED);
    take_pool_shares(options);
    release_given = gs_options_given(gs_environment(), "GPUSHIM_POOL_RELEASE");
    gs_group_start(options->mem_group);
    gs_limits_charging = options->mem_limit != gs_share_percent(100) || gs_group_wanted();
    gs_limits_managed = gs_limits_charging && options->mem_limit_managed;
}

void gs_limits_reset(void)
{
    gs_charges_reset(&charges);
    memset(devices, 0, sizeof(devices));
    gs_group_reset();
    gs_limits_charging = gs_limits_managed = false;
}

/* ---- the devices ------------------------------------------------------------------- */

/* A share of the device as a limit of the pool; the whole device: no limit. */
static size_t limit_of(uint64_t share, uint64_t total)
{
    return share == gs_share_percent(100) ? SIZE_MAX
                                          : (size_t)gs_share_bytes(share, total);
}

/* The platform of the device; logs an unusual one. */
static struct gs_platform read_platform(int ordinal)
{
    struct gs_platform platform =
        gs_platform_read(ordinal, "", gs_environment_of_process());
    char text[128];
    if (*gs_platform_text(&platform, text, sizeof(text))) {
        gs_log_line(GS_LOG_INFO, "GPU %d: %s", ordinal, text);
    }
    return platform;
}

/* The used bytes outside the pool; records them, and their minimum. */
static uint64_t record_others(struct gs_state *state, struct device *device, int ordinal,
                              size_t used_bytes)
{
    uint64_t own = state->pool ? gs_pool_reserved_on(state->pool, ordinal) : 0;
    uint64_t others = used_bytes > own ? used_bytes - own : 0;
    __atomic_store_n(&device->others, others, __ATOMIC_RELAXED);
    if (!__atomic_load_n(&device->met, __ATOMIC_ACQUIRE) ||
        others < __atomic_load_n(&device->others_least, __ATOMIC_RELAXED)) {
        __atomic_store_n(&device->others_least, others, __ATOMIC_RELAXED);
    }
    return others;
}

/* Sets the pool's limits on the device, and the bytes to be left free there. */
static void limit_pool(const struct gs_state *state, struct device *device, int ordinal)
{
    uint64_t total = __atomic_load_n(&device->total_bytes, __ATOMIC_RELAXED);
    bool integrated = __atomic_load_n(&device->integrated, __ATOMIC_RELAXED);
    uint64_t release = integrated && !__atomic_load_n(&release_given, __ATOMIC_RELAXED)
                           ? gs_share_percent(GS_PLATFORM_SHARED_IDLE)
                           : __atomic_load_n(&release_share, __ATOMIC_RELAXED);
    uint64_t reserve = __atomic_load_n(&reserve_share, __ATOMIC_RELAXED);
    bool over = __atomic_load_n(&device->over, __ATOMIC_SEQ_CST) != 0;
    struct gs_pool_limits limits = {
        .reserved_bytes = limit_of(__atomic_load_n(&pool_share, __ATOMIC_RELAXED), total),
        .device_bytes = (size_t)__atomic_load_n(&device->pool_bytes, __ATOMIC_RELAXED),
        .idle_bytes = over ? 0 : limit_of(release, total)};
    __atomic_store_n(&device->reserve_bytes, gs_share_bytes(reserve, total),
                     __ATOMIC_RELAXED);
    if (state->pool) {
        gs_pool_set_limits(state->pool, ordinal, &limits);
    }
}

/* Sets the device's limit, and what follows from it. */
static void limit_memory(struct gs_state *state, struct device *device, int ordinal)
{
    uint64_t total = __atomic_load_n(&device->total_bytes, __ATOMIC_RELAXED);
    uint64_t left = __atomic_load_n(&device->free_bytes, __ATOMIC_RELAXED);
    uint64_t share = __atomic_load_n(&mem_share, __ATOMIC_RELAXED);
    uint64_t charged = gs_limits_charging ? gs_limits_charged(ordinal) : 0;
    uint64_t limit = gs_share_bytes(share, total);
    limit = limit < total ? limit : total;
    __atomic_store_n(&device->limit_bytes, limit, __ATOMIC_SEQ_CST);
    __atomic_store_n(&device->over, charged > limit, __ATOMIC_SEQ_CST);
    __atomic_store_n(&device->pool_bytes, limit < left ? limit : left, __ATOMIC_RELAXED);
    limit_pool(state, device, ordinal);
    limit = limit > charged ? limit - charged : 0;
    if (state->pool) { /* until the driver is asked again */
        gs_pool_set_free(state->pool, ordinal, (size_t)(limit < left ? limit : left), 0);
    }
}

void gs_limits_change_memory(struct gs_state *state, const struct gs_options *options)
{
    __atomic_store_n(&mem_share, options->mem_limit, __ATOMIC_RELAXED);
    for (int ordinal = 0; ordinal < GS_MAX_DEVICES; ordinal++) {
        if (__atomic_load_n(&devices[ordinal].met, __ATOMIC_ACQUIRE)) {
            limit_memory(state, &devices[ordinal], ordinal);
        }
    }
    gs_pool_freed_elsewhere();
}

/* The bytes charged to the device beyond its limit. */
static uint64_t bytes_over(const struct device *device, int ordinal)
{
    uint64_t charged = gs_limits_charged(ordinal);
    uint64_t limit = __atomic_load_n(&device->limit_bytes, __ATOMIC_SEQ_CST);
    return charged > limit ? charged - limit : 0;
}

size_t gs_limits_excess(struct gs_state *state, int ordinal)
{
    struct device *device = device_of(ordinal);
    uint64_t excess;
    if (GS_LIKELY(!__atomic_load_n(&device->over, __ATOMIC_RELAXED))) {
        return 0;
    }
    excess = bytes_over(device, ordinal);
    if (excess == 0) {
        __atomic_store_n(&device->over, 0, __ATOMIC_SEQ_CST);
        excess = bytes_over(device, ordinal); /* of a limit that was lowered since */
        __atomic_store_n(&device->over, excess != 0, __ATOMIC_SEQ_CST);
        limit_pool(state, device, ordinal);
    }
    return excess < SIZE_MAX ? (size_t)excess : SIZE_MAX;
}

bool gs_limits_exceeded(struct gs_state *state)
{
    bool exceeded = false;
    for (int ordinal = 0; ordinal < GS_MAX_DEVICES; ordinal++) {
        exceeded |= gs_limits_excess(state, ordinal) != 0;
    }
    return exceeded;
}

void gs_limits_enforce(struct gs_state *state)
{
    for (int ordinal = 0; state->pool && ordinal < GS_MAX_DEVICES; ordinal++) {
        size_t excess = gs_limits_excess(state, ordinal);
        if (excess && gs_pool_trim(state->pool, ordinal, excess)) {
            (void)gs_limits_excess(state, ordinal);
        }
    }
}

void gs_limits_change_pool(struct gs_state *state, const struct gs_options *options)
{
    take_pool_shares(options);
    __atomic_store_n(&release_given, true, __ATOMIC_RELAXED);
    for (int ordinal = 0; ordinal < GS_MAX_DEVICES; ordinal++) {
        if (__atomic_load_n(&devices[ordinal].met, __ATOMIC_ACQUIRE)) {
            limit_pool(state, &devices[ordinal], ordinal);
        }
    }
}

/* Moves what was charged to this process alone to the group. */
static void move_to_group(struct device *device, int place)
{
    uint64_t charged = __atomic_exchange_n(&device->charged, 0, __ATOMIC_SEQ_CST);
    if (charged) {
        gs_group_add(place, charged);
    }
}

/* The device's place in the group; -1: it is not counted there. */
static int group_of(const struct device *device)
{
    return __atomic_load_n(&device->group, __ATOMIC_SEQ_CST) - 1;
}

/* Counts the device's memory in the group from now on. */
static void join_group(const struct gs_state *state, struct device *device, int ordinal)
{
    const char *bus = ordinal < GS_MAX_DEVICES ? state->device_buses[ordinal] : "";
    int place = gs_group_join(bus);
    if (place >= 0) {
        move_to_group(device, place);
        __atomic_store_n(&device->group, place + 1, __ATOMIC_SEQ_CST);
        move_to_group(device, place);
    }
}

void gs_limits_add_device(struct gs_state *state, int ordinal)
{
    struct device *device = device_of(ordinal);
    size_t free_bytes, total_bytes;
    if (ordinal < 0 || __atomic_load_n(&device->met, __ATOMIC_ACQUIRE) ||
        gs_real_now()->cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) {
        return;
    }
    /* Two threads may do this at once: they write the same values. */
    __atomic_store_n(&device->integrated, read_platform(ordinal).integrated,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&device->total_bytes, total_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&device->free_bytes, free_bytes, __ATOMIC_RELAXED);
    limit_memory(state, device, ordinal);
    record_others(state, device, ordinal, total_bytes - free_bytes);
    join_group(state, device, ordinal);
    __atomic_store_n(&device->met, 1, __ATOMIC_RELEASE);
}

/* The program's limit on the device. A program may allocate on a device in which it has
 * no context yet (cuMemCreate, a pool of another device): its size is known without. */
static uint64_t limit_on(const struct device *device, int ordinal)
{
    uint64_t share = __atomic_load_n(&mem_share, __ATOMIC_RELAXED);
    size_t total_bytes;
    if (__atomic_load_n(&device->met, __ATOMIC_ACQUIRE)) {
        return __atomic_load_n(&device->limit_bytes, __ATOMIC_RELAXED);
    }
    return gs_real_now()->cuDeviceTotalMem_v2 &&
                   gs_real_now()->cuDeviceTotalMem_v2(&total_bytes, ordinal) ==
                       CUDA_SUCCESS
               ? gs_share_bytes(share, total_bytes)
               : UINT64_MAX;
}

static bool charge_alone(struct device *device, int ordinal, uint64_t bytes)
{
    uint64_t charged = __atomic_load_n(&device->charged, __ATOMIC_RELAXED), sum;
    const uint64_t limit = limit_on(device, ordinal);
    do {
        if (__builtin_add_overflow(charged, bytes, &sum) || sum > limit) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&device->charged, &charged, sum, true,
                                          __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    int group = group_of(device);
    if (group >= 0) { /* joined since */
        move_to_group(device, group);
    }
    return true;
}

/* A failed context, or none, comes before any limit. */
CUresult gs_limits_refusal(void)
{
    size_t free_bytes, total_bytes;
    CUresult result = gs_real_now()->cuMemGetInfo_v2(&free_bytes, &total_bytes);
    return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

bool gs_limits_charge(int ordinal, size_t bytes)
{
    struct device *device = device_of(ordinal);
    int group;
    if (bytes == 0) {
        return true; /* the driver's to refuse */
    }
    group = group_of(device);
    return group >= 0
               ? gs_group_charge(group, charged_bytes(bytes),
                                 __atomic_load_n(&device->limit_bytes, __ATOMIC_RELAXED))
               : charge_alone(device, ordinal, charged_bytes(bytes));
}

/* Adds to the device's charge, or, modulo 2^64, takes from it. */
static void add_charge(struct device *device, uint64_t bytes)
{
    int group = group_of(device);
    if (group >= 0) {
        gs_group_add(group, bytes);
        return;
    }
    (void)__atomic_add_fetch(&device->charged, bytes, __ATOMIC_SEQ_CST);
    group = group_of(device);
    if (group >= 0) { /* joined since */
        move_to_group(device, group);
    }
}

void gs_limits_uncharge(int ordinal, size_t bytes)
{
    add_charge(device_of(ordinal), -(uint64_t)charged_bytes(bytes));
}

uint64_t gs_limits_charged(int ordinal)
{
    struct device *device = device_of(ordinal);
    int group = group_of(device);
    return group >= 0 ? gs_group_charged(group)
                      : __atomic_load_n(&device->charged, __ATOMIC_RELAXED);
}

bool gs_limits_group(int ordinal, uint64_t *others)
{
    struct device *device = device_of(ordinal);
    int group = group_of(device);
    uint64_t all = group >= 0 ? gs_group_charged(group) : 0;
    uint64_t own = group >= 0 ? gs_group_own(group) : 0;
    *others = all > own ? all - own : 0;
    return group >= 0;
}

/* An allocation that asked may have got its memory: the next one begins a new row. */
void gs_limits_succeeded(int ordinal)
{
    struct device *device = device_of(ordinal);
    if (GS_UNLIKELY(__atomic_load_n(&device->asked_at, __ATOMIC_RELAXED) != 0)) {
        __atomic_store_n(&device->asked_at, 0, __ATOMIC_RELAXED);
    }
}

/* Returns true if a request may ask the other members now. After a number of requests in
 * a row that got too little, requests stop asking for a while. */
static bool may_ask(struct device *device, uint64_t now)
{
    if (now < __atomic_load_n(&device->asks_again, __ATOMIC_RELAXED)) {
        return false;
    }
    /* A new row of requests: after a while, or since one got memory. */
    if (now - __atomic_exchange_n(&device->asked_at, now, __ATOMIC_RELAXED) > ASKS_NS) {
        __atomic_store_n(&device->asks_since, now, __ATOMIC_RELAXED);
    }
    if (now - __atomic_load_n(&device->asks_since, __ATOMIC_RELAXED) <= ASKS_NS) {
        return true;
    }
    __atomic_store_n(&device->asks_again, now + ASK_PAUSE_NS, __ATOMIC_RELAXED);
    return false;
}

/* Whether the request would fit the limit if no member kept memory idle; this one may
 * keep some while its work runs. */
static bool may_fit(struct gs_state *state, struct device *device, int ordinal,
                    uint64_t own, size_t bytes)
{
    uint64_t limit = __atomic_load_n(&device->limit_bytes, __ATOMIC_RELAXED);
    uint64_t idle = state->pool ? gs_pool_idle_bytes(state->pool, ordinal) : 0;
    uint64_t used = own > idle ? own - idle : 0;
    return used <= limit && bytes <= limit - used;
}

bool gs_limits_ask_group(struct gs_state *state, int ordinal, size_t bytes)
{
    uint64_t now = gs_now_ns();
    struct device *device = device_of(ordinal);
    int group = group_of(device);
    if (bytes == SIZE_MAX) {
        bytes = GS_LARGE_BYTES; /* members give more than is wanted */
    }
    if (ordinal < 0 || group < 0 || !gs_group_offered(group) ||
        !may_fit(state, device, ordinal, gs_group_own(group), charged_bytes(bytes)) ||
        !may_ask(device, now)) {
        return false;
    }
    uint64_t before = gs_group_charged_by_others(group), others;
    struct gs_wait wait = {
        .nap_ns = ASK_NAP_NS, .longest_ns = ASK_NAP_NS, .until_ns = now + ASK_NS};
    gs_group_want(group, bytes);
    do {
        others = gs_group_charged_by_others(group);
    } while (others >= before && gs_wait_step(&wait));
    gs_group_want_no_longer(group, bytes);
    if (others >= before) { /* nor will the next one get any */
        __atomic_store_n(&device->asks_again, gs_now_ns() + ASK_PAUSE_NS,
                         __ATOMIC_RELAXED);
        return false;
    }
    gs_pool_freed_elsewhere(); /* the known amount of free memory has changed */
    return true;
}

size_t gs_limits_group_lacks(int ordinal)
{
    int group = group_of(device_of(ordinal));
    return group >= 0 ? (size_t)gs_group_wanted_by_others(group) : 0;
}

void gs_limits_nap(uint64_t ns)
{
    static uint64_t seen;
    uint64_t until = gs_now_ns() + ns, now = 0;
    if (!gs_group_wanted()) {
        gs_nap(ns);
        return;
    }
    gs_group_offer(true);
    for (bool asked = false; !asked && now < until; now = gs_now_ns()) {
        uint64_t requests;
        gs_nap(ns < GROUP_NAP_NS ? ns : GROUP_NAP_NS);
        requests = gs_group_requests();
        asked = requests != seen;
        seen = requests;
        for (int i = 0; !asked && i < GS_MAX_DEVICES; i++) {
            asked = gs_limits_group_lacks(i) != 0;
        }
    }
}

bool gs_limits_refused(int ordinal, size_t driver_free, size_t *left, size_t *limit)
{
    const struct device *device = device_of(ordinal);
    uint64_t most = gs_limits_charging ? limit_on(device, ordinal) : UINT64_MAX;
    uint64_t charged = gs_limits_charged(ordinal);
    uint64_t room = most > charged ? most - charged : 0;
    if (!gs_limits_charging || room >= driver_free) {
        return false;
    }
    *left = (size_t)room;
    *limit = (size_t)most;
    return true;
}

void gs_limits_correct(int device, size_t was, size_t bytes)
{
    if (gs_limits_charging && device >= 0) {
        add_charge(device_of(device),
                   (uint64_t)charged_bytes(bytes) - (uint64_t)charged_bytes(was));
    }
}

size_t gs_limits_most(int ordinal)
{
    const struct device *device = device_of(ordinal);
    return __atomic_load_n(&device->met, __ATOMIC_ACQUIRE)
               ? (size_t)__atomic_load_n(&device->limit_bytes, __ATOMIC_RELAXED)
               : SIZE_MAX;
}

bool gs_limits_in_use(struct gs_state *state, int ordinal,
                      struct gs_limit_use out[GS_LIMITS])
{
    const struct device *device = device_of(ordinal);
    uint64_t own = gs_pool_reserved_on(state->pool, ordinal);
    uint64_t others = __atomic_load_n(&device->others, __ATOMIC_RELAXED);
    uint64_t total = __atomic_load_n(&device->total_bytes, __ATOMIC_RELAXED);
    uint64_t share = __atomic_load_n(&pool_share, __ATOMIC_RELAXED);
    size_t pool = limit_of(share, total);
    if (!__atomic_load_n(&device->met, __ATOMIC_ACQUIRE)) {
        return false;
    }
    out[0] = (struct gs_limit_use){"the device", own + others, total};
    out[1] = (struct gs_limit_use){"GPUSHIM_POOL_LIMIT", own, pool < SIZE_MAX ? pool : 0};
    out[2] = (struct gs_limit_use){
        "GPUSHIM_MEM_LIMIT", gs_limits_charged(ordinal),
        gs_limits_charging ? __atomic_load_n(&device->limit_bytes, __ATOMIC_RELAXED) : 0};
    return true;
}

size_t gs_limits_total(size_t bytes)
{
    uint64_t share = __atomic_load_n(&mem_share, __ATOMIC_RELAXED);
    uint64_t limit = gs_limits_charging ? gs_share_bytes(share, bytes) : bytes;
    return limit < bytes ? (size_t)limit : bytes;
}

void gs_limits_info(int ordinal, size_t idle, size_t *free_bytes, size_t *total_bytes)
{
    const struct device *device = device_of(ordinal);
    uint64_t limit = __atomic_load_n(&device->limit_bytes, __ATOMIC_RELAXED);
    size_t room = *total_bytes - *free_bytes < idle ? *total_bytes : *free_bytes + idle;
    if (gs_limits_charging && __atomic_load_n(&device->met, __ATOMIC_ACQUIRE)) {
        uint64_t charged = gs_limits_charged(ordinal);
        uint64_t left = limit + idle > charged ? limit + idle - charged : 0;
        room = left < room ? (size_t)left : room;
        if (limit < *total_bytes) {
            *total_bytes = (size_t)limit;
        }
        room = room < *total_bytes ? room : *total_bytes;
    }
    *free_bytes = room;
}

/* ---- charges by key ---------------------------------------------------------------- */

void gs_limits_record(uint64_t key, size_t bytes, int device, CUcontext context)
{
    if (gs_limits_charging) {
        gs_charges_record(&charges, key, bytes, device, context);
    }
}

void gs_limits_leave(uint64_t key)
{
    if (gs_limits_charging) {
        freeing = gs_charges_leave(&charges, key);
    }
}

void gs_limits_left(bool freed)
{
    if (gs_limits_charging) {
        gs_charges_left(&charges, freeing, freed);
        freeing = NULL;
    }
}

void gs_limits_context_lost(CUcontext context)
{
    if (gs_limits_charging) {
        gs_charges_context_lost(&charges, context);
    }
}

/* ---- returning memory -------------------------------------------------------------- */

static bool is_current(const struct gs_context *context)
{
    CUcontext now = NULL;
    return gs_real()->cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == context->handle;
}

/* Returns true if other processes have taken memory since, so that driver calls to return
 * idle memory to them are justified. Memory of the program outside the pool counts as
 * other processes' memory. */
static bool is_shared(struct gs_state *state, struct device *device, int ordinal,
                      size_t used_bytes)
{
    uint64_t least = __atomic_load_n(&device->others_least, __ATOMIC_RELAXED);
    return record_others(state, device, ordinal, used_bytes) >
           least +
               __atomic_load_n(&device->reserve_bytes, __ATOMIC_RELAXED) / OTHERS_SHARE;
}

/* The bytes missing from the device's reserve. *shared: other processes have taken
 * them. */
static GS_NOINLINE size_t query_missing(struct gs_state *state, struct device *device,
                                        int ordinal, bool *shared)
{
    uint64_t reserve = __atomic_load_n(&device->reserve_bytes, __ATOMIC_RELAXED);
    size_t free_bytes, total_bytes;
    struct gs_held before = gs_pool_held(state->pool, ordinal);
    if (gs_real()->cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) {
        return 0;
    }
    *shared = is_shared(state, device, ordinal, total_bytes - free_bytes);
    uint64_t left = free_bytes;
    gs_limits_info(ordinal, 0, &free_bytes, &total_bytes);
    gs_pool_set_free_since(state->pool, ordinal, &before, free_bytes,
                           *shared ? (size_t)reserve : 0);
    struct gs_machine_memory machine;
    if (__atomic_load_n(&device->integrated, __ATOMIC_RELAXED) &&
        gs_machine_memory_read("", &machine) && machine.available_bytes < left) {
        left = machine.available_bytes;
    }
    return left < reserve ? (size_t)(reserve - left) : 0;
}

/* Returns true if the caller should query the device's free memory now: one thread each
 * QUERY_NS, since some drivers take milliseconds to answer. */
static bool is_query_due(struct device *device)
{
    uint64_t at = __atomic_load_n(&device->next_query, __ATOMIC_RELAXED);
    uint64_t now = gs_now_coarse_ns();
    return now >= at &&
           __atomic_compare_exchange_n(&device->next_query, &at, now + QUERY_NS, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* The bytes to return now for the reserve. If other processes share the device, also
 * limits the pool's idle memory to the rest until the next query. */
static size_t find_missing(struct gs_state *state, const struct gs_context *context)
{
    bool shared = false;
    size_t missing =
        query_missing(state, device_of(context->device), context->device, &shared);
    if (shared) {
        gs_pool_set_missing(state->pool, context->device, missing);
    }
    return missing;
}

size_t gs_limits_missing_now(struct gs_state *state, const struct gs_context *context,
                             bool always)
{
    return (is_query_due(device_of(context->device)) || always) && is_current(context)
               ? find_missing(state, context)
               : 0;
}

size_t gs_limits_missing(struct gs_state *state, const struct gs_context *context,
                         bool always)
{
    size_t missing = 0;
    bool pushed;
    if ((is_query_due(device_of(context->device)) || always) &&
        gs_context_push(context->handle, &pushed) == CUDA_SUCCESS) {
        missing = find_missing(state, context);
        gs_context_pop(pushed);
    }
    return missing;
}
