/*
 * answer.h - what a client gets: a status, a type, and a body in memory.
 * Locks: none.
 */
#ifndef GS_ANSWER_HTTP_H
#define GS_ANSWER_HTTP_H

#include "tracker/report/text/text.h"

/* The statuses that are used (RFC 9110). */
enum gs_http_status {
    GS_HTTP_OK = 200,
    GS_HTTP_BAD_REQUEST = 400,
    GS_HTTP_UNAUTHORIZED = 401,
    GS_HTTP_FORBIDDEN = 403,
    GS_HTTP_NOT_FOUND = 404,
    GS_HTTP_METHOD_NOT_ALLOWED = 405,
    GS_HTTP_CONFLICT = 409,
    GS_HTTP_INTERNAL = 500,
    GS_HTTP_UNAVAILABLE = 503,
    GS_HTTP_LATE = 504
};

struct gs_http_answer {
    unsigned status;
    const char *type; /* Content-Type, static */
    struct gs_text body;
};

/* A sentence, with its end of line, in place of a body. */
void gs_http_say(struct gs_http_answer *out, unsigned status, const char *format, ...)
    GS_PRINTF(3, 4);

#endif
