/*
 * symbolize.c - names addresses for the report; symbolize_lines.c asks the children.
 *
 * Owns:  struct gs_symbolizer: the files' symbols and every returned string.
 * Lock:  none, one thread.   Design: docs/stacks.md
 *
 * Runs at the very end of exit, after all static destructors: libc only.
 */
#include "tracker/names/symbolize_internal.h"

#include "tracker/names/demangle.h"
#include "tracker/names/runtime_modules.h"
#include "tracker/names/short_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DELETED " (deleted)" /* the kernel's suffix for the path of a removed file */

/* False: no memory. */
static bool copy_text(const char *text, char **copy)
{
    *copy = text != NULL ? strdup(text) : NULL;
    return text == NULL || *copy != NULL;
}

enum gs_status gs_symbolizer_create(const struct gs_symbolizer_config *config,
                                    struct gs_symbolizer **out)
{
    struct gs_symbolizer *symbolizer;

    if (config == NULL || out == NULL) {
        return GS_ERR_INVALID;
    }
    symbolizer = calloc(1, sizeof(*symbolizer));
    if (symbolizer == NULL) {
        return GS_ERR_HOST_NOMEM;
    }
    symbolizer->lines = config->lines;
    symbolizer->timeout_ms = config->timeout_ms;
    symbolizer->note = config->why_none;
    symbolizer->helper.server = config->server;
    symbolizer->search.process = getpid();
    if (!copy_text(config->helper, &symbolizer->helper.program) ||
        !copy_text(config->debug_dirs, &symbolizer->debug_dirs) ||
        !copy_text(config->sysroot, &symbolizer->sysroot)) {
        gs_symbolizer_destroy(symbolizer);
        return GS_ERR_HOST_NOMEM;
    }
    symbolizer->search.debug = (struct gs_debug_search){.dirs = symbolizer->debug_dirs,
                                                        .sysroot = symbolizer->sysroot};
    *out = symbolizer;
    return GS_OK;
}

void gs_symbolizer_set_process(struct gs_symbolizer *symbolizer, int64_t process)
{
    symbolizer->search.process = process;
    gs_perf_map_free(symbolizer->generated);
    symbolizer->generated = NULL;
    symbolizer->generated_read = false;
}

void gs_symbolizer_destroy(struct gs_symbolizer *symbolizer)
{
    if (symbolizer == NULL) {
        return;
    }
    gs_line_helper_end(&symbolizer->helper);
    for (struct gs_symbol_place *place = symbolizer->places; place != NULL;
         place = place->hh.next) {
        free(place->inlined);
    }
    GS_HASH_FREE(symbolizer->places);
    while (symbolizer->objects != NULL) {
        struct object *object = symbolizer->objects;

        symbolizer->objects = object->next;
        gs_object_close(&object->found);
        free(object->path);
        free(object);
    }
    while (symbolizer->strings != NULL) {
        struct kept_string *string = symbolizer->strings;

        symbolizer->strings = string->next;
        free(string);
    }
    free(symbolizer->helper.program);
    gs_perf_map_free(symbolizer->generated);
    free(symbolizer->debug_dirs);
    free(symbolizer->sysroot);
    free(symbolizer);
}

const char *gs_symbolizer_note(const struct gs_symbolizer *symbolizer)
{
    if (symbolizer->names_note != NULL) {
        return symbolizer->names_note;
    }
    return symbolizer->note != NULL ? symbolizer->note : symbolizer->lines_note;
}

const char *gs_symbolizer_keep(struct gs_symbolizer *symbolizer, const char *text,
                               size_t length)
{
    struct kept_string *string =
        text != NULL ? malloc(sizeof(*string) + length + 1) : NULL;

    if (string == NULL) {
        return NULL;
    }
    memcpy(string->text, text, length);
    string->text[length] = '\0';
    string->next = symbolizer->strings;
    symbolizer->strings = string;
    return string->text;
}

