/*
 * oracle_helpers.c - short words for histories. See oracle_helpers.h.
 */
#include "oracle_helpers.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct oracle_line *first_host;
static uint64_t stream_count;

void begin_with(struct oracle_options options)
{
    oracle_start(&options);
    first_host = oracle_line_new(ORACLE_HOST, 100, NULL);
    cr_assert_not_null(first_host);
}

void begin(void)
{
    begin_with((struct oracle_options){.seed = 7, .most_findings = 20});
}

void begin_separate(void)
{
    begin_with(
        (struct oracle_options){.seed = 7, .most_findings = 20, .separate_hosts = true});
}

struct oracle_line *host(void)
{
    return first_host;
}

struct oracle_line *host_new(uint64_t id)
{
    return oracle_line_new(ORACLE_HOST, id, NULL);
}

struct oracle_line *stream_new(void)
{
    return oracle_line_new(ORACLE_STREAM, ++stream_count, first_host);
}

static struct oracle_op *submit(struct oracle_op *op, struct oracle_work work)
{
    if (!work.host)
        work.host = first_host;
    work.call = work.own ? "cuEventRecord" : "cuLaunchKernel";
    oracle_op_submit(op, &work);
    return op;
}

struct oracle_op *put(struct oracle_line *stream, const struct oracle_op *after)
{
    struct oracle_op *op = oracle_op_new();

    if (after)
        oracle_op_after(op, after);
    return submit(op, (struct oracle_work){.stream = stream});
}

struct oracle_op *put_by(struct oracle_line *by, struct oracle_line *stream)
{
    return submit(oracle_op_new(), (struct oracle_work){.host = by, .stream = stream});
}

struct oracle_op *put_as(struct oracle_line *stream, enum oracle_overlap overlap)
{
    return submit(oracle_op_new(),
                  (struct oracle_work){.stream = stream, .overlap = overlap});
}

struct oracle_op *put_own(struct oracle_line *stream, const struct oracle_op *after)
{
    struct oracle_op *op = oracle_op_new();

    if (after)
        oracle_op_after(op, after);
    return submit(op, (struct oracle_work){.stream = stream, .own = true});
}

struct oracle_op *put_after_line(struct oracle_line *stream,
                                 const struct oracle_line *before)
{
    struct oracle_op *op = oracle_op_new();

    oracle_op_after_line(op, before);
    return submit(op, (struct oracle_work){.stream = stream});
}

void run_in(struct oracle_op *op, enum rw rw, struct oracle_allocation *allocation,
            uintptr_t address, size_t bytes)
{
    const struct oracle_access access = {
        .range = {address, bytes},
        .allocation = allocation,
        .writes = rw == WRITES || rw == ATOMIC_WRITES,
        .atomic = rw == ATOMIC_READS || rw == ATOMIC_WRITES,
    };
    oracle_op_runs(op, &access, 1);
    oracle_op_done(op);
}

void run_at(struct oracle_op *op, enum rw rw, uintptr_t address, size_t bytes)
{
    struct oracle_allocation *allocation = oracle_allocation_find(address);

    run_in(op, rw, allocation, address, bytes);
    oracle_allocation_unref(allocation);
}

void run(struct oracle_op *op, enum rw rw)
{
    run_at(op, rw, MEMORY, BYTES);
}

struct oracle_allocation *give_in(struct oracle_op *op)
{
    const struct oracle_range range = {MEMORY, BYTES};
    return oracle_allocation_begin(&range, "cuMemAllocAsync", first_host, op, false);
}

struct oracle_allocation *give(void)
{
    const struct oracle_range range = {MEMORY, BYTES};
    return oracle_allocation_begin(&range, "cuMemAlloc_v2", first_host, NULL, false);
}

struct oracle_allocation *give_inner(uintptr_t address, size_t bytes)
{
    const struct oracle_range range = {address, bytes};
    return oracle_allocation_begin(&range, "cuMemAlloc_v2", first_host, NULL, true);
}

void take(struct oracle_allocation *allocation)
{
    oracle_allocation_end(allocation, "cuMemFree_v2", first_host, NULL, NULL, 0);
}

void take_in(struct oracle_allocation *allocation, struct oracle_op *op)
{
    oracle_allocation_end(allocation, "cuMemFreeAsync", first_host, op, NULL, 0);
}

void take_waiting(struct oracle_allocation *allocation, struct oracle_line *line)
{
    oracle_allocation_end(allocation, "cuMemFree_v2", first_host, NULL, &line, 1);
}

void saw(const struct oracle_op *op)
{
    oracle_host_saw(first_host, op, false, false);
}

void expect(enum oracle_finding kind, unsigned count)
{
    unsigned counts[ORACLE_FINDINGS];

    oracle_counts(counts);
    cr_assert_eq(counts[kind], count, "%u of kind %d, not %u", counts[kind], (int)kind,
                 count);
    cr_assert_eq(oracle_findings(), count, "%u findings in all, not %u",
                 oracle_findings(), count);
}

void expect_nothing(void)
{
    cr_assert_eq(oracle_findings(), 0, "%u findings", oracle_findings());
}

/* ---- stderr ----------------------------------------------------------------------- */

static FILE *captured;

int stderr_capture(void)
{
    int saved = dup(STDERR_FILENO);

    captured = tmpfile();
    cr_assert_not_null(captured);
    cr_assert_geq(saved, 0);
    dup2(fileno(captured), STDERR_FILENO);
    return saved;
}

const char *stderr_text(int capture)
{
    static char text[65536];

    dup2(capture, STDERR_FILENO);
    close(capture);
    rewind(captured);
    text[fread(text, 1, sizeof(text) - 1, captured)] = '\0';
    fclose(captured);
    return text;
}
