/*
 * report_owners.c - live memory by owner: the module, or the file of Python, of the
 * program's own frame (gs_frame_own).
 * Owns: a struct gs_owners.   Lock: none.
 */
#include "tracker/names/frame_kinds.h"
#include "tracker/report/report_internal.h"

#include <stdlib.h>

/* The classes of files by the addresses of their paths, which live as long as the stack
 * table. */
#define FILES_KEPT 64u
struct files {
    const char *paths[FILES_KEPT];
    struct gs_frame_class classes[FILES_KEPT];
};

static struct gs_frame_class class_of(struct files *files, const char *path, bool python)
{
    size_t slot = ((uintptr_t)path * UINT64_C(0x9e3779b97f4a7c15) >> 40) % FILES_KEPT;

    if (files->paths[slot] != path) {
        files->paths[slot] = path;
        files->classes[slot] = gs_frame_class_of_file(path);
        if (gs_module_is_runtime(gs_module_base_name(path))) {
            files->classes[slot].kind = GS_FRAME_RUNTIME;
        }
        files->classes[slot].python = python;
        files->classes[slot].generated = python && path[0] == '<';
    }
    return files->classes[slot];
}

/* The path of a frame's module, or of its file of Python; NULL: unknown. It lives as long
 * as the stack table. */
static const char *path_of(const struct gs_stacks *stacks,
                           const struct gs_report_source *source, uint32_t stack,
                           uintptr_t frame)
{
    struct gs_python_location place;
    struct gs_module module;

    if (gs_frame_is_python(frame)) {
        return gs_stacks_python(stacks, frame, &place) == GS_OK && place.file[0]
                   ? place.file
                   : NULL;
    }
    if (source->module(source->self, stack, frame, &module) != GS_OK) {
        return NULL;
    }
    return module.path ? module.path : "";
}

/* A stack whose owner is looked for. */
struct owner_search {
    const struct gs_stacks *stacks;
    const struct gs_report_source *source;
    struct files *files;
    uint32_t stack;
    unsigned at; /* the frame that was looked up last, + 1, and its path */
    const char *path;
    uintptr_t frames[GS_STACK_MAX_DEPTH];
};

static const char *path_at(struct owner_search *search, unsigned i)
{
    if (search->at != i + 1) {
        search->path =
            path_of(search->stacks, search->source, search->stack, search->frames[i]);
        search->at = i + 1;
    }
    return search->path;
}

/* A frame without a file may be the program's. */
static struct gs_frame_class own_class(void *self, unsigned i)
{
    struct owner_search *search = self;
    const char *path = path_at(search, i);

    if (!path) {
        return (struct gs_frame_class){.kind = GS_FRAME_PROGRAM};
    }
    if (gs_module_base_name(path)[0] == '\0') {
        return (struct gs_frame_class){.kind = GS_FRAME_RUNTIME};
    }
    return class_of(search->files, path, gs_frame_is_python(search->frames[i]));
}

/* NULL: unknown. The name lives as long as the stack table. */
static const char *owner_of(const struct gs_stacks *stacks,
                            const struct gs_report_source *source, uint32_t stack,
                            struct files *files)
{
    struct owner_search search;
    unsigned count = gs_report_stack_frames(stacks, stack, search.frames);

    search.stacks = stacks;
    search.source = source;
    search.files = files;
    search.stack = stack;
    search.at = 0;
    unsigned own = gs_frame_own(own_class, &search, count);
    if (own < count && !path_at(&search, own)) { /* do not guess further out */
        count = own;
        own = gs_frame_own(own_class, &search, count);
    }
    if (own >= count || own_class(&search, own).kind == GS_FRAME_RUNTIME) {
        return NULL;
    }
    return gs_module_base_name(path_at(&search, own));
}

const char *gs_report_owner(const struct gs_stacks *stacks,
                            const struct gs_report_source *source, uint32_t stack)
{
    struct files files = {0};

    return owner_of(stacks, source, stack, &files);
}

static bool same_owner(const struct gs_owner *a, const struct gs_owner *b)
{
    if (a->row != b->row || a->kind != b->kind || !a->name != !b->name) {
        return false;
    }
    return !a->name || a->name == b->name || strcmp(a->name, b->name) == 0;
}

/* The owner of this row, kind and name. NULL: no memory. */
static struct gs_owner *find_owner(struct gs_owners *owners, const struct gs_owner *key)
{
    for (size_t i = 0; i < owners->count; i++) {
        if (same_owner(&owners->items[i], key)) {
            return &owners->items[i];
        }
    }
    if (owners->count == owners->capacity) {
        size_t capacity = owners->capacity ? owners->capacity * 2 : 32;
        struct gs_owner *items = realloc(owners->items, capacity * sizeof(*items));
        if (!items) {
            return NULL;
        }
        owners->items = items;
        owners->capacity = capacity;
    }
    struct gs_owner *owner = &owners->items[owners->count++];
    *owner = *key;
    return owner;
}

static int compare_owners(const void *left, const void *right)
{
    const struct gs_owner *a = left, *b = right;

    if (a->row != b->row) {
        return a->row < b->row ? -1 : 1;
    }
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? 1 : -1;
    }
    if (!a->name || !b->name) {
        return a->name ? -1 : b->name != NULL;
    }
    return strcmp(a->name, b->name);
}

/* False: no memory. */
static bool add_groups(struct gs_owners *owners, const struct gs_stacks *stacks,
                       const struct gs_report_source *source,
                       const struct gs_groups *groups, bool by_kind)
{
    struct files files = {0};

    for (size_t i = 0; i < groups->count; i++) {
        const struct gs_group *group = &groups->items[i];
        if (group->lost || group->stack == GS_STACK_NOT_SAMPLED) {
            continue;
        }
        const struct gs_owner key = {.row = gs_totals_row(group->device, group->kind),
                                     .kind = by_kind ? group->kind : 0,
                                     .name =
                                         owner_of(stacks, source, group->stack, &files)};
        struct gs_owner *owner = find_owner(owners, &key);
        if (!owner) {
            return false;
        }
        owner->bytes += gs_likely(group->likely_bytes);
        owner->count += gs_group_likely_count(group);
    }
    return true;
}

void gs_owners_gather(struct gs_owners *owners, const struct gs_stacks *stacks,
                      const struct gs_report_source *source,
                      const struct gs_report_data *data, bool by_kind)
{
    memset(owners, 0, sizeof(*owners));
    if (!add_groups(owners, stacks, source, &data->groups, by_kind) ||
        !add_groups(owners, stacks, source, &data->registered, by_kind) ||
        !add_groups(owners, stacks, source, &data->unplaced, by_kind)) {
        gs_owners_free(owners); /* an incomplete table would mislead */
        return;
    }
    if (owners->count > 0) {
        qsort(owners->items, owners->count, sizeof(*owners->items), compare_owners);
    }
}

void gs_owners_free(struct gs_owners *owners)
{
    free(owners->items);
    memset(owners, 0, sizeof(*owners));
}
