/*
 * substitute.c - what a program gets for the driver's function that its look-up has
 * found.
 *
 * Whether a function is the driver's is decided by answers, not by where it is: it is if
 * the table has it, or if the driver answers it for the name and a version. So a driver
 * that forwards to another one, and answers with the other's functions, is seen through.
 *
 * Owns:  nothing.   Lock: none. The driver may be called, never under a lock.
 */
#include "shim/link/real.h"

#include "shim/link/elf_module.h"
#include "shim/link/guards.h"
#include "shim/link/hook_rows.h"
#include "shim/link/known_functions.h"
#include "shim/link/libraries.h"
#include "shim/link/library_hooks.h"
#include "shim/link/linker.h"
#include "shim/settings/log.h"
#include "shim/settings/thread.h"

/* ---- questions to a driver ------------------------------------------------------------
 */

/* The look-up functions of a driver; NULL: it has none. */
struct look_up {
    __typeof__(cuGetProcAddress_v2) *newer;
    __typeof__(cuGetProcAddress) *older;
};

static struct look_up look_up_of_table(void)
{
    struct look_up look_up = {NULL, NULL};
    int newer = gs_hook_find("cuGetProcAddress_v2"),
        older = gs_hook_find("cuGetProcAddress");
    struct gs_hook hook = gs_hook_at((size_t)newer);
    if (gs_hook_is_there(&hook)) {
        look_up.newer = gs_hook_table.cuGetProcAddress_v2;
    }
    hook = gs_hook_at((size_t)older);
    if (gs_hook_is_there(&hook)) {
        look_up.older = gs_hook_table.cuGetProcAddress;
    }
    return look_up;
}

static struct look_up look_up_of(const struct gs_module_ref *module)
{
    return (struct look_up){
        (__typeof__(cuGetProcAddress_v2) *)gs_elf_callable(module, "cuGetProcAddress_v2"),
        (__typeof__(cuGetProcAddress) *)gs_elf_callable(module, "cuGetProcAddress")};
}

/* The driver's answer for a name and a version; NULL: none. */
static void *ask(struct look_up look_up, const char *name, int version, cuuint64_t flags)
{
    void *found = NULL;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    gs_thread.asks_driver++;
    if (look_up.newer) {
        result = look_up.newer(name, &found, version, flags, NULL);
    } else if (look_up.older) {
        result = look_up.older(name, &found, version, flags);
    }
    gs_thread.asks_driver--;
    return result == CUDA_SUCCESS ? found : NULL;
}

static cuuint64_t flags_of(const struct gs_hook *hook)
{
    return hook->per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
}

/* A tool after the shim that answers with a function of its own by name has got the
 * shim's: that is the first one. */
static bool has_address(const struct gs_hook *hook, const void *found)
{
    return found == hook->wrapper ||
           found == __atomic_load_n(hook->slot, __ATOMIC_ACQUIRE) ||
           found == __atomic_load_n(hook->answer, __ATOMIC_ACQUIRE);
}

/* Returns true if the driver answers `found` for the row's name and version. */
static bool driver_answers(const struct gs_hook *hook, void *found)
{
    if (!gs_real_is_adopted() ||
        ask(look_up_of_table(), hook->name, hook->since, flags_of(hook)) != found) {
        return false;
    }
    gs_hook_answered(hook, found);
    return true;
}

/* ---- functions that are handed on -----------------------------------------------------
 */

static bool is_free_function(const struct gs_hook *hook)
{
    return hook->pooled && gs_elf_begins_with(hook->symbol, "cuMemFree");
}

/* The target of another driver's free for memory of the pools, which the other driver
 * does not know. */
static CUresult refuse_free(void)
{
    return CUDA_ERROR_INVALID_VALUE;
}

/* The function itself, or the guard of one that frees. */
static void *add_guard(const struct gs_hook *hook, void *found, void *pooled)
{
    static struct gs_log_limit limit;
    void *entry = is_free_function(hook) ? gs_guard(found, pooled) : found;
    if (!entry) {
        gs_log_once(&limit, GS_LOG_WARN,
                    "%s was looked up in too many drivers: this look-up fails",
                    hook->symbol);
    }
    return entry;
}

