/*
 * jobs.c - see jobs.h.
 * Owns: struct gs_job.   Lock: none.
 */
#include "shim/tools/server/jobs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_clock.h"
#include "shim/tools/reader/json_read.h"
#include "shim/tools/server/asks.h"
#include "shim/tools/server/pages.h"
#include "shim/tools/server/profile.h"

/* Prometheus waits 10 s unless it says how long, and is told in time what is missing. */
#define SCRAPE_MS      8000u
#define SCRAPE_LEAST_S 0.5
#define SCRAPE_MOST_S  60.0
#define SCRAPE_PART    0.8
/* Call stacks need names; `go tool pprof` waits a minute. */
#define REPORT_MS 50000u

#define SCRAPE_BYTES (1u << 20) /* of a process's metrics or statistics */
#define REPORT_BYTES (64u << 20)

static const char plain[] = "text/plain; charset=utf-8";
static const char html[] = "text/html; charset=utf-8";

void gs_http_say(struct gs_http_answer *out, unsigned status, const char *format, ...)
{
    char line[600];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    gs_text_free(&out->body);
    out->status = status;
    out->type = plain;
    gs_text_add(&out->body, "%s\n", line);
}

struct gs_job {
    const struct gs_server_settings *settings;
    const struct route *route;
    struct gs_asks asks;
    uint64_t began_ns;
    bool openmetrics;
};

/* ---- what is made of the answers ------------------------------------------------------
 *
 * Each returns false if the processes are now asked something else.
 */

static bool answer_metrics(struct gs_job *job, struct gs_http_answer *out)
{
    out->type = job->openmetrics
                    ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                    : "text/plain; version=0.0.4; charset=utf-8";
    if (!gs_page_metrics(&job->asks, job->settings->pod_logs, job->began_ns,
                         !job->openmetrics, &out->body)) {
        gs_http_say(out, GS_HTTP_INTERNAL, "no memory for the metrics");
    }
    return true;
}

static bool answer_table(struct gs_job *job, struct gs_http_answer *out)
{
    out->type = html;
    gs_page_table(&job->asks, &out->body);
    return true;
}

/* Returns the one process's answer; NULL: *out says why there is none. */
static struct gs_ask_answer *only(struct gs_job *job, struct gs_http_answer *out)
{
    struct gs_ask_answer *answer = &job->asks.answers[0];
    if (answer->problem) {
        gs_http_say(out,
                    answer->problem == gs_ask_late   ? GS_HTTP_LATE
                    : answer->problem == gs_ask_gone ? GS_HTTP_NOT_FOUND
                                                     : GS_HTTP_UNAVAILABLE,
                    "process %ld: %s", (long)answer->pid,
                    answer->problem == gs_ask_late ? "no answer in time"
                                                   : answer->problem);
        return NULL;
    }
    if (answer->refused) {
        gs_http_say(out, GS_HTTP_CONFLICT, "process %ld: %.400s", (long)answer->pid,
                    answer->text);
        return NULL;
    }
    return answer;
}

static bool answer_profile(struct gs_job *job, struct gs_http_answer *out)
{
    const struct gs_ask_answer *answer = only(job, out);
    if (answer) {
        out->type = "application/octet-stream";
        gs_text_add_bytes(&out->body, answer->text, answer->length);
    }
    return true;
}

/* The same profile, with what was allocated in front. */
static bool answer_allocs(struct gs_job *job, struct gs_http_answer *out)
{
    (void)answer_profile(job, out);
    if (out->status == GS_HTTP_OK && !gs_profile_prefer(&out->body, "alloc_space")) {
        gs_http_say(out, GS_HTTP_INTERNAL, "its profile cannot be read");
    }
    return true;
}

static bool answer_page(struct gs_job *job, struct gs_http_answer *out)
{
    const struct gs_ask_answer *answer = only(job, out);
    if (answer) {
        out->type = html;
        job->settings->page(answer->text, &out->body);
    }
    return true;
}

static bool is_tallied(char *stats)
{
    static const struct gs_json_field fields[] = {{"tallied", 0, GS_JSON_BOOL, NULL}};
    struct gs_json_read json = {.at = stats};
    bool tallied = false;
    gs_json_read_fields(&json, fields, GS_ARRAY_LEN(fields), &tallied);
    return tallied && !json.problem;
}

static bool ask_allocs(struct gs_job *job, struct gs_http_answer *out);

/* ---- paths ------------------------------------------------------------------------- */

