/*
 * shim_round_trips.c - proves which copies to the device return what had come from there.
 * Faults that it alone would see: a changed byte that the sum misses, a copy that is
 * taken for another, one that is not over, memory that is gone.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/checks/round_trips.h"

/* More than is read at once, and no multiple of anything. */
#define BYTES (200 * GS_KIB + 13)

static unsigned char *host;

static void set_up(void)
{
    host = malloc(BYTES + 1);
    cr_assert_not_null(host);
    for (size_t i = 0; i < BYTES; i++)
        host[i] = (unsigned char)(i * 7 + i / 251);
    gs_round_trips_start();
}

static void take_down(void)
{
    gs_round_trips_reset();
    free(host);
}

TestSuite(round_trips, .init = set_up, .fini = take_down);

Test(round_trips, the_same_bytes_return_any_number_of_times)
{
    cr_expect_not(gs_round_trips_return(host, BYTES), "none has come");
    gs_round_trips_came(host, BYTES);
    cr_expect(gs_round_trips_return(host, BYTES));
    cr_expect(gs_round_trips_return(host, BYTES));
}

Test(round_trips, a_changed_byte_is_seen_wherever_it_is)
{
    static const size_t places[] = {0,         1,          7,          8,         31,
                                    32,        65535,      65536,      70000,     131072,
                                    BYTES - 1, BYTES - 13, BYTES - 14, BYTES - 33};

    gs_round_trips_came(host, BYTES);
    for (size_t i = 0; i < GS_ARRAY_LEN(places); i++) {
        for (unsigned bit = 1; bit < 256; bit <<= 1) {
            host[places[i]] ^= (unsigned char)bit;
            cr_expect_not(gs_round_trips_return(host, BYTES), "byte %zu", places[i]);
            host[places[i]] ^= (unsigned char)bit;
        }
    }
    cr_expect(gs_round_trips_return(host, BYTES));
}

/* Two words that change places, or grow by as much as others fall. */
Test(round_trips, the_order_of_the_bytes_counts)
{
    uint64_t *words = (uint64_t *)(void *)host, kept = words[4];

    gs_round_trips_came(host, BYTES);
    words[4] = words[8];
    words[8] = kept;
    cr_expect_not(gs_round_trips_return(host, BYTES));
    words[8] = words[4] + 1;
    words[4] = kept - 1;
    cr_expect_not(gs_round_trips_return(host, BYTES));
}

Test(round_trips, address_and_size_are_the_same)
{
    gs_round_trips_came(host, BYTES);
    cr_expect_not(gs_round_trips_return(host, BYTES - 1));
    cr_expect_not(gs_round_trips_return(host + 1, BYTES - 1));
}

Test(round_trips, the_latest_copy_counts)
{
    gs_round_trips_came(host, BYTES);
    host[5]++;
    cr_expect_not(gs_round_trips_return(host, BYTES));
    gs_round_trips_came(host, BYTES);
    cr_expect(gs_round_trips_return(host, BYTES));
    host[5]--;
    cr_expect_not(gs_round_trips_return(host, BYTES));
}

Test(round_trips, a_copy_ends_with_a_wait_for_its_stream)
{
    gs_round_trips_comes(host, BYTES, 7);
    cr_expect_not(gs_round_trips_return(host, BYTES));
    gs_round_trips_waited(8);
    cr_expect_not(gs_round_trips_return(host, BYTES));
    host[9]++; /* the copy brings it */
    gs_round_trips_waited(7);
    cr_expect(gs_round_trips_return(host, BYTES));
    gs_round_trips_comes(host, BYTES, 7);
    cr_expect_not(gs_round_trips_return(host, BYTES), "it runs once more");
    gs_round_trips_waited(0);
    cr_expect(gs_round_trips_return(host, BYTES), "a wait for all streams");
}

