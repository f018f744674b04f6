/*
 * finish.c - the report at the end of the process.
 *
 * Runs after the static destructors of every other library, so it must not use any of
 * them. It makes no CUDA call, since the driver may have ended.
 *
 * Owns:  nothing.   Lock: none; the first caller gets the state's `reported` flag. Other
 *        threads that end the process wait for this caller while its report progresses.
 */
#include "shim/report/finish.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_float_mode.h"
#include "pool/meta.h"
#include "shim/checks/redzones.h"
#include "shim/checks/transfer_calls.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed.h"
#include "shim/link/find_python.h"
#include "shim/link/known_functions.h"
#include "shim/order/single_order.h"
#include "shim/order/verify.h"
#include "shim/report/interim.h"
#include "shim/report/intervals.h"
#include "shim/report/leak_rules.h"
#include "shim/report/nvml.h"
#include "shim/report/outputs.h"
#include "shim/report/report_settings.h"
#include "shim/report/statistics.h"
#include "shim/settings/checkers.h"
#include "shim/settings/environment.h"
#include "shim/settings/log.h"
#include "shim/settings/output.h"
#include "shim/settings/progress.h"
#include "shim/state/state.h"
#include "shim/statefile/state_file.h"
#include "shim/trace/trace_file.h"
#include "tracker/names/child_waits.h"
#include "tracker/python/python.h"
#include "tracker/stacks/alt_stack.h"
#include "tracker/statefile/state_memory.h"

/* Used by one report at a time: `reported` of the state names the thread. */
static struct gs_statistics statistics[GS_MAX_DEVICES];
static struct gs_report_device devices[GS_MAX_DEVICES];
static size_t device_count;
static char command[GS_COMMAND_BYTES + 8];
static char hostname[256];
static struct gs_float_mode float_mode; /* the thread's, before the report */

/* Fills the classes if the report or a file shows them, or a hint may need them; this
 * visits each block. */
static void fill_classes(struct gs_state *state, bool shown)
{
    static struct gs_report_class classes[GS_MAX_DEVICES][GS_POOL_CLASSES];
    for (size_t i = 0; i < device_count && state->pool; i++) {
        if (devices[i].pooled && (shown || gs_report_may_be_fragmented(&devices[i]))) {
            gs_statistics_by_size(state, (int)i, classes[i], &devices[i]);
        }
    }
}

static void fill_devices(struct gs_state *state)
{
    device_count = (size_t)__atomic_load_n(&state->device_count, __ATOMIC_ACQUIRE);
    gs_statistics_take(state, statistics, device_count);
    for (size_t i = 0; i < device_count; i++) {
        statistics[i].rest_known = gs_nvml_rest((int)i, &statistics[i].rest_bytes);
        bool named = __atomic_load_n(&state->device_named[i], __ATOMIC_ACQUIRE);
        const char *bus = named ? state->device_buses[i] : "";
        const char *uuid = named ? state->device_uuids[i] : "";
        devices[i] =
            (struct gs_report_device){.name = named ? state->device_names[i] : "",
                                      .bus = bus[0] ? bus : NULL,
                                      .uuid = uuid[0] ? uuid : NULL};
        gs_statistics_report(&statistics[i], &devices[i]);
    }
    gs_statistics_keep(statistics, device_count);
}

/* The time limit for a scan of host memory. */
#define SCAN_LIMIT_MS 60000u
/* The first version whose ints the scan does not know. */
#define PYTHON_UNKNOWN 0x030f0000u

/* Returns true if a pool serves the address from within a segment, so that the driver
 * does not know it as an allocation. */
static bool within_segment(struct gs_pool *pool, uint64_t addr)
{
    struct gs_range range;
    return pool && gs_pool_find(pool, addr, &range) == GS_OK &&
           range.segment_addr != addr;
}

static bool driver_knows(void *self, uint64_t addr)
{
    const struct gs_state *state = self;
    return !within_segment(state->pool, addr) && !within_segment(state->host_pool, addr);
}

static bool own_memory(void *self, gs_scan_skip skip, void *arg)
{
    size_t bytes;
    const void *file = gs_state_file_range(&bytes);
    (void)self;
    if (file) {
        skip(arg, (uintptr_t)file, bytes);
    }
    gs_trace_file_visit(skip, arg);
    return gs_meta_visit(skip, arg);
}

