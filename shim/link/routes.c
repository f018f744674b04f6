/*
 * routes.c - decides which symbol look-ups the shim answers, and how.
 *
 * Look-ups of names outside hooks.def leave by a jump, with the caller's return address
 * in place: the dynamic linker resolves RTLD_NEXT and RTLD_DEFAULT by this address.
 * RTLD_NEXT leaves by a jump for every name, unless the only definition is the shim's, or
 * the caller gets the driver's function past the shim (next_answer): a library after the
 * shim that looks up the next definition would otherwise get its own.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/link/routes.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "shim/link/deep_modules.h"
#include "shim/link/hook_rows.h"
#include "shim/link/known_functions.h"
#include "shim/link/libraries.h"
#include "shim/link/library_hooks.h"
#include "shim/link/linker.h"
#include "shim/link/recent_lookups.h"
#include "shim/link/real.h"
#include "shim/settings/environment.h"
#include "shim/settings/thread.h"
#include "tracker/stacks/thread_stack.h"

/* Returns true if a native look-up would find `name` for a caller that has it only in its
 * own dependencies (a plug-in loaded RTLD_LOCAL): decided by the library's name. A
 * library older than the name does not have it. */
static bool depends_on_library(const void *caller, const char *name)
{
    struct gs_module_ref module, cuda;
    int other = gs_library_hook_find(name);
    const char *library = other >= 0 ? gs_library_hook_library(other)
                          : gs_elf_begins_with(name, "cuda") ? "libcudart.so"
                                                             : "libcuda.so";
    if (gs_elf_module_of(caller, &module) != GS_OK) {
        return false;
    }
    const char *soname = gs_elf_needed(&module, library);
    return soname && gs_elf_module_named(soname, false, &cuda) == GS_OK &&
           gs_elf_callable(&cuda, name) != NULL;
}

/* Returns true for the words of options_table.c that mean off. This runs while sanitizers
 * start: without the C library's functions for text, which they replace. */
static bool says_off(const char *text)
{
    static const char words[][6] = {"off", "0", "no", "false"};
    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++) {
        size_t k = 0;
        while (words[i][k] && (text[k] | 0x20) == (words[i][k] | 0x20)) {
            k++;
        }
        if (!words[i][k] && !text[k]) {
            return true;
        }
    }
    return false;
}

/* Whether GPUSHIM_ENABLE=off: then every look-up gets its native answer. */
static bool is_off(void)
{
    static const char name[] = "GPUSHIM_ENABLE=";
    static int known; /* atomic: 1 off, 2 on */
    int now = __atomic_load_n(&known, __ATOMIC_RELAXED);
    char *const *entry = now == 0 ? gs_environment_of_process() : NULL;
    if (entry) {
        now = 2;
        for (; *entry; entry++) {
            if (gs_elf_begins_with(*entry, name)) {
                now = says_off(*entry + sizeof(name) - 1) ? 1 : 2;
            }
        }
        __atomic_store_n(&known, now, __ATOMIC_RELAXED);
    }
    return now == 1;
}

static bool is_own_address(const void *address)
{
    struct gs_module_ref module;
    return gs_elf_module_of(address, &module) == GS_OK && gs_linker_is_own(&module);
}

/* Turns the found definition into the caller's answer. A definition of the shim's own
 * counts only if a native look-up would find one as well. */
static void *answer(void *handle, const char *name, void *found)
{
    if (!found) {
        return NULL;
    }
    if (is_own_address(found)) {
        void *next = gs_linker_next(name);
        return next && !is_off() ? found : next;
    }
    return is_off() ? found : gs_real_substitute(handle, name, found);
}

/* Returns true if the caller is the next definition of the name after the shim. */
static bool is_next(const char *name, const void *caller)
{
    struct gs_module_ref asking;
    if (gs_elf_module_of(caller, &asking) != GS_OK || !gs_elf_callable(&asking, name)) {
        return false;
    }
    uintptr_t next = (uintptr_t)gs_linker_next(name);
    if (!next) {
        (void)dlerror(); /* NOLINT(concurrency-mt-unsafe): the thread's own */
    }
    return next >= asking.begin && next < asking.end;
}

