/*
 * unwind.c - chooses an unwinder, and loads the two from other libraries.
 *
 * Role:  libunwind and libgcc_s are found by dlopen, never linked. Linked they would put
 *        their _Unwind_* into every program, and slow or break its exceptions.
 * Owns:  the functions found, process-wide.
 * Lock:  none, atomics: a lock held over dlopen could meet a constructor that waits
 *        for the lock.   Design: docs/stacks.md
 *
 * libunwind keeps two descriptors. Where a program has closed them, as daemons do, it
 * closes what the program has opened in their place. So it is the last choice.
 *
 * It caches, in each thread and for ever, how to unwind from a return address. If
 * a plug-in is closed and another is loaded at its address, libunwind follows the old
 * entry into memory that is no stack: versions 1.6 to 1.8 have crashed in tests. So
 * libunwind is used only while no module has been unloaded since it was chosen; each walk
 * first queries the loader's counter. Afterwards CFI, or GCC, is used. A thread's first
 * walk makes the loader allocate thread-local memory for libunwind, and without memory
 * the loader ends the process: so a thread without memory uses another unwinder for that
 * walk.
 */
#include "tracker/stacks/unwind.h"

#include "tracker/names/loaded.h"
#include "tracker/names/loader_gate.h"
#include "tracker/names/loader_message.h"
#include "tracker/names/modules.h"
#include "tracker/stacks/alt_stack.h"
#include "tracker/stacks/cfi_rules.h"
#include "tracker/stacks/code_address.h"
#include "tracker/stacks/thread_stack.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

#define TRIAL_FRAMES 64

#define STACK_PAGE_BYTES 4096
/* The number of the frame pointer's register in call frame information. */
#if defined(__aarch64__)
#define FRAME_POINTER 29
#else
#define FRAME_POINTER 6
#endif

typedef int libunwind_backtrace(void **buffer, int size);
typedef int gcc_trace_function(void *context, void *arg);
typedef int gcc_backtrace(gcc_trace_function *trace, void *arg);
typedef uintptr_t gcc_get_ip(void *context);
struct gcc_bases {
    void *text, *data, *function;
};
typedef const void *gcc_find_fde(void *pc, struct gcc_bases *bases);
typedef uintptr_t gcc_get_cfa(void *context);
typedef uintptr_t gcc_get_register(void *context, int number);

#define UNLOADS_NOT_SET UINT64_MAX

/* No lock: NULL until found, then constant; two racing threads find the same. */
static _Atomic(libunwind_backtrace *) libunwind_walk;
static _Atomic(gcc_backtrace *) gcc_walk;
static _Atomic(gcc_get_ip *) gcc_ip;
static _Atomic(gcc_find_fde *) gcc_fde; /* NULL also if libgcc has none */
static _Atomic(gcc_get_cfa *) gcc_cfa;
static _Atomic(gcc_get_register *) gcc_register;
/* The loader's count before libunwind's first walk; set once. */
static _Atomic uint64_t libunwind_unloads = UNLOADS_NOT_SET;
static _Atomic bool cfi_proven;
/* This thread has libunwind's thread-local memory. */
static __thread bool libunwind_here __attribute__((tls_model("initial-exec")));

/* The argument of _Unwind_Backtrace's callback. */
struct gcc_walk_state {
    uintptr_t *frames;
    unsigned count, max;
    bool full;
    bool known;              /* how the last frame was left: not by a signal */
    bool broken;             /* the next frame cannot be read */
    uintptr_t readable_page; /* a page of the stack; 0: none yet */
};

/* Opens a library for good: the handle is never closed. Not by RTLD_NODELETE: with it
 * glibc keeps half of a library whose opening ran out of memory, and returns that half to
 * the next caller. libgcc then does not find itself, and aborts. */
static void *open_library(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        gs_loader_message_drop();
    }
    return library;
}

static void *find_function(void *library, const char *name)
{
    void *function = library != NULL ? dlsym(library, name) : NULL;

    if (library != NULL && function == NULL) {
        gs_loader_message_drop();
    }
    return function;
}

static bool load_libunwind(void)
{
    libunwind_backtrace *walk;
    uint64_t not_set = UNLOADS_NOT_SET;

    if (atomic_load(&libunwind_walk) != NULL) {
        return true;
    }
    walk = (libunwind_backtrace *)find_function(open_library("libunwind.so.8"),
                                                "unw_backtrace");
    atomic_compare_exchange_strong(&libunwind_unloads, &not_set, gs_modules_unloads());
    atomic_store(&libunwind_walk, walk);
    return walk != NULL;
}

