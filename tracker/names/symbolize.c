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
#include "helper_process.h"
#include "line_helper.h"
#include "gs_clock.h"

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

/* A returned string, kept until the symbolizer is destroyed. */
struct kept_string {
    struct kept_string *next;
    char text[];
};

struct gs_symbolizer {
    bool lines;
    unsigned timeout_ms;
    uint64_t spent_ms; /* part of the limit, used by the calls so far */
    char *helper;      /* NULL: search PATH */
    struct object *objects;
    struct kept_string *strings;
    const char *note;       /* why lines are missing */
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
    if (config->helper != NULL) {
        symbolizer->helper = strdup(config->helper);
        if (symbolizer->helper == NULL) {
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
    free(symbolizer->helper);
    free(symbolizer);
}

const char *gs_symbolizer_note(const struct gs_symbolizer *symbolizer)
{
    return symbolizer->names_note != NULL ? symbolizer->names_note : symbolizer->note;
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

static void resolve_names(struct gs_symbolizer *symbolizer,
                          struct gs_symbol_request *request, struct object *object)
{
    struct gs_symbol *result = &request->result;
    const char *linkage;
    char *readable;

    result->offset = (uint64_t)(request->frame - 1 - request->module->bias);
    result->module = keep_base_name(symbolizer, request->module->path);
    if (object == NULL || object->symbols == NULL)
        return;
    linkage = gs_elf_symbols_find(object->symbols, result->offset);
    if (linkage == NULL)
        return;
    result->linkage = keep(symbolizer, linkage, strlen(linkage));
    readable = gs_demangle(linkage);
    result->function =
        readable != NULL ? keep(symbolizer, readable, strlen(readable)) : result->linkage;
    free(readable);
}

/* A request and its object, for sorting. */
struct item {
    struct gs_symbol_request *request;
    struct object *object; /* NULL: no module or no memory */
};

static int compare_items(const void *a, const void *b)
{
    const struct item *left = a, *right = b;
    uint64_t left_at, right_at;
    int order;

    if (left->object != right->object) {
        if (left->object == NULL || right->object == NULL)
            return left->object == NULL ? 1 : -1;
        order = strcmp(left->object->path, right->object->path);
        if (order != 0)
            return order;
        return (uintptr_t)left->object < (uintptr_t)right->object ? -1 : 1;
    }
    if (left->object == NULL)
        return 0;
    left_at = left->request->frame - left->request->module->bias;
    right_at = right->request->frame - right->request->module->bias;
    return left_at < right_at ? -1 : left_at > right_at;
}

static bool same_place(const struct item *a, const struct item *b)
{
    return a->object != NULL && a->object == b->object &&
           a->request->frame - a->request->module->bias ==
               b->request->frame - b->request->module->bias;
}

/* Returns true if the helper may know a line for the item. */
static bool may_have_line(const struct item *item)
{
    return item->object != NULL && item->object->symbols != NULL &&
           gs_elf_symbols_has_lines(item->object->symbols) &&
           strpbrk(item->object->path, "\"\n\r") == NULL;
}

/* Sends one query for each distinct address; the answer goes into the first of equal
 * items. */
static void resolve_lines(struct gs_symbolizer *symbolizer, struct item *items,
                          size_t count)
{
    struct gs_line_query *queries = calloc(count, sizeof(*queries));
    struct gs_symbol_request **asked = calloc(count, sizeof(*asked));
    size_t used = 0;

    for (size_t i = 0; queries != NULL && asked != NULL && i < count; i++) {
        if (!may_have_line(&items[i]) || (i > 0 && same_place(&items[i - 1], &items[i])))
            continue;
        asked[used] = items[i].request;
        queries[used].path = items[i].object->path;
        queries[used++].address = items[i].request->result.offset;
    }
    uint64_t begin_ns = gs_now_ns();
    unsigned left_ms = symbolizer->spent_ms < symbolizer->timeout_ms
                           ? symbolizer->timeout_ms - (unsigned)symbolizer->spent_ms
                           : 0;
    symbolizer->note = gs_line_helper_resolve(symbolizer->helper, left_ms, queries, used);
    symbolizer->spent_ms += (gs_now_ns() - begin_ns) / 1000000;
    for (size_t i = 0; i < used; i++) {
        if (queries[i].file == NULL)
            continue;
        asked[i]->result.file =
            keep(symbolizer, queries[i].file, strlen(queries[i].file));
        asked[i]->result.line = asked[i]->result.file != NULL ? queries[i].line : 0;
        free(queries[i].file);
    }
    free(asked);
    free(queries);
}

void gs_symbolizer_resolve(struct gs_symbolizer *symbolizer,
                           struct gs_symbol_request *requests, size_t count)
{
    struct item *items = count != 0 ? calloc(count, sizeof(*items)) : NULL;

    symbolizer->note = NULL;
    for (size_t i = 0; i < count; i++) {
        struct gs_symbol_request *request = &requests[i];

        memset(&request->result, 0, sizeof(request->result));
        if (items == NULL)
            continue;
        items[i].request = request;
        if (request->module != NULL && request->module->path != NULL)
            items[i].object = object_for(symbolizer, request->module);
        if (!gs_frame_is_python(request->frame) &&
            (items[i].object == NULL || items[i].object->path[0] == '\0'))
            note_unnamed(symbolizer);
    }
    if (items == NULL)
        return;
    qsort(items, count, sizeof(*items), compare_items);
    for (size_t i = 0; i < count && items[i].object != NULL; i++) {
        if (i > 0 && same_place(&items[i - 1], &items[i]))
            items[i].request->result = items[i - 1].request->result;
        else
            resolve_names(symbolizer, items[i].request, items[i].object);
    }
    if (symbolizer->lines)
        resolve_lines(symbolizer, items, count);
    for (size_t i = 1; i < count; i++) {
        if (same_place(&items[i - 1], &items[i]))
            items[i].request->result = items[i - 1].request->result;
    }
    free(items);
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
    return gs_elf_symbols_find(object->symbols, (uint64_t)(frame - 1 - module->bias));
}
