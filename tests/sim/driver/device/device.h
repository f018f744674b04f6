/*
 * device.h - the simulated devices.
 * Owns: devices, their primary contexts and memory.   Lock: device->lock.
 */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include "context.h"

struct sim_pool;

struct sim_device {
    int ordinal;
    pthread_mutex_t lock;        /* serializes retain, release and reset of the primary */
    struct sim_space *space;     /* immutable after cuInit */
    struct sim_context *primary; /* immutable after cuInit; lives and dies in place */
    struct sim_pool *default_pool; /* immutable after cuInit */
    struct sim_pool *current_pool; /* lock; with a reference */
    atomic_bool lost;              /* for good: an injected fault */
};

/* Make the devices CUDASIM_DEVICES asks for. Called once, by cuInit. */
enum gs_status sim_device_create_all(void) GS_MUST_USE;

int sim_device_count(void);

/* NULL if there is no such device. */
struct sim_device *sim_device_get(CUdevice ordinal) GS_MUST_USE;

struct sim_space *sim_device_space(int ordinal);

/* Retain the primary context, which then lives, or release it: cuDevicePrimaryCtxRetain,
 * cuDevicePrimaryCtxRelease. Both take device->lock. */
CUresult sim_device_retain_primary(struct sim_device *device,
                                   struct sim_context **out) GS_MUST_USE;
CUresult sim_device_release_primary(struct sim_device *device) GS_MUST_USE;

/* What cuDeviceGetAttribute answers for every device alike. */
int sim_device_attribute(CUdevice_attribute attribute);

/* What everything of a lost device answers. */
#define SIM_DEVICE_LOST CUDA_ERROR_DEVICE_UNAVAILABLE

/*
 * The device is gone, as if it had fallen off the bus: what its contexts have queued is
 * dropped, each of their later calls answers SIM_DEVICE_LOST, and no context can be made
 * on it any more. Any thread, without locks.
 */
void sim_device_lose(int ordinal);

bool sim_device_is_lost(int ordinal) GS_MUST_USE;

#endif
