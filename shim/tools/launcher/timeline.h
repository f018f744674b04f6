/*
 * timeline.h - a trace with the call stacks of its process, for the formats that show it.
 * Locks: none; one thread.   Design: docs/traces.md
 */
#ifndef GS_TIMELINE_H
#define GS_TIMELINE_H

#include "shim/tools/replay/replay_trace.h"
#include "tracker/report/export.h"

struct gs_timeline_stack {
    const struct gs_export_frame *frames; /* innermost first */
    size_t count;
    const char *owner; /* NULL: unknown */
};

struct gs_timeline {
    const struct gs_replay_trace *trace;
    uint32_t *ids; /* of the trace's stacks, ascending */
    size_t id_count;
    struct gs_timeline_stack *stacks; /* as `ids` */
    size_t stack_count;               /* id_count; 0: they are not known */
    size_t frame_count;               /* numbers of frames are below it */
    bool *freed;                      /* by allocation */
    size_t most; /* allocations shown one by one; also points of a curve */
    bool *shown; /* by allocation: it is one of the largest; NULL: all are shown */
};

/* A timeline, and its source. */
struct gs_timeline_source {
    struct gs_replay_trace trace;
    struct gs_timeline timeline;
    uint32_t *found; /* the trace's stacks in the report, for gs_state_visit.stacks */
};

/* Reads a trace, which may have a line on stderr. Returns the exit status; no operations:
 * it is no trace. gs_timeline_close must follow. */
int gs_timeline_open(struct gs_timeline_source *source, const char *path);
/* Takes the frames of all stacks; their texts are the export's. */
void gs_timeline_take_frames(struct gs_timeline_source *source,
                             const struct gs_export *export);
/* gs_state_visit of the state file, which must be of the trace's process, with the
 * trace's stacks. */
bool gs_timeline_visit(const struct gs_timeline_source *source, const char *state,
                       void (*write)(void *self, const struct gs_export *export),
                       void *self, const char **problem);
void gs_timeline_close(struct gs_timeline_source *source);

/* "GPU 0", "pinned host memory": the memory of an operation. Returns `out`. */
const char *gs_timeline_memory(const struct gs_replay_op *op, char out[32]);
/* A frame's function, or its place in a module. Returns one of its strings, or `out`. */
const char *gs_timeline_function(const struct gs_export_frame *frame, char out[512]);
/* Returns true if the allocation is shown by itself. */
bool gs_timeline_shows(const struct gs_timeline *timeline, uint32_t allocation);
/* The number of an allocation's stack in `stacks`; stack_count: none is known. */
size_t gs_timeline_stack_number(const struct gs_timeline *timeline,
                                const struct gs_replay_op *op);
/* That stack; empty: none is known. */
struct gs_timeline_stack gs_timeline_stack(const struct gs_timeline *timeline,
                                           const struct gs_replay_op *op);

/* A memory is a device's ordinal, or pinned host memory; or all of them together, whose
 * value is how many there are. */
#define GS_TIMELINE_PINNED   256u
#define GS_TIMELINE_MEMORIES 257u

#define GS_TIMELINE_INTERVALS_MOST 2400 /* a multiple of timeline_pool.c's columns */
#define GS_TIMELINE_BEFORE         UINT64_MAX

/* Equal intervals of a trace's time, each with its peak. Two visits of the trace: one
 * adds the operations, the other repeats them and sees each peak as it comes. */
struct gs_timeline_intervals {
    size_t count;
    uint64_t interval_ns;
    size_t now; /* the interval that a visit is in */
    uint64_t operations, live;
    /* The operation after which most was live; GS_TIMELINE_BEFORE: none; live bytes then.
     */
    uint64_t at[GS_TIMELINE_INTERVALS_MOST];
    uint64_t most[GS_TIMELINE_INTERVALS_MOST];
    uint64_t time_ns[GS_TIMELINE_INTERVALS_MOST]; /* of the peak */
};