static const struct route {
    char path[24];
    char request[20]; /* "": nobody is asked */
    bool (*answer)(struct gs_job *job, struct gs_http_answer *out);
    bool of_one; /* pid= or name= says which process is asked; else all are */
    unsigned limit_ms;
    size_t most_bytes; /* of a process's answer */
} routes[] = {
    {"/", "stats", answer_table, false, SCRAPE_MS, SCRAPE_BYTES},
    {"/metrics", "export prometheus", answer_metrics, false, SCRAPE_MS, SCRAPE_BYTES},
    {"/process", "export json", answer_page, true, REPORT_MS, REPORT_BYTES},
    {"/debug/pprof/heap", "export pprof", answer_profile, true, REPORT_MS, REPORT_BYTES},
    {"/debug/pprof/allocs", "stats", ask_allocs, true, REPORT_MS, SCRAPE_BYTES},
    {"/healthz", "", NULL, false, 0, 0}};

/* What ask_allocs goes on with. */
static const struct route allocs = {"",   "export pprof", answer_allocs,
                                    true, REPORT_MS,      REPORT_BYTES};

static const struct route *route_of(const char *path)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(routes); i++) {
        if (strcmp(path, routes[i].path) == 0) {
            return &routes[i];
        }
    }
    return NULL;
}

/* A profile of all allocations needs a process that counts them. */
static bool ask_allocs(struct gs_job *job, struct gs_http_answer *out)
{
    struct gs_ask_answer *answer = only(job, out);
    if (!answer) {
        return true;
    }
    if (!is_tallied(answer->text)) {
        gs_http_say(out, GS_HTTP_CONFLICT,
                    "process %ld: it counts live allocations alone (/debug/pprof/heap): "
                    "start it with GPUSHIM_OUTPUT=pprof",
                    (long)answer->pid);
        return true;
    }
    struct gs_ask_thread *thread = malloc(sizeof(*thread));
    if (thread) {
        *thread = job->asks.threads[0];
    }
    gs_asks_free(&job->asks);
    job->route = &allocs;
    if (!thread || !gs_asks_begin(&job->asks, thread, 1, allocs.request, allocs.limit_ms,
                                  allocs.most_bytes)) {
        gs_http_say(out, GS_HTTP_INTERNAL, "no memory");
        return true;
    }
    return false;
}

/* ---- which processes --------------------------------------------------------------- */

/* Says that pid= must choose. */
static void say_choose(const struct gs_ask_thread *threads, size_t count,
                       struct gs_http_answer *out)
{
    gs_http_say(out, count == 0 ? GS_HTTP_NOT_FOUND : GS_HTTP_BAD_REQUEST,
                count == 0
                    ? "no such process can be asked"
                    : "these %zu processes can be asked; choose one by pid=NUMBER:",
                count);
    for (size_t i = 0; i < count; i++) {
        char program[GS_PROGRAM_NAME];
        gs_text_add(&out->body, "pid=%ld %s\n", (long)threads[i].pid,
                    gs_page_program(threads[i].pid, program));
    }
}

/* The one process of a name, or the one process that there is. NULL: *out says why not.
 */
static struct gs_ask_thread *find_only(const char *name, struct gs_http_answer *out)
{
    size_t count, chosen = 0;
    struct gs_ask_thread *threads = gs_ask_list(&count);
    for (size_t i = 0; i < count; i++) {
        if (!name || gs_ask_is_named(threads[i].pid, name)) {
            threads[chosen++] = threads[i];
        }
    }
    if (chosen == 1) {
        return threads;
    }
    say_choose(threads, chosen, out);
    free(threads);
    return NULL;
}

static struct gs_ask_thread *find_pid(const char *text, struct gs_http_answer *out)
{
    size_t digits = strspn(text, "0123456789");
    long pid = strtol(text, NULL, 10);
    if (digits == 0 || digits > 9 || text[digits] || pid < 1) {
        gs_http_say(out, GS_HTTP_BAD_REQUEST, "pid= is the number of a process");
        return NULL;
    }
    struct gs_ask_thread *thread = malloc(sizeof(*thread));
    const char *problem = thread ? gs_ask_find((pid_t)pid, thread) : "no memory";
    if (problem) {
        gs_http_say(out, GS_HTTP_NOT_FOUND, "process %ld: %s", pid, problem);
        free(thread);
        return NULL;
    }
    return thread;
}

