/*
 * shim_trace_ring.c - proves that a trace that has reached its size keeps its end, and
 * all that was live when it begins: no free of an unknown block, no allocation that
 * stays.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "shim/settings/log.h"
#include "shim/tools/replay/replay_trace.h"
#include "shim/trace/trace.h"
#include "shim/trace/trace_live.h"

#define SIZE   (8 * GS_MIB) /* 10 chunks: some 164,000 records */
#define BLOCKS 3000u

static char trace_path[64], said[64];

static void open_log(void)
{
    make_folder();
    snprintf(said, sizeof(said), "%s/said", folder);
    snprintf(trace_path, sizeof(trace_path), "%s/trace", folder);
    gs_log_open(said, GS_LOG_WARN);
}

TestSuite(trace_ring, .init = open_log, .fini = remove_folder);

/* ---- what is live ----------------------------------------------------------------- */

static size_t bytes_of[BLOCKS]; /* 0: not live */

static uint64_t address_of(unsigned block)
{
    return 0x10000 + (uint64_t)block * 0x1000;
}

static void record_alloc(unsigned block, size_t bytes)
{
    bytes_of[block] = bytes;
    gs_trace_alloc(GS_MEMORY_DEVICE, address_of(block), bytes,
                   (CUcontext)(uintptr_t)(0x100 + block % 2), 0, NULL, GS_TRACE_UNORDERED,
                   block);
}

static void record_free(unsigned block)
{
    bytes_of[block] = 0;
    gs_trace_free(address_of(block), GS_TRACE_WAITED, NULL, GS_TRACE_UNORDERED);
}

static uint64_t random_state = 88172645463325252u;

static unsigned next_random(unsigned below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % below);
}

/* Records at random; blocks below `kept` stay as they are. Now and then a free is
 * refused, or a context ends. */
static void record_random(unsigned operations, unsigned kept)
{
    for (unsigned i = 0; i < operations; i++) {
        unsigned block = kept + next_random(BLOCKS - kept);
        size_t bytes = bytes_of[block];

        if (bytes == 0) {
            record_alloc(block, 1 + next_random(1u << 20));
            continue;
        }
        record_free(block);
        if (i % 1000 == 0) {
            gs_trace_free_refused(address_of(block));
            bytes_of[block] = bytes;
        }
    }
}

/* Reads the trace; what is live at its end is what `bytes_of` says. Returns its
 * allocations. */
static uint32_t expect_live(const char *path)
{
    struct gs_replay_note note;
    struct gs_replay_trace trace;
    size_t *live, wanted = 0, found = 0, count = 0;

    cr_assert(gs_replay_load(path, &trace, &note), "%s", note.text);
    cr_expect_str_empty(note.text);
    live = calloc(trace.allocations + 1, sizeof(*live));
    for (size_t i = 0; i < trace.count; i++) {
        const struct gs_replay_op *op = &trace.ops[i];

        if (op->op == GS_TRACE_ALLOC)
            live[op->id] = op->bytes;
        else if (op->op == GS_TRACE_FREE)
            live[op->id] = 0;
    }
    for (uint32_t i = 0; i < trace.allocations; i++) {
        found += live[i];
        count += live[i] != 0;
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        wanted += bytes_of[i];
        count -= bytes_of[i] != 0;
    }
    cr_expect_eq(found, wanted, "%zu bytes live, not %zu", found, wanted);
    cr_expect_eq(count, 0);
    count = trace.allocations;
    free(live);
    gs_replay_free(&trace);
    return (uint32_t)count;
}

static void expect_nothing_said(void)
{
    cr_expect_neq(access(said, F_OK), 0, "something was said");
}

/* ---- programs --------------------------------------------------------------------- */

Test(trace_ring, keeps_the_end_and_what_was_live)
{
    struct stat info;

    gs_trace_open(trace_path, SIZE, 0);
    for (unsigned i = 0; i < 100; i++)
        record_alloc(i, 1000 + i);
    record_random(1500000, 100);
    gs_trace_close();
    uint32_t allocations = expect_live(trace_path);
    cr_expect_gt(allocations, 60000);
    cr_expect_lt(allocations, 90000);
    cr_assert_eq(stat(trace_path, &info), 0);
    cr_expect_lt(info.st_size, (off_t)(SIZE + GS_MIB));
    expect_nothing_said();
}

