/*
 * real.c - finds the real driver and keeps the table of its functions.
 * Owns:  the table, the driver's address range.
 * Lock:  `adopt_lock` while the table is filled; `state` is published with release order,
 *        and everything else is immutable once the driver is kept.
 *
 * A driver may be opened, queried and closed again before it was ever initialized (for
 * instance a stub library that reports an error). Until its initialization the library
 * does not keep such a driver loaded, and the next look-up may find another one. From its
 * first successful cuInit on it stays loaded, since the library then has records of its
 * memory.
 */
#include "real.h"

#include "gs_locks.h"
#include "notify.h"
#include "elf_module.h"
#include "known.h"
#include "linker.h"
#include "log.h"
#include "wrappers.h"
#include "libraries.h"

/* A row of hooks.def at run time. Names and slots are offsets instead of pointers, so
 * that a program that never calls CUDA does not pay for relocating them. */
struct hook_row {
    uint16_t symbol; /* in `hook_text` */
    uint16_t slot;   /* in `table` */
    bool per_thread;
    bool gives_work; /* gs_real_gives_work */
    int since;
};

enum { DRIVER_UNKNOWN, DRIVER_PARTIAL, DRIVER_COMPLETE };

static struct gs_real table;         /* written under adopt_lock before `state` */
const struct gs_real *gs_real_found; /* atomic; NULL, later &table */
static struct gs_real absent;        /* no driver: every hooked slot is driver_missing */
static bool absent_filled;           /* under adopt_lock */
static struct gs_module_ref driver_module; /* likewise */
static int state = DRIVER_UNKNOWN;         /* atomic */
static bool kept;                          /* atomic: the driver is never unloaded */
static uint64_t unloads; /* atomic: gs_elf_unload_count when last checked */
static struct gs_mutex adopt_lock = GS_MUTEX(GS_RANK_DRIVER);
bool gs_look_ups_begun; /* atomic */

#define SLOT_OF(symbol) offsetof(struct gs_real, symbol) / sizeof(void *)
static_assert(sizeof(struct gs_real) / sizeof(void *) <= UINT16_MAX, "slots fit");

static void **slot_at(size_t slot)
{
    return (void **)&table + slot;
}

#define STREAM_LEGACY     false
#define STREAM_PER_THREAD true

/* By the treatment: true if the driver's own function can submit GPU work. */
#define GIVES_WORK_POOLED   false
#define GIVES_WORK_TRACKED  false
#define GIVES_WORK_ANSWERED false
#define GIVES_WORK_RECORDED false
#define GIVES_WORK_COUNTED  true
#define GIVES_WORK_ORDERED  true
#define GIVES_WORK_LOOKUP   true

static const struct hook_text {
#define GS_HOOK(symbol, name, since, stream, treatment, doc) char symbol[sizeof(#symbol)];
#include "hooks.def"
} hook_text = {
#define GS_HOOK(symbol, name, since, stream, treatment, doc) #symbol,
#include "hooks.def"
};

static_assert(sizeof(struct hook_text) < UINT16_MAX, "offsets fit");

