/*
 * line_helper.c - the protocols of the two helper programs.
 *
 * Role:  writes the queries, reads the answers; helper_process.c runs the child and
 *        prepares its environment.
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 *
 * llvm-symbolizer gets queries, one per line:   CODE "path" 0xaddress   It answers each
 * at once, as it does for the sanitizers, with pairs of lines, a function's name and
 * "file:line:column", the innermost inlined function first, and an empty line. It starts
 * slowly, so that it stays for the next queries. addr2line runs once per module with -a
 * -f -i: it answers "0xaddress", then pairs of lines, name and "file:line", in the same
 * order.
 */
#include "tracker/names/line_helper.h"

#include "gs_clock.h"
#include "gs_string.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_VALUE 100000000ul

#define NOTE_MISSING                                                                     \
    "no file and line: neither llvm-symbolizer nor addr2line was found on PATH"
#define NOTE_GIVEN_MISSING "no file and line: the given helper program was not found"
#define NOTE_TIMEOUT       "file and line are incomplete: the time limit was reached"
#define NOTE_FAILED        "no file and line: the helper program could not be run"
#define NOTE_BUSY                                                                        \
    "file and line are missing: a thread of the program waits for any child to end, "    \
    "and "                                                                               \
    "would see the helper program end"
#define NOTE_SILENT "file and line are incomplete: the helper gave no full answer"

/* The answers of one child, in the order of its queries. */
struct answers {
    struct gs_line_query *queries;
    size_t count, at; /* at: the query of the next line */
    bool begun;       /* addr2line: the first address line was seen */
    bool named;       /* the next line has the place of a function whose name was seen */
};

static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Parses "file:line[:column]", or "file:line (discriminator 3)". An unknown position has
 * no file. False if the text has another form. Changes `text`. */
static bool parse_place(char *text, bool has_column, const char **file, unsigned *line)
{
    char *colon, *end;
    unsigned long value;

    if (!is_printable(text)) {
        return false;
    }
    if (has_column) {
        colon = strrchr(text, ':');
        if (colon == NULL) {
            return false;
        }
        *colon = '\0';
    }
    colon = strrchr(text, ':');
    if (colon == NULL || colon == text || colon[1] < '0' || colon[1] > '9') {
        return false;
    }
    errno = 0;
    value = strtoul(colon + 1, &end, 10);
    if (errno != 0 || value > LINE_MAX_VALUE || (*end != '\0' && *end != ' ')) {
        return false;
    }
    *colon = '\0';
    *file = value != 0 && strcmp(text, "??") != 0 ? text : NULL;
    *line = (unsigned)value;
    return true;
}

static void clear_place(struct gs_line_place *place)
{
    free(place->function);
    free(place->file);
    memset(place, 0, sizeof(*place));
}

/* Stores a function's name as the last of the query's places. */
static void store_name(struct gs_line_query *query, const char *name)
{
    struct gs_line_place *places = query->places, *place;

    if (query->count < GS_LINE_PLACES_MAX) {
        places = realloc(places, (query->count + 1) * sizeof(*places));
        if (places == NULL) {
            return;
        }
        query->places = places;
        memset(&places[query->count++], 0, sizeof(*places));
    }
    place = &places[query->count - 1];
    clear_place(place);
    if (is_printable(name) && strcmp(name, "??") != 0) {
        place->function = strdup(name);
    }
}

/* Stores the place of the function that was named last. Another text takes the name
 * away. */
static void store_place(struct gs_line_query *query, const char *line, bool has_column)
{
    struct gs_line_place *place;
    char *text = strdup(line);
    const char *file;
    unsigned number;

    if (text == NULL || query->count == 0) {
        free(text);
        return;
    }
    place = &query->places[query->count - 1];
    if (!parse_place(text, has_column, &file, &number)) {
        clear_place(place);
        query->count--;
    } else if (file != NULL) {
        place->file = strdup(file);
        place->line = place->file != NULL ? number : 0;
    }
    free(text);
}

static void store_line(struct answers *answers, const char *line, bool has_column)
{
    struct gs_line_query *query = &answers->queries[answers->at];

    if (answers->named) {
        store_place(query, line, has_column);
    } else {
        store_name(query, line);
    }
    answers->named = !answers->named;
}

void gs_line_query_free(struct gs_line_query *query)
{
    for (unsigned i = 0; i < query->count; i++) {
        clear_place(&query->places[i]);
    }
    free(query->places);
    query->places = NULL;
    query->count = 0;
}

