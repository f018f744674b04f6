/*
 * unwind_cfi.c - unwinds by call frame information, with a cache of rules.
 *
 * Role:  the preferred unwinder of AUTO: as exact as libgcc's, a few nanoseconds a frame.
 * Owns:  rule_cache and its generation, process-wide.   Lock: none, atomics.
 * Design: docs/stacks.md
 *
 * For each return address the cache holds the packed rule (cfi_rules.h) that finds its
 * caller. A rule may be stale: its module was closed and another was loaded at its
 * address. So a word is read only if it is on this thread's stack, further out than the
 * previous frame. A stale rule yields a wrong stack, never a fault. A wrong stack is not
 * in the stack table yet: gs_stacks_capture then checks whether the modules have changed,
 * clears the cache and walks again.
 *
 * A slot has two words, written without a lock: the rule, and the key xor the rule. A
 * reader that sees halves of two writes computes a different key: a miss.
 */
#include "tracker/names/loader_gate.h"
#include "tracker/stacks/alt_stack.h"
#include "tracker/stacks/cfi_rules.h"
#include "tracker/stacks/code_address.h"
#include "tracker/stacks/thread_stack.h"
#include "tracker/stacks/unwind.h"
#include "tracker/stacks/unwind_go.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BUCKET_SLOTS 4 /* 64 bytes: one cache line */
#define BUCKET_BITS  12

#define LAST_WALK_STEPS 40

struct cache_slot {
    _Atomic uint64_t key_xor_rule, rule;
};

struct cache_bucket {
    struct cache_slot slots[BUCKET_SLOTS];
} __attribute__((aligned(64)));

/* Both are lock-free. The cache is 256 KiB of zero pages until the first walk. */
static struct cache_bucket rule_cache[1 << BUCKET_BITS];
_Atomic uint64_t gs_unwind_cfi_generation = 1;

/*
 * This thread's last walk: its generation (0: none yet) and its first steps. The next
 * walk is usually the same. The rule of the same step is known before the return address
 * is loaded, so the processor continues while the address is checked. Lock: none, the
 * thread's own.
 */
struct last_walk {
    uint64_t generation;
    struct {
        uintptr_t pc;
        uint64_t rule;
    } steps[LAST_WALK_STEPS];
};

/* Of a thread without a record. Never written. */
static struct last_walk no_walk;

/* Allocated at the thread's first walk, freed at the thread's end. Thread-local data has
 * little space in a library that is loaded late, or together with an audit library. */
static __thread struct last_walk *last_walk __attribute__((tls_model("initial-exec"))) =
    &no_walk;
static pthread_key_t walk_key;
static bool walk_key_made;

static void end_walks(void *walk)
{
    last_walk = &no_walk; /* a walk in another destructor allocates a new record */
    free(walk);
}

static void make_walk_key(void)
{
    walk_key_made = pthread_key_create(&walk_key, end_walks) == 0;
}

/* The thread's record, emptied for the generation; no_walk if there is no memory. */
static __attribute__((noinline)) struct last_walk *begin_walks(uint64_t generation)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct last_walk *walk = last_walk;

    if (walk == &no_walk) {
        pthread_once(&once, make_walk_key);
        walk = walk_key_made ? malloc(sizeof(*walk)) : NULL;
        if (!walk || pthread_setspecific(walk_key, walk) != 0) {
            free(walk);
            return &no_walk;
        }
        last_walk = walk;
    }
    memset(walk, 0, sizeof(*walk));
    walk->generation = generation;
    return walk;
}

/* The state of a walk: the registers of one frame. */
struct frame {
    uintptr_t pc, sp, fp;
    uintptr_t fp_slot; /* the stack word that fp was read from, not recorded yet; or 0 */
};

#define FP_LOST ((uintptr_t)0)

/*
 * The loader's counters of added and removed modules only grow, so their sum identifies a
 * state of the loader's list: the generation. Several threads may report the same change.
 */
bool gs_unwind_cfi_is_stale(uint64_t adds, uint64_t unloads)
{
    uint64_t state = 1 + adds + unloads;
    uint64_t known = atomic_load(&gs_unwind_cfi_generation);

    while (state > known &&
           !atomic_compare_exchange_weak(&gs_unwind_cfi_generation, &known, state)) {
    }
    return last_walk->generation != 0 && last_walk->generation < state;
}