static const struct hook_row hook_rows[] = {
#define GS_HOOK(symbol, name, since, stream, treatment, doc)                             \
    {offsetof(struct hook_text, symbol),                                                 \
     offsetof(struct gs_real, symbol) / sizeof(void *), STREAM_##stream,                 \
     GIVES_WORK_##treatment, since},
#include "hooks.def"
};

static const char *hook_symbol(const struct hook_row *row)
{
    return (const char *)&hook_text + row->symbol;
}

static void **hook_slot(const struct hook_row *row)
{
    return slot_at(row->slot);
}

struct real_row {
    const char *symbol;
    bool required;
    uint16_t slot;
};

#define NEED_REQUIRED true
#define NEED_OPTIONAL false

static const struct real_row real_rows[] = {
#define GS_REAL(symbol, since, reason, need) {#symbol, NEED_##need, SLOT_OF(symbol)},
#include "harmless.def"
};

/* The hooked functions that the library requires. */
static const char *const needed_hooks[] = {"cuCtxSynchronize", "cuEventCreate",
                                           "cuEventRecord"};

static void **counted_slot(const struct gs_counted *row)
{
    return slot_at(row->slot);
}

static const char *const runtime_names[] = {
#define GS_RUNTIME(symbol, doc) #symbol,
#include "hooks.def"
};

static_assert(GS_ARRAY_LEN(hook_rows) == GS_API_DRIVER_END - 1, "one row a driver hook");
static_assert(GS_ARRAY_LEN(hook_rows) + GS_ARRAY_LEN(runtime_names) + 1 == GS_API_COUNT,
              "the API numbers cover both tables");

/* A module is a CUDA driver if it defines this set of functions, which no other library
 * does. */
static bool is_driver(const struct gs_module_ref *module)
{
    return gs_elf_symbol(module, "cuInit") &&
           gs_elf_symbol(module, "cuDriverGetVersion") &&
           gs_elf_symbol(module, "cuCtxGetCurrent") && !gs_linker_is_own(module);
}

/* The target of a wrapper's call if the driver lacks the function: never a null
 * pointer. */
static CUresult function_missing(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

static CUresult driver_missing(void)
{
    return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
}

static bool fill_table(const struct gs_module_ref *module)
{
    bool complete = true;
    for (size_t i = 0; i < GS_ARRAY_LEN(hook_rows); i++) {
        void *found = gs_elf_symbol(module, hook_symbol(&hook_rows[i]));
        *hook_slot(&hook_rows[i]) = found ? found : (void *)function_missing;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(real_rows); i++) {
        void *found = gs_elf_symbol(module, real_rows[i].symbol);
        *slot_at(real_rows[i].slot) = found;
        complete = complete && (found || !real_rows[i].required);
    }
    for (size_t i = 0; i < gs_counted_count; i++) {
        void *found = gs_elf_symbol(module, gs_counted_symbol(&gs_counted[i]));
        *counted_slot(&gs_counted[i]) = found ? found : (void *)function_missing;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(needed_hooks); i++) {
        complete = complete && gs_elf_symbol(module, needed_hooks[i]);
    }
    gs_notify_find(gs_elf_symbol(module, "cudasim_notify"));
    return complete;
}

static void lock_table(void)
{
    (void)__atomic_exchange_n(&gs_look_ups_begun, true, __ATOMIC_SEQ_CST);
    gs_mutex_lock(&adopt_lock);
}

/* The table of a process without a driver; its slots mirror `table`'s. */
static const struct gs_real *absent_table(void)
{
    lock_table();
    for (size_t i = 0; !absent_filled && i < GS_ARRAY_LEN(hook_rows); i++) {
        ((void **)&absent)[hook_rows[i].slot] = (void *)driver_missing;
    }
    for (size_t i = 0; !absent_filled && i < gs_counted_count; i++) {
        ((void **)&absent)[gs_counted[i].slot] = (void *)driver_missing;
    }
    absent_filled = true;
    gs_mutex_unlock(&adopt_lock);
    return &absent;
}

/* adopt_lock is held. */
static void publish(const struct gs_module_ref *module)
{
    driver_module = *module;
    int found = fill_table(module) ? DRIVER_COMPLETE : DRIVER_PARTIAL;
    __atomic_store_n(&state, found, __ATOMIC_RELEASE);
    __atomic_store_n(&gs_real_found, &table, __ATOMIC_RELEASE);
}

/* Makes `module` the driver unless there is one already. */
static void adopt(const struct gs_module_ref *module)
{
    if (!is_driver(module)) {
        return;
    }
    uint64_t count = gs_elf_unload_count();
    lock_table();
    if (__atomic_load_n(&state, __ATOMIC_RELAXED) == DRIVER_UNKNOWN) {
        publish(module);
        __atomic_store_n(&unloads, count, __ATOMIC_RELEASE);
    }
    gs_mutex_unlock(&adopt_lock);
}

static int adopted(void)
{
    return __atomic_load_n(&state, __ATOMIC_ACQUIRE);
}

void gs_real_recheck(void)
{
    struct gs_module_ref now;
    if (adopted() == DRIVER_UNKNOWN || __atomic_load_n(&kept, __ATOMIC_ACQUIRE)) {
        return;
    }
    uint64_t count = gs_elf_unload_count();
    if (count <= __atomic_load_n(&unloads, __ATOMIC_ACQUIRE)) {
        return;
    }
    lock_table();
    uintptr_t begin = driver_module.begin;
    gs_mutex_unlock(&adopt_lock);
    /* Called without the lock, since this calls the loader. Another driver may have been
     * loaded at the same address, or adopted at another one meanwhile. */
    bool there = gs_elf_module_of((const void *)begin, &now) == GS_OK && is_driver(&now);
    lock_table();
    if (count > __atomic_load_n(&unloads, __ATOMIC_RELAXED) &&
        begin == driver_module.begin) {
        __atomic_store_n(&unloads, count, __ATOMIC_RELEASE);
        if (there) {
            publish(&now);
        } else {
            __atomic_store_n(&gs_real_found, NULL, __ATOMIC_RELEASE);
            __atomic_store_n(&state, DRIVER_UNKNOWN, __ATOMIC_RELEASE);
        }
    }
    gs_mutex_unlock(&adopt_lock);
}

void gs_real_keep(void)
{
    if (!__atomic_load_n(&kept, __ATOMIC_ACQUIRE) && adopted() != DRIVER_UNKNOWN &&
        (gs_elf_is_nodelete(&driver_module) ||
         gs_linker_keep((const void *)driver_module.begin))) {
        __atomic_store_n(&kept, true, __ATOMIC_RELEASE);
    }
}

const struct gs_real *gs_real(void)
{
    gs_lock_check_driver();
    if (GS_LIKELY(adopted() != DRIVER_UNKNOWN)) {
        return &table;
    }
    /* A program linked with the driver calls a wrapper without any look-up before. */
    struct gs_module_ref module;
    if (gs_elf_module_named("libcuda.so.1", false, &module) == GS_OK) {
        adopt(&module);
    }
    return adopted() != DRIVER_UNKNOWN ? &table : absent_table();
}

bool gs_real_initialized(void)
{
    CUcontext current;
    return __atomic_load_n(&kept, __ATOMIC_ACQUIRE) ||
           table.cuCtxGetCurrent(&current) == CUDA_SUCCESS;
}

const char *gs_real_lacks(void)
{
    if (adopted() != DRIVER_PARTIAL) {
        return NULL;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(real_rows); i++) {
        if (real_rows[i].required && !*slot_at(real_rows[i].slot)) {
            return real_rows[i].symbol;
        }
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(needed_hooks); i++) {
        if (!gs_elf_symbol(&driver_module, needed_hooks[i])) {
            return needed_hooks[i];
        }
    }
    return NULL;
}

bool gs_real_complete(void)
{
    return adopted() == DRIVER_COMPLETE;
}

void gs_real_after_fork(void)
{
    gs_mutex_init(&adopt_lock, GS_RANK_DRIVER);
}

bool gs_real_owns(const void *address)
{
    uintptr_t value = (uintptr_t)address;
    return adopted() != DRIVER_UNKNOWN && value >= driver_module.begin &&
           value < driver_module.end;
}

bool gs_real_exports(const char *symbol)
{
    (void)gs_real();
    return adopted() != DRIVER_UNKNOWN && gs_elf_symbol(&driver_module, symbol) != NULL;
}

bool gs_real_is_hooked(const char *name)
{
    if (name[0] != 'c' || name[1] != 'u') {
        return false;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(hook_rows); i++) {
        if (gs_elf_same_name(hook_symbol(&hook_rows[i]), name)) {
            return true;
        }
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(runtime_names); i++) {
        if (gs_elf_same_name(runtime_names[i], name)) {
            return true;
        }
    }
    return gs_counted_find(name) != NULL;
}

bool gs_real_gives_work(const char *symbol)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(hook_rows); i++) {
        if (gs_elf_same_name(hook_symbol(&hook_rows[i]), symbol)) {
            return hook_rows[i].gives_work;
        }
    }
    return gs_counted_find(symbol) != NULL;
}