/* Wherever it ends in the ring, with and without an end mark. */
Test(trace_ring, reads_at_any_length, .timeout = 120)
{
    for (unsigned turn = 0; turn < 24; turn++) {
        int status = 0;
        pid_t child;

        unlink(trace_path);
        memset(bytes_of, 0, sizeof(bytes_of));
        child = fork();
        random_state = 88172645463325252u;
        if (child == 0) {
            gs_trace_reset();
            gs_trace_open(trace_path, SIZE, 0);
        }
        record_random(20000 + turn * 16384 + turn * 57, 0);
        if (child == 0) {
            if (turn % 2)
                gs_trace_close();
            kill(getpid(), SIGKILL);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        expect_live(trace_path);
    }
}

static pthread_barrier_t barrier;

static void *record_seldom(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < 100; i++)
        record_alloc(i, 500 + i);
    for (unsigned turn = 0; turn < 10; turn++) {
        pthread_barrier_wait(&barrier); /* the other one records */
        pthread_barrier_wait(&barrier);
        record_free(turn * 5);
        if (turn % 2)
            record_alloc(turn * 5, 7);
    }
    return NULL;
}

/* A thread that sleeps has slots of chunks that others have filled since. */
Test(trace_ring, waits_for_no_thread)
{
    pthread_t thread;

    pthread_barrier_init(&barrier, NULL, 2);
    gs_trace_open(trace_path, SIZE, 0);
    cr_assert_eq(pthread_create(&thread, NULL, record_seldom, NULL), 0);
    for (unsigned turn = 0; turn < 10; turn++) {
        pthread_barrier_wait(&barrier);
        record_random(turn % 3 ? 40000 : 300000, 100);
        pthread_barrier_wait(&barrier);
    }
    pthread_join(thread, NULL);
    gs_trace_close();
    expect_live(trace_path);
    expect_nothing_said();
}

static void *record_often(void *first)
{
    unsigned from = (unsigned)(uintptr_t)first;

    for (unsigned i = 0; i < 200000; i++) {
        unsigned block = from + i * 7 % 500;

        if (i % 10000 == 0) /* a scheduler that lets one thread sleep for a lap is rare */
            pthread_barrier_wait(&barrier);

        if (bytes_of[block] == 0)
            record_alloc(block, 1 + i);
        else
            record_free(block);
    }
    return NULL;
}

Test(trace_ring, keeps_what_many_threads_have)
{
    pthread_t threads[6];

    pthread_barrier_init(&barrier, NULL, GS_ARRAY_LEN(threads));
    gs_trace_open(trace_path, SIZE, 0);
    for (uintptr_t i = 0; i < GS_ARRAY_LEN(threads); i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, record_often, (void *)(i * 500)),
                     0);
    for (size_t i = 0; i < GS_ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    gs_trace_close();
    expect_live(trace_path);
    expect_nothing_said();
}

Test(trace_ring, reports_a_damaged_base)
{
    struct gs_replay_note note;
    struct gs_replay_trace trace;

    gs_trace_open(trace_path, SIZE, 0);
    record_random(400000, 0);
    gs_trace_close();
    /* Both bases, behind the header and the count of chunks. */
    FILE *file = fopen(trace_path, "r+");
    cr_assert_not_null(file);
    cr_assert_eq(fseek(file, GS_TRACE_HEADER_SLOTS * GS_TRACE_SLOT_BYTES + 8, SEEK_SET),
                 0);
    for (unsigned i = 0; i < 2 * sizeof(struct gs_trace_base); i++)
        fputc(0x55, file);
    fclose(file);
    cr_assert(gs_replay_load(trace_path, &trace, &note));
    cr_expect_not_null(strstr(note.text, "damaged"), "%s", note.text);
    gs_replay_free(&trace);
}

/* ---- what is left of records ------------------------------------------------------ */

static struct gs_trace_record record_of(unsigned op, uint64_t time_ns, uint64_t key,
                                        uint64_t bytes)
{
    return (struct gs_trace_record){.op = (uint8_t)op,
                                    .time_ns = time_ns,
                                    .key = key,
                                    .bytes = bytes,
                                    .context = 1,
                                    .kind = GS_TRACE_KIND_DEVICE};
}

