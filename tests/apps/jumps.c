/*
 * jumps.c - a signal handler leaves the first CUDA call by siglongjmp.
 *
 * The handler interrupts the library as it allocates for the first time, and jumps past
 * the call. Natively, where nothing is interrupted, it runs before the call. Afterwards
 * this thread and another one make calls as ever.
 */
#include "app.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuGetProcAddress_v2

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

extern void *__libc_calloc(size_t count, size_t bytes);

static sigjmp_buf past;
static volatile sig_atomic_t armed, jumped;

/* Whether code at an address is the library's. */
static bool is_library(const void *address)
{
    Dl_info info;

    return dladdr(address, &info) && info.dli_fname &&
           strstr(info.dli_fname, "libgpushim") != NULL;
}

/* Hidden, it would be for this file alone. */
#pragma GCC visibility push(default)

void *calloc(size_t count, size_t bytes)
{
    if (armed && is_library(__builtin_return_address(0))) {
        armed = 0;
        (void)raise(SIGUSR1);
    }
    return __libc_calloc(count, bytes);
}

#pragma GCC visibility pop

static void on_signal(int number)
{
    (void)number;
    jumped = 1;
    siglongjmp(past, 1);
}

static void *use(void *unused)
{
    CUcontext context;
    CUdeviceptr block, other;

    (void)unused;
    APP_OK(cuInit(0));
    APP_OK(cuDevicePrimaryCtxRetain(&context, 0));
    APP_OK(cuCtxSetCurrent(context));
    APP_OK(cuMemAlloc_v2(&block, 1000));
    APP_OK(cuMemAlloc_v2(&other, 1000));
    APP_OK(cuMemFree_v2(other));
    return NULL;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    pthread_t thread;

    app_expect(sigaction(SIGUSR1, &action, NULL) == 0, "a handler");
    if (sigsetjmp(past, 1) == 0) {
        armed = 1;
        (void)cuInit(0);
        if (armed)
            (void)raise(SIGUSR1);
    }
    armed = 0;
    (void)use(NULL);
    app_expect(pthread_create(&thread, NULL, use, NULL) == 0, "a thread");
    app_expect(pthread_join(thread, NULL) == 0, "its end");
    printf("jumps: %d\n", (int)jumped);
    return 0;
}
