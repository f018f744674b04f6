/*
 * symbolize.c - resolves addresses for the report: names here, file and line by a child.
 *
 * Owns:  struct gs_symbolizer: the files' symbols and every returned string.
 * Lock:  none, one thread.   Design: docs/stacks.md
 *
 * Runs at the very end of exit, after all static destructors: libc only.
 */
#include "symbolize.h"

#include "demangle.h"
#include "elf_file.h"
#include "elf_symbols.h"
#include "frame_kinds.h"
#include "line_helper.h"
#include "short_name.h"
#include "gs_clock.h"
#include "gs_hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DELETED " (deleted)" /* the kernel's suffix for the path of a removed file */

#define NOTE_BYTES 384

/* A module's file, opened once. */
struct object {
    struct object *next;
    char *path;
    uint8_t build_id[20];
    uint8_t build_id_len;
    uint64_t file_stamp;
    struct gs_elf_symbols *symbols; /* NULL: unusable file */
};

/* An address in a file, looked up once. */
struct gs_symbol_place {
    UT_hash_handle hh; /* in symbolizer->places */
    struct place_key {
        struct object *object;
        uint64_t offset;
    } key;
    struct gs_symbol symbol;
    struct gs_symbol *inlined; /* symbol.inlined */
    bool asked;                /* the child was asked about it */
};

/* A returned string, kept until the symbolizer is destroyed. */
struct kept_string {
    struct kept_string *next;
    char text[];
};

struct gs_symbolizer {
    bool lines;
    unsigned timeout_ms;
    uint64_t spent_ms; /* part of the limit, used by the calls so far */
    struct gs_line_helper helper;
    struct object *objects;
    struct gs_symbol_place *places;
    struct kept_string *strings;
    const char *note;       /* why lines are missing */
    const char *lines_note; /* the program has none */
    const char *names_note; /* why functions are missing */
};

enum gs_status gs_symbolizer_create(const struct gs_symbolizer_config *config,
                                    struct gs_symbolizer **out)
{
    struct gs_symbolizer *symbolizer;

    if (config == NULL || out == NULL)
        return GS_ERR_INVALID;
    symbolizer = calloc(1, sizeof(*symbolizer));
    if (symbolizer == NULL)
        return GS_ERR_HOST_NOMEM;
    symbolizer->lines = config->lines;
    symbolizer->timeout_ms = config->timeout_ms;
    symbolizer->note = config->why_none;
    if (config->helper != NULL) {
        symbolizer->helper.program = strdup(config->helper);
        if (symbolizer->helper.program == NULL) {
            free(symbolizer);
            return GS_ERR_HOST_NOMEM;
        }
    }
    *out = symbolizer;
    return GS_OK;
}

void gs_symbolizer_destroy(struct gs_symbolizer *symbolizer)
{
    if (symbolizer == NULL)
        return;
    gs_line_helper_end(&symbolizer->helper);
    for (struct gs_symbol_place *place = symbolizer->places; place != NULL;
         place = place->hh.next)
        free(place->inlined);
    GS_HASH_FREE(symbolizer->places);
    while (symbolizer->objects != NULL) {
        struct object *object = symbolizer->objects;

        symbolizer->objects = object->next;
        gs_elf_symbols_close(object->symbols);
        free(object->path);
        free(object);
    }
    while (symbolizer->strings != NULL) {
        struct kept_string *string = symbolizer->strings;

        symbolizer->strings = string->next;
        free(string);
    }
    free(symbolizer->helper.program);
    free(symbolizer);
}

const char *gs_symbolizer_note(const struct gs_symbolizer *symbolizer)
{
    if (symbolizer->names_note != NULL)
        return symbolizer->names_note;
    return symbolizer->note != NULL ? symbolizer->note : symbolizer->lines_note;
}

/* A copy that lives as long as the symbolizer; NULL: no memory, or `text` is NULL. */
static const char *keep(struct gs_symbolizer *symbolizer, const char *text, size_t length)
{
    struct kept_string *string =
        text != NULL ? malloc(sizeof(*string) + length + 1) : NULL;

    if (string == NULL)
        return NULL;
    memcpy(string->text, text, length);
    string->text[length] = '\0';
    string->next = symbolizer->strings;
    symbolizer->strings = string;
    return string->text;
}

/* Returns true if the file is unchanged since it was loaded. A build id makes the check
 * unnecessary. */
static bool is_unchanged(const struct gs_module *module)
{
    return module->build_id_len != 0 || module->file_stamp == 0 ||
           gs_elf_file_stamp(module->path) == module->file_stamp;
}

/* Names the first file that cannot be read; other files likely fail for the same
 * reason. */
static void note_unread(struct gs_symbolizer *symbolizer, const char *path, int error)
{
    char text[NOTE_BYTES];

    if (symbolizer->names_note != NULL)
        return;
    snprintf(text, sizeof(text), "functions are missing: %.300s cannot be read%s", path,
             error == EMFILE || error == ENFILE ? ": too many open files" : "");
    symbolizer->names_note = keep(symbolizer, text, strlen(text));
}

