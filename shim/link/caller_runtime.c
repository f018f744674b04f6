/*
 * caller_runtime.c - finds the CUDA runtime of a caller, and caches the result twice: for
 * the calling module, until any library is unloaded; and for the call's return address,
 * which is looked up without a lock.
 *
 * The result for a return address is valid until an unload of a library is reported
 * (unloads.h). So it is cached only if the caller's module and the found one report their
 * unload, or are never unloaded, and not while an unload is in progress, since
 * destructors may call. The table is small, and entries may evict each other.
 *
 * Owns:  both tables.
 * Lock:  callers_lock, a leaf, for all writes, and for reading the modules. Each entry
 *        for a return address has a sequence number: odd while it is written.
 */
#include "shim/link/caller_runtime.h"

#include "gs_locks.h"
#include "shim/link/elf_module.h"
#include "shim/link/linker.h"
#include "shim/link/real.h"
#include "shim/link/unloads.h"
#include "shim/settings/thread.h"
#include "tracker/names/loader_gate.h"

static const char *const call_names[GS_RUNTIME_COUNT] = {
#define GS_RUNTIME(symbol, doc) #symbol,
#include "shim/entries/hooks.def"
};

/* ---- the search ------------------------------------------------------------------ */

/* Whether the module is a runtime: it defines a function that no tool replaces. */
static bool is_runtime(const struct gs_module_ref *module)
{
    return gs_elf_callable(module, "cudaGetDeviceCount") != NULL;
}

static int visit_tool(struct dl_phdr_info *info, size_t size, void *data)
{
    struct gs_module_ref module = gs_elf_module_in(info);
    (void)size;
    return !gs_linker_is_own(&module) && gs_elf_callable(&module, data) &&
           !is_runtime(&module);
}

/* The next definition in a library after the shim that replaces this call too, and is not
 * a runtime. Most processes have no such library. dlsym would take the lock that dlopen
 * holds while a library's constructors run, and a constructor may wait for the thread
 * that makes this call: dlsym is called only where a library defines the call. */
static void *other_tool(const char *name)
{
    struct gs_module_ref module;
    void *next =
        gs_elf_visit(visit_tool, (void *)(uintptr_t)name) ? gs_linker_next(name) : NULL;
    if (!next || gs_elf_module_of(next, &module) != GS_OK || is_runtime(&module)) {
        return NULL;
    }
    return next;
}

/* The runtime that the calling module was linked with: inside it, or named in its
 * DT_NEEDED. */
static void *own_runtime(const struct gs_module_ref *caller, const char *name)
{
    struct gs_module_ref runtime;
    if (is_runtime(caller)) {
        return gs_elf_callable(caller, name);
    }
    const char *soname = gs_elf_needed(caller, "libcudart.so");
    if (soname && gs_elf_module_named(soname, false, &runtime) == GS_OK) {
        return gs_elf_callable(&runtime, name);
    }
    return NULL;
}

/* A call that no runtime in the caller's reach defines. */
struct definition {
    const struct gs_module_ref *caller;
    const char *name;
    bool needed; /* only a library that the caller names in its DT_NEEDED */
    void *found;
};

static int visit_definition(struct dl_phdr_info *info, size_t size, void *data)
{
    struct definition *search = data;
    struct gs_module_ref module = gs_elf_module_in(info);
    const char *soname = gs_elf_soname(&module);
    (void)size;
    if (gs_linker_is_own(&module) ||
        (search->needed && !(soname && gs_elf_needed(search->caller, soname) != NULL))) {
        return 0;
    }
    search->found = gs_elf_callable(&module, search->name);
    return search->found != NULL;
}

/* The first loaded library that defines the call. Libraries on which the caller depends
 * come first: a framework's trampolines open the runtime at their first call. */
static void *any_definition(const struct gs_module_ref *caller, const char *name)
{
    struct definition search = {.caller = caller, .name = name, .needed = true};
    if (!gs_elf_visit(visit_definition, &search)) {
        search.needed = false;
        (void)gs_elf_visit(visit_definition, &search);
    }
    return search.found;
}

/* Searches from the most certain place to the least. */
static void *find_call(const struct gs_module_ref *caller, const char *name)
{
    struct gs_module_ref runtime;
    void *found = other_tool(name);
    if (!found) {
        found = own_runtime(caller, name);
    }
    if (!found) {
        found = gs_linker_next(name);
    }
    if (!found && gs_elf_module_named("libcudart.so", true, &runtime) == GS_OK) {
        found = gs_elf_callable(&runtime, name);
    }
    return found ? found : any_definition(caller, name);
}

/* ---- by module ------------------------------------------------------------------- */

/* The result of a search. */
struct answer {
    void *found;   /* NULL: not found */
    bool reported; /* both modules report their unload, or stay */
};

