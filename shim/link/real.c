/*
 * real.c - finds the next definitions of the driver's functions, and keeps their table.
 *
 * The table has, for each function, the definition that the program would call without
 * the shim. In the global scope this is the first one after the shim: the driver's own,
 * or that of a library which stands in front of the driver (a quota library of
 * /etc/ld.so.preload, a framework's trampolines). A program that looked the driver up by
 * a handle, while the global scope has no driver, gets what the handle answered.
 *
 * Owns:  the table, and the chain: the modules that define its functions.
 * Lock:  `adopt_lock` while the table is filled; `state` is published with release order,
 *        and the table is immutable once the driver is kept, except that a function that
 *        was missing may be added. No call of the loader is made under the lock.
 *
 * A driver may be opened, queried and closed again before it was ever initialized (for
 * instance a stub library that reports an error). Until its initialization the library
 * does not keep such a driver loaded, and the next look-up may find another one. From its
 * first successful cuInit on it stays loaded, since the library then has records of its
 * memory.
 */
#include "shim/link/real.h"

#include <dlfcn.h>
#include <errno.h>

#include "gs_locks.h"
#include "shim/link/hook_rows.h"
#include "shim/link/linker.h"
#include "shim/link/notify.h"
#include "shim/link/origin.h"
#include "tracker/names/loader_gate.h"

enum { DRIVER_UNKNOWN, DRIVER_PARTIAL, DRIVER_COMPLETE };

const struct gs_real *gs_real_found; /* atomic; NULL, later the table */
static struct gs_real absent;        /* no driver: every hooked slot is driver_missing */
static bool absent_filled;           /* under adopt_lock */
static int state = DRIVER_UNKNOWN;   /* atomic */
static bool kept;                    /* atomic: the driver is never unloaded */
static uint64_t unloads;             /* atomic: gs_elf_unload_count when last checked */
static uint64_t searched;   /* atomic: gs_elf_load_count when nothing was found last */
static const char *lacking; /* atomic: the first required function that is missing */
static struct gs_mutex adopt_lock = GS_MUTEX(GS_RANK_DRIVER);
bool gs_look_ups_begun; /* atomic */

/* The hooked functions that the library requires. */
static const char *const needed_hooks[] = {"cuCtxSynchronize",  "cuEventCreate",
                                           "cuEventDestroy_v2", "cuEventQuery",
                                           "cuEventRecord",     "cuEventSynchronize"};

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

static int driver_state(void)
{
    return __atomic_load_n(&state, __ATOMIC_ACQUIRE);
}

bool gs_real_is_adopted(void)
{
    return driver_state() != DRIVER_UNKNOWN;
}

/* ---- the chain ------------------------------------------------------------------------
 */

/*
 * The modules that define functions of the table, or of which the driver has answered
 * functions. A module of the chain that looks up a driver's function is on its way to the
 * driver, and gets it as it is. Written under adopt_lock; entries below `chain_count` are
 * read without it.
 */
#define CHAIN_MOST GS_DEFINERS
static struct gs_module_ref chain[CHAIN_MOST];
static size_t chain_count; /* atomic */

static struct gs_module_ref origin_module; /* under adopt_lock: the table's */
static bool origin_by_scope;               /* likewise */

static bool lies_in(const struct gs_module_ref *module, const void *address)
{
    uintptr_t value = (uintptr_t)address;
    return value >= module->begin && value < module->end;
}

bool gs_real_owns(const void *address)
{
    size_t count = __atomic_load_n(&chain_count, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < count && driver_state() != DRIVER_UNKNOWN; i++) {
        if (lies_in(&chain[i], address)) {
            return true;
        }
    }
    return false;
}

/* adopt_lock is held. */
static void chain_add(const struct gs_module_ref *module)
{
    for (size_t i = 0; i < chain_count; i++) {
        if (chain[i].begin == module->begin) {
            return;
        }
    }
    if (chain_count < CHAIN_MOST) {
        chain[chain_count] = *module;
        __atomic_store_n(&chain_count, chain_count + 1, __ATOMIC_RELEASE);
    }
}

