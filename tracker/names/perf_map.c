/*
 * perf_map.c - reads lines of the form "address size name", both numbers hexadecimal.
 *
 * The file is in the process's own /tmp, under the number that the process has in its own
 * namespace. Numbers are reused, and /tmp is everybody's: so the file must be newer than
 * the process, and the user's own.
 *
 * Owns:  struct gs_perf_map.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/names/perf_map.h"

#include "gs_read_text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BYTES_MAX    ((off_t)256 << 20)
#define STATUS_BYTES ((size_t)1536)
#define START_FIELD  20 /* in /proc/PID/stat, after the name */

struct entry {
    uintptr_t begin, size;
    const char *name;
};

struct gs_perf_map {
    char *text; /* of the file, cut into lines */
    struct entry *entries;
    size_t count, room;
};

/* The number that a process has in its innermost namespace. */
static long long inner_number(int64_t process)
{
    char path[64], text[STATUS_BYTES];
    const char *at;
    char *end;
    long long number = process;

    (void)snprintf(path, sizeof(path), "/proc/%" PRId64 "/status", process);
    (void)gs_read_text(path, text, sizeof(text));
    at = strstr(text, "\nNSpid:");
    for (at = at ? at + 7 : NULL; at && *at == '\t'; at = end) {
        number = strtoll(at, &end, 10);
    }
    return number;
}

/* The time at which a process began, in seconds of the wall clock; -1: unknown. */
static time_t start_of(int64_t process)
{
    struct timespec boot, now;
    char path[64], text[1024];
    const char *at;

    (void)snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", process);
    (void)gs_read_text(path, text, sizeof(text));
    at = strrchr(text, ')');
    for (unsigned i = 0; at && i < START_FIELD; i++) {
        at = strchr(at + 1, ' ');
    }
    if (!at || clock_gettime(CLOCK_BOOTTIME, &boot) != 0 ||
        clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return -1;
    }
    return now.tv_sec - boot.tv_sec +
           (time_t)(strtoull(at + 1, NULL, 10) / (unsigned long)sysconf(_SC_CLK_TCK));
}

/* Returns true if the file is the process's user's, and newer than the process. */
static bool is_its_own(int64_t process, const struct stat *file)
{
    time_t start = start_of(process);
    struct stat owner;
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%" PRId64, process);
    return stat(path, &owner) == 0 && owner.st_uid == file->st_uid && start >= 0 &&
           file->st_mtime + 1 >= start;
}

/* Opens the process's file; -1: none. */
static int open_file(int64_t process, off_t *bytes)
{
    struct stat info;
    char path[96];
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%" PRId64 "/root/tmp/perf-%lld.map",
                   process, inner_number(process));
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= BYTES_MAX &&
        is_its_own(process, &info)) {
        *bytes = info.st_size;
        return fd;
    }
    close(fd);
    return -1;
}

static bool add(struct gs_perf_map *map, struct entry entry)
{
    if (map->count == map->room) {
        size_t room = map->room ? map->room * 2 : 1024;
        struct entry *entries = realloc(map->entries, room * sizeof(*entries));

        if (!entries) {
            return false;
        }
        map->entries = entries;
        map->room = room;
    }
    map->entries[map->count++] = entry;
    return true;
}

static bool is_printable(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Lines of another form are passed over. */
static void parse(struct gs_perf_map *map)
{
    char *next = map->text;

    while (next) {
        char *line = next, *end = strchr(line, '\n');

        next = end ? end + 1 : NULL;
        if (end) {
            *end = '\0';
        }
        struct entry entry = {.begin = strtoull(line, &end, 16)};

        if (end == line || *end != ' ') {
            continue;
        }
        line = end;
        entry.size = strtoull(line, &end, 16);
        entry.name = end + 1;
        if (end == line || *end != ' ' || entry.name[0] == '\0' ||
            !is_printable(entry.name)) {
            continue;
        }
        if (!add(map, entry)) {
            return;
        }
    }
}

struct gs_perf_map *gs_perf_map_read(int64_t process)
{
    struct gs_perf_map *map;
    off_t bytes = 0;
    size_t done = 0;
    ssize_t got;
    int fd = open_file(process, &bytes);

    if (fd < 0) {
        return NULL;
    }
    map = calloc(1, sizeof(*map));
    if (map) {
        map->text = malloc((size_t)bytes + 1);
    }
    if (!map || !map->text) {
        close(fd);
        gs_perf_map_free(map);
        return NULL;
    }
    while (done < (size_t)bytes &&
           (got = read(fd, map->text + done, (size_t)bytes - done)) > 0) {
        done += (size_t)got;
    }
    close(fd);
    map->text[done] = '\0';
    parse(map);
    return map;
}

void gs_perf_map_free(struct gs_perf_map *map)
{
    if (!map) {
        return;
    }
    free(map->text);
    free(map->entries);
    free(map);
}

const char *gs_perf_map_find(const struct gs_perf_map *map, uintptr_t address)
{
    for (size_t i = map ? map->count : 0; i > 0; i--) {
        const struct entry *entry = &map->entries[i - 1];

        if (address - entry->begin < entry->size) {
            return entry->name;
        }
    }
    return NULL;
}
