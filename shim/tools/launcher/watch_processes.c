/*
 * watch_processes.c - what /proc and pidfds say of the processes that are watched.
 *
 * Owns: nothing.   Lock: none; one thread.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_read_text.h"
#include "shim/statefile/watch_message.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/launcher/watch.h"

/* PIDFD_GET_INFO of Linux 6.13, and its exit status of 6.15. */
struct pidfd_info_64 {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_status;
};
#define PIDFD_INFO      _IOWR(0xff, 11, struct pidfd_info_64)
#define PIDFD_INFO_EXIT ((uint64_t)1 << 3)

/* Word 52 of /proc/PID/stat, which a process that was not waited for still has. */
static bool zombie_status(pid_t pid, int *status)
{
    char path[64], text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    if (gs_read_text(path, text, sizeof(text)) == 0) {
        return false;
    }
    const char *word = strrchr(text, ')');
    if (!word || (word[1] && word[2] != 'Z' && word[2] != 'X')) {
        return false;
    }
    for (unsigned i = 2; word && i < 52; i++) {
        word = strchr(word + 1, ' ');
    }
    if (!word) {
        return false;
    }
    *status = (int)strtol(word + 1, NULL, 10);
    return true;
}

void gs_watch_find_end(pid_t pid, int pidfd, struct gs_watch_end *out)
{
    struct pidfd_info_64 info = {.mask = PIDFD_INFO_EXIT};
    if (zombie_status(pid, &out->status)) {
        out->known = true;
    } else if (pidfd >= 0 && ioctl(pidfd, PIDFD_INFO, &info) == 0 &&
               (info.mask & PIDFD_INFO_EXIT)) {
        out->status = info.exit_status;
        out->known = true;
    }
}

/* Returns whether the block of NUL-terminated texts has this one. */
static bool has_text(const char *block, size_t length, const char *wanted, size_t size)
{
    for (const char *at = block; (size_t)(at - block) + size <= length;) {
        if (memcmp(at, wanted, size) == 0) {
            return true;
        }
        const char *end = memchr(at, '\0', length - (size_t)(at - block));
        if (!end) {
            return false;
        }
        at = end + 1;
    }
    return false;
}

void gs_watch_find_processes(void (*found)(void *self, pid_t pid), void *self)
{
    static char block[128 * 1024];
    char path[64], wanted[GS_WATCH_NAME_BYTES + 32];
    int size = snprintf(wanted, sizeof(wanted), "%s=%s", GS_WATCH_VARIABLE,
                        getenv(GS_WATCH_VARIABLE));
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || pid == (long)getpid()) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "/proc/%ld/environ", pid);
        size_t length = gs_read_text(path, block, sizeof(block));
        if (has_text(block, length, wanted, (size_t)size + 1)) {
            found(self, (pid_t)pid);
        }
    }
    if (folder) {
        closedir(folder);
    }
}

bool gs_watch_shares_stderr(pid_t pid)
{
    struct stat own, other;
    char path[64];
    if (fstat(STDERR_FILENO, &own) != 0) {
        return false;
    }
    for (int fd = 0; fd < 3; fd++) {
        (void)snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)pid, fd);
        if (stat(path, &other) == 0 && other.st_dev == own.st_dev &&
            other.st_ino == own.st_ino) {
            return true;
        }
    }
    return false;
}
