/*
 * start.c - the first CUDA call: reads the options, then creates tracker, pools and all
 * other parts.
 * Owns:  nothing permanent.   Lock: the start lock (state.c) is held throughout.
 */
#include "shim/life/start.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/checks/redzones.h"
#include "shim/heaps/context_backend.h"
#include "shim/heaps/ipc_mode.h"
#include "shim/heaps/moving_pages.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed.h"
#include "shim/life/child_env.h"
#include "shim/life/copies.h"
#include "shim/life/fork.h"
#include "shim/limits/cache_sizes.h"
#include "shim/limits/size_classes.h"
#include "shim/link/elf_module.h"
#include "shim/link/find_python.h"
#include "shim/link/known_functions.h"
#include "shim/link/linker.h"
#include "shim/link/lookup_log.h"
#include "shim/link/tools.h"
#include "shim/order/context_events.h"
#include "shim/order/free_lazy.h"
#include "shim/order/verify.h"
#include "shim/parts.h"
#include "shim/record.h"
#include "shim/report/leak_rules.h"
#include "shim/report/outputs.h"
#include "shim/settings/environment.h"
#include "shim/settings/log.h"
#include "shim/settings/options_idle.h"
#include "shim/settings/options_table.h"
#include "shim/state/state.h"
#include "shim/statefile/state_file.h"
#include "tracker/grown.h"
#include "tracker/names/helper_process.h"
#include "tracker/names/runtime_modules.h"

#if defined(__x86_64__)
#define GS_VDSO_CLOCK "__vdso_clock_gettime"
#else
#define GS_VDSO_CLOCK "__kernel_clock_gettime"
#endif

/* Recently freed addresses kept for the report of a double free. */
#define FREE_HISTORY 8192

static void write_help(void *self, const char *text, size_t length)
{
    (void)self;
    gs_log_text(text, length);
}

/* Prints the help and ends the process: one of the two requested exceptions to "never end
 * the host". */
static void help_and_exit(void)
{
    gs_options_help(GS_OPTIONS_AS_VARIABLES, write_help, NULL);
    syscall(SYS_exit_group, 0);
}

/* Returns whether the user asks for the pool. A list of memory kinds does not count: the
 * launcher writes one to exclude a kind. */
static bool asks_for_pool(char *const *env)
{
    uint64_t on;
    return gs_option_parse(&gs_options_table[GS_OPTION_ROW_pool],
                           gs_options_given_text(env, "GPUSHIM_POOL"), &on) == GS_OK &&
           on;
}

/* Disables the pool for a tool that has to see each allocation, unless the user asks for
 * the pool. */
static void disable_pool_for_tools(struct gs_options *options)
{
    char tool[64];
    char *const *env = getauxval(AT_SECURE) ? NULL : gs_environment();
    if (!options->pool || asks_for_pool(env) ||
        !gs_tools_memory_checker(env, tool, sizeof(tool))) {
        return;
    }
    options->pool = false;
    gs_log_line(
        GS_LOG_WARN,
        "%s checks the program's memory: the pool is off, so that the tool sees each "
        "allocation (GPUSHIM_POOL=on keeps the pool)",
        tool);
}

/* Disables the pool if a library in front of the shim frees memory but does not allocate
 * it. It cannot be known whether its frees reach the wrappers, so memory of the pool
 * might reach the driver's free. */
static void disable_pool_behind_frees(struct gs_options *options)
{
    static const char *const pairs[][2] = {{"cuMemFree_v2", "cuMemAlloc_v2"},
                                           {"cuMemFreeHost", "cuMemHostAlloc"},
                                           {"cuMemFreeAsync", "cuMemAllocAsync"}};
    for (size_t i = 0; options->pool && i < GS_ARRAY_LEN(pairs); i++) {
        struct gs_module_ref first;
        if (gs_linker_in_front(pairs[i][0], &first) &&
            !gs_elf_symbol(&first, pairs[i][1])) {
            const char *file = gs_elf_soname(&first);
            options->pool = false;
            gs_log_line(GS_LOG_WARN,
                        "%s is loaded before this library and has its own %s, but no %s: "
                        "the pool is off (preload it after this library)",
                        file ? file : "a library", pairs[i][0], pairs[i][1]);
        }
    }
}

static void log_idle_option(const char *name, const char *value, const char *why)
{
    gs_log_line(GS_LOG_WARN, "%s=%s: %s", name, value, why);
}