typedef void gs_timeline_see(void *self, size_t interval);

/* The memory of an operation: a device's ordinal, or GS_TIMELINE_PINNED. */
unsigned gs_timeline_memory_of(const struct gs_replay_op *op);
/* The bytes that it makes live, or dead (modulo 2^64). */
uint64_t gs_timeline_change(const struct gs_replay_op *op);
/* The length of one of `count` intervals of a trace's time. */
uint64_t gs_timeline_interval_ns(const struct gs_replay_trace *trace, size_t count);
/* Divides a trace's time into `count` intervals, GS_TIMELINE_INTERVALS_MOST at most. */
void gs_timeline_divide(struct gs_timeline_intervals *intervals,
                        const struct gs_replay_trace *trace, size_t count);
/* An allocation or a free; after the last, gs_timeline_end. */
void gs_timeline_add(struct gs_timeline_intervals *intervals,
                     const struct gs_replay_op *op);
void gs_timeline_end(struct gs_timeline_intervals *intervals);
/* The same operations once more: calls `see` for each interval at its peak. Before the
 * first: gs_timeline_repeat. */
void gs_timeline_repeat(struct gs_timeline_intervals *intervals, gs_timeline_see *see,
                        void *self);
void gs_timeline_add_again(struct gs_timeline_intervals *intervals, gs_timeline_see *see,
                           void *self);

/* What the pool held over a trace's time. Operations and ranges in the order of a visit,
 * then the end, which returns false if the trace has no ranges. */
struct gs_timeline_pool;
struct gs_json;
struct gs_timeline_pool *gs_timeline_pool_create(const struct gs_timeline *timeline);
void gs_timeline_pool_see(struct gs_timeline_pool *pool, const struct gs_replay_op *op,
                          uint64_t address);
void gs_timeline_pool_see_range(struct gs_timeline_pool *pool,
                                const struct gs_replay_range *seen);
bool gs_timeline_pool_end(struct gs_timeline_pool *pool);
/* A segment that begins or ends. Of one that is only visited, time_ns is 0. */
struct gs_timeline_segment {
    uint64_t time_ns, begin, bytes;
    unsigned memory;
    bool ends;
};
typedef void gs_timeline_segment_see(void *self,
                                     const struct gs_timeline_segment *segment);
/* Calls `see` for each from now on: once it has begun, and once it has ended. What is cut
 * out of a segment ends it, and its rests begin. */
void gs_timeline_pool_watch(struct gs_timeline_pool *pool, gs_timeline_segment_see *see,
                            void *self);
/* Is the address in a segment? */
bool gs_timeline_pool_has(const struct gs_timeline_pool *pool, uint64_t address);
/* All segments, by address. */
void gs_timeline_pool_segments(const struct gs_timeline_pool *pool,
                               gs_timeline_segment_see *see, void *self);
/* Reserved bytes of a memory, the most in each of GS_TIMELINE_INTERVALS_MOST intervals;
 * NULL: there is none of it. */
const uint64_t *gs_timeline_pool_reserved(const struct gs_timeline_pool *pool,
                                          unsigned memory);
/* Writes the members of a memory: its reserved bytes, its segments. */
void gs_timeline_pool_put(const struct gs_timeline_pool *pool, struct gs_json *json,
                          unsigned memory);
void gs_timeline_pool_free(struct gs_timeline_pool *pool);

/* A format: writes the timeline to the sink. Errors: GS_ERR_IO, GS_ERR_HOST_NOMEM. */
typedef enum gs_status gs_timeline_write(const struct gs_timeline *timeline,
                                         const struct gs_export_sink *sink);

/* The JSON of a page's timeline; frames have the numbers of the report's JSON. */
gs_timeline_write gs_timeline_spans;
gs_timeline_write gs_timeline_perfetto, gs_timeline_memory_viz, gs_timeline_heaptrack,
    gs_timeline_massif;

#endif
