/*
 * timeline.c - gpushim timeline TRACE [STATE_FILE]: a trace for programs that show it.
 *
 * The trace has times, sizes and ids of call stacks; the state file of the same process
 * has the stacks. Either may be of a process that was killed.
 *
 * Owns: nothing.   Lock: none.   Design: docs/traces.md
 */
#include "timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"
#include "replay.h"
#include "state_open.h"

#define FRAMES_MOST 1024 /* of a stack, with inlined functions and Python's */
/* Allocations shown one by one, unless --most says otherwise: what a browser can bear. */
#define MOST 100000

static const struct format {
    char name[12], extension[16];
    bool one_by_one; /* has each allocation, not sums of equal ones */
    gs_timeline_write *write;
} formats[] = {{"perfetto", "perfetto.json", true, gs_timeline_perfetto},
               {"memory_viz", "pickle", true, gs_timeline_memory_viz},
               {"heaptrack", "heaptrack", false, gs_timeline_heaptrack}};

/* What a command makes. */
struct job {
    struct gs_timeline timeline;
    uint32_t *known; /* the trace's ids of stacks, ascending, each once */
    uint32_t *found; /* the same stacks in the state file's report */
    size_t count;
    const struct format *format;
    struct gs_page *page;
    enum gs_status status;
};

/* ---- the stacks of a trace ---------------------------------------------------------
 */

