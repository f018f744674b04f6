/*
 * process.c - the ways a process ends or becomes another: exit, quick_exit, _exit, exec.
 *
 * The exit handlers are registered from the constructor without a dso handle: they then
 * run after _dl_fini, that is after the static destructors of every other library, which
 * free what would otherwise look like leaks. Nothing else happens at load time.
 *
 * _exit and exec run in vfork children, too, inside the parent's memory: there they
 * forward and touch nothing (gs_finish_report compares the process id).
 *
 * Owns:  the real functions.   Lock: immutable after the constructor.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "coverage.h"
#include "finish.h"
#include "linker.h"
#include "log.h"
#include "mutants.h"
#include "state.h"
#include "state_file.h"
#include "trace.h"

typedef void exit_fn(int);
typedef int execve_fn(const char *, char *const[], char *const[]);
typedef int fexecve_fn(int, char *const[], char *const[]);

static exit_fn *real_exit_now;
static execve_fn *real_execve;
static execve_fn *real_execvpe;
static fexecve_fn *real_fexecve;
static exit_fn *real_quick_exit;
static int quick_status; /* atomic: what quick_exit was called with */

extern int __cxa_at_quick_exit(void (*handler)(void *), void *dso);
extern int on_exit(void (*handler)(int, void *), void *argument);

/* ---- exit and quick_exit ---------------------------------------------------------- */

__attribute__((noreturn)) static void end_now(int status)
{
    gs_coverage_flush();
    if (real_exit_now) {
        real_exit_now(status);
    }
    for (;;) {
        syscall(SYS_exit_group, status);
    }
}

/* Ends the process itself only where the status is to be another one. */
static void report_and_end(int status, const char *ending)
{
    bool bad = gs_finish_report(ending, false);
    int changed = gs_finish_status(status, bad);
    gs_trace_close();
    gs_coverage_flush();
    if (changed != status) {
        fflush(NULL);
        end_now(changed);
    }
}

static void at_exit(int status, void *unused)
{
    char ending[32];
    (void)unused;
    if (gs_mutant(GS_MUTANT_exit_calls)) {
        (void)gs_real()->cuCtxSynchronize();
    }
    gs_coverage_flush();
    snprintf(ending, sizeof(ending), "exit %d", status & 0xff);
    report_and_end(status, ending);
}

/* Registered first, so it runs after every handler of the program's. */
static void at_quick_exit_handler(void *unused)
{
    char ending[32];
    int status = __atomic_load_n(&quick_status, __ATOMIC_RELAXED);
    (void)unused;
    snprintf(ending, sizeof(ending), "quick_exit %d", status & 0xff);
    report_and_end(status, ending);
}

__attribute__((constructor)) static void register_handlers(void)
{
    on_exit(at_exit, NULL);
    __cxa_at_quick_exit(at_quick_exit_handler, NULL);
    real_exit_now = (exit_fn *)gs_linker_next("_exit");
    real_quick_exit = (exit_fn *)gs_linker_next("quick_exit");
    real_execve = (execve_fn *)gs_linker_next("execve");
    real_execvpe = (execve_fn *)gs_linker_next("execvpe");
    real_fexecve = (fexecve_fn *)gs_linker_next("fexecve");
}

/* ---- _exit ------------------------------------------------------------------------ */

__attribute__((noreturn)) static void exit_at_once(int status)
{
    if (gs_finish_due()) {
        char ending[32];
        snprintf(ending, sizeof(ending), "_exit %d", status & 0xff);
        if (gs_stacks_in_signal_handler()) {
            /* malloc, and any lock, may be in the middle of something. */
            gs_log_line(GS_LOG_WARN, "no report: %s was called in a signal handler",
                        ending);
        } else {
            status = gs_finish_status(status, gs_finish_report(ending, false));
        }
    }
    gs_trace_close();
    end_now(status);
}

GS_EXPORT void _exit(int status)
{
    exit_at_once(status);
}

GS_EXPORT void _Exit(int status)
{
    exit_at_once(status);
}

/* The handlers are not told the status. */
GS_EXPORT void quick_exit(int status)
{
    __atomic_store_n(&quick_status, status, __ATOMIC_RELAXED);
    if (real_quick_exit) {
        real_quick_exit(status);
    }
    exit_at_once(status);
}

/* ---- exec ------------------------------------------------------------------------- */

