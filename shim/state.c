/*
 * state.c - the first CUDA call, the re-entry guard, and what a fork leaves behind.
 * Owns:  the pointers to the process's state.
 * Lock:  start_lock while it is created; the pointers are published with release order.
 */
#include "state.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "args.h"
#include "async_heaps.h"
#include "async_policy.h"
#include "cache_sizes.h"
#include "capture_gate.h"
#include "all_contexts.h"
#include "captures.h"
#include "copies.h"
#include "elf_module.h"
#include "figures.h"
#include "find_python.h"
#include "gs_uncancelled.h"
#include "fences.h"
#include "free_lazy.h"
#include "free_lazy.h"
#include "free_permit.h"
#include "free_scope.h"
#include "free_wait.h"
#include "graph_memory.h"
#include "host_pools.h"
#include "interim.h"
#include "intervals.h"
#include "ipc_imports.h"
#include "ipc_mode.h"
#include "known.h"
#include "managed.h"
#include "mem_limits.h"
#include "memory_pools.h"
#include "mutants.h"
#include "leak_rules.h"
#include "nvml.h"
#include "options_idle.h"
#include "outputs.h"
#include "own_thread.h"
#include "record.h"
#include "report.h"
#include "linker.h"
#include "log.h"
#include "lookup.h"
#include "marks.h"
#include "retry.h"
#include "roomy.h"
#include "caller_runtime.h"
#include "submissions.h"
#include "tools.h"
#include "trace.h"
#include "trim_thread.h"
#include "verify.h"
#include "size_classes.h"
#include "state_file.h"
#include "warmup.h"
#include "zones.h"

#if defined(__x86_64__)
#define GS_VDSO_CLOCK "__vdso_clock_gettime"
#else
#define GS_VDSO_CLOCK "__kernel_clock_gettime"
#endif

/* Just-freed addresses remembered for the report on a double free. */
#define FREE_HISTORY 8192

_Thread_local struct gs_thread gs_thread;

static struct gs_state *current; /* atomic */
struct gs_state *gs_state_ready; /* atomic */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool fork_handler_set; /* under start_lock */
static bool forked_child;     /* written by the only thread of a forked child */

uint32_t gs_thread_ask_id(void)
{
    gs_thread.id = (uint32_t)syscall(SYS_gettid);
    return gs_thread.id;
}

int *gs_thread_ask_errno(void)
{
    gs_thread.errno_at = &errno;
    return gs_thread.errno_at;
}

/* What the forking thread holds over a fork; written and read by that thread only. */
static _Thread_local struct gs_stacks *held_over_fork;

/* The loader's lock must not be held by a look-up or capture in another thread: no one
 * would ever release it in the child. */
static void before_fork(void)
{
    struct gs_state *state = gs_state_peek();
    held_over_fork = state ? state->stacks : NULL;
    gs_trim_thread_hold(); /* it must not be in the middle of a call of the driver */
    gs_stacks_before_fork(held_over_fork);
}

static void after_fork(void)
{
    gs_trim_thread_release();
    gs_stacks_after_fork(held_over_fork);
}

/*
 * In a forked child CUDA cannot go on where the parent was, and other threads' locks are
 * held for ever: forget everything. Memory of the old state is the price.
 */
static void after_fork_in_child(void)
{
    /* Where the lock lies in a file it is the parent's, too, and the parent gives it. */
    bool own = gs_state_file_after_fork_in_child(gs_thread.depth > 0);
    gs_stacks_after_fork_in_child(own ? held_over_fork : NULL);
    if (gs_mutant(GS_MUTANT_child_keeps)) {
        return;
    }
    __atomic_store_n(&current, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&gs_state_ready, NULL, __ATOMIC_RELAXED);
    pthread_mutex_init(&start_lock, NULL);
    /* The thread may be inside a wrapper, in a signal handler: gs_leave is yet to come.
     */
    gs_thread = (struct gs_thread){.errno_at = gs_thread.errno_at};
    gs_pool_after_fork_in_child();
    gs_tracker_after_fork_in_child();
    gs_captures_reset();
    gs_graph_memory_reset();
    gs_gate_reset();
    gs_marks_reset();
    gs_fences_reset();
    gs_permit_reset();
    gs_async_heaps_reset();
    gs_async_policy_reset();
    gs_memory_pools_reset();
    gs_submissions_reset();
    gs_free_stats_reset();
    gs_verify_reset();
    gs_retry_reset();
    gs_interim_reset();
    gs_intervals_reset();
    gs_trim_thread_reset();
    gs_lazy_reset();
    gs_own_thread_reset();
    gs_limits_reset();
    gs_all_contexts_reset();
    gs_managed_reset();
    gs_host_reset();
    gs_nvml_reset();
    gs_figures_reset();
    gs_warmup_reset();
    gs_zones_reset();
    gs_ipc_reset();
    gs_imports_reset();
    gs_trace_reset();
    gs_args_reset();
    forked_child = true;
    gs_real_after_fork();
    gs_caller_runtime_after_fork();
}

