/*
 * pause.c - gpushim pause and gpushim resume: the GPU memory of running processes goes to
 * the host and comes back, by the driver's checkpoints.
 *
 * The driver locks the process (its CUDA calls block, its work completes), copies the
 * memory of its devices to the host, and gives the devices up; addresses stay. It does so
 * for any CUDA process, whether the library is in it or not.
 *
 * Processes that work together may wait for one another. So all are locked before the
 * memory of the first is copied, and all have their memory back before the first is
 * unlocked. If one cannot be locked, none is paused. Drivers lose a process whose
 * checkpoint is interrupted: signals wait for the end of a step, and a lock is asked for
 * a second at a time.
 *
 * Owns: nothing.   Lock: none; one thread.
 * Source: CUDA Driver API, "CUDA Checkpointing" (CUDA 12.8)
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_clock.h"
#include "gs_wait.h"
#include "shim/cuda/cuda_names.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/reader/ask.h"
#include "shim/tools/reader/ask_why.h"
#include "shim/tools/reader/live_totals.h"
#include "shim/tools/reader/marks.h"

#define DEFAULT_WAIT_S 10
#define MOST_WAIT_S    86400
#define MOST_PIDS      4096
#define NS_PER_S       1000000000ull
#define NAP_NS         (NS_PER_S / 20)
#define LOCK_MS        1000 /* asked for at once */
#define ASK_MS         1000 /* for the library's answer */

/* CUprocessState, which headers before CUDA 12.8 lack. */
enum { RUNNING, LOCKED, SAVED, FAILED };

/* CUcheckpointLockArgs. */
struct lock_args {
    unsigned timeout_ms, reserved[15];
};

/* The driver's functions. */
static struct {
    CUresult (*init)(unsigned flags);
    CUresult (*name)(CUresult result, const char **name);
    CUresult (*state)(int pid, int *state);
    CUresult (*lock)(int pid, struct lock_args *args);
    CUresult (*save)(int pid, void *args);
    CUresult (*restore)(int pid, void *args);
    CUresult (*unlock)(int pid, void *args);
} driver;

static void find_driver(void)
{
    static const struct {
        const char *name;
        void *where;
    } rows[] = {{"cuInit", &driver.init},
                {"cuGetErrorName", &driver.name},
                {"cuCheckpointProcessGetState", &driver.state},
                {"cuCheckpointProcessLock", &driver.lock},
                {"cuCheckpointProcessCheckpoint", &driver.save},
                {"cuCheckpointProcessRestore", &driver.restore},
                {"cuCheckpointProcessUnlock", &driver.unlock}};
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        gs_launcher_fail(1, "no CUDA driver: %s", dlerror());
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        void *found = dlsym(library, rows[i].name);
        if (!found) {
            gs_launcher_fail(1,
                             "the CUDA driver has no %s: pausing needs that of CUDA "
                             "12.8 (570) or later",
                             rows[i].name);
        }
        memcpy(rows[i].where, &found, sizeof(found));
    }
}

static const char *text_of(CUresult result)
{
    const char *name = NULL;
    return driver.name(result, &name) == CUDA_SUCCESS && name ? name : "an unknown error";
}

/* Says why a step failed. Returns false. */
static bool say(int pid, const char *step, CUresult result)
{
    const char *why = "";
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
        why = ": this driver, or this process, cannot be checkpointed";
    } else if (result == CUDA_ERROR_OPERATING_SYSTEM) {
        why = ": another user's, in another container, or the driver wants root";
    }
    gs_launcher_warn("process %d: %s: %s%s", pid, step, text_of(result), why);
    return false;
}

/* What the process says of itself, if it has a context and the library; NULL: nothing. */
static const struct gs_live_totals *ask_totals(int pid)
{
    static struct gs_live_totals totals; /* large */
    struct gs_ask_thread thread;
    struct gs_ask_answer answer;
    const char *problem;
    if (gs_ask_find(pid, &thread) || !gs_ask(&thread, "stats", ASK_MS, &answer)) {
        return NULL;
    }
    bool read = !answer.refused && gs_live_totals_parse(answer.text, &totals, &problem);
    free(answer.text);
    return read ? &totals : NULL;
}

