/*
 * tracker_pinned_uses.c - proves which call sites of pinned memory have no use, and the
 * hint in the report. Faults that it alone would see: a use at an end of the memory, one
 * of a neighbour, memory that ended unseen, a table that overflows.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_export_helpers.h"

#define SIZE  (16 * GS_MIB)
#define FIRST UINT64_C(0x7f0000000000)

static struct gs_pinned_uses *uses;

static void set_up(void)
{
    uses = gs_pinned_uses_create();
    cr_assert_not_null(uses);
}

static void take_down(void)
{
    free(uses);
}

TestSuite(pinned_uses, .init = set_up, .fini = take_down);

static struct gs_allocation pinned(uint64_t addr, uint64_t bytes, uint32_t stack)
{
    return (struct gs_allocation){.addr = addr,
                                  .bytes = bytes,
                                  .stack = stack,
                                  .api = API_HOST_ALLOC,
                                  .kind = GS_MEMORY_PINNED};
}

static void add(uint64_t addr, uint64_t bytes, uint32_t stack)
{
    struct gs_allocation allocation = pinned(addr, bytes, stack);

    gs_pinned_uses_add(uses, &allocation);
}

/* The stacks of the unused call sites, as digits. */
static const char *unused(void)
{
    static char stacks[64];
    struct gs_pinned_list list = gs_pinned_uses_copy(uses);
    char *out = stacks;

    for (size_t i = 0; i < list.count; i++)
        *out++ = (char)('0' + list.sites[i].stack);
    *out = '\0';
    free(list.sites);
    return stacks;
}

Test(pinned_uses, counts_from_16_mib_on)
{
    add(FIRST, SIZE - 1, 1);
    cr_expect_str_eq(unused(), "");
    add(FIRST + SIZE, 1, 1);
    cr_expect_str_eq(unused(), "1", "in all");
}

Test(pinned_uses, a_use_of_any_byte_clears_the_call_site)
{
    add(FIRST, SIZE, 1);
    add(FIRST + SIZE, SIZE, 2);
    add(FIRST + 2 * SIZE, SIZE, 3);
    gs_pinned_uses_mark(uses, FIRST - 1);
    gs_pinned_uses_mark(uses, FIRST + 3 * SIZE);
    gs_pinned_uses_mark(uses, 0);
    cr_expect_str_eq(unused(), "123");
    gs_pinned_uses_mark(uses, FIRST + 2 * SIZE - 1);
    cr_expect_str_eq(unused(), "13");
    gs_pinned_uses_mark(uses, FIRST);
    cr_expect_str_eq(unused(), "3");
    gs_pinned_uses_mark(uses, FIRST + 2 * SIZE);
    cr_expect_str_eq(unused(), "");
}

Test(pinned_uses, one_used_allocation_is_enough)
{
    for (unsigned i = 0; i < 5; i++)
        add(FIRST + i * SIZE, SIZE, 1);
    gs_pinned_uses_mark(uses, FIRST + 3 * SIZE);
    for (unsigned i = 0; i < 5; i++)
        gs_pinned_uses_end(uses, FIRST + i * SIZE);
    cr_expect_str_eq(unused(), "");
}

Test(pinned_uses, what_is_freed_is_not_used_later)
{
    add(FIRST, SIZE, 1);
    gs_pinned_uses_end(uses, FIRST + 1);
    cr_expect(gs_pinned_uses_wanted(uses), "nothing begins there");
    gs_pinned_uses_end(uses, FIRST);
    cr_expect_not(gs_pinned_uses_wanted(uses));
    gs_pinned_uses_mark(uses, FIRST);
    add(FIRST, SIZE, 2);
    gs_pinned_uses_mark(uses, FIRST);
    cr_expect_str_eq(unused(), "1");
}

/* A used allocation may be the one that kernels read addresses from. */
Test(pinned_uses, uses_are_wanted_while_something_is_live)
{
    cr_expect_not(gs_pinned_uses_wanted(uses));
    add(FIRST, SIZE, 1);
    gs_pinned_uses_mark(uses, FIRST);
    cr_expect(gs_pinned_uses_wanted(uses));
    gs_pinned_uses_end(uses, FIRST);
    cr_expect_not(gs_pinned_uses_wanted(uses));
}

/* With its context: the same addresses are other memory's, in part or all. */
Test(pinned_uses, memory_that_ended_unseen_hides_nothing)
{
    add(FIRST, SIZE, 1);
    add(FIRST + SIZE, SIZE, 2);
    add(FIRST + 2 * SIZE, SIZE, 3);
    add(FIRST + SIZE / 2, 2 * SIZE, 4);
    gs_pinned_uses_mark(uses, FIRST + SIZE);
    gs_pinned_uses_mark(uses, FIRST + 1);
    gs_pinned_uses_mark(uses, FIRST + 3 * SIZE - 1);
    cr_expect_str_eq(unused(), "123");
    add(FIRST + 3 * SIZE, SIZE, 5);
    gs_pinned_uses_mark(uses, FIRST + 3 * SIZE);
    cr_expect_str_eq(unused(), "123");
}

