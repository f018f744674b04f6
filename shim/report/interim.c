/*
 * interim.c - a thread of the library that reports the live memory of a running program.
 *
 * A report needs stack, time and the C library's locks, which the thread that requests it
 * may not have: a signal handler, a thread with a small stack. So a handler only posts a
 * request, a thread that is refused memory waits for a limited time, and a thread with
 * all signals blocked writes the report. This thread is started where it is needed: with
 * the handlers, or for a report of a process that is out of memory.
 *
 * Owns:  the signals' old dispositions, the thread.   Lock: atomics and semaphores; one
 *        of `switches`.
 * Design: docs/tracker.md, "While it runs"
 */
#include "shim/report/interim.h"

#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_locks.h"
#include "gs_uncancelled.h"
#include "gs_wait.h"
#include "shim/limits/machine_memory.h"
#include "shim/record.h"
#include "shim/report/finish.h"
#include "shim/settings/environment.h"
#include "shim/settings/log.h"
#include "shim/settings/own_thread.h"
#include "shim/settings/signal_names.h"
#include "tracker/names/child_waits.h"
#include "tracker/report/call_site.h"
#include "tracker/report/text/text.h"

/* The longest wait of a thread that is refused memory for the report of the owners. */
#define PATIENCE_S 5
/* Between two looks at whether the program's threads have ended. */
#define CHECK_S 1

/* Call sites listed when memory ran out; the time of the child that looks up their lines,
 * also of those of all such reports together; and the host memory that must be left for
 * it. */
#define CALL_SITES       3
#define LINES_MS         3000
#define LINES_HOST_BYTES (512 * GS_MIB)

static bool sites_given; /* immutable after start: GPUSHIM_LEAK_MAX was */

static struct {
    int dump, term, track;       /* signals with a handler of the library; 0: none */
    sem_t wanted;                /* posted by the handlers */
    bool wants_dump, wants_term; /* atomic */
    pid_t pid;                   /* process whose thread waits; 0: none */
    struct gs_tracker *tracker;  /* switched by `track` */
    bool starts;                 /* the first switch starts recording */
    bool given_up;               /* gpushim detach: the handlers are removed */
} signals;

/* The switches that were logged; its lock keeps one from being logged after the last
 * report. */
static struct {
    struct gs_mutex lock;
    uint32_t logged;
} switches = {.lock = GS_MUTEX(GS_RANK_SWITCHES)};

/* The request for which a thread of the program waits; one at a time. */
static struct {
    bool busy; /* atomic: the other members are in use */
    bool over; /* atomic: the report is written, or its waiter has left */
    struct gs_interim what;
    struct gs_refusal refusal;
    bool heard;        /* gs_child_is_heard of the waiting thread */
    uint64_t lines_ms; /* the time of the reports of refusals with lines so far */
    char note[160];
    sem_t written;
    uint32_t stack;         /* gs_interim_stack: to be named, */
    struct gs_text text;    /* with its lines, */
    enum gs_status outcome; /* and whether there are any */
} asked;

/* ---- signals -------------------------------------------------------------------- */

static bool is_ours(pid_t pid)
{
    return pid != 0 && pid == (pid_t)syscall(SYS_getpid);
}

static void end_by(int number)
{
    (void)signal(number, SIG_DFL);
    (void)kill((pid_t)syscall(SYS_getpid), number);
}

bool gs_interim_terminates(void)
{
    return __atomic_load_n(&signals.wants_term, __ATOMIC_ACQUIRE) && is_ours(signals.pid);
}

void gs_interim_terminate(void)
{
    end_by(SIGTERM);
}

/* Async-signal-safe. A second SIGTERM ends the process at once. */
static void on_signal(int number)
{
    int saved_errno = errno;
    bool term = number == signals.term, track = number == signals.track;
    bool *wants = term ? &signals.wants_term : &signals.wants_dump;
    /* In a child by vfork or clone no thread waits for the request. */
    if (!is_ours(signals.pid) ||
        (!track && __atomic_exchange_n(wants, true, __ATOMIC_ACQ_REL) && term)) {
        end_by(number);
    } else {
        if (track) {
            /* Switches at once: the sender's next allocation is inside the window, or
             * outside. */
            gs_tracker_switch(signals.tracker);
        }
        (void)sem_post(&signals.wanted);
    }
    errno = saved_errno;
}

