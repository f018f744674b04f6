/*
 * ask.h - asks running processes through their control sockets
 * (shim/statefile/control_message.h).
 *
 * The sockets are found by their names in /proc/net/unix: one file, which every user may
 * read, while /proc/PID/maps of all processes takes a hundred times as long, and the
 * rights of a debugger. The names are those of a network namespace; which process
 * listens, in the numbers of this process namespace, the kernel says.
 *
 * Locks: none; one thread.   Design: docs/state.md, "A running program is asked"
 */
#ifndef GS_ASK_H
#define GS_ASK_H

#include <sys/types.h>

#include "gs_base.h"
#include "shim/statefile/control_message.h"

struct gs_ask_name {
    char text[GS_CONTROL_NAME_BYTES]; /* without the leading NUL */
    pid_t pid;                        /* as the process itself knows it */
};

/* The sockets of a process's network namespace; 0: this process's. From malloc; NULL:
 * none. */
struct gs_ask_name *gs_ask_list(pid_t pid, size_t *count);

/* Reads a name of /proc/net/unix, from its '@' on. Returns whether it is such a socket's.
 */
bool gs_ask_read_name(const char *text, struct gs_ask_name *out);

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
 * Asks the process behind a socket of this network namespace.
 * In:      pid  the process that must have answered; 0: any that this user may ask
 *          request  a line, without its newline
 *          wait_ms  the longest wait
 * Returns whether there is an answer, in *out. The caller frees out->text.
 */
bool gs_ask(const struct gs_ask_name *name, pid_t pid, const char *request,
            unsigned wait_ms, struct gs_ask_answer *out);

/* Asks a process, wherever it is. Out->problem also says why it has no socket. */
bool gs_ask_process(pid_t pid, const char *request, unsigned wait_ms,
                    struct gs_ask_answer *out);

#endif
