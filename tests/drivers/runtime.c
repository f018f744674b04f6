/*
 * runtime.c - calls of NVIDIA's runtime over a real driver, on a machine without a
 * device.
 *
 *   runtime LIBRARY     a shared runtime, opened at run time
 *   runtime             built with -DSTATIC and libcudart_static.a: the one inside
 *
 * Prints a line a call: name, code, what was written. Ends with 2 without the runtime.
 * With RUNTIME_WAITS set it then says `ready`, and waits for its standard input to end;
 * the driver, which a runtime without a device closes, stays loaded.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* FUNCTION(name, argument...): addresses of `out` are looked at afterwards. */
#define FUNCTIONS                                                                        \
    FUNCTION(cudaRuntimeGetVersion, out)                                                 \
    FUNCTION(cudaDriverGetVersion, out)                                                  \
    FUNCTION(cudaPeekAtLastError, 0)                                                     \
    FUNCTION(cudaGetDeviceCount, out)                                                    \
    FUNCTION(cudaGetLastError, 0)                                                        \
    FUNCTION(cudaGetDevice, out)                                                         \
    FUNCTION(cudaSetDevice, 0)                                                           \
    FUNCTION(cudaFree, 0)                                                                \
    FUNCTION(cudaMalloc, out, 1024)                                                      \
    FUNCTION(cudaPeekAtLastError, 0)                                                     \
    FUNCTION(cudaMallocPitch, out, out + 1, 100, 100)                                    \
    FUNCTION(cudaMallocHost, out, 1024)                                                  \
    FUNCTION(cudaHostAlloc, out, 1024, 0)                                                \
    FUNCTION(cudaMallocManaged, out, 1024, 1)                                            \
    FUNCTION(cudaMallocAsync, out, 1024, 0)                                              \
    FUNCTION(cudaFreeAsync, 0, 0)                                                        \
    FUNCTION(cudaFree, out)                                                              \
    FUNCTION(cudaFreeHost, 0)                                                            \
    FUNCTION(cudaFreeHost, out)                                                          \
    FUNCTION(cudaFreeArray, 0)                                                           \
    FUNCTION(cudaHostRegister, out, 64, 0)                                               \
    FUNCTION(cudaHostUnregister, out)                                                    \
    FUNCTION(cudaMemGetInfo, out, out + 1)                                               \
    FUNCTION(cudaMemset, out, 0, 64)                                                     \
    FUNCTION(cudaMemcpy, out, out + 8, 64, 0)                                            \
    FUNCTION(cudaMemcpyAsync, out, out + 8, 64, 4, 0)                                    \
    FUNCTION(cudaPointerGetAttributes, out, out)                                         \
    FUNCTION(cudaStreamCreate, out)                                                      \
    FUNCTION(cudaStreamSynchronize, 0)                                                   \
    FUNCTION(cudaEventCreate, out)                                                       \
    FUNCTION(cudaGraphCreate, out, 0)                                                    \
    FUNCTION(cudaDeviceGetDefaultMemPool, out, 0)                                        \
    FUNCTION(cudaIpcGetMemHandle, out, out)                                              \
    FUNCTION(cudaDeviceGetAttribute, out, 1, 0)                                          \
    FUNCTION(cudaDeviceSynchronize, 0)                                                   \
    FUNCTION(cudaGetLastError, 0)                                                        \
    FUNCTION(cudaDeviceReset, 0)                                                         \
    FUNCTION(cudaGetDeviceCount, out)

static long out[1024];

#ifdef STATIC
#define FUNCTION(name, ...) extern int name();
FUNCTIONS
#undef FUNCTION
#define FIND(library, name) ((int (*)())name)
#else
#define FIND(library, name) ((int (*)())dlsym(library, #name))
#endif

static void print(const char *name, int code)
{
    printf("%s %d", name, code);
    for (int i = 0; i < 8; i++)
        printf(" %lx", out[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

    (void)library;
    if (getenv("RUNTIME_WAITS"))
        (void)dlopen("libcuda.so.1", RTLD_NOW | RTLD_NODELETE);
    if (argc > 1 && !library) {
        printf("%s\n", dlerror());
        return 2;
    }
#define FUNCTION(name, ...)                                                              \
    memset(out, 0, sizeof(out));                                                         \
    if (FIND(library, name))                                                             \
        print(#name, FIND(library, name)(__VA_ARGS__));
    FUNCTIONS
    if (getenv("RUNTIME_WAITS")) {
        printf("ready\n");
        fflush(stdout);
        while (getchar() != EOF)
            ;
    }
    return 0;
}