/* The results for the calls of one module. */
struct caller_entry {
    uintptr_t begin, end;
    struct answer calls[GS_RUNTIME_COUNT];
};

#define MAX_CALLERS 128

static struct gs_mutex callers_lock = GS_MUTEX(GS_RANK_CALLERS);
static struct caller_entry callers[MAX_CALLERS]; /* under callers_lock */
static size_t caller_count;                      /* under callers_lock */
static uint64_t callers_unloads; /* under callers_lock: gs_elf_unload_count then */

/* The entry of the module around an address, or NULL. First drops entries from before an
 * unload, since another module may have the same addresses now. callers_lock is held. */
static struct caller_entry *caller_at(uintptr_t address, uint64_t unloads)
{
    if (callers_unloads != unloads) {
        callers_unloads = unloads;
        caller_count = 0;
    }
    for (size_t i = 0; i < caller_count; i++) {
        if (address >= callers[i].begin && address < callers[i].end) {
            return &callers[i];
        }
    }
    return NULL;
}

/* Caches the answer for the caller's module. Does nothing if the table is full or a
 * module has been unloaded since the search: each later call then searches again. */
static void cache_answer(const struct gs_module_ref *module, enum gs_runtime_call call,
                         struct answer answer, uint64_t unloads)
{
    gs_mutex_lock(&callers_lock);
    struct caller_entry *entry = caller_at(module->begin, unloads);
    if (!entry && caller_count < MAX_CALLERS) {
        entry = &callers[caller_count++];
        *entry = (struct caller_entry){.begin = module->begin, .end = module->end};
    }
    if (entry) {
        entry->calls[call] = answer;
    }
    gs_mutex_unlock(&callers_lock);
}

static struct answer cached_answer(enum gs_runtime_call call, const void *caller,
                                   uint64_t unloads)
{
    gs_mutex_lock(&callers_lock);
    struct caller_entry *entry = caller_at((uintptr_t)caller, unloads);
    struct answer answer = entry ? entry->calls[call] : (struct answer){NULL, false};
    gs_mutex_unlock(&callers_lock);
    return answer;
}

/* ---- by call site ---------------------------------------------------------------- */

#define SITES 512 /* a power of two */

struct site {
    uint32_t sequence;   /* atomic; odd while it is written */
    uint32_t call;       /* atomic, like all members */
    uint64_t generation; /* of gs_unloads; 0: unused */
    uintptr_t caller;    /* the return address */
    void *found;
};

static struct site sites[SITES]; /* written under callers_lock */

/* The first of the address's two entries. */
static size_t site_of(uintptr_t caller)
{
    return (caller ^ caller >> 12) % SITES;
}

static size_t the_other(size_t site)
{
    return site ^ 1;
}

/* Reads each field before it reads the sequence again. */
static void *found_in(const struct site *site, enum gs_runtime_call call,
                      uintptr_t caller, uint64_t generation)
{
    uint32_t sequence = __atomic_load_n(&site->sequence, __ATOMIC_ACQUIRE);
    bool is_it = __atomic_load_n(&site->caller, __ATOMIC_ACQUIRE) == caller &&
                 __atomic_load_n(&site->call, __ATOMIC_ACQUIRE) == (uint32_t)call &&
                 __atomic_load_n(&site->generation, __ATOMIC_ACQUIRE) == generation;
    void *found = __atomic_load_n(&site->found, __ATOMIC_ACQUIRE);
    bool whole =
        !(sequence & 1) && __atomic_load_n(&site->sequence, __ATOMIC_RELAXED) == sequence;
    return is_it && whole ? found : NULL;
}

static void *found_at(enum gs_runtime_call call, uintptr_t caller, uint64_t generation)
{
    size_t site = site_of(caller);
    void *found = found_in(&sites[site], call, caller, generation);
    return GS_LIKELY(found != NULL)
               ? found
               : found_in(&sites[the_other(site)], call, caller, generation);
}

/* The last valid result, for a forked child that must not call the loader: no library is
 * unloaded there. */
static void *found_last(enum gs_runtime_call call, uintptr_t caller)
{
    size_t site = site_of(caller);
    void *found = found_in(&sites[site], call, caller, sites[site].generation);
    site = the_other(site);
    return found ? found : found_in(&sites[site], call, caller, sites[site].generation);
}

/* Makes the sequence odd before it writes a field. callers_lock is held. */
static void write_site(struct site *site, const struct site *what)
{
    uint32_t sequence = site->sequence;
    __atomic_store_n(&site->sequence, sequence | 1, __ATOMIC_RELAXED);
    __atomic_store_n(&site->caller, what->caller, __ATOMIC_RELEASE);
    __atomic_store_n(&site->call, what->call, __ATOMIC_RELEASE);
    __atomic_store_n(&site->generation, what->generation, __ATOMIC_RELEASE);
    __atomic_store_n(&site->found, what->found, __ATOMIC_RELEASE);
    __atomic_store_n(&site->sequence, (sequence | 1) + 1, __ATOMIC_RELEASE);
}