static bool take_llvm_line(void *context, const char *line)
{
    struct answers *answers = context;

    if (line[0] == '\0') {
        answers->at++;
        answers->named = false;
    } else if (answers->at < answers->count) {
        store_line(answers, line, true);
    }
    return answers->at < answers->count;
}

static bool take_addr2line_line(void *context, const char *line)
{
    struct answers *answers = context;

    if (line[0] == '0' && line[1] == 'x') {
        answers->at += answers->begun;
        answers->begun = true;
        answers->named = false;
    } else if (answers->begun && answers->at < answers->count) {
        store_line(answers, line, false);
    }
    return answers->at < answers->count;
}

/* Writes the input for `count` queries; NULL: no memory. */
static char *write_questions(const struct gs_line_query *queries, size_t count, bool llvm,
                             size_t *bytes)
{
    size_t capacity = 1;
    char *text, *at;

    for (size_t i = 0; i < count; i++) {
        capacity += strlen(queries[i].path) + 32;
    }
    text = at = malloc(capacity);
    for (size_t i = 0; text != NULL && i < count; i++) {
        if (llvm) {
            at += sprintf(at, "CODE \"%s\" 0x%" PRIx64 "\n", queries[i].path,
                          queries[i].address);
        } else {
            at += sprintf(at, "0x%" PRIx64 "\n", queries[i].address);
        }
    }
    *bytes = text != NULL ? (size_t)(at - text) : 0;
    return text;
}

/* Asks a child. llvm: the child for these queries; NULL: addr2line, a child for them
 * alone. GS_ERR_NOT_FOUND: no such program. */
static enum gs_status run_helper(const char *const *argv, struct gs_helper *llvm,
                                 uint64_t deadline_ns, struct gs_line_query *queries,
                                 size_t count, bool *complete)
{
    struct gs_helper addr2line = {0};
    struct answers answers = {.queries = queries, .count = count};
    struct gs_helper_job job = {
        .argv = argv,
        .stays = llvm != NULL,
        .deadline_ns = deadline_ns,
        .take_line = llvm ? take_llvm_line : take_addr2line_line,
        .context = &answers,
    };
    char *questions = write_questions(queries, count, llvm != NULL, &job.input_bytes);
    enum gs_status status;

    if (questions == NULL) {
        return GS_ERR_HOST_NOMEM;
    }
    job.input = questions;
    status = gs_helper_run(llvm != NULL ? llvm : &addr2line, &job);
    free(questions);
    /* no line follows addr2line's last answer and ends it */
    if (answers.at + (answers.begun && llvm == NULL) < count) {
        *complete = false;
    }
    return status;
}

static enum gs_status run_llvm_symbolizer(struct gs_line_helper *helper,
                                          uint64_t deadline_ns,
                                          struct gs_line_query *queries, size_t count,
                                          bool *complete)
{
    const char *argv[] = {helper->program != NULL ? helper->program : "llvm-symbolizer",
                          "--functions=linkage", "--inlining=true", "-demangle=false",
                          NULL};

    return run_helper(argv, &helper->llvm, deadline_ns, queries, count, complete);
}

/* addr2line gives the innermost inlined function the symbol's name, which is another
 * function's, unless the debug information has a linkage name. */
static void drop_symbols_name(struct gs_line_query *query)
{
    struct gs_line_place *first = query->places;
    const char *last = query->count > 1 ? first[query->count - 1].function : NULL;

    if (last == NULL || first->function == NULL ||
        (strcmp(first->function, last) != 0 &&
         (query->symbol == NULL || strcmp(first->function, query->symbol) != 0))) {
        return;
    }
    free(first->function);
    first->function = NULL;
}

static enum gs_status run_addr2line(const char *program, uint64_t deadline_ns,
                                    struct gs_line_query *queries, size_t count,
                                    bool *complete)
{
    enum gs_status status = GS_OK;
    size_t begin = 0, end;

    for (; begin < count && status == GS_OK; begin = end) {
        const char *path = queries[begin].path;
        const char *argv[] = {program, "-a", "-f", "-i", "-e", path, NULL};

        for (end = begin; end < count && strcmp(queries[end].path, path) == 0;) {
            end++;
        }
        status =
            run_helper(argv, NULL, deadline_ns, queries + begin, end - begin, complete);
    }
    for (begin = 0; begin < count; begin++) {
        drop_symbols_name(&queries[begin]);
    }
    return status;
}