static bool load_gcc(void)
{
    void *library;
    gcc_backtrace *walk;
    gcc_get_ip *ip;

    if (atomic_load(&gcc_walk) != NULL) {
        return true;
    }
    library = open_library("libgcc_s.so.1");
    walk = (gcc_backtrace *)find_function(library, "_Unwind_Backtrace");
    ip = (gcc_get_ip *)find_function(library, "_Unwind_GetIP");
    if (walk == NULL || ip == NULL) {
        return false;
    }
    atomic_store(&gcc_ip, ip);
    atomic_store(&gcc_fde, (gcc_find_fde *)find_function(library, "_Unwind_Find_FDE"));
    atomic_store(&gcc_cfa, (gcc_get_cfa *)find_function(library, "_Unwind_GetCFA"));
    atomic_store(&gcc_register,
                 (gcc_get_register *)find_function(library, "_Unwind_GetGR"));
    atomic_store(&gcc_walk, walk);
    return true;
}

/* A frame's address in no module: code made at run time, or no code at all. */
enum unknown_code {
    CODE_GOES_ON,
    CODE_ENDS, /* libgcc would abort on its way from this frame to the next one */
    CODE_IS_NONE
};

static enum unknown_code judge_code(uintptr_t address)
{
    gcc_find_fde *find = atomic_load_explicit(&gcc_fde, memory_order_relaxed);
    struct gs_loaded_object object;
    struct gcc_bases bases;
    const uint8_t *fde;

    if (find == NULL || gs_loaded_object(address - 1, &object)) {
        return CODE_GOES_ON;
    }
    fde = find((void *)(address - 1), &bases);
    if (fde == NULL) {
        return gs_code_follows_call(address) ? CODE_GOES_ON : CODE_IS_NONE;
    }
    return gs_cfi_lacks_frame(fde, address - 1) ? CODE_ENDS : CODE_GOES_ON;
}

/* gs_unwind_word_visit: the words of a walk lie in few pages. */
static bool is_readable(void *self, uintptr_t address)
{
    struct gcc_walk_state *state = self;
    uintptr_t high, page = address & ~(uintptr_t)(STACK_PAGE_BYTES - 1);

    if (address % sizeof(uintptr_t) == 0 &&
        (page == state->readable_page || gs_thread_stack_known(address, &high))) {
        return true;
    }
    if (address % sizeof(uintptr_t) != 0 || !gs_word_is_readable(address)) {
        return false;
    }
    state->readable_page = page;
    return true;
}

/*
 * Returns whether the words can be read that libgcc reads on its way to the next frame.
 * It looks at none of them before: where code has switched stacks and its call frame
 * information says nothing of it, as in many a coroutine's, they may lie anywhere.
 */
static bool next_is_readable(void *context, uintptr_t pc, struct gcc_walk_state *state)
{
    gcc_get_cfa *get_cfa = atomic_load_explicit(&gcc_cfa, memory_order_relaxed);
    gcc_get_register *get = atomic_load_explicit(&gcc_register, memory_order_relaxed);
    bool known = state->known;

    if (get_cfa == NULL || get == NULL) {
        return true;
    }
    const struct gs_unwind_registers at = {
        .pc = pc, .sp = get_cfa(context), .fp = get(context, FRAME_POINTER)};
    bool readable = gs_unwind_cfi_visit_words(&at, is_readable, state, &state->known);
    return readable || !known; /* a signal interrupts anywhere: the rule is not sure */
}

/* _Unwind_Trace_Fn: 0 goes on; anything else (5: end of stack) stops. */
static int gcc_one_frame(void *context, void *arg)
{
    struct gcc_walk_state *state = arg;
    enum unknown_code code;
    uintptr_t address =
        gs_code_address(atomic_load_explicit(&gcc_ip, memory_order_relaxed)(context));

    if (address < GS_CODE_ADDRESS_MIN) {
        return 5;
    }
    if (state->count == state->max) {
        state->full = true;
        return 5;
    }
    state->frames[state->count] = address;
    code = judge_code(address);
    state->count += code != CODE_IS_NONE;
    state->broken = code == CODE_GOES_ON && !next_is_readable(context, address, state);
    return code == CODE_GOES_ON && !state->broken ? 0 : 5;
}

static __attribute__((noinline)) unsigned walk_gcc(uintptr_t *frames, unsigned max,
                                                   enum gs_walk_end *end)
{
    gcc_backtrace *walk = atomic_load_explicit(&gcc_walk, memory_order_acquire);
    struct gcc_walk_state state = {.frames = frames, .max = max, .known = true};

    if (walk != NULL && gs_loader_enter()) { /* glibc < 2.35 takes the loader's lock */
        walk(gcc_one_frame, &state);
        gs_loader_leave();
    }
    *end = state.full ? GS_WALK_FULL : state.broken ? GS_WALK_STOPPED : GS_WALK_OUTERMOST;
    return state.count;
}

