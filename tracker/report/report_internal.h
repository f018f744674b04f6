/*
 * report_internal.h - the parts of the report: gather, frames, owners, write.
 * Owns: nothing.   Lock: none, one thread writes a report.
 */
#ifndef GS_REPORT_INTERNAL_H
#define GS_REPORT_INTERNAL_H

#include "tracker/growth.h"
#include "tracker/names/runtime_modules.h"
#include "tracker/names/shown_path.h"
#include "tracker/peaks.h"
#include "tracker/report/report.h"
#include "tracker/tracker_internal.h"

/* The source of names and of the time: the symbolizer, or a test. */
struct gs_report_source {
    uint64_t now_ns; /* since the tracker's start; of the real source set once all is
                      * gathered, so that nothing in the report is later */
    bool is_live;    /* the real source */
    void *self;
    enum gs_status (*module)(void *self, uint32_t stack, uintptr_t frame,
                             struct gs_module *out) GS_MUST_USE;
    /* Returns the symbol table's name of the function that contains a frame, valid until
     * the next call. NULL: no name, or no line. A NULL pointer means that there are no
     * lines, so stacks of different addresses never read the same. */
    const char *(*linkage)(void *self, uintptr_t frame, const struct gs_module *module);
    /* NULL: no names. */
    void (*resolve)(void *self, struct gs_symbol_request *requests, size_t count);
    /* Adds file and line where they are wanted. NULL: resolve has added what there is. */
    void (*find_lines)(void *self, struct gs_symbol_request *requests, size_t count);
    /* A sentence on missing names, or NULL. */
    const char *(*note)(void *self);
};

/* The data of the real source. */
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
/* Adds "0 errors, 24.0 MiB leaked in 1 allocation, 1 call site": the SUMMARY's text. */
void gs_report_add_summary(const struct gs_report_config *config,
                           const struct gs_report_summary *summary, struct gs_text *text);

/* ---- report_gather.c: the contents ------------------------------------------------ */

/* The memory that a rule matched; an estimate where stacks are sampled. */
struct gs_rule_use {
    uint64_t count, bytes;
    uint64_t calls;    /* that a deny: rule denies, allowed ones included */
    uint64_t unjudged; /* that it would, but their callers are not known */
    uint64_t
        matched; /* calls of a deny: rule, whoever made them; call sites of a peak: */
};

/* The most budgets that are exceeded, and call sites with denied calls. */
#define GS_BROKEN_KEPT 256u

/* A scope, and its memory. */
struct gs_report_scope {
    uint32_t number;
    char *path;
    struct gs_scope_totals totals; /* of all memory but views */
};

struct gs_report_scopes {
    struct gs_report_scope *items; /* the highest peak first */
    size_t count, capacity;
};

struct gs_report_data {
    /* Live and lost: the leaks, the largest first, then the suppressed groups. */
    struct gs_groups groups;
    size_t leak_groups;          /* the number of leaks */
    size_t shown;                /* leaks to print, from the front */
    struct gs_groups registered; /* host memory that is still registered: no leak */
    size_t registered_shown;
    struct gs_groups unplaced; /* leaks without a stack by sampling: no call sites */
    uint64_t unplaced_bytes, unplaced_count; /* included in the sums below */
    uint64_t leaked_bytes, leaked_count;     /* without suppressed memory, as below */
    uint64_t suppressed_bytes, suppressed_count, suppressed_errors;
    uint64_t shared_bytes, shared_count; /* of unsampled memory */
    struct gs_rule_use *uses;            /* by rule; NULL: no rule was tried */
    struct gs_part_list parts;           /* of cached memory */
    uint64_t cached_bytes, cached_count; /* kept by caching allocators: no leaks */
    struct gs_scan scan;
    struct gs_tracker_totals totals[GS_ROWS]; /* as of the groups and the peaks */
    uint64_t grouped_bytes, grouped_count; /* less than the above if memory was short */
    struct gs_peak peaks[GS_PEAK_ROWS]; /* the known peaks: for files, or for printing */
    bool peaks_printed;                 /* some of them are printed */
    struct gs_report_scopes scopes;     /* all that were begun */
    struct gs_transfer_list slow;       /* call sites with slow copies */
    size_t slow_shown;                  /* of these, to print, from the front */
    struct gs_churn_list churn;         /* lifetimes by call site */
    size_t churn_shown;                 /* of these, that have a hint, likewise */
    size_t lifetimes_shown;             /* and that are printed in a table, likewise */
    struct gs_pinned_list pinned;       /* call sites of unused pinned memory */
    size_t pinned_shown;                /* likewise */
    size_t grown_parts, grown_count;    /* call sites that have a hint: of parts, and */
    struct gs_grown_site grown_part[GS_GROWN_SITES + 1]; /* of allocations */
    struct gs_grown_site grown[GS_GROWN_SITES];
    uint64_t error_count;    /* each as often as it occurred */
    uint64_t errors_more;    /* call sites beyond those kept */
    struct gs_samples calls; /* all allocations, if there are deny: rules */
    size_t errors_kept;      /* call sites; broken rules are the last ones */
    struct gs_error errors[GS_ERRORS_KEPT + GS_BROKEN_KEPT];
};

