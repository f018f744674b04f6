/*
 * process.c - the ends of a process: exit, quick_exit, _exit. exec is in exec.c.
 *
 * If several threads call exit, the C library (before glibc 2.41) lets each take the next
 * handler, and the thread that finds none left ends the process, whatever the other
 * threads are doing. So the handler is registered several times: each thread finds one,
 * and either writes the report or waits for the thread that does (gs_finish_report).
 *
 * The constructor registers the exit handlers without a dso handle. They then run after
 * _dl_fini, after the static destructors of every other library: memory that these free
 * is not reported as leaked. Besides, the constructor records the start folder, if a
 * variable names a file in it.
 *
 * _exit may run in vfork children, inside the parent's memory: there it forwards and
 * changes nothing (gs_finish_report compares the process id).
 *
 * Owns:  the next functions.   Lock: none; idempotent writes of one word.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_uncancelled.h"
#include "shim/coverage.h"
#include "shim/life/child_env.h"
#include "shim/life/unseen.h"
#include "shim/link/deep_modules.h"
#include "shim/link/linker.h"
#include "shim/parts.h"
#include "shim/report/finish.h"
#include "shim/report/interim.h"
#include "shim/report/trace_stacks.h"
#include "shim/settings/environment.h"
#include "shim/settings/own_thread.h"
#include "shim/settings/start_folder.h"
#include "shim/settings/stderr.h"
#include "shim/state/state.h"
#include "shim/trace/trace.h"
#include "shim/trace/trace_file.h"

typedef void exit_fn(int);

/* The next functions of these names; found at the first call. */
enum { EXIT_NOW, EXIT_NOW_ISO, QUICK_EXIT, NEXTS };
static void *nexts[NEXTS]; /* gs_linker_behind's */
static exit_fn *next(int which)
{
    static const char names[][12] = {
        [EXIT_NOW] = "_exit", [EXIT_NOW_ISO] = "_Exit", [QUICK_EXIT] = "quick_exit"};
    return (exit_fn *)gs_linker_behind(names[which], &nexts[which]);
}

static int quick_status; /* atomic: the status passed to quick_exit */
static bool ended;       /* atomic: a handler has finished */

/* Threads that may call exit within nanoseconds of each other; each registers one more
 * handler for a later thread. */
#define HANDLERS 3

/* Weak: another C library (musl), which a helper of the program may be linked with, has
 * neither, and refuses to start a program with a strong reference to them. */
extern int __cxa_at_quick_exit(void (*handler)(void *), void *dso) __attribute__((weak));
extern int on_exit(void (*handler)(int, void *), void *argument) __attribute__((weak));

static void register_exit(void (*handler)(int, void *))
{
    if (on_exit) {
        on_exit(handler, NULL);
    }
}

static void register_quick_exit(void (*handler)(void *))
{
    if (__cxa_at_quick_exit) {
        __cxa_at_quick_exit(handler, NULL);
    }
}

/* ---- exit and quick_exit ---------------------------------------------------------- */

/* By the next _exit or _Exit; NULL: there is none. */
__attribute__((noreturn)) static void end_by(exit_fn *end, int status)
{
    gs_coverage_flush();
    if (end) {
        end(status);
    }
    for (;;) {
        syscall(SYS_exit_group, status);
    }
}

__attribute__((noreturn)) static void end_now(int status)
{
    end_by(next(EXIT_NOW), status);
}

/* Ends the process itself only if the exit status has to change. */
static void report_and_end(int status, const char *ending)
{
    int before = gs_uncancelled_begin();
    bool bad = gs_finish_report(ending, false);
    int changed = gs_unseen_end(gs_finish_status(status, bad));
    gs_trace_close();
    gs_trace_stacks_write();
    gs_coverage_flush();
    if (gs_interim_terminates()) {
        gs_interim_terminate();
    }
    if (changed != status) {
        fflush(NULL);
        end_now(changed);
    }
    __atomic_store_n(&ended, true, __ATOMIC_RELEASE);
    gs_uncancelled_end(before);
}

static bool has_ended(void)
{
    return __atomic_load_n(&ended, __ATOMIC_ACQUIRE);
}

static void at_exit(int status, void *unused)
{
    char ending[32];
    (void)unused;
    if (has_ended()) {
        return;
    }
    if (gs_finish_due()) {
        register_exit(at_exit);
    }
    gs_coverage_flush();
    snprintf(ending, sizeof(ending), "exit %d", status & 0xff);
    report_and_end(status, ending);
}

/* Registered first, so it runs after every handler of the program. */
static void at_quick_exit_handler(void *unused)
{
    char ending[32];
    int status = __atomic_load_n(&quick_status, __ATOMIC_RELAXED);
    (void)unused;
    if (has_ended()) {
        return;
    }
    if (gs_finish_due()) {
        register_quick_exit(at_quick_exit_handler);
    }
    snprintf(ending, sizeof(ending), "quick_exit %d", status & 0xff);
    report_and_end(status, ending);
}

__attribute__((constructor)) static void register_handlers(void)
{
    gs_stderr_remember();
    gs_unseen_begin();
    gs_own_thread_watch_first(gs_parts_first_thread_ends);
    gs_deep_modules_start();
    char *const *env = gs_environment_at_start();
    bool given = gs_environment_keep(env); /* a start without options looks once */
    gs_child_env_start(env, given);
    if (given) {
        gs_start_folder_remember(env);
    }
    for (int i = 0; i < HANDLERS; i++) {
        register_exit(at_exit);
        register_quick_exit(at_quick_exit_handler);
    }
}

/* ---- _exit ------------------------------------------------------------------------ */

__attribute__((noreturn)) static void exit_at_once(int status, exit_fn *end)
{
    int before = gs_uncancelled_begin();
    if (gs_finish_due()) {
        char ending[32];
        snprintf(ending, sizeof(ending), "_exit %d", status & 0xff);
        if (gs_stacks_in_signal_handler()) {
            /* The interrupted code may hold any lock, or be inside malloc. */
            gs_finish_without_report("%s was called in a signal handler", ending);
        } else {
            status = gs_finish_status(status, gs_finish_report(ending, false));
        }
    }
    status = gs_unseen_end(status);
    gs_trace_close();
    /* A process without a trace makes no other call than its own: it may be a child of
     * vfork, or have a filter that ends it for any. */
    if (gs_trace_file_is_late() && !gs_stacks_in_signal_handler()) {
        gs_trace_stacks_write();
    }
    if (gs_interim_terminates()) {
        gs_interim_terminate();
    }
    gs_uncancelled_end(before); /* in a vfork child the state is the parent's */
    end_by(end, status);
}

GS_EXPORT void _exit(int status)
{
    exit_at_once(status, next(EXIT_NOW));
}

GS_EXPORT void _Exit(int status)
{
    exit_at_once(status, next(EXIT_NOW_ISO));
}

/* Saves the status, which the handlers do not get. */
GS_EXPORT void quick_exit(int status)
{
    __atomic_store_n(&quick_status, status, __ATOMIC_RELAXED);
    exit_fn *quick = next(QUICK_EXIT);
    if (quick) {
        quick(status);
    }
    exit_at_once(status, next(EXIT_NOW));
}
