/*
 * state_open.h - opens a state file for the functions that report its contents.
 * Locks: none; one thread reads. Design: docs/state.md
 */
#ifndef GS_STATE_OPEN_H
#define GS_STATE_OPEN_H

#include "options.h"
#include "state_read.h"

struct gs_state_open {
    char *bytes;
    struct gs_state_header header;
    struct gs_state_found found;
    bool running; /* its process still runs */
};

/* Reads the settings of the reading process: log, outputs, rules. Needed once. */
const struct gs_options *gs_state_settings(void);

/* True: gs_state_close must follow. False: a line logs the file's error. */
bool gs_state_open(const char *path, struct gs_state_open *out);
void gs_state_close(struct gs_state_open *state);

#endif