/* Reads the options, opens the logs, and logs the problems found in the variables. */
static void read_options(struct gs_state *state)
{
    /* Static: only the starting thread runs this, and the text is too large for its
     * stack. */
    static struct gs_options_messages notes; /* under start_lock */
    gs_environment_settle();
    gs_helper_variables = gs_environment_of_process;
    gs_options_load(&state->options, gs_environment(), getauxval(AT_SECURE) != 0, &notes);
    gs_log_open(state->options.log_file, state->options.verbose);
    gs_lookup_log_open(state->options.lookup_log);
    if (state->options.verbose >= GS_LOG_WARN && notes.length > 0) {
        gs_log_text(notes.text, notes.length);
    }
    /* Unless the parent of a forked child has said so, or of a program. */
    if (state->options.verbose >= GS_LOG_WARN && notes.renamed[0] &&
        !gs_fork_is_child() && !gs_options_given(gs_environment(), GS_RENAMED_VARIABLE)) {
        gs_log_text(notes.renamed, strlen(notes.renamed));
        gs_child_env_note_renamed();
    }
    if (!getauxval(AT_SECURE)) {
        gs_options_log_idle(&state->options, gs_environment(), log_idle_option);
    }
    disable_pool_for_tools(&state->options);
    disable_pool_behind_frees(&state->options);
    gs_redzones_adjust(&state->options);
    if (state->options.free_sync == GS_FREE_SYNC_WAIT) {
        gs_known_end_proof(NULL);
    }
    gs_lazy_start(&state->options);
    gs_verify_start(&state->options);
    if (state->options.help) {
        help_and_exit();
    }
}

/* The clock's own code in the vDSO, which works without the C library's caches; NULL if
 * it cannot be found. */
static int (*kernels_clock(void))(clockid_t, struct timespec *)
{
    const char *name = GS_VDSO_CLOCK;
    const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
    struct gs_module_ref module;
    void *found = NULL;
    int (*clock)(clockid_t, struct timespec *);
    struct timespec now;
    if (vdso && gs_elf_module_of(vdso, &module) == GS_OK) {
        found = gs_elf_symbol(&module, name);
    }
    memcpy(&clock, &found, sizeof(clock));
    return clock && clock(CLOCK_MONOTONIC_COARSE, &now) == 0 ? clock : NULL;
}

/* Returns true if a check is on, for which a run may take longer. */
static bool has_checks(const struct gs_options *options)
{
    return options->check_args || options->check_transfers ||
           options->check_redzone_bytes != 0 || options->check_quarantine_bytes != 0 ||
           options->check_fill != GS_CHECK_FILL_OFF;
}

static enum gs_free_stacks free_stacks_of(const struct gs_options *options)
{
    bool all = options->stack_free == GS_STACK_FREE_ON || has_checks(options);
    return options->stack_free == GS_STACK_FREE_OFF ? GS_FREE_STACKS_NONE
           : all                                    ? GS_FREE_STACKS_ALL
                                                    : GS_FREE_STACKS_SOME;
}

/* Creates the tracker and its stacks, in the memory of the state file if there is one. */
static enum gs_status create_tracker(struct gs_state *state)
{
    struct gs_stacks_config stacks = {
        .unwinder = (enum gs_unwinder)state->options.stack,
        .depth = state->options.stack_depth,
        .find_python = state->options.stack_python ? gs_python_find : NULL,
        .most_bytes = (size_t)state->options.stack_table_bytes,
        .memory = gs_state_file_open(&state->options)};
    gs_linker_own_range(&stacks.own_begin, &stacks.own_end);
    if (stacks.unwinder != GS_UNWIND_OFF &&
        gs_stacks_create(&stacks, &state->stacks) != GS_OK) {
        gs_log_line(gs_fork_is_child() ? GS_LOG_INFO : GS_LOG_WARN,
                    "call stacks cannot be recorded; going on without them");
        state->stacks = NULL;
    }
    struct gs_tracker_config tracker = {
        .api_names = gs_api_names(),
        .api_count = GS_API_COUNT,
        .stacks = state->stacks,
        .memory = stacks.memory,
        .free_history = FREE_HISTORY,
        .tally = gs_outputs_tallied() || gs_rules_deny(),
        .phases = gs_rules_deny() ? gs_suppressions_phases(gs_rules()) : NULL,
        .sampling = gs_record_sampling(&state->options),
        .free_stacks = free_stacks_of(&state->options),
        .stopped = !state->options.track_start,
        .clock = kernels_clock()};
    enum gs_status status = gs_tracker_create(&tracker, &state->tracker);
    if (status == GS_OK && state->stacks) {
        gs_grown_watch(state->tracker);
    }
    return status;
}

