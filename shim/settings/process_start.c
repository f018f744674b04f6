/*
 * process_start.c - whether a process runs, by its number and its start.
 * Owns: nothing.   Lock: none.
 */
#include "process_start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_read_text.h"

enum gs_status gs_process_start(int64_t pid, uint64_t *start)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    (void)gs_read_text(path, text, sizeof(text));
    /* After the name, which may contain anything in parentheses: words 3 to 22. Word 3 is
     * the state: a zombie has ended, only its parent does not know yet. */
    const char *word = strrchr(text, ')');
    if (word && strspn(word, ") ZXx") > 2) {
        return GS_ERR_NOT_FOUND;
    }
    for (unsigned i = 2; word && i < 22; i++) {
        word = strchr(word + 1, ' ');
    }
    if (!word) {
        return GS_ERR_NOT_FOUND;
    }
    *start = strtoull(word, NULL, 10);
    return GS_OK;
}