/* Without /proc, even the program's own code has no file. */
static void note_unnamed(struct gs_symbolizer *symbolizer)
{
    if (symbolizer->names_note == NULL && access("/proc/self/exe", F_OK) != 0)
        symbolizer->names_note = "files are missing: /proc cannot be read";
}

/* Returns the object of a module, opened at the first call. NULL: no memory. */
static struct object *object_for(struct gs_symbolizer *symbolizer,
                                 const struct gs_module *module)
{
    struct object *object = symbolizer->objects;

    for (; object != NULL; object = object->next) {
        if (object->build_id_len == module->build_id_len &&
            object->file_stamp == module->file_stamp &&
            memcmp(object->build_id, module->build_id, module->build_id_len) == 0 &&
            strcmp(object->path, module->path) == 0)
            return object;
    }
    object = calloc(1, sizeof(*object));
    if (object == NULL)
        return NULL;
    object->path = strdup(module->path);
    if (object->path == NULL) {
        free(object);
        return NULL;
    }
    memcpy(object->build_id, module->build_id, sizeof(object->build_id));
    object->build_id_len = module->build_id_len;
    object->file_stamp = module->file_stamp;
    if (module->path[0] == '/' && is_unchanged(module)) {
        errno = 0;
        enum gs_status status = gs_elf_symbols_open(
            module->path, module->build_id, module->build_id_len, &object->symbols);
        if (status != GS_OK)
            object->symbols = NULL;
        if (status == GS_ERR_IO)
            note_unread(symbolizer, module->path, errno);
    }
    object->next = symbolizer->objects;
    symbolizer->objects = object;
    return object;
}

static const char *keep_base_name(struct gs_symbolizer *symbolizer, const char *path)
{
    size_t length = strlen(path), tail = sizeof(DELETED) - 1;
    const char *slash;

    if (length > tail && strcmp(path + length - tail, DELETED) == 0)
        length -= tail;
    slash = memrchr(path, '/', length);
    if (slash != NULL) {
        length -= (size_t)(slash + 1 - path);
        path = slash + 1;
    }
    return length != 0 ? keep(symbolizer, path, length) : NULL;
}

static void set_names(struct gs_symbolizer *symbolizer, struct gs_symbol *symbol,
                      const char *linkage)
{
    char *readable = gs_demangle(linkage);

    /* Debug information names templates without a linkage in readable form. */
    if (readable == NULL && strchr(linkage, '<') != NULL)
        readable = strdup(linkage);
    if (readable != NULL)
        gs_name_tidy(readable);
    symbol->linkage = keep(symbolizer, linkage, strlen(linkage));
    symbol->function =
        readable != NULL ? keep(symbolizer, readable, strlen(readable)) : symbol->linkage;
    free(readable);
}

static void find_names(struct gs_symbolizer *symbolizer, struct gs_symbol_place *place)
{
    struct object *object = place->key.object;
    struct gs_symbol *symbol = &place->symbol;
    const char *linkage;

    symbol->offset = place->key.offset;
    symbol->module = keep_base_name(symbolizer, object->path);
    if (object->symbols == NULL)
        return;
    linkage = gs_elf_symbols_find(object->symbols, symbol->offset);
    if (linkage != NULL)
        set_names(symbolizer, symbol, linkage);
}

/* The place of a frame, named at the first call. NULL: no memory. */
static struct gs_symbol_place *place_of(struct gs_symbolizer *symbolizer,
                                        struct object *object, uint64_t offset)
{
    const struct place_key key = {object, offset};
    struct gs_symbol_place *place = GS_HASH_FIND(symbolizer->places, &key);

    if (place != NULL || (place = calloc(1, sizeof(*place))) == NULL)
        return place;
    place->key = key;
    if (!GS_HASH_ADD(symbolizer->places, key, place)) {
        free(place);
        return NULL;
    }
    find_names(symbolizer, place);
    return place;
}

void gs_symbolizer_resolve(struct gs_symbolizer *symbolizer,
                           struct gs_symbol_request *requests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct gs_symbol_request *request = &requests[i];
        const struct gs_module *module = request->module;
        struct object *object = module != NULL && module->path != NULL
                                    ? object_for(symbolizer, module)
                                    : NULL;

        memset(&request->result, 0, sizeof(request->result));
        request->place = NULL;
        if (!gs_frame_is_python(request->frame) &&
            (object == NULL || object->path[0] == '\0'))
            note_unnamed(symbolizer);
        if (object != NULL)
            request->place = place_of(symbolizer, object,
                                      (uint64_t)(request->frame - 1 - module->bias));
        if (request->place != NULL)
            request->result = request->place->symbol;
    }
}

/* Can the helper be asked about it, and will it know anything? */
static bool may_have_line(const struct gs_symbol_place *place)
{
    const struct object *object = place->key.object;

    return object->symbols != NULL && gs_elf_symbols_has_lines(object->symbols) &&
           strpbrk(object->path, "\"\n\r") == NULL;
}

