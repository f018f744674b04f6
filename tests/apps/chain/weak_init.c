/*
 * weak_init.c - uses the driver only where it is linked with it, by a weak reference.
 * Built without symbols of its own for others, its hash table does not count the imports.
 */
#include <stdio.h>

extern int cuInit(unsigned) __attribute__((weak));

int main(void)
{
    printf("%s\n", cuInit && cuInit(0) == 0 ? "CUDA" : "no CUDA");
    return 0;
}