/* What it has the address of may have that of the other. */
Test(pinned_uses, nothing_is_known_after_an_address)
{
    uint64_t words[] = {1, FIRST + 2 * SIZE, 0, UINT64_MAX, FIRST + SIZE - 1};

    add(FIRST, SIZE, 1);
    add(FIRST + 3 * SIZE, SIZE, 2);
    gs_pinned_uses_search(uses, words, sizeof(words) - 1);
    cr_expect_str_eq(unused(), "12", "seven bytes are no word, and between them is none");
    gs_pinned_uses_search(uses, words, sizeof(words));
    cr_expect_str_eq(unused(), "");
}

Test(pinned_uses, an_address_may_begin_at_any_byte)
{
    unsigned char packed[32] = {0};
    uint64_t word = FIRST + 5;

    add(FIRST, SIZE, 1);
    memcpy(packed + 3, &word, sizeof(word));
    gs_pinned_uses_search(uses, packed, sizeof(packed));
    cr_expect_str_eq(unused(), "");
}

/* Where their upper bytes differ no byte tells what is an address. */
Test(pinned_uses, addresses_need_not_be_alike)
{
    unsigned char packed[32] = {0};
    uint64_t word = FIRST + 5;

    add(FIRST - (UINT64_C(1) << 40), SIZE, 1);
    add(FIRST, SIZE, 2);
    gs_pinned_uses_search(uses, packed, sizeof(packed));
    cr_expect_str_eq(unused(), "12");
    memcpy(packed + sizeof(packed) - sizeof(word), &word, sizeof(word));
    gs_pinned_uses_search(uses, packed, sizeof(packed));
    cr_expect_str_eq(unused(), "");
}

/* Memory is read in parts of 64 KiB. */
Test(pinned_uses, an_address_may_be_anywhere)
{
    static const size_t places[] = {0, 65528, 65531, 65536, 131065, 200000 - 8};
    static unsigned char data[200000];
    uint64_t word = FIRST + 5;

    for (size_t i = 0; i < GS_ARRAY_LEN(places); i++) {
        struct gs_allocation allocation = pinned(FIRST, SIZE, 1);
        struct gs_pinned_uses *own = gs_pinned_uses_create();

        gs_pinned_uses_add(own, &allocation);
        gs_pinned_uses_read(own, (uintptr_t)data, sizeof(data));
        cr_expect(gs_pinned_uses_wanted(own));
        memcpy(data + places[i], &word, sizeof(word));
        gs_pinned_uses_read(own, (uintptr_t)data, sizeof(data));
        cr_expect_not(gs_pinned_uses_wanted(own), "at %zu", places[i]);
        memset(data, 0, sizeof(data));
        free(own);
    }
}

Test(pinned_uses, unreadable_memory_may_have_addresses)
{
    add(FIRST, SIZE, 1);
    gs_pinned_uses_read(uses, 16, 16);
    cr_expect_str_eq(unused(), "");
}

Test(pinned_uses, nothing_is_known_for_good)
{
    add(FIRST, SIZE, 1);
    gs_pinned_uses_give_up(uses);
    add(FIRST + SIZE, SIZE, 4);
    cr_expect_str_eq(unused(), "");
    cr_expect_not(gs_pinned_uses_wanted(uses));
}

Test(pinned_uses, nothing_is_known_beyond_the_table)
{
    for (uint32_t i = 0; i < GS_PINNED_LIVE; i++)
        add(FIRST + i * SIZE, SIZE, 1 + i % 4);
    cr_expect_str_eq(unused(), "1234");
    add(FIRST + GS_PINNED_LIVE * SIZE, SIZE, 1);
    cr_expect_str_eq(unused(), "");
}

Test(pinned_uses, nothing_is_known_with_too_many_call_sites)
{
    for (uint32_t i = 0; i < GS_PINNED_SITES; i++)
        add(FIRST + i * SIZE, i == 0 ? SIZE : 1, i + 1);
    cr_expect_str_eq(unused(), "1");
    add(FIRST + GS_PINNED_SITES * SIZE, 1, GS_PINNED_SITES + 1);
    cr_expect_str_eq(unused(), "");
}

Test(pinned_uses, nothing_is_known_of_sampled_stacks)
{
    add(FIRST, SIZE, 1);
    add(FIRST + SIZE, SIZE, GS_STACK_NOT_SAMPLED);
    cr_expect_str_eq(unused(), "");
}

Test(pinned_uses, hints_name_the_call_the_line_and_what_to_do)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    uint32_t used = TEST_STACK(stacks, AT_RUN, AT_MAIN);
    static const char wanted[] =
        "pinned host memory: 2 allocations by cuMemHostAlloc at load_batch loader.c:88, "
        "32.0 MiB in all, 66.7 % of the run's, in no copy and no kernel's parameters: "
        "pageable memory costs less";
    char line[512];

    add(FIRST, SIZE, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    add(FIRST + SIZE, SIZE, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    add(FIRST + 2 * SIZE, SIZE, used);
    gs_pinned_uses_mark(uses, FIRST + 2 * SIZE);
    config.show_hints = true;
    config.pinned = uses;
    char *text = test_report_text(tracker, &config, NULL);
    snprintf(line, sizeof(line), "\nHint: %s\nSUMMARY: gpushim: 0 errors, ", wanted);
    cr_expect(strstr(text, line), "%s", text);
    free(text);
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_json, 0);
    snprintf(line, sizeof(line),
             "{\"hint\": \"unused pinned\", \"device\": null, \"text\": \"%s\", "
             "\"stack\": [0, 1]",
             wanted);
    cr_expect(strstr(bytes.data, line), "%s", bytes.data);
    free(bytes.data);
}