/* NULL: *out says why there is none, but for all of no processes. */
static struct gs_ask_thread *find(const struct route *route,
                                  const struct gs_job_request *request, size_t *count,
                                  struct gs_http_answer *out)
{
    *count = 1;
    return !route->of_one ? gs_ask_list(count)
           : request->pid ? find_pid(request->pid, out)
                          : find_only(request->name, out);
}

/* ---- headers ----------------------------------------------------------------------- */

/* The weight of a range in an Accept header: its "q=", 1 without one. */
static double weight_of(const char *range, size_t length)
{
    const char *end = range + length;
    for (const char *at = range; at < end; at++) {
        at += strspn(at, "; \t");
        if (at + 1 < end && (at[0] == 'q' || at[0] == 'Q') && at[1] == '=') {
            return strtod(at + 2, NULL);
        }
        at += strcspn(at, ";,");
    }
    return 1;
}

bool gs_job_wants_openmetrics(const char *accept)
{
    static const char open[] = "application/openmetrics-text";
    double best = 0, other = 0;
    while (accept && *accept) {
        accept += strspn(accept, ", \t");
        size_t length = strcspn(accept, ","), type = strcspn(accept, ";, \t");
        double weight = weight_of(accept + type, length - type);
        double *of =
            type == strlen(open) && strncasecmp(accept, open, type) == 0 ? &best : &other;
        *of = weight > *of ? weight : *of;
        accept += length;
    }
    return best > 0 && best >= other;
}

/* The time for all processes, in the time that a scraper says it waits. */
static unsigned limit_of(const struct route *route, const char *timeout)
{
    double seconds = timeout ? strtod(timeout, NULL) : 0;
    if (route->of_one || !(seconds > 0)) {
        return route->limit_ms;
    }
    seconds *= SCRAPE_PART;
    seconds = seconds < SCRAPE_LEAST_S  ? SCRAPE_LEAST_S
              : seconds > SCRAPE_MOST_S ? SCRAPE_MOST_S
                                        : seconds;
    return (unsigned)(seconds * 1000);
}

/* ---- jobs -------------------------------------------------------------------------- */

/* Returns the path's row; NULL: *out is the answer. */
static const struct route *choose(const struct gs_job_request *request,
                                  struct gs_http_answer *out)
{
    const struct route *route = route_of(request->path);
    *out = (struct gs_http_answer){.status = GS_HTTP_OK, .type = plain};
    if (!route) {
        gs_http_say(out, GS_HTTP_NOT_FOUND,
                    "not found; there are /, /metrics, /process?pid=N, "
                    "/debug/pprof/heap?pid=N, /debug/pprof/allocs?pid=N and /healthz");
        return NULL;
    }
    if (!route->answer) {
        gs_http_say(out, GS_HTTP_OK, "ok");
        return NULL;
    }
    if (route->of_one && request->seconds) {
        gs_http_say(out, GS_HTTP_BAD_REQUEST,
                    "seconds= is not supported: a profile shows the present");
        return NULL;
    }
    return route;
}

struct gs_job *gs_job_begin(const struct gs_server_settings *settings,
                            const struct gs_job_request *request,
                            struct gs_http_answer *out)
{
    size_t count;
    uint64_t began_ns = gs_now_ns();
    const struct route *route = choose(request, out);
    if (!route) {
        return NULL;
    }
    struct gs_ask_thread *threads = find(route, request, &count, out);
    if (!threads && out->status != GS_HTTP_OK) {
        return NULL;
    }
    struct gs_job *job = malloc(sizeof(*job));
    if (!job) {
        free(threads);
        gs_http_say(out, GS_HTTP_INTERNAL, "no memory");
        return NULL;
    }
    job->settings = settings;
    job->route = route;
    job->began_ns = began_ns;
    job->openmetrics = gs_job_wants_openmetrics(request->accept);
    if (!gs_asks_begin(&job->asks, threads, count, route->request,
                       limit_of(route, request->timeout), route->most_bytes)) {
        gs_job_free(job);
        gs_http_say(out, GS_HTTP_INTERNAL, "no memory");
        return NULL;
    }
    return job;
}

bool gs_job_step(struct gs_job *job, struct gs_http_answer *out)
{
    if (!gs_asks_step(&job->asks) || !job->route->answer(job, out)) {
        return false;
    }
    if (out->body.truncated) {
        gs_http_say(out, GS_HTTP_INTERNAL, "no memory for the answer");
    }
    return true;
}

void gs_job_free(struct gs_job *job)
{
    gs_asks_free(&job->asks);
    free(job);
}