/* The key of a return address in a generation; other generations have other keys. */
static uint64_t cache_key(uintptr_t pc, uint64_t generation)
{
    return (uint64_t)pc ^ generation << 56 ^ generation >> 8 << 48;
}

static struct cache_bucket *cache_bucket_of(uint64_t key)
{
    return &rule_cache[key * 0x9e3779b97f4a7c15u >> (64 - BUCKET_BITS)];
}

static __attribute__((noinline)) uint64_t learn_rule(uintptr_t lookup_pc, uint64_t key)
{
    struct cache_bucket *bucket = cache_bucket_of(key);
    struct gs_cfi_rule rule;
    uint64_t packed;
    unsigned victim = 0;

    if (!gs_loader_enter()) {
        return GS_STEP_UNKNOWN; /* the process is forking: not cached */
    }
    gs_cfi_rule_find(lookup_pc, &rule);
    gs_loader_leave();
    packed = gs_cfi_pack(&rule);
    while (victim < BUCKET_SLOTS &&
           atomic_load_explicit(&bucket->slots[victim].rule, memory_order_relaxed) != 0) {
        victim++;
    }
    if (victim == BUCKET_SLOTS) {
        victim = (unsigned)(key >> 4) % BUCKET_SLOTS;
    }
    atomic_store_explicit(&bucket->slots[victim].rule, packed, memory_order_relaxed);
    atomic_store_explicit(&bucket->slots[victim].key_xor_rule, key ^ packed,
                          memory_order_relaxed);
    return packed;
}

/* Returns the rule of the frame at `pc`; `lookup_pc` is within the call instruction. */
static inline uint64_t rule_for(uintptr_t pc, uintptr_t lookup_pc, uint64_t generation)
{
    uint64_t key = cache_key(pc, generation);
    struct cache_bucket *bucket = cache_bucket_of(key);

    for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
        struct cache_slot *slot = &bucket->slots[i];
        uint64_t rule = atomic_load_explicit(&slot->rule, memory_order_relaxed);

        if (GS_LIKELY((atomic_load_explicit(&slot->key_xor_rule, memory_order_relaxed) ^
                       rule) == key) &&
            rule != 0) {
            return rule;
        }
    }
    return learn_rule(lookup_pc, key);
}

/* Returns the rule of step `n`: the last walk's if it matches, else looked up. */
static inline uint64_t next_rule(struct last_walk *last, uint64_t generation, unsigned n,
                                 uintptr_t pc, uintptr_t lookup_pc)
{
    uint64_t rule;

    if (GS_UNLIKELY(n >= LAST_WALK_STEPS)) {
        return rule_for(pc, lookup_pc, generation);
    }
    if (GS_LIKELY(last->steps[n].pc == pc)) {
        return last->steps[n].rule;
    }
    rule = rule_for(pc, lookup_pc, generation);
    if (gs_cfi_step(rule) != GS_STEP_UNKNOWN && last != &no_walk) {
        last->steps[n].pc = pc;
        last->steps[n].rule = rule;
    }
    return rule;
}

/* Returns true if the word at `address` is aligned and on the walked part of the
 * stack. */
static inline bool on_stack(uintptr_t address, uintptr_t sp, uintptr_t high)
{
    return (address - sp <= high - sizeof(uintptr_t) - sp) &
           (address % sizeof(uintptr_t) == 0);
}

/* Reads a word of this thread's stack. Not instrumented: the stack has red zones of
 * sanitizers. */
__attribute__((no_sanitize("address"), no_sanitize("thread"))) static inline uintptr_t
stack_word(uintptr_t address)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): on_stack has checked the
     * address */
    return *(const volatile uintptr_t *)address;
}

/* Likewise; records the word for walk_cache.c. */
static inline __attribute__((always_inline)) uintptr_t
read_word(uintptr_t address, struct gs_walk_reads *notes)
{
    if (notes) {
        gs_walk_record(notes, address);
    }
    return stack_word(address);
}

/*
 * Returns the frame pointer, which the walk depends on from here on. Code without frame
 * pointers keeps data in the register, so a saved register is only recorded when a step
 * uses it: else a walk would be recognised only as long as the data is the same.
 */
static inline __attribute__((always_inline)) uintptr_t use_fp(struct frame *frame,
                                                              struct gs_walk_reads *notes)
{
    if (notes && frame->fp_slot != 0) {
        gs_walk_record(notes, frame->fp_slot);
        frame->fp_slot = 0;
    }
    return frame->fp;
}

