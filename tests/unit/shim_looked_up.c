/*
 * shim_looked_up.c - proves which names of look-ups are kept for the report of a wrong
 * idle proof: the driver's, the newest first, and none twice in a row; and what the
 * end of the proof is while it is verified.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "shim/link/known.h"
#include "shim/link/looked_up.h"

static char names[GS_LOOKED_UP_NAMES][GS_LOOKED_UP_BYTES];

Test(looked_up, keeps_the_drivers_names_newest_first)
{
    gs_looked_up("cuInit");
    gs_looked_up("malloc");
    gs_looked_up("cudaMalloc");
    gs_looked_up("cuMemAlloc");
    gs_looked_up("cuMemAlloc");
    gs_looked_up("cuMemAllocHost");
    cr_assert_eq(gs_looked_up_copy(names), 3);
    cr_expect_str_eq(names[0], "cuMemAllocHost");
    cr_expect_str_eq(names[1], "cuMemAlloc");
    cr_expect_str_eq(names[2], "cuInit");
    gs_looked_up_reset();
    cr_expect_eq(gs_looked_up_copy(names), 0);
}

Test(looked_up, keeps_the_last_ones_and_cuts_long_names)
{
    char name[] = "cuA", longest[2 * GS_LOOKED_UP_BYTES];

    for (; name[2] <= 'Z'; name[2]++)
        gs_looked_up(name);
    cr_assert_eq(gs_looked_up_copy(names), GS_LOOKED_UP_NAMES);
    cr_expect_str_eq(names[0], "cuZ");
    cr_expect_str_eq(names[GS_LOOKED_UP_NAMES - 1], "cuO");
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "cuX", 3);
    longest[sizeof longest - 1] = '\0';
    gs_looked_up(longest);
    gs_looked_up(longest);
    gs_looked_up_copy(names);
    cr_expect_eq(strlen(names[0]), GS_LOOKED_UP_BYTES - 1);
    cr_expect_str_eq(names[1], "cuZ", "the long one is kept once");
}

/* A table that the library allows may be the one that submits work. */
Test(looked_up, keeps_tables_by_their_guid)
{
    gs_looked_up("cuGetExportTable");
    gs_looked_up_table("21318c60-9714-3248-8ca6-41ff7324c8f2");
    cr_assert_eq(gs_looked_up_copy(names), 2);
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
