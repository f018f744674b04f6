/*
 * hitpair.c - pairs of an allocation and its free.
 *
 *   hitpair COUNT [device|pinned|managed|holes|large|segment|scoped|within|scope]
 *
 * The first three are the same 1 KiB again and again, as a cache likes it. holes: between
 * 32 KiB and 1 MiB, sizes that hardly repeat, 16 of them live. large: the same between 2
 * and 64 MiB. segment: 32 MiB. scoped: 1 KiB, each within a scope of gpushim.h. within:
 * all in one scope. scope: such scopes, without an allocation.
 *
 * Proves nothing by itself: an instruction counter gives the cost of one pair.
 */
#include "gpu.h"
#include "gpushim.h"

#include <string.h>

static void device_pair(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 1024));
    APP_OK(gpu_free(block));
}

static void pinned_pair(void)
{
    void *block;

    APP_OK(gpu_host_alloc(&block, 1024, 0));
    APP_OK(gpu_free_host(block));
}

static void managed_pair(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc_managed(&block, 1024));
    APP_OK(gpu_free(block));
}

/* Sizes from 64 to 2,047 units. */
static void random_pair(size_t unit)
{
    static gpu_ptr blocks[16];
    static unsigned turn;
    static uint32_t state = 1;
    gpu_ptr *block = &blocks[turn++ % 16];

    state = state * 1664525 + 1013904223;
    if (*block)
        APP_OK(gpu_free(*block));
    APP_OK(gpu_malloc(block, (64 + (state >> 8) % 1984) * unit));
}

static void holes_pair(void)
{
    random_pair(512);
}

static void large_pair(void)
{
    random_pair((size_t)32 << 10);
}

static void segment_pair(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, (size_t)32 << 20));
    APP_OK(gpu_free(block));
}
static void scope(void)
{
    (void)gpushim_scope_begin("step");
    (void)gpushim_scope_end();
}

static void scoped_pair(void)
{
    (void)gpushim_scope_begin("step");
    device_pair();
    (void)gpushim_scope_end();
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1000;
    const char *kind = argc > 2 ? argv[2] : "device";
    void (*pair)(void) = strcmp(kind, "pinned") == 0    ? pinned_pair
                         : strcmp(kind, "managed") == 0 ? managed_pair
                         : strcmp(kind, "holes") == 0   ? holes_pair
                         : strcmp(kind, "large") == 0   ? large_pair
                         : strcmp(kind, "segment") == 0 ? segment_pair
                         : strcmp(kind, "scoped") == 0  ? scoped_pair
                         : strcmp(kind, "scope") == 0   ? scope
                                                        : device_pair;

    app_gpu_start();
    if (strcmp(kind, "within") == 0)
        (void)gpushim_scope_begin("step");
    for (long i = 0; i < count; i++) {
        app_round(i, count);
        pair();
    }
    app_count_ends();
    app_gpu_stop();
    printf("hitpair: %ld pairs\n", count);
    return 0;
}