/* Nothing is waited for, as the call may come from a signal handler: neither the stacks'
 * lock, which goes with the state, nor who is in the middle of a look-up for long. */
pid_t gs_state_bare_fork(pid_t (*real_fork)(void))
{
    int saved_errno = errno;
    gs_stacks_before_fork(NULL);
    errno = saved_errno;
    pid_t pid = real_fork();
    saved_errno = errno;
    if (pid != 0) {
        gs_stacks_after_fork(NULL);
    } else if (fork_handler_set) {
        held_over_fork = NULL;
        after_fork_in_child();
    } else {
        gs_stacks_after_fork_in_child(NULL);
    }
    errno = saved_errno;
    return pid;
}

static void write_help(void *self, const char *text, size_t length)
{
    (void)self;
    gs_log_text(text, length);
}

/* One of the two requested exceptions to "never end the host". */
static void help_and_exit(void)
{
    gs_options_help(write_help, NULL);
    syscall(SYS_exit_group, 0);
}

/* A tool that has to see each allocation gets them from the driver, as natively, unless
 * the user wants the pool. */
static void step_aside(struct gs_options *options)
{
    char tool[64];
    char *const *env = getauxval(AT_SECURE) ? NULL : environ;
    if (!options->pool || gs_options_given(env, "GPUSHIM_POOL") ||
        !gs_tools_memory_checker(env, tool, sizeof(tool))) {
        return;
    }
    options->pool = false;
    gs_log_line(GS_LOG_WARN,
                "%s checks the program's memory: it goes without the pool, so that each "
                "allocation is seen (GPUSHIM_POOL=on keeps the pool)",
                tool);
}

static void tell_idle(const char *name, const char *value, const char *why)
{
    gs_log_line(GS_LOG_WARN, "%s=%s: %s", name, value, why);
}

static void read_options(struct gs_state *state)
{
    /* Only the starting thread is here, and the text is large: not on its stack. */
    static struct gs_options_notes notes; /* under start_lock */
    gs_options_load(&state->options, environ, getauxval(AT_SECURE) != 0, &notes);
    gs_log_open(state->options.log_file, state->options.verbose);
    gs_lookup_log_open(state->options.lookup_log);
    if (state->options.verbose >= GS_LOG_WARN && notes.length > 0) {
        gs_log_text(notes.text, notes.length);
    }
    if (!getauxval(AT_SECURE)) {
        gs_options_tell_idle(&state->options, environ, tell_idle);
    }
    step_aside(&state->options);
    gs_zones_adjust(&state->options);
    if (state->options.free_sync == GS_FREE_SYNC_WAIT) {
        gs_known_end_proof(NULL);
    }
    gs_free_scopes_start(&state->options);
    gs_lazy_start(&state->options);
    gs_verify_start(&state->options);
    if (state->options.help) {
        help_and_exit();
    }
}

/* The clock's own code, which the kernel maps into every process, without the C library
 * in front; NULL if it cannot be found. */
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
        gs_log_line(forked_child ? GS_LOG_INFO : GS_LOG_WARN,
                    "call stacks cannot be recorded; going on without them");
        state->stacks = NULL;
    }
    struct gs_tracker_config tracker = {.api_names = gs_api_names(),
                                        .api_count = GS_API_COUNT,
                                        .stacks = state->stacks,
                                        .memory = stacks.memory,
                                        .free_history = FREE_HISTORY,
                                        .tally = gs_outputs_tallied(),
                                        .sampling = gs_record_sampling(&state->options),
                                        .stopped = !state->options.track_start,
                                        .clock = kernels_clock()};
    return gs_tracker_create(&tracker, &state->tracker);
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
                                  .carve = options->pool_carve && !gs_ipc_is_apart(),
                                  .segment_bytes = options->pool_segment_bytes,
                                  .cache_bytes = cache.bytes,
                                  .stream_blocks = cache.stream_blocks,
                                  .global_blocks = cache.global_blocks,
                                  .age_ms = options->pool_trim_interval_ms};
    enum gs_status status = gs_pool_create(&pool, &state->pool);
    if (status == GS_OK) {
        status = gs_host_start(state, cache.bytes);
        gs_managed_start(options);
    }
    return status;
}

