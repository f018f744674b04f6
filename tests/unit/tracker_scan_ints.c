/*
 * tracker_scan_ints.c - proves that a scan finds the addresses that live Python ints
 * hold, none in what freed ones leave, and calls nothing lost where objects may have held
 * it.
 *
 * Digits are computed where they are stored: no copy of an address lies about.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#include "tracker/scan/leak_scan_internal.h"
#include "tracker_helpers.h"

/* A sanitizer keeps copies of its own, and terabytes of shadow. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#define PLANT_BYTES 65536u
/* The address of allocation `i`, which nothing else has. */
#define PLANT(i) (UINT64_C(0x5a5a00000000) + (uint64_t)(i)*PLANT_BYTES * 2)
#define ALONE    __attribute__((noinline))

/* An object: reference count, type, size, digits. */
#define INT_WORDS 5u
static const char type_of_ints[16] __attribute__((aligned(16)));

static ALONE void plant_int(volatile uint64_t *object, uint64_t count, uint64_t size,
                            uint64_t plant, uint64_t offset)
{
    object[0] = count;
    object[1] = (uintptr_t)type_of_ints;
    object[2] = size;
    object[3] =
        ((PLANT(plant) + offset) & 0x3fffffff) | (PLANT(plant) + offset) >> 30 << 32;
}

static uint64_t *map_words(size_t bytes)
{
    uint64_t *words =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(words, MAP_FAILED);
    return words;
}

static ALONE struct gs_scan scan_with(struct gs_tracker *tracker,
                                      struct gs_scan_config config)
{
    struct gs_scan scan = {0};

    config.stack_from = (uintptr_t)__builtin_frame_address(0);
    gs_scan_run(tracker, &config, &scan);
    cr_assert_null(scan.why_not, "%s", scan.why_not);
    return scan;
}

static void add_plants(struct gs_tracker *tracker, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        test_leak(tracker, PLANT(i), PLANT_BYTES, SECONDS(1), 0);
}

#define PLANTS 12u

static void expect_all(const struct gs_scan *scan, const enum gs_scan_found *expected)
{
    for (unsigned i = 0; i < PLANTS; i++)
        cr_expect_eq(gs_scan_result(scan, PLANT(i)), expected[i], "plant %u is %d", i,
                     gs_scan_result(scan, PLANT(i)));
}

/* The driver may keep addresses on the heap, but no ints. */
static bool knows_all(void *self, uint64_t addr)
{
    (void)self;
    (void)addr;
    return true;
}

Test(scan_ints, live_ints_are_pointers_and_freed_ones_are_not)
{
    enum gs_scan_found expected[PLANTS] = {
        [1] = GS_SCAN_START,  [2] = GS_SCAN_START, [3] = GS_SCAN_START,
        [4] = GS_SCAN_INSIDE, [5] = GS_SCAN_LOST,  [6] = GS_SCAN_LOST,
        [7] = GS_SCAN_LOST,   [8] = GS_SCAN_LOST,  [9] = GS_SCAN_LOST,
        [0] = GS_SCAN_LOST,   [10] = GS_SCAN_LOST, [11] = GS_SCAN_LOST};
    OWNED_TRACKER tracker = test_tracker(NULL);
    uint64_t *words = map_words(65536);

    add_plants(tracker, PLANTS);
    plant_int(words + 8, 1, 2, 1, 0);                          /* 3.8 to 3.11 */
    plant_int(words + 16, 3, 2 * 8, 2, 0);                     /* 3.12 */
    plant_int(words + 24, UINT64_C(5) << 48 | 2, 2 * 8, 3, 0); /* 3.14: flags */
    plant_int(words + 32, 1, 2 * 8, 4, 4096);
    plant_int(words + 40, 0, 2 * 8, 5, 0);                   /* freed: the last one */
    plant_int(words + 48, (uintptr_t)(words + 40), 2, 6, 0); /* freed */
    plant_int(words + 56, 1, 1, 7, 0);                       /* one digit */
    plant_int(words + 64, 1, 2 * 8 + 2, 8, 0);               /* negative */
    plant_int(words + 72, 1, UINT64_MAX - 1, 9, 0);          /* negative before 3.12 */
    plant_int(words + 80, 1, 2, 10, 0);
    words[83] |= UINT64_C(1) << 31; /* no digit */

    struct gs_scan scan = scan_with(
        tracker, (struct gs_scan_config){.python_ints = true, .driver_knows = knows_all});
    expect_all(&scan, expected);
    gs_scan_free(&scan);

    for (unsigned i = 0; i < PLANTS; i++) /* in a process without Python */
        expected[i] = GS_SCAN_LOST;
    scan = scan_with(tracker, (struct gs_scan_config){0});
    expect_all(&scan, expected);
    gs_scan_free(&scan);
}

/* Memory is read in parts: an int across two of them is found, too. */
static void find_them_all(bool by_entries)
{
    const unsigned count = 450000; /* 18 MB; entries are read for 16 MiB at once */
    OWNED_TRACKER tracker = test_tracker(NULL);
    uint64_t *words = map_words(count * INT_WORDS * sizeof(uint64_t));
    unsigned missed = 0;

    add_plants(tracker, count);
    for (unsigned i = 0; i < count; i++)
        plant_int(words + (size_t)i * INT_WORDS, 1, 2, i, 0);
    struct gs_scan scan = scan_with(
        tracker, (struct gs_scan_config){.python_ints = true, .by_entries = by_entries});
    for (unsigned i = 0; i < count; i++)
        missed += gs_scan_result(&scan, PLANT(i)) != GS_SCAN_START;
    cr_expect_eq(missed, 0, "%u are missed", missed);
    gs_scan_free(&scan);
}

Test(scan_ints, none_is_missed_where_memory_is_read_in_parts)
{
    find_them_all(false);
}

Test(scan_ints, none_is_missed_where_the_kernel_has_entries_alone)
{
    find_them_all(true);
}

static volatile uint64_t in_data;

static ALONE void plant_word(volatile uint64_t *word, unsigned plant)
{
    *word = PLANT(plant);
}

Test(scan_ints, nothing_is_lost_where_objects_ended_before_the_scan)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    uint64_t *words = map_words(65536);
    struct gs_text text = {0};

    add_plants(tracker, 4);
    plant_word(&in_data, 1);
    plant_word(words + 8, 2);
    plant_word(words + 16, 3);
    words[16] += 64;
    struct gs_scan scan =
        scan_with(tracker, (struct gs_scan_config){.python_unread = "they ended"});
    cr_expect_eq(gs_scan_result(&scan, PLANT(0)), GS_SCAN_NOT_MADE);
    cr_expect_eq(gs_scan_result(&scan, PLANT(1)), GS_SCAN_START, "no object has data");
    cr_expect_eq(gs_scan_result(&scan, PLANT(2)), GS_SCAN_NOT_MADE);
    cr_expect_eq(gs_scan_result(&scan, PLANT(3)), GS_SCAN_NOT_MADE);
    gs_scan_note(&scan, "", false, &text);
    cr_expect_str_eq(text.data, "Note: the leak scan is not reliable for Python objects: "
                                "they ended; no leak is called lost\n");
    gs_text_free(&text);
    gs_scan_free(&scan);
}

#endif
