/*
 * registered.c - host memory of the program's own, page-locked and not unlocked again.
 *
 *   registered          leaves some registered: a line that does ends in REGISTERED
 *   registered clean    unregisters all
 *   registered errors   unregisters what is not registered, and prints the answers
 */
#include "gpu.h"

static bool clean;

APP_FRAME static void pin_tables(void)
{
    for (int i = 0; i < 2; i++) {
        void *table = aligned_alloc(4096, 1048576);

        APP_OK(gpu_host_register(table, 1048576)); /* REGISTERED: pin_tables 1048576 2 */
        if (clean)
            APP_OK(gpu_host_unregister(table));
    }
}

APP_FRAME static void pin_buffer(void)
{
    static char buffer[65536];

    APP_OK(gpu_host_register(buffer, 65536)); /* REGISTERED: pin_buffer 65536 1 */
    if (clean)
        APP_OK(gpu_host_unregister(buffer));
}

/* Correct code: the same memory again and again. */
static void work(void)
{
    void *memory = aligned_alloc(4096, APP_MIB);

    for (size_t i = 1; i < 40; i++) {
        APP_OK(gpu_host_register(memory, i * 4096));
        app_bytes_fill(memory, i * 4096, (uint32_t)i);
        APP_OK(gpu_host_unregister(memory));
    }
    free(memory);
}

APP_FRAME static void unregister_wrongly(void)
{
    char *memory = aligned_alloc(4096, APP_MIB);

    printf("unregistered what never was: %d\n", (int)gpu_host_unregister(memory));
    APP_OK(gpu_host_register(memory, APP_MIB));
    printf("registered twice: %d\n", (int)gpu_host_register(memory, APP_MIB));
    APP_OK(gpu_host_unregister(memory));
    printf("unregistered twice: %d\n", (int)gpu_host_unregister(memory));
    free(memory);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "leaks";

    app_gpu_start();
    clean = strcmp(what, "clean") == 0;
    if (strcmp(what, "errors") == 0) {
        unregister_wrongly();
    } else {
        work();
        pin_tables();
        pin_buffer();
        work();
    }
    if (clean)
        app_gpu_stop();
    printf("registered: %s\n", what);
    return 0;
}
