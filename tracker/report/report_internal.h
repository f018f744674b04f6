/*
 * report_internal.h - the report's parts: gather, frames, owners, write.
 * Owns: nothing.   Lock: none, one thread writes a report.
 */
#ifndef GS_REPORT_INTERNAL_H
#define GS_REPORT_INTERNAL_H

#include "growth.h"
#include "peaks.h"
#include "report.h"
#include "tracker_internal.h"

/* Where the report gets names and the time from: the symbolizer, or a test. */
struct gs_report_source {
    uint64_t now_ns; /* since the tracker's start */
    void *self;
    enum gs_status (*module)(void *self, uint32_t stack, uintptr_t frame,
                             struct gs_module *out) GS_MUST_USE;
    /* The name in the symbol table of the function a frame is in, until the next call.
       NULL: it has none, or no line. NULL itself: no lines, and so no two stacks of
       different addresses that read the same. */
    const char *(*linkage)(void *self, uintptr_t frame, const struct gs_module *module);
    /* NULL: no names. */
    void (*resolve)(void *self, struct gs_symbol_request *requests, size_t count);
    /* A sentence on what could not be named, or NULL. */
    const char *(*note)(void *self);
};

/* What the real one stands on. */
struct gs_live_source {
    const struct gs_stacks *stacks;
    struct gs_symbolizer *symbolizer;
};
struct gs_report_source gs_report_live(const struct gs_tracker *tracker,
                                       const struct gs_report_config *config,
                                       struct gs_live_source *live);

void gs_report_write_from(struct gs_tracker *tracker,
                          const struct gs_report_config *config,
                          const struct gs_report_source *source, struct gs_text *text,
                          struct gs_report_summary *summary);

/* --- report_gather.c: what there is to say -------------------------------------------
 */

/* What a rule matched; where stacks are sampled, what these stand for. */
struct gs_rule_use {
    uint64_t count, bytes;
};

struct gs_report_data {
    /* Live and lost: the leaks, the largest first, and behind them what is suppressed. */
    struct gs_groups groups;
    size_t leak_groups;          /* of them are leaks */
    size_t shown;                /* of these are written out, from the front */
    struct gs_groups registered; /* host memory that is still registered: no leak */
    size_t registered_shown;
    struct gs_groups unplaced; /* leaked, and without a stack on purpose: no places */
    uint64_t unplaced_bytes, unplaced_count; /* in the sums below, too */
    uint64_t leaked_bytes, leaked_count;     /* without what is suppressed, as below */
    uint64_t suppressed_bytes, suppressed_count, suppressed_errors;
    uint64_t shared_bytes, shared_count; /* of these, not sampled: in proportion */
    struct gs_rule_use *uses; /* by rule; NULL: nothing was compared with one */
    struct gs_scan scan;
    uint64_t grouped_bytes, grouped_count; /* less, where memory was short */
    struct gs_peak peaks[GS_PEAK_ROWS]; /* those that are known: for files, or told of */
    bool peaks_told;                    /* some of them are written out */
    uint64_t error_count;
    size_t errors_kept;
    struct gs_error errors[GS_ERRORS_KEPT];
};

void gs_report_gather(struct gs_tracker *tracker, const struct gs_report_config *config,
                      struct gs_report_data *data);
/* How many are written out, once what is suppressed stands behind the leaks. */
void gs_report_choose(const struct gs_report_config *config, struct gs_report_data *data);
/* The largest first. */
void gs_report_sort(struct gs_group *groups, size_t count);
void gs_report_data_free(struct gs_report_data *data);

/* What of all that leaked has no group, for want of memory. */
static inline uint64_t gs_report_not_grouped(const struct gs_report_data *data)
{
    return data->leaked_count - data->grouped_count - data->unplaced_count;
}

/* What a group adds to the bytes that leaked: a view's are counted elsewhere. */
static inline uint64_t gs_report_weight(const struct gs_group *group)
{
    return gs_totals_row(group->device, group->kind) == GS_ROW_VIEWS ? 0 : group->bytes;
}

/* --- report_frames.c: stacks with names, without the runtime's own frames -------------
 */

struct gs_frame_table {
    uint32_t *stacks; /* ids, ascending, each once */
    size_t *first;    /* stacks[i] has the requests first[i] to first[i + 1] - 1 */
    size_t stack_count;
    struct gs_symbol_request *requests;
    struct gs_module *modules;         /* requests[i].module is NULL or &modules[i] */
    const struct gs_frame_table *rest; /* where other stacks are; may be NULL */
    const struct gs_stacks *source;    /* of the ids */
};

/* A stack as it is shown. */
struct gs_shown_stack {
    const struct gs_symbol_request *frames;
    unsigned count;
    const char *call; /* runtime entry point the program called; NULL: none seen */
    bool cut;         /* there were more frames than are kept */
    uint32_t id;
};