/* Logs "recording stopped at 5s by SIGUSR2; now 3.00 MiB in 12 allocations are ..." */
static void log_switch(uint32_t number)
{
    bool starts = (number % 2 != 0) == signals.starts;
    struct gs_tracker_totals sum;
    char when[24], name[24], live[24], allocations[32];
    gs_tracker_sum_totals(signals.tracker, &sum);
    gs_log_line(GS_LOG_WARN,
                "recording %s at %s by %s; now %s in %s allocation%s %s recorded "
                "and not freed",
                starts ? "started" : "stopped",
                gs_text_duration(gs_tracker_switch_ns(signals.tracker, number), when),
                gs_signal_name(signals.track, name), gs_text_bytes(sum.live_bytes, live),
                gs_text_count(sum.live_count, allocations),
                sum.live_count == 1 ? "" : "s", sum.live_count == 1 ? "is" : "are");
}

void gs_interim_log_switches(void)
{
    if (!signals.tracker) {
        return;
    }
    gs_mutex_lock(&switches.lock);
    uint32_t made = gs_tracker_switches(signals.tracker);
    if (made - switches.logged > GS_SWITCHES_KEPT) {
        switches.logged = made - GS_SWITCHES_KEPT; /* older ones are lost */
    }
    while (switches.logged != made) {
        log_switch(++switches.logged);
    }
    gs_mutex_unlock(&switches.lock);
}

/* Returns false if no signal came for a while. */
static bool await_wanted(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CHECK_S;
    return sem_timedwait(&signals.wanted, &until) == 0;
}

static void *wait_for_signals(void *unused)
{
    (void)unused;
    gs_thread.depth = 1; /* its calls are not the program's */
    for (;;) {
        while (!await_wanted()) {
            if ((errno != EINTR && errno != ETIMEDOUT) || gs_own_threads_remain()) {
                return NULL;
            }
        }
        gs_interim_log_switches();
        if (__atomic_exchange_n(&signals.wants_dump, false, __ATOMIC_ACQ_REL)) {
            char ending[32], name[24];
            snprintf(ending, sizeof(ending), "on %s", gs_signal_name(signals.dump, name));
            gs_finish_interim(&(struct gs_interim){
                .ending = ending,
                .lines = gs_report_lines_unheard(gs_child_is_heard_anywhere())});
        }
        if (gs_interim_terminates()) {
            gs_thread.depth = 0; /* like a thread that calls exit */
            (void)gs_finish_report("SIGTERM", false);
            gs_interim_terminate();
            return NULL;
        }
    }
}

/* Installs a handler. Returns the signal, or 0 after logging the reason. */
static int install_handler(int number, const char *variable, const char *value)
{
    struct sigaction was, ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (sigaction(number, NULL, &was) != 0 || (was.sa_flags & SA_SIGINFO) ||
        was.sa_handler != SIG_DFL) {
        gs_log_line(GS_LOG_WARN,
                    "%s=%s: the program handles or ignores that signal, so gpushim "
                    "leaves it alone",
                    variable, value);
        return 0;
    }
    sigemptyset(&ours.sa_mask);
    return sigaction(number, &ours, NULL) == 0 ? number : 0;
}

static void give_up(int number)
{
    struct sigaction is;
    if (number && sigaction(number, NULL, &is) == 0 && !(is.sa_flags & SA_SIGINFO) &&
        is.sa_handler == on_signal) {
        (void)signal(number, SIG_DFL);
    }
}

/* The signal of a variable; 0: none. Logs why a requested signal is not possible. */
static int read_signal(const char *variable, const char *text)
{
    int number = text[0] ? gs_signal_named(text) : 0;
    if (text[0] && !number) {
        gs_log_line(GS_LOG_WARN, "%s=%s: " GS_SIGNAL_WRONG "; no signal is set", variable,
                    text);
    }
    return number;
}

static int read_track_signal(const struct gs_options *options, int dump)
{
    const char *text = options->track_signal;
    int number = read_signal("GPUSHIM_TRACK", text);
    if (number && !options->track) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_TRACK=%s: with off there is nothing to start; ignored",
                    text);
        return 0;
    }
    if (number && number == dump) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_TRACK=%s: GPUSHIM_REPORT_ON has that signal; ignored", text);
        return 0;
    }
    return number;
}

