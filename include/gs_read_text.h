/*
 * gs_read_text.h - reads the small files in which the kernel describes a process and a
 * machine. Not installed.
 * Locks: none. open and read are cancellation points.
 */
#ifndef GS_READ_TEXT_H
#define GS_READ_TEXT_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

/* Reads the beginning of a file as a string into `size` bytes. Returns the string's
 * length; 0: the file is empty or cannot be read. */
static inline size_t gs_read_text(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = fd < 0 ? 0 : 1;

    while (got > 0 && length < size - 1) {
        do {
            got = read(fd, out + length, size - 1 - length);
        } while (got < 0 && errno == EINTR);
        length += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    out[length] = '\0';
    return length;
}

#endif