void gs_report_gather(struct gs_tracker *tracker, const struct gs_report_config *config,
                      struct gs_report_data *data);
/* Decides how many groups are printed, after the suppressed ones moved after the
 * leaks. */
void gs_report_choose(const struct gs_report_config *config, struct gs_report_data *data);
/* The largest first. */
void gs_report_sort(struct gs_group *groups, size_t count);
void gs_report_data_free(struct gs_report_data *data);

/* Returns true if a hint, or the table of lifetimes, names a call site. */
static inline bool gs_report_has_hint_sites(const struct gs_report_data *data)
{
    return data->churn_shown != 0 || data->lifetimes_shown != 0 ||
           data->pinned_shown != 0 || data->grown_parts != 0 || data->grown_count != 0;
}

/* Leaks without a group, for lack of memory. */
static inline uint64_t gs_report_not_grouped(const struct gs_report_data *data)
{
    return data->leaked_count - data->grouped_count - data->unplaced_count;
}

/* ---- report_frames.c: named stacks, without the runtime's own frames -------------- */

/* Ids of stacks to name, in any order; 0 and repeated ids are allowed. Zero at first. */
struct gs_stack_ids {
    uint32_t *items;
    size_t count, capacity;
    bool failed; /* out of memory: some are missing */
};
void gs_stack_ids_add(struct gs_stack_ids *ids, uint32_t stack);
void gs_stack_ids_add_groups(struct gs_stack_ids *ids, const struct gs_groups *groups,
                             size_t begin, size_t end);
void gs_stack_ids_add_errors(struct gs_stack_ids *ids, const struct gs_report_data *data);
/* Adds those of the first `count` call sites with slow copies. */
void gs_stack_ids_add_slow(struct gs_stack_ids *ids, const struct gs_report_data *data,
                           size_t count);
/* Adds those of the first `count` call sites in the list of lifetimes. */
void gs_stack_ids_add_lifetimes(struct gs_stack_ids *ids,
                                const struct gs_report_data *data, size_t count);
/* Adds those of the call sites that have a hint. */
void gs_stack_ids_add_hints(struct gs_stack_ids *ids, const struct gs_report_data *data);
/* Sorts; drops 0 and repetitions. Returns how many are left. */
size_t gs_stack_ids_unique(uint32_t *ids, size_t count);

struct gs_frame_table {
    uint32_t *stacks; /* ids, ascending, each once */
    size_t *first;    /* stacks[i] has the requests first[i] to first[i + 1] - 1 */
    size_t stack_count;
    struct gs_symbol_request *requests;
    struct gs_module *modules;         /* requests[i].module is NULL or one of them */
    const struct gs_frame_table *rest; /* holds other stacks; may be NULL */
    const struct gs_stacks *source;    /* resolves the ids */
};

/* A stack in its printed form: frames[0] is the program's own, which names the call site
 * and owns its memory. */
