/*
 * counted.c - calls every function that gives the device work, with nothing to do.
 *
 * Proves that each wrapper of shim/entries/submit.def is found by name, passes its call
 * on and returns what the driver answered: most answers are the documented codes for
 * arguments that are all zero. They stand in registers and on the stack, as integers;
 * none of the functions takes a floating-point number.
 */
#include "app.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>

typedef uintptr_t word;
typedef CUresult (*any_call)(word, word, word, word, word, word, word, word, word, word,
                             word, word, word, word, word, word);

static const char *const names[] = {
#define GS_SUBMIT(symbol, ...) #symbol,
#include "shim/entries/submit.def"
};

static void call(void *driver, const char *name)
{
    any_call function;

    *(void **)&function = dlsym(driver, name);
    if (!function) {
        printf("counted: %s is not there\n", name);
        return;
    }
    CUresult result = function(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    printf("counted: %s %d\n", name, (int)result);
}

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUcontext context;

    if (!driver || cuInit(0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return 1;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        call(driver, names[i]);
    printf("counted: %d\n", (int)cuCtxSynchronize());
    return 0;
}
