/*
 * living_thread.c - see living_thread.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/reader/living_thread.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_read_text.h"

static bool has_memory(pid_t thread)
{
    char path[48], pages[16];
    (void)snprintf(path, sizeof(path), "/proc/%ld/statm", (long)thread);
    return gs_read_text(path, pages, sizeof(pages)) > 0 && strncmp(pages, "0 ", 2) != 0;
}

pid_t gs_living_thread(pid_t pid)
{
    char path[48];
    pid_t found = 0;
    if (has_memory(pid)) {
        return pid;
    }
    (void)snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    DIR *threads = opendir(path);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of this function's own */
    for (struct dirent *entry; threads && !found && (entry = readdir(threads));) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        found = thread > 0 && has_memory(thread) ? thread : 0;
    }
    if (threads) {
        (void)closedir(threads);
    }
    return found ? found : pid;
}
