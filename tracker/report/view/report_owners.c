/*
 * report_owners.c - live memory by owner: the module, or the file of Python, of the
 * program's own frame (gs_frame_own); the name of a framework without one.
 * Owns: a struct gs_owners.   Lock: none.
 */
#include "gs_compare.h"
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

/* The class of the frame of which the owner is searched. A frame without a file may be
 * the program's. */
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

/* The owner's path; NULL: unknown. It lives as long as the stack table. Not inline: its
 * frames and the callers' files would be one large frame. */
__attribute__((noinline)) static const char *
owner_of(const struct gs_stacks *stacks, const struct gs_report_source *source,
         uint32_t stack, struct files *files)
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
    struct gs_frame_class class = {.kind = GS_FRAME_RUNTIME};
    if (own < count) {
        class = own_class(&search, own);
    }
    if (class.kind == GS_FRAME_RUNTIME) {
        return NULL;
    }
    /* A thread of the framework: which of its libraries allocates tells nothing. */
    return class.kind == GS_FRAME_FRAMEWORK && !class.python
               ? gs_frame_family_name(class.family)
               : path_at(&search, own);
}

const char *gs_report_owner(const struct gs_stacks *stacks,
                            const struct gs_report_source *source, uint32_t stack)
{
    struct files files = {0};

    return owner_of(stacks, source, stack, &files);
}

static int compare_keys(const void *left, const void *right)
{
    const struct gs_owner *a = left, *b = right;

    return GS_RISING(a->row, b->row) ?: GS_RISING(a->kind, b->kind) ?:
        gs_path_compare(a->path, b->path);
}

static int compare_owners(const void *left, const void *right)
{
    const struct gs_owner *a = left, *b = right;

    int order = GS_RISING(a->row, b->row) ?: GS_FALLING(a->bytes, b->bytes);
    if (order != 0) {
        return order;
    }
    if (!a->path || !b->path) {
        return a->path ? -1 : b->path != NULL;
    }
    return gs_path_compare(a->path, b->path);
}

/* Adds to the last owner, if it is the same one. */
static bool joins_last(const struct gs_owners *owners, const struct gs_owner *owner)
{
    struct gs_owner *last = owners->count ? &owners->items[owners->count - 1] : NULL;

    if (!last || compare_keys(last, owner) != 0) {
        return false;
    }
    last->bytes += owner->bytes;
    last->count += owner->count;
    return true;
}

/* False: no memory. */
static bool add_owner(struct gs_owners *owners, const struct gs_owner *owner)
{
    if (joins_last(owners, owner)) {
        return true;
    }
    if (owners->count == owners->capacity) {
        size_t capacity = owners->capacity ? owners->capacity * 2 : 32;
        struct gs_owner *items = realloc(owners->items, capacity * sizeof(*items));
        if (!items) {
            return false;
        }
        owners->items = items;
        owners->capacity = capacity;
    }
    owners->items[owners->count++] = *owner;
    return true;
}

/* Joins the parts of each owner: a look-up of each part would compare it with all owners
 * of a program of many files. */
static void join_parts(struct gs_owners *owners)
{
    size_t count = owners->count;

    if (count == 0) {
        return;
    }
    qsort(owners->items, count, sizeof(*owners->items), compare_keys);
    owners->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!joins_last(owners, &owners->items[i])) {
            owners->items[owners->count++] = owners->items[i];
        }
    }
    qsort(owners->items, owners->count, sizeof(*owners->items), compare_owners);
}

/* Memory of an allocator's cache is the framework's: beside a leak of the line that made
 * the allocator take it, the sum would be more than leaked. */
static const char *owner_of_group(const struct gs_stacks *stacks,
                                  const struct gs_report_source *source,
                                  const struct gs_group *group, struct files *files)
{
    const char *cached_by = gs_report_cached_by(group);

    return cached_by ? cached_by : owner_of(stacks, source, group->stack, files);
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
        const struct gs_owner part = {.row = gs_totals_row(group->device, group->kind),
                                      .kind = by_kind ? group->kind : 0,
                                      .path =
                                          owner_of_group(stacks, source, group, &files),
                                      .bytes = gs_likely(group->likely_bytes),
                                      .count = gs_group_likely_count(group)};
        if (!add_owner(owners, &part)) {
            return false;
        }
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
    join_parts(owners);
}

void gs_owners_free(struct gs_owners *owners)
{
    free(owners->items);
    memset(owners, 0, sizeof(*owners));
}