/* Returns true if a function of this module has called into the frames from `stack` on,
 * and has not returned: a word there may be its address. */
static bool is_on_stack(const struct gs_module_ref *module, uintptr_t stack)
{
    struct gs_stack_range range;
    if (!gs_mapping_of(stack, &range)) {
        return false;
    }
    for (uintptr_t at = stack; at + sizeof(at) <= range.high; at += sizeof(at)) {
        uintptr_t word = *(const volatile uintptr_t *)at;
        if (word >= module->begin && word < module->end) {
            return true;
        }
    }
    return false;
}

/* Returns true if the next definition after the shim is in another module than the found
 * one, and has called the caller: a library whose look-ups another library makes. */
static bool serves_next(const char *name, const void *found, const void *caller,
                        uintptr_t stack)
{
    struct gs_module_ref next, asking;
    if (gs_elf_module_of(caller, &asking) == GS_OK &&
        gs_elf_callable(&asking, "cudaGetDeviceCount")) {
        return false; /* a runtime, which a library that hooks its calls has called */
    }
    void *definition = gs_linker_next(name);
    if (!definition) {
        (void)dlerror(); /* NOLINT(concurrency-mt-unsafe): the thread's own */
        return false;
    }
    return gs_elf_module_of(definition, &next) == GS_OK && !gs_linker_is_own(&next) &&
           !gs_linker_is_copy(&next) &&
           ((uintptr_t)found < next.begin || (uintptr_t)found >= next.end) &&
           is_on_stack(&next, stack);
}

/*
 * Returns true if a look-up is made on the way from the shim to the driver: by the
 * driver, by or for a library that the shim calls in its place, or in a call of the
 * shim's. The wrapper would lead back to the caller.
 */
static bool is_behind(const char *name, const void *found, const void *caller,
                      uintptr_t stack)
{
    return gs_real_owns(caller) || gs_thread.asks_driver > 0 ||
           (gs_thread.depth > 0 && !gs_thread.in_callback) || is_next(name, caller) ||
           serves_next(name, found, caller, stack);
}

/* The frames of the callers of this function. */
#define HERE ((uintptr_t)__builtin_frame_address(0))

/* Returns the shim's dlsym or dlvsym to the program, or to a library in front of the
 * shim, that has found the C library's by a handle: otherwise its later look-ups would
 * bypass the wrappers. Else NULL. */
static void *own_look_up(const char *name, void *found, const void *caller)
{
    struct gs_module_ref own, asking;
    bool is = (found == (void *)gs_linker_libc_dlsym() ||
               found == (void *)gs_linker_dlvsym()) &&
              gs_linker_is_preloaded() && gs_linker_own_module(&own) &&
              gs_elf_module_of(caller, &asking) == GS_OK &&
              gs_elf_stands_before(&asking, &own);
    return is ? gs_elf_symbol(&own, name) : NULL;
}

/* Returns true if a look-up of a name outside all tables may find something: in its
 * scope, or for a caller with a private driver, in the caller's. */
static bool may_exist(void *handle, const char *name)
{
    gs_dlsym_fn *find = gs_linker_libc_dlsym();
    if (!find || (handle != RTLD_NEXT && handle != RTLD_DEFAULT)) {
        return !find || find(handle, name);
    }
    return find(RTLD_DEFAULT, name) || gs_real_exports(name);
}

/* Handles a look-up whose result may submit work uncounted, because the shim does not see
 * the result or does not know the name. Ignores look-ups by the driver itself. */
static void check_look_up(void *handle, const char *name, const void *caller)
{
    if (!name || !gs_known_is_driver_name(name) || !gs_known_proof_holds() ||
        gs_real_owns(caller)) {
        return;
    }
    gs_recent_lookups_add(name);
    bool unknown = !gs_real_is_hooked(name) && !gs_known_harmless(name);
    if (unknown && may_exist(handle, name)) {
        gs_known_end_proof(name);
    }
}