struct gs_shown_stack {
    const struct gs_symbol_request *frames;
    unsigned count;
    unsigned inner;   /* frames of frameworks before frames[0]: frames[-inner] is one */
    const char *call; /* runtime function that the program called; NULL: unknown */
    bool cut;         /* the recorded stack is incomplete */
    uint32_t id;
};

/* Resolves the given stacks (any order, 0 and repeated ids allowed; sorts `ids`): file,
 * line and inlined functions only of the frames that are shown, unless a file of the
 * report has them all.
 * Without memory the table is empty. */
void gs_frame_table_fill(struct gs_frame_table *table,
                         const struct gs_report_config *config,
                         const struct gs_stacks *stacks,
                         const struct gs_report_source *source, uint32_t *ids,
                         size_t id_count);
/* The same for collected ids, which are freed. */
void gs_frame_table_take(struct gs_frame_table *table,
                         const struct gs_report_config *config,
                         const struct gs_stacks *stacks,
                         const struct gs_report_source *source, struct gs_stack_ids *ids);
void gs_frame_table_free(struct gs_frame_table *table);

/* The printed form of a stack; count 0 if it is unknown. */
struct gs_shown_stack gs_frame_table_show(const struct gs_frame_table *table,
                                          const struct gs_report_config *config,
                                          uint32_t stack);

/* Names frames; Python frames, with file and line, by the stack table. */
void gs_report_resolve(const struct gs_report_source *source,
                       const struct gs_stacks *stacks, struct gs_symbol_request *requests,
                       size_t count);
/* The frames of a stack, innermost first. Returns how many; 0: unknown stack. */
unsigned gs_report_stack_frames(const struct gs_stacks *stacks, uint32_t id,
                                uintptr_t frames[GS_STACK_MAX_DEPTH]);

/* Before the lines are read, the program's functions may be inlined in frames of the C++
 * library; afterwards such frames at the outer end are not shown. */
enum gs_inlined { GS_INLINED_UNKNOWN, GS_INLINED_ADDED };

/* The same for the frames of a stack as captured, all resolved; `goes_on`: as returned by
 * gs_stacks_truncated. */
struct gs_shown_stack gs_report_show_frames(const struct gs_symbol_request *frames,
                                            unsigned count, bool goes_on,
                                            enum gs_inlined inlined,
                                            const struct gs_report_config *config);

/*
 * Moves a scope from the outer end, where it is recorded, after the program's own frames.
 * Call once, with the inlined functions in place; gs_report_show_frames then shows it.
 * Returns the frame's new place; `count`: there is no scope.
 */
unsigned gs_report_place_scope(struct gs_symbol_request *frames, unsigned count,
                               bool goes_on, const struct gs_report_config *config);

/* Returns true if a rule's pattern matches names of a scope's path:
 * gs_scopes_path_matches. */
bool gs_report_scope_matches(const char *path, size_t length, const char *pattern);
/* Returns true if a rule's pattern matches the function, file or module of a frame; of
 * scopes: names of its path. */
bool gs_report_frame_matches(const struct gs_symbol_request *frame, const char *pattern);
/* Returns true if the patterns of callers (gs_rule.from) match callers of a frame, in
 * their order. */
bool gs_report_callers_match(const struct gs_shown_stack *shown, unsigned callee,
                             const char *from);

/* Writes a resolved frame after the functions inlined in it, the innermost first. Returns
 * how many frames it wrote: result.inlined_count + 1. */
unsigned gs_report_put_inlined(const struct gs_symbol_request *frame,
                               struct gs_symbol_request *out);

/* Returns true for code that carries the program's calls: frameworks, bindings, a
 * language's library. */
bool gs_report_frame_is_carrier(const struct gs_symbol_request *frame);
/* "PyTorch", for such code; NULL: the frame is no carrier. */
const char *gs_report_frame_family(const struct gs_symbol_request *frame);
/* Looks up whose code a frame is, for later questions; again once its line is known. */
void gs_report_keep_class(struct gs_symbol_request *frame);
/* "23 frames of PyTorch, CuPy": so many frames of families. Returns `out`. */
const char *gs_report_families(const struct gs_symbol_request *frames, unsigned count,
                               char out[160]);

