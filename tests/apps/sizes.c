/*
 * sizes.c - the edges of what can be asked for.
 *
 * Proves that impossible requests get the driver's own answers, and that a device which
 * the program has filled and emptied in small blocks still has room for one big block:
 * memory kept for reuse must be given back before a request is refused.
 */
#include "gpu.h"

#define MAX_BLOCKS 4096
#define MARGIN     (32 * APP_MIB) /* what a device may need beside the program's blocks */

static gpu_ptr blocks[MAX_BLOCKS];

static void print_code(const char *what, long code)
{
    printf("sizes: %-24s %ld\n", what, code);
#if APP_RUNTIME
    printf("sizes: %-24s %d\n", "  last error", (int)cudaGetLastError());
    printf("sizes: %-24s %d\n", "  last error again", (int)cudaGetLastError());
#endif
}

static void impossible(size_t total)
{
    gpu_ptr block = 0;
    void *host = NULL;
    long code;

    code = (long)gpu_malloc(&block, 0);
    print_code("malloc of 0", code);
    printf("sizes: %-24s %d\n", "  pointer is null", block == 0);
    print_code("free of null", (long)gpu_free(0));
    print_code("malloc of all twice", (long)gpu_malloc(&block, total * 2));
    print_code("malloc of SIZE_MAX", (long)gpu_malloc(&block, SIZE_MAX));
    print_code("malloc of SIZE_MAX - 4K", (long)gpu_malloc(&block, SIZE_MAX - 4096));
    print_code("managed of 0", (long)gpu_malloc_managed(&block, 0));
    code = (long)gpu_malloc_host(&host, 0);
    print_code("malloc_host of 0", code);
    if (code == 0)
        print_code("free_host of that", (long)gpu_free_host(host));
    print_code("mem_info of nulls", (long)gpu_mem_info(NULL, NULL));
    print_code("malloc into null", (long)gpu_malloc(NULL, 4096));
}

/* Allocate blocks of one size until there is no room; returns how many in all. */
static size_t fill_up(size_t count, size_t bytes)
{
    while (count < MAX_BLOCKS) {
        int code = (int)gpu_malloc(&blocks[count], bytes);

        if (code != 0) {
            app_expect(code == 2, "a full device answers out of memory");
            break;
        }
        count++;
    }
    return count;
}

static void fill_and_empty(size_t room)
{
    size_t count = 0;
    gpu_ptr big;

    for (size_t divisor = 7; divisor < 1000; divisor *= 5)
        count = fill_up(count, room / divisor + 12345);
    app_expect(count >= 7, "blocks that fit");
    for (size_t i = 0; i < count; i += 2)
        APP_OK(gpu_free(blocks[i]));
    for (size_t i = 1; i < count; i += 2)
        APP_OK(gpu_free(blocks[i]));
    APP_OK(gpu_malloc(&big, room - MARGIN));
    APP_OK(gpu_set_rows(big, APP_MIB, 3, 4096, (room - MARGIN) / APP_MIB));
    APP_OK(gpu_sync());
    APP_OK(gpu_free(big));
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

int main(void)
{
    size_t room, total, after;
    unsigned char last[16];
    gpu_ptr block;

    app_gpu_start();
    APP_OK(gpu_mem_info(&room, &total));
    app_expect(room > 2 * MARGIN && room <= total, "room on the device");
    impossible(total);
    for (int round = 0; round < 2; round++)
        fill_and_empty(room);
    APP_OK(gpu_mem_info(&after, &total));
    app_expect(after + MARGIN >= room, "memory reported free after everything was freed");
    APP_OK(gpu_malloc(&block, 1));
    APP_OK(gpu_set(block, 0x5a, 1));
    APP_OK(gpu_get(last, block, 1));
    APP_OK(gpu_free(block));
    app_gpu_stop();
    printf("sizes: last byte %02x\n", last[0]);
    return 0;
}
