/*
 * plain_calls.h - the library's own calls of the C library, past a program's
 * ThreadSanitizer.
 *
 * Its runtime stands in front of the C library. It sees what memcpy, say, reads and
 * writes for the library, and some of its locks, but not the atomic words that publish
 * what a thread has made. So it takes what two threads of the library use one after the
 * other for a race of the program, and ends the program with a status of its own.
 */
#ifndef GS_PLAIN_CALLS_H
#define GS_PLAIN_CALLS_H

/* Finds the program's checkers (checkers.h). If ThreadSanitizer is one, the library's calls
 * that read, write, take and give back memory, and those that wait, are from now on none of
 * its business; not if the library is built with one itself. Once in a process, as the
 * library is loaded or, if a constructor calls CUDA before, at the first CUDA call. */
void gs_plain_calls_start(void);

#endif
