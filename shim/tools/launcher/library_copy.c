/*
 * library_copy.c - see library_copy.h.
 *
 * A container's links must not lead to files of the machine: each name is resolved with
 * the process's root as the root (openat2), and what is made is new.
 */
#include "shim/tools/launcher/library_copy.h"
#include "shim/tools/reader/living_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#define RESOLVE_WITHIN_ROOT 0x10u /* RESOLVE_IN_ROOT of linux/openat2.h */

#define FILE_NAME "libgpushim.so"

static const char *const folders[] = {"/tmp", "/var/tmp", "/dev/shm", "/run"};

static int open_within(int root, const char *path)
{
    const struct {
        uint64_t flags, mode, resolve;
    } how = {O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_WITHIN_ROOT};
    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* Whether programs may run from a folder, which libraries then may, too. */
static bool may_run_from(int folder)
{
    struct statvfs info;
    if (fstatvfs(folder, &info) == 0 && (info.f_flag & ST_NOEXEC)) {
        errno = EACCES;
        return false;
    }
    return true;
}

static bool copy_bytes(int from, int to)
{
    struct stat file;
    if (fstat(from, &file) != 0) {
        return false;
    }
    for (off_t left = file.st_size; left > 0;) {
        ssize_t done = sendfile(to, from, NULL, (size_t)left);
        if (done <= 0) {
            return false;
        }
        left -= done;
    }
    return true;
}

/* Makes NAME/libgpushim.so in the folder, which everybody may read. */
static bool make_in(int folder, const char *name, int library)
{
    if (mkdirat(folder, name, 0755) != 0) {
        return false;
    }
    int made = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int file = made < 0
                   ? -1
                   : openat(made, FILE_NAME,
                            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    /* Whatever the umask is. */
    bool done = file >= 0 && lseek(library, 0, SEEK_SET) == 0 &&
                copy_bytes(library, file) && fchmod(file, 0644) == 0 &&
                fchmod(made, 0755) == 0;
    int error = errno;
    if (!done && file >= 0) {
        (void)unlinkat(made, FILE_NAME, 0);
    }
    if (file >= 0) {
        done &= close(file) == 0;
    }
    if (made >= 0) {
        (void)close(made);
    }
    if (!done) {
        (void)unlinkat(folder, name, AT_REMOVEDIR);
    }
    errno = error;
    return done;
}

const char *gs_library_copy_make(pid_t pid, const char *library,
                                 struct gs_library_copy *out)
{
    static char problem[192];
    char path[64];
    uint64_t number = 0;
    int error = ENOENT;
    (void)snprintf(path, sizeof(path), "/proc/%ld/root", (long)gs_living_thread(pid));
    int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int file = open(library, O_RDONLY | O_CLOEXEC);
    out->folder = -1;
    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
        number = (uint64_t)getpid();
    }
    (void)snprintf(out->name, sizeof(out->name), "gpushim-%012llx",
                   (unsigned long long)(number & 0xffffffffffff));
    for (size_t i = 0; i < GS_ARRAY_LEN(folders) && root >= 0 && file >= 0; i++) {
        out->folder = open_within(root, folders[i]);
        if (out->folder >= 0 && may_run_from(out->folder) &&
            make_in(out->folder, out->name, file)) {
            (void)snprintf(out->path, sizeof(out->path), "%s/%s/" FILE_NAME, folders[i],
                           out->name);
            break;
        }
        error = errno;
        if (out->folder >= 0) {
            (void)close(out->folder);
            out->folder = -1;
        }
    }
    if (root >= 0) {
        (void)close(root);
    }
    if (file >= 0) {
        (void)close(file);
    }
    if (out->folder >= 0) {
        return NULL;
    }
    (void)snprintf(problem, sizeof(problem),
                   "it has other files (a container), and the library cannot be copied "
                   "there, to /tmp, /var/tmp, /dev/shm or /run: %s",
                   strerror(error));
    return problem;
}

void gs_library_copy_remove(struct gs_library_copy *copy)
{
    if (copy->folder < 0) {
        return;
    }
    int made =
        openat(copy->folder, copy->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made >= 0) {
        (void)unlinkat(made, FILE_NAME, 0);
        (void)close(made);
    }
    (void)unlinkat(copy->folder, copy->name, AT_REMOVEDIR);
    (void)close(copy->folder);
    copy->folder = -1;
}