/* Starts the thread, then installs the handlers, which may run at once. */
static void handle_all(const struct gs_options *options, struct gs_tracker *tracker,
                       int dump, int track)
{
    signals.pid = (pid_t)syscall(SYS_getpid);
    signals.tracker = tracker;
    signals.starts = !options->track_start;
    signals.term = options->dump_on_term ? SIGTERM : 0;
    signals.track = track;
    signals.dump =
        dump ? install_handler(dump, "GPUSHIM_REPORT_ON", options->dump_signal) : 0;
    if (track) {
        signals.track = install_handler(track, "GPUSHIM_TRACK", options->track_signal);
    }
    if (options->dump_on_term) {
        signals.term = install_handler(SIGTERM, "GPUSHIM_REPORT_ON", "term");
    }
}

void gs_interim_start(const struct gs_options *options, struct gs_tracker *tracker)
{
    sites_given = gs_options_given(gs_environment(), "GPUSHIM_LEAK_MAX");
    int dump = read_signal("GPUSHIM_REPORT_ON", options->dump_signal);
    int track = read_track_signal(options, dump);
    if (tracker && (dump || track || options->dump_on_term)) {
        if (sem_init(&signals.wanted, 0, 0) == 0 &&
            gs_own_thread("gpushim-signals", wait_for_signals)) {
            handle_all(options, tracker, dump, track);
        } else {
            gs_log_line(GS_LOG_WARN,
                        "no thread can be started for the signals of GPUSHIM_REPORT_ON "
                        "and GPUSHIM_TRACK: signals have no effect");
        }
    }
    if (tracker && !options->track_start && !signals.track) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_TRACK=later: without a signal nothing starts the "
                    "recording; nothing is recorded");
    }
}

void gs_interim_detach(void)
{
    give_up(signals.dump);
    give_up(signals.term);
    give_up(signals.track);
    signals.given_up = true;
}

void gs_interim_attach(const struct gs_options *options)
{
    if (!signals.tracker) {
        return;
    }
    if (signals.given_up) { /* the thread still waits */
        signals.given_up = false;
        handle_all(options, signals.tracker,
                   read_signal("GPUSHIM_REPORT_ON", options->dump_signal), signals.track);
    }
    gs_mutex_lock(&switches.lock);
    signals.starts = true; /* as the tracker, since gs_tracker_restart */
    switches.logged = gs_tracker_switches(signals.tracker);
    gs_mutex_unlock(&switches.lock);
}

void gs_interim_reset(void)
{
    gs_interim_detach();
    gs_mutex_init(&switches.lock, GS_RANK_SWITCHES);
    switches.logged = 0;
    memset(&signals, 0, sizeof(signals));
    memset(&asked, 0, sizeof(asked));
}

/* ---- requests of the program's threads ------------------------------------------ */

static bool take(void)
{
    return !gs_stacks_in_signal_handler() &&
           !__atomic_exchange_n(&asked.busy, true, __ATOMIC_ACQ_REL);
}

static void end_report(void)
{
    __atomic_store_n(&asked.busy, false, __ATOMIC_RELEASE);
}

/* The writing thread's last step. */
static void hand_over(void)
{
    if (__atomic_exchange_n(&asked.over, true, __ATOMIC_ACQ_REL)) {
        gs_text_free(&asked.text); /* nobody waits any more */
        end_report();
    } else {
        (void)sem_post(&asked.written);
    }
}

static void *write_it(void *unused)
{
    uint64_t begin_ns = gs_now_ns();
    (void)unused;
    gs_thread.depth = 1;
    gs_finish_interim(&asked.what);
    if (asked.what.refusal && asked.what.lines.wanted) {
        asked.lines_ms += (gs_now_ns() - begin_ns) / 1000000;
    }
    hand_over();
    return NULL;
}

