/*
 * name_helper.c - asks demangling programs: a name a line, the same order back.
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/names/name_helper.h"

#include "gs_clock.h"
#include "tracker/names/helper_process.h"

#include <stdlib.h>
#include <string.h>

#define LINE_BYTES ((size_t)1 << 20)

struct names {
    struct gs_name_query *queries;
    size_t count, at;
};

static bool is_readable(const char *name, const char *linkage)
{
    if (name[0] == '\0' || strcmp(name, linkage) == 0) {
        return false;
    }
    for (; *name != '\0'; name++) {
        if ((unsigned char)*name < ' ' || *name == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Copies a name. LLVM's " (.isra.0)" is written as GNU's " [clone .isra.0]". */
static char *copy_name(const char *name)
{
    static const char clone[] = " [clone ";
    const char *suffix = strstr(name, " (.");
    size_t length = strlen(name);
    char *copy = malloc(length + sizeof(clone));

    if (copy == NULL) {
        return NULL;
    }
    if (suffix == NULL || name[length - 1] != ')' || strchr(suffix, ')')[1] != '\0') {
        return strcpy(copy, name);
    }
    memcpy(copy, name, (size_t)(suffix - name));
    strcpy(stpcpy(copy + (suffix - name), clone), suffix + 2);
    copy[strlen(copy) - 1] = ']';
    return copy;
}

static bool take_line(void *context, const char *line)
{
    struct names *names = context;
    struct gs_name_query *query;

    while (names->at < names->count && names->queries[names->at].readable != NULL) {
        names->at++; /* answered by the program before */
    }
    if (names->at == names->count) {
        return false;
    }
    query = &names->queries[names->at++];
    if (is_readable(line, query->linkage)) {
        query->readable = copy_name(line);
    }
    return names->at < names->count;
}

/* The unanswered names, one a line; NULL: no memory, or all are answered. */
static char *write_names(const struct gs_name_query *queries, size_t count, size_t *bytes)
{
    size_t room = 0;
    char *text, *at;

    for (size_t i = 0; i < count; i++) {
        room += queries[i].readable == NULL ? strlen(queries[i].linkage) + 1 : 0;
    }
    text = at = room != 0 ? malloc(room + 1) : NULL;
    for (size_t i = 0; text != NULL && i < count; i++) {
        if (queries[i].readable != NULL) {
            continue;
        }
        at = stpcpy(at, queries[i].linkage);
        *at++ = '\n';
    }
    *bytes = room;
    return text;
}

void gs_name_helper_demangle(unsigned timeout_ms, struct gs_name_query *queries,
                             size_t count)
{
    /* c++filt, too, has the limit of 1,024 bytes, unless it is told otherwise. */
    static const struct {
        char name[16], argument[24];
    } programs[] = {{"llvm-cxxfilt", ""},
                    {"c++filt", "--no-recurse-limit"},
                    {"c++filt", "--format=dlang"}};
    uint64_t deadline_ns = gs_now_ns() + (uint64_t)timeout_ms * 1000000u;

    for (size_t i = 0; i < GS_ARRAY_LEN(programs); i++) {
        size_t bytes = 0;
        char *text = write_names(queries, count, &bytes);
        struct names names = {.queries = queries, .count = count};
        struct gs_helper child = {0};
        const char *const argv[] = {programs[i].name,
                                    programs[i].argument[0] ? programs[i].argument : NULL,
                                    NULL};
        const struct gs_helper_job job = {.argv = argv,
                                          .input = text,
                                          .input_bytes = bytes,
                                          .deadline_ns = deadline_ns,
                                          .take_line = take_line,
                                          .line_bytes = LINE_BYTES,
                                          .context = &names};

        if (text == NULL || gs_helper_run(&child, &job) == GS_ERR_TIMEOUT) {
            free(text);
            return;
        }
        free(text);
    }
}
