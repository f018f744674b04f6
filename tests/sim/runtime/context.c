/*
 * context.c - which device and context a runtime call uses; the calls that choose them.
 *
 * The rules (CUDA Runtime API, "Interactions with the CUDA Driver API", and the
 * description of cudaSetDevice since 12.0): a context that the thread has made current is
 * used as it is; otherwise the primary context of the thread's device is retained, once a
 * process, and made current. cudaSetDevice does so at once. cudaDeviceReset destroys the
 * primary context; the next call of any thread brings up a new one.
 *
 * Owns:  the device table and each thread's device.
 * Lock:  device_lock; see each variable.
 */
#include "rt.h"

#include <pthread.h>
#include <stdatomic.h>

struct device {
    CUdevice handle;
    _Atomic(CUcontext) primary; /* remembered after a reset: a stale one is recognised */
    atomic_bool active;         /* primary is retained by the runtime and not reset */
};

static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
/* Filled under device_lock before device_count says so; its members as they say. */
static struct device devices[GS_MAX_DEVICES];
/* 0 until the driver was asked; then immutable. Written under device_lock. */
static atomic_int device_count;
/* What cudaSetValidDevices allows first; -1 is any. Atomic. */
static atomic_int first_valid_device = -1;

/* Device of this thread; -1 before cudaSetDevice. Of this thread alone. */
static _Thread_local int thread_device = -1;

/* In a child of fork() every call fails before it takes the lock, once the parent had
 * started; otherwise nobody can have held it. The handler only keeps that true should the
 * fork fall into the parent's very first call. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&device_lock, NULL);
}

/* At the program's start: a handler that is registered while another thread forks does
 * not run in that child. */
__attribute__((constructor)) static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

static int chosen_device(void)
{
    int first = atomic_load(&first_valid_device);

    if (thread_device >= 0)
        return thread_device;
    return first >= 0 ? first : 0;
}

/* Fill the table once. device_lock is held, the driver has started. */
static CUresult list_devices(void)
{
    int count = 0;
    CUresult result = gs_rt_cu.cuDeviceGetCount_v2000(&count);

    if (result != CUDA_SUCCESS)
        return result;
    if (count > GS_MAX_DEVICES)
        count = GS_MAX_DEVICES;
    for (int i = 0; i < count; i++) {
        result = gs_rt_cu.cuDeviceGet_v2000(&devices[i].handle, i);
        if (result != CUDA_SUCCESS)
            return result;
    }
    atomic_store(&device_count, count);
    return CUDA_SUCCESS;
}

