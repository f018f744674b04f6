/*
 * closer.c - a library that closes others.
 */
#include <dlfcn.h>

extern __attribute__((visibility("default"))) int replaced_close(void *library);

int replaced_close(void *library)
{
    return dlclose(library);
}
