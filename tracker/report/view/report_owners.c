/*
 * report_owners.c - live memory by owner: the module, or the file of Python, of the first
 * frame outside the CUDA runtime, the driver, this library and bindings of Python.
 * Owns: a struct gs_owners.   Lock: none.
 */
#include "report_internal.h"
#include "frame_kinds.h"

#include <stdlib.h>

/* The kind of the file that was looked at last: most frames are in a few files. */
struct last_file {
    const char *path;
    enum gs_frame_kind kind;
};

static enum gs_frame_kind kind_of(struct last_file *last, const char *path)
{
    if (last->path != path)
        *last = (struct last_file){path, gs_frame_kind_of_file(path)};
    return last->kind;
}

/* The path of a frame's module, or of its file of Python; NULL: unknown. It lives as long
 * as the stack table. */
static const char *path_of(const struct gs_stacks *stacks,
                           const struct gs_report_source *source, uint32_t stack,
                           uintptr_t frame)
{
    struct gs_python_location place;
    struct gs_module module;

    if (gs_frame_is_python(frame))
        return gs_stacks_python(stacks, frame, &place) == GS_OK && place.file[0]
                   ? place.file
                   : NULL;
    if (source->module(source->self, stack, frame, &module) != GS_OK)
        return NULL;
    return module.path ? module.path : "";
}

/* NULL: unknown. The name lives as long as the stack table. */
static const char *owner_of(const struct gs_stacks *stacks,
                            const struct gs_report_source *source, uint32_t stack,
                            struct last_file *last)
{
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    unsigned count = gs_report_stack_frames(stacks, stack, frames);
    const char *binding = NULL; /* the owner, if there is nothing else */

    for (unsigned i = 0; i < count; i++) {
        const char *path = path_of(stacks, source, stack, frames[i]);
        if (!path)
            break; /* the frame may be the owner's: do not guess further out */
        const char *name = gs_module_base_name(path);
        if (name[0] == '\0' || gs_module_is_runtime(name))
            continue;
        enum gs_frame_kind kind = kind_of(last, path);
        if (kind == GS_FRAME_START && binding)
            break;
        if (kind != GS_FRAME_BINDING)
            return name;
        if (!binding)
            binding = name;
    }
    return binding;
}

const char *gs_report_owner(const struct gs_stacks *stacks,
                            const struct gs_report_source *source, uint32_t stack)
{
    struct last_file last = {0};

    return owner_of(stacks, source, stack, &last);
}

static bool same_owner(const struct gs_owner *a, const struct gs_owner *b)
{
    if (a->row != b->row || a->kind != b->kind || !a->name != !b->name)
        return false;
    return !a->name || a->name == b->name || strcmp(a->name, b->name) == 0;
}

/* The owner of this row, kind and name. NULL: no memory. */
static struct gs_owner *find_owner(struct gs_owners *owners, const struct gs_owner *key)
{
    for (size_t i = 0; i < owners->count; i++) {
        if (same_owner(&owners->items[i], key))
            return &owners->items[i];
    }
    if (owners->count == owners->capacity) {
        size_t capacity = owners->capacity ? owners->capacity * 2 : 32;
        struct gs_owner *items = realloc(owners->items, capacity * sizeof *items);
        if (!items)
            return NULL;
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

    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    if (!a->name || !b->name)
        return a->name ? -1 : b->name != NULL;
    return strcmp(a->name, b->name);
}

/* False: no memory. */
static bool add_groups(struct gs_owners *owners, const struct gs_stacks *stacks,
                       const struct gs_report_source *source,
                       const struct gs_groups *groups, bool by_kind)
{
    struct last_file last = {0};

    for (size_t i = 0; i < groups->count; i++) {
        const struct gs_group *group = &groups->items[i];
        if (group->lost || group->stack == GS_STACK_NOT_SAMPLED)
            continue;
        const struct gs_owner key = {.row = gs_totals_row(group->device, group->kind),
                                     .kind = by_kind ? group->kind : 0,
                                     .name =
                                         owner_of(stacks, source, group->stack, &last)};
        struct gs_owner *owner = find_owner(owners, &key);
        if (!owner)
            return false;
        owner->bytes += gs_likely(group->likely_bytes);
        owner->count += gs_group_likely_count(group);
    }
    return true;
}

void gs_owners_gather(struct gs_owners *owners, const struct gs_stacks *stacks,
                      const struct gs_report_source *source,
                      const struct gs_report_data *data, bool by_kind)
{
    memset(owners, 0, sizeof *owners);
    if (!add_groups(owners, stacks, source, &data->groups, by_kind) ||
        !add_groups(owners, stacks, source, &data->registered, by_kind) ||
        !add_groups(owners, stacks, source, &data->unplaced, by_kind)) {
        gs_owners_free(owners); /* an incomplete table would mislead */
        return;
    }
    if (owners->count > 0)
        qsort(owners->items, owners->count, sizeof *owners->items, compare_owners);
}

void gs_owners_free(struct gs_owners *owners)
{
    free(owners->items);
    memset(owners, 0, sizeof *owners);
}
