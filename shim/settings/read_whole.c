/*
 * read_whole.c - reads a file of the user's whole.
 * Owns: nothing.   Lock: none.
 */
#include "read_whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

char *gs_read_whole(const char *path, size_t most, const char *too_large, size_t *length,
                    const char **problem)
{
    struct stat info = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *problem = NULL;
    if (fd < 0 || fstat(fd, &info) != 0) {
        *problem = gs_log_error_text(errno);
    } else if (!S_ISREG(info.st_mode)) {
        *problem = "not a regular file";
    } else if ((uint64_t)info.st_size > most) {
        *problem = too_large;
    }
    size_t size = *problem ? 0 : (size_t)info.st_size;
    char *bytes =
        *problem ? NULL : aligned_alloc(4096, gs_round_up(size + 1, (size_t)4096));
    if (!*problem && !bytes) {
        *problem = gs_status_text(GS_ERR_HOST_NOMEM);
    }
    *length = 0;
    while (bytes && *length < size) {
        ssize_t got = read(fd, bytes + *length, size - *length);
        if (got == 0) {
            break;
        }
        if (got < 0 && errno != EINTR) {
            *problem = gs_log_error_text(errno);
            break;
        }
        *length += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (*problem) {
        free(bytes);
        return NULL;
    }
    return bytes;
}