static bool await_written(const struct timespec *until)
{
    int result;
    do {
        result = until ? sem_timedwait(&asked.written, until) : sem_wait(&asked.written);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

/* Waits for the thread. Returns true if it has written; then end_report follows. If it
 * takes too long, the thread releases the request. */
static bool write_and_wait(void *(*body)(void *))
{
    struct timespec until;
    asked.over = false;
    if (sem_init(&asked.written, 0, 0) != 0 || !gs_own_thread("gpushim-report", body)) {
        end_report();
        return false;
    }
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    int before = gs_uncancelled_begin();
    bool written =
        await_written(&until) ||
        (__atomic_exchange_n(&asked.over, true, __ATOMIC_ACQ_REL) && await_written(NULL));
    gs_uncancelled_end(before);
    return written;
}

static void write_report(void *(*body)(void *))
{
    if (write_and_wait(body)) {
        end_report();
    }
}

/* ---- out of memory ---------------------------------------------------------------- */

/* Why no child process may look up lines now, although none would notice it; NULL: it may.
 * The program runs on, and must not lack its memory. */
static const char *why_no_lines(void)
{
    struct gs_machine_memory memory;
    if (!gs_machine_memory_read("", &memory) ||
        memory.available_bytes < LINES_HOST_BYTES) {
        return "file and line are left out: there is too little host memory for the "
               "helper program";
    }
    if (asked.lines_ms >= LINES_MS) {
        return "file and line are left out: earlier look-ups took too long";
    }
    return NULL;
}

static void *write_refusal(void *unused)
{
    gs_thread.depth = 1;
    struct gs_report_lines *lines = &asked.what.lines;
    *lines = gs_report_lines_unheard(asked.heard);
    if (lines->wanted) {
        lines->why_none = why_no_lines();
        lines->wanted = !lines->why_none;
        lines->most_ms = lines->wanted ? LINES_MS - (unsigned)asked.lines_ms : 0;
    }
    return write_it(unused);
}

void gs_interim_refused(struct gs_state *state, const struct gs_call *call, int device,
                        uint64_t bytes)
{
    if (!state->tracker || !state->options.dump_on_oom ||
        !gs_refusals_wanted(device, bytes) || !take()) {
        return;
    }
    if (!gs_refusals_begin(state, call, device, bytes, &asked.refusal)) {
        end_report();
        return;
    }
    asked.heard = gs_child_is_heard();
    asked.what = (struct gs_interim){.ending = "out of memory",
                                     .note = asked.refusal.note,
                                     .stack = asked.refusal.figures.stack,
                                     .call_sites = sites_given ? 0 : CALL_SITES,
                                     .refusal = &asked.refusal};
    write_report(write_refusal);
}

/* ---- other requests --------------------------------------------------------------- */

bool gs_interim_requested(void)
{
    if (!take()) {
        return false;
    }
    asked.what =
        (struct gs_interim){.ending = "at the program's request",
                            .lines = gs_report_lines_unheard(gs_child_is_heard())};
    write_report(write_it);
    return true;
}

void gs_interim_context_ends(struct gs_state *state, int device)
{
    struct gs_tracker_totals totals = {0};
    if (!state->tracker || state->options.leak_report != GS_LEAK_REPORT_RESET) {
        return;
    }
    gs_tracker_get_totals(state->tracker, device, &totals);
    if (totals.live_count == 0 || !take()) {
        return;
    }
    snprintf(asked.note, sizeof(asked.note),
             "a context of GPU %d is about to end, and its memory with it", device);
    asked.what =
        (struct gs_interim){.ending = "at a reset",
                            .note = asked.note,
                            .lines = gs_report_lines_unheard(gs_child_is_heard())};
    write_report(write_it);
}

/* ---- the name of a stack ------------------------------------------------------------
 */

static void *write_stack(void *unused)
{
    struct gs_state *state = gs_state_peek();
    gs_thread.depth = 1;
    struct gs_report_config config =
        gs_report_settings(&state->options, gs_report_lines_unheard(asked.heard));
    bool known = gs_call_site_write(state->tracker, &config, asked.stack, &asked.text);
    asked.outcome = !known                                     ? GS_ERR_NOT_FOUND
                    : asked.text.truncated || !asked.text.data ? GS_ERR_HOST_NOMEM
                                                               : GS_OK;
    gs_symbolizer_destroy(config.symbolizer);
    hand_over();
    return unused;
}

/* Waits while another thread's request is served. */
static bool take_in_turn(void)
{
    uint64_t end_ns = gs_now_ns() + PATIENCE_S * UINT64_C(1000000000);
    bool taken = take();
    while (!taken && !gs_stacks_in_signal_handler() && gs_now_ns() < end_ns) {
        gs_nap(1000000);
        taken = take();
    }
    return taken;
}

enum gs_status gs_interim_stack(uint32_t stack, struct gs_text *text)
{
    if (!take_in_turn()) {
        return GS_ERR_BUSY;
    }
    asked.heard = gs_child_is_heard();
    asked.stack = stack;
    asked.text = (struct gs_text){0};
    if (!write_and_wait(write_stack)) {
        return GS_ERR_BUSY;
    }
    enum gs_status outcome = asked.outcome;
    if (outcome == GS_OK) {
        *text = asked.text;
    } else {
        gs_text_free(&asked.text);
    }
    asked.text = (struct gs_text){0};
    end_report();
    return outcome;
}
