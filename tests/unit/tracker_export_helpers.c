/*
 * tracker_export_helpers.c - what the tests of the export share; see the header.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_export_helpers.h"

bool test_bytes_write(void *self, const void *data, size_t length)
{
    struct test_bytes *bytes = self;

    bytes->calls++;
    if (bytes->limit != 0 && bytes->length + length > bytes->limit)
        return false;
    if (bytes->length + length >= bytes->room) {
        bytes->room = 2 * (bytes->length + length + 1);
        bytes->data = realloc(bytes->data, bytes->room);
        cr_assert_not_null(bytes->data);
    }
    memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
    bytes->data[bytes->length] = '\0';
    return true;
}

struct gs_export_job test_job(void)
{
    static const struct gs_export_option options[] = {{"GPUSHIM_POOL", "on"},
                                                      {"GPUSHIM_LOG_FILE", "a\"b"}};
    static const struct gs_export_counter counters[] = {{"hits", "count"},
                                                        {"driver_ns", "ns"}};
    static const uint64_t values[] = {972, 1500};

    return (struct gs_export_job){.stacks = true,
                                  .samples = true,
                                  .program = "/opt/app/app",
                                  .end_unix_ms = 1700000600000,
                                  .options = options,
                                  .option_count = GS_ARRAY_LEN(options),
                                  .counters = counters,
                                  .counter_count = GS_ARRAY_LEN(counters),
                                  .values = values};
}

struct writing {
    enum gs_export_row row;
    struct test_bytes bytes;
};

static void write_one(void *self, const struct gs_export *export, struct gs_text *names)
{
    struct writing *writing = self;
    struct gs_export_sink sink = {.write = test_bytes_write, .self = &writing->bytes};

    cr_assert_not_null(export);
    writing->bytes.status = gs_export_write(export, writing->row, &sink);
    gs_text_add(names, "the file");
}

struct test_bytes test_export_from(struct gs_tracker *tracker,
                                   struct gs_report_config config,
                                   const struct gs_report_source *source,
                                   struct gs_export_job job, enum gs_export_row row,
                                   size_t limit)
{
    struct writing writing = {.row = row, .bytes = {.limit = limit}};
    struct gs_text text = {0};

    job.write = write_one;
    job.self = &writing;
    config.job = &job;
    gs_report_write_from(tracker, &config, source, &text, NULL);
    cr_assert_not_null(strstr(text.data, "== files written: the file\n"));
    gs_text_free(&text);
    return writing.bytes;
}

struct test_bytes test_export(struct gs_tracker *tracker, struct gs_report_config config,
                              enum gs_export_row row, size_t limit)
{
    struct gs_report_source source = test_source();

    return test_export_from(tracker, config, &source, test_job(), row, limit);
}

size_t test_occurrences(const char *text, const char *word)
{
    size_t count = 0;

    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        count++;
    return count;
}

struct gs_tracker *test_tally_tracker(struct gs_stacks *stacks)
{
    static const char *const names[] = {"unknown", "cuMemAlloc"};
    struct gs_tracker_config config = {.api_names = names,
                                       .api_count = GS_ARRAY_LEN(names),
                                       .stacks = stacks,
                                       .free_history = 4096,
                                       .tally = true};
    struct gs_tracker *tracker = NULL;

    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_OK);
    return tracker;
}
