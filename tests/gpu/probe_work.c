/*
 * probe_work.c - kernels that keep the GPU busy: for a time, or until they are let go.
 *
 * A held kernel (gs_wait) watches a word of pinned memory. It never outlives its purpose:
 * a thread of ours writes that word when the limit has passed, and so do every way this
 * process ends and the handlers of its signals.
 * Owns: the flag and the hold.   Lock: hold_lock guards `ending`; the flag is one word
 * that only ever goes from 0 to 1 while a kernel is held.
 */
#include "probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "kernels.h"
#include "kernels_ptx.h"

#define PAGE_BYTES ((size_t)4096)

/* Of the thread that asks; read by the handlers. */
static volatile uint32_t *_Atomic flag;
static CUdeviceptr flag_address; /* immutable once made */

static pthread_mutex_t hold_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t
    hold_ends;       /* initialized with the flag; waits on the monotonic clock */
static bool ending;  /* hold_lock */
static bool holding; /* the thread that asks */
static CUcontext held_context;     /* likewise */
static pthread_t watchdog;         /* likewise */
static uint64_t watchdog_limit_ns; /* written before the watchdog starts */
static atomic_bool expired;

/* ---- places
 * ------------------------------------------------------------------------------ */

static void push(CUcontext context)
{
    PROBE_OK(driver.cuCtxPushCurrent_v2(context));
}

static void pop(void)
{
    CUcontext old;

    PROBE_OK(driver.cuCtxPopCurrent_v2(&old));
}

static void launch(const struct probe_place *place, CUfunction function, void **arguments)
{
    push(place->context);
    PROBE_OK(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, place->stream,
                                   arguments, NULL));
    pop();
}

void probe_spin(const struct probe_place *place, uint64_t ns)
{
    void *arguments[] = {&ns};

    launch(place, place->spin, arguments);
}

CUresult probe_launch_empty(const struct probe_place *place)
{
    CUdeviceptr nothing = 0;
    uint64_t count = 0;
    uint32_t seed = 0;
    void *arguments[] = {&nothing, &count, &seed};

    return driver.cuLaunchKernel(place->fill, 1, 1, 1, 1, 1, 1, 0, place->stream,
                                 arguments, NULL);
}

/* Load the kernels into the place's context and run each once: a first launch may load
 * code, which is not what is measured. */
static void load_kernels(struct probe_place *place)
{
    CUdeviceptr address = probe_hold_flag();
    void *arguments[] = {&address};
    CUmodule module;

    push(place->context);
    PROBE_OK(driver.cuModuleLoadData(&module, gs_kernels_ptx));
    PROBE_OK(driver.cuModuleGetFunction(&place->wait, module, "gs_wait"));
    PROBE_OK(driver.cuModuleGetFunction(&place->spin, module, "gs_spin"));
    PROBE_OK(driver.cuModuleGetFunction(&place->fill, module, "gs_fill"));
    PROBE_OK(probe_launch_empty(place));
    pop();
    *flag = 1;
    launch(place, place->wait, arguments);
    probe_spin(place, 1000);
    push(place->context);
    PROBE_OK(driver.cuCtxSynchronize());
    pop();
}

void probe_place_on_stream(struct probe_place *place, CUcontext context, CUstream stream)
{
    place->context = context;
    place->stream = stream;
    load_kernels(place);
}

static CUcontext second_context(void)
{
    CUcontext context, old;

    PROBE_OK(driver.cuCtxCreate_v2(&context, 0, 0));
    PROBE_OK(driver.cuCtxPopCurrent_v2(&old));
    return context;
}

/* The second device's primary context, able to access the first device's memory. */
static CUcontext peer_context(void)
{
    CUcontext first, second;
    int count = 0, able = 0;

    PROBE_OK(driver.cuDeviceGetCount(&count));
    if (count < 2)
        probe_not_supported("one device only");
    PROBE_OK(driver.cuDeviceCanAccessPeer(&able, 1, 0));
    if (!able)
        probe_not_supported("device 1 cannot access device 0");
    PROBE_OK(driver.cuCtxGetCurrent(&first));
    PROBE_OK(driver.cuDevicePrimaryCtxRetain(&second, 1));
    push(second);
    PROBE_OK(driver.cuCtxEnablePeerAccess(first, 0));
    pop();
    return second;
}

