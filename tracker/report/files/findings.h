/*
 * findings.h - the leaks and errors of a report as a checker's findings, for the formats
 * of continuous integration: JUnit and SARIF.
 *
 * Owns: struct gs_findings while a file is written.   Lock: none, one thread writes.
 * Design: docs/outputs.md
 */
#ifndef GS_FINDINGS_H
#define GS_FINDINGS_H

#include "tracker/report/export_internal.h"

enum gs_finding_rule {
#define GS_FINDING_RULE(name, id, level, text) GS_FINDING_##name,
#include "tracker/report/files/findings.def"
#undef GS_FINDING_RULE
    GS_FINDING_RULES
};

struct gs_finding_rule_text {
    char id[20], level[8], text[76];
};
extern const struct gs_finding_rule_text gs_finding_rules[GS_FINDING_RULES];

/* In the order in which findings are written. */
enum gs_finding_verdict {
    GS_FINDING_FAULT,
    GS_FINDING_LIVE,   /* the memory is live: nobody knows yet whether it leaks */
    GS_FINDING_EXCUSED /* suppressed by a rule, or kept by a caching allocator */
};

/* A call site that leaks, or one of errors. Without group and error: the sum of what has
 * no call site, for lack of memory or because too many had errors. */
struct gs_finding {
    enum gs_finding_rule rule;
    enum gs_finding_verdict verdict;
    const struct gs_group *group; /* NULL: no leak */
    const struct gs_error *error; /* NULL: no error */
    uint64_t bytes, count;        /* of the leak or the sum; errors from the call site */
    uint32_t stack;               /* that names the call site */
    uint64_t key;      /* of call and stack; the same in every run, on whatever line */
    uint64_t line_key; /* likewise, with the lines */
    unsigned ordinal;  /* among the findings of the same key, from 1 */
};

struct gs_findings {
    struct gs_finding *items; /* in an order that is the same in every run */
    size_t count;
};

/* gs_findings_free must follow. Errors: GS_ERR_HOST_NOMEM, with nothing allocated. */
enum gs_status gs_findings_gather(const struct gs_export *export,
                                  struct gs_findings *out) GS_MUST_USE;
void gs_findings_free(struct gs_findings *findings);

/* Adds "24.0 MiB in 1 allocation, cudaMalloc, GPU 0", or "double free of 4.00 KiB, GPU 0,
 * cudaFree". */
void gs_finding_title(const struct gs_export *export, const struct gs_finding *finding,
                      struct gs_text *text);
/* Adds ", at load_weights leaky.c:39 < main leaky.c:85": the program's frame that names
 * the call site, and its caller. */
void gs_finding_where(const struct gs_export *export, const struct gs_finding *finding,
                      struct gs_text *text);
/* Adds "leak, cudaMalloc, at load_weights leaky.c:39 < main leaky.c:85 [scope train]":
 * the same in every run, whatever sizes and numbers are. */
void gs_finding_name(const struct gs_export *export, const struct gs_finding *finding,
                     struct gs_text *text);
/* Adds why an excused or live finding is no fault. */
void gs_finding_excuse(const struct gs_export *export, const struct gs_finding *finding,
                       struct gs_text *text);
/* The base name of the module, or of the file of Python, that has the call site. */
const char *gs_finding_owner(const struct gs_export *export,
                             const struct gs_finding *finding);

/* The calls of a finding, the last one first. */
#define GS_FINDING_CALLS 3u
struct gs_finding_call {
    const char *what; /* "allocated", "freed again" */
    uint32_t stack;
};
unsigned gs_finding_calls(const struct gs_finding *finding,
                          struct gs_finding_call out[GS_FINDING_CALLS]);
/* Adds the lines of a stack, with the whole paths of files. */
void gs_finding_stack(const struct gs_export *export, uint32_t stack,
                      struct gs_text *text);

#endif
