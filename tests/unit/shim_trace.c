/*
 * shim_trace.c - proves that what is recorded is what the reader gets back: by one thread
 * and by many, after a SIGKILL, at a limit, on a full disk, and next to a file that is
 * already there. What a file cannot take is said in one line, and ends nothing.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "shim/settings/log.h"
#include "shim/tools/replay/replay_trace.h"
#include "shim/settings/thread.h"
#include "shim/trace/trace.h"

static char said[64]; /* where messages go */
static char trace_path[64];

static void open_log(void)
{
    make_folder();
    snprintf(said, sizeof(said), "%s/said", folder);
    snprintf(trace_path, sizeof(trace_path), "%s/trace", folder);
    gs_log_open(said, GS_LOG_WARN);
}

TestSuite(trace, .init = open_log, .fini = remove_folder);

static CUcontext context;
static int device;

static void record_alloc(uint64_t addr, size_t bytes)
{
    gs_trace_alloc(GS_MEMORY_DEVICE, addr, bytes, context, device, NULL,
                   GS_TRACE_UNORDERED, 0);
}

static void record_free(uint64_t addr)
{
    gs_trace_free(addr, GS_TRACE_WAITED, NULL, GS_TRACE_UNORDERED);
}

static struct gs_replay_trace load(const char *path, const char *note)
{
    struct gs_replay_note got;
    struct gs_replay_trace trace;

    cr_assert(gs_replay_load(path, &trace, &got), "%s: %s", path, got.text);
    if (note)
        cr_expect_not_null(strstr(got.text, note), "'%s', not '%s'", got.text, note);
    else
        cr_expect_str_empty(got.text);
    return trace;
}

/* What was said, and that it is `lines` lines. */
static const char *messages(unsigned lines)
{
    static char text[4096];
    FILE *file = fopen(said, "re");
    unsigned found = 0;
    size_t length = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

    text[length] = '\0';
    for (const char *c = text; *c; c++)
        found += *c == '\n';
    cr_expect_eq(found, lines, "%u lines, not %u: %s", found, lines, text);
    if (file)
        fclose(file);
    return text;
}

static off_t size_of(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? info.st_size : -1;
}

/* ---- what comes back ------------------------------------------------------------------
 */

Test(trace, is_off_without_a_name)
{
    gs_trace_open("", GS_MIB, 0);
    record_alloc(0x1000, 1);
    gs_trace_open(NULL, GS_MIB, 0);
    record_alloc(0x1000, 1);
    gs_trace_close();
    cr_assert_not(gs_trace_on);
    messages(0);
}

Test(trace, no_record_means_no_file)
{
    gs_trace_open(trace_path, GS_MIB, 0);
    gs_trace_close();
    cr_assert_eq(size_of(trace_path), -1);
}