/* Logs that the program has a function of the pool's which is not the wrapper. */
static void log_passed(const struct gs_hook *hook, const struct gs_module_ref *module)
{
    static struct gs_log_limit limit;
    const char *file = module->dynamic ? gs_elf_soname(module) : NULL;
    if (hook->pooled) {
        gs_log_once(&limit, GS_LOG_WARN,
                    "the program uses %s of %s, which is not known to be the driver's: "
                    "calls through it are not recorded",
                    hook->symbol, file ? file : "a library without a name");
    }
}

/* How another module that has the functions of a driver is related to the driver. */
enum relation {
    RELATION_UNKNOWN,
    RELATION_SAME,     /* both answer with the same functions */
    RELATION_IN_FRONT, /* its functions call the shim's */
    RELATION_OTHER
};

static enum relation relation_of(const struct gs_module_ref *module)
{
    struct gs_hook hook = gs_hook_at((size_t)gs_hook_find("cuMemFree_v2"));
    void *answer = ask(look_up_of(module), hook.name, hook.since, 0);
    if (!answer) {
        return RELATION_UNKNOWN;
    }
    if (answer == hook.wrapper) {
        return RELATION_IN_FRONT;
    }
    return has_address(&hook, answer) || driver_answers(&hook, answer) ? RELATION_SAME
                                                                       : RELATION_OTHER;
}

/* The answer for a function that the driver does not answer for. */
static void *unknown_function(const struct gs_hook *hook, void *found)
{
    static struct gs_log_limit limit;
    struct gs_module_ref module = {0};
    if (gs_elf_module_of(found, &module) == GS_OK && !gs_real_owns(found) &&
        gs_real_is_driver(&module)) {
        enum relation relation = relation_of(&module);
        if (relation == RELATION_SAME) {
            return hook->wrapper;
        }
        if (relation == RELATION_IN_FRONT) {
            return found;
        }
        gs_log_once(&limit, GS_LOG_WARN,
                    "a second CUDA driver is loaded; calls through it are not recorded");
        return add_guard(hook, found,
                         relation == RELATION_OTHER ? (void *)refuse_free
                                                    : hook->wrapper);
    }
    log_passed(hook, &module);
    return add_guard(hook, found, hook->wrapper);
}

void *gs_real_substitute(void *handle, const char *symbol, void *found)
{
    int row = gs_hook_find(symbol);
    if (row < 0) {
        int other = gs_library_hook_find(symbol);
        return other < 0 ? found /* a runtime function */
                         : gs_library_hook_substitute(other, found);
    }
    struct gs_hook hook = gs_hook_at((size_t)row);
    gs_real_adopt(handle, found);
    if (has_address(&hook, found) || driver_answers(&hook, found)) {
        return hook.wrapper;
    }
    if (gs_real_gives_work(symbol)) {
        gs_known_end_proof(symbol); /* another tool's, or another driver's */
        gs_libraries_looked_up();
    }
    return unknown_function(&hook, found);
}

void *gs_real_pass_on(const char *symbol, void *found)
{
    int row = gs_hook_find(symbol);
    if (row < 0) {
        return found;
    }
    struct gs_hook hook = gs_hook_at((size_t)row);
    if (found == __atomic_load_n(hook.slot, __ATOMIC_ACQUIRE)) {
        return found; /* the driver asks for its own */
    }
    gs_real_deeper(found);
    gs_hook_answered(&hook, found);
    return add_guard(&hook, found, hook.wrapper);
}

/* ---- the addresses of all functions
 * ------------------------------------------------------
 */