/* Path of the module of a resolved frame; NULL or "" where unknown. */
const char *gs_report_frame_module_path(const struct gs_symbol_request *request);
/* The path that a frame's place is shown with: of its file, else of its module. */
const char *gs_report_frame_path(const struct gs_symbol_request *request);
/* The base name of the module; "" where unknown. */
const char *gs_report_frame_module(const struct gs_symbol_request *request);

/* Returns true for a runtime function of the configuration. `symbol` may be NULL. */
bool gs_report_is_runtime_call(const char *symbol, const struct gs_report_config *config);
/* Compares frames as printed; 0: they read the same. */
int gs_report_compare_frames(const struct gs_symbol_request *a,
                             const struct gs_symbol_request *b);
int gs_report_compare_stacks(const struct gs_shown_stack *a,
                             const struct gs_shown_stack *b);

/* ---- report_merge.c: joins call sites that read the same -------------------------- */

/*
 * Joins leaks whose stacks read the same, and sorts them again.
 * In:  known   the stacks with names; `frames` is its rest, or unused
 * Out: frames  empty before: the stacks that the comparison had to name
 * Returns true if there are fewer leaks now.
 */
bool gs_report_merge(const struct gs_tracker *tracker,
                     const struct gs_report_config *config,
                     const struct gs_report_source *source,
                     const struct gs_frame_table *known, struct gs_frame_table *frames,
                     struct gs_report_data *data);

/* ---- suppress_report.c, suppress_sampled.c, suppress_advice.c: rules -------------- */

/* Applies the rules' share to memory without sampled stacks: the same share as of the
 * sampled memory that represents more than itself. The share leaves `unplaced` and the
 * sums. The groups are marked and sorted. */
void gs_report_suppress_share(struct gs_report_data *data);

/* Marks suppressed groups and errors and moves them after the rest. frames: of all groups
 * and errors; NULL: compare only the names of modules. */
void gs_report_suppress(const struct gs_tracker *tracker,
                        const struct gs_report_config *config,
                        const struct gs_report_source *source,
                        const struct gs_frame_table *frames, struct gs_report_data *data);

struct gs_report_writer;

/* "leak:run max_count=3 (rules.txt:7)". Returns `out`. */
const char *gs_report_rule_text(const struct gs_rule *rule, char *out, size_t size);

/* ---- budgets.c: peak: and deny: rules ---------------------------------------------- */

/* Returns true if there are peak: rules, which need the owners at the peak. */
bool gs_report_has_budgets(const struct gs_report_config *config);
/* Gathers the calls that deny: rules are compared with. `apis`: as in
 * gs_report_gather_peaks. */
void gs_report_gather_calls(struct gs_tracker *tracker,
                            const struct gs_report_config *config, const uint16_t *apis,
                            size_t api_count, struct gs_report_data *data);
/* Adds the stacks that the rules are compared with. */
void gs_report_budget_stacks(const struct gs_report_config *config,
                             const struct gs_report_data *data, struct gs_stack_ids *ids);
/* Adds an error for each budget that is exceeded, and for each call site with denied
 * calls. The stacks are named. */
void gs_report_judge_budgets(const struct gs_tracker *tracker,
                             const struct gs_report_config *config,
                             const struct gs_frame_table *frames,
                             struct gs_report_data *data);
/* Adds what was broken, with the numbers and the rule. */
void gs_report_broken_title(const struct gs_report_config *config,
                            const struct gs_report_data *data,
                            const struct gs_error *error, const char *call,
                            struct gs_text *text);
/* Prints a broken rule, with the stack of the call site. */
void gs_report_broken(const struct gs_report_writer *writer, size_t number,
                      const struct gs_error *error);

/* ---- rule_notes.c: what peak: and deny: rules leave open --------------------------- */

struct gs_rule_note {
    const struct gs_rule *rule;
    const char *name; /* "not judged", "never matched" */
    bool expected;    /* a program that keeps the rule may have nothing to match */
    char why[64];
};

