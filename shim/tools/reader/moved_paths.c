/*
 * moved_paths.c - see moved_paths.h.
 * Owns: nothing beyond one call.   Lock: none.
 */
#include "shim/tools/reader/moved_paths.h"

#include <stdlib.h>
#include <string.h>

/* Paths in the order of gs_path_compare, each once. */
struct list {
    const char **items;
    size_t count;
};

struct search {
    struct list all[2];    /* of each report */
    struct list alone[2];  /* that the other report does not have */
    struct list both;      /* of both reports, by strcmp */
    const char **partners; /* by number in alone[1]: the path in the first report */
};

static int compare_paths(const void *left, const void *right)
{
    return gs_path_compare(*(const char *const *)left, *(const char *const *)right);
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void add(struct list *list, const char *path)
{
    if (path && path[0]) {
        list->items[list->count++] = path;
    }
}

static bool make_list(struct list *list, size_t most)
{
    list->items = malloc((most + 1) * sizeof(*list->items));
    return list->items != NULL;
}

static bool list_all(const struct gs_report_file *file, struct list *out)
{
    size_t kept = 0;
    if (!make_list(out, file->frame_count + file->module_count)) {
        return false;
    }
    for (size_t i = 0; i < file->frame_count; i++) {
        add(out, file->frames[i].file);
    }
    for (size_t i = 0; i < file->module_count; i++) {
        add(out, file->modules[i].path);
    }
    qsort(out->items, out->count, sizeof(*out->items), compare_paths);
    for (size_t i = 0; i < out->count; i++) {
        if (kept == 0 || gs_path_compare(out->items[kept - 1], out->items[i]) != 0) {
            out->items[kept++] = out->items[i];
        }
    }
    out->count = kept;
    return true;
}

/* Divides the paths into those of both reports and those of one. */
static bool divide(struct search *search)
{
    const struct list *a = &search->all[0], *b = &search->all[1];
    size_t i = 0, j = 0;
    if (!make_list(&search->alone[0], a->count) ||
        !make_list(&search->alone[1], b->count) || !make_list(&search->both, a->count)) {
        return false;
    }
    while (i < a->count || j < b->count) {
        int order = i == a->count   ? 1
                    : j == b->count ? -1
                                    : gs_path_compare(a->items[i], b->items[j]);
        if (order == 0) {
            add(&search->both, a->items[i]);
        } else {
            add(&search->alone[order > 0], order < 0 ? a->items[i] : b->items[j]);
        }
        i += order <= 0;
        j += order >= 0;
    }
    qsort(search->both.items, search->both.count, sizeof(*search->both.items),
          compare_texts);
    return true;
}

static size_t common_with(const struct list *list, size_t i, const char *path)
{
    return i < list->count ? gs_path_common(list->items[i], path) : 0;
}

/* Returns the number of the path that shares the most components with `path`, which the
 * list does not have; SIZE_MAX: none does, or several. The candidates are neighbours. */
static size_t best_of(const struct list *list, const char *path, size_t *common)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (gs_path_compare(list->items[middle], path) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    size_t before = common_with(list, low - 1, path),
           after = common_with(list, low, path);
    size_t most = before > after ? before : after, found = before > after ? low - 1 : low;
    size_t next = before > after ? found - 1 : found + 1;
    *common = most;
    return most == 0 || before == after || common_with(list, next, path) == most
               ? SIZE_MAX
               : found;
}

/* Returns whether some file of both reports is in the folder in which both paths are. */
static bool has_neighbour(const struct list *both, const char *a, const char *b)
{
    size_t folder = 0, low = 0, high = both->count;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++) {
        folder = a[i] == '/' ? i + 1 : folder;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strncmp(both->items[middle], a, folder) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return folder > 1 && low < both->count && strncmp(both->items[low], a, folder) == 0;
}

static void pair(struct search *search, struct gs_moved_paths *out)
{
    const struct list *a = &search->alone[0], *b = &search->alone[1];
    for (size_t i = 0; i < b->count; i++) {
        size_t common, back;
        size_t found = best_of(a, b->items[i], &common);
        if (found == SIZE_MAX || best_of(b, a->items[found], &back) != i ||
            (common == 1 && has_neighbour(&search->both, a->items[found], b->items[i]))) {
            continue;
        }
        search->partners[i] = a->items[found];
        if (out->count++ == 0) {
            out->example[0] = a->items[found];
            out->example[1] = b->items[i];
        }
    }
}

/* The path in the first report of one of the second; NULL: the same, or none. */
static const char *path_there(const struct search *search, const char *path)
{
    const struct list *b = &search->alone[1];
    const char *const *found =
        path && b->count ? bsearch(&path, b->items, b->count, sizeof(path), compare_paths)
                         : NULL;
    return found ? search->partners[found - b->items] : NULL;
}

bool gs_moved_paths_find(struct gs_report_file files[2], struct gs_moved_paths *out)
{
    struct search search = {.partners = NULL};
    *out = (struct gs_moved_paths){.count = 0};
    bool done = list_all(&files[0], &search.all[0]) &&
                list_all(&files[1], &search.all[1]) && divide(&search);
    search.partners =
        done ? calloc(search.alone[1].count + 1, sizeof(*search.partners)) : NULL;
    done = search.partners != NULL;
    if (done) {
        pair(&search, out);
    }
    for (size_t i = 0; out->count > 0 && i < files[1].frame_count; i++) {
        files[1].frames[i].file_there = path_there(&search, files[1].frames[i].file);
    }
    for (size_t i = 0; out->count > 0 && i < files[1].module_count; i++) {
        files[1].modules[i].path_there = path_there(&search, files[1].modules[i].path);
    }
    for (unsigned side = 0; side < 2; side++) {
        free(search.all[side].items);
        free(search.alone[side].items);
    }
    free(search.both.items);
    free(search.partners);
    return done;
}
