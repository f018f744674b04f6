/*
 * suppress_files.c - see suppress_files.h.
 * Owns: nothing.   Lock: none.   Design: docs/suppressions.md
 */
#include "tracker/report/rules/suppress_files.h"

#include <stdlib.h>
#include <string.h>

static int compare_placed(const void *left, const void *right)
{
    const struct gs_rule_function *a = left, *b = right;
    int order = strcmp(a->function, b->function);

    return order ? order : gs_path_compare(a->file, b->file);
}

static void sort_functions(struct gs_rule_functions *functions)
{
    size_t kept = 0;

    if (functions->count == 0) {
        return;
    }
    qsort(functions->items, functions->count, sizeof(*functions->items), compare_placed);
    for (size_t i = 0; i < functions->count; i++) {
        if (kept == 0 ||
            compare_placed(&functions->items[kept - 1], &functions->items[i]) != 0) {
            functions->items[kept++] = functions->items[i];
        }
    }
    functions->count = kept;
}

/* Adds a function with its file. Without memory some are missing: their rules then lack
 * the file. */
static void add_function(struct gs_rule_functions *functions,
                         const struct gs_symbol *symbol)
{
    if (!symbol->function || !symbol->file || !symbol->file[0]) {
        return;
    }
    gs_shown_paths_add(&functions->paths, symbol->file);
    if (functions->count == functions->capacity) {
        sort_functions(functions);
        if (functions->count >= functions->capacity / 2) {
            size_t capacity = functions->capacity ? functions->capacity * 2 : 256;
            struct gs_rule_function *items =
                realloc(functions->items, capacity * sizeof(*items));
            if (!items) {
                return;
            }
            functions->items = items;
            functions->capacity = capacity;
        }
    }
    functions->items[functions->count++] =
        (struct gs_rule_function){symbol->function, symbol->file};
}

void gs_rule_functions_find(const struct gs_report_writer *writer,
                            struct gs_rule_functions *out)
{
    const struct gs_groups *groups = &writer->data->groups;

    *out = (struct gs_rule_functions){.items = NULL};
    for (size_t i = 0; i < groups->count; i++) {
        struct gs_shown_stack stack =
            gs_frame_table_show(writer->frames, writer->config, groups->items[i].stack);
        for (unsigned k = 0; k < stack.count; k++) {
            add_function(out, &stack.frames[k].result);
        }
    }
    sort_functions(out);
}

/* Returns true if functions of this name are in several files. */
static bool is_in_several(const struct gs_rule_functions *functions, const char *name)
{
    size_t low = 0, high = functions->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(functions->items[middle].function, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low + 1 < functions->count &&
           strcmp(functions->items[low].function, name) == 0 &&
           strcmp(functions->items[low + 1].function, name) == 0;
}

void gs_rule_functions_pattern(struct gs_rule_functions *functions,
                               const struct gs_symbol *symbol,
                               char out[GS_RULE_PATTERN_BYTES])
{
    out[0] = '\0';
    if (!symbol->function || !symbol->file || !symbol->file[0] ||
        !is_in_several(functions, symbol->function)) {
        return;
    }
    const char *shown = gs_shown_path(&functions->paths, symbol->file);
    bool whole = shown == symbol->file || !strchr(shown, '/');
    size_t length = strlen(shown), most = GS_RULE_PATTERN_BYTES - 4;
    if (length > most) { /* its end tells more */
        shown += length - most;
        whole = false;
    }
    char *at = out;
    *at++ = whole ? '^' : length > most ? '*' : '/';
    for (; *shown; shown++) {
        *at++ = strchr("^$? ", *shown) || (unsigned char)*shown < ' ' ? '*' : *shown;
    }
    strcpy(at, "$");
}

void gs_rule_functions_free(struct gs_rule_functions *functions)
{
    free(functions->items);
    gs_shown_paths_free(&functions->paths);
}
