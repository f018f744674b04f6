/*
 * ask.h - asks running processes (shim/statefile/control_message.h).
 *
 * A process that can be asked has a thread with the name GS_CONTROL_THREAD; the command
 * reads the names of all threads of the processes that this user may signal. All numbers
 * are those of this process namespace, whichever namespace the process is in.
 *
 * Locks: none; one thread.   Design: docs/state.md, "A running program is asked"
 */
#ifndef GS_ASK_H
#define GS_ASK_H

#include <sys/types.h>

#include "gs_base.h"
#include "shim/statefile/control_message.h"

/* "@PID/TID" and a NUL. */
#define GS_ASK_NAME_BYTES 32

/* A thread that answers. */
struct gs_ask_thread {
    pid_t pid, tid;
    char name[GS_ASK_NAME_BYTES];
};

/* The threads of every process that this user may ask. From malloc; NULL: none. */
struct gs_ask_thread *gs_ask_list(size_t *count);

/* Reads a name, "@PID/TID". Returns whether it is one. */
bool gs_ask_read_name(const char *text, struct gs_ask_thread *out);

struct gs_ask_answer {
    pid_t pid;    /* who has answered */
    bool refused; /* the text says why */
    char *text;   /* from malloc, NUL-terminated; NULL: no answer */
    size_t length;
    const char *problem; /* why there is no answer, the end of a sentence; static */
};

/* What happens to a process that cannot answer: problems that callers compare. */
extern const char gs_ask_stopped[], gs_ask_gone[], gs_ask_foreign[];

/*
 * Asks a thread.
 * In:      request  a line, without a newline
 *          wait_ms  the longest wait
 * Returns whether there is an answer, in *out. The caller frees out->text.
 */
bool gs_ask(const struct gs_ask_thread *thread, const char *request, unsigned wait_ms,
            struct gs_ask_answer *out);

/* Asks a process. Out->problem also says why it has no such thread. */
bool gs_ask_process(pid_t pid, const char *request, unsigned wait_ms,
                    struct gs_ask_answer *out);

#endif
