/*
 * known.c - leaks that rules of GPUSHIM_WRITE_SUPPRESSIONS have to tell apart.
 *
 *   known helper       a function leaks for main, and for another one
 *   known grown BYTES  a function leaks so much
 *   known nested       a function leaks, as does what it calls, also for main
 *   known within       the same in a function that a third one calls
 *   known outermost    main leaks
 *   known none         nothing leaks
 */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

static volatile unsigned sink;

APP_FRAME static void allocate(size_t bytes)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, bytes));
}

APP_FRAME static void load(size_t bytes)
{
    allocate(bytes);
    sink++; /* no tail call */
}

APP_FRAME static void build(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 12345));
    allocate(8000);
    sink++;
}

APP_FRAME static void run(void)
{
    build();
    sink++;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "none";
    gpu_ptr block;

    app_gpu_start();
    if (strcmp(what, "helper") == 0) {
        allocate(5000);
        load(1000);
    } else if (strcmp(what, "grown") == 0) {
        load(argc > 2 ? strtoul(argv[2], NULL, 10) : 1);
    } else if (strcmp(what, "nested") == 0) {
        build();
        allocate(300);
    } else if (strcmp(what, "within") == 0) {
        run();
    } else if (strcmp(what, "outermost") == 0) {
        APP_OK(gpu_malloc(&block, 5000));
    }
    return 0;
}