static void add(struct gs_trace_live *live, unsigned op, uint64_t time_ns, uint64_t key,
                uint64_t bytes)
{
    const struct gs_trace_record record = record_of(op, time_ns, key, bytes);

    gs_trace_live_add(live, &record, 5);
}

static void put_text(void *text, const struct gs_trace_record *record)
{
    char *end = (char *)text + strlen(text);

    snprintf(end, 64, "%u:%llx+%llu ", record->op, (unsigned long long)record->key,
             (unsigned long long)record->bytes);
}

static const char *text_of(struct gs_trace_live *live)
{
    static char text[1024];

    text[0] = '\0';
    gs_trace_live_visit(live, put_text, text);
    gs_trace_live_free(live);
    return text;
}

/* Slots of two threads' batches are not in the order of their times. */
Test(trace_live, goes_by_times)
{
    static struct gs_trace_live live;

    add(&live, GS_TRACE_ALLOC, 1, 0x10, 7);
    add(&live, GS_TRACE_ALLOC, 9, 0x10, 8); /* the free between is still to come */
    add(&live, GS_TRACE_FREE, 5, 0x10, 0);
    cr_expect_str_eq(text_of(&live), "1:10+8 ");
    add(&live, GS_TRACE_FREE, 5, 0x10, 0);
    add(&live, GS_TRACE_ALLOC, 3, 0x10, 7);
    cr_expect_str_eq(text_of(&live), "");
    add(&live, GS_TRACE_FREE, 5, 0x10, 0);
    add(&live, GS_TRACE_ALLOC, 6, 0x10, 7);
    cr_expect_str_eq(text_of(&live), "1:10+7 ");
    add(&live, GS_TRACE_FREE, 5, 0x10, 0);
    cr_expect_eq(gs_trace_live_count(&live), 1, "its allocation may be in a later slot");
    gs_trace_live_expire(&live, 6);
    cr_expect_str_eq(text_of(&live), "");
}

Test(trace_live, takes_refused_frees_back)
{
    static struct gs_trace_live live;

    add(&live, GS_TRACE_ALLOC, 1, 0x10, 7);
    add(&live, GS_TRACE_FREE, 2, 0x10, 0);
    add(&live, GS_TRACE_FREE_REFUSED, 3, 0x10, 0);
    add(&live, GS_TRACE_FREE, 4, 0x20, 0); /* of nothing */
    add(&live, GS_TRACE_FREE_REFUSED, 5, 0x20, 0);
    cr_expect_str_eq(text_of(&live), "1:10+7 ");
}

Test(trace_live, ends_contexts_and_cuts_ranges)
{
    static struct gs_trace_live live;

    add(&live, GS_TRACE_ALLOC, 1, 0x10, 7);
    add(&live, GS_TRACE_CONTEXT_END, 2, 0, 0);
    add(&live, GS_TRACE_ALLOC, 3, 0x20, 7);
    cr_expect_str_eq(text_of(&live), "1:20+7 ");
    add(&live, GS_TRACE_MAPPED, 1, 0x1000, 0x4000);
    add(&live, GS_TRACE_UNMAPPED, 2, 0x2000, 0x1000);
    cr_expect_eq(gs_trace_live_count(&live), 2);
    add(&live, GS_TRACE_UNMAPPED, 3, 0x1000, 0x1000);
    cr_expect_str_eq(text_of(&live), "6:3000+8192 ");
    add(&live, GS_TRACE_MAPPED, 1, 0x1000, 0x1000);
    add(&live, GS_TRACE_CONTEXT_END, 2, 0, 0);
    cr_expect_str_eq(text_of(&live), "");
}

/* Rows that are removed leave no holes in the way of others. */
Test(trace_live, finds_all_of_many)
{
    static struct gs_trace_live live;

    for (uint64_t i = 1; i <= 20000; i++)
        add(&live, GS_TRACE_ALLOC, i, i * 512, i);
    for (uint64_t i = 1; i <= 20000; i++)
        if (i % 3)
            add(&live, GS_TRACE_FREE, 20000 + i, i * 512, 0);
    cr_expect_eq(gs_trace_live_count(&live), 20000 / 3);
    for (uint64_t i = 3; i <= 20000; i += 3)
        add(&live, GS_TRACE_FREE, 40000 + i, i * 512, 0);
    cr_expect_str_eq(text_of(&live), "");
}
