/*
 * name_helper.c - asks a demangling program: a name a line, the same order back.
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 */
#include "name_helper.h"

#include "gs_clock.h"
#include "helper_process.h"

#include <stdlib.h>
#include <string.h>

#define LINE_BYTES ((size_t)1 << 20)

struct names {
    struct gs_name_query *queries;
    size_t count, at;
};

static bool is_readable(const char *name, const char *linkage)
{
    if (name[0] == '\0' || strcmp(name, linkage) == 0)
        return false;
    for (; *name != '\0'; name++) {
        if ((unsigned char)*name < ' ' || *name == 0x7f)
            return false;
    }
    return true;
}

static bool take_line(void *context, const char *line)
{
    struct names *names = context;
    struct gs_name_query *query = &names->queries[names->at++];

    if (is_readable(line, query->linkage))
        query->readable = strdup(line);
    return names->at < names->count;
}

/* The names, one a line; NULL: no memory. */
static char *write_names(const struct gs_name_query *queries, size_t count, size_t *bytes)
{
    size_t room = 1;
    char *text, *at;

    for (size_t i = 0; i < count; i++)
        room += strlen(queries[i].linkage) + 1;
    text = at = malloc(room);
    for (size_t i = 0; text != NULL && i < count; i++) {
        at = stpcpy(at, queries[i].linkage);
        *at++ = '\n';
    }
    *bytes = text != NULL ? (size_t)(at - text) : 0;
    return text;
}

void gs_name_helper_demangle(unsigned timeout_ms, struct gs_name_query *queries,
                             size_t count)
{
    /* c++filt, too, has the limit of 1,024 bytes, unless it is told otherwise. */
    static const char *const programs[][3] = {{"llvm-cxxfilt", NULL},
                                              {"c++filt", "--no-recurse-limit", NULL}};
    uint64_t deadline_ns = gs_now_ns() + (uint64_t)timeout_ms * 1000000u;
    enum gs_status status = GS_ERR_NOT_FOUND;
    size_t bytes = 0;
    char *text = count != 0 ? write_names(queries, count, &bytes) : NULL;

    for (size_t i = 0;
         text != NULL && i < GS_ARRAY_LEN(programs) && status == GS_ERR_NOT_FOUND; i++) {
        struct names names = {.queries = queries, .count = count};
        struct gs_helper child = {0};
        const struct gs_helper_job job = {.argv = programs[i],
                                          .input = text,
                                          .input_bytes = bytes,
                                          .deadline_ns = deadline_ns,
                                          .take_line = take_line,
                                          .line_bytes = LINE_BYTES,
                                          .context = &names};

        status = gs_helper_run(&child, &job);
    }
    free(text);
}