void gs_real_visit_addresses(void (*visit)(const struct gs_hooked_address *address,
                                           void *data),
                             void *data)
{
    for (size_t i = 0; gs_real_is_adopted() && i < gs_hook_count(); i++) {
        struct gs_hook hook = gs_hook_at(i);
        if (!gs_hook_is_there(&hook)) {
            continue;
        }
        void *answer = ask(look_up_of_table(), hook.name, hook.since, flags_of(&hook));
        void *all[] = {__atomic_load_n(hook.slot, __ATOMIC_ACQUIRE),
                       __atomic_load_n(hook.answer, __ATOMIC_ACQUIRE), answer};
        for (size_t k = 0; k < GS_ARRAY_LEN(all); k++) {
            bool again = false;
            for (size_t before = 0; before < k; before++) {
                again |= all[before] == all[k];
            }
            if (all[k] && !again && all[k] != hook.wrapper) {
                visit(&(struct gs_hooked_address){hook.symbol, all[k], hook.wrapper},
                      data);
            }
        }
    }
}

/* ---- look-ups by version --------------------------------------------------------------
 */

/*
 * The row whose function the driver has answered: the oldest version for which it answers
 * the same. So the wrapper has the ABI that the driver chose, whatever version the
 * program asked for.
 */
static bool find_by_answer(const char *name, void *found, int version, cuuint64_t flags,
                           bool per_thread, struct gs_hook *best)
{
    bool any = false;
    for (size_t i = 0; i < gs_hook_count(); i++) {
        struct gs_hook hook = gs_hook_at(i);
        if (hook.per_thread == per_thread && hook.since <= version &&
            (!any || hook.since < best->since) && gs_elf_same_name(hook.name, name) &&
            ask(look_up_of_table(), name, hook.since, flags) == found) {
            *best = hook;
            any = true;
        }
    }
    return any;
}

/* The newest ABI of `name` that the driver has and that `version` may get. */
static bool find_by_version(const char *name, int version, bool per_thread,
                            struct gs_hook *best)
{
    bool any = false;
    for (size_t i = 0; i < gs_hook_count(); i++) {
        struct gs_hook hook = gs_hook_at(i);
        if (hook.per_thread == per_thread && hook.since <= version &&
            (!any || hook.since > best->since) && gs_elf_same_name(hook.name, name)) {
            *best = hook;
            any = true;
        }
    }
    return any;
}

/* The row of the driver's answer. Returns whether there is one. */
static bool row_of(const char *name, void *found, int version, cuuint64_t flags,
                   struct gs_hook *out)
{
    bool named = false;
    for (size_t i = 0; i < gs_hook_count(); i++) {
        *out = gs_hook_at(i);
        bool same = gs_elf_same_name(out->name, name);
        named = named || same;
        if (same && has_address(out, found)) {
            return true;
        }
    }
    if (!named || !gs_real_is_adopted()) {
        return false;
    }
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    /* Without a stream there is no per-thread variant. */
    if ((per_thread && find_by_answer(name, found, version, flags, true, out)) ||
        find_by_answer(name, found, version, flags, false, out)) {
        gs_hook_answered(out, found);
        return true;
    }
    /* A driver whose answers change. The tables have every ABI of their names up to
     * GS_CUDA_NEWEST. */
    return ((per_thread && find_by_version(name, version, true, out)) ||
            find_by_version(name, version, false, out)) &&
           version <= GS_CUDA_NEWEST && gs_hook_is_there(out);
}

void *gs_real_substitute_version(const char *name, void *found, int version,
                                 cuuint64_t flags)
{
    struct gs_hook hook;
    struct gs_module_ref module = {0};
    if (row_of(name, found, version, flags, &hook)) {
        return hook.wrapper;
    }
    if (gs_known_is_driver_name(name) && !gs_known_harmless(name)) {
        gs_known_end_proof(name);
    }
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    if (!find_by_version(name, version, per_thread, &hook) &&
        !find_by_version(name, version, false, &hook)) {
        return found;
    }
    /* An interface that is newer than the tables. */
    if (gs_elf_module_of(found, &module) == GS_OK) {
        log_passed(&hook, &module);
    }
    return add_guard(&hook, found, hook.wrapper);
}