/* The driver knows no state of the process, or it is not paused. */
static void say_released(int pid, const struct gs_live_totals *totals)
{
    const char *scope = totals->released[0].name;
    gs_launcher_warn(
        "process %d: not paused; its scope %s is released: gpushim resume %d "
        "%s brings it back",
        pid, scope, pid, scope);
}

static void say_unknown(int pid, bool foreign, bool resumes, CUresult result)
{
    const struct gs_live_totals *totals = foreign ? NULL : ask_totals(pid);
    if (totals && resumes && totals->released_count > 0) {
        say_released(pid, totals);
    } else if (totals) {
        gs_launcher_warn(
            "process %d: its state: %s: it uses CUDA, but the driver does not "
            "let it be checkpointed",
            pid, text_of(result));
    } else {
        const char *launcher = gs_ask_why_launcher(pid);
        gs_launcher_warn("process %d: %s", pid,
                         foreign    ? "another user's: this needs root"
                         : launcher ? launcher
                                    : "it does not use CUDA");
    }
}

/* Returns whether the process has a state; it is said if not. */
static bool find_state(int pid, bool resumes, int *state)
{
    int error = kill(pid, 0) == 0 ? 0 : errno;
    if (error == ESRCH) {
        gs_launcher_warn("process %d: no such process", pid);
        return false;
    }
    CUresult result = driver.state(pid, state);
    if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_INITIALIZED) {
        say_unknown(pid, error == EPERM, resumes, result);
        return false;
    }
    if (result != CUDA_SUCCESS) {
        return say(pid, "its state", result);
    }
    if (*state == FAILED) {
        gs_launcher_warn("process %d: the driver could not finish an earlier pause or "
                         "resume: the process can only be killed",
                         pid);
        return false;
    }
    return true;
}

/* ---- signals: they wait for the end of a step -------------------------------------- */