void probe_place_open(struct probe_place *place, enum probe_kind kind)
{
    CUcontext context;
    CUstream stream = NULL;

    PROBE_OK(driver.cuCtxGetCurrent(&context));
    if (kind == PROBE_CONTEXT)
        context = second_context();
    else if (kind == PROBE_PEER)
        context = peer_context();
    push(context);
    if (kind == PROBE_PER_THREAD)
        stream = CU_STREAM_PER_THREAD;
    else if (kind == PROBE_BLOCKING)
        PROBE_OK(driver.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    else if (kind != PROBE_LEGACY)
        PROBE_OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    pop();
    probe_place_on_stream(place, context, stream);
}

/* ---- held kernels
 * ------------------------------------------------------------------------ */

CUdeviceptr probe_hold_flag(void)
{
    pthread_condattr_t attributes;
    void *page;

    if (flag)
        return flag_address;
    if (pthread_condattr_init(&attributes) != 0 ||
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
        pthread_cond_init(&hold_ends, &attributes) != 0)
        probe_failed("no condition variable on the monotonic clock");
    pthread_condattr_destroy(&attributes);
    PROBE_OK(driver.cuMemHostAlloc(&page, PAGE_BYTES,
                                   CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    PROBE_OK(driver.cuMemHostGetDevicePointer_v2(&flag_address, page, 0));
    flag = page;
    *flag = 1;
    return flag_address;
}

void probe_hold_release_all(void)
{
    volatile uint32_t *word = flag;

    if (word)
        *word = 1;
}

/* Lets the kernel go when the limit has passed, unless the hold ends before. */
static void *watch(void *unused)
{
    struct timespec until;
    uint64_t end_ns = probe_now_ns() + watchdog_limit_ns;

    (void)unused;
    until.tv_sec = (time_t)(end_ns / 1000000000u);
    until.tv_nsec = (long)(end_ns % 1000000000u);
    pthread_mutex_lock(&hold_lock);
    while (!ending)
        if (pthread_cond_timedwait(&hold_ends, &hold_lock, &until) == ETIMEDOUT)
            break;
    if (!ending)
        atomic_store(&expired, true);
    pthread_mutex_unlock(&hold_lock);
    probe_hold_release_all();
    return NULL;
}

void probe_hold_arm(uint64_t limit_ns)
{
    if (holding)
        probe_failed("a kernel is held already");
    probe_hold_flag();
    PROBE_OK(driver.cuCtxGetCurrent(&held_context));
    *flag = 0;
    ending = false;
    atomic_store(&expired, false);
    watchdog_limit_ns = limit_ns;
    if (pthread_create(&watchdog, NULL, watch, NULL) != 0) {
        *flag = 1;
        probe_failed("no thread to end the kernel with");
    }
    holding = true;
}

void probe_hold_add(const struct probe_place *place)
{
    CUdeviceptr address = flag_address;
    void *arguments[] = {&address};

    launch(place, place->wait, arguments);
}

void probe_hold_begin(const struct probe_place *place, uint64_t limit_ns)
{
    probe_hold_arm(limit_ns);
    held_context = place->context;
    probe_hold_add(place);
}

bool probe_hold_expired(void)
{
    return atomic_load(&expired);
}

bool probe_hold_end(void)
{
    pthread_mutex_lock(&hold_lock);
    ending = true;
    pthread_cond_signal(&hold_ends);
    pthread_mutex_unlock(&hold_lock);
    pthread_join(watchdog, NULL);
    holding = false;
    push(held_context);
    PROBE_OK(driver.cuCtxSynchronize());
    pop();
    return atomic_load(&expired);
}