Test(trace, every_field_comes_back)
{
    CUstream stream = (CUstream)(uintptr_t)0x7000;
    struct gs_replay_trace trace;

    context = (CUcontext)(uintptr_t)0x9000;
    device = 3;
    gs_trace_open(trace_path, GS_MIB, 987654321);
    record_alloc(0x200, 12345);
    gs_trace_alloc(GS_MEMORY_ASYNC, 0x400, 77, context, device, stream, GS_TRACE_ORDERED,
                   0xabcdef);
    gs_trace_alloc(GS_MEMORY_PINNED, 0x600, 5, NULL, 0, NULL, GS_TRACE_UNORDERED, 0);
    gs_trace_alloc(GS_MEMORY_MANAGED, 0x800, 6, context, device, NULL, GS_TRACE_UNORDERED,
                   GS_TRACE_STACK_MOST + 1);
    gs_trace_sync(GS_TRACE_SYNC_CONTEXT, context, NULL, GS_TRACE_UNORDERED);
    record_free(0x200);
    gs_trace_free(0x400, GS_TRACE_DRIVER, stream, GS_TRACE_ORDERED);
    gs_trace_free(0, GS_TRACE_DRIVER, NULL, GS_TRACE_UNORDERED);
    gs_trace_close();
    cr_assert_eq(size_of(trace_path), 2 * GS_TRACE_BATCH_SLOTS * GS_TRACE_SLOT_BYTES);
    trace = load(trace_path, NULL);
    cr_assert_eq(trace.count, 7);
    cr_assert_eq(trace.allocations, 4);
    cr_expect_eq(trace.ops[0].bytes, 12345);
    cr_expect_eq(trace.ops[0].kind, GS_TRACE_KIND_DEVICE);
    cr_expect_eq(trace.ops[0].device, 3);
    cr_expect_eq(trace.ops[1].kind, GS_TRACE_KIND_ASYNC);
    cr_expect_neq(trace.ops[1].stream, trace.ops[0].stream);
    cr_expect_eq(trace.ops[2].kind, GS_TRACE_KIND_PINNED);
    cr_expect_eq(trace.ops[3].kind, GS_TRACE_KIND_MANAGED);
    cr_expect_eq(trace.ops[4].op, GS_TRACE_SYNC);
    cr_expect_eq(trace.ops[4].how, GS_TRACE_SYNC_CONTEXT);
    cr_expect_eq(trace.ops[5].op, GS_TRACE_FREE);
    cr_expect_eq(trace.ops[5].id, 0);
    cr_expect_eq(trace.ops[5].how, GS_TRACE_WAITED);
    cr_expect_eq(trace.ops[6].id, 1);
    cr_expect_eq(trace.ops[6].stream, trace.ops[1].stream);
    for (uint32_t i = 0; i < 4; i++)
        cr_expect_eq(trace.ops[i].stack, i == 1 ? 0xabcdef : 0, "stack of %u", i);
    cr_expect_eq(trace.ops[6].stack, 0xabcdef, "a free has its allocation's");
    cr_expect_eq(trace.pid, (uint32_t)getpid());
    cr_expect_eq(trace.pid_start, 987654321);
    cr_expect_gt(trace.start_real_ns, 0);
    cr_expect_str_eq(trace.program, program_invocation_short_name);
    for (size_t i = 1; i < trace.count; i++)
        cr_expect_geq(trace.ops[i].time_ns, trace.ops[i - 1].time_ns);
    gs_replay_free(&trace);
    messages(0);
}

Test(trace, an_address_names_one_allocation_after_another)
{
    struct gs_replay_trace trace;

    gs_trace_open(trace_path, GS_MIB, 0);
    for (unsigned i = 0; i < 100; i++) {
        record_alloc(0x1000, i + 1);
        record_free(0x1000);
    }
    gs_trace_close();
    trace = load(trace_path, NULL);
    cr_assert_eq(trace.allocations, 100);
    for (unsigned i = 0; i < 100; i++) {
        cr_expect_eq(trace.ops[2 * i].id, i);
        cr_expect_eq(trace.ops[2 * i + 1].id, i);
        cr_expect_eq(trace.ops[2 * i + 1].bytes, i + 1);
    }
    gs_replay_free(&trace);
}

Test(trace, a_refused_free_leaves_the_memory_live)
{
    struct gs_replay_trace trace;

    gs_trace_open(trace_path, GS_MIB, 0);
    record_alloc(0x1000, 9);
    record_free(0x1000);
    gs_trace_free_refused(0x1000);
    record_free(0x2000); /* of nothing, and refused too */
    gs_trace_free_refused(0x2000);
    record_free(0x1000);
    gs_trace_close();
    trace = load(trace_path, NULL);
    cr_assert_eq(trace.count, 2);
    cr_expect_eq(trace.ops[1].op, GS_TRACE_FREE);
    gs_replay_free(&trace);
}

