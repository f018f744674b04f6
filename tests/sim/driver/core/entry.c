/*
 * entry.c - the door of the driver: initialization, fork, and the checks every entry
 * point makes first. Owns:  the process state.   Lock: init_lock while cuInit runs; the
 * state is atomic.
 */
#include <dlfcn.h>
#include <time.h>

#include "checkpoint.h"
#include "config.h"
#include "context.h"
#include "device.h"
#include "fault.h"
#include "green.h"
#include "latency.h"
#include "log.h"
#include "order.h"
#include "sched.h"
#include "thread.h"
#include "version.h"

enum process_state {
    NOT_INITIALIZED,
    READY,
    NO_DEVICE,
    FORKED, /* a child of an initialized process: its threads and its device are gone */
};

static atomic_int process_state;                              /* enum process_state */
static atomic_bool initializing;                              /* cuInit runs */
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER; /* remade in a child */

static const char *const api_names[] = {
#define SIM_SYMBOL(symbol, base, since, thread, state) #symbol,
#include "symbols.def"
#undef SIM_SYMBOL
};

const char *sim_api_name(enum sim_api api)
{
    return api_names[api];
}

uint64_t sim_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* No lock is held around a fork: another library's handler may make a CUDA call, and wait
 * for a thread in cuInit. The child of a fork during cuInit has half of what that made.
 */
static void after_fork_child(void)
{
    pthread_mutex_init(&init_lock, NULL);
    if (atomic_load(&process_state) == READY || atomic_load(&initializing))
        atomic_store(&process_state, FORKED);
    atomic_store(&initializing, false);
}

/* The child of a fork in progress runs no handler that is registered meanwhile. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork_child);
}

/* Defined at link time in the driver that a test closes after use (CMakeLists.txt). */
extern const char sim_may_close[] __attribute__((weak, visibility("hidden")));

/* From now on dlclose unloads nothing: worker threads run in this library for as long as
 * the process lives. */
static void stay_loaded(void)
{
    Dl_info info;

    if (!sim_may_close && dladdr(&process_state, &info) != 0)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Not CUDA_ERROR_NOT_INITIALIZED; 0: the others. */
static const uint16_t before_init[SIM_API_COUNT] = {
#define SIM_BEFORE_INIT(symbol, code) [SIM_ID_##symbol] = (code),
#include "before_init.def"
#undef SIM_BEFORE_INIT
};

static CUresult state_error(int state)
{
    if (GS_LIKELY(state == READY))
        return CUDA_SUCCESS;
    return state == NO_DEVICE ? CUDA_ERROR_NO_DEVICE : CUDA_ERROR_NOT_INITIALIZED;
}

bool sim_is_ready(void)
{
    return atomic_load_explicit(&process_state, memory_order_acquire) == READY;
}

bool sim_found_no_device(void)
{
    return atomic_load_explicit(&process_state, memory_order_acquire) == NO_DEVICE;
}

CUresult sim_enter(enum sim_api api)
{
    CUresult res = sim_version_check(api);

    if (GS_UNLIKELY(res != CUDA_SUCCESS))
        return res;
    int state = atomic_load_explicit(&process_state, memory_order_acquire);
    if (GS_UNLIKELY(state != READY))
        return state != FORKED && before_init[api] ? (CUresult)before_init[api]
                                                   : CUDA_ERROR_NOT_INITIALIZED;
    if (GS_UNLIKELY(sim_in_host_function()))
        return CUDA_ERROR_NOT_PERMITTED;
    sim_checkpoint_pass(api);
    sim_sched_point();
    if (GS_UNLIKELY(sim_config()->log_level >= 2))
        sim_log(2, "%s", sim_api_name(api));
    if (oracle_on)
        sim_thread_enters(api);
    res = GS_UNLIKELY(sim_fault_armed) ? sim_fault_next(api) : CUDA_SUCCESS;
    if (GS_UNLIKELY(sim_latency_armed) && res == CUDA_SUCCESS)
        sim_latency_enter(api);
    return res;
}

CUresult sim_enter_maybe_context(enum sim_api api, struct sim_context **out)
{
    SIM_TRY(sim_enter(api));
    struct sim_context *context = sim_thread_current();
    *out = context;
    if (!context)
        return CUDA_SUCCESS;
    const struct sim_green *green = sim_green_current();
    if (!atomic_load_explicit(&context->alive, memory_order_acquire) ||
        (green && !sim_green_lives(green)))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return sim_context_error(context);
}

CUresult sim_enter_context(enum sim_api api, struct sim_context **out)
{
    SIM_TRY(sim_enter_maybe_context(api, out));
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_API(cuInit, unsigned int flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (GS_LIKELY(atomic_load_explicit(&process_state, memory_order_acquire) == READY))
        return sim_enter(SIM_ID_cuInit);
    pthread_mutex_lock(&init_lock);
    int state = atomic_load(&process_state);
    if (state == NOT_INITIALIZED) {
        atomic_store(&initializing, true);
        sim_fault_load();
        sim_latency_load();
        sim_order_start();
        state = NO_DEVICE;
        if (sim_config()->devices > 0)
            state = sim_device_create_all() == GS_OK ? READY : NOT_INITIALIZED;
        if (state == READY)
            sim_checkpoint_start();
        atomic_store_explicit(&process_state, state, memory_order_release);
        atomic_store(&initializing, false);
    }
    pthread_mutex_unlock(&init_lock);
    if (state == NOT_INITIALIZED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (state == READY)
        stay_loaded();
    return state == READY ? sim_enter(SIM_ID_cuInit) : state_error(state);
}

SIM_API(cuDriverGetVersion, int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = sim_config()->driver_version;
    return CUDA_SUCCESS;
}