/* The next definition of a function; its module joins the chain. adopt_lock is held. */
static void *resolve(const struct gs_origin *origin, const char *symbol)
{
    const struct gs_definers *definers = &origin->definers;
    uint32_t hash = gs_elf_hash(symbol);
    void *found = origin->by_scope ? gs_definers_next(definers, symbol, hash) : NULL;
    if (!found && origin->module.dynamic) {
        found = gs_elf_callable_hashed(&origin->module, symbol, hash);
    }
    for (size_t i = 0; found && i < definers->count; i++) {
        if (lies_in(&definers->modules[i], found)) {
            chain_add(&definers->modules[i]);
        }
    }
    if (found && lies_in(&origin->module, found)) {
        chain_add(&origin->module);
    }
    return found;
}

/* ---- the table ------------------------------------------------------------------------
 */

static void set_entry(const struct gs_entry *entry, void *found)
{
    void *missing = entry->may_be_null ? NULL : (void *)function_missing;
    __atomic_store_n(entry->slot, found ? found : missing, __ATOMIC_RELEASE);
}

static bool is_missing(const void *found)
{
    return !found || found == (const void *)function_missing;
}

/* The first required function that the table lacks, or NULL. */
static const char *first_lacking(void)
{
    for (size_t i = 0; i < gs_entry_count(); i++) {
        struct gs_entry entry = gs_entry_at(i);
        if (entry.required && is_missing(*entry.slot)) {
            return entry.symbol;
        }
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(needed_hooks); i++) {
        int row = gs_hook_find(needed_hooks[i]);
        if (row < 0 || is_missing(*gs_hook_at((size_t)row).slot)) {
            return needed_hooks[i];
        }
    }
    return NULL;
}

/* adopt_lock is held. */
static void publish_state(void)
{
    const char *lacks = first_lacking();
    __atomic_store_n(&lacking, lacks, __ATOMIC_RELEASE);
    __atomic_store_n(&state, lacks ? DRIVER_PARTIAL : DRIVER_COMPLETE, __ATOMIC_RELEASE);
}

/* adopt_lock is held. */
static void publish(const struct gs_origin *origin)
{
    __atomic_store_n(&chain_count, 0, __ATOMIC_RELEASE);
    origin_module = origin->module;
    origin_by_scope = origin->by_scope;
    for (size_t i = 0; i < gs_entry_count(); i++) {
        struct gs_entry entry = gs_entry_at(i);
        set_entry(&entry, resolve(origin, entry.symbol));
    }
    for (size_t i = 0; i < chain_count; i++) {
        gs_notify_find(gs_elf_symbol(&chain[i], "cudasim_notify"));
    }
    publish_state();
    __atomic_store_n(&gs_real_found, &gs_hook_table, __ATOMIC_RELEASE);
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
    for (size_t i = 0; !absent_filled && i < gs_hook_count(); i++) {
        size_t slot = (size_t)(gs_hook_at(i).slot - (void **)&gs_hook_table);
        ((void **)&absent)[slot] = (void *)driver_missing;
    }
    absent_filled = true;
    gs_mutex_unlock(&adopt_lock);
    return &absent;
}

/* ---- adoption -------------------------------------------------------------------------
 */

/* Makes this the driver unless there is one already. Returns whether it is. */
static bool adopt(const struct gs_origin *origin)
{
    uint64_t count = gs_elf_unload_count();
    lock_table();
    bool is = driver_state() == DRIVER_UNKNOWN;
    if (is) {
        publish(origin);
        __atomic_store_n(&unloads, count, __ATOMIC_RELEASE);
    }
    gs_mutex_unlock(&adopt_lock);
    return is;
}

/* Asks the next dlsym, if another tool after the shim has one, for each function: the
 * tool answers some names by functions of its own, which are then the next definitions.
 */
