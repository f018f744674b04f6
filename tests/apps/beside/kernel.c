/*
 * kernel.c - a preloaded library that has /proc/sys/kernel/osrelease read from the file
 * that OSRELEASE_FILE names: another kernel, to who asks for it so.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int open(const char *path, int flags, ...);

__attribute__((visibility("default"))) int open(const char *path, int flags, ...)
{
    const char *other = getenv("OSRELEASE_FILE"); /* NOLINT(concurrency-mt-unsafe) */
    mode_t mode = 0;
    va_list arguments;

    va_start(arguments, flags);
    if (flags & O_CREAT)
        mode = va_arg(arguments, mode_t);
    va_end(arguments);
    if (other && strcmp(path, "/proc/sys/kernel/osrelease") == 0)
        path = other;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
