/*
 * machine_memory.c - reads meminfo and the limits of the process's control groups.
 *
 * A group's limit holds for all its members, so every group from the process's own up to
 * the root is read, and the tightest limit counts. In a container the path in
 * /proc/self/cgroup is often not the mounted one: missing groups are skipped, and the
 * root of the mount, which is then the container's own group, is always read. A group's
 * usage counts without its inactive file pages, which the kernel reclaims before it kills
 * a process.
 *
 * The texts are in a mapping, since the caller may have a small stack.
 *
 * Owns:  the last answer.   Lock: none; its members are atomic. They may come from two
 *        readings for a short time, which the next reading corrects.
 */
#include "shim/limits/machine_memory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gs_read_text.h"
#include "gs_uncancelled.h"
#include "tracker/host_memory.h"

#define FILE_BYTES 8192

/* The buffers for files. */
struct texts {
    const char *root;
    char full[PATH_MAX], path[PATH_MAX];
    char file[FILE_BYTES]; /* used by read_file */
    char groups[FILE_BYTES], line[FILE_BYTES];
};

/* Reads the beginning of a file as a string into texts->file. Returns false if there is
 * none. */
static bool read_file(struct texts *texts, const char *path)
{
    if ((size_t)snprintf(texts->full, sizeof(texts->full), "%s%s", texts->root, path) >=
        sizeof(texts->full)) {
        return false;
    }
    return gs_read_text(texts->full, texts->file, FILE_BYTES) > 0;
}

/* The number after `word` at the start of a line. */
static bool find_number(const char *text, const char *word, uint64_t *out)
{
    size_t length = strlen(word);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, length) == 0 &&
            (line[length] == ' ' || line[length] == ':')) {
            line += length + strspn(line + length, ": \t");
            *out = strtoull(line, NULL, 10);
            return *line >= '0' && *line <= '9';
        }
    }
    return false;
}

/* The file names of one version of control groups. */
struct version {
    const char *mount, *limit, *usage, *file_pages;
};
static const struct version v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                  "memory.usage_in_bytes", "total_inactive_file"};
static const struct version v2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                  "inactive_file"};

/* Reads the beginning of a group's file. Returns false if there is none. */
static bool read_group_file(struct texts *texts, const struct version *version,
                            const char *group, const char *file)
{
    return (size_t)snprintf(texts->path, sizeof(texts->path), "%s%s/%s", version->mount,
                            group, file) < sizeof(texts->path) &&
           read_file(texts, texts->path);
}

static bool read_group_number(struct texts *texts, const struct version *version,
                              const char *group, const char *file, uint64_t *out)
{
    if (!read_group_file(texts, version, group, file) || texts->file[0] < '0' ||
        texts->file[0] > '9') {
        return false; /* "max" is not a number, and means no limit */
    }
    *out = strtoull(texts->file, NULL, 10);
    return true;
}

/* Applies the limit of one group, if it has one. */
static void apply_group_limit(struct texts *texts, const struct version *version,
                              const char *group, struct gs_machine_memory *memory)
{
    uint64_t limit, usage, pages = 0;
    if (!read_group_number(texts, version, group, version->limit, &limit) ||
        !read_group_number(texts, version, group, version->usage, &usage)) {
        return;
    }
    if (read_group_file(texts, version, group, "memory.stat")) {
        (void)find_number(texts->file, version->file_pages, &pages);
    }
    usage -= pages < usage ? pages : usage;
    uint64_t left = limit > usage ? limit - usage : 0;
    if (limit < memory->total_bytes) {
        memory->total_bytes = limit;
    }
    if (left < memory->available_bytes) {
        memory->available_bytes = left;
    }
}

/* Applies the limits of `group` and of all groups above it; overwrites the text. */
static void apply_group_limits(struct texts *texts, const struct version *version,
                               char *group, struct gs_machine_memory *memory)
{
    char *slash;
    while (group && *group && strcmp(group, "/") != 0) {
        apply_group_limit(texts, version, group, memory);
        slash = strrchr(group, '/');
        if (!slash) {
            break;
        }
        *slash = '\0';
    }
    apply_group_limit(texts, version, "", memory);
}