/* A later wait does not take what the program has written since for what came. */
Test(round_trips, a_wait_sums_once)
{
    gs_round_trips_comes(host, BYTES, 7);
    gs_round_trips_waited(7);
    host[9]++;
    gs_round_trips_waited(7);
    cr_expect_not(gs_round_trips_return(host, BYTES));
}

Test(round_trips, a_copy_that_is_forgotten_does_not_end)
{
    gs_round_trips_came(host, BYTES / 2);
    gs_round_trips_comes(host, BYTES, 7);
    gs_round_trips_forget();
    gs_round_trips_waited(7);
    cr_expect_not(gs_round_trips_return(host, BYTES));
    cr_expect(gs_round_trips_return(host, BYTES / 2), "it had ended");
}

Test(round_trips, the_oldest_is_forgotten)
{
    for (size_t i = 0; i < GS_ROUND_TRIPS; i++)
        gs_round_trips_came(host + i, 1000);
    cr_expect(gs_round_trips_return(host, 1000));
    gs_round_trips_came(host, 999);
    cr_expect_not(gs_round_trips_return(host, 1000));
    cr_expect(gs_round_trips_return(host + 1, 1000));
}

static void expect_uniform(size_t period, bool uniform)
{
    for (size_t i = 0; i < BYTES; i++)
        host[i] = (unsigned char)(i % period);
    gs_round_trips_came(host, BYTES);
    cr_expect_eq(gs_round_trips_return(host, BYTES), !uniform, "period %zu", period);
}

/* Cleared memory, points of three floats, rows of a hundred and twenty: the host makes
 * them again. */
Test(round_trips, bytes_that_repeat_do_not_return)
{
    static const size_t periods[] = {1, 2, 3, 4, 8, 12, 16, 24, 32, 120, 160};

    for (size_t i = 0; i < GS_ARRAY_LEN(periods); i++)
        expect_uniform(periods[i], true);
    expect_uniform(251, false);
}

/* One other byte: at an end of what is read at once, at the ends of all. */
Test(round_trips, one_other_byte_is_enough)
{
    static const size_t places[] = {0, 479, 480, 65279, 65280, 65760, BYTES - 1};

    for (size_t i = 0; i < GS_ARRAY_LEN(places); i++) {
        memset(host, 0, BYTES);
        host[places[i]] = 1;
        gs_round_trips_came(host, BYTES);
        cr_expect(gs_round_trips_return(host, BYTES), "byte %zu", places[i]);
    }
}

Test(round_trips, freed_memory_is_forgotten)
{
    gs_round_trips_came(host, BYTES);
    gs_round_trips_freed((uintptr_t)host - 8, 8);
    gs_round_trips_freed((uintptr_t)host + 1, BYTES);
    cr_expect(gs_round_trips_return(host, BYTES), "neighbours");
    gs_round_trips_freed((uintptr_t)host - 8, 9);
    cr_expect_not(gs_round_trips_return(host, BYTES));
}

Test(round_trips, memory_that_is_gone_is_no_fault)
{
    unsigned char *gone =
        mmap(NULL, GS_MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(gone, MAP_FAILED);
    for (size_t i = 0; i < GS_MIB; i++)
        gone[i] = (unsigned char)(i * 7 + i / 251);
    gs_round_trips_came(gone, GS_MIB);
    gs_round_trips_comes(gone, GS_MIB / 2, 7);
    munmap(gone + GS_MIB / 4, GS_MIB / 4);
    cr_expect_not(gs_round_trips_return(gone, GS_MIB));
    gs_round_trips_waited(7);
    cr_expect_not(gs_round_trips_return(gone, GS_MIB / 2));
    munmap(gone, GS_MIB);
}

Test(round_trips, nothing_is_known_while_off)
{
    gs_round_trips_came(host, BYTES);
    gs_round_trips_reset();
    gs_round_trips_came(host, BYTES);
    gs_round_trips_waited(0);
    cr_expect_not(gs_round_trips_return(host, BYTES));
}