Test(trace, a_context_takes_its_memory_along)
{
    struct gs_replay_trace trace;

    context = (CUcontext)(uintptr_t)0x9000;
    gs_trace_open(trace_path, GS_MIB, 0);
    record_alloc(0x1000, 1);
    gs_trace_alloc(GS_MEMORY_ASYNC, 0x3000, 3, context, device, NULL, GS_TRACE_ORDERED,
                   0);
    gs_trace_context_end(context);
    record_alloc(0x1000, 2); /* the handle is another context's now */
    gs_trace_context_end((CUcontext)(uintptr_t)0x9900);
    gs_trace_close();
    trace = load(trace_path, NULL);
    cr_assert_eq(trace.count, 4);
    cr_expect_eq(trace.ops[2].op, GS_TRACE_FREE);
    cr_expect_eq(trace.ops[2].id, 0);
    cr_expect_eq(trace.ops[3].op, GS_TRACE_ALLOC);
    gs_replay_free(&trace);
}

Test(trace, a_recycled_stream_gets_a_new_number)
{
    CUstream stream = (CUstream)(uintptr_t)0x7000;
    struct gs_replay_trace trace;

    gs_trace_open(trace_path, GS_MIB, 0);
    for (unsigned i = 0; i < 4; i++) {
        gs_trace_alloc(GS_MEMORY_ASYNC, 0x1000 + i, 1, context, device, stream,
                       GS_TRACE_ORDERED, 0);
        if (i % 2)
            gs_trace_stream_end(stream);
    }
    gs_trace_alloc(GS_MEMORY_ASYNC, 0x2000, 1, context, device, NULL, GS_TRACE_ORDERED,
                   0);
    gs_trace_alloc(GS_MEMORY_ASYNC, 0x2001, 1, context, device, NULL,
                   GS_TRACE_ORDERED_PER_THREAD, 0);
    gs_trace_close();
    trace = load(trace_path, NULL);
    cr_expect_eq(trace.ops[0].stream, trace.ops[1].stream);
    cr_expect_eq(trace.ops[2].stream, trace.ops[3].stream);
    cr_expect_neq(trace.ops[1].stream, trace.ops[2].stream);
    cr_expect_eq(trace.streams, 4);
    gs_replay_free(&trace);
}

Test(trace, more_streams_than_there_are_numbers_are_one)
{
    struct gs_replay_trace trace;

    gs_trace_open(trace_path, 16 * GS_MIB, 0);
    for (uintptr_t i = 0; i < 10000; i++)
        gs_trace_alloc(GS_MEMORY_ASYNC, 0x1000 + i, 1, context, device,
                       (CUstream)(0x10000 + i * 64), GS_TRACE_ORDERED, 0);
    gs_trace_close();
    trace = load(trace_path, NULL);
    cr_assert_eq(trace.allocations, 10000);
    cr_expect_eq(trace.streams, 4097);
    gs_replay_free(&trace);
}

/* ---- many threads ---------------------------------------------------------------------
 */

#define THREADS 8
#define PAIRS   9000

static void *record_pairs(void *argument)
{
    uint64_t base = (uint64_t)(uintptr_t)argument;

    for (unsigned i = 0; i < PAIRS; i++) {
        record_alloc(base + i % 7, i + 1);
        record_free(base + i % 7);
    }
    return NULL;
}

