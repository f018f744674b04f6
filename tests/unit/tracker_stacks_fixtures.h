/*
 * tracker_stacks_fixtures.h - finds the modules that fixtures/CMakeLists.txt builds.
 */
#ifndef TRACKER_STACKS_FIXTURES_H
#define TRACKER_STACKS_FIXTURES_H

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* "<directory of this program>/fixtures/<name>"; static storage, one at a time. */
static inline const char *fixture_path(const char *name)
{
    static char path[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
    char *slash;

    path[length > 0 ? length : 0] = '\0';
    slash = strrchr(path, '/');
    snprintf(slash != NULL ? slash : path, 64, "/fixtures/%s", name);
    return path;
}

#endif