/* Replaces an invalid entry of the two, if there is one. callers_lock is held. */
static void keep(const struct site *what)
{
    size_t site = site_of(what->caller);
    if (sites[site].generation == what->generation &&
        sites[the_other(site)].generation != what->generation) {
        site = the_other(site);
    }
    write_site(&sites[site], what);
}

/* ---- during an unload ------------------------------------------------------------ */

static uint64_t settled = 1;   /* under callers_lock: unloads up to it are over */
static uint64_t waits_in;      /* under callers_lock: its library was there */
static uint64_t waits_unloads; /* under callers_lock: gs_elf_unload_count then */

/* Returns true if the unload that began this generation has finished. Calls the loader
 * once for each generation; afterwards the loader's count suffices. */
static bool is_settled(uint64_t generation, uint64_t unloads)
{
    struct gs_module_ref module;
    gs_mutex_lock(&callers_lock);
    bool waits = waits_in == generation;
    if (waits && waits_unloads != unloads) {
        settled = generation;
    }
    bool is = settled == generation;
    gs_mutex_unlock(&callers_lock);
    if (is || waits) {
        return is;
    }
    is = gs_elf_module_of(gs_unloads_last(), &module) != GS_OK;
    gs_mutex_lock(&callers_lock);
    if (is) {
        settled = generation;
    } else {
        waits_in = generation;
        waits_unloads = unloads;
    }
    gs_mutex_unlock(&callers_lock);
    return is;
}

/* ---- the look-up ----------------------------------------------------------------- */

static bool report_unloads(const struct gs_module_ref *caller, const void *found)
{
    struct gs_module_ref module;
    return gs_unloads_reports(caller) && gs_elf_module_of(found, &module) == GS_OK &&
           gs_unloads_reports(&module);
}

/* Searches for the real function behind `call` for code at `caller`. Code outside every
 * module gets none, without a log line. */
static struct answer search_call(enum gs_runtime_call call, const void *caller,
                                 uint64_t unloads)
{
    struct gs_module_ref module;
    if (gs_elf_module_of(caller, &module) != GS_OK) {
        return (struct answer){gs_linker_next(call_names[call]), false};
    }
    struct answer answer = {find_call(&module, call_names[call]), false};
    if (answer.found) {
        answer.reported = report_unloads(&module, answer.found);
        cache_answer(&module, call, answer, unloads);
    }
    return answer;
}

/* The cached result for the caller's module, or a new search. */
static __attribute__((noinline)) void *
find_for_module(enum gs_runtime_call call, const void *caller, uint64_t generation)
{
    static bool prepared; /* atomic */
    if (!__atomic_load_n(&prepared, __ATOMIC_ACQUIRE)) {
        (void)__atomic_exchange_n(&gs_look_ups_begun, true, __ATOMIC_SEQ_CST);
        __atomic_store_n(&prepared, true, __ATOMIC_RELEASE);
        gs_elf_learn_loader();
    }
    if (GS_UNLIKELY(gs_loader_is_shut())) {
        void *found = found_last(call, (uintptr_t)caller);
        return found ? found : gs_linker_next(call_names[call]);
    }
    uint64_t unloads = gs_elf_unload_count();
    struct answer answer = cached_answer(call, caller, unloads);
    if (!answer.found) {
        answer = search_call(call, caller, unloads);
    }
    if (answer.reported && is_settled(generation, unloads)) {
        const struct site what = {.call = (uint32_t)call,
                                  .generation = generation,
                                  .caller = (uintptr_t)caller,
                                  .found = answer.found};
        gs_mutex_lock(&callers_lock);
        keep(&what);
        gs_mutex_unlock(&callers_lock);
    }
    return answer.found;
}

void *gs_caller_runtime(enum gs_runtime_call call, const void *caller)
{
    uint64_t generation = gs_unloads_generation();
    void *found = found_at(call, (uintptr_t)caller, generation);
    if (GS_LIKELY(found != NULL)) {
        return found;
    }
    /* A signal handler that interrupted this very function must not wait for its lock. */
    if (gs_thread.finding_runtime) {
        struct gs_module_ref module;
        return gs_elf_module_of(caller, &module) == GS_OK
                   ? find_call(&module, call_names[call])
                   : gs_linker_next(call_names[call]);
    }
    gs_thread.finding_runtime = true;
    found = find_for_module(call, caller, generation);
    gs_thread.finding_runtime = false;
    return found;
}

/* Another thread may have been writing. */
void gs_caller_runtime_after_fork(void)
{
    gs_mutex_init(&callers_lock, GS_RANK_CALLERS);
    for (size_t i = 0; i < SITES; i++) {
        if (sites[i].sequence & 1) {
            sites[i] = (struct site){0};
        }
    }
}
