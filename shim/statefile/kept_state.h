/*
 * kept_state.h - the state of a process that the command gpushim started, in memory that
 * the command keeps: if the process ends without a report, the command writes it.
 * Locks: opened at start; growth under the lock of the state's memory.
 * Design: docs/state.md
 */
#ifndef GS_KEPT_STATE_H
#define GS_KEPT_STATE_H

#include "shim/settings/options.h"

struct gs_kept_state {
    void *bytes;   /* NULL: there is none */
    size_t room;   /* address space at `bytes` */
    size_t length; /* of it mapped, from the first byte on; a multiple of pages */
};

/* Returns whether a command watches this process. */
bool gs_kept_state_asked(void);

/* Makes the memory, with `first` bytes at least, and hands it to the command. False:
 * none; nothing is logged but with GPUSHIM_VERBOSE=2. */
bool gs_kept_state_open(const struct gs_options *options, size_t first,
                        struct gs_kept_state *out);
/* Makes it at least `length` bytes. */
bool gs_kept_state_grow(struct gs_kept_state *state, size_t length);

/* Hands the state file that the descriptor is of to the command. */
void gs_kept_state_send_file(const struct gs_options *options, int fd);

/* Before a fork within a call of the library, and after it: the child needs a copy. */
void gs_kept_state_before_fork(const struct gs_kept_state *state);
void gs_kept_state_after_fork(const struct gs_kept_state *state);
/* In the child of a fork of the program's: the memory, of which `used` bytes count,
 * becomes the child's own. Returns whether. */
bool gs_kept_state_copy_in_child(const struct gs_kept_state *state, size_t used);

#endif