/* Logs that the process has a second driver: drivers share no state, and the shim serves
 * the first. */
static void log_second_driver(const void *found)
{
    static struct gs_log_limit limit;
    struct gs_module_ref module;
    if (!gs_real_owns(found) && gs_elf_module_of(found, &module) == GS_OK &&
        is_driver(&module)) {
        gs_log_once(
            &limit, GS_LOG_WARN,
            "a second CUDA driver is loaded; what is done through it is not seen");
    }
}

void *gs_real_substitute(const char *symbol, void *found)
{
    if (adopted() == DRIVER_UNKNOWN) {
        struct gs_module_ref module;
        if (gs_elf_module_of(found, &module) != GS_OK) {
            return found;
        }
        adopt(&module);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(hook_rows); i++) {
        const struct hook_row *row = &hook_rows[i];
        if (found == *hook_slot(row) && gs_elf_same_name(hook_symbol(row), symbol)) {
            return gs_hook_wrappers[i];
        }
    }
    const struct gs_counted *row = gs_counted_find(symbol);
    if (row && found == *counted_slot(row)) {
        return gs_counted_wrappers[row - gs_counted];
    }
    if (gs_real_gives_work(symbol)) {
        gs_known_end_proof(symbol); /* another tool's, or another driver's */
        gs_libraries_looked_up();
    }
    log_second_driver(found);
    return found;
}