static bool is_addr2line(const char *program)
{
    return strstr(gs_file_name(program), "addr2line") != NULL;
}

/* Returns true if an answer has a line, and the names of all inlined functions. */
static bool is_answered(const struct gs_line_query *query)
{
    for (unsigned i = 0; i + 1 < query->count; i++) {
        if (query->places[i].function == NULL) {
            return false;
        }
    }
    return query->count > 0 && query->places[query->count - 1].file != NULL;
}

/* How much an answer says. */
static unsigned detail_of(const struct gs_line_query *query)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < query->count; i++) {
        sum +=
            (query->places[i].file != NULL ? 2 : 0) + (query->places[i].function != NULL);
    }
    return sum;
}

/* Asks addr2line about the queries of one file, and keeps its answers that say more. */
static void ask_again(uint64_t deadline_ns, struct gs_line_query *queries, size_t count)
{
    struct gs_line_query *second = calloc(count, sizeof(*second));
    bool complete = true;

    if (second == NULL) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        second[i].path = queries[i].path;
        second[i].address = queries[i].address;
        second[i].symbol = queries[i].symbol;
    }
    (void)run_addr2line("addr2line", deadline_ns, second, count, &complete);
    for (size_t i = 0; i < count; i++) {
        struct gs_line_query first = queries[i];

        if (detail_of(&second[i]) > detail_of(&first)) {
            queries[i] = second[i];
            second[i] = first;
        }
        gs_line_query_free(&second[i]);
    }
    free(second);
}

/* llvm-symbolizer may not read what a newer compiler wrote, or crash on it: files without
 * any answer, or with nameless inlined functions, are asked of addr2line, too. */
static void fill_gaps(uint64_t deadline_ns, struct gs_line_query *queries, size_t count)
{
    for (size_t begin = 0, end; begin < count; begin = end) {
        size_t answered = 0, nameless = 0;

        for (end = begin;
             end < count && strcmp(queries[end].path, queries[begin].path) == 0; end++) {
            answered += is_answered(&queries[end]);
            nameless += queries[end].count > 1 && !is_answered(&queries[end]);
        }
        if ((answered == 0 || nameless > 0) && gs_now_ns() < deadline_ns) {
            ask_again(deadline_ns, queries + begin, end - begin);
        }
    }
}

/* Returns true if each file has an answer. */
static bool all_answered(const struct gs_line_query *queries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (queries[i].count == 0) {
            return false;
        }
    }
    return true;
}

const char *gs_line_helper_resolve(struct gs_line_helper *helper, unsigned timeout_ms,
                                   struct gs_line_query *queries, size_t count)
{
    const char *program = helper->program;
    uint64_t deadline_ns = gs_now_ns() + (uint64_t)timeout_ms * 1000000u;
    enum gs_status status;
    bool complete = true;

    if (count == 0) {
        return NULL;
    }
    if (helper->server != NULL) {
        return helper->server->resolve(helper->server, timeout_ms, queries, count);
    }
    if (program != NULL && is_addr2line(program)) {
        status = run_addr2line(program, deadline_ns, queries, count, &complete);
    } else {
        status = run_llvm_symbolizer(helper, deadline_ns, queries, count, &complete);
        if (status == GS_ERR_NOT_FOUND && program == NULL) {
            complete = true;
            status = run_addr2line("addr2line", deadline_ns, queries, count, &complete);
        } else if (program == NULL && (status == GS_OK || status == GS_ERR_IO)) {
            fill_gaps(deadline_ns, queries, count);
            if (all_answered(queries, count)) {
                complete = true;
                status = GS_OK;
            }
        }
    }
    if (status == GS_ERR_NOT_FOUND) {
        return program != NULL ? NOTE_GIVEN_MISSING : NOTE_MISSING;
    }
    if (status == GS_ERR_TIMEOUT) {
        return NOTE_TIMEOUT;
    }
    if (status == GS_ERR_BUSY) {
        return NOTE_BUSY;
    }
    if (status != GS_OK) {
        return NOTE_FAILED;
    }
    return complete ? NULL : NOTE_SILENT;
}

void gs_line_helper_end(struct gs_line_helper *helper)
{
    gs_helper_end(&helper->llvm, UINT64_MAX);
}
