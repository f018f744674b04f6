/*
 * external.c - memory of another API, imported, and what is mapped onto it.
 *
 *   external          leaves some: a line that does ends in LEAK (leaky.c), or, where it
 *                     is a view of memory that is counted elsewhere, in VIEW
 *   external clean    gives all back
 *   external errors   destroys what it has destroyed, and prints the answers
 */
#include <sys/mman.h>
#include <unistd.h>

#include "gpu.h"

static bool clean;

/* A file of so many bytes, as another API would export its memory. */
static int export_file(size_t bytes)
{
    int fd = memfd_create("exported", MFD_CLOEXEC);

    app_expect(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0, "a file");
    return fd;
}

#define import(out, bytes)                                                               \
    CU(cuImportExternalMemory)                                                           \
    ((out), &(CUDA_EXTERNAL_MEMORY_HANDLE_DESC){                                         \
                .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,                        \
                .handle = {.fd = export_file(bytes)},                                    \
                .size = (bytes)})
#define map(out, memory, at, bytes)                                                      \
    CU(cuExternalMemoryGetMappedBuffer)                                                  \
    ((out), (memory),                                                                    \
     &(CUDA_EXTERNAL_MEMORY_BUFFER_DESC){.offset = (at), .size = (bytes)})
#define map_array(out, memory)                                                           \
    CU(cuExternalMemoryGetMappedMipmappedArray)                                          \
    ((out), (memory),                                                                    \
     &(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC){                                       \
         .arrayDesc = {.Width = 64,                                                      \
                       .Height = 64,                                                     \
                       .Format = CU_AD_FORMAT_FLOAT,                                     \
                       .NumChannels = 1},                                                \
         .numLevels = 1})

APP_FRAME static void keep_memory(void)
{
    CUexternalMemory memory;

    APP_OK(import(&memory, 1048576)); /* LEAK: keep_memory 1048576 1 */
    if (clean)
        APP_OK(CU(cuDestroyExternalMemory)(memory));
}

APP_FRAME static void keep_buffer(void)
{
    CUexternalMemory memory;
    CUdeviceptr buffer;

    APP_OK(import(&memory, 2097152));
    APP_OK(map(&buffer, memory, 4096, 524288)); /* VIEW: keep_buffer 524288 1 */
    APP_OK(CU(cuDestroyExternalMemory)(memory));
    if (clean)
        APP_OK(CU(cuMemFree)(buffer));
}

APP_FRAME static void keep_array(void)
{
    CUexternalMemory memory;
    CUmipmappedArray levels;

    APP_OK(import(&memory, 2097152));
    APP_OK(map_array(&levels, memory)); /* VIEW: keep_array 16384 1 */
    APP_OK(CU(cuDestroyExternalMemory)(memory));
    if (clean)
        APP_OK(CU(cuMipmappedArrayDestroy)(levels));
}

/* Correct code. */
static void work(void)
{
    CUexternalMemory memory;
    CUdeviceptr buffer;
    CUmipmappedArray levels;

    for (int i = 0; i < 10; i++) {
        APP_OK(import(&memory, 1048576));
        APP_OK(map(&buffer, memory, 0, 8192));
        APP_OK(map_array(&levels, memory));
        APP_OK(CU(cuMemFree)(buffer));
        APP_OK(CU(cuMipmappedArrayDestroy)(levels));
        APP_OK(CU(cuDestroyExternalMemory)(memory));
    }
}

APP_FRAME static void destroy_twice(void)
{
    CUexternalMemory memory;
    CUdeviceptr buffer;

    APP_OK(import(&memory, 1048576));
    APP_OK(map(&buffer, memory, 0, 8192));
    APP_OK(CU(cuMemFree)(buffer));
    printf("mapping freed twice: %d\n", (int)CU(cuMemFree)(buffer));
    APP_OK(CU(cuDestroyExternalMemory)(memory));
    printf("memory destroyed twice: %d\n", (int)CU(cuDestroyExternalMemory)(memory));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "leaks";

    app_gpu_start();
    clean = strcmp(what, "clean") == 0;
    if (strcmp(what, "errors") == 0) {
        destroy_twice();
    } else {
        work();
        keep_memory();
        keep_buffer();
        keep_array();
        work();
    }
    if (clean)
        app_gpu_stop();
    printf("external: %s\n", what);
    return 0;
}