/* Names the first file of the program's that was compiled without debug information. */
static void note_no_lines(struct gs_symbolizer *symbolizer,
                          const struct gs_symbol_request *request)
{
    const struct object *object = request->place->key.object;
    const char *module = request->result.module;
    char text[NOTE_BYTES];

    if (symbolizer->lines_note != NULL || module == NULL || object->symbols == NULL ||
        gs_elf_symbols_has_lines(object->symbols) ||
        gs_frame_kind(request, module) != GS_FRAME_PROGRAM)
        return;
    snprintf(text, sizeof(text),
             "%.300s has no debug information: compile it with -g for file and line",
             module);
    symbolizer->lines_note = keep(symbolizer, text, strlen(text));
}

static int compare_places(const void *a, const void *b)
{
    const struct place_key *left = &(*(struct gs_symbol_place *const *)a)->key,
                           *right = &(*(struct gs_symbol_place *const *)b)->key;
    int order = strcmp(left->object->path, right->object->path);

    if (order != 0)
        return order;
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

static void take_place(struct gs_symbolizer *symbolizer, struct gs_symbol *symbol,
                       const struct gs_line_place *from)
{
    if (from->file == NULL)
        return;
    symbol->file = keep(symbolizer, from->file, strlen(from->file));
    symbol->line = symbol->file != NULL ? from->line : 0;
}

/* Takes the child's answer. The function that contains the others has its symbol's name:
 * the debug information may name a clone of it otherwise. */
static void take_answer(struct gs_symbolizer *symbolizer, struct gs_symbol_place *place,
                        const struct gs_line_query *query)
{
    unsigned inlined = query->count > 0 ? query->count - 1 : 0;

    if (query->count > 0)
        take_place(symbolizer, &place->symbol, &query->places[inlined]);
    place->inlined = inlined > 0 ? calloc(inlined, sizeof(*place->inlined)) : NULL;
    if (place->inlined == NULL)
        return;
    for (unsigned i = 0; i < inlined; i++) {
        struct gs_symbol *symbol = &place->inlined[i];

        symbol->module = place->symbol.module;
        symbol->offset = place->symbol.offset;
        if (query->places[i].function != NULL)
            set_names(symbolizer, symbol, query->places[i].function);
        take_place(symbolizer, symbol, &query->places[i]);
    }
    place->symbol.inlined = place->inlined;
    place->symbol.inlined_count = inlined;
}

/* Asks the child about these places. */
static void ask(struct gs_symbolizer *symbolizer, struct gs_symbol_place **places,
                size_t count)
{
    struct gs_line_query *queries = count != 0 ? calloc(count, sizeof(*queries)) : NULL;
    unsigned left_ms = symbolizer->spent_ms < symbolizer->timeout_ms
                           ? symbolizer->timeout_ms - (unsigned)symbolizer->spent_ms
                           : 0;
    uint64_t begin_ns = gs_now_ns();
    const char *note;

    if (queries == NULL)
        return;
    qsort(places, count, sizeof(*places), compare_places);
    for (size_t i = 0; i < count; i++) {
        queries[i].path = places[i]->key.object->path;
        queries[i].address = places[i]->key.offset;
    }
    note = gs_line_helper_resolve(&symbolizer->helper, left_ms, queries, count);
    if (note != NULL)
        symbolizer->note = note;
    symbolizer->spent_ms += (gs_now_ns() - begin_ns) / 1000000;
    for (size_t i = 0; i < count; i++) {
        take_answer(symbolizer, places[i], &queries[i]);
        gs_line_query_free(&queries[i]);
    }
    free(queries);
}

void gs_symbolizer_find_lines(struct gs_symbolizer *symbolizer,
                              struct gs_symbol_request *requests, size_t count)
{
    struct gs_symbol_place **asked =
        symbolizer->lines && count != 0 ? calloc(count, sizeof(*asked)) : NULL;
    size_t used = 0;

    if (asked == NULL)
        return;
    for (size_t i = 0; i < count; i++) {
        struct gs_symbol_place *place = requests[i].place;

        if (!requests[i].line_wanted || place == NULL)
            continue;
        note_no_lines(symbolizer, &requests[i]);
        if (place->asked || !may_have_line(place))
            continue;
        place->asked = true;
        asked[used++] = place;
    }
    ask(symbolizer, asked, used);
    free(asked);
    for (size_t i = 0; i < count; i++) {
        if (requests[i].line_wanted && requests[i].place != NULL)
            requests[i].result = requests[i].place->symbol;
    }
}

bool gs_symbolizer_finds_lines(const struct gs_symbolizer *symbolizer)
{
    return symbolizer->lines;
}

const char *gs_symbolizer_linkage(struct gs_symbolizer *symbolizer, uintptr_t frame,
                                  const struct gs_module *module)
{
    struct object *object = module->path != NULL ? object_for(symbolizer, module) : NULL;

    if (object == NULL || object->symbols == NULL ||
        !gs_elf_symbols_has_lines(object->symbols))
        return NULL;
    const struct place_key key = {object, (uint64_t)(frame - 1 - module->bias)};
    const struct gs_symbol_place *place = GS_HASH_FIND(symbolizer->places, &key);
    return place != NULL ? place->symbol.linkage
                         : gs_elf_symbols_find(object->symbols, key.offset);
}