/* Why names of a module are missing; "": they are not. `ended`: its process, which may
 * have seen other files. */
static const char *problem_text(enum gs_object_problem problem, bool ended)
{
    static const char texts[][48] = {
        [GS_OBJECT_UNREADABLE] = "cannot be read",
        [GS_OBJECT_NO_FILES] = "cannot be read: too many open files",
        [GS_OBJECT_DELETED] = "was deleted after the program had loaded it",
        [GS_OBJECT_REPLACED] = "was replaced after the program had loaded it",
        [GS_OBJECT_LINK_FOREIGN] = "", /* note_no_lines */
    };

    if (ended && problem == GS_OBJECT_DELETED) {
        return "is not there (of a container: GPUSHIM_SYSROOT=ITS_ROOT)";
    }
    if (ended && problem == GS_OBJECT_REPLACED) {
        return "is another file now (of a container: GPUSHIM_SYSROOT=ITS_ROOT)";
    }
    return texts[problem];
}

/* Names the first file that cannot be read; other files likely fail for the same
 * reason. */
static void note_unread(struct gs_symbolizer *symbolizer, const char *path,
                        enum gs_object_problem problem)
{
    const char *why = problem_text(problem, symbolizer->search.process == 0);
    char text[GS_SYMBOLIZER_NOTE_BYTES];

    if (symbolizer->names_note != NULL || why[0] == '\0' || path[0] != '/' ||
        gs_module_is_runtime(gs_module_base_name(path))) { /* its frames are not shown */
        return;
    }
    snprintf(text, sizeof(text), "functions are missing: %.280s %s", path, why);
    symbolizer->names_note = gs_symbolizer_keep(symbolizer, text, strlen(text));
}

/* Notes that /proc is missing: without it even the program's own code has no file. */
static void note_unnamed(struct gs_symbolizer *symbolizer)
{
    if (symbolizer->names_note == NULL && access("/proc/thread-self/exe", F_OK) != 0) {
        symbolizer->names_note = "files are missing: /proc cannot be read";
    }
}

static bool is_object_of(const struct gs_symbolizer *symbolizer,
                         const struct object *object, const struct gs_module *module)
{
    return object->build_id_len == module->build_id_len &&
           object->file_stamp == module->file_stamp &&
           memcmp(object->build_id, module->build_id, module->build_id_len) == 0 &&
           (object->process == symbolizer->search.process ||
            (object->found.symbols != NULL && object->build_id_len != 0)) &&
           strcmp(object->path, module->path) == 0;
}

/* Returns the object of a module, opened at the first call. NULL: no memory. */
static struct object *object_for(struct gs_symbolizer *symbolizer,
                                 const struct gs_module *module)
{
    struct object *object = symbolizer->objects;

    for (; object != NULL; object = object->next) {
        if (is_object_of(symbolizer, object, module)) {
            return object;
        }
    }
    object = calloc(1, sizeof(*object));
    if (object == NULL) {
        return NULL;
    }
    object->path = strdup(module->path);
    if (object->path == NULL) {
        free(object);
        return NULL;
    }
    memcpy(object->build_id, module->build_id, sizeof(object->build_id));
    object->build_id_len = module->build_id_len;
    object->file_stamp = module->file_stamp;
    object->process = symbolizer->search.process;
    if (gs_object_open(&symbolizer->search, module, &object->found) != GS_OK) {
        memset(&object->found, 0, sizeof(object->found));
    }
    note_unread(symbolizer, module->path, object->found.problem);
    object->next = symbolizer->objects;
    symbolizer->objects = object;
    return object;
}

static const char *keep_base_name(struct gs_symbolizer *symbolizer, const char *path)
{
    size_t length = strlen(path), tail = sizeof(DELETED) - 1;
    const char *slash;

    if (length > tail && strcmp(path + length - tail, DELETED) == 0) {
        length -= tail;
    }
    slash = memrchr(path, '/', length);
    if (slash != NULL) {
        length -= (size_t)(slash + 1 - path);
        path = slash + 1;
    }
    return length != 0 ? gs_symbolizer_keep(symbolizer, path, length) : NULL;
}

