/*
 * signal_names.h - signals as options name them.
 * Locks: none.
 */
#ifndef GS_SIGNAL_NAMES_H
#define GS_SIGNAL_NAMES_H

/* The signal of a name: with or without SIG, RTMIN+2, or a number. 0: no such signal, or
 * one that a program does not leave to its user. */
int gs_signal_named(const char *text);

/* "SIGUSR1", "SIGRTMIN+2". Returns `out`. */
const char *gs_signal_name(int number, char out[24]);

/* What a value is that names no signal: completes "NAME=value: ". */
#define GS_SIGNAL_WRONG "not a signal that can be used (HUP, USR1, USR2, RTMIN+1, ...)"

#endif