/* Resolve the given stacks (any order, 0 and repeated ids allowed; `ids` is sorted).
 * Where there is no memory the table is empty. */
void gs_frame_table_fill(struct gs_frame_table *table, const struct gs_stacks *stacks,
                         const struct gs_report_source *source, uint32_t *ids,
                         size_t id_count);
void gs_frame_table_free(struct gs_frame_table *table);

/* How the stack is shown; count 0 where nothing is known of it. */
struct gs_shown_stack gs_frame_table_show(const struct gs_frame_table *table,
                                          const struct gs_report_config *config,
                                          uint32_t stack);

/* Frames of Python's have their names from the stacks: no file of symbols knows them. */
void gs_report_name_python(const struct gs_stacks *stacks,
                           struct gs_symbol_request *requests, size_t count);

/* The same for a stack's frames as they were captured, all resolved; `goes_on`: as
 * gs_stacks_truncated says. */
struct gs_shown_stack gs_report_show_frames(const struct gs_symbol_request *frames,
                                            unsigned count, bool goes_on,
                                            const struct gs_report_config *config);

/* Base name of a path; "" for NULL. */
const char *gs_report_base_name(const char *path);
/* Is this the base name of a file of the CUDA runtime, the driver, or ourselves? */
bool gs_report_runtime_module(const char *base_name);
/* Base name of the module a resolved frame lies in; "" where unknown. */
const char *gs_report_frame_module(const struct gs_symbol_request *request);

/* Is it a runtime entry point of the configuration? `symbol` may be NULL. */
bool gs_report_is_runtime_call(const char *symbol, const struct gs_report_config *config);
/* As the report writes them; 0: they read the same. */
int gs_report_compare_frames(const struct gs_symbol_request *a,
                             const struct gs_symbol_request *b);
int gs_report_compare_stacks(const struct gs_shown_stack *a,
                             const struct gs_shown_stack *b);

/* --- report_merge.c: places that read the same are one --------------------------------
 */

/*
 * Add up leaks whose stacks read the same, and sort them again.
 * In:  known   stacks that have names, for which `frames` is the rest, or has no use
 * Out: frames  empty before: stacks that needed names for it
 * Returns whether there are fewer leaks now.
 */
bool gs_report_merge(const struct gs_tracker *tracker,
                     const struct gs_report_config *config,
                     const struct gs_report_source *source,
                     const struct gs_frame_table *known, struct gs_frame_table *frames,
                     struct gs_report_data *data);

/* --- suppress_report.c, suppress_sampled.c, suppress_advice.c: rules -------------------
 */

/* Of what was not sampled, the share that the rules take: as large as that of what the
 * sampled stacks stand for beyond themselves. It leaves `unplaced` and the sums. The
 * groups are marked and in their order. */
void gs_report_suppress_share(struct gs_report_data *data);

/* Mark what the rules suppress and move it behind the rest. frames: of all groups and
 * errors; NULL: compare the names of modules alone. */
void gs_report_suppress(const struct gs_tracker *tracker,
                        const struct gs_report_config *config,
                        const struct gs_report_source *source,
                        const struct gs_frame_table *frames, struct gs_report_data *data);

/* --- report_owners.c: memory by the module that asked for it --------------------------
 */

struct gs_owner {
    unsigned row;     /* as in the totals: a device, or from GS_ROW_PINNED on */
    const char *name; /* NULL: unknown */
    uint64_t bytes, count;
};

struct gs_owners {
    struct gs_owner *items; /* by row, then the largest first */
    size_t count, capacity;
};

/* Live allocations only: what was lost with its context is nobody's now. */
void gs_owners_gather(struct gs_owners *owners, const struct gs_stacks *stacks,
                      const struct gs_report_source *source,
                      const struct gs_report_data *data);
void gs_owners_free(struct gs_owners *owners);

/* --- report_peaks.c: who held the memory when there was most of it ---------------------
 */

/* `apis` maps calls to the first one of the same name. */
void gs_report_gather_peaks(struct gs_tracker *tracker,
                            const struct gs_report_config *config, const uint16_t *apis,
                            size_t api_count, struct gs_report_data *data);

/* Adds the ids of the stacks that are to be named to `ids`; returns how many. NULL: how
 * many there are. */
size_t gs_report_peak_stacks(const struct gs_report_config *config,
                             const struct gs_report_data *data, uint32_t *ids);

/* Places that read the same become one, once they are named. */
void gs_report_join_peaks(const struct gs_report_config *config,
                          const struct gs_frame_table *frames,
                          struct gs_report_data *data);

/* --- report_write.c, report_sections.c ------------------------------------------------
 */

struct gs_report_writer {
    struct gs_tracker *tracker;
    const struct gs_report_config *config;
    const struct gs_report_source *source;
    const struct gs_report_data *data;
    const struct gs_frame_table *frames;
    struct gs_text *text;
    char prefix[32]; /* "==PID== " */
};