/* Returns true if a look-up by RTLD_NEXT ends the proof unless it gets the wrapper. Ask
 * before the answer is made, which may add the caller to the chain. */
static bool may_end_proof(const char *name, const void *caller)
{
    return name && gs_known_is_driver_name(name) && gs_known_proof_holds() &&
           !gs_real_owns(caller) && gs_real_gives_work(name);
}

/* What was freed lazily is waited for before the caller has the function. */
static void end_proof(const char *name)
{
    gs_known_end_proof(name);
    gs_libraries_looked_up();
}

/* Returns true if a look-up leaves by a jump before anything else is checked. */
static bool answers_by_jump(void *handle, const char *name, const void *caller)
{
    /* So tools look up what they stand for while they start, when they cannot serve it
     * yet: ThreadSanitizer's dl_iterate_phdr would end the process. */
    if ((handle == RTLD_NEXT || handle == RTLD_DEFAULT) && name &&
        strncmp(name, "cu", 2) != 0 && !gs_real_is_hooked(name)) {
        return true;
    }
    gs_real_recheck();
    gs_deep_modules_check(is_off());
    check_look_up(handle, name, caller);
    if (!gs_real_owns(caller)) {
        gs_libraries_looked_up();
    }
    if (handle == RTLD_NEXT || !name || !gs_real_is_hooked(name)) {
        return true;
    }
    /* In the global scope the look-up finds the shim's export first by itself, if there
     * is a definition after it; a missing one must stay missing. */
    return handle == RTLD_DEFAULT && gs_linker_dlsym() == gs_linker_libc_dlsym() &&
           !is_off() && !gs_linker_native_other(name) &&
           (gs_linker_next(name) || depends_on_library(caller, name));
}

/* Answers a look-up in the global scope that does not leave by a jump: another tool's
 * dlsym would answer with a function after the shim. */
static void *default_answer(const char *name, const void *caller)
{
    struct gs_module_ref own;
    void *others = gs_linker_native_other(name);
    if (others) {
        return others;
    }
    void *next = gs_linker_next(name); /* sets dlerror */
    if (is_off()) {
        return next;
    }
    void *found = (next || depends_on_library(caller, name)) && gs_linker_own_module(&own)
                      ? gs_elf_symbol(&own, name)
                      : NULL;
    if (found && !next) {
        (void)dlerror(); /* NOLINT(concurrency-mt-unsafe): the thread's own */
    }
    return found;
}

/* Whether there is no native definition after a caller in front of the shim, who would
 * get the shim's own export. */
static bool finds_nothing_next(const char *name, const void *caller)
{
    struct gs_module_ref own, asking;
    return name && gs_real_is_hooked(name) && gs_linker_own_module(&own) &&
           gs_elf_module_of(caller, &asking) == GS_OK &&
           gs_elf_stands_before(&asking, &own) && !gs_linker_next(name);
}

/*
 * The answer to a look-up by RTLD_NEXT whose caller natively gets the driver's function,
 * because the shim is not after the caller; NULL: the linker's answer. A free by the
 * driver's function would release the segment around a block of the pool. So a caller
 * that the shim calls in the driver's place gets a guard, and any other the wrapper. With
 * a library between the shim and the driver every caller counts as its part.
 */
static void *next_answer(const char *name, const void *caller, uintptr_t stack)
{
    struct gs_module_ref own, asking, definer;
    if (!name || gs_hook_find(name) < 0 || is_off() || !gs_linker_own_module(&own) ||
        gs_elf_module_of(caller, &asking) != GS_OK || gs_linker_is_own(&asking) ||
        gs_linker_is_copy(&asking) || gs_elf_stands_before(&asking, &own)) {
        return NULL;
    }
    void *found = gs_elf_symbol_after(&asking, name);
    if (!found || gs_elf_module_of(found, &definer) != GS_OK ||
        gs_linker_is_own(&definer) || !gs_real_is_driver(&definer)) {
        return NULL;
    }
    void *next = gs_linker_next(name);
    if (!next) {
        (void)dlerror(); /* NOLINT(concurrency-mt-unsafe): the thread's own */
    }
    return (next && next != found) || is_behind(name, found, caller, stack)
               ? gs_real_pass_on(name, found)
               : gs_real_substitute(NULL, name, found);
}

