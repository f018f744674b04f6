/*
 * shim_recent_lookups.c - proves which names of look-ups are kept for the report of a
 * wrong idle proof: the driver's, the newest first, and none twice in a row; and what the
 * end of the proof is while it is verified.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "shim/link/known_functions.h"
#include "shim/link/recent_lookups.h"

static char names[GS_RECENT_LOOKUPS][GS_RECENT_LOOKUP_BYTES];

Test(looked_up, keeps_the_drivers_names_newest_first)
{
    gs_recent_lookups_add("cuInit");
    gs_recent_lookups_add("malloc");
    gs_recent_lookups_add("cudaMalloc");
    gs_recent_lookups_add("cuMemAlloc");
    gs_recent_lookups_add("cuMemAlloc");
    gs_recent_lookups_add("cuMemAllocHost");
    cr_assert_eq(gs_recent_lookups_copy(names), 3);
    cr_expect_str_eq(names[0], "cuMemAllocHost");
    cr_expect_str_eq(names[1], "cuMemAlloc");
    cr_expect_str_eq(names[2], "cuInit");
    gs_recent_lookups_reset();
    cr_expect_eq(gs_recent_lookups_copy(names), 0);
}

Test(looked_up, keeps_the_last_ones_and_cuts_long_names)
{
    char name[] = "cuA", longest[2 * GS_RECENT_LOOKUP_BYTES];

    for (; name[2] <= 'Z'; name[2]++)
        gs_recent_lookups_add(name);
    cr_assert_eq(gs_recent_lookups_copy(names), GS_RECENT_LOOKUPS);
    cr_expect_str_eq(names[0], "cuZ");
    cr_expect_str_eq(names[GS_RECENT_LOOKUPS - 1], "cuO");
    memset(longest, 'x', sizeof(longest));
    memcpy(longest, "cuX", 3);
    longest[sizeof(longest) - 1] = '\0';
    gs_recent_lookups_add(longest);
    gs_recent_lookups_add(longest);
    gs_recent_lookups_copy(names);
    cr_expect_eq(strlen(names[0]), GS_RECENT_LOOKUP_BYTES - 1);
    cr_expect_str_eq(names[1], "cuZ", "the long one is kept once");
}

/* A table that the library allows may be the one that submits work. */
Test(looked_up, keeps_tables_by_their_guid)
{
    gs_recent_lookups_add("cuGetExportTable");
    gs_recent_lookups_add_table("21318c60-9714-3248-8ca6-41ff7324c8f2");
    cr_assert_eq(gs_recent_lookups_copy(names), 2);
    cr_expect_str_eq(names[0], "table 21318c60-9714-3248-8ca6-41ff7324c8f2");
}

/* The end of the proof and its name are the same, verified or not. */
Test(looked_up, proof_ends_while_it_is_verified)
{
    gs_known_verify_proof();
    cr_expect(gs_known_proof_holds());
    cr_expect_not(gs_known_proof_is_trusted());
    gs_known_end_proof("cuTomorrow");
    gs_known_end_proof("cuLater");
    cr_expect_not(gs_known_proof_holds());
    cr_expect(gs_known_proof_is_verified());
    cr_expect_str_eq(gs_known_ended_by(), "cuTomorrow");
}
