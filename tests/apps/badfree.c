/*
 * badfree.c - frees that are wrong, one after the other; prints the code each one got.
 *
 * Proves that each gets the code it gets natively, that the program goes on unharmed, and
 * that the report names every one of them.
 */
#include "launch.h"

static void bad(const char *what, int code)
{
    printf("badfree: %-24s %d\n", what, code);
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

APP_FRAME static void free_twice(size_t bytes)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, bytes));
    APP_OK(gpu_free(block));
    bad("double free", (int)gpu_free(block));
}

APP_FRAME static void free_interior(void)
{
    gpu_ptr block, inside;

    APP_OK(gpu_malloc(&block, 65536));
    inside = gpu_from_address(gpu_address(block) + 512);
    bad("interior pointer", (int)gpu_free(inside));
    APP_OK(gpu_free(block));
}

APP_FRAME static void free_stack(void)
{
    int variable = 5;

    bad("stack pointer", (int)gpu_free(gpu_from_address(&variable)));
    app_expect(variable == 5, "variable on the stack");
}

APP_FRAME static void free_unknown(void)
{
    bad("never allocated", (int)gpu_free(gpu_from_address(0x123456780000)));
}

static void checked_use(const struct app_kernels *kernels)
{
    static uint32_t words[10000];
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, sizeof(words)));
    app_fill(kernels, block, APP_COUNT(words), 8, NULL);
    APP_OK(gpu_get(words, block, sizeof(words)));
    APP_OK(gpu_free(block));
    printf("badfree: checksum %016llx\n",
           (unsigned long long)app_checksum(APP_CHECKSUM, words, sizeof(words)));
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "all";
    bool all = strcmp(only, "all") == 0;
    struct app_kernels kernels;

    app_gpu_start();
    app_kernels_load(&kernels);
    if (all || strcmp(only, "double") == 0)
        free_twice(5000);
    if (all)
        free_twice(3 * APP_MIB);
    if (all || strcmp(only, "interior") == 0)
        free_interior();
    if (all || strcmp(only, "stack") == 0)
        free_stack();
    if (all || strcmp(only, "unknown") == 0)
        free_unknown();
    checked_use(&kernels);
    app_kernels_unload(&kernels);
    app_gpu_stop();
    return 0;
}