/* Which blocks share a segment matters to an exporter from the start; blocks in
 * quarantine would keep carved segments; and pages that move leave nothing to carve. */
static enum gs_carving carving_of(const struct gs_options *options)
{
    bool spare = options->pool_carve == GS_CARVE_MODE_AUTO;
    return gs_ipc_is_apart() || (spare && (options->check_quarantine_bytes ||
                                           options->pool_vmm == GS_VMM_ON))
               ? GS_CARVE_NEVER
               : (enum gs_carving)options->pool_carve;
}

static enum gs_status create_pools(struct gs_state *state)
{
    const struct gs_options *options = &state->options;
    struct gs_size_classes classes;
    struct gs_cache_sizes cache;
    gs_ipc_start(options);
    gs_size_classes_read(options->pool_size_classes, &classes);
    gs_cache_sizes_read(options->pool_cache, &cache);
    struct gs_pool_config pool = {.classes = classes.bytes,
                                  .class_count = classes.count,
                                  .carving = carving_of(options),
                                  .segment_bytes = options->pool_segment_bytes,
                                  .cache_bytes = cache.bytes,
                                  .stream_blocks = cache.stream_blocks,
                                  .global_blocks = cache.global_blocks,
                                  .age_ms = options->pool_trim_interval_ms,
                                  .late_pages = options->pool_vmm == GS_VMM_AUTO};
    enum gs_status status = gs_pool_create(&pool, &state->pool);
    if (status == GS_OK) {
        status = gs_host_start(state, cache.bytes);
        gs_managed_start(options);
    }
    return status;
}

/* Creates everything but the options. Returns false, after logging the reason, if the
 * library cannot work. */
static bool create_parts(struct gs_state *state)
{
    enum gs_status status = GS_OK;
    if (state->options.track) {
        gs_rules_start(&state->options);
        status = create_tracker(state);
    }
    if (status == GS_OK && state->options.pool) {
        status = create_pools(state);
    }
    if (status != GS_OK) {
        gs_log_line(GS_LOG_ERROR, "cannot start (%s): every call goes to the driver",
                    gs_status_text(status));
    }
    return status == GS_OK;
}

/* The report then leaves the other copy's frames out. */
static void look_for_copies(void)
{
    static struct gs_copies copies; /* too large for a small stack; at start alone */
    if (gs_copies_find(&copies)) {
        gs_log_line(GS_LOG_WARN,
                    "another copy of this library is loaded, too: %.600s; each call may "
                    "run through both: preload only one",
                    copies.other);
        gs_runtime_modules_set_copies(copies.own, copies.other);
    }
}

/* With GPUSHIM_VERBOSE=2: logs the facts that a bug report should contain. */
static void log_choices(const struct gs_state *state)
{
    static const char *const unwinders[] = {[GS_UNWIND_AUTO] = "auto",
                                            [GS_UNWIND_LIBUNWIND] = "libunwind",
                                            [GS_UNWIND_FP] = "frame pointers",
                                            [GS_UNWIND_GCC] = "libgcc",
                                            [GS_UNWIND_CFI] = "call frame information",
                                            [GS_UNWIND_OFF] = "off"};
    const char *stacks = "off";
    if (state->stacks) {
        size_t used = (size_t)gs_stacks_unwinder(state->stacks);
        stacks =
            used < GS_ARRAY_LEN(unwinders) ? unwinders[used] : "call frame information";
    }
    gs_log_line(GS_LOG_INFO,
                "version %s started in process %ld: pool %s, tracking %s, stacks %s",
                GPUSHIM_VERSION, (long)state->pid, state->pool ? "on" : "off",
                state->tracker ? "on" : "off", stacks);
}

struct gs_state *gs_start(void)
{
    static struct gs_state inactive; /* published if there is no memory */
    gs_elf_learn_loader();
    struct gs_state *state = calloc(1, sizeof(*state));
    if (!state || !gs_fork_hook()) {
        gs_log_line(GS_LOG_ERROR, "cannot start (%s): every call goes to the driver",
                    gs_status_text(GS_ERR_HOST_NOMEM));
        free(state);
        return &inactive;
    }
    state->pid = (pid_t)syscall(SYS_getpid);
    state->forked_child = gs_fork_is_child();
    read_options(state);
    gs_contexts_init(&state->contexts,
                     state->options.pool_vmm ? gs_moving_pages_backend()
                                             : &gs_context_backend,
                     &gs_context_event_ops);
    gs_outputs_open(&state->options);
    state->active = state->options.enable && create_parts(state);
    if (state->active) {
        look_for_copies();
        gs_parts_start(state);
    }
    log_choices(state);
    return state;
}