void gs_report_devices(const struct gs_report_writer *writer);
/* Of which part of the run the report is, and which share of it has a call stack. */
void gs_report_windows(const struct gs_report_writer *writer);
void gs_report_windows_text(const struct gs_tracker *tracker, struct gs_text *text);
void gs_report_sampled(const struct gs_report_writer *writer);
/* Leaks that are no places. */
void gs_report_unplaced(const struct gs_report_writer *writer);
/* "no call stack was recorded", or why it was not: as a line, and in files as a frame. */
struct gs_no_stack {
    const char *line, *frame;
};
struct gs_no_stack gs_report_no_stack(uint32_t stack);
/* What the report is about, where the program goes on. */
void gs_report_about(const struct gs_report_writer *writer);
void gs_report_errors(const struct gs_report_writer *writer);
void gs_report_checks(const struct gs_report_writer *writer);
/* The line on the idle proof, where it was verified (report_proof.c). */
void gs_report_proof(const struct gs_report_writer *writer);
/* A free that found the device idle, and it was not. */
void gs_report_not_idle(const struct gs_report_writer *writer, size_t number,
                        const struct gs_error *error);
/* How long something took; most of it is short: finer than gs_text_duration. */
const char *gs_report_wait(uint64_t ns, char out[24]);
/* One of them, a use; report_uses.c. */
void gs_report_use(const struct gs_report_writer *writer, size_t number,
                   const struct gs_error *error);
/* "freed at 3m40s by thread 41301 "loader" (no call stack recorded)", each part where
 * known, and the stack. */
void gs_report_site(const struct gs_report_writer *writer, const char *what,
                    const struct gs_free_site *site, const char *thread_name);
/* "and 49 more times from there", where there were. */
void gs_report_repeats(const struct gs_report_writer *writer,
                       const struct gs_error *error);
/* How an error's allocation came to its end and where it was made, as far as known. */
void gs_report_end_of(const struct gs_report_writer *writer,
                      const struct gs_error *error);
void gs_report_leaks(const struct gs_report_writer *writer);
void gs_report_peaks(const struct gs_report_writer *writer);
/* The last look at what grows, where the configuration asks for it; growth.c. */
void gs_report_growth(const struct gs_report_writer *writer);
void gs_report_owners(const struct gs_report_writer *writer);
void gs_report_blank(const struct gs_report_writer *writer);

/* Of what is live in a program that was killed. */
extern const char gs_report_killed_fate[];

/* The frames, one a line; report_stack.c. */
void gs_report_stack(const struct gs_report_writer *writer,
                     const struct gs_shown_stack *stack);
/* "cudaMalloc", or the driver's call where the stack shows no other. */
const char *gs_report_call(const struct gs_report_writer *writer,
                           const struct gs_shown_stack *stack, uint16_t api);

/* Call, kind of memory, age, fate and stack of a place. */
void gs_report_place(const struct gs_report_writer *writer, const struct gs_group *group,
                     const char *fate);
/* "Suppressed: ...", and the rules that were used where that is asked for. */
void gs_report_suppressed(const struct gs_report_writer *writer);
/* Behind a device's live memory: how much of it is suppressed. */
void gs_report_live_suppressed(const struct gs_report_writer *writer, unsigned row);
/* That a rule matches, and its cap is exceeded; rule 0: nothing. */
void gs_report_beyond(const struct gs_report_writer *writer, uint32_t rule);
/* A rule for each leak that was written out. */
void gs_report_advice(const struct gs_report_writer *writer);

/* `in` without control characters, cut with "..." where it does not fit; "" for NULL. */
const char *gs_report_clean(const char *in, char *out, size_t size);
/* "98.0", "100", "0.0": parts of a hundred; 100 only where it is all. */
const char *gs_report_percent(uint64_t part, uint64_t whole, char out[16]);
/* Where the memory is: "GPU 0", "managed memory, GPU 0", "pinned host memory". */
const char *gs_report_place_name(unsigned kind, int device, char out[64]);
/* "s" unless there is exactly one. */
const char *gs_report_plural(uint64_t count);

/* --- report_pool.c: what the pool did for a device -------------------------------------
 */

/* Has the pool done anything for it? NULL: no. */
bool gs_report_pool_used(const struct gs_report_device *device);
void gs_report_pool(const struct gs_report_writer *writer,
                    const struct gs_report_device *device);

/* --- report_classes.c: the pool by sizes -----------------------------------------------
 */

/* Nothing where it is not asked for or not known. */
void gs_report_classes(const struct gs_report_writer *writer,
                       const struct gs_report_device *device);
/* Whether nothing ever had this size. */
bool gs_report_class_empty(const struct gs_report_class *class);

#endif