/* CFI wrote `count` frames and cannot continue: libgcc walks from the start. */
static __attribute__((noinline)) unsigned
walk_foreign(uintptr_t *frames, unsigned max, enum gs_walk_end *end, unsigned count)
{
    if (atomic_load_explicit(&gcc_walk, memory_order_relaxed) != NULL) {
        return walk_gcc(frames, max, end);
    }
    struct gs_loaded_object object;
    *end = GS_WALK_STOPPED;
    return count > 1 && !gs_loaded_object(frames[count - 1] - 1, &object) &&
                   !gs_code_follows_call(frames[count - 1])
               ? count - 1
               : count;
}

static __attribute__((noinline)) unsigned walk_cfi(uintptr_t *frames, unsigned max,
                                                   enum gs_walk_end *end)
{
    unsigned count = gs_unwind_cfi(frames, max, end);

    return GS_LIKELY(*end != GS_WALK_FOREIGN) ? count
                                              : walk_foreign(frames, max, end, count);
}

/* The loader's allocations for thread-local memory: 16 bytes for libunwind's own, and a
 * table of the thread's modules. The function allocates and frees as much, so that the
 * loader will find it. */
#define LIBUNWIND_BYTES    16
#define THREAD_TABLE_BYTES 4096

static bool libunwind_has_memory(void)
{
    if (GS_UNLIKELY(!libunwind_here)) {
        void *own = malloc(LIBUNWIND_BYTES), *table = malloc(THREAD_TABLE_BYTES);

        /* Else a compiler may take both calls to succeed, and leave them out. */
        __asm__ volatile("" : : "r"(own), "r"(table) : "memory");
        libunwind_here = own != NULL && table != NULL;
        free(own);
        free(table);
    }
    return libunwind_here;
}

static __attribute__((noinline)) unsigned walk_libunwind(uintptr_t *frames, unsigned max,
                                                         enum gs_walk_end *end)
{
    libunwind_backtrace *walk =
        atomic_load_explicit(&libunwind_walk, memory_order_acquire);
    bool usable;
    int count = 0;

    if (!gs_loader_enter()) {
        *end = GS_WALK_OUTERMOST;
        return 0;
    }
    usable = gs_modules_unloads() ==
                 atomic_load_explicit(&libunwind_unloads, memory_order_relaxed) &&
             libunwind_has_memory();
    if (usable) {
        count = walk((void **)frames, (int)max);
    }
    gs_loader_leave();
    if (!usable) {
        return atomic_load_explicit(&cfi_proven, memory_order_relaxed)
                   ? walk_cfi(frames, max, end)
                   : walk_gcc(frames, max, end);
    }
    if (count < 0) {
        count = 0;
    }
    *end = (unsigned)count == max ? GS_WALK_FULL : GS_WALK_OUTERMOST;
    return (unsigned)count;
}

unsigned gs_unwind_walk(enum gs_unwinder unwinder, uintptr_t *frames, unsigned max,
                        enum gs_walk_end *end)
{
    switch (unwinder) {
    case GS_UNWIND_CFI:
        return walk_cfi(frames, max, end);
    case GS_UNWIND_LIBUNWIND:
        return walk_libunwind(frames, max, end);
    case GS_UNWIND_FP:
        return gs_unwind_fp(frames, max, end);
    case GS_UNWIND_GCC:
        return walk_gcc(frames, max, end);
    case GS_UNWIND_AUTO:
    case GS_UNWIND_OFF:
        break;
    }
    *end = GS_WALK_OUTERMOST;
    return 0;
}

unsigned gs_unwind_walk_recording(enum gs_unwinder unwinder, uintptr_t *frames,
                                  unsigned max, enum gs_walk_end *end,
                                  struct gs_walk_reads *notes)
{
    unsigned count;

    notes->count = 0;
    notes->generation = 0;
    if (unwinder == GS_UNWIND_FP) {
        return gs_unwind_fp_recording(frames, max, end, notes);
    }
    if (unwinder == GS_UNWIND_CFI) {
        count = gs_unwind_cfi_recording(frames, max, end, notes);
    } else {
        count = gs_unwind_walk(unwinder, frames, max, end);
    }
    if (unwinder != GS_UNWIND_CFI || GS_UNLIKELY(*end == GS_WALK_FOREIGN)) {
        notes->count = GS_WALK_NOT_CACHED;
    }
    if (unwinder == GS_UNWIND_CFI && GS_UNLIKELY(*end == GS_WALK_FOREIGN)) {
        count = walk_foreign(frames, max, end, count);
    }
    return count;
}