/* A program that becomes another loses its device memory: what it held is reported. If
 * the exec fails it goes on, and reports again when it ends. */
static void before_exec(const char *path)
{
    if (gs_state_peek() && path) {
        char ending[128];
        snprintf(ending, sizeof(ending), "exec %.100s", path);
        (void)gs_finish_report(ending, true);
    }
    gs_coverage_flush();
}

/* It has failed: the program goes on, and is not at its end. In a child by vfork that is
 * not this process's to say. */
static int after_exec(int result)
{
    if (gs_finish_due()) {
        gs_state_file_ending("");
    }
    return result;
}

/* Whether exec would find a file: of a missing one nothing is reported. */
static bool can_run(const char *path)
{
    struct stat info;
    return path && stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           access(path, X_OK) == 0;
}

/* The same along PATH, as execvp searches it. */
static bool can_find(const char *file)
{
    const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe): as execvp does */
    if (!file || strchr(file, '/') || !path) {
        return can_run(file);
    }
    while (*path) {
        char candidate[4096];
        size_t length = strcspn(path, ":");
        int written = snprintf(candidate, sizeof(candidate), "%.*s%s%s", (int)length,
                               path, length ? "/" : "", file);
        if (written > 0 && (size_t)written < sizeof(candidate) && can_run(candidate)) {
            return true;
        }
        path += length + (path[length] == ':');
    }
    return false;
}

static int run_file(const char *path, char *const argv[], char *const envp[])
{
    if (gs_state_peek() && can_run(path)) {
        before_exec(path);
    }
    return after_exec(real_execve ? real_execve(path, argv, envp)
                                  : (int)syscall(SYS_execve, path, argv, envp));
}

static int run_in_path(const char *file, char *const argv[], char *const envp[])
{
    if (gs_state_peek() && can_find(file)) {
        before_exec(file);
    }
    return after_exec(real_execvpe ? real_execvpe(file, argv, envp)
                                   : (int)syscall(SYS_execve, file, argv, envp));
}

GS_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    return run_file(path, argv, envp);
}

GS_EXPORT int execv(const char *path, char *const argv[])
{
    return run_file(path, argv, environ);
}

GS_EXPORT int execvp(const char *file, char *const argv[])
{
    return run_in_path(file, argv, environ);
}

GS_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    return run_in_path(file, argv, envp);
}

GS_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    if (gs_state_peek()) {
        before_exec("(file descriptor)");
    }
    return after_exec(real_fexecve
                          ? real_fexecve(fd, argv, envp)
                          : (int)syscall(SYS_execveat, fd, "", argv, envp, 0x1000));
}

/* The words of an execl: how many, with `first` and without the NULL. */
static size_t count_words(const char *first, va_list *words)
{
    size_t count = 0;
    for (const char *word = first; word; word = va_arg(*words, const char *)) {
        count++;
    }
    return count;
}

/* Copies the words and the NULL; the array lies on the caller's stack (vfork). */
static void copy_words(char **argv, size_t count, const char *first, va_list *words)
{
    const char *word = first;
    for (size_t i = 0; i < count; i++) {
        argv[i] = (char *)(uintptr_t)word;
        word = va_arg(*words, const char *);
    }
    argv[count] = NULL;
}

GS_EXPORT int execl(const char *path, const char *arg, ...)
{
    va_list words;
    va_start(words, arg);
    size_t count = count_words(arg, &words);
    va_end(words);
    char *argv[count + 1];
    va_start(words, arg);
    copy_words(argv, count, arg, &words);
    va_end(words);
    return run_file(path, argv, environ);
}

GS_EXPORT int execlp(const char *file, const char *arg, ...)
{
    va_list words;
    va_start(words, arg);
    size_t count = count_words(arg, &words);
    va_end(words);
    char *argv[count + 1];
    va_start(words, arg);
    copy_words(argv, count, arg, &words);
    va_end(words);
    return run_in_path(file, argv, environ);
}

GS_EXPORT int execle(const char *path, const char *arg, ...)
{
    va_list words;
    va_start(words, arg);
    size_t count = count_words(arg, &words);
    va_end(words);
    char *argv[count + 1];
    va_start(words, arg);
    copy_words(argv, count, arg, &words);
    /* After the words and their NULL comes the environment. */
    char *const *envp = va_arg(words, char *const *);
    va_end(words);
    return run_file(path, argv, envp);
}
