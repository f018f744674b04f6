/*
 * read_file.c - see read_file.h.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/settings/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/settings/output.h"
#include "shim/settings/output_map.h"

#define PAGE 4096

/* Opens a regular file. Returns -1, with the problem, if there is none. */
static int open_regular(const char *path, struct stat *info, const char **problem)
{
    int fd = gs_output_map_read(path, O_NONBLOCK);

    *problem = NULL;
    if (fd < 0 || fstat(fd, info) != 0) {
        *problem = gs_output_error_text(errno);
    } else if (!S_ISREG(info->st_mode)) {
        *problem = "not a regular file";
    }
    if (*problem && fd >= 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Reads up to `bytes` bytes from the file's start. Returns how many there were, a problem
 * if the file cannot be read. */
static size_t read_start(int fd, char *out, size_t bytes, const char **problem)
{
    size_t length = 0;

    while (length < bytes) {
        ssize_t got = pread(fd, out + length, bytes - length, (off_t)length);

        if (got == 0) {
            break; /* the file was truncated in the meantime */
        }
        if (got > 0) {
            length += (size_t)got;
        } else if (errno != EINTR) {
            *problem = gs_output_error_text(errno);
            break;
        }
    }
    return length;
}

/* Reads the file's first `bytes` bytes into memory of their own. */
static char *read_bytes(int fd, size_t bytes, size_t *length, const char **problem)
{
    char *text = bytes < SIZE_MAX - PAGE
                     ? aligned_alloc(PAGE, gs_round_up(bytes + 1, PAGE))
                     : NULL;

    if (!text) {
        *problem = gs_status_text(GS_ERR_HOST_NOMEM);
        return NULL;
    }
    *length = read_start(fd, text, bytes, problem);
    if (*problem) {
        *length = 0;
        free(text);
        return NULL;
    }
    return text;
}

char *gs_read_file(const char *path, size_t most, size_t *length, const char **problem)
{
    struct stat info;
    int fd = open_regular(path, &info, problem);
    char *bytes = NULL;

    *length = 0;
    if (fd < 0) {
        return NULL;
    }
    if ((size_t)info.st_size <= most) {
        bytes = read_bytes(fd, (size_t)info.st_size, length, problem);
    }
    close(fd);
    return bytes;
}

char *gs_read_file_judged(const char *path, gs_read_file_judge *judge, void *self,
                          size_t *length, const char **problem)
{
    struct stat info;
    int fd = open_regular(path, &info, problem);
    char *bytes = NULL;

    *length = 0;
    if (fd < 0) {
        return NULL;
    }
    size_t head = (size_t)info.st_size < GS_READ_FILE_HEAD ? (size_t)info.st_size
                                                           : GS_READ_FILE_HEAD;
    bytes = read_bytes(fd, head, length, problem);
    if (bytes) {
        bytes[*length] = '\0';
        (void)fstat(fd, &info); /* it may have grown: the head says by how much */
        *problem = judge(self, bytes, *length, (uint64_t)info.st_size);
        free(bytes);
        *length = 0;
        bytes = *problem ? NULL : read_bytes(fd, (size_t)info.st_size, length, problem);
    }
    close(fd);
    return bytes;
}
