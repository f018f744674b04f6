/*
 * ask_why.h - why a process cannot be asked.
 * Locks: none; one thread.
 */
#ifndef GS_ASK_WHY_H
#define GS_ASK_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A filter came after the thread: the end of a sentence. */
extern const char gs_ask_filtered[];

/* Problems that end with the process's next CUDA call: callers compare them. */
extern const char gs_ask_no_context[], gs_ask_no_call[];
/* Numbers of /proc are those of other processes here. */
extern const char gs_ask_other_proc[];

/* Why a process has no thread that answers, as far as can be seen: the end of a sentence;
 * static. */
const char *gs_ask_why_none(pid_t pid);

/* Why nothing can be asked of a process that is the command gpushim, which waits for its
 * program: names the program's process. NULL: it is another program. Static. */
const char *gs_ask_why_launcher(pid_t pid);

/* Whether the process's limit leaves no `bytes` of addresses: it cannot attach shared
 * memory. */
bool gs_ask_lacks_addresses(pid_t pid, size_t bytes);

/* Returns whether the process was started with the library in LD_PRELOAD. */
bool gs_ask_was_preloaded(pid_t pid);

/* Returns whether the process has mapped the library. *readable: whether its maps can be
 * read. */
bool gs_ask_has_library(pid_t pid, bool *readable);

#endif
