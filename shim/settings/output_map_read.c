/*
 * output_map_read.c - finds the data file of a file that is read (output_map.h).
 * Owns:  nothing.   Lock: none.
 */
#include "gs_string.h"
#include "shim/settings/output_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of NAME in the data file's name, so that a long one fits. */
#define BASE_BYTES 200
/* How often a name that is replaced during the reading is read again. */
#define READ_TRIES 10

#define MAGIC_BYTES (sizeof(GS_OUTPUT_MAP_MAGIC) - 1)

bool gs_output_map_data_path(const char *path, unsigned turn, char out[PATH_MAX])
{
    const char *base = gs_file_name(path);
    int folder = (int)(base - path);
    int length = turn == 1 ? snprintf(out, PATH_MAX, "%.*s%.*s.data", folder, path,
                                      BASE_BYTES, base)
                           : snprintf(out, PATH_MAX, "%.*s%.*s.data.%u", folder, path,
                                      BASE_BYTES, base, turn);

    errno = ENAMETOOLONG;
    return length > 0 && length < PATH_MAX;
}

size_t gs_output_map_name_length(const char *path)
{
    static const char ending[] = ".data";
    const char *end = path + strlen(path), *at = end;

    while (at > path && at[-1] >= '0' && at[-1] <= '9') {
        at--;
    }
    if (at < end && at > path && at[-1] == '.') {
        end = at - 1;
    }
    if ((size_t)(end - path) < sizeof(ending) ||
        memcmp(end - (sizeof(ending) - 1), ending, sizeof(ending) - 1) != 0) {
        return 0;
    }
    return (size_t)(end - path) - (sizeof(ending) - 1);
}

bool gs_output_map_is_data(const char *path)
{
    char name[1024]; /* a longer path is taken for no data file */
    size_t length = gs_output_map_name_length(path);

    if (length == 0 || length >= sizeof(name)) {
        return false;
    }
    memcpy(name, path, length);
    name[length] = '\0';
    return access(name, F_OK) == 0;
}

/* Room for paths, which would be large for a small stack. */
struct paths {
    char name[PATH_MAX], data[PATH_MAX];
};

/* The path of an open file, without the links that led to it. */
static const char *path_of(int fd, const char *given, char out[PATH_MAX])
{
    char link[48];
    ssize_t length;

    snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
    length = readlink(link, out, PATH_MAX - 1);
    if (length <= 0 || out[0] != '/') {
        return given;
    }
    out[length] = '\0';
    return out;
}

/* The path of the data file that an open file names; an empty one was truncated, and its
 * data file has the first name. False: the file has its data itself. */
static bool find_data(const char *given, int fd, struct paths *paths)
{
    char text[MAGIC_BYTES + NAME_MAX + 2] = "";
    const char *path = path_of(fd, given, paths->name), *base = gs_file_name(path);
    const char *name = text + MAGIC_BYTES;
    struct stat info;
    ssize_t length = 0;

    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
        info.st_size >= (off_t)sizeof(text)) {
        return false;
    }
    length = pread(fd, text, sizeof(text) - 1, 0);
    if (length == 0) {
        return gs_output_map_data_path(path, 1, paths->data);
    }
    if (length < (ssize_t)MAGIC_BYTES ||
        memcmp(text, GS_OUTPUT_MAP_MAGIC, MAGIC_BYTES) != 0) {
        return false;
    }
    text[MAGIC_BYTES + strcspn(name, "\n")] = '\0';
    length = snprintf(paths->data, PATH_MAX, "%.*s%s", (int)(base - path), path, name);
    return name[0] && !strchr(name, '/') && length < PATH_MAX;
}

static int open_either(const char *path, int flags, struct paths *paths)
{
    struct stat info;

    for (unsigned i = 0; i < READ_TRIES; i++) {
        int fd = open(path, flags | O_RDONLY | O_CLOEXEC), data;

        if (fd < 0 || !find_data(path, fd, paths)) {
            return fd;
        }
        data = open(paths->data, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (data < 0 && fstat(fd, &info) == 0 && info.st_size == 0) {
            return fd; /* empty, and nothing of ours */
        }
        close(fd);
        if (data >= 0) {
            return data;
        }
        /* Its program may just have ended, and given NAME to the data. */
    }
    errno = ENODATA;
    return -1;
}

int gs_output_map_read(const char *path, int flags)
{
    struct paths *paths = malloc(sizeof(*paths));
    int fd = -1, error;

    errno = ENOMEM;
    if (paths) {
        fd = open_either(path, flags, paths);
    }
    error = errno;
    free(paths);
    errno = error;
    return fd;
}
