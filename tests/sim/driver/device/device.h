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
};

/* Make the devices CUDASIM_DEVICES asks for. Called once, by cuInit. */
enum gs_status sim_device_create_all(void) GS_MUST_USE;

int sim_device_count(void);

/* NULL if there is no such device. */
struct sim_device *sim_device_get(CUdevice ordinal) GS_MUST_USE;

struct sim_space *sim_device_space(int ordinal);

#endif
