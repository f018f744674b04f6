/*
 * c10.c - a stand-in for PyTorch's libc10.so: counts what allocators report to the
 * profiler.
 */
#include <stddef.h>
#include <stdint.h>

struct c10_device {
    int8_t type, index;
};

#define REPORT_USAGE _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
void REPORT_USAGE(void *memory, int64_t bytes, size_t allocated, size_t reserved,
                  struct c10_device device);
int c10_reports(void);

static int reports;

__attribute__((visibility("default"))) void REPORT_USAGE(void *memory, int64_t bytes,
                                                         size_t allocated,
                                                         size_t reserved,
                                                         struct c10_device device)
{
    (void)memory;
    (void)bytes;
    (void)allocated;
    (void)reserved;
    reports += device.type == 1;
}

__attribute__((visibility("default"))) int c10_reports(void)
{
    return reports;
}
