/*
 * shim_statistics.c - proves that the pool's figures lie in the state file as they were
 * kept, each time and of each device; that one which was being written is not read; and
 * what a report makes of them.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "gpushim.h"
#include "shim/report/statistics.h"
#include "shim/settings/log.h"
#include "shim/statefile/state_file.h"
#include "shim/tools/reader/state_open.h"

static char path[96], data_path[96];
static struct gs_state state;

static void make_file(void)
{
    static struct gs_options_messages notes;
    char variable[160];
    char *env[] = {variable, NULL};

    make_folder();
    snprintf(path, sizeof(path), "%s/state", folder);
    snprintf(data_path, sizeof(data_path), "%s/state.data", folder);
    snprintf(variable, sizeof(variable), "GPUSHIM_STATE_FILE=%s", path);
    gs_options_load(&state.options, env, false, &notes);
    cr_assert_eq(notes.length, 0, "%s", notes.text);
    struct gs_tracker_config config = {.api_names = gs_api_names(),
                                       .api_count = GS_API_COUNT,
                                       .memory = gs_state_file_open(&state.options)};
    cr_assert_not_null(config.memory);
    cr_assert_eq(gs_tracker_create(&config, &state.tracker), GS_OK);
}

TestSuite(statistics, .init = make_file, .fini = remove_folder);

/* What the file has of a device now; at_ns 0: nothing. */
static struct gs_statistics read_back(size_t device)
{
    struct gs_state_open open;
    const char *problem;
    struct gs_statistics found = {.at_ns = 0};

    cr_assert(gs_state_open(path, NULL, &open, &problem));
    cr_assert_not_null(open.found.annex);
    const struct gs_statistics *statistics = gs_statistics_of(open.found.annex, device);
    if (statistics)
        found = *statistics;
    gs_state_close(&open);
    return found;
}

/* Every word differs. */
static void fill(struct gs_statistics *statistics, uint64_t from)
{
    uint64_t *words = (uint64_t *)statistics;

    for (size_t i = 0; i < sizeof(*statistics) / sizeof(*words); i++)
        words[i] = from + i;
}

Test(statistics, are_read_as_they_were_kept)
{
    struct gs_statistics kept[3];

    gs_statistics_start(&state);
    cr_expect(gs_statistics_kept);
    cr_expect_eq(read_back(0).at_ns, 0, "none yet");
    for (uint64_t round = 1; round < 6; round++) {
        for (uint64_t i = 0; i < 3; i++)
            fill(&kept[i], round * 10000 + i * 1000);
        gs_statistics_keep(kept, 3);
        for (size_t i = 0; i < 3; i++) {
            struct gs_statistics found = read_back(i);
            cr_expect_eq(memcmp(&found, &kept[i], sizeof(found)), 0, "round %d",
                         (int)round);
        }
        cr_expect_eq(read_back(3).at_ns, 0);
    }
    cr_expect_eq(read_back(GS_MAX_DEVICES).at_ns, 0);
}

/* Killed while the next ones were written: those before are whole. */
Test(statistics, half_of_them_are_not_read)
{
    struct gs_statistics kept, found;
    struct gs_state_open open;
    const char *problem;
    uint64_t current, offset;

    gs_statistics_start(&state);
    for (uint64_t round = 1; round < 3; round++) {
        fill(&kept, round * 1000);
        gs_statistics_keep(&kept, 1);
        cr_assert(gs_state_open(path, NULL, &open, &problem));
        offset = (uint64_t)((const char *)open.found.annex - open.bytes);
        memcpy(&current, open.found.annex, sizeof(current));
        gs_state_close(&open);
        cr_assert(current == 1 || current == 2);
        /* The other set begins behind the word, or behind word and set. */
        size_t set = (sizeof(struct gs_statistics_file) - sizeof(current)) / 2;
        int fd = open64(data_path, O_WRONLY);
        uint64_t trash = UINT64_MAX;
        cr_assert_eq(pwrite(fd, &trash, sizeof(trash),
                            (off_t)(offset + sizeof(current) + (current == 1 ? set : 0))),
                     (ssize_t)sizeof(trash));
        close(fd);
        found = read_back(0);
        cr_expect_eq(memcmp(&found, &kept, sizeof(found)), 0);
    }
}

Test(statistics, that_cannot_be_are_none)
{
    struct gs_statistics_file *kept = calloc(1, sizeof(*kept));

    cr_assert_not_null(kept);
    cr_expect_null(gs_statistics_of(NULL, 0));
    for (uint64_t current = 0; current < 5; current++) {
        kept->current = current == 4 ? UINT64_MAX : current;
        kept->sets[0][0].at_ns = 7;
        cr_expect_eq(gs_statistics_of(kept, 0) != NULL, current == 1);
        cr_expect_null(gs_statistics_of(kept, 1));
    }
    free(kept);
}

Test(statistics, a_child_has_none)
{
    struct gs_statistics kept = {.at_ns = 5};

    gs_statistics_start(&state);
    gs_statistics_keep(&kept, 1);
    gs_statistics_reset();
    cr_expect_not(gs_statistics_kept);
    kept.at_ns = 6;
    gs_statistics_keep(&kept, 1);
    cr_expect_eq(read_back(0).at_ns, 5);
}

Test(statistics, without_a_tracker_there_is_no_file)
{
    struct gs_state untracked = {.tracker = NULL};

    gs_statistics_start(&untracked);
    cr_expect_not(gs_statistics_kept);
}

Test(statistics, what_a_report_makes_of_them)
{
    struct gs_report_device device = {.name = "A"};
    struct gs_statistics statistics = {
        .pool = {.allocs = 10,
                 .failed = 1, /* natively a driver call, too */
                 .frees = 4,
                 .hits = 8,
                 .misses = 2,
                 .thread_hits = 5,
                 .stream_hits = 2,
                 .global_hits = 1,
                 .driver_calls = 3,
                 .driver_ns = 77,
                 .reserved_bytes = 100,
                 .reserved_peak_bytes = 120,
                 .used_bytes = 60,
                 .pending_bytes = 15,
                 .requested_bytes = 50,
                 .given_bytes = 64,
                 .maintenance_bytes = 30,
                 .aged_bytes = 10,
                 .trim_bytes = 5},
        .frees = {.waited = 3, .waited_ns = 9, .found_idle = 1},
        .retried = 2,
        .lazy_saves_waits = 1};

    gs_statistics_report(&statistics, &device);
    cr_expect_null(device.pressure);
    statistics.pressure = 1 + GPUSHIM_CRITICAL;
    statistics.pressure_changes = 6;
    gs_statistics_report(&statistics, &device);
    cr_expect_str_eq(device.pressure, "critical");
    cr_expect_eq(device.pressure_changes, 6);
    cr_expect_str_eq(device.name, "A");
    cr_expect(device.pooled && device.lazy_saves_waits && !device.rest_known);
    cr_expect_eq(device.idle_bytes, 25);
    cr_expect_eq(device.pool_allocs, 10);
    cr_expect_eq(device.pool_hits, 8);
    cr_expect_eq(device.thread_hits, 5);
    cr_expect_eq(device.native_calls, 15);
    cr_expect_eq(device.pressed_bytes, 25);
    cr_expect_eq(device.aged_bytes, 10);
    cr_expect_eq(device.frees_waited, 3);
    cr_expect_eq(device.frees_idle, 1);
    cr_expect_eq(device.retried, 2);
    statistics.pool.used_bytes = 1000; /* of a heap that changes meanwhile */
    gs_statistics_report(&statistics, &device);
    cr_expect_eq(device.idle_bytes, 0);
}