static void ask_next_dlsym(void *handle)
{
    gs_dlsym_fn *find = gs_linker_dlsym();
    if (!handle || !find || find == gs_linker_libc_dlsym()) {
        return;
    }
    for (size_t i = 0; i < gs_entry_count(); i++) {
        struct gs_entry entry = gs_entry_at(i);
        struct gs_module_ref module;
        void *found = find(handle, entry.symbol);
        if (found && gs_elf_module_of(found, &module) == GS_OK &&
            gs_linker_is_own(&module)) {
            /* The tool's own function by its name, which is the shim's first. */
            found = gs_linker_next(entry.symbol);
        }
        if (found && found != *entry.slot && gs_elf_module_of(found, &module) == GS_OK) {
            lock_table();
            set_entry(&entry, found);
            chain_add(&module);
            gs_mutex_unlock(&adopt_lock);
        }
    }
    (void)dlerror(); /* NOLINT(concurrency-mt-unsafe): the thread's own */
}

void gs_real_adopt(void *handle, const void *found)
{
    struct gs_origin origin = {.by_scope = false};
    if (driver_state() == DRIVER_UNKNOWN && gs_origin_by_handle(handle, found, &origin) &&
        adopt(&origin)) {
        ask_next_dlsym(handle);
    }
}

void gs_real_deeper(const void *found)
{
    struct gs_module_ref module;
    if (driver_state() == DRIVER_UNKNOWN || gs_real_owns(found) ||
        gs_elf_module_of(found, &module) != GS_OK || !gs_real_is_driver(&module)) {
        return;
    }
    lock_table();
    for (size_t i = 0; i < gs_entry_count(); i++) {
        struct gs_entry entry = gs_entry_at(i);
        if (is_missing(*entry.slot)) {
            set_entry(&entry, gs_elf_callable(&module, entry.symbol));
        }
    }
    chain_add(&module);
    publish_state();
    gs_mutex_unlock(&adopt_lock);
}

void gs_real_recheck(void)
{
    if (driver_state() == DRIVER_UNKNOWN || __atomic_load_n(&kept, __ATOMIC_ACQUIRE)) {
        return;
    }
    uint64_t count = gs_elf_unload_count();
    if (count <= __atomic_load_n(&unloads, __ATOMIC_ACQUIRE)) {
        return;
    }
    struct gs_origin origin;
    lock_table();
    origin.module = origin_module;
    origin.by_scope = origin_by_scope;
    gs_mutex_unlock(&adopt_lock);
    uintptr_t begin = origin.module.begin;
    /* Another driver may have been loaded at the same address, or adopted at another one
     * since. */
    bool there = !origin.module.dynamic ||
                 (gs_elf_module_of((const void *)begin, &origin.module) == GS_OK &&
                  gs_real_is_driver(&origin.module));
    gs_definers_find(&origin.definers);
    lock_table();
    if (count > __atomic_load_n(&unloads, __ATOMIC_RELAXED) &&
        begin == origin_module.begin) {
        __atomic_store_n(&unloads, count, __ATOMIC_RELEASE);
        if (there) {
            publish(&origin);
        } else {
            __atomic_store_n(&gs_real_found, NULL, __ATOMIC_RELEASE);
            __atomic_store_n(&state, DRIVER_UNKNOWN, __ATOMIC_RELEASE);
        }
    }
    gs_mutex_unlock(&adopt_lock);
}

/* Visits modules until one has the simulated driver's notify function. */
static int find_notify(struct dl_phdr_info *info, size_t size, void *found)
{
    struct gs_module_ref module = gs_elf_module_in(info);
    (void)size;
    *(void **)found = gs_elf_symbol(&module, "cudasim_notify");
    return *(void **)found != NULL;
}

/* Keeps a module loaded. Returns whether it stays. */
static bool keep_module(const struct gs_module_ref *module)
{
    return gs_elf_is_nodelete(module) || gs_linker_loaded_at_start(module) ||
           gs_linker_keep((const void *)module->begin);
}

