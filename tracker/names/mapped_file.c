/*
 * mapped_file.c - reads /proc/PID/maps and /proc/PID/fd.
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 */
#include "mapped_file.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define DESCRIPTORS_MAX 65536u

/* Compares the path of a line of the maps. The kernel adds " (deleted)". */
static bool has_path(const char *line, const char *path)
{
    const char *found = strchr(line, '/');
    size_t length = strlen(path);

    if (found == NULL || strncmp(found, path, length) != 0)
        return false;
    found += length;
    return *found == '\n' || *found == '\0' || strncmp(found, " (deleted)", 10) == 0;
}

/* "begin-end perms offset major:minor inode   path" */
static bool parse(const char *line, uintptr_t begin, struct gs_mapped_file *out)
{
    unsigned long from, to, major_number, minor_number, inode;

    if (sscanf(line, "%lx-%lx %*s %*s %lx:%lx %lu", &from, &to, &major_number,
               &minor_number, &inode) != 5 || /* NOLINT(cert-err34-c) */
        from != begin ||
        inode == 0)
        return false;
    (void)snprintf(out->range, sizeof(out->range), "%lx-%lx", from, to);
    out->device = makedev((unsigned)major_number, (unsigned)minor_number);
    out->inode = inode;
    return true;
}

bool gs_mapped_file_find(int64_t process, uintptr_t begin, const char *path,
                         struct gs_mapped_file *out)
{
    char name[64], *line = NULL;
    size_t room = 0;
    bool found = false;
    FILE *maps;

    (void)snprintf(name, sizeof(name), "/proc/%" PRId64 "/maps", process);
    maps = fopen(name, "re");
    while (maps != NULL && !found && getline(&line, &room, maps) > 0)
        found = parse(line, begin, out);
    out->same_path = found && has_path(line, path);
    free(line);
    if (maps != NULL)
        (void)fclose(maps);
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
        if (entry == NULL)
            break;
        (void)snprintf(path, path_bytes, "%s/%.20s", folder, entry->d_name);
        found = stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
                (info.st_dev == mapped->device || any_device) &&
                info.st_ino == mapped->inode;
    }
    if (descriptors != NULL)
        (void)closedir(descriptors);
    return found;
}
