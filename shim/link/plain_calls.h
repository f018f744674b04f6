/*
 * plain_calls.h - the library's own calls of functions that read and write memory, past a
 * program's ThreadSanitizer.
 *
 * Its runtime stands in front of the C library and sees what memcpy, say, reads and
 * writes for the library, but not the locks that order these calls. So it takes memory
 * that two threads of the library use one after the other for a race of the program, and
 * ends the program with a status of its own.
 */
#ifndef GS_PLAIN_CALLS_H
#define GS_PLAIN_CALLS_H

/* From now on such calls lead to the C library's own functions. Called at the start, if
 * there is a ThreadSanitizer; does nothing if the library is built with one itself. */
void gs_plain_calls_start(void);

#endif
