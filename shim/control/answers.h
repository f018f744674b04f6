/*
 * answers.h - the answers to the requests of requests.def.
 * Locks: none; one thread answers at a time.
 */
#ifndef GS_CONTROL_ANSWERS_H
#define GS_CONTROL_ANSWERS_H

#include "shim/state/state.h"
#include "tracker/statefile/state_memory.h"
#include "tracker/report/text/text.h"

/* Of every device, with every counter. */
#define GS_ANSWER_BYTES (160u << 10)

/* Fixed memory: malloc may be the program's own. A report needs malloc in any case. */
struct gs_answer {
    bool refused;                       /* the text says why */
    bool cut;                           /* there was no room for all of it */
    const struct gs_line_server *lines; /* who asks finds lines; NULL: the process does */
    struct gs_text report;              /* in place of `text`, if it has any */
    const void *memory; /* likewise, if not NULL: a state file, as it is when sent, */
    size_t memory_bytes;
    struct gs_state_header head; /* with this beginning */
    size_t length;
    char text[GS_ANSWER_BYTES];
};

void gs_answer_add(struct gs_answer *out, const char *format, ...) GS_PRINTF(2, 3);
/* A refusal, with its reason: one sentence. */
void gs_answer_refuse(struct gs_answer *out, const char *format, ...) GS_PRINTF(2, 3);

/*
 * Answers a line, without its newline; the line changes. The calling thread is the
 * library's own (gs_thread.depth is 1): no function below calls the driver, which may
 * wait for the program's work.
 */
void gs_answer(struct gs_state *state, char *line, struct gs_answer *out);

/* In a forked child: no release or resume runs (moves.c). */
void gs_moves_reset(void);

/* ---- one function for each row ---- */

#define GS_REQUEST(word, verb, processes, argument)                                      \
    void gs_answer_##word(struct gs_state *state, char *text, struct gs_answer *out);
#include "shim/control/requests.def"

#endif
