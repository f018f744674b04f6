/*
 * host_region.c - classifies a host address by /proc/self/maps.
 *
 * Stacks of threads other than the first, and large malloc blocks, are anonymous mappings
 * like any other, and stay unclassified.
 *
 * A free in a signal handler may have an alternate stack of 8 KiB, of which the handler's
 * frame takes up to 3.5: the buffers are small, and no stdio reads the lines.
 *
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md
 */
#include "tracker/names/host_region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gs_uncancelled.h"
#include "tracker/stacks/thread_stack.h"

/* Longer paths are cut; their start is enough to classify a mapping. What comes before a
 * path has 84 bytes at most. */
#define LINE_BYTES 128

/* Reads the next line, cut if it is too long; false: no more lines. */
struct lines {
    int fd;
    size_t at, end;
    char piece[256];
};

static bool next_char(struct lines *lines, char *out)
{
    if (lines->at == lines->end) {
        ssize_t got = read(lines->fd, lines->piece, sizeof(lines->piece));

        lines->at = 0;
        lines->end = got > 0 ? (size_t)got : 0;
        if (got <= 0) {
            return false;
        }
    }
    *out = lines->piece[lines->at++];
    return true;
}

static bool next_line(struct lines *lines, char out[LINE_BYTES])
{
    size_t used = 0;
    char c;

    while (next_char(lines, &c)) {
        if (c == '\n') {
            out[used] = '\0';
            return true;
        }
        if (used < LINE_BYTES - 1) {
            out[used++] = c;
        }
    }
    return false;
}

/* True for a file on a disk; false for shared memory and for a device. */
static bool is_file(const char *path)
{
    return path[0] == '/' && strncmp(path, "/dev/", 5) != 0 &&
           strncmp(path, "/memfd:", 7) != 0 && strncmp(path, "/SYSV", 5) != 0 &&
           strncmp(path, "/anon_hugepage", 14) != 0 && strncmp(path, "/dmabuf", 7) != 0;
}

static enum gs_host_region place_of(const char *path, bool private)
{
    if (strcmp(path, "[stack]") == 0) {
        return GS_HOST_STACK;
    }
    if (strcmp(path, "[heap]") == 0) {
        return GS_HOST_HEAP;
    }
    return private && is_file(path) ? GS_HOST_DATA : GS_HOST_UNKNOWN;
}

/* The character after so many words and the spaces that follow them. */
static const char *behind_words(const char *line, unsigned words)
{
    for (; words > 0; words--) {
        line += strcspn(line, " ");
        line += strspn(line, " ");
    }
    return line;
}

/* Classifies the mapping that contains the address, if it is the program's. A line is
 * BEGIN-END PERMISSIONS OFFSET DEVICE INODE PATH. */
static enum gs_host_region classify_mapping(struct lines *lines, uint64_t addr)
{
    char line[LINE_BYTES], *end;

    while (next_line(lines, line)) {
        uint64_t from = strtoull(line, &end, 16);

        if (*end == '-' && addr >= from && addr < strtoull(end + 1, NULL, 16)) {
            const char *permissions = behind_words(line, 1);
            bool private = strcspn(permissions, " ") == 4 && permissions[3] == 'p';

            return place_of(behind_words(line, 5), private);
        }
    }
    return GS_HOST_UNKNOWN;
}

enum gs_host_region gs_host_region(uint64_t addr)
{
    int saved_errno = errno;
    uintptr_t high;
    enum gs_host_region place = GS_HOST_UNKNOWN;

    if (gs_thread_stack_known((uintptr_t)addr, &high)) {
        return GS_HOST_STACK;
    }
    int before = gs_uncancelled_begin();
    struct lines lines = {.fd = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC)};
    if (lines.fd >= 0) {
        place = classify_mapping(&lines, addr);
        close(lines.fd);
    }
    gs_uncancelled_end(before);
    errno = saved_errno;
    return place;
}
