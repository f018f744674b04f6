/*
 * pause.c - gpushim pause and gpushim resume: the GPU memory of running processes goes to
 * the host and comes back, by the driver's checkpoints.
 *
 * The driver locks the process (its CUDA calls block, its work completes), copies the
 * memory of its devices to the host, and gives the devices up; addresses stay. It does so
 * for any CUDA process, whether the library is in it or not. So a process that cannot be
 * paused runs on, and one that cannot be resumed stays paused: nothing is lost.
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

#include "cuda_names.h"
#include "gs_clock.h"
#include "gs_wait.h"
#include "launcher.h"

#define DEFAULT_WAIT_S 10
#define MOST_WAIT_S    86400
#define NS_PER_S       1000000000ull
#define NAP_NS         (NS_PER_S / 20)

/* CUprocessState, which headers before CUDA 12.8 lack. */
enum { RUNNING, LOCKED, SAVED };

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
    const char *why = result == CUDA_ERROR_NOT_SUPPORTED
                          ? ": this driver, or this process, cannot be checkpointed"
                          : "";
    gs_launcher_warn("process %d: %s: %s%s", pid, step, text_of(result), why);
    return false;
}

/* Returns whether the process has a state; it is said if not. */
static bool find_state(int pid, int *state)
{
    if (kill(pid, 0) != 0 && errno == ESRCH) {
        gs_launcher_warn("process %d: there is none", pid);
        return false;
    }
    CUresult result = driver.state(pid, state);
    return result == CUDA_SUCCESS ||
           (result == CUDA_ERROR_INVALID_VALUE
                ? (gs_launcher_warn("process %d: it does not use CUDA", pid), false)
                : say(pid, "its state", result));
}

/* ---- the two steps of each -----------------------------------------------------------
 */

static bool lock(int pid, unsigned wait_s)
{
    struct lock_args args = {.timeout_ms = wait_s * 1000};
    CUresult result = driver.lock(pid, &args);
    if (result == CUDA_ERROR_NOT_READY) {
        gs_launcher_warn("process %d: its work on the GPU took longer than %u s "
                         "(--wait): it runs on",
                         pid, wait_s);
        return false;
    }
    return result == CUDA_SUCCESS || say(pid, "locking it", result);
}

static bool save(int pid)
{
    CUresult result = driver.save(pid, NULL);
    if (result == CUDA_SUCCESS) {
        return true;
    }
    (void)say(pid, "copying its memory to the host", result);
    result = driver.unlock(pid, NULL);
    if (result != CUDA_SUCCESS) {
        (void)say(pid, "unlocking it", result);
        return false;
    }
    gs_launcher_warn("process %d: it runs on", pid);
    return false;
}

/* The memory may be another process's for a while. */
static bool restore(int pid, unsigned wait_s)
{
    struct gs_wait wait = {.nap_ns = NAP_NS,
                           .longest_ns = NAP_NS,
                           .until_ns = gs_now_ns() + wait_s * NS_PER_S};
    CUresult result = driver.restore(pid, NULL);
    while (result == CUDA_ERROR_OUT_OF_MEMORY && gs_wait_step(&wait)) {
        result = driver.restore(pid, NULL);
    }
    if (result == CUDA_SUCCESS) {
        return true;
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        gs_launcher_warn("process %d: its GPU lacked memory for %u s (--wait): it stays "
                         "paused",
                         pid, wait_s);
        return false;
    }
    return say(pid, "copying its memory back", result);
}

static bool unlock(int pid)
{
    CUresult result = driver.unlock(pid, NULL);
    return result == CUDA_SUCCESS || say(pid, "unlocking it", result);
}

static bool pause_one(int pid, unsigned wait_s)
{
    int state;
    if (!find_state(pid, &state)) {
        return false;
    }
    if (state == SAVED) {
        gs_launcher_warn("process %d: it is paused already", pid);
        return true;
    }
    if (state != LOCKED && !lock(pid, wait_s)) {
        return false;
    }
    if (!save(pid)) {
        return false;
    }
    printf("paused %d: its GPU memory is on the host\n", pid);
    return true;
}

static bool resume_one(int pid, unsigned wait_s)
{
    int state;
    if (!find_state(pid, &state)) {
        return false;
    }
    if (state == RUNNING) {
        gs_launcher_warn("process %d: it is not paused", pid);
        return true;
    }
    if ((state == SAVED && !restore(pid, wait_s)) || !unlock(pid)) {
        return false;
    }
    printf("resumed %d\n", pid);
    return true;
}

/* ---- the words ----------------------------------------------------------------------
 */

static unsigned number_of(const char *what, const char *word, unsigned long least,
                          unsigned long most)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(word, &end, 10);
    if (word[0] < '0' || word[0] > '9' || *end || errno || number < least ||
        number > most) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s is a number from %lu to %lu, not %.100s",
                         what, least, most, word);
    }
    return (unsigned)number;
}

int gs_pause_run(const struct gs_arguments *arguments)
{
    const bool pauses = arguments->verb == GS_VERB_PAUSE;
    unsigned wait_s = DEFAULT_WAIT_S;
    bool all = true;
    if (arguments->wait) {
        wait_s = number_of("--wait", arguments->wait, 1, MOST_WAIT_S);
    }
    if (!arguments->command[0]) {
        gs_launcher_fail(GS_EXIT_USAGE,
                         "%s needs the numbers of processes (see gpushim "
                         "%s --help)",
                         pauses ? "pause" : "resume", pauses ? "pause" : "resume");
    }
    for (char **word = arguments->command; *word; word++) {
        (void)number_of("a process", *word, 1, INT32_MAX);
    }
    find_driver();
    CUresult result = driver.init(0);
    if (result != CUDA_SUCCESS) {
        gs_launcher_fail(1, "cuInit: %s", text_of(result));
    }
    for (char **word = arguments->command; *word; word++) {
        int pid = (int)number_of("a process", *word, 1, INT32_MAX);
        all &= pauses ? pause_one(pid, wait_s) : resume_one(pid, wait_s);
        (void)fflush(stdout);
    }
    return all ? 0 : 1;
}
