/*
 * symbolize_lines.c - asks children for file and line, inlined functions, and readable
 * names that the process cannot find.
 *
 * Owns:  nothing.   Lock: none, one thread.   Design: docs/stacks.md
 */
#include "gs_compare.h"
#include "tracker/names/symbolize_internal.h"

#include "gs_clock.h"
#include "tracker/names/frame_kinds.h"
#include "tracker/names/name_helper.h"
#include "tracker/names/short_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEFT_MAX 256u /* names that one child demangles */

/* Can the helper be asked about the file? A question is a line, with the path in
 * quotation marks. */
static bool may_be_asked(const char *path)
{
    return strpbrk(path, "\"\n\r") == NULL;
}

/* Will the helper know anything about it? */
static bool may_have_line(const struct gs_symbol_place *place)
{
    const char *path = place->key.object->found.lines_path;

    return path != NULL && may_be_asked(path);
}

/* Names the first file of the program's without lines, and the reason: no debug
 * information, or a path that cannot be asked about. */
static void note_no_lines(struct gs_symbolizer *symbolizer,
                          const struct gs_symbol_request *request)
{
    const struct gs_object *found = &request->place->key.object->found;
    const char *module = request->result.module;
    char text[GS_SYMBOLIZER_NOTE_BYTES];

    if (symbolizer->lines_note != NULL || module == NULL || found->symbols == NULL ||
        may_have_line(request->place) || request->place->go ||
        gs_frame_kind(request, module) != GS_FRAME_PROGRAM) {
        return;
    }
    if (found->lines_path != NULL) {
        snprintf(text, sizeof(text),
                 "no file and line of %.300s: its path has a quotation mark or a line "
                 "break; rename it",
                 module);
    } else if (found->problem == GS_OBJECT_LINK_MISSING) {
        snprintf(text, sizeof(text),
                 "the debug file of %.140s, %.140s, was not found: name its folder in "
                 "GPUSHIM_DEBUG_DIR",
                 module, found->debug_path);
    } else if (found->problem == GS_OBJECT_LINK_FOREIGN) {
        snprintf(text, sizeof(text),
                 "the debug file %.140s is damaged, or not of this build of %.140s",
                 found->debug_path, module);
    } else {
        snprintf(text, sizeof(text),
                 "%.300s has no debug information: compile it with -g for file and line",
                 module);
    }
    symbolizer->lines_note = gs_symbolizer_keep(symbolizer, text, strlen(text));
}

static int compare_places(const void *a, const void *b)
{
    const struct place_key *left = &(*(struct gs_symbol_place *const *)a)->key,
                           *right = &(*(struct gs_symbol_place *const *)b)->key;
    int order = strcmp(left->object->found.lines_path, right->object->found.lines_path);

    if (order != 0) {
        return order;
    }
    return GS_RISING(left->offset, right->offset);
}

static void take_place(struct gs_symbolizer *symbolizer, struct gs_symbol *symbol,
                       const struct gs_line_place *from)
{
    if (from->file == NULL) {
        return;
    }
    symbol->file = gs_symbolizer_keep(symbolizer, from->file, strlen(from->file));
    symbol->line = symbol->file != NULL ? from->line : 0;
}

/* Takes the child's answer. The function that contains the others has its symbol's name,
 * if there is one: the debug information may name a clone of it otherwise. */
static void take_answer(struct gs_symbolizer *symbolizer, struct gs_symbol_place *place,
                        const struct gs_line_query *query)
{
    unsigned inlined = query->count > 0 ? query->count - 1 : 0;

    if (query->count > 0) {
        take_place(symbolizer, &place->symbol, &query->places[inlined]);
    }
    /* A name with a line comes from debug information, not from a symbol nearby. */
    if (place->symbol.function == NULL && place->symbol.file != NULL &&
        query->places[inlined].function != NULL) {
        gs_symbolizer_set_names(symbolizer, &place->symbol,
                                query->places[inlined].function);
    }
    place->inlined = inlined > 0 ? calloc(inlined, sizeof(*place->inlined)) : NULL;
    if (place->inlined == NULL) {
        return;
    }
    for (unsigned i = 0; i < inlined; i++) {
        struct gs_symbol *symbol = &place->inlined[i];

        symbol->module = place->symbol.module;
        symbol->offset = place->symbol.offset;
        if (query->places[i].function != NULL) {
            gs_symbolizer_set_names(symbolizer, symbol, query->places[i].function);
        }
        take_place(symbolizer, symbol, &query->places[i]);
    }
    place->symbol.inlined = place->inlined;
    place->symbol.inlined_count = inlined;
}

