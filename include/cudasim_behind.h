/*
 * cudasim_behind.h - a private table of the simulated driver. A test program uses it to
 * submit work past a layer, as OptiX and NVENC do on a GPU.
 *
 * cuGetExportTable returns a struct cudasim_behind for the GUID below. A stand-in for a
 * library that reaches the driver without that call gets the same table from
 * cudasim_behind_table, which libcuda.so.1 exports. Real drivers have neither, and the
 * simulated one has no table of NVIDIA's.
 *
 * Not installed.   Owns: nothing.   Lock: none.   Design: docs/simulator.md
 */
#ifndef CUDASIM_BEHIND_H
#define CUDASIM_BEHIND_H

#include <cuda.h>
#include <stddef.h>

#define CUDASIM_BEHIND_GUID                                                              \
    {                                                                                    \
        {                                                                                \
            'c', 'u', 'd', 'a', 's', 'i', 'm', ' ', 'b', 'e', 'h', 'i', 'n', 'd', '0',   \
                '1'                                                                      \
        }                                                                                \
    }

struct cudasim_behind {
    size_t size; /* sizeof(struct cudasim_behind), first as in NVIDIA's tables */
    /* cuLaunchKernel, even where a layer has replaced that function. */
    CUresult (*launch)(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                       unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                       unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                       void **params, void **extra);
};

const struct cudasim_behind *cudasim_behind_table(void);

#endif