/* Logs the ends of proofs that no free has logged. */
static void log_ends(const struct gs_state *state)
{
    bool pooled = gs_host_has_served() || gs_managed_has_served();
    for (size_t i = 0; i < device_count; i++) {
        pooled = pooled || devices[i].pooled;
    }
    if (pooled) {
        gs_free_log_proof_end(state);
        gs_single_order_log_end(state);
    }
}

/* Collects the data of the process and of its devices; `ask`: also NVML's; `files`: for
 * files, too. */
static void collect_data(struct gs_state *state, bool ask, bool files)
{
    gs_command_line(command);
    gethostname(hostname, sizeof(hostname) - 1);
    if (ask) {
        gs_nvml_query(state);
    }
    fill_devices(state);
    fill_classes(state, gs_log_enabled(GS_LOG_INFO) || files);
    gs_redzones_resume(state);
}

/* The configuration of a report with this data. */
static struct gs_report_config
report_config_of(struct gs_state *state, const char *ending, struct gs_report_lines lines)
{
    struct gs_report_config config = gs_report_settings(&state->options, lines);
    config.version = GPUSHIM_VERSION;
    config.command = command;
    config.hostname = hostname;
    config.rank = gs_log_rank();
    config.pid = state->pid;
    config.ending = ending;
    config.devices = devices;
    config.device_count = device_count;
    config.show_hints = gs_log_enabled(GS_LOG_WARN);
    config.show_devices = config.show_pool = gs_log_enabled(GS_LOG_INFO);
    config.growth = gs_intervals_growth();
    config.attached = gs_environment_is_replaced();
    gs_statistics_frees(state, &config);
    return config;
}

/* Composes the report, and the job of `outputs` (NULL: none). Returns true if there were
 * errors or leaks. */
static bool compose_report(struct gs_state *state, struct gs_report_config config,
                           struct gs_output_contents *outputs, struct gs_text *text)
{
    struct gs_report_proof proof;
    config.refusals = gs_refusals_kept(&config.refusal_count);
    config.proof = gs_verify_statistics(&proof) ? &proof : NULL;
    bool bad = gs_report_compose(state->tracker, config, outputs, text);
    gs_symbolizer_destroy(config.symbolizer);
    return bad;
}

/* Writes the report and its files, or the report alone `into` a text. Returns true if
 * there were errors or leaks. */
static bool write_report(struct gs_state *state, struct gs_report_config config,
                         enum gs_outputs_when when, struct gs_text *into)
{
    struct gs_output_contents outputs;
    struct gs_text own = {0}, *text = into ? into : &own;
    bool files = !into && (when == GS_OUTPUTS_END || gs_outputs_wanted()) &&
                 gs_outputs_begin(&state->options, statistics, devices, device_count,
                                  when, &outputs);
    bool bad = compose_report(state, config, files ? &outputs : NULL, text);
    if (!into && when != GS_OUTPUTS_INTERVAL) {
        gs_report_log(&state->options, text);
    }
    gs_text_free(&own);
    return bad;
}

/* The report of a process that ends or, with `again`, may end. */
struct last_report {
    struct gs_state *state;
    const char *ending;
    uintptr_t stack_from;
    bool again;
    bool bad; /* the result */
};

/*
 * Sets what the scan can know of Python. At a usual exit the interpreter has ended before
 * this report, and has freed the objects that held memory until then: their words are
 * left, or not, like those of objects freed long ago.
 */
static void set_python(struct gs_scan_config *scan)
{
    static const char unknown[] = "it does not know this interpreter";
    struct gs_python_symbols python = {0};
    if (!gs_python_find(&python)) {
        scan->python_unread = gs_python_present() ? unknown : NULL;
    } else if (!python.interpreters || !python.interpreters()) {
        scan->python_unread = "they ended before this report";
    } else if (python.free_threaded || python.version >= PYTHON_UNKNOWN) {
        scan->python_unread = unknown;
    } else {
        scan->python_ints = true;
    }
}

/* Whether rules that the process was to keep were ignored. */
static bool lacks_rules(const struct gs_state *state)
{
    if (!gs_rules_ignored()) {
        return false;
    }
    if (state->options.error_exitcode != 0) {
        gs_log_line(GS_LOG_WARN, "GPUSHIM_SUPPRESSIONS: rules were ignored, so the "
                                 "process ends with GPUSHIM_ERROR_EXITCODE");
    }
    return true;
}

