/*
 * moves.c - answers the requests release and resume: a thread of its own calls the
 * driver, for which the thread that answers must not wait for long.
 *
 * Owns:  the job.   Lock: none; `turn` is atomic, and says whose the other members are.
 */
#include <string.h>

#include "gs_wait.h"
#include "shim/api/api.h"
#include "shim/control/answers.h"
#include "shim/settings/own_thread.h"
#include "shim/state/trim_hold.h"
#include "tracker/report/text/text.h"
#include "tracker/stacks/scopes.h"

#define MOST_NS 60000000000ull
#define NAP_NS  1000000ull

static struct {
    enum { FREE, RUNS, DONE } turn; /* of the thread that answers; of the job's; again */
    bool back;
    gpushim_keep keep;
    char scope[GS_SCOPE_NAME_MAX + 1];
    gpushim_result result;
    struct gpushim_released found;
} job;

static void *run(void *unused)
{
    gs_thread.depth = 1;
    job.result = GPUSHIM_INACTIVE; /* the program ends */
    if (gs_trim_begin_work()) {
        gs_thread.depth = 0; /* as a thread that calls gpushim.h */
        job.result = job.back ? gs_api_resume(job.scope, &job.found)
                              : gs_api_release(job.scope, job.keep, &job.found);
        gs_thread.depth = 1;
    }
    gs_trim_end_work();
    __atomic_store_n(&job.turn, DONE, __ATOMIC_RELEASE);
    return unused;
}

static void tell_done(struct gs_answer *out)
{
    char bytes[24];
    if (job.found.count == 0) {
        gs_answer_add(out, "%s: nothing to %s", job.scope,
                      job.back ? "resume" : "release");
    } else {
        gs_answer_add(out, "%s: %s %s", job.scope,
                      gs_text_bytes(job.found.device_bytes, bytes),
                      job.back                      ? "of GPU memory restored"
                      : job.keep == GPUSHIM_DISCARD ? "of GPU memory released, contents "
                                                      "lost"
                                                    : "of GPU memory released, contents "
                                                      "on the host");
    }
    for (unsigned i = 0; i < GPUSHIM_LEFT_REASONS; i++) {
        if (job.found.left_count[i]) {
            gs_answer_add(out, "; %s remain: %s",
                          gs_text_bytes(job.found.left_bytes[i], bytes),
                          gpushim_left_text(i));
        }
    }
}

static void tell(struct gs_answer *out)
{
    switch (job.result) {
    case GPUSHIM_OK:
        tell_done(out);
        break;
    case GPUSHIM_NOT_FOUND:
        gs_answer_refuse(out, "GPUSHIM_RELEASABLE does not name %s", job.scope);
        break;
    case GPUSHIM_NO_MEMORY:
        gs_answer_refuse(out, "%s",
                         job.back ? "its GPU is full: it remains released"
                                  : "the host has no memory for the copies");
        break;
    default:
        gs_answer_refuse(out, "%s: %s", job.scope, gpushim_result_text(job.result));
        break;
    }
}

static void answer(bool back, gpushim_keep keep, const char *scope, struct gs_answer *out)
{
    struct gs_wait wait = {.nap_ns = NAP_NS, .until_ns = gs_now_ns() + MOST_NS};
    if (__atomic_load_n(&job.turn, __ATOMIC_ACQUIRE) == RUNS) {
        gs_answer_refuse(out, "the last release or resume still waits for running work");
        return;
    }
    if (!scope[0] || strlen(scope) > GS_SCOPE_NAME_MAX) {
        gs_answer_refuse(out, "not the name of a scope");
        return;
    }
    job.back = back;
    job.keep = keep;
    memcpy(job.scope, scope, strlen(scope) + 1);
    job.found = (struct gpushim_released){.size = sizeof(job.found)};
    __atomic_store_n(&job.turn, RUNS, __ATOMIC_RELEASE);
    if (!gs_own_thread("gpushim-move", run)) {
        __atomic_store_n(&job.turn, FREE, __ATOMIC_RELEASE);
        gs_answer_refuse(out, "no thread can be started for it");
        return;
    }
    while (__atomic_load_n(&job.turn, __ATOMIC_ACQUIRE) == RUNS && gs_wait_step(&wait)) {
    }
    if (__atomic_load_n(&job.turn, __ATOMIC_ACQUIRE) == RUNS) {
        gs_answer_refuse(out, "it waits for running work, then continues");
        return;
    }
    tell(out);
}

void gs_answer_release(struct gs_state *state, char *text, struct gs_answer *out)
{
    static const struct {
        const char *word;
        gpushim_keep keep;
    } ways[] = {{"pinned ", GPUSHIM_KEEP_PINNED},
                {"plain ", GPUSHIM_KEEP_PLAIN},
                {"discard ", GPUSHIM_DISCARD}};
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(ways); i++) {
        size_t length = strlen(ways[i].word);
        if (strncmp(text, ways[i].word, length) == 0) {
            answer(false, ways[i].keep, text + length, out);
            return;
        }
    }
    gs_answer_refuse(out, "release takes pinned, plain or discard, and SCOPE");
}

void gs_answer_resume(struct gs_state *state, char *text, struct gs_answer *out)
{
    (void)state;
    answer(true, GPUSHIM_KEEP_PINNED, text, out);
}

void gs_moves_reset(void)
{
    job.turn = FREE;
}
