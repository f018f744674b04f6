/*
 * pinneduses.c - calls for registered memory that name other memory: pinned memory, alive
 * and freed, addresses inside, memory of the program's own.
 *
 * Prints the answers. With the library they must be the driver's own.
 */
#include <stdlib.h>

#include "driver.h"
#include "gpu.h"

static void say(const char *what, size_t bytes, CUresult answer)
{
    printf("pinneduses: %-28s %8zu  %d\n", what, bytes, (int)answer);
}

static void use_pinned(size_t bytes)
{
    char *block, *other;

    APP_OK(CU(cuMemHostAlloc)((void **)&block, bytes, 0));
    APP_OK(CU(cuMemHostAlloc)((void **)&other, bytes, CU_MEMHOSTALLOC_PORTABLE));
    say("unregister pinned", bytes, CU(cuMemHostUnregister)(block));
    say("unregister inside", bytes, CU(cuMemHostUnregister)(block + bytes / 2));
    say("register pinned", bytes, CU(cuMemHostRegister)(block, bytes, 0));
    say("register inside", bytes, CU(cuMemHostRegister)(block + bytes / 2, 1, 0));
    APP_OK(CU(cuMemFreeHost)(block));
    say("unregister freed", bytes, CU(cuMemHostUnregister)(block));
    say("unregister inside freed", bytes, CU(cuMemHostUnregister)(block + bytes / 2));
    say("unregister the other", bytes, CU(cuMemHostUnregister)(other));
    APP_OK(CU(cuMemFreeHost)(other));
    say("unregister the other freed", bytes, CU(cuMemHostUnregister)(other));
}

static void use_registered(size_t bytes)
{
    char *memory = aligned_alloc(4096, bytes);

    app_expect(memory != NULL, "memory");
    say("unregister unknown", bytes, CU(cuMemHostUnregister)(memory));
    APP_OK(CU(cuMemHostRegister)(memory, bytes, 0));
    say("unregister inside registered", bytes, CU(cuMemHostUnregister)(memory + 64));
    say("unregister registered", bytes, CU(cuMemHostUnregister)(memory));
    say("unregister again", bytes, CU(cuMemHostUnregister)(memory));
    free(memory);
}

int main(void)
{
    static const size_t sizes[] = {64, 6000, 65536, 1 << 20, 3 << 20};
    CUcontext context;

    APP_OK(cuInit(0));
    APP_OK(cuDevicePrimaryCtxRetain(&context, 0));
    APP_OK(cuCtxSetCurrent(context));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        use_pinned(sizes[i]);
    use_registered(65536);
    APP_OK(cuDevicePrimaryCtxRelease(0));
    return 0;
}
