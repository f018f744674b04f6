/*
 * nvml.c - queries NVIDIA's management library for this process's memory on each device.
 *
 * The library uses the two oldest calls that list processes: the third one's result
 * format has changed under the same name.
 *
 * When a process ends, the driver destroys its contexts in exit handlers of its own. So
 * the query is made in a handler that is registered later, and hence runs earlier.
 *
 * Owns:  the answers.   Lock: none; one query at a time (`busy`), whose thread publishes
 *        by release.   Source: NVML API Reference Guide
 */
#include "shim/report/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_wait.h"
#include "shim/limits/platform.h"
#include "shim/link/linker.h"
#include "shim/link/real.h"
#include "shim/settings/environment.h"
#include "shim/settings/log.h"
#include "shim/settings/own_thread.h"
#include "shim/state/state.h"
#include "tracker/names/loader_gate.h"

#define PATIENCE_MS 2000u
#define NS_PER_MS   1000000ull
#define MOST        1024u /* processes on a device */

/* Inode of the initial process namespace (linux/proc_ns.h): its process ids are the
 * host's. */
#define FIRST_PID_NAMESPACE 0xEFFFFFFCu

#define SUCCESS       0
#define NOT_AVAILABLE UINT64_MAX
#define NO_INSTANCE   UINT32_MAX

struct process_old {
    unsigned pid;
    unsigned long long used_bytes;
};

struct process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance; /* NO_INSTANCE, or 0 if the call has none */
};

typedef int init_fn(void);
typedef int by_bus_fn(const char *bus, void **device);
typedef int list_fn(void *device, unsigned *count, void *list);

bool gs_nvml_wanted;  /* immutable after start-up */
bool gs_nvml_managed; /* atomic */

static struct {
    init_fn *init;
    by_bus_fn *by_bus;
    list_fn *list, *list_old;
} nvml; /* used by the querying thread */

static struct {
    char bus[GS_MAX_DEVICES][32]; /* written before `known`, which is atomic */
    bool known[GS_MAX_DEVICES];
    bool handler_set; /* atomic */
    bool busy;        /* atomic */
    bool given_up;    /* atomic: a querying thread has not returned */
    bool final;       /* atomic: the process ends */
    bool done;        /* atomic: the querying thread has finished */
    const char *problem;
    uint64_t used[GS_MAX_DEVICES]; /* NOT_AVAILABLE: no answer */
    uint64_t rest[GS_MAX_DEVICES]; /* atomic: the same */
} account;

static void set_rest(int ordinal, uint64_t bytes)
{
    __atomic_store_n(&account.rest[ordinal], bytes, __ATOMIC_RELAXED);
}

static void forget_rests(void)
{
    for (int i = 0; i < GS_MAX_DEVICES; i++) {
        set_rest(i, NOT_AVAILABLE);
    }
}

static void log_reason(int ordinal, const char *why)
{
    gs_log_line(GS_LOG_INFO, "GPU %d: %s: driver overhead is not reported", ordinal, why);
}

void gs_nvml_start(const struct gs_options *options)
{
    gs_nvml_wanted = options->nvml;
    forget_rests();
}

/* ---- the query ------------------------------------------------------------------ */

static const char *load(void)
{
    gs_dlsym_fn *find = gs_linker_dlsym();
    if (nvml.init) {
        return NULL;
    }
    if (!find || !gs_loader_enter()) {
        return "the process forks";
    }
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    gs_loader_leave();
    if (!library) {
        return "there is no libnvidia-ml.so.1";
    }
    nvml.by_bus = (by_bus_fn *)find(library, "nvmlDeviceGetHandleByPciBusId_v2");
    nvml.list = (list_fn *)find(library, "nvmlDeviceGetComputeRunningProcesses_v2");
    nvml.list_old = (list_fn *)find(library, "nvmlDeviceGetComputeRunningProcesses");
    init_fn *init = (init_fn *)find(library, "nvmlInit_v2");
    if (!init || !nvml.by_bus || (!nvml.list && !nvml.list_old) || init() != SUCCESS) {
        return "libnvidia-ml.so.1 does not answer";
    }
    nvml.init = init;
    return NULL;
}

