/*
 * advise_progress.c - how many replays there were, for a terminal.
 * Owns: that count.   Lock: none.
 */
#include "shim/tools/replay/advise.h"

#include <time.h>
#include <unistd.h>

static struct {
    bool shown; /* on a terminal */
    unsigned replays;
    time_t start;
} progress;

void gs_advise_progress_begin(void)
{
    progress.shown = isatty(STDERR_FILENO) == 1;
    progress.start = time(NULL);
}

void gs_advise_progress(void)
{
    progress.replays++;
    if (progress.shown && time(NULL) > progress.start) {
        fprintf(stderr, "\r%s: %u replays ", gs_replay_program, progress.replays);
    }
}

void gs_advise_progress_end(void)
{
    if (progress.shown && time(NULL) > progress.start) {
        fprintf(stderr, "\r%32s\r", "");
    }
}
