/*
 * state_open.h - a state file and what is found in it, for those that tell of it.
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
    bool running; /* its process is there yet */
};

/* The settings of who reads: log, outputs, rules. Once is enough. */
const struct gs_options *gs_state_settings(void);

/* True: gs_state_close is due. False: a line says what is wrong with the file. */
bool gs_state_open(const char *path, struct gs_state_open *out);
void gs_state_close(struct gs_state_open *state);

#endif
