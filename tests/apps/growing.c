/*
 * growing.c - a server that leaks a little, beside what comes and goes.
 *
 *   growing_WAY SECONDS-TENTHS   how long it serves
 *
 * Proves that of four places the one that leaks is named as growing: `keep_session` keeps
 * a block a turn, `refill_cache` replaces what it has, `load_model` keeps what it took
 * first, and `pulse` takes and gives back more and less.
 */
#include <stdlib.h>
#include <unistd.h>

#include "gpu.h"

static gpu_ptr model, cache[16], wave[16];

APP_FRAME static void load_model(void)
{
    APP_OK(gpu_malloc(&model, 8 << 20));
}

APP_FRAME static void keep_session(void)
{
    gpu_ptr session;

    APP_OK(gpu_malloc(&session, 64 << 10));
}

APP_FRAME static void refill_cache(unsigned turn)
{
    gpu_ptr *slot = &cache[turn % 16];

    if (*slot)
        APP_OK(gpu_free(*slot));
    APP_OK(gpu_malloc(slot, 256 << 10));
}

APP_FRAME static void pulse(unsigned turn)
{
    unsigned at = turn / 16 % 2 == 0 ? turn % 16 : 15 - turn % 16;

    if (turn / 16 % 2 == 0)
        APP_OK(gpu_malloc(&wave[at], 128 << 10));
    else
        APP_OK(gpu_free(wave[at]));
}

int main(int argc, char **argv)
{
    unsigned turns = argc > 1 ? (unsigned)atoi(argv[1]) * 10 : 100;

    app_gpu_start();
    load_model();
    for (unsigned turn = 0; turn < turns; turn++) {
        keep_session();
        refill_cache(turn);
        pulse(turn);
        usleep(10000);
    }
    puts("growing: served");
    return 0;
}