/* How memory was used, for hints, where GPUSHIM_CHECK has it recorded. */
static void show_uses(struct gs_report_config *config)
{
    config->transfers = gs_transfer_table();
    config->churn = gs_record_churn();
    config->pinned = gs_record_pinned();
}

/* Writes the report at the end of the process. */
static void write_last(void *arg)
{
    struct last_report *last = arg;
    struct gs_state *state = last->state;
    struct gs_scan_config scan = {
        .stack_from = last->stack_from,
        .own_code = (const void *)(uintptr_t)&gs_finish_report,
        .self = state,
        .driver_knows = driver_knows,
        .own_memory = own_memory,
        .limit_ms = SCAN_LIMIT_MS,
    };
    collect_data(state, true, gs_outputs_wanted());
    log_ends(state);
    gs_host_log(state);
    gs_redzones_finish(state, last->again);
    gs_managed_log();
    struct gs_report_config config =
        report_config_of(state, last->ending, (struct gs_report_lines){.wanted = true});
    if (state->options.leak_scan) {
        set_python(&scan);
        config.scan = &scan;
    }
    show_uses(&config);
    const bool unchecked = lacks_rules(state);
    last->bad = write_report(state, config, GS_OUTPUTS_END, NULL) || unchecked;
}

/* Writes a report while the program runs. The calling thread may have no driver if only
 * the text is wanted (control.c). */
static void write_interim(struct gs_state *state, const struct gs_interim *what)
{
    collect_data(state, !what->text || gs_environment_is_replaced(), gs_outputs_wanted());
    struct gs_report_config config = report_config_of(state, what->ending, what->lines);
    config.running = true;
    config.note = what->note;
    config.refusal = what->refusal ? gs_refusals_keep(state, what->refusal) : NULL;
    if (!what->refusal && !what->owners_alone) {
        show_uses(&config);
        config.pinned = NULL; /* a later copy may use it */
    }
    config.stack = what->stack;
    if (what->call_sites && what->call_sites < config.max_groups) {
        config.max_groups = what->call_sites;
    }
    config.owners_alone = what->owners_alone;
    (void)write_report(state, config,
                       what->refusal      ? GS_OUTPUTS_OUT_OF_MEMORY
                       : what->only_files ? GS_OUTPUTS_INTERVAL
                                          : GS_OUTPUTS_REQUESTED,
                       what->text);
}

/* What write_figures needs. */
static void collect_figures(struct gs_state *state)
{
    gethostname(hostname, sizeof(hostname) - 1);
    fill_devices(state);
}

/* Runs the job of `outputs`, which names no call sites, and frees them. */
static void write_figures(struct gs_state *state, struct gs_output_contents *outputs)
{
    const struct gs_report_config config = {.version = GPUSHIM_VERSION,
                                            .hostname = hostname,
                                            .rank = gs_log_rank(),
                                            .pid = state->pid,
                                            .running = true,
                                            .devices = devices,
                                            .device_count = device_count,
                                            .job = &outputs->job};
    gs_report_figures(state->tracker, &config);
    gs_output_contents_free(outputs);
}

/* Writes GPUSHIM_METRICS_FILE while the program runs. */
static void write_metrics(struct gs_state *state)
{
    struct gs_output_contents outputs;

    if (!gs_outputs_metrics_wanted()) {
        return;
    }
    collect_figures(state);
    if (gs_outputs_begin_metrics(&state->options, statistics, devices, device_count,
                                 &outputs)) {
        write_figures(state, &outputs);
    }
}

/* The report in a format, as a text: the thread has no driver, as for the text alone. */
static void write_export(struct gs_state *state, const struct gs_interim *what)
{
    struct gs_output_contents outputs;
    struct gs_outputs_text text = {.row = *what->format, .into = what->text};
    struct gs_text unused = {0};
    bool stacks = gs_export_formats[text.row].stacks;
    if (stacks) {
        collect_data(state, false, true);
    } else {
        collect_figures(state);
    }
    gs_outputs_begin_text(&state->options, statistics, devices, device_count, &text,
                          &outputs);
    if (!stacks) {
        write_figures(state, &outputs);
        return;
    }
    struct gs_report_config config = report_config_of(state, what->ending, what->lines);
    config.running = true;
    (void)compose_report(state, config, &outputs, &unused);
    gs_text_free(&unused);
}

