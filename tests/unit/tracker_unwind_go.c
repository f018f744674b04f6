/*
 * Proves that a walk goes on in a goroutine's stack where Go's switch of stacks is, and
 * nowhere else: wild words on the thread's stack give no frames, and never a fault.
 */
#include "tracker/stacks/unwind_go.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORDS 1024u

#if defined(__x86_64__)

static uintptr_t goroutine[WORDS]; /* a goroutine's stack */
static uintptr_t g[8];             /* begins with its bounds */
static uintptr_t thread[32];       /* the thread's stack at asmcgocall */
static uintptr_t frames[64];
static enum gs_walk_end end;

static uintptr_t at(unsigned word)
{
    return (uintptr_t)&goroutine[word];
}

/* Three frames: cgocall's, its caller's, and the goroutine's first function. */
static void start(void)
{
    memset(goroutine, 0, sizeof(goroutine));
    g[0] = at(0);
    g[1] = at(WORDS);
    goroutine[900] = 0x400100; /* asmcgocall returns to cgocall */
    goroutine[910] = at(920);
    goroutine[911] = 0x400200;
    goroutine[920] = 0;
    goroutine[921] = 0x400300;
    memset(thread, 0, sizeof(thread));
    thread[5] = g[1] - at(900);
    thread[6] = (uintptr_t)g;
}

static unsigned walk(unsigned max)
{
    struct gs_go_switch from = {
        .sp = (uintptr_t)thread, .fp = at(910), .high = (uintptr_t)&thread[32]};

    return gs_unwind_go(&from, frames, NULL, max, &end);
}

TestSuite(unwind_go, .init = start);

Test(unwind_go, frames_of_the_goroutine_follow)
{
    cr_assert_eq(walk(64), 3);
    cr_expect_eq(frames[0], 0x400100);
    cr_expect_eq(frames[1], 0x400200);
    cr_expect_eq(frames[2], 0x400300);
    cr_expect_eq(end, GS_WALK_OUTERMOST);
    cr_expect_eq(walk(2), 2);
    cr_expect_eq(end, GS_WALK_FULL);
    /* Go 1.22: one return address more between C and asmcgocall */
    memmove(&thread[6], &thread[5], 2 * sizeof(uintptr_t));
    thread[5] = 0x400000;
    cr_expect_eq(walk(64), 3);
}

Test(unwind_go, a_chain_that_leaves_the_stack_ends)
{
    static const uintptr_t wild[] = {1, 8, 0x1000, UINTPTR_MAX, UINTPTR_MAX - 7};

    for (size_t i = 0; i < GS_ARRAY_LEN(wild); i++) {
        goroutine[910] = wild[i];
        cr_expect_leq(walk(64), 2);
        cr_expect_eq(end, GS_WALK_STOPPED);
    }
    goroutine[910] = at(910); /* a ring */
    cr_expect_leq(walk(64), 2);
    goroutine[910] = at(905);
    cr_expect_leq(walk(64), 2);
}

Test(unwind_go, other_words_are_no_goroutine)
{
    unsigned seed = 7;

    thread[6] = 0x1000;
    cr_expect_eq(walk(64), 0);
    thread[6] = (uintptr_t)g + 1;
    cr_expect_eq(walk(64), 0);
    thread[6] = (uintptr_t)g;
    g[0] = g[1];
    cr_expect_eq(walk(64), 0);
    for (unsigned round = 0; round < 20000; round++) {
        start();
        for (unsigned i = 0; i < 3; i++) {
            uintptr_t word = (uintptr_t)rand_r(&seed) << (rand_r(&seed) % 34);

            switch (rand_r(&seed) % 3) {
            case 0:
                thread[rand_r(&seed) % 8] = word;
                break;
            case 1:
                g[rand_r(&seed) % 2] += word % 65536 * 8;
                break;
            default:
                goroutine[900 + rand_r(&seed) % 24] = word;
            }
        }
        cr_assert_leq(walk(64), 64);
    }
}

/* The stack was unmapped: the kernel's copy fails. */
Test(unwind_go, memory_that_is_gone_is_not_read)
{
    size_t bytes = 65536;
    char *gone = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(gone, MAP_FAILED);
    g[0] = (uintptr_t)gone;
    g[1] = (uintptr_t)gone + bytes;
    cr_expect_eq(walk(64), 0);
    thread[6] = (uintptr_t)gone;
    cr_expect_eq(walk(64), 0);
}

#endif