/* Returns true for peak: and deny: rules. */
bool gs_report_is_budget(const struct gs_rule *rule);
/* Returns false if a rule leaves nothing open. */
bool gs_report_rule_note(const struct gs_tracker *tracker,
                         const struct gs_report_config *config,
                         const struct gs_report_data *data, uint32_t number,
                         struct gs_rule_note *out);
/* Finds the next rule, from *at on, that leaves something open; `all`: also those that
 * were expected to match nothing. False: there is none. */
bool gs_report_next_rule_note(const struct gs_tracker *tracker,
                              const struct gs_report_config *config,
                              const struct gs_report_data *data, bool all, uint32_t *at,
                              struct gs_rule_note *out);
/* Prints a line of each; expected ones with show_devices. */
void gs_report_rule_notes(const struct gs_report_writer *writer);

/* ---- cached.c: memory that a framework's caching allocator keeps ------------------- */

/* Marks the groups that a caching allocator keeps, and that have no part in use, as far
 * as that is known. They are no leaks. `seen`: only those whose parts are known, before
 * the rules of files are tried. */
void gs_report_find_cached(const struct gs_tracker *tracker,
                           const struct gs_report_config *config,
                           const struct gs_report_source *source, bool seen,
                           struct gs_report_data *data);
/* Divides what an allocator that reports its parts held at the peaks: the parts by their
 * own stacks, and the rest, a place that is cached. */
void gs_report_split_peaks(const struct gs_tracker *tracker,
                           const struct gs_report_source *source,
                           struct gs_report_data *data);
/* Puts growing call sites whose memory a caching allocator keeps after the others, and
 * marks them: such a cache may have filled up soon. */
void gs_report_sort_growing(const struct gs_tracker *tracker,
                            const struct gs_report_config *config,
                            const struct gs_report_source *source,
                            struct gs_growing *growing, size_t count);
/* What the call of a part is in the report: PyTorch alone reports parts. */
#define GS_REPORT_PART "tensor of PyTorch"
/* "PyTorch": the framework whose allocator keeps a group; NULL: none. */
const char *gs_report_cached_by(const struct gs_group *group);
/* Returns true for tensors that Python's objects held until it ended: no leak, since the
 * program could not have freed them later. */
bool gs_report_is_kept(const struct gs_group *group);
/* What the report cannot know of a group that an allocator keeps: "tensors in it are not
 * seen"; NULL: all is known. */
const char *gs_report_cached_unseen(const struct gs_report_data *data,
                                    const struct gs_group *group);
/* The number of rows of GS_CACHE. */
unsigned gs_report_cache_rows(void);
/* Prints a line for each framework that keeps memory, and one for what Python's objects
 * held until it ended; report_cached.c. */
void gs_report_cached(const struct gs_report_writer *writer);

/* ---- report_owners.c: memory by the allocating module ----------------------------- */

struct gs_owner {
    unsigned row;     /* as in the totals: a device, or from GS_ROW_PINNED on */
    unsigned kind;    /* of its memory, if that is told apart; else 0 */
    const char *path; /* of a module, or of a file of Python; NULL: unknown */
    uint64_t bytes, count;
};

struct gs_owners {
    struct gs_owner *items; /* by row, then the largest first */
    size_t count, capacity;
};

/* The path of the owner of a call site's memory; NULL: unknown. It lives as long as the
 * stack table. */
const char *gs_report_owner(const struct gs_stacks *stacks,
                            const struct gs_report_source *source, uint32_t stack);
/* Gathers live allocations only; memory lost with its context has no owner. */
void gs_owners_gather(struct gs_owners *owners, const struct gs_stacks *stacks,
                      const struct gs_report_source *source,
                      const struct gs_report_data *data, bool by_kind);
void gs_owners_free(struct gs_owners *owners);

/* ---- report_scopes.c: memory by scope ---------------------------------------------- */