/* The values of the state's `reported`; any other is the id of the thread that writes a
 * report. */
enum reported { REPORT_WRITTEN = -1, REPORT_NONE = 0 };

/* The longest wait for a thread without progress, beyond the longest part of a report. */
#define REPORT_WAIT_MS 3000

/* The longest time without progress: the parts of a report have limits of their own. */
static unsigned longest_part_ms(const struct gs_options *options)
{
    unsigned looks = (options->symbolize ? options->symbolize_timeout_ms : 0) +
                     (options->leak_scan ? SCAN_LIMIT_MS : 0);
    return (looks > GS_OUTPUT_PATIENCE_MS ? looks : GS_OUTPUT_PATIENCE_MS) +
           REPORT_WAIT_MS;
}

/* Returns true if no other thread writes a report any more. A thread that has ended does
 * not. */
static bool is_over(void *self)
{
    struct gs_state *state = self;
    int writer = __atomic_load_n(&state->reported, __ATOMIC_ACQUIRE);
    return writer <= REPORT_NONE ||
           (syscall(SYS_tgkill, state->pid, writer, 0) != 0 && errno == ESRCH);
}

/* Waits while another thread writes a report, since the process must not end during it.
 * Returns the new value of `reported`. */
static int wait_for_report(struct gs_state *state)
{
    int saved_errno = errno;
    (void)gs_progress_wait(is_over, state, longest_part_ms(&state->options));
    errno = saved_errno;
    return __atomic_load_n(&state->reported, __ATOMIC_ACQUIRE);
}

/* Makes the calling thread the one that writes a report, unless there is one. *found: the
 * previous value of `reported`. */
static bool begin_report(struct gs_state *state, int *found)
{
    *found = REPORT_NONE;
    if (!__atomic_compare_exchange_n(&state->reported, found, (int)gs_thread_id(), false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        return false;
    }
    if (__atomic_load_n(&state->detached,
                        __ATOMIC_ACQUIRE)) { /* the last one is written */
        __atomic_store_n(&state->reported, REPORT_NONE, __ATOMIC_RELEASE);
        *found = REPORT_WRITTEN;
        return false;
    }
    float_mode = gs_float_mode_begin();
    gs_checkers_ignore_begin();
    gs_progress_begin();
    return true;
}

/* The same after a report that another thread writes; false: it was the last one. */
static bool begin_in_turn(struct gs_state *state)
{
    int found;
    while (!begin_report(state, &found)) {
        if (found == REPORT_WRITTEN || wait_for_report(state) != REPORT_NONE) {
            return false;
        }
    }
    return true;
}

static void end_report(struct gs_state *state, enum reported reported)
{
    gs_progress_end();
    gs_checkers_ignore_end();
    gs_float_mode_end(float_mode);
    __atomic_store_n(&state->reported, reported, __ATOMIC_RELEASE);
}

/* Returns true for a forked child: its CUDA calls must all have failed, so it has nothing
 * to report. */
static bool nothing_to_report(struct gs_state *state)
{
    struct gs_tracker_totals sum;
    gs_tracker_sum_totals(state->tracker, &sum);
    return state->forked_child && sum.allocs == 0 &&
           gs_tracker_error_count(state->tracker) == 0;
}

bool gs_finish_due(void)
{
    const struct gs_state *state = gs_state_peek();
    return state && state->tracker && state->pid == (pid_t)syscall(SYS_getpid) &&
           !__atomic_load_n(&state->detached, __ATOMIC_ACQUIRE);
}

/* The remaining exit work takes longer than the process would have lived: keeps Python's
 * daemon threads asleep until then. */
static void hold_rest_of_python(void)
{
    struct gs_python_symbols python = {0};
    if (gs_python_find(&python)) {
        gs_python_hold_threads(&python);
    }
}

/* A frame of its own: all frames above belong to the program, or to gs_finish_report. */
static __attribute__((noinline)) bool report(const char *ending, bool again)
{
    struct gs_state *state = gs_state_peek();
    if (!gs_finish_due()) {
        return false;
    }
    if (gs_thread.depth > 0) {
        /* A signal handler that interrupted a wrapper, or a report, ends the program:
         * this thread holds their locks. */
        gs_finish_without_report("the program ended inside a CUDA call");
        return state->bad;
    }
    if (nothing_to_report(state)) {
        gs_state_file_ending(ending, false);
        return false;
    }
    if (!begin_in_turn(state)) {
        return state->bad;
    }
    /* Calls of the symbolizer's child process and other helpers are not the program's. */
    gs_thread.depth = 1;
    if (!again) {
        hold_rest_of_python();
    }
    gs_interim_log_switches();
    struct last_report last = {.state = state,
                               .ending = ending,
                               .stack_from = (uintptr_t)__builtin_frame_address(0),
                               .again = again};
    gs_alt_stack_call(GS_ALT_STACK_BYTES, write_last, &last);
    gs_thread.depth = 0;
    gs_state_file_ending(ending, last.bad);
    state->bad = last.bad;
    end_report(state, again ? REPORT_NONE : REPORT_WRITTEN);
    return state->bad;
}

/* Callee-saved registers may hold the program's pointers: they are saved in this frame,
 * above the one from which the report scans the stack. */
bool gs_finish_report(const char *ending, bool again)
{
    __builtin_unwind_init();
    bool bad = report(gs_interim_terminates() ? "SIGTERM" : ending, again);
    __asm__ volatile("" : "+r"(bad)); /* no tail call: this frame stays */
    return bad;
}

void gs_finish_without_report(const char *format, ...)
{
    struct gs_state *state = gs_state_peek();
    char why[160];
    int found = gs_finish_due() ? __atomic_load_n(&state->reported, __ATOMIC_ACQUIRE)
                                : REPORT_WRITTEN;
    if (found == (int)gs_thread_id()) {
        gs_log_line(GS_LOG_WARN, "the report is cut off: a signal handler that "
                                 "interrupted it ended the program");
        return;
    }
    if (found > REPORT_NONE) {
        found = wait_for_report(state);
    }
    if (found == REPORT_NONE) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(why, sizeof(why), format, arguments);
        va_end(arguments);
        if (gs_state_file_is_kept()) {
            gs_log_line(GS_LOG_INFO, "the command gpushim writes the report: %s", why);
        } else {
            gs_log_line(GS_LOG_WARN, "no report: %s", why);
        }
    }
}

