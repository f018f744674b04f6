/*
 * state_file.h - GPUSHIM_STATE_FILE: the file in which the tracker's memory outlives the
 * process.
 *
 * Locks: opened at start; the other functions may be called from any thread.
 * Design: docs/state.md
 */
#ifndef GS_STATE_FILE_H
#define GS_STATE_FILE_H

#include "shim/settings/options.h"
#include "shim/settings/process_start.h"
#include "tracker/statefile/state_memory.h"

/* ---- identity.c -------------------------------------------------------------------- */

/* The command line with spaces between its words, cut at GS_COMMAND_BYTES bytes. */
#define GS_COMMAND_BYTES 120
void gs_command_line(char out[GS_COMMAND_BYTES + 8]);

void gs_boot_id(char *out, size_t size);
/* A number that identifies the layout of this build's files. In: gs_statistics_form */
uint64_t gs_state_file_layout(uint64_t statistics_form);

/* ---- state_file.c ------------------------------------------------------------------ */

/* Creates the file, if the option asks for one; else, in a program that the command
 * gpushim started, memory that the command keeps; else memory of the same form, which can
 * be copied out. NULL: none of them; a failure of the first two was logged. */
struct gs_state_memory *gs_state_file_open(const struct gs_options *options);

/* Reserves memory in the file for data other than the tracker's; NULL: there is no file.
 * Called once. */
void *gs_state_file_annex(size_t bytes);

/* Stores the name, the PCI bus id and the UUID of a device, once they are known. */
void gs_state_file_device(int ordinal, const char *name, const char *bus,
                          const char *uuid);
/* Stores that the last report was written, and whether it has leaks or errors; "": it is
 * not the last. */
void gs_state_file_ending(const char *ending, bool bad);
/* Start time of the file's process, in clock ticks since the machine's start; 0: no file.
 */
uint64_t gs_state_file_pid_start(void);
/* Whether this process alone has the memory: neither a file nor the command does. */
bool gs_state_file_is_private(void);
/* The bytes of the file so far, as they are now: the process goes on to write to them.
 * *head replaces their beginning in a copy, which then is one of now. NULL: there is no
 * file. */
const void *gs_state_file_copy(struct gs_state_header *head, size_t *bytes);
/* Whether the command gpushim keeps this memory and writes the report if the process does
 * not. */
bool gs_state_file_is_kept(void);
/* The address range of the file, NULL: no file. */
const void *gs_state_file_range(size_t *bytes);
/* Around a fork within a call of the library, in the parent. */
void gs_state_file_before_fork(void);
void gs_state_file_after_fork(void);
/* In a forked child: the file belongs to the parent. `inside`: the thread may still write
 * to the file's memory. Returns whether this memory is now the child's own. */
bool gs_state_file_after_fork_in_child(bool inside);

#endif