/* Without memory some are missing. */
void gs_report_scopes_gather(struct gs_tracker *tracker, struct gs_report_scopes *scopes);
/* Allocations that all scopes lack; one within another is counted there, too. */
uint64_t gs_report_scopes_missed(const struct gs_report_scopes *scopes);
void gs_report_scopes_free(struct gs_report_scopes *scopes);

/* ---- report_peaks.c: the owners of the memory at the peak ------------------------- */

/* Decides which peaks the text has, after the rules. */
void gs_report_choose_peaks(const struct gs_report_config *config,
                            struct gs_report_data *data);
/* `apis` maps calls to the first one of the same name. */
void gs_report_gather_peaks(struct gs_tracker *tracker,
                            const struct gs_report_config *config, const uint16_t *apis,
                            size_t api_count, struct gs_report_data *data);

/* Adds the stacks to name. */
void gs_report_peak_stacks(const struct gs_report_config *config,
                           const struct gs_report_data *data, struct gs_stack_ids *ids);

/* Joins call sites that read the same, after their stacks are named. */
void gs_report_join_peaks(const struct gs_report_config *config,
                          const struct gs_frame_table *frames,
                          struct gs_report_data *data);

/* ---- report_write.c, report_sections.c -------------------------------------------- */

struct gs_report_writer {
    struct gs_tracker *tracker;
    const struct gs_report_config *config;
    const struct gs_report_source *source;
    const struct gs_report_data *data;
    const struct gs_frame_table *frames;
    const struct gs_owners *owners; /* of live memory; NULL: they are not listed */
    struct gs_shown_paths *paths;   /* of the files in the text; NULL: base names */
    struct gs_text *text;
    char prefix[32]; /* "==PID== " */
};

/* A row of the totals that is no device: its title, its name in the table of owners, and
 * its member in JSON. The texts are in the row itself, so that a start relocates none. */
struct gs_report_row {
    char title[24], owners[16], member[16];
};
extern const struct gs_report_row gs_report_rows[GS_ROWS - GS_ROW_PINNED];
/* Returns true if the row ever had memory. */
bool gs_report_row_used(const struct gs_tracker_totals *totals);
/* Prints a line for each device and kind of host memory: leaks and peak. */
void gs_report_devices(const struct gs_report_writer *writer);
/* Prints a line on the pool of each device that used it. */
void gs_report_pools(const struct gs_report_writer *writer);
/* Prints the part of the run that the report covers, and the share with call stacks. */
void gs_report_windows(const struct gs_report_writer *writer);
void gs_report_windows_text(const struct gs_tracker *tracker, struct gs_text *text);
void gs_report_sampled(const struct gs_report_writer *writer);
/* Prints the leaks without call sites. */
void gs_report_unplaced(const struct gs_report_writer *writer);
/* "no call stack was recorded", or the reason: as a line, and for files as a frame. */
struct gs_no_stack {
    const char *line, *frame;
};
struct gs_no_stack gs_report_no_stack(uint32_t stack);
/* Prints the call that caused the report, if the program continues. */
void gs_report_about(const struct gs_report_writer *writer);
/* "double free" */
const char *gs_report_error_name(enum gs_error_kind kind);
void gs_report_errors(const struct gs_report_writer *writer);
void gs_report_checks(const struct gs_report_writer *writer);
/* Prints the line on the idle proof, if it was verified (report_proof.c). */
void gs_report_proof(const struct gs_report_writer *writer);
/* Prints a free that took the device for idle while work was running. */
void gs_report_not_idle(const struct gs_report_writer *writer, size_t number,
                        const struct gs_error *error);
/* Prints one wrong use; report_uses.c. */
void gs_report_use(const struct gs_report_writer *writer, size_t number,
                   const struct gs_error *error);
/* Prints "freed at 3m40s by thread 41301 "loader" (no call stack recorded)", each part if
 * known, and the stack. */
void gs_report_site(const struct gs_report_writer *writer, const char *what,
                    const struct gs_free_site *site, const char *thread_name);
/* Prints "and 49 more times from there", if there were any. */
void gs_report_repeats(const struct gs_report_writer *writer,
                       const struct gs_error *error);