Test(trace, threads_lose_nothing_and_keep_their_order)
{
    pthread_t threads[THREADS];
    uint64_t last[THREADS] = {0};
    unsigned allocs[THREADS] = {0};
    struct gs_replay_trace trace;

    gs_trace_open(trace_path, GS_GIB, 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(
            pthread_create(&threads[i], NULL, record_pairs, (void *)((i + 1) << 16)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    gs_trace_close();
    trace = load(trace_path, NULL);
    cr_assert_eq(trace.count, 2 * THREADS * PAIRS);
    cr_assert_eq(trace.threads, THREADS);
    for (size_t i = 0; i < trace.count; i++) {
        const struct gs_replay_op *op = &trace.ops[i];

        cr_assert_geq(op->time_ns, last[op->thread]);
        last[op->thread] = op->time_ns;
        if (op->op == GS_TRACE_ALLOC)
            cr_assert_eq(op->bytes, ++allocs[op->thread]);
    }
    gs_replay_free(&trace);
    messages(0);
}

/* ---- while the program runs ---------------------------------------------------------
 */

/* Would see a record of one recording in the file of another, or one that is lost between
 * two. */
Test(trace, one_after_the_other_has_its_own_records)
{
    struct gs_allocation before = {
        .addr = 0x3000, .bytes = 42, .kind = GS_MEMORY_PINNED, .stack = 7, .thread = 1};
    struct gs_replay_trace trace;
    char second[80];

    snprintf(second, sizeof(second), "%s.second", trace_path);
    record_alloc(0x1000, 1); /* nowhere */
    cr_assert_null(gs_trace_begin(trace_path, GS_MIB, 0));
    cr_assert(gs_trace_records());
    gs_trace_write_live(&before, 0);
    before.addr += 0x100;
    before.thread = gs_thread_id();
    gs_trace_write_live(&before, 0);
    record_alloc(0x2000, 2);
    record_free(0x9000); /* of before, and freed just then: no fault */
    gs_trace_end();
    cr_assert_not(gs_trace_records());
    record_alloc(0x4000, 4);
    cr_assert_null(gs_trace_begin(second, GS_MIB, 0));
    record_alloc(0x5000, 5);
    gs_trace_end();
    gs_trace_close(); /* the process's end */
    trace = load(trace_path, NULL);
    cr_assert_eq(trace.count, 3);
    cr_expect_neq(trace.ops[0].thread, trace.ops[1].thread, "who allocated it");
    cr_expect_eq(trace.ops[1].thread, trace.ops[2].thread);
    cr_assert_eq(trace.ops[0].bytes, 42);
    cr_assert_eq(trace.ops[0].stack, 7);
    cr_assert_eq(trace.ops[0].time_ns, 1);
    cr_assert_eq(trace.ops[0].kind, GS_TRACE_KIND_PINNED);
    cr_assert_eq(trace.ops[2].bytes, 2);
    gs_replay_free(&trace);
    trace = load(second, NULL);
    cr_assert_eq(trace.count, 1);
    cr_assert_eq(trace.ops[0].bytes, 5);
    gs_replay_free(&trace);
    messages(0);
}

/* More threads than a replay has numbers for allocated what is live, and are gone: those
 * that go on have numbers all the same. */
Test(trace, threads_from_before_leave_numbers)
{
    struct gs_allocation before = {.bytes = 1, .kind = GS_MEMORY_PINNED};
    struct gs_replay_trace trace;

    cr_assert_null(gs_trace_begin(trace_path, GS_MIB, 0));
    for (unsigned i = 0; i < 2 * GS_REPLAY_THREADS; i++) {
        before.addr = 0x10000 + 16 * (uint64_t)i;
        before.thread = 1 + i;
        gs_trace_write_live(&before, 0);
    }
    record_alloc(0x2000, 2);
    gs_trace_end();
    trace = load(trace_path, NULL);
    cr_assert_eq(trace.count, 2 * GS_REPLAY_THREADS + 1);
    cr_expect_eq(trace.threads, GS_REPLAY_THREADS / 2 + 1);
    gs_replay_free(&trace);
}

Test(trace, what_cannot_begin_says_why)
{
    const char *why = gs_trace_begin("/nonexistent/trace", GS_MIB, 0);

    cr_assert_not_null(why);
    cr_expect_not(gs_trace_records());
    cr_expect_not(gs_trace_on);
    cr_assert_null(gs_trace_begin(trace_path, GS_MIB, 0));
    gs_trace_end();
    cr_expect_gt(size_of(trace_path), 0);
}

static int switching; /* atomic */

static void *record_until(void *argument)
{
    uint64_t base = (uint64_t)(uintptr_t)argument;

    while (__atomic_load_n(&switching, __ATOMIC_ACQUIRE))
        for (unsigned i = 0; i < 50; i++) {
            record_alloc(base + i, i + 1);
            record_free(base + i);
        }
    return NULL;
}

/* Would see a late thread write to slots of the next file, or to no file at all. */
Test(trace, threads_go_on_from_file_to_file)
{
    enum { FILES = 40 };
    pthread_t threads[THREADS];
    struct gs_replay_trace trace;
    char path[96];

    switching = 1;
    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(
            pthread_create(&threads[i], NULL, record_until, (void *)((i + 1) << 16)), 0);
    for (unsigned i = 0; i < FILES; i++) {
        snprintf(path, sizeof(path), "%s.%u", trace_path, i);
        /* No ring so small that one turn of the scheduler fills it. */
        cr_assert_null(gs_trace_begin(path, i % 5 ? i % 5 * GS_MIB : GS_GIB, 0));
        usleep(2000);
        gs_trace_end();
    }
    __atomic_store_n(&switching, 0, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < FILES; i++) {
        struct gs_replay_note note;

        snprintf(path, sizeof(path), "%s.%u", trace_path, i);
        cr_assert(gs_replay_load(path, &trace, &note), "%s: %s", path, note.text);
        cr_expect_null(strstr(note.text, "damaged"), "%s: %s", path, note.text);
        for (size_t j = 0; j < trace.count; j++)
            cr_assert_lt(trace.ops[j].time_ns, UINT64_C(60000000000));
        gs_replay_free(&trace);
    }
}

/* ---- how it ends
 * ------------------------------------------------------------------------ */

Test(trace, a_killed_process_leaves_all_it_recorded)
{
    struct gs_replay_trace trace;
    int status;
    pid_t child = fork();

    if (child == 0) {
        gs_trace_open(trace_path, GS_GIB, 0);
        for (unsigned i = 0; i < 20000; i++)
            record_alloc(0x1000 + i, 1);
        kill(getpid(), SIGKILL);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status));
    trace = load(trace_path, NULL);
    cr_assert_eq(trace.count, 20000);
    gs_replay_free(&trace);
}

Test(trace, the_limit_is_kept_and_said_once)
{
    struct gs_replay_trace trace;

    gs_trace_open(trace_path, GS_MIB, 0);
    for (unsigned i = 0; i < 40000; i++)
        record_alloc(0x1000 + i, 1);
    cr_expect_not(gs_trace_on);
    cr_expect_leq(size_of(trace_path), (off_t)GS_MIB);
    gs_trace_close();
    trace = load(trace_path, NULL);
    cr_expect_eq(trace.count, GS_TRACE_CHUNK_SLOTS - GS_TRACE_BATCH_SLOTS);
    gs_replay_free(&trace);
    cr_expect_not_null(strstr(messages(1), "GPUSHIM_TRACE_LIMIT=1M: reached"));
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit = {bytes, bytes};

    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

Test(trace, a_file_that_cannot_grow_keeps_what_it_has)
{
    struct gs_replay_trace trace;

    gs_trace_open(trace_path, GS_GIB, 0);
    record_alloc(0x1000, 1);
    limit_files(GS_MIB);
    for (unsigned i = 0; i < 40000; i++)
        record_alloc(0x2000 + i, 1);
    cr_expect_not(gs_trace_on);
    trace = load(trace_path, NULL);
    cr_expect_eq(trace.count, GS_TRACE_CHUNK_SLOTS - GS_TRACE_BATCH_SLOTS);
    gs_replay_free(&trace);
    cr_expect_not_null(
        strstr(messages(1), "cannot grow: file too large; nothing more is recorded"));
}

Test(trace, a_file_that_finds_no_room_is_not_left_behind)
{
    gs_trace_open(trace_path, GS_GIB, 0);
    limit_files(64 * GS_KIB);
    for (unsigned i = 0; i < 100; i++)
        record_alloc(0x2000 + i, 1);
    gs_trace_close();
    cr_expect_eq(size_of(trace_path), -1);
    cr_expect_not_null(
        strstr(messages(1), "cannot be created: file too large; nothing is recorded"));
}

Test(trace, no_such_folder_is_said_once)
{
    gs_trace_open("/nonexistent/trace.%p", GS_GIB, 0);
    record_alloc(0x1000, 1);
    record_alloc(0x2000, 1);
    gs_trace_close();
    cr_expect_not_null(strstr(messages(1), "GPUSHIM_TRACE_FILE=/nonexistent/trace."));
}

/* A FIFO stands for whatever is no file, in a folder of the test's own: a fault here must
 * not cost the machine one of its devices. */
Test(trace, what_is_no_file_is_left_alone)
{
    char pipe_path[80], second[96];
    struct stat info;

    snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", folder);
    snprintf(second, sizeof(second), "%s.1", pipe_path);
    cr_assert_eq(mkfifo(pipe_path, 0666), 0);
    gs_trace_open(folder, GS_GIB, 0);
    record_alloc(0x1000, 1);
    gs_trace_reset();
    gs_trace_open(pipe_path, GS_GIB, 0);
    record_alloc(0x1000, 1);
    cr_expect(stat(pipe_path, &info) == 0 && S_ISFIFO(info.st_mode));
    cr_expect_eq(size_of(second), -1);
    messages(2);
}

Test(trace, a_file_that_is_there_is_not_touched)
{
    char second[80];
    struct gs_replay_trace trace;
    int fd = open(trace_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    cr_assert_eq(write(fd, "mine", 4), 4);
    close(fd);
    gs_trace_open(trace_path, GS_GIB, 0);
    record_alloc(0x1000, 1);
    gs_trace_close();
    cr_expect_eq(size_of(trace_path), 4);
    snprintf(second, sizeof(second), "%s.1", trace_path);
    trace = load(second, NULL);
    cr_expect_eq(trace.count, 1);
    gs_replay_free(&trace);
    cr_expect_not_null(strstr(messages(1), ": exists; recording to "));
}

Test(trace, another_file_in_its_place_is_not_touched)
{
    char away[80];
    int fd;

    gs_trace_open(trace_path, GS_GIB, 0);
    record_alloc(0x1000, 1);
    snprintf(away, sizeof(away), "%s.away", trace_path);
    cr_assert_eq(rename(trace_path, away), 0);
    fd = open(trace_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    cr_assert_eq(write(fd, "mine", 4), 4);
    close(fd);
    for (unsigned i = 0; i < 20000; i++)
        record_alloc(0x2000 + i, 1);
    gs_trace_close();
    cr_expect_eq(size_of(trace_path), 4);
    messages(1);
}

Test(trace, a_forked_child_records_for_itself)
{
    struct gs_replay_trace trace;
    char pattern[80], name[96];
    int status;
    pid_t child;

    snprintf(pattern, sizeof(pattern), "%s.%%p", trace_path);
    gs_trace_open(pattern, GS_GIB, 0);
    record_alloc(0x1000, 1);
    child = fork();
    if (child == 0) {
        gs_trace_reset();
        record_alloc(0x2000, 1);
        gs_trace_open(pattern, GS_GIB, 0);
        record_alloc(0x3000, 1);
        record_alloc(0x4000, 1);
        gs_trace_close();
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    record_free(0x1000);
    gs_trace_close();
    snprintf(name, sizeof(name), "%s.%d", trace_path, child);
    trace = load(name, NULL);
    cr_expect_eq(trace.count, 2);
    cr_expect_eq(trace.ops[0].thread, 0);
    gs_replay_free(&trace);
    snprintf(name, sizeof(name), "%s.%d", trace_path, getpid());
    trace = load(name, NULL);
    cr_expect_eq(trace.count, 2);
    gs_replay_free(&trace);
    messages(0);
}

Test(trace, nothing_is_recorded_after_the_end)
{
    struct gs_replay_trace trace;

    gs_trace_open(trace_path, GS_GIB, 0);
    record_alloc(0x1000, 1);
    gs_trace_close();
    for (unsigned i = 0; i < 100; i++)
        record_alloc(0x2000 + i, 1);
    gs_trace_close();
    trace = load(trace_path, NULL);
    cr_expect_eq(trace.count, 1);
    gs_replay_free(&trace);
}