/* A hooked function of one ABI, of either table. */
struct candidate {
    const char *name;
    int since;
    bool per_thread;
    void *wrapper, *real;
};

static struct candidate candidate_at(size_t i)
{
    if (i < GS_ARRAY_LEN(hook_rows)) {
        const struct hook_row *row = &hook_rows[i];
        return (struct candidate){gs_api_name((unsigned)i + 1), row->since,
                                  row->per_thread, gs_hook_wrappers[i], *hook_slot(row)};
    }
    const struct gs_counted *row = &gs_counted[i - GS_ARRAY_LEN(hook_rows)];
    return (struct candidate){gs_counted_name(row), row->since, row->per_thread,
                              gs_counted_wrappers[row - gs_counted], *counted_slot(row)};
}

static size_t candidate_count(void)
{
    return GS_ARRAY_LEN(hook_rows) + gs_counted_count;
}

/* The newest ABI of `name` that `version` may get; the tables hold all that exist. */
static bool find_by_version(const char *name, int version, bool per_thread,
                            struct candidate *best)
{
    bool any = false;
    for (size_t i = 0; i < candidate_count(); i++) {
        struct candidate row = candidate_at(i);
        if (row.per_thread == per_thread && row.since <= version &&
            (!any || row.since > best->since) && gs_elf_same_name(row.name, name)) {
            *best = row;
            any = true;
        }
    }
    return any;
}

/* The wrapper for the driver's answer, or NULL. */
static void *wrapper_of(const char *name, const void *found, int version,
                        cuuint64_t flags)
{
    struct candidate row;
    /* The address determines the ABI: the wrapper has the one that the driver chose. */
    for (size_t i = 0; i < candidate_count(); i++) {
        row = candidate_at(i);
        if (found == row.real && gs_elf_same_name(row.name, name)) {
            return row.wrapper;
        }
    }
    /* The address is not an export, but a private entry point of the same function. The
     * wrapper calls the export of the same ABI instead. The tables have every ABI of
     * their names up to GS_CUDA_NEWEST, so for versions up to there the newest fitting
     * row is this export. Without a stream there is no per-thread variant. */
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    bool known = find_by_version(name, version, per_thread, &row) ||
                 (per_thread && find_by_version(name, version, false, &row));
    if (known && version <= GS_CUDA_NEWEST && gs_real_owns(row.real) &&
        gs_real_owns(found)) {
        return row.wrapper;
    }
    return NULL;
}

void *gs_real_substitute_version(const char *name, void *found, int version,
                                 cuuint64_t flags)
{
    void *wrapper = wrapper_of(name, found, version, flags);
    if (!wrapper && gs_known_is_driver_name(name) && !gs_known_harmless(name)) {
        gs_known_end_proof(name);
    }
    return wrapper ? wrapper : found;
}
