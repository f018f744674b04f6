/*
 * stderr.c - see stderr.h.
 * Owns:  the identity of the first descriptor 2.   Lock: none, atomic.
 */
#include "shim/settings/stderr.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "shim/settings/environment.h"
#include "shim/settings/output.h"

/* The state of descriptor 2 when the library was loaded. Atomic, `known` last. */
enum { STDERR_UNKNOWN, STDERR_KNOWN, STDERR_CLOSED };
static struct {
    int known;
    uint64_t device, inode;
} first;

void gs_stderr_remember(void)
{
    struct stat now;
    int saved_errno = errno;
    bool there = fstat(STDERR_FILENO, &now) == 0;

    __atomic_store_n(&first.device, there ? (uint64_t)now.st_dev : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&first.inode, there ? (uint64_t)now.st_ino : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&first.known, there ? STDERR_KNOWN : STDERR_CLOSED,
                     __ATOMIC_RELEASE);
    errno = saved_errno;
}

static bool is_file(int fd, const struct stat *file)
{
    struct stat other;

    return fstat(fd, &other) == 0 && other.st_dev == file->st_dev &&
           other.st_ino == file->st_ino;
}

static bool is_write_only(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & O_ACCMODE) == O_WRONLY;
}

static bool is_appended_to(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & O_APPEND) != 0;
}

/* Returns true if the descriptor is the other end of a pipe that pipe(2) created on two
 * closed standard descriptors. */
static bool is_read_from(int fd, const struct stat *pipe)
{
    return is_file(fd, pipe) && !is_write_only(fd);
}

/* Returns true if the program can only have meant this file as its stderr. See
 * stderr.h. */
static bool is_redirection(const struct stat *now)
{
    struct statfs system;

    if (!is_write_only(STDERR_FILENO)) {
        return false;
    }
    if (S_ISREG(now->st_mode)) {
        return is_file(STDOUT_FILENO, now) || is_appended_to(STDERR_FILENO);
    }
    /* Not a named FIFO, which open may have returned. */
    return S_ISFIFO(now->st_mode) && fstatfs(STDERR_FILENO, &system) == 0 &&
           system.f_type == PIPEFS_MAGIC && !is_read_from(STDIN_FILENO, now) &&
           !is_read_from(STDOUT_FILENO, now);
}

/* Returns true if descriptor 2 still is the file where a user reads this program's
 * messages. */
static bool is_stderr(void)
{
    struct stat now;
    int known = __atomic_load_n(&first.known, __ATOMIC_ACQUIRE);

    if (known == STDERR_UNKNOWN) { /* another library's constructor calls CUDA */
        gs_stderr_remember();
        known = __atomic_load_n(&first.known, __ATOMIC_ACQUIRE);
    }
    if (fstat(STDERR_FILENO, &now) != 0) {
        return false;
    }
    return (known == STDERR_KNOWN &&
            __atomic_load_n(&first.device, __ATOMIC_RELAXED) == (uint64_t)now.st_dev &&
            __atomic_load_n(&first.inode, __ATOMIC_RELAXED) == (uint64_t)now.st_ino) ||
           is_redirection(&now);
}

void gs_stderr_write(const char *data, size_t length)
{
    int saved_errno = errno;
    size_t done;

    /* Attached, the library leaves the program's output as it is. */
    if (length > 0 && !gs_environment_is_replaced() && is_stderr()) {
        (void)gs_output_write(STDERR_FILENO, data, length, &done);
    }
    errno = saved_errno;
}
