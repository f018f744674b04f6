/*
 * tracker_scan_lines.c - proves which lines of /proc/self/maps are looked at, how far of
 * a stack, and how ranges that are left out are put together.
 */
#include <criterion/criterion.h>

#include "tracker/scan/leak_scan_internal.h"

static struct gs_scan_stacks stacks;

static bool take(const char *line, struct gs_scan_area *out)
{
    struct gs_scan_lines lines = {.stacks = &stacks};

    return gs_scan_take_line(&lines, line, out);
}

Test(scan_lines, a_mapping_is_taken_or_left_by_what_it_is)
{
    static const struct {
        const char *line;
        bool taken, shared;
    } rows[] = {
        {"5000-9000 rw-p 00000000 00:00 0", true, false},
        {"5000-9000 rw-p 00000000 00:00 0 ", true, false},
        {"5000-9000 rw-p 00001000 08:01 77      /opt/a program/app", true, false},
        {"5000-9000 r--p 00001000 08:01 77      /opt/app", true, false},
        {"5000-9000 rwxp 00000000 00:00 0       [heap]", true, false},
        {"5000-9000 ---p 00000000 00:00 0", false, false},
        {"5000-9000 -w-p 00000000 00:00 0", false, false},
        {"5000-9000 rw-s 00000000 00:01 9       /dev/zero (deleted)", true, true},
        {"5000-9000 rw-s 00000000 00:01 9       /memfd:pool (deleted)", true, true},
        {"5000-9000 rw-s 00000000 00:01 9       /dev/shm/ring", true, true},
        {"5000-9000 r--s 00000000 00:01 9       /dev/shm/ring", false, true},
        {"5000-9000 rw-s 00000000 08:01 9       /home/u/data", false, true},
        {"5000-9000 rw-s 00000000 00:06 9       /dev/nvidia0", false, true},
        {"5000-9000 rw-p 00000000 00:06 9       /dev/nvidia-uvm", false, false},
        {"5000-9000 rw-p 00000000 00:06 9       /dev/mem", false, false},
        {"5000-9000 rw-s 00000000 00:06 9       /sys/devices/pci0/resource0", false,
         true},
        {"5000-9000 rw-s 00000000 00:06 9       anon_inode:[perf_event]", false, true},
        {"5000-9000 r--p 00000000 00:00 0       [vvar]", false, false},
        {"5000-9000 r-xp 00000000 00:00 0       [vdso]", false, false},
        {"no mapping at all", false, false},
        {"", false, false},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct gs_scan_area area = {0};
        cr_expect_eq(take(rows[i].line, &area), rows[i].taken, "%s", rows[i].line);
        if (rows[i].taken) {
            cr_expect_eq(area.begin, 0x5000);
            cr_expect_eq(area.end, 0x9000);
            cr_expect_eq(area.shared, rows[i].shared);
            cr_expect_not(area.root);
        }
    }
}

Test(scan_lines, of_a_stack_the_part_in_use_is_taken)
{
    struct gs_scan_lines lines = {.stacks = &stacks};
    struct gs_scan_area area;

    stacks.tops[0] = 0x7f0000008000;
    stacks.tops[1] = 0x7ffd00003000;
    stacks.tops[2] = 0x7f0000007000;
    stacks.count = 3;
    cr_expect(take("7ffd00000000-7ffd00009000 rw-p 00000000 00:00 0   [stack]", &area));
    cr_expect(area.root);
    cr_expect_eq(area.begin, 0x7ffd00003000);

    cr_expect_not(
        gs_scan_take_line(&lines, "7eff00000000-7f0000001000 ---p 0 00:00 0", &area));
    cr_expect(
        gs_scan_take_line(&lines, "7f0000001000-7f0000009000 rw-p 0 00:00 0", &area));
    cr_expect(area.root);
    cr_expect_eq(area.begin, 0x7f0000007000, "the lowest of two");
}

/* A stack that lies in the heap: what is below its pointer may be anything. */
Test(scan_lines, without_a_guard_page_it_is_no_stack)
{
    struct gs_scan_lines lines = {.stacks = &stacks};
    struct gs_scan_area area;

    stacks.tops[0] = 0x7f0004008000;
    stacks.count = 1;
    cr_expect(take("7f0004001000-7f0004009000 rw-p 00000000 00:00 0", &area));
    cr_expect_not(area.root);
    cr_expect_eq(area.begin, 0x7f0004001000);
    cr_expect_not(
        gs_scan_take_line(&lines, "7f0000000000-7f0004000000 ---p 0 00:00 0", &area));
    cr_expect(
        gs_scan_take_line(&lines, "7f0004000000-7f0004009000 rw-p 0 00:00 0", &area));
    cr_expect_not(area.root, "a heap of glibc's begins at such an address");
    cr_expect_eq(area.begin, 0x7f0004000000);
}

Test(scan_lines, ranges_are_sorted_and_joined)
{
    struct gs_scan_range items[4];
    struct gs_scan_ranges ranges = {.items = items, .capacity = 4};

    gs_scan_ranges_merge(&ranges);
    cr_expect_null(gs_scan_range_from(&ranges, 0));
    gs_scan_range_add(&ranges, 50, 60);
    gs_scan_range_add(&ranges, 10, 20);
    gs_scan_range_add(&ranges, 15, 17);
    gs_scan_range_add(&ranges, 5, 5);
    gs_scan_range_add(&ranges, 20, 30);
    cr_expect_not(ranges.overflow);
    gs_scan_range_add(&ranges, 1, 2);
    cr_expect(ranges.overflow);
    gs_scan_ranges_merge(&ranges);
    cr_assert_eq(ranges.count, 2);
    cr_expect_eq(items[0].begin, 10);
    cr_expect_eq(items[0].end, 30);
    cr_expect_eq(gs_scan_range_from(&ranges, 0), &items[0]);
    cr_expect_eq(gs_scan_range_from(&ranges, 29), &items[0]);
    cr_expect_eq(gs_scan_range_from(&ranges, 30), &items[1]);
    cr_expect_null(gs_scan_range_from(&ranges, 60));
}
