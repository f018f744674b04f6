/*
 * handlers.c - CUDA calls in signal handlers.
 *   handlers between  a handler interrupts the program between its calls
 *   handlers inside   a handler interrupts the library, about to take a lock of its own
 *
 * Calls that interrupt one of the driver's are nobody's to promise. What interrupts the
 * program's own code works natively; and the library, which a program does not know of,
 * must neither wait for itself nor mix up what the two have allocated. Prints a checksum
 * of all that was written and read back.
 */
#include "app.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuGetProcAddress_v2

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#define ROUNDS 300

typedef int lock_fn(pthread_mutex_t *mutex);

static lock_fn *real_lock;
/* The next lock that the library takes is interrupted; another thread's locks are not. */
static _Thread_local bool armed;
static CUdeviceptr left; /* a block of the program's that handlers free; 0: none */
static uint64_t handled; /* a checksum of what handlers read */
static unsigned interruptions;

/* Whether code at an address is the library's. */
static bool is_library(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname &&
           strstr(info.dli_fname, "libgpushim") != NULL;
}

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (armed && is_library(__builtin_return_address(0))) {
        armed = false;
        (void)raise(SIGUSR1);
    }
    if (!real_lock)
        return 0; /* one thread, and nothing of the program has run */
    return real_lock(mutex);
}

static void on_signal(int number)
{
    int saved_errno = errno;
    unsigned char data[600];
    CUdeviceptr block;

    (void)number;
    interruptions++;
    for (unsigned i = 0; i < 3; i++) {
        APP_OK(cuMemAlloc_v2(&block, sizeof(data)));
        APP_OK(cuMemsetD8_v2(block, (unsigned char)(interruptions + i), sizeof(data)));
        APP_OK(cuMemcpyDtoH_v2(data, block, sizeof(data)));
        for (size_t k = 0; k < sizeof(data); k++)
            app_expect(data[k] == (unsigned char)(interruptions + i),
                       "a handler's bytes");
        handled = app_checksum(handled, data, sizeof(data));
        APP_OK(cuMemFree_v2(block));
    }
    if (left && cuMemFree_v2(left) == CUDA_SUCCESS)
        left = 0;
    errno = saved_errno;
}

/* One round; the handler runs in its midst, or nowhere where there is no library. */
static uint64_t go_round(uint64_t sum, unsigned round, bool inside)
{
    static unsigned char data[9000];
    size_t bytes = 100 + round % 80 * 100;
    CUdeviceptr block, other;

    APP_OK(cuMemAlloc_v2(&other, bytes));
    left = round % 3 == 0 ? other : 0;
    armed = inside;
    errno = 77;
    APP_OK(cuMemAlloc_v2(&block, bytes));
    app_expect(errno == 77, "errno stays");
    armed = false;
    if (!inside)
        (void)raise(SIGUSR1);
    APP_OK(cuMemsetD8_v2(block, (unsigned char)round, bytes));
    APP_OK(cuMemcpyDtoH_v2(data, block, bytes));
    for (size_t i = 0; i < bytes; i++)
        app_expect(data[i] == (unsigned char)round, "the program's bytes");
    armed = inside;
    APP_OK(cuMemFree_v2(block));
    armed = false;
    /* The handler may have freed it, or been told that it cannot. */
    if (round % 3 != 0 || left)
        APP_OK(cuMemFree_v2(other));
    left = 0;
    return app_checksum(sum, data, bytes);
}

#define INTERRUPTED(call) (armed = true, APP_OK(call), armed = false)

/* Calls that take more locks of the library's than those of small blocks do. */
static void go_elsewhere(unsigned round)
{
    size_t bytes = (size_t)(1 + round % 7) << 20;
    CUdeviceptr large, managed;
    CUstream stream;
    void *pinned;

    INTERRUPTED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    INTERRUPTED(cuMemAlloc_v2(&large, 4 * bytes));
    INTERRUPTED(cuMemHostAlloc(&pinned, bytes, 0));
    INTERRUPTED(cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL));
    memset(pinned, (int)round, bytes);
    INTERRUPTED(cuMemcpyHtoDAsync_v2(large, pinned, bytes, stream));
    INTERRUPTED(cuMemFree_v2(large));
    INTERRUPTED(cuMemFree_v2(managed));
    INTERRUPTED(cuMemFreeHost(pinned));
    INTERRUPTED(cuStreamDestroy_v2(stream));
}

int main(int argc, char **argv)
{
    bool inside = argc > 1 && strcmp(argv[1], "inside") == 0;
    struct sigaction action = {.sa_handler = on_signal};
    uint64_t sum = APP_CHECKSUM;
    CUcontext context;

    real_lock = (lock_fn *)dlsym(RTLD_NEXT, "pthread_mutex_lock");
    app_expect(real_lock && sigaction(SIGUSR1, &action, NULL) == 0, "a handler");
    handled = APP_CHECKSUM;
    APP_OK(cuInit(0));
    APP_OK(cuDevicePrimaryCtxRetain(&context, 0));
    APP_OK(cuCtxSetCurrent(context));
    for (unsigned round = 0; round < ROUNDS; round++)
        sum = go_round(sum, round, inside);
    for (unsigned round = 0; inside && round < ROUNDS; round += 10)
        go_elsewhere(round);
    fprintf(stderr, "handlers: %u interruptions\n", interruptions);
    printf("handlers: %016llx\n", (unsigned long long)sum);
    if (!inside)
        printf("handlers: %016llx in handlers\n", (unsigned long long)handled);
    return 0;
}