/* next_answer that also ends the proof, unless the caller gets nothing but what the
 * wrapper counts. */
static void *counted_next_answer(const char *name, const void *caller, uintptr_t stack)
{
    bool counted = may_end_proof(name, caller);
    void *next = next_answer(name, caller, stack);
    int row = next ? gs_hook_find(name) : -1;
    if (counted && (row < 0 || next != gs_hook_at((size_t)row).wrapper)) {
        end_proof(name);
    }
    return next;
}

struct gs_route gs_route_dlsym(void *handle, const char *name, const void *caller)
{
    gs_dlsym_fn *find = gs_linker_dlsym();
    bool nothing = find && handle == RTLD_NEXT && finds_nothing_next(name, caller);
    /* A look-up of dlsym itself by a handle. */
    if (find && name && handle != RTLD_NEXT && handle != RTLD_DEFAULT && !is_off() &&
        (gs_elf_same_name(name, "dlsym") || gs_elf_same_name(name, "dlvsym"))) {
        void *found = find(handle, name);
        void *ours = found ? own_look_up(name, found, caller) : NULL;
        return (struct gs_route){.value = ours ? ours : found};
    }
    if (!find || (answers_by_jump(handle, name, caller) && !nothing)) {
        void *next =
            find && handle == RTLD_NEXT ? counted_next_answer(name, caller, HERE) : NULL;
        return (struct gs_route){.value = next, .jump = next ? NULL : (void *)find};
    }
    if (nothing) {
        return (struct gs_route){.value = gs_linker_next(name)}; /* sets dlerror again */
    }
    if (handle == RTLD_DEFAULT) {
        return (struct gs_route){.value = default_answer(name, caller)};
    }
    void *found = find(handle, name); /* by a handle */
    return (struct gs_route){.value = found && !is_off() &&
                                              is_behind(name, found, caller, HERE)
                                          ? gs_real_pass_on(name, found)
                                          : answer(handle, name, found)};
}

/* Returns the shim's dlsym or dlvsym to a library in front of the shim that replaces
 * these functions and looks up the next ones by a version of glibc's. The shim's have no
 * version, so without this answer every look-up of the process would bypass the shim.
 * Else NULL. */
static void *next_look_up(gs_dlvsym_fn *find, const char *name, const char *version,
                          const void *caller)
{
    struct gs_module_ref own, asking;
    if (!gs_elf_same_name(name, "dlsym") && !gs_elf_same_name(name, "dlvsym")) {
        return NULL;
    }
    if (!gs_linker_own_module(&own) || gs_elf_module_of(caller, &asking) != GS_OK ||
        gs_linker_is_own(&asking) || !gs_elf_stands_before(&asking, &own) ||
        !find(RTLD_NEXT, name, version)) {
        return NULL;
    }
    return gs_elf_symbol(&own, name);
}

struct gs_route gs_route_dlvsym(void *handle, const char *name, const char *version,
                                const void *caller)
{
    gs_dlvsym_fn *find = gs_linker_dlvsym();
    if (find && handle == RTLD_NEXT && name && version) {
        void *ours = next_look_up(find, name, version, caller);
        if (ours) {
            return (struct gs_route){.value = ours};
        }
    }
    if (!find || handle == RTLD_DEFAULT || answers_by_jump(handle, name, caller)) {
        if (handle == RTLD_NEXT && may_end_proof(name, caller)) {
            end_proof(name);
        }
        return (struct gs_route){.jump = (void *)find};
    }
    void *found = find(handle, name, version);
    if (found && !is_off() && is_behind(name, found, caller, HERE)) {
        found = gs_real_pass_on(name, found);
    } else if (found && !is_off()) {
        found = gs_real_substitute(handle, name, found);
    }
    return (struct gs_route){.value = found};
}
