/*
 * output_map.c - see output_map.h.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/settings/output_map.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_string.h"
#include "shim/settings/link_open.h"
#include "shim/settings/log.h"
#include "shim/settings/output.h"

/* Names tried for a new file. */
#define NAME_TRIES 1000

/* Bytes of NAME, and a NUL. */
#define NAME_TEXT (sizeof(GS_OUTPUT_MAP_MAGIC) + NAME_MAX + 1)

static bool is_inode(const struct stat *info, const struct gs_output_inode *inode)
{
    return info->st_dev == inode->device && info->st_ino == inode->inode;
}

static bool take_inode(int fd, struct gs_output_inode *out)
{
    struct stat info;

    if (fstat(fd, &info) != 0) {
        return false;
    }
    *out = (struct gs_output_inode){info.st_dev, info.st_ino};
    return true;
}

/* ---- creation ------------------------------------------------------------------- */

/* Whether the path leads to a device, a pipe or a folder, next to which no file is
 * intended. */
static bool is_special(const char *path)
{
    struct stat info;
    bool special = stat(path, &info) == 0 && !S_ISREG(info.st_mode);

    errno = special && S_ISDIR(info.st_mode) ? EISDIR : EEXIST;
    return special;
}

static int create_new(const char *path)
{
    return gs_link_open(path, O_RDWR | O_CREAT | O_EXCL, NULL);
}

static int create_name(struct gs_output_map *file, const char *wanted, const char *tail,
                       bool (*clear)(const char *path))
{
    int fd = -1, length = snprintf(file->path, PATH_MAX, "%s", wanted);

    for (unsigned i = 1; i <= NAME_TRIES && length < PATH_MAX; i++) {
        fd = create_new(file->path);
        if (fd >= 0 || errno != EEXIST || (i == 1 && is_special(wanted))) {
            break;
        }
        if (clear && clear(file->path)) {
            fd = create_new(file->path);
            if (fd >= 0) {
                break;
            }
        }
        errno = EEXIST;
        length = i == 1 && *tail
                     ? snprintf(file->path, PATH_MAX, "%s%s", wanted, tail)
                     : snprintf(file->path, PATH_MAX, "%s%s.%u", wanted, tail, i);
    }
    return fd;
}

/* Creates the data file. An existing one stays, since another process may still write to
 * it. */
static int create_data(struct gs_output_map *file)
{
    int fd = -1;

    for (unsigned turn = 1; turn <= NAME_TRIES; turn++) {
        if (!gs_output_map_data_path(file->path, turn, file->data_path)) {
            return -1;
        }
        fd = create_new(file->data_path);
        if (fd >= 0 || errno != EEXIST) {
            break;
        }
    }
    return fd;
}

/* What NAME contains. Returns its length. */
static size_t name_text(const struct gs_output_map *file, char text[NAME_TEXT])
{
    int length = snprintf(text, NAME_TEXT, "%s%s\n", GS_OUTPUT_MAP_MAGIC,
                          gs_file_name(file->data_path));

    return (size_t)length;
}

/* Writes it. Returns 0 or an errno. */
static int write_name(const struct gs_output_map *file, int fd)
{
    char text[NAME_TEXT];
    size_t done;

    return gs_output_write(fd, text, name_text(file, text), &done);
}

int gs_output_map_create(struct gs_output_map *file, const char *wanted, const char *tail,
                         bool (*clear)(const char *path))
{
    int name = create_name(file, wanted, tail, clear), data, error;

    if (name < 0) {
        return -1;
    }
    data = create_data(file);
    error = data < 0 ? errno : write_name(file, name);
    if (!error && (!take_inode(name, &file->name) || !take_inode(data, &file->data))) {
        error = errno;
    }
    close(name);
    if (error) {
        unlink(file->path);
        if (data >= 0) {
            unlink(file->data_path);
            close(data);
        }
        errno = error;
        return -1;
    }
    return data;
}

/* ---- growth --------------------------------------------------------------------- */

static bool has_inode(const char *path, const struct gs_output_inode *inode)
{
    struct stat info;

    return lstat(path, &info) == 0 && is_inode(&info, inode);
}

static int open_data(const char *path, const struct gs_output_inode *data)
{
    struct stat info;
    int fd = gs_link_open(path, O_RDWR | O_NOFOLLOW, NULL);

    if (fd >= 0 && (fstat(fd, &info) != 0 || !is_inode(&info, data))) {
        close(fd);
        errno = ENOENT;
        return -1;
    }
    return fd;
}

/* Another thread may publish it in between. */
int gs_output_map_open(const struct gs_output_map *file)
{
    int fd = open_data(file->data_path, &file->data);

    return fd < 0 && errno == ENOENT ? open_data(file->path, &file->data) : fd;
}

int gs_output_map_extend(int fd, off_t offset, size_t bytes)
{
    struct gs_output_shield shield;
    sigset_t all;
    int error;

    gs_output_shield_raise(&shield);
    sigfillset(&all); /* any signal interrupts it */
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    do {
        error = posix_fallocate(fd, offset, (off_t)bytes);
    } while (error == EINTR);
    gs_output_shield_lower(&shield, error);
    return error;
}

/* ---- the end -------------------------------------------------------------------- */

/* Whether NAME is the file that was created, whole or cut: another file may have its
 * inode by now. */
static bool is_name(const struct gs_output_map *file)
{
    char text[NAME_TEXT], found[NAME_TEXT];
    size_t length = name_text(file, text);
    ssize_t got = -1;
    int fd = has_inode(file->path, &file->name)
                 ? gs_link_open(file->path, O_RDONLY | O_NOFOLLOW, NULL)
                 : -1;

    if (fd >= 0) {
        got = pread(fd, found, sizeof(found), 0);
        close(fd);
    }
    return got >= 0 && (size_t)got <= length && memcmp(text, found, (size_t)got) == 0;
}

int gs_output_map_publish(const struct gs_output_map *file)
{
    struct stat info;

    if (has_inode(file->path, &file->data)) {
        return 0;
    }
    if (!has_inode(file->data_path, &file->data)) {
        return ENOENT;
    }
    if (lstat(file->path, &info) == 0 && !is_name(file)) {
        return EEXIST;
    }
    return rename(file->data_path, file->path) == 0 ? 0 : errno;
}

void gs_output_map_log(const struct gs_output_map *file, const char *variable, int error)
{
    if (error == ENOENT) {
        gs_log_line(GS_LOG_WARN, "%s=%.400s: removed before the program ended", variable,
                    file->path);
    } else if (error) {
        gs_log_line(GS_LOG_WARN, "%s=%.400s: %s; the data is in %.400s", variable,
                    file->path, gs_output_error_text(error), file->data_path);
    }
}

void gs_output_map_withdraw(struct gs_output_map *file)
{
    int fd;

    if (!has_inode(file->path, &file->data) || link(file->path, file->data_path) != 0) {
        return;
    }
    unlink(file->path);
    fd = create_new(file->path);
    if (fd < 0) {
        return;
    }
    if (write_name(file, fd) != 0 || !take_inode(fd, &file->name)) {
        file->name = file->data; /* the data keeps its own name */
    }
    close(fd);
}

void gs_output_map_remove(const struct gs_output_map *file)
{
    if (is_name(file) || has_inode(file->path, &file->data)) {
        unlink(file->path);
    }
    if (has_inode(file->data_path, &file->data)) {
        unlink(file->data_path);
    }
}
