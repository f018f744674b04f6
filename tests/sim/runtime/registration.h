/*
 * registration.h - the functions that code compiled by nvcc calls and that no header for
 * C declares: signatures as in crt/host_runtime.h and crt/device_functions.h (CUDA 13.0).
 * Included by rt.h under the visibility of the API.
 * Owns:  nothing.   Lock: none.
 */
#ifndef GS_SIM_RT_REGISTRATION_H
#define GS_SIM_RT_REGISTRATION_H

void **__cudaRegisterFatBinary(void *fat_binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host_fun, char *device_fun,
                            const char *device_name, int thread_limit, uint3 *tid,
                            uint3 *bid, dim3 *block_dim, dim3 *grid_dim, int *warp_size);
void __cudaRegisterVar(void **handle, char *host_var, char *device_address,
                       const char *device_name, int ext, size_t size, int constant,
                       int global);
void __cudaRegisterManagedVar(void **handle, void **host_var, char *device_address,
                              const char *device_name, int ext, size_t size, int constant,
                              int global);
char __cudaInitModule(void **handle);

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes,
                                       void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *entry);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared_bytes, cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block,
                                    void **args, size_t shared_bytes,
                                    cudaStream_t stream);

#endif
