/*
 * share.h - bytes of device memory that two processes see, by the driver API.
 * Owns: nothing.   Lock: none.
 */
#ifndef APP_SHARE_H
#define APP_SHARE_H

#include "gpu.h"

/* Write the byte pattern of `seed` (app.h) there, and wait until it is there. */
void app_share_put(CUdeviceptr address, size_t bytes, uint32_t seed);

/* Whether that pattern is there. */
bool app_share_holds(CUdeviceptr address, size_t bytes, uint32_t seed);

/* Open a handle as nearly all programs do; returns the driver's code. */
int app_share_open(CUdeviceptr *out, CUipcMemHandle handle);

/* The same by the open of CUDA 4.1, which refuses what is open already. */
int app_share_open_old(CUdeviceptr *out, CUipcMemHandle handle);

#endif