unsigned gs_unwind_walk_with_pointers(enum gs_unwinder unwinder, uintptr_t *frames,
                                      uintptr_t *stack_pointers, unsigned max,
                                      enum gs_walk_end *end, bool *has_pointers)
{
    unsigned count;

    *has_pointers = true;
    if (unwinder == GS_UNWIND_FP) {
        return gs_unwind_fp_with_pointers(frames, stack_pointers, max, end);
    }
    if (unwinder == GS_UNWIND_CFI) {
        count = gs_unwind_cfi_with_pointers(frames, stack_pointers, max, end);
        if (GS_LIKELY(*end != GS_WALK_FOREIGN)) {
            return count;
        }
    }
    *has_pointers = false;
    return gs_unwind_walk(unwinder, frames, max, end);
}

/* Returns the index of the address in `frames`; `count` if it is absent. */
static unsigned position_of(uintptr_t address, const uintptr_t *frames, unsigned count)
{
    unsigned i = 0;

    while (i < count && frames[i] != address) {
        i++;
    }
    return i;
}

/* Returns a caller that every walk must see: `returns_to`, or, on an alternate stack, the
 * caller of gs_alt_stack_call. */
static uintptr_t sure_caller(void *returns_to)
{
    bool elsewhere = gs_alt_stack_record((uintptr_t)__builtin_frame_address(0)) != 0;

    return gs_code_address(elsewhere ? gs_alt_stack_here.caller : (uintptr_t)returns_to);
}

/* Makes one real walk, which must contain the address this function will return to. */
static __attribute__((noinline)) bool trial_passes(enum gs_unwinder unwinder)
{
    uintptr_t here = sure_caller(__builtin_return_address(0));
    uintptr_t frames[TRIAL_FRAMES];
    enum gs_walk_end end;
    unsigned count = gs_unwind_walk(unwinder, frames, TRIAL_FRAMES, &end);

    return position_of(here, frames, count) < count;
}

/* CFI passes only if it sees the same callers as libgcc. */
static __attribute__((noinline)) bool cfi_agrees_with_gcc(void)
{
    uintptr_t here = sure_caller(__builtin_return_address(0));
    uintptr_t ours[TRIAL_FRAMES], theirs[TRIAL_FRAMES];
    enum gs_walk_end our_end, their_end;
    unsigned our_count = gs_unwind_cfi(ours, TRIAL_FRAMES, &our_end);
    unsigned their_count = walk_gcc(theirs, TRIAL_FRAMES, &their_end);
    unsigned i = position_of(here, ours, our_count);
    unsigned k = position_of(here, theirs, their_count);

    if (i == our_count) {
        return our_end == GS_WALK_FOREIGN &&
               k < their_count; /* only libgcc can walk this stack */
    }
    while (i < our_count && k < their_count) {
        if (ours[i++] != theirs[k++]) {
            return false;
        }
    }
    return k == their_count || our_end == GS_WALK_FULL || our_end == GS_WALK_FOREIGN;
}

static bool prepare_cfi(void)
{
    bool has_gcc = load_gcc();
    struct gs_module_counts counts = gs_modules_counts();
    bool agrees;

    (void)gs_unwind_cfi_is_stale(counts.adds, counts.unloads);
    agrees = !has_gcc || cfi_agrees_with_gcc();
    if (!agrees || !trial_passes(GS_UNWIND_CFI)) {
        return false;
    }
    atomic_store(&cfi_proven, true);
    return true;
}

static bool prepare_libunwind(void)
{
    if (!load_libunwind() || !trial_passes(GS_UNWIND_LIBUNWIND)) {
        return false;
    }
    if (!atomic_load(&cfi_proven)) {
        (void)prepare_cfi(); /* takes over once a module is unloaded */
    }
    return true;
}

enum gs_unwinder gs_unwind_prepare(enum gs_unwinder wanted)
{
    if (wanted == GS_UNWIND_OFF) {
        return GS_UNWIND_OFF;
    }
    if (wanted == GS_UNWIND_FP && trial_passes(GS_UNWIND_FP)) {
        return GS_UNWIND_FP;
    }
    if (wanted == GS_UNWIND_GCC && load_gcc() && trial_passes(GS_UNWIND_GCC)) {
        return GS_UNWIND_GCC;
    }
    if (wanted == GS_UNWIND_LIBUNWIND && prepare_libunwind()) {
        return GS_UNWIND_LIBUNWIND;
    }
    if (prepare_cfi()) {
        return GS_UNWIND_CFI;
    }
    if (load_gcc() && trial_passes(GS_UNWIND_GCC)) {
        return GS_UNWIND_GCC;
    }
    if (prepare_libunwind()) {
        return GS_UNWIND_LIBUNWIND;
    }
    return GS_UNWIND_OFF;
}
