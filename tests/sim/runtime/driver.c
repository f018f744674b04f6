/*
 * driver.c - the way from the runtime to the driver: libcuda.so.1 is loaded at the first
 * runtime call that needs it, exactly as NVIDIA's cudart 13.0 does it: dlopen, one dlsym
 * for cuGetProcAddress_v2, then one cuGetProcAddress_v2 for each row of lookups.def, then
 * cuDriverGetVersion and cuInit. An interposer therefore sees the same questions.
 *
 * Owns:  gs_rt_cu and the start state.   Lock: start_lock; see each variable.
 */
#include "rt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum start_state { NOT_STARTED, STARTED, FAILED, FORKED };

/* Written under start_lock before start_state says STARTED, immutable afterwards. */
struct gs_rt_driver gs_rt_cu;

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
/* Written under start_lock, and by the fork handler while the child has one thread. */
static _Atomic enum start_state start_state = NOT_STARTED;
/* What every call returns once start_state is FAILED. Written before start_state. */
static cudaError_t start_error = cudaSuccess;
/* 0 until the driver was asked. Guarded by start_lock. */
static int driver_version;
/* The look-ups were made (or could not be). Guarded by start_lock. */
static bool looked_up;

struct lookup {
    const char *name;
    int version;
    cuuint64_t flags;
    size_t offset; /* in struct gs_rt_driver, NOT_KEPT where nothing is kept */
};

#define NOT_KEPT ((size_t)-1)

static const struct lookup lookups[] = {
#define RT_LOOKUP(name, version)                                                         \
    {#name, version, CU_GET_PROC_ADDRESS_DEFAULT,                                        \
     offsetof(struct gs_rt_driver, name##_v##version)},
#define RT_LOOKUP_PT(name, version, kind)                                                \
    {#name, version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,                      \
     offsetof(struct gs_rt_driver, name##_v##version##_##kind)},
#define RT_LOOKUP_ONLY(name, version, flags) {name, version, flags, NOT_KEPT},
#if GS_RT_MAJOR < 13
#define RT_LOOKUP_BEFORE_13 RT_LOOKUP_ONLY
#else
#define RT_LOOKUP_BEFORE_13(name, version, flags)
#endif
#include "lookups.def"
#undef RT_LOOKUP
#undef RT_LOOKUP_PT
#undef RT_LOOKUP_ONLY
#undef RT_LOOKUP_BEFORE_13
};

/* In the place of functions that this driver lacks; callable with any arguments. The
 * number is one of the runtime's own and reaches the caller as it is. */
static CUresult not_in_this_driver(void)
{
    return (CUresult)cudaErrorCallRequiresNewerDriver;
}

/* What an older driver of the same major version has under an older version alone. */
static void use_older_forms(void)
{
    if ((void *)gs_rt_cu.cuEventElapsedTime_v12080 == (void *)not_in_this_driver)
        gs_rt_cu.cuEventElapsedTime_v12080 = gs_rt_cu.cuEventElapsedTime_v2000;
}

/* A child of a process that has started CUDA cannot use it (CUDA C++ Programming Guide,
 * "Initialization"), and must not wait for locks that other threads held at the fork. */
static void after_fork_in_child(void)
{
    if (atomic_load(&start_state) != NOT_STARTED || looked_up)
        atomic_store(&start_state, FORKED);
    pthread_mutex_init(&start_lock, NULL);
}

/* At the program's start: a handler that is registered while another thread forks does
 * not run in that child. */
__attribute__((constructor)) static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* A driver answers a version newer than itself with the newest function that it has,
 * which may take other arguments: such an answer is not used. */
static void look_up_all(PFN_cuGetProcAddress_v12000 get_proc_address)
{
    void *get_version = NULL;

    if (get_proc_address("cuDriverGetVersion", &get_version, 2020, 0, NULL) !=
            CUDA_SUCCESS ||
        ((PFN_cuDriverGetVersion_v2020)get_version)(&driver_version) != CUDA_SUCCESS)
        driver_version = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(lookups); i++) {
        void *function = NULL;
        CUresult result = CUDA_ERROR_NOT_FOUND;

        /* A runtime asks for nothing newer than itself. */
        if (lookups[i].version <= GS_RT_ASKED)
            result = get_proc_address(lookups[i].name, &function, lookups[i].version,
                                      lookups[i].flags, NULL);
        if (lookups[i].offset == NOT_KEPT)
            continue;
        if (result != CUDA_SUCCESS || !function || lookups[i].version > driver_version)
            function = (void *)not_in_this_driver;
        *(void **)((char *)&gs_rt_cu + lookups[i].offset) = function;
    }
}

/* Load the driver and ask its version, once. start_lock is held. */
static void find_driver(void)
{
    if (looked_up)
        return;
    looked_up = true;

    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return;
    void *get_proc_address = dlsym(library, "cuGetProcAddress_v2");
    if (!get_proc_address)
        return;
    look_up_all((PFN_cuGetProcAddress_v12000)get_proc_address);
    use_older_forms();
}

/* start_lock is held. */
static cudaError_t start(void)
{
    find_driver();
    if (driver_version / 1000 < GS_RT_VERSION / 1000)
        return cudaErrorInsufficientDriver;
    return gs_rt_error_of(gs_rt_cu.cuInit_v2000(0));
}

static cudaError_t start_slowly(void)
{
    if (atomic_load(&start_state) == FORKED)
        return cudaErrorInitializationError;

    pthread_mutex_lock(&start_lock);
    if (atomic_load(&start_state) == NOT_STARTED) {
        start_error = start();
        atomic_store(&start_state, start_error == cudaSuccess ? STARTED : FAILED);
    }
    pthread_mutex_unlock(&start_lock);
    return start_error;
}

cudaError_t gs_rt_start(void)
{
    enum start_state state = atomic_load_explicit(&start_state, memory_order_acquire);

    if (GS_LIKELY(state == STARTED))
        return cudaSuccess;
    return start_slowly();
}

int gs_rt_driver_version(void)
{
    int version;

    pthread_mutex_lock(&start_lock);
    find_driver();
    version = driver_version;
    pthread_mutex_unlock(&start_lock);
    return version;
}
