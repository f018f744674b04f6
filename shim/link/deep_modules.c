/*
 * deep_modules.c - finds modules that were opened with RTLD_DEEPBIND, and references to
 * variables named as functions that the shim exports, and sets their slots.
 *
 * Such a variable is a pointer that a library sets to what it looks up (slang-rhi, CUEW).
 * References to it lead to the shim's function, which the linker finds first; a write to
 * that would end the process.
 *
 * The linker has bound the module's reference to __cxa_finalize, which every library with
 * ordinary start files has, to the C library's, although the shim exports it first.
 *
 * A check looks only at the modules that were loaded since the last one. Another thread
 * may load or close a module at any time. So slots are read and written inside
 * dl_iterate_phdr, which keeps modules from being closed, and only after other threads'
 * loads have ended: the linker may otherwise still write to the page that a check
 * protects.
 *
 * Owns:  the linker's list as of the last check, and the slots of one check.
 * Lock:  `busy`, an atomic flag.
 */
#include "shim/link/deep_modules.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "shim/link/elf_list.h"
#include "shim/link/hook_rows.h"
#include "shim/link/linker.h"

extern void __cxa_finalize(void *library); // NOLINT(bugprone-reserved-identifier)

static bool every;            /* atomic: not only modules with the flag */
static uint64_t loaded;       /* atomic: modules loaded up to the last check */
static struct gs_loaded seen; /* by the thread that has set `busy` */
static bool busy;             /* atomic */

enum { NAME_DLSYM = -1, NAME_DLVSYM = -2 };

struct slot {
    uintptr_t module; /* its first address */
    void **at;
    void *now, *value;
    int name;       /* a row of gs_hook_at, or NAME_... */
    void *variable; /* that the slot is a reference to; NULL: a function */
    bool unbound;   /* it leads to the linker, by the module's own stub */
    bool is_data;   /* a variable, which the program may have set */
    bool fixed;     /* the linker has made its page read-only */
};

#define SLOTS_MOST 128

struct check {
    bool variables_alone;    /* the shim is switched off */
    uint64_t loads, unloads; /* the linker's counts, in which the check is valid */
    bool valid;              /* the counts are still these */
    void *finalize;          /* the C library's */
    struct gs_module_ref own;
    size_t passed; /* slots of earlier rounds */
    size_t wanted; /* slots of this round */
    size_t count;
    struct slot slots[SLOTS_MOST];
};

static struct check check_now; /* by the thread that has set `busy` */

/* ---- reading --------------------------------------------------------------------------
 */

struct deep_module {
    struct gs_module_ref module;
    bool passes_on; /* of the chain that ends with the driver */
    const struct dl_phdr_info *info;
};

/* The slot of a function that the shim may replace. */
static bool is_wanted(const struct deep_module *deep, const char *name, struct slot *slot)
{
    uintptr_t now = (uintptr_t)slot->now;
    slot->unbound = now >= deep->module.begin && now < deep->module.end;
    if (gs_elf_same_name(name, "dlsym") || gs_elf_same_name(name, "dlvsym")) {
        slot->name = name[2] == 's' ? NAME_DLSYM : NAME_DLVSYM;
        return !deep->passes_on; /* it looks up what it passes calls on to */
    }
    slot->name = name[0] == 'c' && name[1] == 'u' ? gs_hook_find(name) : -1;
    return slot->name >= 0 && slot->now &&
           (deep->passes_on || !(slot->unbound && gs_elf_symbol(&deep->module, name)));
}

static struct slot read_slot(const struct deep_module *deep,
                             const struct gs_elf_slot *slot)
{
    return (struct slot){.module = deep->module.begin,
                         .at = slot->at,
                         .now = __atomic_load_n(slot->at, __ATOMIC_ACQUIRE),
                         .is_data = slot->is_data};
}

/* Returns true if there is no room for more in this round. */
static bool keep_slot(const struct deep_module *deep, const struct slot *slot)
{
    struct check *check = &check_now;
    if (++check->wanted > check->passed) {
        struct slot *kept = &check->slots[check->count++];
        *kept = *slot;
        kept->fixed = gs_elf_slot_is_fixed(deep->info, slot->at);
    }
    return check->count == SLOTS_MOST;
}

static bool visit_slot(const struct gs_elf_slot *at, void *data)
{
    const struct deep_module *deep = data;
    struct slot slot = read_slot(deep, at);
    return is_wanted(deep, at->name, &slot) && keep_slot(deep, &slot);
}

/* The module's own variable of the name; NULL: none. */
static void *variable_of(const struct gs_module_ref *module, const char *name)
{
    uintptr_t begin, end;
    gs_elf_variable(module, name, &begin, &end);
    return (void *)begin;
}

/* The variable to which the linker would have bound the module's reference without the
 * shim. */
