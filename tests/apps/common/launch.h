/*
 * launch.h - the named kernels of tests/sim/kernels, launched through the driver API.
 *
 * The kernels come from PTX text, so that no nvcc is needed. In a program of the runtime
 * API the driver is reached beside it by dlopen, as many libraries do.
 * Owns: nothing.   Lock: none; a loaded struct app_kernels may be used from any thread
 * that has the same context current.
 */
#ifndef APP_LAUNCH_H
#define APP_LAUNCH_H

#include "gpu.h"

struct app_kernels {
    CUmodule module;
    CUfunction fill, check, copy, add, spin, wait;
};

/* Load them into the current context. */
void app_kernels_load(struct app_kernels *out);
void app_kernels_unload(struct app_kernels *kernels);

/* `count` is in 32-bit words everywhere; all of these only queue work on the stream. */
void app_fill(const struct app_kernels *kernels, gpu_ptr dst, size_t count, uint32_t seed,
              gpu_stream stream);
void app_copy(const struct app_kernels *kernels, gpu_ptr dst, gpu_ptr src, size_t count,
              gpu_stream stream);
void app_add(const struct app_kernels *kernels, gpu_ptr dst, gpu_ptr src, size_t count,
             gpu_stream stream);
void app_spin(const struct app_kernels *kernels, uint64_t nanoseconds, gpu_stream stream);

/* A kernel that runs until *flag, which is page-locked memory, is no longer 0. */
void app_hold(const struct app_kernels *kernels, const uint32_t *flag, gpu_stream stream);

/* Add to the word at `counter`, in device memory, the words of `src` that differ from the
 * pattern of `seed`. */
void app_count_wrong(const struct app_kernels *kernels, gpu_ptr src, size_t count,
                     uint32_t seed, gpu_ptr counter, gpu_stream stream);

/*
 * Words of `src` that differ from the pattern of `seed`. Allocates and frees a counter of
 * four bytes on the device, and waits for the stream.
 */
uint32_t app_mismatches(const struct app_kernels *kernels, gpu_ptr src, size_t count,
                        uint32_t seed, gpu_stream stream);

#endif
