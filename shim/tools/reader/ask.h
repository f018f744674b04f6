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

/* Returns whether the process runs a program of this name, or a script: the file name of
 * its first word, or of the second. */
bool gs_ask_is_named(pid_t pid, const char *name);

struct gs_ask_answer {
    pid_t pid;    /* who has answered */
    bool refused; /* the text says why */
    char *text;   /* from malloc, NUL-terminated; NULL: no answer */
    size_t length;
    const char *problem; /* why there is no answer, the end of a sentence; static */
};

/* What happens to a process that cannot answer: problems that callers compare. */
extern const char gs_ask_stopped[], gs_ask_gone[], gs_ask_foreign[], gs_ask_late[];

/*
 * Asks a thread.
 * In:      request  a line, without a newline
 *          wait_ms  the longest wait
 * Returns whether there is an answer, in *out. The caller frees out->text.
 */
bool gs_ask(const struct gs_ask_thread *thread, const char *request, unsigned wait_ms,
            struct gs_ask_answer *out);
/* The same for an answer that goes to a file: its bytes are as the process gave them. */
bool gs_ask_bytes(const struct gs_ask_thread *thread, const char *request,
                  unsigned wait_ms, struct gs_ask_answer *out);
/* Replaces what a terminal might execute: another user's process may say anything. */
void gs_ask_make_printable(struct gs_ask_answer *answer);

/* Finds the thread of a process that answers. Returns NULL, or why there is none. */
const char *gs_ask_find(pid_t pid, struct gs_ask_thread *out);

/* ---- many processes at once ---- */

struct gs_line_helper;

/* A request on its way; of use to ask.c alone, but for the answer. */
struct gs_ask_call {
    struct gs_ask_thread thread;
    struct gs_ask_answer answer;
    uint64_t until_ns, look_ns; /* the end of its time; when to check the process next */
    size_t most_bytes;          /* of the answer */
    struct gs_control_box *box; /* NULL: none could be made */
    struct gs_line_helper *lines; /* NULL: the process finds lines itself */
    int segment, fd;              /* of the box; of the thread, -1: none */
    bool woken;
    uint32_t turn; /* of the box, as of the last step */
    uint64_t total;
};

/* Begins to ask a thread. gs_ask_end must follow. */
void gs_ask_begin(const struct gs_ask_thread *thread, const char *request,
                  unsigned wait_ms, size_t most_bytes, struct gs_ask_call *out);
/* Takes what has come; if nothing has, waits for at most `wait_ns`. Returns whether the
 * call is over: with an answer as it came, or a problem. The caller frees answer.text. */
bool gs_ask_step(struct gs_ask_call *call, uint64_t wait_ns);
void gs_ask_end(struct gs_ask_call *call);

#endif