/* cudaErrorNoDevice when there is none. */
static cudaError_t know_devices(void)
{
    CUresult result = CUDA_SUCCESS;

    if (GS_LIKELY(atomic_load_explicit(&device_count, memory_order_acquire) > 0))
        return cudaSuccess;
    pthread_mutex_lock(&device_lock);
    if (atomic_load(&device_count) == 0)
        result = list_devices();
    pthread_mutex_unlock(&device_lock);
    if (result != CUDA_SUCCESS)
        return gs_rt_error_of(result);
    return atomic_load(&device_count) > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t gs_rt_device(int ordinal, CUdevice *handle)
{
    RT_TRY(know_devices());
    if (ordinal < 0 || ordinal >= atomic_load(&device_count))
        return cudaErrorInvalidDevice;
    *handle = devices[ordinal].handle;
    return cudaSuccess;
}

int gs_rt_ordinal(CUdevice handle)
{
    for (int i = 0; i < atomic_load(&device_count); i++)
        if (devices[i].handle == handle)
            return i;
    return -1;
}

/* Retain the primary context unless that has been done. device_lock is held. */
static CUresult activate(struct device *device)
{
    CUcontext context;
    CUresult result;

    if (atomic_load(&device->active))
        return CUDA_SUCCESS;
    result = gs_rt_cu.cuDevicePrimaryCtxRetain_v7000(&context, device->handle);
    if (result != CUDA_SUCCESS)
        return result;
    atomic_store(&device->primary, context);
    atomic_store(&device->active, true);
    return CUDA_SUCCESS;
}

cudaError_t gs_rt_primary_context(int ordinal, CUcontext *context)
{
    CUdevice handle;
    CUresult result;

    RT_TRY(gs_rt_device(ordinal, &handle));
    pthread_mutex_lock(&device_lock);
    result = activate(&devices[ordinal]);
    pthread_mutex_unlock(&device_lock);
    if (result == CUDA_SUCCESS)
        *context = atomic_load(&devices[ordinal].primary);
    return gs_rt_error_of(result);
}

static cudaError_t make_primary_current(int ordinal)
{
    CUcontext context;

    RT_TRY(gs_rt_primary_context(ordinal, &context));
    return gs_rt_error_of(gs_rt_cu.cuCtxSetCurrent_v4000(context));
}

/* The device whose primary context, live or of before a reset, this is; -1 for none. */
static int device_of_primary(CUcontext context)
{
    for (int i = 0; i < atomic_load(&device_count); i++)
        if (atomic_load(&devices[i].primary) == context)
            return i;
    return -1;
}

static cudaError_t enter(void)
{
    CUcontext current = NULL;
    CUresult result;
    int ordinal;

    RT_TRY(gs_rt_start());
    result = gs_rt_cu.cuCtxGetCurrent_v4000(&current);
    if (result != CUDA_SUCCESS)
        return gs_rt_error_of(result);
    if (!current)
        return make_primary_current(chosen_device());
    ordinal = device_of_primary(current);
    if (GS_LIKELY(ordinal < 0 || atomic_load(&devices[ordinal].active)))
        return cudaSuccess;
    return make_primary_current(ordinal);
}

cudaError_t gs_rt_enter(void)
{
    return gs_rt_leave(enter());
}

cudaError_t gs_rt_enter_without_context(void)
{
    cudaError_t error = gs_rt_start();

    return gs_rt_leave(error == cudaSuccess ? know_devices() : error);
}

cudaError_t gs_rt_current_device(int *device)
{
    CUcontext current = NULL;
    CUdevice handle;
    CUresult result = gs_rt_cu.cuCtxGetCurrent_v4000(&current);
    int ordinal;

    if (result != CUDA_SUCCESS)
        return gs_rt_error_of(result);
    if (!current) {
        *device = chosen_device();
        return cudaSuccess;
    }
    ordinal = device_of_primary(current);
    if (ordinal >= 0) {
        *device = ordinal;
        return cudaSuccess;
    }
    result = gs_rt_cu.cuCtxGetDevice_v2000(&handle);
    if (result != CUDA_SUCCESS)
        return gs_rt_error_of(result);
    *device = gs_rt_ordinal(handle);
    return *device >= 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error;

    if (!count)
        return gs_rt_leave(cudaErrorInvalidValue);
    error = gs_rt_enter_without_context();
    *count = error == cudaSuccess ? atomic_load(&device_count) : 0;
    return error;
}

cudaError_t cudaGetDevice(int *device)
{
    if (!device)
        return gs_rt_leave(cudaErrorInvalidValue);
    RT_TRY(gs_rt_enter_without_context());
    return gs_rt_leave(gs_rt_current_device(device));
}

cudaError_t cudaSetDevice(int device)
{
    CUdevice handle;

    RT_TRY(gs_rt_enter_without_context());
    cudaError_t error = gs_rt_device(device, &handle);
    if (error == cudaSuccess)
        error = make_primary_current(device);
    if (error == cudaSuccess)
        thread_device = device;
    return gs_rt_leave(error);
}

cudaError_t cudaSetValidDevices(int *device_arr, int len)
{
    CUdevice handle;

    RT_TRY(gs_rt_enter_without_context());
    if (len == 0) {
        atomic_store(&first_valid_device, -1);
        return cudaSuccess;
    }
    if (!device_arr || len < 0)
        return gs_rt_leave(cudaErrorInvalidValue);
    for (int i = 0; i < len; i++)
        if (gs_rt_device(device_arr[i], &handle) != cudaSuccess)
            return gs_rt_leave(cudaErrorInvalidDevice);
    atomic_store(&first_valid_device, device_arr[0]);
    return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
    CUdevice handle;
    CUcontext context;
    cudaError_t error = gs_rt_enter_without_context();

    if (error == cudaSuccess)
        error = gs_rt_device(device, &handle);
    if (error == cudaSuccess && (flags & ~cudaInitDeviceFlagsAreValid))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && (flags & cudaInitDeviceFlagsAreValid))
        error = gs_rt_error_of(
            gs_rt_cu.cuDevicePrimaryCtxSetFlags_v11000(handle, deviceFlags));
    if (error == cudaSuccess)
        error = gs_rt_primary_context(device, &context);
    return gs_rt_leave(error);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    CUdevice handle;
    int device;
    cudaError_t error = gs_rt_enter_without_context();

    if (error == cudaSuccess)
        error = gs_rt_current_device(&device);
    if (error == cudaSuccess)
        error = gs_rt_device(device, &handle);
    if (error == cudaSuccess)
        error = gs_rt_error_of(gs_rt_cu.cuDevicePrimaryCtxSetFlags_v11000(handle, flags));
    return gs_rt_leave(error);
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    CUdevice handle;
    CUcontext current = NULL;
    int device, active;
    cudaError_t error;

    if (!flags)
        return gs_rt_leave(cudaErrorInvalidValue);
    error = gs_rt_enter_without_context();
    if (error == cudaSuccess)
        error = gs_rt_error_of(gs_rt_cu.cuCtxGetCurrent_v4000(&current));
    if (error == cudaSuccess && current)
        return gs_rt_leave_cu(gs_rt_cu.cuCtxGetFlags_v7000(flags));
    if (error == cudaSuccess)
        error = gs_rt_current_device(&device);
    if (error == cudaSuccess)
        error = gs_rt_device(device, &handle);
    if (error == cudaSuccess)
        error = gs_rt_error_of(
            gs_rt_cu.cuDevicePrimaryCtxGetState_v7000(handle, flags, &active));
    return gs_rt_leave(error);
}

