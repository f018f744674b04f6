/*
 * timeline.c - gpushim timeline TRACE [STATE_FILE]: a trace for programs that show it.
 *
 * The trace has times, sizes and ids of call stacks; the state file of the same process
 * has the stacks. Either may be of a process that was killed.
 *
 * Owns: nothing.   Lock: none.   Design: docs/traces.md
 */
#include "shim/tools/launcher/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_compare.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/replay/replay.h"

/* Allocations shown one by one, unless --most says otherwise: what a browser can bear. */
#define MOST 100000

static const struct format {
    char name[12], extension[16];
    bool one_by_one; /* has each allocation, not sums of equal ones */
    gs_timeline_write *write;
} formats[] = {{"perfetto", "perfetto.json", true, gs_timeline_perfetto},
               {"memory_viz", "pickle", true, gs_timeline_memory_viz},
               {"heaptrack", "heaptrack", false, gs_timeline_heaptrack},
               {"massif", "massif", false, gs_timeline_massif}};

/* What a command makes. */
struct job {
    struct gs_timeline_source source;
    const struct format *format;
    struct gs_page *page;
    enum gs_status status;
};

/* An allocation and its size. */
struct sized {
    uint64_t bytes;
    uint32_t id;
};

static int by_size(const void *a, const void *b)
{
    const struct sized *x = a, *y = b;
    return GS_FALLING(x->bytes, y->bytes) ?: GS_RISING(x->id, y->id);
}

/* The largest allocations so far: more than `most` until they are sorted. */
struct largest {
    struct sized *all;
    size_t count, room, most;
};

static void keep_largest(struct largest *largest)
{
    qsort(largest->all, largest->count, sizeof(*largest->all), by_size);
    if (largest->count > largest->most) {
        largest->count = largest->most;
    }
}

/* gs_replay_see */
static void add_to_largest(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct largest *largest = self;
    (void)address;
    if (op->op != GS_TRACE_ALLOC) {
        return;
    }
    if (largest->count == largest->room) {
        keep_largest(largest);
    }
    largest->all[largest->count++] = (struct sized){.bytes = op->bytes, .id = op->id};
}

/* Chooses the largest allocations, where there are too many. */
static void choose_largest(struct job *job, const char *path)
{
    struct gs_timeline *timeline = &job->source.timeline;
    const struct gs_replay_trace *trace = timeline->trace;
    if (!job->format->one_by_one || trace->allocations <= timeline->most) {
        return;
    }
    struct largest largest = {.most = timeline->most, .room = 2 * timeline->most};
    largest.all = gs_replay_alloc(largest.room, sizeof(*largest.all));
    gs_replay_visit(trace, add_to_largest, &largest);
    keep_largest(&largest);
    timeline->shown = gs_replay_alloc(trace->allocations, sizeof(bool));
    for (size_t i = 0; i < largest.count; i++) {
        timeline->shown[largest.all[i].id] = true;
    }
    free(largest.all);
    gs_launcher_warn("%.600s: has the %zu largest of %u allocations (--most=NUMBER)",
                     path, timeline->most, trace->allocations);
}

/* ---- writing ----------------------------------------------------------------------- */

static void write_timeline(struct job *job)
{
    const struct gs_export_sink sink = {.write = gs_page_put, .self = job->page};
    job->status = job->format->write(&job->source.timeline, &sink);
}

/* gs_state_visit.write */
static void write_with_stacks(void *self, const struct gs_export *export)
{
    struct job *job = self;
    if (export) {
        gs_timeline_take_frames(&job->source, export);
        write_timeline(job);
    }
}

/* Why the timeline has no call stacks, though it could have them; NULL: it could not. */
static const char *no_stacks(const struct job *job, const char *state)
{
    const struct gs_replay_trace *trace = &job->source.trace;
    if (job->source.timeline.id_count == 0) {
        return state ? "the trace has no call stacks" : NULL;
    }
    if (trace->pid_start == 0) {
        return "recorded without --state-file, which keeps the call stacks";
    }
    return state ? NULL : "name the state file of the same run as well";
}

static void make(struct job *job, const char *path, const char *state)
{
    const char *why = no_stacks(job, state), *problem;
    if (why) {
        gs_launcher_warn("%.600s: no call stacks: %s", path, why);
    }
    if (!state || why) {
        write_timeline(job);
        return;
    }
    if (!gs_timeline_visit(&job->source, state, write_with_stacks, job, &problem)) {
        gs_launcher_warn("%.600s: no call stacks: %s: %s", path, state, problem);
        write_timeline(job);
    }
}

static const struct format *find_format(const char *name)
{
    for (size_t i = 0; name && i < GS_ARRAY_LEN(formats); i++) {
        if (strcmp(name, formats[i].name) == 0) {
            return &formats[i];
        }
    }
    if (name) {
        gs_launcher_fail(
            GS_EXIT_USAGE,
            "--as=%.100s: not one of perfetto, memory_viz, heaptrack, massif", name);
    }
    return &formats[0];
}

static size_t read_most(const char *text)
{
    char *end = NULL;
    unsigned long long most = text ? strtoull(text, &end, 10) : MOST;
    if (text &&
        (text[0] < '0' || text[0] > '9' || *end || most < 1 || most > UINT32_MAX)) {
        gs_launcher_fail(GS_EXIT_USAGE, "--most=%.100s: not a number from 1 to %u", text,
                         UINT32_MAX);
    }
    return (size_t)most;
}

int gs_timeline_run(const struct gs_arguments *arguments)
{
    static struct gs_page page;
    char **words = arguments->command;
    char beside[PATH_MAX];
    static struct job job; /* one thread */
    size_t most = read_most(arguments->most);
    job = (struct job){
        .format = find_format(arguments->as), .page = &page, .status = GS_ERR_HOST_NOMEM};
    if (!words[0]) {
        gs_help_refuse(GS_VERB_TIMELINE, "timeline: no TRACE is given");
    }
    if (words[1] && words[2]) {
        gs_help_refuse(GS_VERB_TIMELINE,
                       "timeline: one TRACE and its STATE_FILE are converted; the third "
                       "file is %s",
                       words[2]);
    }
    if (snprintf(beside, sizeof(beside), "%s.%s", words[0], job.format->extension) >=
        (int)sizeof(beside)) {
        gs_launcher_fail(GS_REPLAY_BAD, "%.600s: the name is too long; no timeline",
                         words[0]);
    }
    int status = gs_timeline_open(&job.source, words[0]);
    if (job.source.trace.count == 0) {
        return GS_REPLAY_BAD;
    }
    job.source.timeline.most = most;
    choose_largest(&job, words[0]);
    gs_page_open(&page, "timeline", arguments->page ? arguments->page : beside, words);
    make(&job, words[0], words[1]);
    gs_timeline_close(&job.source);
    int closed = gs_page_close(&page);
    if (job.status == GS_ERR_HOST_NOMEM) {
        gs_launcher_fail(GS_REPLAY_BAD, "%.600s: %s", words[0],
                         gs_status_text(job.status));
    }
    return closed != 0 ? closed : status;
}