/* Everything but the options. Returns false (and has said why) if nothing can be done. */
static bool create_parts(struct gs_state *state)
{
    enum gs_status status = GS_OK;
    if (state->options.track) {
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

/* Its frames are not the program's. */
static void look_for_copies(void)
{
    static struct gs_copies copies; /* too large for a small stack; at start alone */
    if (gs_copies_find(&copies)) {
        gs_log_line(
            GS_LOG_WARN,
            "another copy of this library is loaded, too: %.600s; each call may run "
            "through both: preload one of them",
            copies.other);
        gs_report_set_copies(copies.own, copies.other);
    }
}

/* For GPUSHIM_VERBOSE=2: what a bug report should contain. */
static void say_what_was_chosen(const struct gs_state *state)
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

/* start_lock is held. */
static struct gs_state *create(void)
{
    static struct gs_state inactive; /* what is published if there is no memory */
    if (!fork_handler_set) {
        fork_handler_set =
            pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0;
    }
    gs_elf_learn_loader();
    struct gs_state *state = calloc(1, sizeof(*state));
    if (!state || !fork_handler_set) {
        gs_log_line(GS_LOG_ERROR, "cannot start (%s): every call goes to the driver",
                    gs_status_text(GS_ERR_HOST_NOMEM));
        free(state);
        return &inactive;
    }
    state->pid = (pid_t)syscall(SYS_getpid);
    state->forked_child = forked_child;
    gs_contexts_init(&state->contexts);
    read_options(state);
    gs_outputs_open(&state->options);
    state->active = state->options.enable && create_parts(state);
    if (state->active) {
        look_for_copies();
        gs_zones_start(&state->options);
        gs_limits_start(&state->options);
        gs_rules_start(&state->options);
        gs_nvml_start(&state->options);
        gs_figures_start(state);
        gs_args_start(state);
        gs_warmup_start(state->pool ? state->options.warmup : "");
        gs_interim_start(&state->options, state->tracker);
        gs_intervals_start(&state->options);
        gs_trim_thread_begin(&state->options);
        gs_trace_open(state->options.trace_file, state->options.trace_limit_bytes);
        gs_record_watch(&state->options);
    }
    say_what_was_chosen(state);
    return state;
}

/* start_lock is held. */
static void create_with_room(void *out)
{
    *(struct gs_state **)out = create();
}

/* Signals that say what the thread itself has done are never held. */
static void hold_signals(sigset_t *was)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < GS_ARRAY_LEN(own); i++) {
        sigdelset(&all, own[i]);
    }
    (void)pthread_sigmask(SIG_BLOCK, &all, was);
}

static struct gs_state *start(void)
{
    sigset_t was;
    if (gs_thread.starting) {
        return NULL;
    }
    /* Files are read: nobody may be cancelled with the lock, and no handler leave it by
     * longjmp. */
    hold_signals(&was);
    int before = gs_uncancelled_begin();
    gs_thread.starting = true;
    pthread_mutex_lock(&start_lock);
    struct gs_state *state = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    if (!state) {
        gs_roomy_call(GS_ROOMY_BYTES, create_with_room, &state);
        __atomic_store_n(&current, state, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&start_lock);
    gs_thread.starting = false;
    gs_uncancelled_end(before);
    (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
    return state;
}

struct gs_state *gs_state(void)
{
    struct gs_state *state = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    if (GS_UNLIKELY(!state)) {
        state = start();
    }
    return state && state->active ? state : NULL;
}

struct gs_state *gs_state_peek(void)
{
    struct gs_state *state = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    return state && state->active ? state : NULL;
}

struct gs_state *gs_enter_first(void)
{
    int saved_errno = errno;
    struct gs_state *state = gs_real_complete() ? gs_state() : NULL;
    if (state && !gs_real_initialized()) {
        state = NULL; /* the driver refuses every call: there is nothing to record */
    }
    if (state) {
        gs_real_keep();
        __atomic_store_n(&gs_state_ready, state, __ATOMIC_RELEASE);
    }
    errno = saved_errno;
    return state;
}

bool gs_owned_by_pool(CUdeviceptr dptr)
{
    const struct gs_state *state = gs_state_peek();
    return state && state->pool && gs_pool_owns(state->pool, dptr);
}
