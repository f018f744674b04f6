/*
 * inject.h - loads a library into a process that runs already, and stops a process for a
 * moment. Linux, x86_64. Nothing of the program is patched.
 *
 * Locks: none; each call waits for its end, and has a thread of its own that traces the
 * process. Design: docs/architecture.md
 */
#ifndef GS_INJECT_H
#define GS_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Loads `library` (a path that the other process can open) into a running process, and
 * calls there char *ENTRY(const char *argument) on a thread made for this call, with all
 * signals blocked.
 *
 * In:   wait_ms   the longest wait for a thread at a safe point and for the answer
 * Out:  answer    what ENTRY returned, as text of at most capacity - 1 bytes; NULL there
 * reads as "" Returns NULL, or the reason, which completes "process N: " and is valid
 * until the next call. The process runs on as before. After a wait that is too short,
 * ENTRY may still be called or be running.
 */
const char *gs_inject(pid_t pid, const char *library, const char *entry,
                      const char *argument, unsigned wait_ms, char *answer,
                      size_t capacity);

/* Returns NULL, or why the process cannot be traced, or not now. Touches nothing. */
const char *gs_inject_refuse(pid_t pid);

/*
 * Stops every thread of a process, also those created in the meantime, until gs_stop_end.
 * A thread that cannot be interrupted within a system call counts as stopped: it runs
 * none of the program's code. System calls that were waiting go on waiting afterwards.
 * The process runs on if the caller dies.
 *
 * Out:  *out      to be ended with gs_stop_end
 * Returns NULL, or the reason as above: all threads run on, and *out is unchanged.
 */
struct gs_stop;
const char *gs_stop_begin(pid_t pid, struct gs_stop **out);
void gs_stop_end(struct gs_stop *stop);
/* The stack pointer and the thread pointer of the i-th thread, 0 where they are not
 * known; false: there are fewer. */
bool gs_stop_stack(const struct gs_stop *stop, size_t i, uint64_t *stack,
                   uint64_t *thread);

#endif
