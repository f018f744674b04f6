/*
 * jobs.h - what a client asks for, by path: which processes are asked what, and what is
 * made of their answers. Knows nothing of HTTP's syntax.
 *
 * Locks: none; one thread.   Design: docs/clusters.md, "All processes of a machine"
 */
#ifndef GS_JOBS_H
#define GS_JOBS_H

#include "shim/tools/server/answer.h"
#include "shim/tools/server/server.h"

/* A request. Texts are the caller's; NULL: not given. */
struct gs_job_request {
    const char *path;
    const char *pid, *name, *seconds; /* of the query */
    const char *accept, *timeout;     /* headers: Accept, and Prometheus' own */
};

struct gs_job;

/* Begins a job. NULL: *out is the answer, there is nothing to wait for. */
struct gs_job *gs_job_begin(const struct gs_server_settings *settings,
                            const struct gs_job_request *request,
                            struct gs_http_answer *out);
/* Takes what processes have answered, without a wait. Returns whether *out is the answer;
 * gs_job_free must follow in any case. */
bool gs_job_step(struct gs_job *job, struct gs_http_answer *out);
void gs_job_free(struct gs_job *job);

/* Returns whether the client prefers OpenMetrics, by its Accept header. */
bool gs_job_wants_openmetrics(const char *accept);

#endif
