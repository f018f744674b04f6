/*
 * part.c - the plug-in: it reaches the runtime that it was linked with, also as it goes.
 * BARE: without the usual start files, which would call what atexit is told of.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

extern __attribute__((visibility("default"))) int replaced_ask(void);

/* The number that this plug-in's runtime has; -1: cudaMalloc failed. */
int replaced_ask(void)
{
    void *number = NULL;
    cudaError_t code = cudaMalloc(&number, 1);
    return code == cudaSuccess ? (int)(size_t)number : -1;
}

__attribute__((destructor)) static void before_finalize(void)
{
    printf("replaced: %d as it goes\n", replaced_ask());
}

#ifndef BARE
static void in_finalize(void)
{
    printf("replaced: %d as it goes\n", replaced_ask());
}

__attribute__((constructor)) static void at_the_start(void)
{
    (void)atexit(in_finalize);
}
#endif