static void *native_variable(const struct deep_module *deep,
                             const struct gs_elf_slot *slot)
{
    void *own = variable_of(&deep->module, slot->name);
    if (own) {
        return own;
    }
    void *found = gs_elf_symbol_after(&check_now.own, slot->name);
    return found ? found : gs_elf_symbol_after(&deep->module, slot->name);
}

/* A slot that leads to a function of the shim's, in place of a variable. */
static bool visit_variable(const struct gs_elf_slot *at, void *data)
{
    const struct deep_module *deep = data;
    struct slot slot = read_slot(deep, at);
    slot.variable = native_variable(deep, at);
    return slot.variable && slot.now == gs_elf_symbol(&check_now.own, at->name) &&
           keep_slot(deep, &slot);
}

static bool visit(const struct dl_phdr_info *info, bool all, void *data)
{
    struct check *check = data;
    (void)all;
    if (info->dlpi_adds != check->loads || info->dlpi_subs != check->unloads) {
        check->valid = false;
        return true;
    }
    struct deep_module deep = {.module = gs_elf_module_in(info), .info = info};
    const bool late = __atomic_load_n(&every, __ATOMIC_ACQUIRE);
    if (!deep.module.dynamic || gs_linker_is_own(&deep.module)) {
        return false;
    }
    if (gs_elf_visit_data_slots(&deep.module, &check->own, visit_variable, &deep)) {
        return true;
    }
    if (check->variables_alone) {
        return false;
    }
    deep.passes_on = gs_real_owns((const void *)deep.module.begin);
    if (gs_elf_symbol(&deep.module, "dlsym") || /* a tool, or the C library */
        (!late && (deep.passes_on ||
                   gs_elf_bound_to(&deep.module, "__cxa_finalize") != check->finalize))) {
        return false;
    }
    return gs_elf_visit_slots(&deep.module, visit_slot, &deep);
}

/* ---- writing --------------------------------------------------------------------------
 */

/* The address that the slot should hold; NULL: the one it holds. May call the driver. */
static void *value_of(const struct slot *slot)
{
    struct gs_module_ref own;
    if (slot->variable) {
        return slot->variable;
    }
    if (slot->name < 0) {
        bool plain = slot->name == NAME_DLSYM;
        void *behind =
            plain ? (void *)gs_linker_libc_dlsym() : (void *)gs_linker_dlvsym();
        return (!slot->is_data || slot->now == behind) && gs_linker_own_module(&own)
                   ? gs_elf_symbol(&own, plain ? "dlsym" : "dlvsym")
                   : NULL;
    }
    struct gs_hook hook = gs_hook_at((size_t)slot->name);
    const bool passes_on = gs_real_owns((const void *)slot->module);
    if (passes_on && !__atomic_load_n(&every, __ATOMIC_ACQUIRE)) {
        return NULL;
    }
    /* Such a module keeps the functions that it passes calls on to. Its own calls of what
     * a program calls come to the shim, as in a process that was started with it. */
    if (slot->is_data || (passes_on && !slot->unbound)) {
        (void)gs_real();
        return slot->now == __atomic_load_n(hook.slot, __ATOMIC_ACQUIRE) ? hook.wrapper
                                                                         : NULL;
    }
    if (!slot->unbound) {
        return gs_real_substitute(NULL, hook.symbol, slot->now);
    }
    (void)gs_real();
    return gs_hook_is_there(&hook) ? hook.wrapper : NULL;
}

/* Inside the linker's lock. Returns true if no module came or went since the reading. */
static int write_slots(struct dl_phdr_info *info, size_t size, void *data)
{
    struct check *check = data;
    (void)size;
    if (info->dlpi_subs != check->unloads) {
        return 2;
    }
    for (size_t i = 0; i < check->count; i++) {
        const struct slot *slot = &check->slots[i];
        if (slot->value && slot->value != slot->now) {
            gs_elf_slot_set(slot->at, slot->now, slot->value, slot->fixed);
        }
    }
    return 1;
}

/* ---- the check ------------------------------------------------------------------------
 */

static int read_counts(struct dl_phdr_info *info, size_t size, void *data)
{
    struct check *check = data;
    (void)size;
    check->loads = info->dlpi_adds;
    check->unloads = info->dlpi_subs;
    return 1;
}

/* Waits for other threads' loads. Returns false if more have begun. */
static bool wait_for_loads(struct check *check)
{
    uint64_t before = gs_elf_load_count();
    /* A look-up of the linker's waits. */
    gs_dlsym_fn *find = gs_linker_libc_dlsym();
    if (!find || !find(RTLD_DEFAULT, "dlsym")) {
        return false;
    }
    (void)gs_elf_visit(read_counts, check);
    return check->loads == before;
}

/* Returns false if modules came or went during the check: the next check repeats it. */
static bool check_new(struct check *check)
{
    bool more = true;
    for (check->passed = 0; more; check->passed += check->count) {
        check->wanted = check->count = 0;
        check->valid = true;
        more = gs_elf_visit_new(&seen, visit, check);
        if (!check->valid) {
            return false;
        }
        for (size_t i = 0; i < check->count; i++) {
            check->slots[i].value = value_of(&check->slots[i]);
        }
        if (gs_elf_visit(write_slots, check) != 1) {
            return false;
        }
    }
    return true;
}