void gs_real_keep(void)
{
    if (__atomic_load_n(&kept, __ATOMIC_ACQUIRE) || driver_state() == DRIVER_UNKNOWN) {
        return;
    }
    bool all = true;
    for (size_t i = 0; i < chain_count; i++) {
        all = keep_module(&chain[i]) && all;
    }
    if (all) {
        __atomic_store_n(&kept, true, __ATOMIC_RELEASE);
    }
    /* By now a driver that forwards to the simulated one has opened it. */
    void *notify = NULL;
    if (!gs_notified() && gs_elf_visit(find_notify, &notify)) {
        gs_notify_find(notify);
    }
}

const struct gs_real *gs_real(void)
{
    gs_lock_check_driver();
    if (GS_LIKELY(driver_state() != DRIVER_UNKNOWN)) {
        return &gs_hook_table;
    }
    /* A program linked with the driver calls a wrapper without any look-up before. */
    uint64_t loads = gs_elf_load_count();
    if (loads != __atomic_load_n(&searched, __ATOMIC_ACQUIRE)) {
        struct gs_origin origin = {.by_scope = true};
        if (!gs_origin_by_name(&origin)) {
            __atomic_store_n(&searched, loads, __ATOMIC_RELEASE);
        } else {
            (void)adopt(&origin);
        }
    }
    return driver_state() != DRIVER_UNKNOWN ? &gs_hook_table : absent_table();
}

void gs_real_open(const char *symbol, const void *caller)
{
    int saved_errno = errno;
    struct gs_module_ref asking;
    (void)gs_real();
    if (driver_state() == DRIVER_UNKNOWN &&
        !(gs_elf_module_of(caller, &asking) == GS_OK &&
          gs_elf_imports_weakly(&asking, symbol)) &&
        gs_loader_enter_after_fork()) {
        void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
        gs_loader_leave();
        if (driver) {
            (void)gs_real();
        } else {
            (void)dlerror(); /* NOLINT(concurrency-mt-unsafe): the thread's own */
        }
    }
    errno = saved_errno;
}

bool gs_real_initialized(void)
{
    CUcontext current;
    return __atomic_load_n(&kept, __ATOMIC_ACQUIRE) ||
           gs_hook_table.cuCtxGetCurrent(&current) == CUDA_SUCCESS;
}

const char *gs_real_lacks(void)
{
    return driver_state() == DRIVER_PARTIAL ? __atomic_load_n(&lacking, __ATOMIC_ACQUIRE)
                                            : NULL;
}

bool gs_real_complete(void)
{
    return driver_state() == DRIVER_COMPLETE;
}

void gs_real_after_fork(void)
{
    gs_mutex_init(&adopt_lock, GS_RANK_DRIVER);
}

bool gs_real_exports(const char *symbol)
{
    (void)gs_real();
    for (size_t i = 0; driver_state() != DRIVER_UNKNOWN && i < chain_count; i++) {
        if (gs_elf_callable(&chain[i], symbol)) {
            return true;
        }
    }
    return false;
}

bool gs_hook_is_there(const struct gs_hook *hook)
{
    return driver_state() != DRIVER_UNKNOWN &&
           !is_missing(__atomic_load_n(hook->slot, __ATOMIC_ACQUIRE));
}

void gs_hook_answered(const struct gs_hook *hook, void *found)
{
    struct gs_module_ref module;
    bool known = gs_elf_module_of(found, &module) == GS_OK && !gs_linker_is_own(&module);
    if (!known || driver_state() == DRIVER_UNKNOWN) {
        return;
    }
    lock_table();
    if (is_missing(*hook->slot)) {
        __atomic_store_n(hook->slot, found, __ATOMIC_RELEASE);
        publish_state();
    } else if (found != *hook->slot) {
        __atomic_store_n(hook->answer, found, __ATOMIC_RELEASE);
    }
    chain_add(&module);
    gs_mutex_unlock(&adopt_lock);
}
