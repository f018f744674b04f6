/*
 * unwind_go.c - walks the frames of a goroutine that called C.
 *
 * Go calls C on the thread's own stack. runtime.asmcgocall switches to that stack and
 * keeps two words on it: the goroutine, whose first two words are the bounds of its
 * stack, and how much of that stack is in use. Go's code has no call frame information,
 * but keeps frame pointers, and asmcgocall leaves the register as it was. So the register
 * that C's call frame information restores is the goroutine's frame pointer.
 *
 * Every condition is checked, and memory outside of the thread's stack is only copied by
 * the kernel: other code that ends a walk here reads as no goroutine, never as a fault.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/stacks/unwind_go.h"

#include "tracker/stacks/code_address.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#if defined(__x86_64__)

#define WORD        sizeof(uintptr_t)
#define STACK_MIN   ((uintptr_t)1 << 10)
#define STACK_MAX   ((uintptr_t)1 << 30) /* Go's own limit */
#define CHUNK_WORDS 64u
#define DEPTH_SLOT  40u /* above the stack pointer of asmcgocall */
#define RECORDS_MAX 4096u

/* A goroutine's stack. */
struct goroutine {
    uintptr_t low, high, sp;
};

/* A copy of consecutive words. */
struct chunk {
    uintptr_t begin;
    size_t count;
    uintptr_t words[CHUNK_WORDS];
};

static bool copy(uintptr_t from, uintptr_t *to, size_t words)
{
    struct iovec local = {to, words * WORD};
    struct iovec remote = {(void *)from, words * WORD}; /* NOLINT */

    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) ==
           (ssize_t)(words * WORD);
}

/* A word of the thread's own stack. Sanitizers see the red zones of other frames there.
 */
__attribute__((no_sanitize("address"), no_sanitize("thread"))) static uintptr_t
own_word(uintptr_t address)
{
    return *(const volatile uintptr_t *)address; /* NOLINT */
}

/* Returns true if two words at `slot` are a depth and a goroutine. */
static bool is_switch(uintptr_t slot, uintptr_t high, struct goroutine *out)
{
    uintptr_t bounds[2], depth, g;

    if (slot % WORD != 0 || slot > high - 2 * WORD) {
        return false;
    }
    depth = own_word(slot);
    g = own_word(slot + WORD);
    if (depth == 0 || depth > STACK_MAX || g < GS_CODE_ADDRESS_MIN || g % WORD != 0 ||
        !copy(g, bounds, 2) || bounds[0] >= bounds[1] ||
        bounds[1] - bounds[0] < STACK_MIN || bounds[1] - bounds[0] > STACK_MAX ||
        depth > bounds[1] - bounds[0]) {
        return false;
    }
    *out = (struct goroutine){bounds[0], bounds[1], bounds[1] - depth};
    return out->sp % WORD == 0;
}

/* The word at an address of the goroutine's stack. False: not on it, or unreadable. */
static bool word_at(const struct goroutine *goroutine, struct chunk *chunk,
                    uintptr_t address, uintptr_t *word)
{
    if (address % WORD != 0 || address < goroutine->sp ||
        address > goroutine->high - WORD) {
        return false;
    }
    if (chunk->count == 0 || address < chunk->begin ||
        (address - chunk->begin) / WORD >= chunk->count) {
        size_t left = (goroutine->high - address) / WORD;

        chunk->count = left < CHUNK_WORDS ? left : CHUNK_WORDS;
        chunk->begin = address;
        if (!copy(address, chunk->words, chunk->count)) {
            chunk->count = 0;
            return false;
        }
    }
    *word = chunk->words[(address - chunk->begin) / WORD];
    return true;
}

/* Writes the return address of asmcgocall's caller, then follows the frame pointers. */
static unsigned walk(const struct goroutine *goroutine, uintptr_t fp, uintptr_t *frames,
                     uintptr_t *stack_pointers, unsigned max, enum gs_walk_end *end)
{
    struct chunk chunk = {.count = 0};
    uintptr_t at = goroutine->sp, address, next;
    unsigned count = 0;

    if (!word_at(goroutine, &chunk, at, &address) || address < GS_CODE_ADDRESS_MIN) {
        return 0;
    }
    for (unsigned i = 0; i < RECORDS_MAX; i++) {
        if (count == max) {
            *end = GS_WALK_FULL;
            return count;
        }
        if (stack_pointers) {
            stack_pointers[count] = at + WORD;
        }
        frames[count++] = address;
        if (fp == 0) { /* a goroutine's first function has no caller's frame */
            *end = GS_WALK_OUTERMOST;
            return count;
        }
        if (fp <= at - WORD || !word_at(goroutine, &chunk, fp, &next) ||
            !word_at(goroutine, &chunk, fp + WORD, &address) ||
            address < GS_CODE_ADDRESS_MIN) {
            break; /* a callback: C called Go here */
        }
        at = fp + WORD;
        if (next != 0 && next <= fp) {
            break;
        }
        fp = next;
    }
    *end = GS_WALK_STOPPED;
    return count;
}

GS_NOINLINE unsigned gs_unwind_go(const struct gs_go_switch *from, uintptr_t *frames,
                                  uintptr_t *stack_pointers, unsigned max,
                                  enum gs_walk_end *end)
{
    struct goroutine goroutine;
    unsigned count = 0;
    int saved_errno = errno;

    /* Since Go 1.22 a function without a frame is between C and asmcgocall. */
    if (max > 0 && (is_switch(from->sp + DEPTH_SLOT, from->high, &goroutine) ||
                    is_switch(from->sp + DEPTH_SLOT + WORD, from->high, &goroutine))) {
        count = walk(&goroutine, from->fp, frames, stack_pointers, max, end);
    }
    errno = saved_errno;
    return count;
}

#else

unsigned gs_unwind_go(const struct gs_go_switch *from, uintptr_t *frames,
                      uintptr_t *stack_pointers, unsigned max, enum gs_walk_end *end)
{
    (void)from;
    (void)frames;
    (void)stack_pointers;
    (void)max;
    (void)end;
    return 0;
}

#endif