static const int held_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void hold_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < GS_ARRAY_LEN(held_signals); i++) {
        (void)sigaddset(&set, held_signals[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
}

static bool is_interrupted(void)
{
    sigset_t set;
    bool found = false;
    if (sigpending(&set) == 0) {
        for (size_t i = 0; i < GS_ARRAY_LEN(held_signals); i++) {
            found |= sigismember(&set, held_signals[i]) == 1;
        }
    }
    return found;
}

/* ---- the steps --------------------------------------------------------------------- */

struct target {
    int pid, state;
    bool locked_here; /* else somebody else's lock stays if none is paused */
};

static bool unlock(int pid)
{
    CUresult result = driver.unlock(pid, NULL);
    return result == CUDA_SUCCESS || say(pid, "unlocking it", result);
}

static bool lock(struct target *target, uint64_t until_ns, unsigned wait_s)
{
    struct lock_args args = {.timeout_ms = LOCK_MS};
    CUresult result;
    do {
        result = driver.lock(target->pid, &args);
    } while (result == CUDA_ERROR_NOT_READY && !is_interrupted() &&
             gs_now_ns() < until_ns);
    if (result == CUDA_SUCCESS) {
        target->state = LOCKED;
        target->locked_here = true;
        return true;
    }
    if (result != CUDA_ERROR_NOT_READY) {
        return say(target->pid, "locking it", result);
    }
    if (!is_interrupted()) {
        gs_launcher_warn("process %d: its work on the GPU took longer than %u s (--wait)",
                         target->pid, wait_s);
    }
    return false;
}

static bool save(struct target *target)
{
    int pid = target->pid;
    CUresult result = driver.save(pid, NULL);
    if (result == CUDA_SUCCESS) {
        gs_mark_paused(pid, true);
        printf("paused %d: its GPU memory is on the host\n", pid);
        (void)fflush(stdout);
        return true;
    }
    (void)say(pid, "copying its memory to the host", result);
    if (find_state(pid, false, &target->state)) {
        bool runs = unlock(pid);
        gs_launcher_warn("process %d: %s", pid,
                         runs ? "it runs on" : "it stays locked: gpushim resume it");
    }
    return false;
}

/* The memory may be another process's for a while. */
static bool restore(struct target *target, unsigned wait_s)
{
    struct gs_wait wait = {.nap_ns = NAP_NS,
                           .longest_ns = NAP_NS,
                           .until_ns = gs_now_ns() + wait_s * NS_PER_S};
    CUresult result = driver.restore(target->pid, NULL);
    bool was_full = result == CUDA_ERROR_OUT_OF_MEMORY;
    while (result == CUDA_ERROR_OUT_OF_MEMORY && !is_interrupted() &&
           gs_wait_step(&wait)) {
        result = driver.restore(target->pid, NULL);
    }
    if (result == CUDA_SUCCESS) {
        gs_mark_paused(target->pid, false);
        return true;
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        gs_launcher_warn("process %d: its GPU is full: it stays paused", target->pid);
        return false;
    }
    if (was_full) {
        gs_launcher_warn(
            "process %d: its GPU was full, and drivers such as 580.95 cannot "
            "resume a process after that",
            target->pid);
    }
    return say(target->pid, "copying its memory back", result);
}

/* ---- all processes ----------------------------------------------------------------- */

/* None is paused: those that were locked run on. */
static int let_go(struct target *targets, size_t locked)
{
    for (size_t i = 0; i < locked; i++) {
        if (targets[i].locked_here) {
            (void)unlock(targets[i].pid);
        }
    }
    gs_launcher_warn("nothing is paused");
    return 1;
}

static int pause_all(struct target *targets, size_t count, unsigned wait_s)
{
    uint64_t until_ns = gs_now_ns() + wait_s * NS_PER_S;
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        if (targets[i].state == RUNNING && !lock(&targets[i], until_ns, wait_s)) {
            return let_go(targets, i);
        }
    }
    if (is_interrupted()) {
        return let_go(targets, count);
    }
    for (size_t i = 0; i < count; i++) {
        if (targets[i].state == SAVED) {
            gs_launcher_warn("process %d: already paused", targets[i].pid);
        } else {
            all &= save(&targets[i]);
        }
    }
    return all ? 0 : 1;
}

static int resume_all(struct target *targets, size_t count, unsigned wait_s)
{
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        if (targets[i].state == SAVED) {
            bool back = restore(&targets[i], wait_s);
            targets[i].state = back ? LOCKED : SAVED;
            all &= back;
        } else if (targets[i].state == RUNNING) {
            const struct gs_live_totals *totals = ask_totals(targets[i].pid);
            if (totals && totals->released_count > 0) {
                say_released(targets[i].pid, totals);
            } else {
                gs_launcher_warn("process %d: not paused", targets[i].pid);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (targets[i].state == LOCKED) {
            bool runs = unlock(targets[i].pid);
            if (runs) {
                printf("resumed %d\n", targets[i].pid);
            }
            all &= runs;
        }
    }
    return all ? 0 : 1;
}

/* ---- the words --------------------------------------------------------------------- */

int gs_pause_run(const struct gs_arguments *arguments)
{
    static struct target targets[MOST_PIDS];
    const bool pauses = arguments->verb == GS_VERB_PAUSE;
    const char *word = pauses ? "pause" : "resume";
    unsigned wait_s = DEFAULT_WAIT_S;
    size_t count = 0, known = 0;
    if (arguments->wait) {
        wait_s = (unsigned)gs_value_number("--wait", arguments->wait, 1, MOST_WAIT_S);
    }
    gs_words_once(arguments->command);
    for (char **pid = arguments->command; *pid; pid++) {
        if (count == MOST_PIDS) {
            gs_launcher_fail(GS_EXIT_USAGE, "%s takes at most %d processes", word,
                             MOST_PIDS);
        }
        targets[count++].pid = (int)gs_value_number("a process", *pid, 1, INT32_MAX);
    }
    if (count == 0) {
        gs_help_refuse(arguments->verb, "%s: no PID is given", word);
    }
    find_driver();
    hold_signals();
    CUresult result = driver.init(0);
    if (result != CUDA_SUCCESS) {
        gs_launcher_fail(1, "cuInit: %s", text_of(result));
    }
    for (size_t i = 0; i < count; i++) {
        if (find_state(targets[i].pid, !pauses, &targets[i].state)) {
            targets[known++] = targets[i];
        }
    }
    if (pauses && known != count) {
        return let_go(targets, 0);
    }
    int status =
        pauses ? pause_all(targets, known, wait_s) : resume_all(targets, known, wait_s);
    return known == count ? status : 1;
}