/* Prints how an error's allocation ended and where it was made, as far as known. */
void gs_report_end_of(const struct gs_report_writer *writer,
                      const struct gs_error *error);
/* The smallest first. */
void gs_report_leaks(const struct gs_report_writer *writer);
/* Prints each peak with its call sites and their stacks, if the program still runs, there
 * is no leak and no error, or they were asked for; else gs_report_peak_lines prints a
 * line of each. */
void gs_report_peaks(const struct gs_report_writer *writer);
void gs_report_peak_lines(const struct gs_report_writer *writer);
/* Prints all copies by the way they are made, and the call sites with slow ones, if
 * copies were recorded; report_transfers.c. */
void gs_report_transfers(const struct gs_report_writer *writer);
/* What a row of their table is called by; static. */
const char *gs_report_transfer_memory(enum gs_transfer_memory memory);
/* Prints the lifetimes by call site, if they were recorded and are wanted. */
void gs_report_lifetimes(const struct gs_report_writer *writer);
/* Prints the last snapshot of growing call sites, if requested; growth.c. */
void gs_report_growth(const struct gs_report_writer *writer);
/* Adds the paths of its stacks. */
void gs_report_growth_paths(const struct gs_report_writer *writer);
/* Prints the largest owners of each device; all with show_pool. */
void gs_report_owners(const struct gs_report_writer *writer);
/* Prints the scopes with the highest peaks, if there are scopes; all with show_pool. */
void gs_report_scopes(const struct gs_report_writer *writer);
void gs_report_blank(const struct gs_report_writer *writer);

/* Whether memory is listed as live, since the program runs, or was killed as far as is
 * known; else it has leaked. */
static inline bool gs_report_is_live(const struct gs_report_config *config)
{
    return config->running || (config->killed && !config->exited);
}

/* The fate of live memory in a killed program: "live when killed by SIGABRT (rank 3)".
 * Returns `out`. */
const char *gs_report_killed_fate(const struct gs_report_config *config, char out[64]);
/* The fate of a leak, or of live memory: "live at exit", "lost with its context", or what
 * a scan found. Returns `out` or a constant. */
const char *gs_report_fate(const struct gs_report_config *config,
                           const struct gs_group *group, char out[160]);

/* Prints the frames, one per line; report_stack.c. */
void gs_report_stack(const struct gs_report_writer *writer,
                     const struct gs_shown_stack *stack);
/* Adds the paths that the lines have. `config` may be NULL. */
void gs_report_stack_paths(const struct gs_report_config *config,
                           const struct gs_shown_stack *stack,
                           struct gs_shown_paths *paths);
/* Finds the paths of the text: of the stacks and owners that are printed. The leaks to
 * print are chosen, and their frames named; report_paths.c. */
void gs_report_find_paths(const struct gs_report_writer *writer);
/* Prints the program's own frame: "at load_weights leaky.c:39", "at step model.py:7",
 * "at ?? plugin.so+0x1139"; without a stack the reason, "(no call stack was recorded)".
 */
void gs_report_where(const struct gs_report_writer *writer,
                     const struct gs_shown_stack *stack);
/* The same of its frame. paths NULL: base names. */
void gs_report_put_where(const struct gs_symbol_request *frame,
                         struct gs_shown_paths *paths, struct gs_text *out);
/* Prints the program's function that called this frame: " < step train.py:12". */
void gs_report_caller(const struct gs_report_writer *writer,
                      const struct gs_shown_stack *stack);
/* "cudaMalloc", or the driver function if no runtime function is known. */
const char *gs_report_call_name(const struct gs_tracker *tracker, const char *call,
                                uint16_t api);
const char *gs_report_call(const struct gs_report_writer *writer,
                           const struct gs_shown_stack *stack, uint16_t api);

/* Prints call, kind of memory, age and fate of a call site. call NULL: the driver's. */
void gs_report_call_line(const struct gs_report_writer *writer,
                         const struct gs_group *group, const char *call,
                         const char *fate);
