/*
 * read_file.c - see read_file.h.
 * Owns:  nothing.   Lock: none.
 */
#include "read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"

char *gs_read_file(const char *path, size_t most, size_t *length, const char **problem)
{
    const size_t page = 4096;
    struct stat info = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *bytes = NULL;

    *length = 0;
    *problem = NULL;
    if (fd < 0 || fstat(fd, &info) != 0) {
        *problem = gs_output_error_text(errno);
    } else if (!S_ISREG(info.st_mode)) {
        *problem = "not a regular file";
    } else if ((size_t)info.st_size <= most) {
        bytes = aligned_alloc(page, gs_round_up((size_t)info.st_size + 1, page));
        *problem = bytes ? NULL : gs_status_text(GS_ERR_HOST_NOMEM);
    }
    while (bytes && *length < (size_t)info.st_size) {
        ssize_t got = read(fd, bytes + *length, (size_t)info.st_size - *length);

        if (got == 0)
            break; /* the file was truncated meanwhile */
        if (got > 0) {
            *length += (size_t)got;
        } else if (errno != EINTR) {
            *problem = gs_output_error_text(errno);
            free(bytes);
            bytes = NULL;
        }
    }
    if (fd >= 0)
        close(fd);
    return bytes;
}
