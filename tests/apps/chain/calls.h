/* calls.h - the driver's functions that the libraries of this folder define or call. */
#include <stddef.h>

typedef unsigned long long pointer;

int cuInit(unsigned);
int cuDriverGetVersion(int *);
int cuCtxGetCurrent(void **);
int cuCtxSetCurrent(void *);
int cuDevicePrimaryCtxRetain(void **, int);
int cuMemAlloc_v2(pointer *, size_t);
int cuMemFree_v2(pointer);
int cuMemsetD32_v2(pointer, unsigned, size_t);
int cuMemcpyDtoH_v2(void *, pointer, size_t);
int cuMemGetInfo_v2(size_t *, size_t *);
int cuGetProcAddress_v2(const char *, void **, int, unsigned long long, void *);