/* The runtime's own reference goes with the context: the next activate() takes a new one,
 * so that references and activations stay balanced. device_lock is held. */
static CUresult reset(struct device *device)
{
    CUresult result = gs_rt_cu.cuDevicePrimaryCtxReset_v7000(device->handle);

    if (result == CUDA_SUCCESS && atomic_load(&device->active)) {
        atomic_store(&device->active, false);
        result = gs_rt_cu.cuDevicePrimaryCtxRelease_v7000(device->handle);
    }
    return result;
}

cudaError_t cudaDeviceReset(void)
{
    CUcontext current = NULL;
    CUdevice handle;
    CUresult result;
    int ordinal;
    cudaError_t error = gs_rt_enter_without_context();

    if (error == cudaSuccess)
        error = gs_rt_current_device(&ordinal);
    if (error == cudaSuccess)
        error = gs_rt_device(ordinal, &handle);
    if (error != cudaSuccess)
        return gs_rt_leave(error);

    pthread_mutex_lock(&device_lock);
    result = reset(&devices[ordinal]);
    pthread_mutex_unlock(&device_lock);
    if (result != CUDA_SUCCESS)
        return gs_rt_leave_cu(result);
    gs_rt_forget_sticky();
    if (gs_rt_cu.cuCtxGetCurrent_v4000(&current) == CUDA_SUCCESS && current &&
        device_of_primary(current) == ordinal)
        result = gs_rt_cu.cuCtxSetCurrent_v4000(NULL);
    return gs_rt_leave_cu(result);
}