static int by_id(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Lists the trace's ids of stacks. */
static void list_stacks(struct job *job)
{
    const struct gs_replay_trace *trace = job->timeline.trace;
    size_t count = trace->made ? trace->allocations : 0, kept = 0;
    job->known = gs_replay_alloc(count, sizeof(*job->known));
    job->found = gs_replay_alloc(count, sizeof(*job->found));
    for (size_t i = 0; i < count; i++) {
        job->known[i] = trace->made[i].stack;
    }
    qsort(job->known, count, sizeof(*job->known), by_id);
    for (size_t i = 0; i < count; i++) {
        if (job->known[i] != 0 && (kept == 0 || job->known[i] != job->known[kept - 1])) {
            job->known[kept++] = job->known[i];
        }
    }
    memcpy(job->found, job->known, kept * sizeof(*job->found));
    job->count = kept;
}

static uint32_t index_of(const struct job *job, uint32_t id)
{
    const uint32_t *at =
        job->count ? bsearch(&id, job->known, job->count, sizeof(id), by_id) : NULL;
    return at ? (uint32_t)(at - job->known) : (uint32_t)job->count;
}

static void follow_allocations(struct job *job)
{
    struct gs_timeline *timeline = &job->timeline;
    const struct gs_replay_trace *trace = timeline->trace;
    timeline->stack_of = gs_replay_alloc(trace->allocations, sizeof(uint32_t));
    timeline->end_of = gs_replay_alloc(trace->allocations, sizeof(size_t));
    for (uint32_t i = 0; i < trace->allocations; i++) {
        timeline->end_of[i] = trace->count;
        timeline->stack_of[i] = index_of(job, trace->made ? trace->made[i].stack : 0);
    }
    for (size_t i = 0; i < trace->count; i++) {
        if (trace->ops[i].op == GS_TRACE_FREE) {
            timeline->end_of[trace->ops[i].id] = i;
        }
    }
}

/* An allocation and its size. */
struct sized {
    uint64_t bytes;
    uint32_t id;
};

static int by_size(const void *a, const void *b)
{
    const struct sized *x = a, *y = b;
    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes ? 1 : -1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

/* Chooses the largest allocations, where there are too many. */
static void choose_largest(struct job *job, const char *path)
{
    struct gs_timeline *timeline = &job->timeline;
    const struct gs_replay_trace *trace = timeline->trace;
    if (!job->format->one_by_one || trace->allocations <= timeline->most) {
        return;
    }
    struct sized *all = gs_replay_alloc(trace->allocations, sizeof(*all));
    for (size_t i = 0; i < trace->count; i++) {
        if (trace->ops[i].op == GS_TRACE_ALLOC) {
            uint32_t id = trace->ops[i].id;
            all[id] = (struct sized){.bytes = trace->ops[i].bytes, .id = id};
        }
    }
    qsort(all, trace->allocations, sizeof(*all), by_size);
    timeline->shown = gs_replay_alloc(trace->allocations, sizeof(bool));
    for (size_t i = 0; i < timeline->most; i++) {
        timeline->shown[all[i].id] = true;
    }
    free(all);
    gs_launcher_warn("%.600s: has the %zu largest of %u allocations (--most=NUMBER)",
                     path, timeline->most, trace->allocations);
}

/* Copies the frames of all stacks; their texts are the export's. */
static void copy_frames(struct job *job, const struct gs_export *export)
{
    struct gs_timeline *timeline = &job->timeline;
    struct gs_export_frame frames[FRAMES_MOST];
    timeline->stacks = gs_replay_alloc(job->count, sizeof(*timeline->stacks));
    timeline->stack_count = job->count;
    timeline->frame_count = gs_export_frames(export);
    for (size_t i = 0; i < job->count; i++) {
        size_t count = gs_export_shown(export, job->found[i], frames, FRAMES_MOST);
        struct gs_export_frame *copy = gs_replay_alloc(count, sizeof(*copy));
        memcpy(copy, frames, count * sizeof(*copy));
        timeline->stacks[i] = (struct gs_timeline_stack){.frames = copy, .count = count};
    }
}

static void free_timeline(struct job *job)
{
    for (size_t i = 0; i < job->timeline.stack_count; i++) {
        free((void *)(uintptr_t)job->timeline.stacks[i].frames);
    }
    free(job->timeline.stacks);
    free(job->timeline.stack_of);
    free(job->timeline.end_of);
    free(job->timeline.shown);
    free(job->known);
    free(job->found);
}

/* ---- writing -----------------------------------------------------------------------
 */

static void write_timeline(struct job *job)
{
    const struct gs_export_sink sink = {.write = gs_page_put, .self = job->page};
    job->status = job->format->write(&job->timeline, &sink);
}

/* gs_state_visit.write */
static void write_with_stacks(void *self, const struct gs_export *export)
{
    struct job *job = self;
    if (export) {
        copy_frames(job, export);
        write_timeline(job);
    }
}

/* Why the timeline has no call stacks, though it could have them; NULL: it could not. */
static const char *no_stacks(const struct job *job, const char *state)
{
    const struct gs_replay_trace *trace = job->timeline.trace;
    if (job->count == 0) {
        return state ? "the trace has no call stacks" : NULL;
    }
    if (trace->pid_start == 0) {
        return "recorded without --state-file, which keeps the call stacks";
    }
    return state ? NULL : "name the state file of the same run as well";
}

static void make(struct job *job, const char *path, const char *state)
{
    const struct gs_replay_trace *trace = job->timeline.trace;
    const char *why = no_stacks(job, state), *problem;
    if (why) {
        gs_launcher_warn("%.600s: no call stacks: %s", path, why);
    }
    if (!state || why) {
        write_timeline(job);
        return;
    }
    const struct gs_state_visit visit = {
        .lines = GS_STATE_ALL_LINES,
        .pid = trace->pid,
        .pid_start = trace->pid_start,
        .stacks = {.ids = job->found, .count = job->count},
        .write = write_with_stacks,
        .self = job};
    if (!gs_state_visit(state, &visit, &problem)) {
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
        gs_launcher_fail(GS_EXIT_USAGE,
                         "--as=%.100s: not one of perfetto, memory_viz, heaptrack", name);
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
    struct gs_replay_trace trace;
    struct job job = {.timeline = {.trace = &trace, .most = read_most(arguments->most)},
                      .format = find_format(arguments->as),
                      .page = &page,
                      .status = GS_ERR_HOST_NOMEM};
    if (!words[0] || (words[1] && words[2])) {
        gs_arguments_usage(stderr);
        return GS_EXIT_USAGE;
    }
    if (snprintf(beside, sizeof(beside), "%s.%s", words[0], job.format->extension) >=
        (int)sizeof(beside)) {
        gs_launcher_fail(GS_REPLAY_BAD, "%.600s: the name is too long; no timeline",
                         words[0]);
    }
    int status = gs_replay_open(words[0], &trace);
    if (trace.count == 0) {
        return GS_REPLAY_BAD;
    }
    list_stacks(&job);
    follow_allocations(&job);
    choose_largest(&job, words[0]);
    gs_page_open(&page, "timeline", arguments->page ? arguments->page : beside, words);
    make(&job, words[0], words[1]);
    free_timeline(&job);
    gs_replay_free(&trace);
    int closed = gs_page_close(&page);
    if (job.status == GS_ERR_HOST_NOMEM) {
        gs_launcher_fail(GS_REPLAY_BAD, "%.600s: %s", words[0],
                         gs_status_text(job.status));
    }
    return closed != 0 ? closed : status;
}
