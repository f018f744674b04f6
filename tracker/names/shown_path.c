/*
 * shown_path.c - see shown_path.h.
 *
 * In the order of the components, the last one first, the two neighbours of a path share
 * the longest end with it. So one look-up tells how much of a path is needed.
 */
#include "tracker/names/shown_path.h"

#include <stdlib.h>
#include <string.h>

#include "tracker/names/runtime_modules.h"

/* ---- components, from the last one to the first ------------------------------------ */

struct gs_path_walk gs_path_walk(const char *path)
{
    return (struct gs_path_walk){.path = path, .at = path + strlen(path)};
}

bool gs_path_next(struct gs_path_walk *walk, struct gs_path_part *out)
{
    for (;;) {
        while (walk->at > walk->path && walk->at[-1] == '/') {
            walk->at--;
        }
        if (walk->at == walk->path) {
            break;
        }
        const char *end = walk->at;
        while (walk->at > walk->path && walk->at[-1] != '/') {
            walk->at--;
        }
        *out = (struct gs_path_part){walk->at, (size_t)(end - walk->at), false};
        if (out->length == 1 && out->text[0] == '.') {
            continue;
        }
        if (out->length == 2 && memcmp(out->text, "..", 2) == 0) {
            walk->taken_back++;
        } else if (walk->taken_back == 0) {
            return true;
        } else {
            walk->taken_back--;
        }
    }
    /* "../a.c" is no "a.c", but "/../a.c" is "/a.c". */
    if (walk->taken_back == 0 || walk->path[0] == '/') {
        return false;
    }
    walk->taken_back--;
    *out = (struct gs_path_part){"..", 2, true};
    return true;
}

static int compare_components(const struct gs_path_part *a, const struct gs_path_part *b)
{
    size_t length = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->text, b->text, length);

    return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* Compares two paths, and counts their common components. */
static int compare(const char *a, const char *b, size_t *common)
{
    struct gs_path_walk left = gs_path_walk(a), right = gs_path_walk(b);
    struct gs_path_part x, y;

    for (*common = 0;; ++*common) {
        bool more_left = gs_path_next(&left, &x), more_right = gs_path_next(&right, &y);
        if (!more_left || !more_right) {
            return more_left != more_right ? (more_left ? 1 : -1)
                                           : (a[0] == '/') - (b[0] == '/');
        }
        int order = compare_components(&x, &y);
        if (order != 0) {
            return order;
        }
    }
}

int gs_path_compare(const char *a, const char *b)
{
    size_t common;

    if (a == b) {
        return 0;
    }
    if (!a || !b) {
        return a ? 1 : -1;
    }
    return strcmp(a, b) == 0 ? 0 : compare(a, b, &common);
}

size_t gs_path_common(const char *a, const char *b)
{
    size_t common;

    (void)compare(a, b, &common);
    return common;
}

/* ---- the table --------------------------------------------------------------------- */

static int compare_items(const void *left, const void *right)
{
    return gs_path_compare(*(const char *const *)left, *(const char *const *)right);
}

static void sort(struct gs_shown_paths *paths)
{
    size_t kept = 0;

    if (paths->sorted || paths->count == 0) {
        return;
    }
    qsort(paths->items, paths->count, sizeof(*paths->items), compare_items);
    for (size_t i = 0; i < paths->count; i++) {
        if (kept == 0 || gs_path_compare(paths->items[kept - 1], paths->items[i]) != 0) {
            paths->items[kept++] = paths->items[i];
        }
    }
    paths->count = kept;
    paths->sorted = true;
}

/* False: no memory, so that paths are shown in full. */
static bool make_room(struct gs_shown_paths *paths)
{
    if (paths->count < paths->capacity) {
        return true;
    }
    sort(paths); /* most are there already */
    if (paths->count >= paths->capacity / 2) {
        size_t capacity = paths->capacity ? paths->capacity * 2 : 64;
        const char **items = realloc(paths->items, capacity * sizeof(*items));
        paths->whole = !items;
        if (!items) {
            return false;
        }
        paths->items = items;
        paths->capacity = capacity;
    }
    return true;
}

void gs_shown_paths_add(struct gs_shown_paths *paths, const char *path)
{
    if (paths->whole || !path || !path[0] ||
        (paths->count > 0 && paths->items[paths->count - 1] == path) ||
        !make_room(paths)) {
        return;
    }
    paths->items[paths->count++] = path;
    paths->sorted = false;
}

void gs_shown_paths_add_copy(struct gs_shown_paths *paths, const char *path)
{
    if (paths->whole || !path[0] || !make_room(paths)) {
        return;
    }
    char *copy = strdup(path);
    paths->whole = !copy;
    if (!copy) {
        return;
    }
    paths->items[paths->count++] = copy;
    paths->sorted = false;
}

void gs_shown_paths_free_copies(struct gs_shown_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++) {
        free((char *)paths->items[i]);
    }
    gs_shown_paths_free(paths);
}

/* Returns the index of the path in the sorted table, or where it belongs. */
static size_t index_of(const struct gs_shown_paths *paths, const char *path, bool *found)
{
    size_t low = 0, high = paths->count;

    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = gs_path_compare(paths->items[middle], path);
        *found = *found || order == 0;
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool gs_shown_paths_have(struct gs_shown_paths *paths, const char *path)
{
    bool found;

    sort(paths);
    (void)index_of(paths, path, &found);
    return found;
}

/* Returns how many components the path shares with another file of the table. */
static size_t shared_components(struct gs_shown_paths *paths, const char *path)
{
    bool found;
    size_t most = 0;

    sort(paths);
    size_t at = index_of(paths, path, &found), next_at = at + found;
    if (at > 0) {
        most = gs_path_common(paths->items[at - 1], path);
    }
    if (next_at < paths->count) {
        size_t common = gs_path_common(paths->items[next_at], path);
        most = common > most ? common : most;
    }
    return most;
}

const char *gs_shown_path(struct gs_shown_paths *paths, const char *path)
{
    if (!paths || !path) {
        return gs_module_base_name(path);
    }
    if (paths->whole) {
        return path;
    }
    struct gs_path_walk walk = gs_path_walk(path);
    struct gs_path_part part = {.text = path};
    for (size_t i = shared_components(paths, path) + 1; i > 0; i--) {
        /* A path that ends too soon, or goes up, needs all that it has. */
        if (!gs_path_next(&walk, &part) || part.made) {
            return path;
        }
    }
    return part.text;
}

void gs_shown_paths_free(struct gs_shown_paths *paths)
{
    free(paths->items);
    *paths = (struct gs_shown_paths){.whole = paths->whole};
}
