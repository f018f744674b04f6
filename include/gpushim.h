/*
 * gpushim.h - the C API of libgpushim.so.
 *
 * A program need not include it: everything works under LD_PRELOAD alone. Functions may
 * be called from any thread.
 */
#ifndef GPUSHIM_H
#define GPUSHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library, "MAJOR.MINOR.PATCH". Static storage, never NULL. */
const char *gpushim_version(void);

/*
 * Write the report of another process to stdout, as `gpushim report FILE` does: of one
 * that was killed, or of one that runs still.
 * In:      state_file  what the process had as GPUSHIM_STATE_FILE
 * Returns  0; 1 if the file cannot be read, and a line on stderr says why;
 *          GPUSHIM_ERROR_EXITCODE, where it is set, if there are leaks or errors
 * Source:  docs/state.md. Not for a program that has made CUDA calls itself.
 */
int gpushim_report(const char *state_file);

/*
 * Write a line to stdout for each of several processes, and one for all of them.
 * In:      state_files  `count` names, as above
 * Returns  0; 1 if one of them cannot be read, and a line on stderr says why
 */
int gpushim_summary(char *const state_files[], size_t count);

#ifdef __cplusplus
}
#endif

#endif