/* The sum of all entries with this process's id; NOT_AVAILABLE if one is not for a whole
 * device. */
static uint64_t used_by(unsigned pid, const struct process *list, unsigned count)
{
    uint64_t sum = 0;
    bool found = false;
    for (unsigned i = 0; i < count; i++) {
        if (list[i].pid != pid) {
            continue;
        }
        if (list[i].used_bytes == NOT_AVAILABLE ||
            (list[i].gpu_instance != NO_INSTANCE && list[i].gpu_instance != 0)) {
            return NOT_AVAILABLE;
        }
        sum += list[i].used_bytes;
        found = true;
    }
    return found ? sum : NOT_AVAILABLE;
}

static uint64_t query_device(const char *bus, unsigned pid)
{
    static struct process list[MOST];
    static struct process_old old[MOST];
    void *device = NULL;
    unsigned count = MOST;
    if (nvml.by_bus(bus, &device) != SUCCESS) {
        return NOT_AVAILABLE;
    }
    if (nvml.list && nvml.list(device, &count, list) == SUCCESS) {
        return used_by(pid, list, count < MOST ? count : MOST);
    }
    count = MOST;
    if (!nvml.list_old || nvml.list_old(device, &count, old) != SUCCESS) {
        return NOT_AVAILABLE;
    }
    count = count < MOST ? count : MOST;
    for (unsigned i = 0; i < count; i++) {
        list[i] = (struct process){.pid = old[i].pid, .used_bytes = old[i].used_bytes};
    }
    return used_by(pid, list, count);
}

static void *query_thread(void *unused)
{
    (void)unused;
    gs_thread.depth = 1;
    account.problem = load();
    for (size_t i = 0; i < GS_MAX_DEVICES; i++) {
        bool known = __atomic_load_n(&account.known[i], __ATOMIC_ACQUIRE);
        account.used[i] = known && !account.problem
                              ? query_device(account.bus[i], (unsigned)getpid())
                              : NOT_AVAILABLE;
    }
    __atomic_store_n(&account.done, true, __ATOMIC_RELEASE);
    return NULL;
}

static bool query_in_time(void)
{
    __atomic_store_n(&account.done, false, __ATOMIC_RELAXED);
    if (!gs_own_thread("gpushim-nvml", query_thread)) {
        return false;
    }
    struct gs_wait wait = {.nap_ns = NS_PER_MS,
                           .until_ns = gs_now_ns() + PATIENCE_MS * NS_PER_MS};
    while (!__atomic_load_n(&account.done, __ATOMIC_ACQUIRE)) {
        if (!gs_wait_step(&wait)) {
            return false;
        }
    }
    return true;
}

/* ---- memory beyond the known ---------------------------------------------------- */

static bool anything_live(const struct gs_state *state)
{
    struct gs_tracker_totals totals;
    for (int i = 0; i < GS_MAX_DEVICES; i++) {
        gs_tracker_get_totals(state->tracker, i, &totals);
        if (totals.live_count > 0) {
            return true;
        }
    }
    return false;
}

static uint64_t rest_of(const struct gs_state *state, int ordinal, uint64_t used)
{
    struct gs_tracker_totals totals;
    struct gs_pool_stats stats = {0};
    gs_tracker_get_totals(state->tracker, ordinal, &totals);
    if (state->pool) {
        gs_pool_stats(state->pool, ordinal, &stats);
    }
    uint64_t busy = stats.used_bytes + stats.pending_bytes;
    uint64_t idle = stats.reserved_bytes > busy ? stats.reserved_bytes - busy : 0;
    uint64_t known = totals.live_bytes + idle + stats.pending_bytes;
    return used >= known ? used - known : NOT_AVAILABLE;
}

static void take_answers(const struct gs_state *state)
{
    for (int i = 0; i < GS_MAX_DEVICES; i++) {
        uint64_t rest = account.used[i] == NOT_AVAILABLE
                            ? NOT_AVAILABLE
                            : rest_of(state, i, account.used[i]);
        set_rest(i, rest);
        if (rest == NOT_AVAILABLE &&
            __atomic_load_n(&account.known[i], __ATOMIC_ACQUIRE)) {
            log_reason(i, account.problem ? account.problem
                          : account.used[i] == NOT_AVAILABLE
                              ? "NVML has no value for this process"
                              : "NVML reports less memory than gpushim has recorded");
        }
    }
}