/* Prints "Suppressed: ...", and the used rules if requested. */
void gs_report_suppressed(const struct gs_report_writer *writer);
/* Prints, after a device's peak, the live memory that rules suppress. */
void gs_report_live_suppressed(const struct gs_report_writer *writer, unsigned row);
/* Prints that a rule matches but its cap is exceeded; rule 0: nothing. */
void gs_report_beyond(const struct gs_report_writer *writer, uint32_t rule);
/* Prints a rule for each printed leak, if rules are wanted; else how to have them. */
void gs_report_advice(const struct gs_report_writer *writer);
/* Writes the rules of all leaks, as a file of rules. */
void gs_report_rules(const struct gs_report_writer *writer, struct gs_text *out);
/* A size as the user writes it, exact: "24M", "768K", "1000". */
const char *gs_report_size(uint64_t bytes, char out[32]);

/* `in` without control characters, cut with "..." if too long; "" for NULL. */
const char *gs_report_clean(const char *in, char *out, size_t size);
/* "98.0", "100", "0.0": percent; 100 only if part == whole. */
const char *gs_report_percent(uint64_t part, uint64_t whole, char out[16]);
/* The kind and device of memory: "GPU 0", "managed memory, GPU 0", "pinned host
 * memory". */
const char *gs_report_memory_name(unsigned kind, int device, char out[64]);
/* "s" unless there is exactly one. */
const char *gs_report_plural(uint64_t count);

/* ---- report_scan.c: the results of a scan of host memory -------------------------- */

/* "live at exit", "lost (no host pointer found)", "2 lost, 1 still referenced" ... */
const char *gs_scan_fate(const struct gs_group *group, char out[160]);
/* Adds a line to the report if a requested scan was not made, or, with `figures`, on the
 * amount of scanned memory. */
void gs_scan_note(const struct gs_scan *scan, const char *prefix, bool figures,
                  struct gs_text *text);

/* ---- report_pool.c: the pool's statistics of a device ----------------------------- */

/* Returns true if the pool did anything for the device. NULL: false. */
bool gs_report_pool_used(const struct gs_report_device *device);
/* Prints one line; with show_pool all statistics. */
void gs_report_pool(const struct gs_report_writer *writer,
                    const struct gs_report_device *device, unsigned ordinal);

/* ---- report_hints.c: what a run had too much of ----------------------------------- */

struct gs_report_hint {
    const char *name; /* "few hits" */
    int device;       /* -1: none */
    uint32_t stack;   /* of its call site; 0: none */
    char text[512];   /* a sentence, with what to do */
};

/* The runtime function that the program called, and the program's own frame; NULL: not
 * known. */
struct gs_hint_place {
    const char *call;
    const struct gs_symbol_request *frame;
};

/* The contents of the hints, and the names of call sites. */
struct gs_hint_source {
    const struct gs_tracker *tracker;
    const struct gs_report_config *config;
    const struct gs_report_data *data;
    size_t leaks; /* call sites of leaks, from the front, that the report shows */
    const void *self;
    struct gs_hint_place (*find)(const void *self, uint32_t stack);
    /* A frame that the report shows, the program's own is 0; NULL: there are no more. */
    const struct gs_symbol_request *(*frame)(const void *self, uint32_t stack,
                                             unsigned number);
};

/* Finds the next hint. *at is 0 at first. Returns false after the last one. */
bool gs_report_next_hint(const struct gs_hint_source *source, unsigned *at,
                         struct gs_report_hint *out);

/* ---- report_refusal.c, report_oom_advice.c: an allocation that was refused --------- */

/* Prints the device's memory, the pool's largest piece, and what to try. */
void gs_report_refusal(const struct gs_report_writer *writer);
/* Finds what to try after the report's refusal, if it has one. The leaks to print are
 * chosen. */
void gs_report_find_oom_advice(const struct gs_report_writer *writer);

/* ---- report_classes.c: the pool by size classes ----------------------------------- */

/* Prints nothing if not requested or not known. */
void gs_report_classes(const struct gs_report_writer *writer,
                       const struct gs_report_device *device);
/* Returns true if the class was never used. */
bool gs_report_class_empty(const struct gs_report_class *class);

#endif