static unsigned left_ms(const struct gs_symbolizer *symbolizer)
{
    return symbolizer->spent_ms < symbolizer->timeout_ms
               ? symbolizer->timeout_ms - (unsigned)symbolizer->spent_ms
               : 0;
}

/* Asks the child about these places. */
static void ask(struct gs_symbolizer *symbolizer, struct gs_symbol_place **places,
                size_t count)
{
    struct gs_line_query *queries = count != 0 ? calloc(count, sizeof(*queries)) : NULL;
    uint64_t begin_ns = gs_now_ns();
    const char *note;

    if (queries == NULL) {
        return;
    }
    qsort(places, count, sizeof(*places), compare_places);
    for (size_t i = 0; i < count; i++) {
        queries[i].path = places[i]->key.object->found.lines_path;
        queries[i].address = places[i]->key.offset;
        queries[i].symbol = places[i]->symbol.linkage;
    }
    note =
        gs_line_helper_resolve(&symbolizer->helper, left_ms(symbolizer), queries, count);
    if (note != NULL) {
        symbolizer->note = note;
    }
    symbolizer->spent_ms += (gs_now_ns() - begin_ns) / 1000000;
    for (size_t i = 0; i < count; i++) {
        take_answer(symbolizer, places[i], &queries[i]);
        gs_line_query_free(&queries[i]);
    }
    free(queries);
}

/* Returns true for a C++ name that the demangler in the process refuses: libstdc++'s
 * takes no name above 1,024 bytes. Likewise for D's names. */
static bool is_left(const struct gs_symbol *symbol)
{
    return symbol->linkage != NULL && symbol->function == symbol->linkage &&
           (strncmp(symbol->linkage, "_Z", 2) == 0 ||
            strncmp(symbol->linkage, "_D", 2) == 0);
}

static void collect_left(struct gs_symbol *symbol, struct gs_symbol **left, size_t *used,
                         size_t room)
{
    if (is_left(symbol) && *used < room) {
        left[(*used)++] = symbol;
    }
}

/* Demangles what the process cannot, by a child. */
static void demangle_rest(struct gs_symbolizer *symbolizer,
                          struct gs_symbol_request *requests, size_t count)
{
    struct gs_symbol **left = calloc(LEFT_MAX, sizeof(struct gs_symbol *));
    struct gs_name_query *queries = calloc(LEFT_MAX, sizeof(*queries));
    uint64_t begin_ns = gs_now_ns();
    size_t used = 0, room = left != NULL && queries != NULL ? LEFT_MAX : 0;

    for (size_t i = 0; i < count; i++) {
        struct gs_symbol_place *place = requests[i].place;

        if (!requests[i].line_wanted || place == NULL || place->filtered) {
            continue;
        }
        place->filtered = true;
        collect_left(&place->symbol, left, &used, room);
        for (unsigned k = 0; k < place->symbol.inlined_count; k++) {
            collect_left(&place->inlined[k], left, &used, room);
        }
    }
    for (size_t i = 0; i < used; i++) {
        queries[i].linkage = left[i]->linkage;
    }
    gs_name_helper_demangle(left_ms(symbolizer), queries, used);
    for (size_t i = 0; i < used; i++) {
        if (queries[i].readable == NULL) {
            continue;
        }
        gs_name_tidy(queries[i].readable);
        left[i]->function = gs_symbolizer_keep(symbolizer, queries[i].readable,
                                               strlen(queries[i].readable));
        if (left[i]->function == NULL) {
            left[i]->function = left[i]->linkage;
        }
        free(queries[i].readable);
    }
    free(left);
    free(queries);
    symbolizer->spent_ms += (gs_now_ns() - begin_ns) / 1000000;
}

void gs_symbolizer_find_lines(struct gs_symbolizer *symbolizer,
                              struct gs_symbol_request *requests, size_t count)
{
    struct gs_symbol_place **asked =
        symbolizer->lines && count != 0 ? calloc(count, sizeof(*asked)) : NULL;
    size_t used = 0;

    if (asked == NULL) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct gs_symbol_place *place = requests[i].place;

        if (!requests[i].line_wanted || place == NULL) {
            continue;
        }
        note_no_lines(symbolizer, &requests[i]);
        if (place->go && place->symbol.file == NULL && place->file != NULL) {
            place->symbol.file = place->file;
            place->symbol.line = place->line;
        }
        if (place->asked || !may_have_line(place)) {
            continue;
        }
        place->asked = true;
        asked[used++] = place;
    }
    ask(symbolizer, asked, used);
    demangle_rest(symbolizer, requests, count);
    free(asked);
    for (size_t i = 0; i < count; i++) {
        if (requests[i].line_wanted && requests[i].place != NULL) {
            requests[i].result = requests[i].place->symbol;
        }
    }
}