/*
 * Applies a rule: moves to the caller's frame. False: the caller's frame is not on this
 * stack. On entry sp is at most high - 8; sp only grows, so the walk ends.
 */
static inline __attribute__((always_inline)) bool
step_by_rule(struct frame *frame, uint64_t packed, uintptr_t high,
             struct gs_walk_reads *notes)
{
    enum gs_step step = gs_cfi_step(packed);
    enum gs_step_fp fp_rule = gs_cfi_fp(packed);
    uintptr_t sp = frame->sp;
    uintptr_t cfa = (step == GS_STEP_FROM_SP ? sp : use_fp(frame, notes)) +
                    (uintptr_t)gs_cfi_cfa_offset(packed);
    uintptr_t ra_slot, fp_slot;

    if (GS_UNLIKELY(step == GS_STEP_DEREF_FP)) {
        if (!on_stack(cfa, sp, high)) {
            return false;
        }
        cfa = read_word(cfa, notes);
    }
    ra_slot = cfa + (uintptr_t)gs_cfi_ra_offset(packed);
    if (GS_UNLIKELY(cfa <= sp || cfa > high - sizeof(uintptr_t) ||
                    !on_stack(ra_slot, sp, high))) {
        return false;
    }
    if (fp_rule != GS_STEP_FP_SAME) {
        fp_slot = cfa + (uintptr_t)gs_cfi_fp_offset(packed);
        if (fp_rule == GS_STEP_FP_AT_FP) {
            fp_slot = use_fp(frame, notes);
        }
        /* A register that is not restored gets an address outside of every stack. */
        if (fp_rule == GS_STEP_FP_LOST) {
            frame->fp = FP_LOST;
        } else if (GS_UNLIKELY(!on_stack(fp_slot, sp, high))) {
            return false;
        } else {
            frame->fp = stack_word(fp_slot);
        }
        if (notes) {
            frame->fp_slot = fp_rule == GS_STEP_FP_LOST ? 0 : fp_slot;
        }
    }
    frame->pc = gs_code_address(read_word(ra_slot, notes));
    frame->sp = cfa;
    return true;
}

/* Steps out of a function without call frame information: on x86-64 tries its frame
 * pointer, and accepts the caller only if that has call frame information. */
static bool step_by_guess(struct frame *frame, uint64_t generation, uintptr_t high)
{
#if defined(__x86_64__)
    uintptr_t slot = frame->fp + sizeof(uintptr_t), caller;
    enum gs_step step;

    if (frame->fp == FP_LOST || !on_stack(frame->fp, frame->sp, high) ||
        !on_stack(slot, frame->sp, high)) {
        return false;
    }
    caller = stack_word(slot);
    if (caller < GS_CODE_ADDRESS_MIN) {
        return false;
    }
    step = gs_cfi_step(rule_for(caller, caller - 1, generation));
    if (step == GS_STEP_NO_INFO || step == GS_STEP_UNKNOWN) {
        return false;
    }
    frame->pc = caller;
    frame->sp = frame->fp + 2 * sizeof(uintptr_t);
    frame->fp = stack_word(frame->fp);
    return true;
#else
    (void)frame;
    (void)generation;
    (void)high;
    return false;
#endif
}

/* Reads the registers in the frame of the function that expands the macro. */
#if defined(__x86_64__)
#define READ_REGISTERS(frame)                                                            \
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"                \
                     : "=&r"((frame).pc), "=&r"((frame).sp), "=&r"((frame).fp))
#elif defined(__aarch64__)
#define READ_REGISTERS(frame)                                                            \
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29"                            \
                     : "=&r"((frame).pc), "=&r"((frame).sp), "=&r"((frame).fp))
#endif

/* On an alternate stack (alt_stack.h) the walk starts in the frame that switched stacks.
 */
static inline __attribute__((always_inline)) struct frame outside(struct frame frame)
{
    uintptr_t record = gs_alt_stack_record(frame.sp);

    if (GS_UNLIKELY(record != 0)) {
        frame.pc = gs_code_address(stack_word(record + sizeof(uintptr_t)));
        frame.sp = record + 2 * sizeof(uintptr_t);
        frame.fp = stack_word(record);
    }
    return frame;
}

/* Walks from `frame` on. A walk with a guess is not recorded: the guess depends on the
 * function of another frame. */
