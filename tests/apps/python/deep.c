/*
 * deep.c - a library of C that calls itself as often as it is told before it allocates:
 * what lies between Python and the runtime in a framework with a dispatcher.
 */
#include <dlfcn.h>
#include <stddef.h>

int deep_malloc(int depth, void **pointer, size_t bytes);

/* The CUDA runtime's code; -1: the program has no runtime. */
__attribute__((visibility("default"), noinline)) int
deep_malloc(int depth, void **pointer, size_t bytes)
{
    static int (*cuda_malloc)(void **pointer, size_t bytes);
    int code = -1;

    if (depth > 0) {
        code = deep_malloc(depth - 1, pointer, bytes);
    } else {
        if (!cuda_malloc)
            *(void **)&cuda_malloc =
                dlsym(dlopen("libcudart.so.13", RTLD_NOW), "cudaMalloc");
        if (cuda_malloc)
            code = cuda_malloc(pointer, bytes);
    }
    __asm__ volatile("" : "+r"(code)); /* each call keeps its frame */
    return code;
}
