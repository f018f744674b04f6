/*
 * link_open.c - see link_open.h.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/settings/link_open.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define LINKS_MAX    8
#define TARGET_BYTES 256 /* may be on the stack of a signal handler */

static int open_at(const char *path, int flags)
{
    int fd;

    do {
        fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* Determines the creator of the link `path`; for a link of root, also its target, read
 * from the very link that was checked. A kernel link names an open file, which has no
 * other name. */
static enum gs_link inspect_link(const char *path, char target[TARGET_BYTES])
{
    int fd = open_at(path, O_PATH | O_NOFOLLOW);
    enum gs_link whose = GS_LINK_NONE;
    struct statfs system;
    struct stat link;
    ssize_t length = -1;

    if (fd < 0) {
        return GS_LINK_NONE;
    }
    if (fstatfs(fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC) {
        whose = GS_LINK_KERNELS;
    } else if (fstat(fd, &link) == 0 && link.st_uid == 0) {
        length = readlinkat(fd, "", target, TARGET_BYTES);
    }
    if (length > 0 && length < TARGET_BYTES && target[0] == '/') {
        target[length] = '\0';
        whose = GS_LINK_ROOTS;
    }
    close(fd);
    return whose;
}

/* N of /proc/self/fd/N if the calling process may write to it, else -1. */
static int number_of(const char *path, const struct stat *found)
{
    const char *digit = strrchr(path, '/') + 1;
    struct stat own;
    int number = 0;

    while (*digit >= '0' && *digit <= '9' && number < INT_MAX / 10 - 1) {
        number = 10 * number + (*digit++ - '0');
    }
    if (*digit != '\0' || fstat(number, &own) != 0 || own.st_dev != found->st_dev ||
        own.st_ino != found->st_ino || (fcntl(number, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        return -1;
    }
    return number;
}

/* Opens the target of a kernel link. A socket cannot be opened a second time, and the
 * offset of a regular file has to advance with the program's own writes: both are written
 * through the program's own descriptor. */
static int open_kernels(const char *path, int flags)
{
    struct stat found;
    int number = -1;

    if (stat(path, &found) == 0 && (S_ISREG(found.st_mode) || S_ISSOCK(found.st_mode))) {
        number = number_of(path, &found);
    }
    return number >= 0 ? fcntl(number, F_DUPFD_CLOEXEC, 0) : open_at(path, flags);
}

int gs_link_open(const char *path, int flags, enum gs_link *followed)
{
    char target[TARGET_BYTES];
    enum gs_link unused;

    followed = followed ? followed : &unused;
    *followed = GS_LINK_NONE;
    for (unsigned i = 0; i < LINKS_MAX; i++) {
        int fd = open_at(path, flags | O_NOFOLLOW);

        if (fd < 0 && errno == ENOENT && i != 0) {
            errno = ELOOP; /* the link is there, its target is not */
        }
        if (fd >= 0 || errno != ELOOP || (flags & O_NOFOLLOW)) {
            return fd;
        }
        *followed = inspect_link(path, target);
        if (*followed == GS_LINK_KERNELS) {
            return open_kernels(path, flags);
        }
        if (*followed == GS_LINK_NONE) {
            break;
        }
        path = target;
    }
    errno = ELOOP;
    return -1;
}