void gs_nvml_query(struct gs_state *state)
{
    if (!gs_nvml_wanted || !state->tracker ||
        !__atomic_load_n(&account.handler_set, __ATOMIC_ACQUIRE) ||
        __atomic_load_n(&account.final, __ATOMIC_ACQUIRE) ||
        __atomic_load_n(&account.given_up, __ATOMIC_ACQUIRE) || !anything_live(state) ||
        __atomic_exchange_n(&account.busy, true, __ATOMIC_ACQ_REL)) {
        return;
    }
    if (query_in_time()) {
        take_answers(state);
    } else {
        __atomic_store_n(&account.given_up, true, __ATOMIC_RELEASE);
        forget_rests();
        gs_log_line(
            GS_LOG_WARN,
            "GPUSHIM_NVML=on: libnvidia-ml.so.1 has not answered within %u ms and "
            "is not queried again",
            PATIENCE_MS);
    }
    __atomic_store_n(&account.busy, false, __ATOMIC_RELEASE);
}

bool gs_nvml_rest(int ordinal, uint64_t *bytes)
{
    if (!gs_nvml_wanted || ordinal < 0 || ordinal >= GS_MAX_DEVICES ||
        __atomic_load_n(&gs_nvml_managed, __ATOMIC_RELAXED)) {
        return false;
    }
    uint64_t rest = __atomic_load_n(&account.rest[ordinal], __ATOMIC_RELAXED);
    if (rest == NOT_AVAILABLE) {
        return false;
    }
    *bytes = rest;
    return true;
}

static void at_exit(void)
{
    struct gs_state *state = gs_state_peek();
    if (state && state->pid == getpid() && gs_thread.depth == 0) {
        gs_nvml_query(state);
        __atomic_store_n(&account.final, true, __ATOMIC_RELEASE);
    }
}

/* ---- the devices ---------------------------------------------------------------- */

/* Returns the reason why NVML's statistic for the device is not this process's; NULL: it
 * is. */
static const char *why_unusable(int ordinal)
{
    struct gs_platform platform =
        gs_platform_read(ordinal, "", gs_environment_of_process());
    struct stat info;
    if (platform.integrated || platform.wsl) {
        return "NVML has no values here";
    }
    if (platform.mps) {
        return "under MPS NVML's values are the server's";
    }
    if (platform.mig) {
        return "NVML's values are not a MIG slice's";
    }
    if (stat("/proc/self/ns/pid", &info) != 0 || info.st_ino != FIRST_PID_NAMESPACE) {
        return "NVML has other process ids than this container";
    }
    return NULL;
}

void gs_nvml_add_device(int ordinal)
{
    const struct gs_real *real = gs_real();
    if (!gs_nvml_wanted || ordinal < 0 || ordinal >= GS_MAX_DEVICES - 1 ||
        __atomic_load_n(&account.known[ordinal], __ATOMIC_ACQUIRE)) {
        return;
    }
    const char *why = why_unusable(ordinal);
    char bus[sizeof(account.bus[0])] = "";
    if (!why && (!real->cuDeviceGetPCIBusId ||
                 real->cuDeviceGetPCIBusId(bus, sizeof(bus), ordinal) != CUDA_SUCCESS)) {
        why = "its PCI bus id is not known";
    }
    if (why) {
        log_reason(ordinal, why);
        return;
    }
    memcpy(account.bus[ordinal], bus, sizeof(bus));
    __atomic_store_n(&account.known[ordinal], true, __ATOMIC_RELEASE);
    if (!__atomic_exchange_n(&account.handler_set, true, __ATOMIC_ACQ_REL)) {
        (void)atexit(at_exit);
    }
}

void gs_nvml_reset(void)
{
    bool handler_set = account.handler_set;
    memset(&account, 0, sizeof(account));
    memset(&nvml, 0, sizeof(nvml));
    account.handler_set = handler_set;
    forget_rests();
    gs_nvml_wanted = false;
    gs_nvml_managed = false;
}
