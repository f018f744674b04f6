/*
 * mapped_file.c - reads /proc/PID/maps and /proc/PID/fd.
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/names/mapped_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 65536u
#define MAPS_PIECE      ((size_t)16 << 10)

/* Compares the path of a line of the maps. The kernel adds " (deleted)". */
static bool has_path(const char *line, const char *path)
{
    const char *found = strchr(line, '/');
    size_t length = strlen(path);

    if (found == NULL || strncmp(found, path, length) != 0) {
        return false;
    }
    found += length;
    return *found == '\n' || *found == '\0' || strncmp(found, " (deleted)", 10) == 0;
}

/* "begin-end perms offset major:minor inode   path" */
static bool parse(const char *line, uintptr_t begin, struct gs_mapped_file *out)
{
    unsigned long from, to, major_number, minor_number, inode;

    /* NOLINTNEXTLINE(cert-err34-c): the kernel writes what fits */
    if (sscanf(line, "%lx-%lx %*s %*s %lx:%lx %lu", &from, &to, &major_number,
               &minor_number, &inode) != 5 ||
        from != begin || inode == 0) {
        return false;
    }
    (void)snprintf(out->range, sizeof(out->range), "%lx-%lx", from, to);
    out->device = makedev((unsigned)major_number, (unsigned)minor_number);
    out->inode = inode;
    return true;
}

/* Searches the complete lines of a text. Returns the text after the last one. */
static char *search_lines(char *text, uintptr_t begin, const char *path, bool *found,
                          struct gs_mapped_file *out)
{
    char *newline;

    for (; (newline = strchr(text, '\n')) != NULL; text = newline + 1) {
        *newline = '\0';
        if (*found || !parse(text, begin, out)) {
            continue;
        }
        *found = true;
        out->same_path = has_path(text, path);
    }
    return text;
}

bool gs_mapped_file_find(int64_t process, uintptr_t begin, const char *path,
                         struct gs_mapped_file *out)
{
    char name[64], *text = malloc(MAPS_PIECE), *rest;
    size_t used = 0;
    bool found = false;
    ssize_t got;
    int maps;

    (void)snprintf(name, sizeof(name), "/proc/%" PRId64 "/maps", process);
    maps = text != NULL ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    while (maps >= 0 && !found && used < MAPS_PIECE - 1 &&
           (got = read(maps, text + used, MAPS_PIECE - 1 - used)) > 0) {
        text[used + (size_t)got] = '\0';
        rest = search_lines(text, begin, path, &found, out);
        used = strlen(rest);
        memmove(text, rest, used + 1);
    }
    if (maps >= 0) {
        close(maps);
    }
    free(text);
    return found;
}

bool gs_mapped_file_descriptor(int64_t process, const struct gs_mapped_file *mapped,
                               bool any_device, char *path, size_t path_bytes)
{
    char folder[64];
    struct dirent *entry;
    bool found = false;
    DIR *descriptors;

    (void)snprintf(folder, sizeof(folder), "/proc/%" PRId64 "/fd", process);
    descriptors = opendir(folder);
    for (unsigned i = 0; descriptors != NULL && i < DESCRIPTORS_MAX && !found; i++) {
        struct stat info;

        entry = readdir(descriptors); /* NOLINT(concurrency-mt-unsafe): its own stream */
        if (entry == NULL) {
            break;
        }
        (void)snprintf(path, path_bytes, "%s/%.20s", folder, entry->d_name);
        found = stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
                (info.st_dev == mapped->device || any_device) &&
                info.st_ino == mapped->inode;
    }
    if (descriptors != NULL) {
        (void)closedir(descriptors);
    }
    return found;
}
