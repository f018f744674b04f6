/*
 * grabs.c - two leaks through one function, for rules that mean one of them.
 *
 *   grabs_WAY            leaks 1 MiB by first -> grab
 *   grabs_WAY second     leaks 2 MiB by second -> grab as well
 *   grabs_WAY more       leaks 1 MiB more by first -> grab
 */
#include <stdio.h>
#include <string.h>

#include "gpu.h"

static gpu_ptr kept[3];

APP_FRAME static void grab(unsigned slot, size_t bytes)
{
    APP_OK(gpu_malloc(&kept[slot], bytes));
}

APP_FRAME static void first(unsigned slot)
{
    grab(slot, 1048576);
}

APP_FRAME static void second(unsigned slot)
{
    grab(slot, 2097152);
}

int main(int argc, char **argv)
{
    app_gpu_start();
    first(0);
    if (argc > 1 && strcmp(argv[1], "second") == 0)
        second(1);
    if (argc > 1 && strcmp(argv[1], "more") == 0)
        first(2);
    printf("grabs: done\n");
    return 0;
}
