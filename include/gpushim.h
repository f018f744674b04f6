/*
 * gpushim.h - the C API of libgpushim.so.
 *
 * A program need not include this file: everything works under LD_PRELOAD alone. Any
 * thread may call any function.
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
 * Writes the report of another process, killed or still running, to stdout, as `gpushim
 * report FILE` does.
 * In:      state_file  the process's GPUSHIM_STATE_FILE
 * Returns  0; 1 if the file cannot be read, with the reason on stderr;
 *          GPUSHIM_ERROR_EXITCODE, where it is set, if there are leaks or errors
 * Source:  docs/state.md. Not for a program that has made CUDA calls itself.
 */
int gpushim_report(const char *state_file);

/*
 * Writes a line to stdout for each of several processes, and one for all of them.
 * In:      state_files  `count` names, as above
 * Returns  0; 1 if one of them cannot be read, with the reason on stderr
 */
int gpushim_summary(char *const state_files[], size_t count);

#ifdef __cplusplus
}
#endif

#endif
