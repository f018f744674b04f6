/*
 * state_file.h - the file in which the tracker's memory outlives the process:
 * GPUSHIM_STATE_FILE.
 *
 * Locks: start-up opens it; the rest may be called from any thread.
 * Design: docs/state.md
 */
#ifndef GS_STATE_FILE_H
#define GS_STATE_FILE_H

#include "options.h"
#include "state_memory.h"

/* The command line with spaces between its words, cut at so many bytes. */
#define GS_COMMAND_BYTES 120
void gs_command_line(char out[GS_COMMAND_BYTES + 8]);

/* Where process `pid` is in the time of this system: GS_OK, and when it started, in clock
 * ticks. GS_ERR_NOT_FOUND. */
enum gs_status gs_process_start(int64_t pid, uint64_t *start) GS_MUST_USE;
void gs_boot_id(char *out, size_t size);

/* Make the file, if one is wanted. NULL: none is, or it was said why there is none. */
struct gs_state_memory *gs_state_file_open(const struct gs_options *options);

/* Of the forms that a file of this build has. */
uint64_t gs_state_file_layout(void);
/* Room in the file for what is not the tracker's; NULL: there is none. Once. */
void *gs_state_file_annex(size_t bytes);

/* What gpushim_report does (include/gpushim.h); state_report.c. */
int gs_state_report(const char *state_file);
/* gpushim_summary; state_summary.c. */
int gs_state_summary(char *const files[], size_t count);

/* The name of a device, once it is known. */
void gs_state_file_device(int ordinal, const char *name);
/* The last report was written. */
void gs_state_file_ending(const char *ending);
/* The file's addresses, NULL: there are none. */
const void *gs_state_file_range(size_t *bytes);
/* In a forked child: the file is its parent's. `inside`: the thread may write yet to what
 * the file has. Returns whether that is memory of the child's own. */
bool gs_state_file_after_fork_in_child(bool inside);

#endif
