/*
 * late.c - preloaded: threads but the first run for 100 ms before each read of 8 bytes,
 * as on a machine without an idle processor. NVIDIA's driver 555 starts a thread in
 * cuInit that reads so.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long since(const struct timespec *start)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000;
}

ssize_t read(int file, void *to, size_t size)
{
    struct timespec start;

    clock_gettime(CLOCK_MONOTONIC, &start);
    while (size == 8 && gettid() != getpid() && since(&start) < 100)
        ;
    return syscall(SYS_read, file, to, size);
}