static inline __attribute__((always_inline)) unsigned
walk_from(struct frame frame, uintptr_t *frames, unsigned max, enum gs_walk_end *end,
          struct gs_walk_reads *notes, uintptr_t *stack_pointers)
{
    uint64_t generation =
        atomic_load_explicit(&gs_unwind_cfi_generation, memory_order_acquire);
    struct last_walk *last = last_walk;
    uintptr_t high, lookup_pc;
    unsigned count = 0;

    if (notes) {
        notes->generation = generation;
    }
    if (GS_UNLIKELY(last->generation != generation)) {
        last = begin_walks(generation);
    }
    *end = GS_WALK_FOREIGN;
    if (!gs_thread_stack_holds(frame.sp, &high)) {
        return 0;
    }
    for (lookup_pc = frame.pc;; lookup_pc = frame.pc - 1) {
        uint64_t rule = next_rule(last, generation, count, frame.pc, lookup_pc);
        enum gs_step step = gs_cfi_step(rule);

        if (step >= GS_STEP_OUTERMOST) {
            if (step == GS_STEP_OUTERMOST) {
                *end = GS_WALK_OUTERMOST;
            }
            if (step != GS_STEP_NO_INFO) {
                return count;
            }
            if (notes) {
                notes->count = GS_WALK_NOT_CACHED;
            }
            if (!step_by_guess(&frame, generation, high)) {
                const struct gs_go_switch at = {frame.sp, frame.fp, high};

                return count +
                       gs_unwind_go(&at, frames + count,
                                    stack_pointers ? stack_pointers + count : NULL,
                                    max - count, end);
            }
        } else if (!step_by_rule(&frame, rule, high, notes)) {
            return count;
        }
        if (frame.pc < GS_CODE_ADDRESS_MIN) {
            *end = GS_WALK_OUTERMOST;
            return count;
        }
        if (count == max) {
            *end = GS_WALK_FULL;
            return count;
        }
        if (stack_pointers) {
            stack_pointers[count] = frame.sp;
        }
        frames[count++] = frame.pc;
    }
}

bool gs_unwind_cfi_visit_words(const struct gs_unwind_registers *at,
                               gs_unwind_word_visit *visit, void *self, bool *known)
{
    uint64_t packed =
        rule_for(at->pc, at->pc - 1,
                 atomic_load_explicit(&gs_unwind_cfi_generation, memory_order_acquire));
    enum gs_step step = gs_cfi_step(packed);
    enum gs_step_fp fp_rule = gs_cfi_fp(packed);
    uintptr_t cfa = (step == GS_STEP_FROM_SP ? at->sp : at->fp) +
                    (uintptr_t)gs_cfi_cfa_offset(packed);

    *known = step < GS_STEP_OUTERMOST;
    if (!*known) {
        return true;
    }
    if (step == GS_STEP_DEREF_FP) {
        if (!visit(self, cfa)) {
            return false;
        }
        cfa = stack_word(cfa);
    }
    if (!visit(self, cfa + (uintptr_t)gs_cfi_ra_offset(packed))) {
        return false;
    }
    return fp_rule == GS_STEP_FP_SAME || fp_rule == GS_STEP_FP_LOST ||
           visit(self, fp_rule == GS_STEP_FP_AT_FP
                           ? at->fp
                           : cfa + (uintptr_t)gs_cfi_fp_offset(packed));
}

__attribute__((noinline)) unsigned gs_unwind_cfi(uintptr_t *frames, unsigned max,
                                                 enum gs_walk_end *end)
{
    struct frame frame = {0};

    READ_REGISTERS(frame);
    return walk_from(outside(frame), frames, max, end, NULL, NULL);
}

__attribute__((noinline)) unsigned gs_unwind_cfi_recording(uintptr_t *frames,
                                                           unsigned max,
                                                           enum gs_walk_end *end,
                                                           struct gs_walk_reads *notes)
{
    struct frame frame = {0};

    READ_REGISTERS(frame);
    return walk_from(outside(frame), frames, max, end, notes, NULL);
}

__attribute__((noinline)) unsigned gs_unwind_cfi_with_pointers(uintptr_t *frames,
                                                               uintptr_t *stack_pointers,
                                                               unsigned max,
                                                               enum gs_walk_end *end)
{
    struct frame frame = {0};

    READ_REGISTERS(frame);
    return walk_from(outside(frame), frames, max, end, NULL, stack_pointers);
}
