/*
 * leak_scan_areas.c - selects the mappings to scan from the lines of /proc/self/maps, and
 * finds the start of threads' stacks.
 *
 * Scanned: private memory, and shared memory without a file on disk. Skipped: devices,
 * unreadable memory, and the unused part of a stack.
 *
 * Owns: nothing.   Lock: none.
 */
#include "gs_read_text.h"
#include "gs_string.h"
#include "tracker/scan/leak_scan_internal.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A leaf function may use this much below its stack pointer (x86-64 ABI). */
#define RED_ZONE 128u
/* Alignment of glibc's heaps for threads other than the first: such a mapping is no
 * stack. */
#define ARENA_BYTES ((uintptr_t)64 << 20)

/* Returns the stack pointer of a thread that waits in the kernel; 0: the thread runs, or
 * the kernel does not tell. */
static uintptr_t stack_pointer(const char *thread)
{
    char path[64], text[256];

    snprintf(path, sizeof(path), "/proc/self/task/%.16s/syscall", thread);
    if (gs_read_text(path, text, sizeof(text)) == 0) {
        return 0;
    }
    /* "number six-arguments sp pc", or "-1 sp pc", or "running". */
    char *last = strrchr(text, ' ');
    if (!last) {
        return 0;
    }
    *last = '\0';
    char *before = strrchr(text, ' ');
    return before ? (uintptr_t)strtoull(before + 1, NULL, 16) : 0;
}

void gs_scan_find_stacks(struct gs_scan_stacks *stacks, uintptr_t own_stack_from)
{
    DIR *threads = opendir("/proc/self/task");
    long own = syscall(SYS_gettid);
    struct dirent *entry;

    stacks->count = 0;
    if (own_stack_from != 0) {
        stacks->tops[stacks->count++] = own_stack_from;
    }
    if (!threads) {
        return;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is this call's own */
    while (stacks->count < GS_SCAN_THREADS && (entry = readdir(threads)) != NULL) {
        uintptr_t top;
        if (entry->d_name[0] == '.' || strtol(entry->d_name, NULL, 10) == own) {
            continue;
        }
        top = stack_pointer(entry->d_name);
        if (top > RED_ZONE) {
            stacks->tops[stacks->count++] = top - RED_ZONE;
        }
    }
    closedir(threads);
}

/* Returns the lowest stack pointer within the area; 0: none. */
static uintptr_t lowest_top(const struct gs_scan_stacks *stacks, uintptr_t begin,
                            uintptr_t end)
{
    uintptr_t lowest = 0;

    for (size_t i = 0; i < stacks->count; i++) {
        uintptr_t top = stacks->tops[i];
        if (top >= begin && top < end && (lowest == 0 || top < lowest)) {
            lowest = top;
        }
    }
    return lowest;
}

/* Returns true for shared memory without a file on disk. */
static bool is_memory(const char *path)
{
    return gs_starts_with(path, "/dev/zero") || gs_starts_with(path, "/dev/shm/") ||
           gs_starts_with(path, "/memfd:") || gs_starts_with(path, "/SYSV") ||
           gs_starts_with(path, "/anon_hugepage");
}

/* Returns true for a driver's mapping: reading one may have side effects. */
static bool is_device(const char *path)
{
    return (gs_starts_with(path, "/dev/") && !is_memory(path)) ||
           gs_starts_with(path, "/sys/") || gs_starts_with(path, "/proc/") ||
           gs_starts_with(path, "anon_inode:") || gs_starts_with(path, "/dmabuf") ||
           gs_starts_with(path, "socket:") || gs_starts_with(path, "[v");
}

bool gs_scan_take_line(struct gs_scan_lines *lines, const char *line,
                       struct gs_scan_area *out)
{
    unsigned long begin, end;
    char permissions[8];
    int path_at = 0;

    /* NOLINTNEXTLINE(cert-err34-c): the kernel writes what fits */
    if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %n", &begin, &end, permissions, &path_at) <
            3 ||
        strlen(permissions) < 4) {
        return false;
    }
    const char *path = path_at > 0 ? line + path_at : "";
    bool guarded = lines->guard_end == begin;

    lines->guard_end = strcmp(permissions, "---p") == 0 ? end : 0;
    *out = (struct gs_scan_area){
        .begin = begin, .end = end, .shared = permissions[3] == 's'};
    if (permissions[0] != 'r' || is_device(path) ||
        (out->shared && (permissions[1] != 'w' || !is_memory(path)))) {
        return false;
    }
    if (!out->shared && (strcmp(path, "[stack]") == 0 ||
                         (guarded && path[0] == '\0' && begin % ARENA_BYTES != 0))) {
        uintptr_t top = lowest_top(lines->stacks, begin, end);
        out->root = top != 0;
        if (top != 0) {
            out->begin = top;
        }
    }
    return true;
}