void gs_symbolizer_set_names(struct gs_symbolizer *symbolizer, struct gs_symbol *symbol,
                             const char *linkage)
{
    char *readable = gs_demangle(linkage);

    /* Debug information names templates without a linkage in readable form. */
    if (readable == NULL && strchr(linkage, '<') != NULL) {
        readable = strdup(linkage);
    }
    if (readable != NULL) {
        gs_name_tidy(readable);
    }
    symbol->linkage = gs_symbolizer_keep(symbolizer, linkage, strlen(linkage));
    symbol->function = readable != NULL
                           ? gs_symbolizer_keep(symbolizer, readable, strlen(readable))
                           : symbol->linkage;
    free(readable);
}

static void find_names(struct gs_symbolizer *symbolizer, struct gs_symbol_place *place)
{
    const struct gs_object *found = &place->key.object->found;
    struct gs_symbol *symbol = &place->symbol;
    struct gs_go_place go;
    const char *linkage = NULL;

    symbol->offset = place->key.offset;
    symbol->module = keep_base_name(symbolizer, place->key.object->path);
    if (found->symbols != NULL) {
        linkage = gs_elf_symbols_find(found->symbols, symbol->offset);
    }
    if (linkage != NULL) {
        gs_symbolizer_set_names(symbolizer, symbol, linkage);
    }
    if (found->go == NULL || !gs_go_table_find(found->go, symbol->offset, &go)) {
        return;
    }
    if (linkage == NULL) {
        gs_symbolizer_set_names(symbolizer, symbol, go.function);
    }
    place->go = true;
    place->line = go.line;
    place->file = go.file;
}

/* The place of a frame, named at the first call. NULL: no memory. */
static struct gs_symbol_place *place_of(struct gs_symbolizer *symbolizer,
                                        struct object *object, uint64_t offset)
{
    const struct place_key key = {object, offset};
    struct gs_symbol_place *place = GS_HASH_FIND(symbolizer->places, &key);

    if (place != NULL || (place = calloc(1, sizeof(*place))) == NULL) {
        return place;
    }
    place->key = key;
    if (!GS_HASH_ADD(symbolizer->places, key, place)) {
        free(place);
        return NULL;
    }
    find_names(symbolizer, place);
    return place;
}

/* Names code that is in no module, if a compiler within the program has described it. */
static void name_generated(struct gs_symbolizer *symbolizer,
                           struct gs_symbol_request *request)
{
    const char *name;

    if (!symbolizer->generated_read && symbolizer->search.process != 0) {
        symbolizer->generated = gs_perf_map_read(symbolizer->search.process);
    }
    symbolizer->generated_read = true;
    name = gs_perf_map_find(symbolizer->generated, request->frame - 1);
    if (name != NULL) {
        gs_symbolizer_set_names(symbolizer, &request->result, name);
    }
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
            (object == NULL || object->path[0] == '\0')) {
            note_unnamed(symbolizer);
        }
        if (module == NULL && !gs_frame_is_python(request->frame)) {
            name_generated(symbolizer, request);
        }
        if (object != NULL) {
            request->place = place_of(symbolizer, object,
                                      (uint64_t)(request->frame - 1 - module->bias));
        }
        if (request->place != NULL) {
            request->result = request->place->symbol;
        }
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

    if (object == NULL || object->found.symbols == NULL ||
        object->found.lines_path == NULL) {
        return NULL;
    }
    const struct place_key key = {object, (uint64_t)(frame - 1 - module->bias)};
    const struct gs_symbol_place *place = GS_HASH_FIND(symbolizer->places, &key);
    return place != NULL ? place->symbol.linkage
                         : gs_elf_symbols_find(object->found.symbols, key.offset);
}
