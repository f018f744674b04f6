/*
 * output_file.c - writes one file, completely or not at all.
 * Owns:  the file while it is written.   Lock: none.
 */
#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_room.h"
#include "link_open.h"
#include "progress.h"

#define NS_PER_MS 1000000ull

/* The longest wait for a slow reader. */
#define WRITE_PATIENCE_MS 1000
/* Names tried for the temporary file. */
#define NAME_TRIES 100

/* In the folder of `path`, with a short name: renaming will detect a name that is too
 * long. */
static int name_beside(struct gs_output_file *file, unsigned turn)
{
    const char *slash = strrchr(file->path, '/');
    int folder = slash ? (int)(slash + 1 - file->path) : 0;
    int length = snprintf(file->beside, sizeof(file->beside), "%.*s.gpushim.%ld.%u",
                          folder, file->path, (long)getpid(), turn);

    return length > 0 && (size_t)length < sizeof(file->beside) ? 0 : ENAMETOOLONG;
}

static void open_beside(struct gs_output_file *file)
{
    for (unsigned turn = 0; turn < NAME_TRIES; turn++) {
        file->error = name_beside(file, turn);
        if (file->error)
            return;
        file->fd = gs_link_open(file->beside, O_WRONLY | O_CREAT | O_EXCL, NULL);
        file->error = file->fd < 0 ? errno : 0;
        if (file->error != EEXIST)
            return;
    }
}

/* Opens a device or a pipe, which is not replaced. A regular file is written to only if
 * the program has it open already, such as standard output, and at the program's
 * offset. */
static void open_direct(struct gs_output_file *file)
{
    enum gs_link followed;
    struct stat there;

    file->direct = true;
    file->fd = gs_link_open(file->path, O_WRONLY | O_APPEND, &followed);
    file->error = file->fd < 0 ? errno : 0;
    if (file->fd < 0)
        return;
    if (fstat(file->fd, &there) != 0)
        file->error = errno;
    else if (S_ISREG(there.st_mode) && followed != GS_LINK_KERNELS)
        file->error = ELOOP;
    else if (S_ISSOCK(there.st_mode))
        file->error = ENXIO; /* the program's own, which may wait for its reader */
    if (file->error) {
        close(file->fd);
        file->fd = -1;
    }
}

void gs_output_file_open(struct gs_output_file *file, const char *path)
{
    struct stat there;

    file->fd = -1;
    file->error = 0;
    file->direct = false;
    file->path = path;
    file->beside[0] = '\0';
    if (lstat(path, &there) != 0 || S_ISREG(there.st_mode))
        open_beside(file); /* open will report the error of lstat, too */
    else
        open_direct(file);
}

bool gs_output_file_write(void *self, const void *data, size_t length)
{
    struct gs_output_file *file = self;
    const char *from = data;

    while (length > 0 && !file->error) {
        ssize_t n = write(file->fd, from, length);

        if (n > 0) {
            from += n;
            length -= (size_t)n;
            gs_progress_tick();
        } else if (n == 0) {
            file->error = EIO;
        } else if (errno == EAGAIN) {
            if (!gs_room_until(file->fd, gs_now_ns() + WRITE_PATIENCE_MS * NS_PER_MS))
                file->error = EAGAIN;
        } else if (errno != EINTR) {
            file->error = errno;
        }
    }
    return !file->error;
}

int gs_output_file_close(struct gs_output_file *file, bool keep)
{
    if (file->fd < 0)
        return file->error;
    /* A quota, or a network file system, may report a full disk only at close. */
    if (close(file->fd) != 0 && !file->error && errno != EINTR)
        file->error = errno;
    file->fd = -1;
    if (file->direct)
        return file->error;
    if (keep && !file->error && rename(file->beside, file->path) != 0)
        file->error = errno;
    if (!keep || file->error)
        unlink(file->beside);
    return file->error;
}

int gs_output_file_reopen(const char *path, dev_t device, ino_t inode)
{
    struct stat info;
    int fd = gs_link_open(path, O_RDWR | O_NOFOLLOW, NULL);

    if (fd >= 0 &&
        (fstat(fd, &info) != 0 || info.st_dev != device || info.st_ino != inode)) {
        close(fd);
        errno = ENOENT;
        return -1;
    }
    return fd;
}