/* The path of a line `number:controllers:path`, NUL-terminated, or NULL. */
static char *path_in(char *line, const char *controller)
{
    char *list = strchr(line, ':');
    char *path = list ? strchr(list + 1, ':') : NULL;
    if (!path) {
        return NULL;
    }
    *path++ = '\0';
    size_t length = strlen(controller);
    for (char *at = list + 1; length > 0; at++) {
        if (strncmp(at, controller, length) == 0 &&
            (at[length] == ',' || at[length] == '\0')) {
            return path;
        }
        at = strchr(at, ',');
        if (!at) {
            return NULL;
        }
    }
    return list[1] == '\0' ? path : NULL;
}

static void read_control_groups(struct texts *texts, struct gs_machine_memory *memory)
{
    char *line = texts->line;
    if (!read_file(texts, "/proc/self/cgroup")) {
        return;
    }
    memcpy(texts->groups, texts->file, sizeof(texts->groups));
    for (char *at = texts->groups, *end; *at; at = end) {
        end = at + strcspn(at, "\n");
        end += *end == '\n';
        size_t length = (size_t)(end - at) - (end > at && end[-1] == '\n');
        memcpy(line, at, length);
        line[length] = '\0';
        char *path = path_in(line, "memory");
        if (path) {
            apply_group_limits(texts, &v1, path, memory);
            continue;
        }
        memcpy(line, at, length);
        path = path_in(line, "");
        if (path) {
            apply_group_limits(texts, &v2, path, memory);
        }
    }
}

bool gs_machine_memory_read(const char *root, struct gs_machine_memory *out)
{
    struct gs_machine_memory memory;
    int saved_errno = errno;
    int before = gs_uncancelled_begin();
    struct texts *texts = gs_host_map(sizeof(*texts));
    if (texts) {
        texts->root = root;
    }
    bool read = texts && read_file(texts, "/proc/meminfo") &&
                find_number(texts->file, "MemTotal", &memory.total_bytes) &&
                find_number(texts->file, "MemAvailable", &memory.available_bytes);
    if (read) {
        memory.total_bytes *= 1024;
        memory.available_bytes *= 1024;
        read_control_groups(texts, &memory);
        *out = memory;
    }
    gs_host_unmap(texts, sizeof(*texts));
    gs_uncancelled_end(before);
    errno = saved_errno;
    return read;
}

static struct {
    uint64_t read_at; /* 0: never read */
    uint64_t total_bytes;
    int64_t available_bytes; /* minus the bytes taken since */
} last;                      /* atomic */

/* Returns true if this thread should read the files. */
static bool should_read(uint64_t now_ns)
{
    uint64_t at = __atomic_load_n(&last.read_at, __ATOMIC_ACQUIRE);
    return !at || (now_ns - at >= GS_MACHINE_RECENT_NS &&
                   __atomic_compare_exchange_n(&last.read_at, &at, now_ns, false,
                                               __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static bool read_last(const char *root, uint64_t now_ns)
{
    struct gs_machine_memory memory;
    if (!gs_machine_memory_read(root, &memory)) {
        __atomic_store_n(&last.read_at, 0, __ATOMIC_RELAXED);
        return false;
    }
    __atomic_store_n(&last.total_bytes, memory.total_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&last.available_bytes, (int64_t)memory.available_bytes,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&last.read_at, now_ns, __ATOMIC_RELEASE);
    return true;
}

bool gs_machine_memory_recent(const char *root, uint64_t now_ns,
                              struct gs_machine_memory *out)
{
    if (should_read(now_ns) && !read_last(root, now_ns)) {
        return false;
    }
    int64_t available = __atomic_load_n(&last.available_bytes, __ATOMIC_RELAXED);
    out->total_bytes = __atomic_load_n(&last.total_bytes, __ATOMIC_RELAXED);
    out->available_bytes = available > 0 ? (uint64_t)available : 0;
    return true;
}

void gs_machine_memory_taken(int64_t bytes)
{
    __atomic_fetch_sub(&last.available_bytes, bytes, __ATOMIC_RELAXED);
}
