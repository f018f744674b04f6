/*
 * marks.c - see marks.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/reader/marks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/settings/process_start.h"

/* A folder of this user alone, in one that has a name for LD_PRELOAD; returns whether
 * there is one. */
static bool own_folder(const char *above, char out[PATH_MAX])
{
    struct stat folder;
    if (!above || above[0] != '/' || above[strcspn(above, " \t\n:")] != '\0' ||
        snprintf(out, PATH_MAX, "%s/gpushim-%u", above, (unsigned)geteuid()) >=
            PATH_MAX) {
        return false;
    }
    (void)mkdir(out, 0700);
    return lstat(out, &folder) == 0 && S_ISDIR(folder.st_mode) &&
           folder.st_uid == geteuid() && (folder.st_mode & 077) == 0;
}

bool gs_marks_folder(char out[PATH_MAX])
{
    /* The launcher changes no variable in the meantime. */
    const char *run = getenv("XDG_RUNTIME_DIR"); /* NOLINT(concurrency-mt-unsafe) */
    const char *own = getenv("TMPDIR");          /* NOLINT(concurrency-mt-unsafe) */
    return own_folder(run, out) || own_folder(own, out) || own_folder("/tmp", out);
}

static bool name_mark(int64_t pid, uint64_t start, char out[PATH_MAX])
{
    static char folder[PATH_MAX]; /* one thread */
    return gs_marks_folder(folder) &&
           snprintf(out, PATH_MAX, "%s/paused.%lld.%llu", folder, (long long)pid,
                    (unsigned long long)start) < PATH_MAX;
}

void gs_mark_paused(int64_t pid, bool paused)
{
    static char path[PATH_MAX];
    uint64_t start;
    if (gs_process_start(pid, &start) != GS_OK || !name_mark(pid, start, path)) {
        return;
    }
    if (paused) {
        int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0) {
            close(fd);
        }
    } else {
        (void)unlink(path);
    }
}

bool gs_mark_is_paused(int64_t pid, uint64_t start)
{
    static char path[PATH_MAX];
    return name_mark(pid, start, path) && access(path, F_OK) == 0;
}
