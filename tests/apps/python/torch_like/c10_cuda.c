/*
 * c10_cuda.c - a stand-in for PyTorch's libc10_cuda.so: a caching allocator that never
 * gives memory back, with PyTorch's names. A block serves later requests of its size.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

struct c10_device {
    int8_t type, index;
};

#define REPORT_USAGE _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
void REPORT_USAGE(void *memory, int64_t bytes, size_t allocated, size_t reserved,
                  struct c10_device device);
#define ALLOC_BLOCK                                                                      \
    _ZN3c104cuda20CUDACachingAllocator6Native22DeviceCachingAllocator11alloc_blockEm
#define UNCACHED _ZN3c104cuda20CUDACachingAllocator6Native8uncachedEm
#define SHOWN    __attribute__((visibility("default"), noinline))
void *ALLOC_BLOCK(size_t bytes);
void *UNCACHED(size_t bytes);
void *torch_empty(size_t bytes, int reported);
void *torch_uncached(size_t bytes);
void *torch_async(size_t bytes);
void torch_delete(void *memory);
size_t torch_reserved(void);

#define BLOCKS 64
static struct {
    void *memory;
    size_t bytes;
    int used, reported;
} blocks[BLOCKS];

static size_t reserved_bytes;

static void *cuda_malloc(size_t bytes)
{
    static int (*function)(void **pointer, size_t bytes);
    void *memory = NULL;

    if (!function)
        *(void **)&function = dlsym(dlopen("libcudart.so.13", RTLD_NOW), "cudaMalloc");
    return function && function(&memory, bytes) == 0 ? memory : NULL;
}

SHOWN size_t torch_reserved(void)
{
    return reserved_bytes;
}

SHOWN void *ALLOC_BLOCK(size_t bytes)
{
    void *memory = cuda_malloc(bytes);

    __asm__ volatile("" : "+r"(memory)); /* the call keeps its frame */
    reserved_bytes += memory ? bytes : 0;
    return memory;
}

SHOWN void *UNCACHED(size_t bytes)
{
    void *memory = cuda_malloc(bytes);

    __asm__ volatile("" : "+r"(memory));
    return memory;
}

SHOWN void *torch_uncached(size_t bytes)
{
    void *memory = UNCACHED(bytes);

    __asm__ volatile("" : "+r"(memory));
    return memory;
}

/* By PyTorch's other allocator, cudaMallocAsync, which reports nothing. */
SHOWN void *torch_async(size_t bytes)
{
    static int (*function)(void **pointer, size_t bytes, void *stream);
    void *memory = NULL;

    if (!function)
        *(void **)&function =
            dlsym(dlopen("libcudart.so.13", RTLD_NOW), "cudaMallocAsync");
    return function && function(&memory, bytes, NULL) == 0 ? memory : NULL;
}

/* The tensor begins 512 bytes into its block, as those of a shared segment do. */
SHOWN void *torch_empty(size_t bytes, int reported)
{
    int i = 0;

    while (i < BLOCKS - 1 && blocks[i].memory &&
           (blocks[i].used || blocks[i].bytes != bytes))
        i++;
    if (!blocks[i].memory && !(blocks[i].memory = ALLOC_BLOCK(bytes + 512)))
        return NULL;
    blocks[i].bytes = bytes;
    blocks[i].used = 1;
    blocks[i].reported = reported;
    if (reported)
        REPORT_USAGE((char *)blocks[i].memory + 512, (int64_t)bytes, 0, reserved_bytes,
                     (struct c10_device){1, 0});
    return (char *)blocks[i].memory + 512;
}

SHOWN void torch_delete(void *memory)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].memory && (char *)blocks[i].memory + 512 == memory) {
            blocks[i].used = 0;
            if (blocks[i].reported)
                REPORT_USAGE(memory, -(int64_t)blocks[i].bytes, 0, reserved_bytes,
                             (struct c10_device){1, 0});
        }
    }
}