void gs_deep_modules_check(bool is_off)
{
    static void *finalize; /* gs_linker_behind's */
    enum { TRIES = 4 };
    int saved_errno = errno;
    if (!gs_elf_list_is_marked()) {
        return; /* nobody has opened a module yet */
    }
    uint64_t now = gs_elf_load_count();
    if (now == __atomic_load_n(&loaded, __ATOMIC_ACQUIRE) ||
        __atomic_exchange_n(&busy, true, __ATOMIC_ACQ_REL)) {
        errno = saved_errno;
        return;
    }
    struct check *check = &check_now;
    check->variables_alone = is_off;
    check->finalize = gs_linker_behind("__cxa_finalize", &finalize);
    /* If the shim itself came late, it is in nobody's scope. */
    bool done = !__atomic_load_n(&every, __ATOMIC_ACQUIRE) &&
                (!check->finalize || !gs_linker_is_preloaded());
    done = done || !gs_linker_own_module(&check->own);
    for (int i = 0; i < TRIES && !done; i++) {
        done = wait_for_loads(check) && check_new(check);
        now = check->loads;
    }
    if (done) {
        __atomic_store_n(&loaded, now, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
    errno = saved_errno;
}

/* A copy of the code of a function of the shim's, in place of a variable's value. */
static void visit_copy(const char *name, void *at, size_t bytes, void *data)
{
    struct gs_module_ref *own = data;
    uintptr_t begin, end;
    gs_elf_function(own, name, &begin, &end);
    bytes = bytes < end - begin ? bytes : end - begin;
    const void *value = begin ? gs_elf_symbol_after(own, name) : NULL;
    if (value && memcmp(at, (const void *)begin, bytes) == 0) {
        memcpy(at, value, bytes);
    }
}

static void set_copies(void)
{
    struct gs_module_ref program;
    if (gs_elf_program(&program) == GS_OK) {
        gs_elf_visit_copies(&program, visit_copy, &check_now.own);
    }
}

/* Sets the module's references to variables at once: no other thread loads modules. */
static int start_module(struct dl_phdr_info *info, size_t size, void *data)
{
    struct check *check = &check_now;
    struct deep_module deep = {.module = gs_elf_module_in(info), .info = info};
    bool more = deep.module.dynamic != check->own.dynamic;
    (void)size;
    (void)data;
    for (check->passed = 0; more; check->passed += check->count) {
        check->wanted = check->count = 0;
        more = gs_elf_visit_data_slots(&deep.module, &check->own, visit_variable, &deep);
        for (size_t i = 0; i < check->count; i++) {
            check->slots[i].value = check->slots[i].variable;
            const struct slot *slot = &check->slots[i];
            if (slot->value && slot->value != slot->now) {
                gs_elf_slot_set(slot->at, slot->now, slot->value, slot->fixed);
            }
        }
    }
    return 0;
}

static bool visit_any(const struct gs_elf_slot *slot, void *data)
{
    (void)slot;
    (void)data;
    return true;
}

/* Returns true if a module of the program's start takes something of the shim's for a
 * variable. Makes no calls. */
static bool is_taken_for_data(const struct gs_module_ref *own)
{
    const struct link_map *map = gs_elf_list_first();
    for (bool last = false; map && !last; map = map->l_next) {
        struct gs_module_ref module = {.base = map->l_addr, .dynamic = map->l_ld};
        if (map->l_ld != own->dynamic &&
            gs_elf_visit_data_slots(&module, own, visit_any, NULL)) {
            return true;
        }
        last = gs_elf_list_ends_start(map);
    }
    return false;
}

void gs_deep_modules_start(void)
{
    struct gs_module_ref *own = &check_now.own;
    if (__atomic_exchange_n(&busy, true, __ATOMIC_ACQ_REL)) {
        return;
    }
    /* Another tool in front may not be ready for calls yet. */
    if (!gs_elf_defined_in_front("dl_iterate_phdr") && gs_linker_own_module(own)) {
        set_copies();
        if (is_taken_for_data(own)) {
            (void)gs_elf_visit(start_module, NULL);
        }
    }
    __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
}

void gs_deep_modules_leave(void)
{
    __atomic_store_n(&every, false, __ATOMIC_RELEASE);
}

bool gs_deep_modules_take(void)
{
    __atomic_store_n(&every, true, __ATOMIC_RELEASE);
    while (__atomic_exchange_n(&busy, true, __ATOMIC_ACQ_REL)) {
        sched_yield(); /* a check is short */
    }
    seen = (struct gs_loaded){0};
    __atomic_store_n(&loaded, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
    gs_deep_modules_check(false);
    return __atomic_load_n(&loaded, __ATOMIC_ACQUIRE) == gs_elf_load_count();
}