void gs_finish_interim(const struct gs_interim *what)
{
    struct gs_state *state = gs_state_peek();
    if (!gs_finish_due() || !begin_in_turn(state)) {
        return;
    }
    if (what->format) {
        write_export(state, what);
    } else {
        write_interim(state, what);
    }
    if (!what->text) {
        write_metrics(state);
    }
    end_report(state, REPORT_NONE);
}

/* No child finds lines that the program would notice. */
static void write_detached(void *arg)
{
    struct gs_state *state = arg;
    struct gs_report_lines lines = gs_report_lines_unheard(gs_child_is_heard_anywhere());
    collect_data(state, true, gs_outputs_wanted());
    struct gs_report_config config = report_config_of(state, GS_STATE_DETACHED, lines);
    config.running = true;
    show_uses(&config);
    (void)write_report(state, config, GS_OUTPUTS_END, NULL);
}

void gs_finish_detach(void)
{
    struct gs_state *state = gs_state_peek();
    if (!gs_finish_due() || !begin_in_turn(state)) {
        return;
    }
    gs_thread.depth = 1;
    if (state->options.log_file[0] || gs_outputs_wanted() ||
        gs_outputs_metrics_wanted()) {
        gs_alt_stack_call(GS_ALT_STACK_BYTES, write_detached, state);
    }
    gs_state_file_ending(GS_STATE_DETACHED, false);
    __atomic_store_n(&state->detached, true, __ATOMIC_RELEASE);
    gs_thread.depth = 0;
    end_report(state, REPORT_NONE);
}

void gs_finish_metrics(void)
{
    struct gs_state *state = gs_state_peek();
    int found;
    if (gs_finish_due() && begin_report(state, &found)) {
        write_metrics(state);
        end_report(state, REPORT_NONE);
    }
}

int gs_finish_status(int status, bool bad)
{
    struct gs_state *state = gs_state_peek();
    if (!bad || status != 0 || !state || state->options.error_exitcode == 0) {
        return status;
    }
    return (int)state->options.error_exitcode;
}
