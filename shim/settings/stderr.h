/*
 * stderr.h - writes text to descriptor 2, unless it is the program's data.
 *
 * The rule: descriptor 2 is the program's data, and gets no text, unless it is the file
 * that it was when the library was loaded, or is the writing end of a pipe that neither
 * stdin nor stdout reads from, or is a file opened for writing only that is opened for
 * appending or that stdout goes to as well.
 *
 * The program may close descriptor 2, and the next file or socket that it opens may get
 * this number; the kernel does not distinguish it from a file that dup2 or freopen has
 * put there. Numbers allocated in sequence have one of these forms only if the program
 * intends it, and a file opened for appending is a log. The library keeps no copy of the
 * first descriptor: the reader of a pipe would wait for it to be closed.
 *
 * Locks: none; atomic. Async-signal-safe; errno is preserved.
 */
#ifndef GS_STDERR_H
#define GS_STDERR_H

#include "gs_base.h"

/* Records the file of descriptor 2. Called by the library's constructor. */
void gs_stderr_remember(void);

/* Writes the text; drops it by the rule, or if it cannot be written. */
void gs_stderr_write(const char *data, size_t length);

#endif
