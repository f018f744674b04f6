/* kept.c - one block freed and one kept, by calls by their names. -DMODULE: as a module.
 */
#include <stdio.h>

#include "calls.h"

int run(void);
int run(void)
{
    pointer freed = 0, kept = 0;
    void *context = NULL;
    size_t free_bytes = 0, total = 0;
    int result = cuInit(0);

    printf("cuInit %d\n", result);
    if (result || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    printf("alloc %d\n", cuMemAlloc_v2(&freed, 1 << 20));
    printf("alloc %d\n", cuMemAlloc_v2(&kept, 100));
#ifdef INFO
    printf("info %d", cuMemGetInfo_v2(&free_bytes, &total));
    printf(" total %zu\n", total);
#else
    (void)free_bytes;
    (void)total;
#endif
    printf("free %d\n", cuMemFree_v2(freed));
    return 0;
}

#ifndef MODULE
int main(void)
{
    return run();
}
#endif
