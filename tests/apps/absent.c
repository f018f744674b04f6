/*
 * absent.c - frees of nothing on a machine without a GPU: what each answers, once cuInit
 * has failed.
 */
#include "app.h"
#include "driver.h"

static void say(const char *what, CUresult code)
{
    printf("absent: %-40s %d\n", what, (int)code);
}

int main(void)
{
    app_driver_load();
    say("cuInit", CU(cuInit)(0));
    say("cuArrayDestroy", CU(cuArrayDestroy)(NULL));
    say("cuMipmappedArrayDestroy", CU(cuMipmappedArrayDestroy)(NULL));
    say("cuDestroyExternalMemory", CU(cuDestroyExternalMemory)(NULL));
    say("cuMemFree", CU(cuMemFree)(0));
    say("cuMemFree of an address", CU(cuMemFree)(0x10000));
    say("cuMemFreeAsync", CU(cuMemFreeAsync)(0, NULL));
    say("cuMemFreeHost", CU(cuMemFreeHost)(NULL));
    say("cuMemHostUnregister", CU(cuMemHostUnregister)(NULL));
    say("cuMemRelease", CU(cuMemRelease)(0));
    say("cuMemPoolDestroy", CU(cuMemPoolDestroy)(NULL));
    say("cuIpcCloseMemHandle", CU(cuIpcCloseMemHandle)(0));
    say("cuGraphExecDestroy", CU(cuGraphExecDestroy)(NULL));
    return 0;
}
