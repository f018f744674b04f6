/*
 * groups.h - part of gpushim_memory.h: groups of buffers, freed together.
 */
#ifndef GPUSHIM_MEMORY_GROUPS_H
#define GPUSHIM_MEMORY_GROUPS_H

#ifndef GPUSHIM_MEMORY_H
#error "include gpushim_memory.h"
#endif

/*
 * Buffers of one piece of work, allocated one by one and freed together. Begin with
 * gpushim_group_create; do not move the struct. Any thread may allocate and preallocate
 * while no other ends or clears the group. gpushim_group_get reads the counters.
 */
struct gpushim_group {
    char name[128];
    gpushim_place place;
    size_t current_bytes, peak_bytes; /* held, with what is preallocated */
    uint64_t count, typed_count;      /* allocations so far; those with a type */
    uint64_t reused_count;            /* that preallocated memory served */
    size_t live_count;                /* handed out, and not freed */
    /* Internal. */
    struct gpushim_buffer *members; /* first those that are preallocated */
    size_t ready_count, member_count, capacity;
    unsigned char lock, begun;
};

/*
 * Begins a group.
 * In:     name      of a scope of its allocations in reports (gpushim_scope_begin); NULL:
 *                   none
 *         expected  allocations for which no host memory is needed later; 0: not known
 * Errors: INVALID (a name "", or beyond 127 bytes, too), NO_MEMORY (host)
 */
static inline gpushim_result gpushim_group_create(struct gpushim_group *out,
                                                  const char *name, gpushim_place place,
                                                  size_t expected)
{
    struct gpushim_buffer *members = NULL;

    if (!out || !gpushim_is_place_(place, 0, 0) ||
        (name && (!name[0] || strlen(name) >= sizeof(out->name))) ||
        expected > SIZE_MAX / sizeof(*members)) {
        return GPUSHIM_INVALID;
    }
    if (expected) {
        members = (struct gpushim_buffer *)malloc(expected * sizeof(*members));
        if (!members) {
            return GPUSHIM_NO_MEMORY;
        }
    }
    memset(out, 0, sizeof(*out));
    if (name) {
        memcpy(out->name, name, strlen(name) + 1);
    }
    out->place = place;
    out->members = members;
    out->capacity = expected;
    out->begun = 1;
    return GPUSHIM_OK;
}

/* Adds a member; 0: no memory. The lock is held. */
static inline int gpushim_group_add_(struct gpushim_group *group,
                                     const struct gpushim_buffer *made, int handed_out)
{
    size_t capacity = group->capacity ? 2 * group->capacity : 16;
    struct gpushim_buffer *members = group->members;

    if (group->member_count == group->capacity) {
        members = (struct gpushim_buffer *)realloc(members, capacity * sizeof(*members));
        if (!members) {
            return 0;
        }
        group->members = members;
        group->capacity = capacity;
    }
    members[group->member_count++] = *made;
    if (!handed_out) {
        members[group->member_count - 1] = members[group->ready_count];
        members[group->ready_count++] = *made;
    }
    group->current_bytes += made->bytes;
    if (group->current_bytes > group->peak_bytes) {
        group->peak_bytes = group->current_bytes;
    }
    return 1;
}

/* Allocates a member, within the group's scope. */
static inline gpushim_result gpushim_group_grow_(struct gpushim_group *group,
                                                 size_t bytes, unsigned flags,
                                                 int handed_out,
                                                 struct gpushim_buffer *made)
{
    gpushim_result begun =
        group->name[0] ? gpushim_scope_begin(group->name) : GPUSHIM_INACTIVE;
    gpushim_result result = gpushim_buffer_create(made, group->place, bytes, 0, flags);
    int added;

    if (begun == GPUSHIM_OK || begun == GPUSHIM_INVALID) {
        (void)gpushim_scope_end();
    }
    if (result != GPUSHIM_OK) {
        return result;
    }
    gpushim_lock_(&group->lock);
    added = gpushim_group_add_(group, made, handed_out);
    gpushim_unlock_(&group->lock);
    if (!added) {
        (void)gpushim_buffer_free(made);
        return GPUSHIM_NO_MEMORY;
    }
    return GPUSHIM_OK;
}

/* Allocates memory ahead: the next gpushim_group_alloc of as many bytes takes it. Errors:
 * as of gpushim_buffer_create. */
static inline gpushim_result gpushim_group_preallocate(struct gpushim_group *group,
                                                       size_t bytes)
{
    struct gpushim_buffer made;

    if (!group || !group->begun) {
        return GPUSHIM_INVALID;
    }
    return gpushim_group_grow_(group, bytes, 0, 0, &made);
}

/* Takes preallocated memory of the size; 0: there is none. */
static inline int gpushim_group_take_(struct gpushim_group *group, size_t bytes,
                                      struct gpushim_buffer *taken)
{
    size_t i = 0;
    int found;

    gpushim_lock_(&group->lock);
    while (i < group->ready_count && group->members[i].bytes != bytes) {
        i++;
    }
    found = i < group->ready_count;
    if (found) {
        *taken = group->members[i];
        group->members[i] = group->members[--group->ready_count];
        group->members[group->ready_count] = *taken;
    }
    gpushim_unlock_(&group->lock);
    return found;
}

static inline gpushim_result gpushim_group_alloc_(struct gpushim_group *group,
                                                  size_t bytes, unsigned flags, int typed,
                                                  struct gpushim_buffer *out)
{
    struct gpushim_buffer made;
    gpushim_result result = GPUSHIM_OK;
    int reused;

    if (!group || !group->begun || !out || !bytes ||
        !gpushim_is_place_(group->place, 0, flags)) {
        return GPUSHIM_INVALID;
    }
    reused = gpushim_group_take_(group, bytes, &made);
    if (!reused) {
        result = gpushim_group_grow_(group, bytes, flags, 1, &made);
    } else if (flags & GPUSHIM_ZEROED) {
        result = gpushim_buffer_zero(&made, GPUSHIM_SYNC);
    }
    if (result != GPUSHIM_OK) {
        return result; /* the group keeps what was preallocated, until its end */
    }
    gpushim_lock_(&group->lock);
    group->count++;
    group->live_count++;
    group->typed_count += typed != 0;
    group->reused_count += reused != 0;
    gpushim_unlock_(&group->lock);
    return gpushim_buffer_view(out, &made, 0, bytes);
}

/*
 * Allocates a buffer of the group.
 * In:     flags  0 or GPUSHIM_ZEROED
 * Out:    *out   a view: the group owns the memory
 * Errors: as of gpushim_buffer_create
 */
static inline gpushim_result gpushim_group_alloc(struct gpushim_group *group,
                                                 size_t bytes, unsigned flags,
                                                 struct gpushim_buffer *out)
{
    return gpushim_group_alloc_(group, bytes, flags, 0, out);
}

/* The same for `count` elements, such as gpushim_group_alloc_typed(&group, nodes,
 * sizeof(float), 0, &ranks). Errors: INVALID also of more bytes than a size_t holds. */
static inline gpushim_result gpushim_group_alloc_typed(struct gpushim_group *group,
                                                       size_t count, size_t element_bytes,
                                                       unsigned flags,
                                                       struct gpushim_buffer *out)
{
    if (!element_bytes || count > SIZE_MAX / element_bytes) {
        return GPUSHIM_INVALID;
    }
    return gpushim_group_alloc_(group, count * element_bytes, flags, 1, out);
}

/* A copy of the counters and of the name. All 0 after an error, but of a copy onto
 * itself. Errors: INVALID. */
static inline gpushim_result gpushim_group_get(struct gpushim_group *group,
                                               struct gpushim_group *out)
{
    if (!out || out == group) {
        return GPUSHIM_INVALID;
    }
    memset(out, 0, sizeof(*out));
    if (!group || !group->begun) {
        return GPUSHIM_INVALID;
    }
    gpushim_lock_(&group->lock);
    memcpy(out, group, sizeof(*out));
    gpushim_unlock_(&group->lock);
    out->members = NULL;
    out->ready_count = out->member_count = out->capacity = 0;
    out->begun = out->lock = 0;
    return GPUSHIM_OK;
}

/*
 * Frees all memory of a group, what is preallocated too; the group goes on, with its
 * counters and its peak. Its views end. Waits for running work as cudaFree does.
 * Errors: INVALID; CUDA  what could not be freed stays in the group
 */
static inline gpushim_result gpushim_group_clear(struct gpushim_group *group)
{
    gpushim_result result = GPUSHIM_OK, freed;
    size_t i, ready_left = 0, left = 0, bytes;

    if (!group || !group->begun) {
        return GPUSHIM_INVALID;
    }
    for (i = 0; i < group->member_count; i++) {
        bytes = group->members[i].bytes;
        freed = gpushim_buffer_free(&group->members[i]);
        if (freed != GPUSHIM_OK) {
            result = freed;
            ready_left += i < group->ready_count;
            group->members[left++] = group->members[i];
            continue;
        }
        group->current_bytes -= bytes;
        group->live_count -= i >= group->ready_count;
    }
    group->ready_count = ready_left;
    group->member_count = left;
    return result;
}

/* Frees a group and its memory. No effect on a freed one and NULL: OK. Errors: CUDA; the
 * group goes on, with what could not be freed. */
static inline gpushim_result gpushim_group_free(struct gpushim_group *group)
{
    gpushim_result result;

    if (!group || !group->begun) {
        return GPUSHIM_OK;
    }
    result = gpushim_group_clear(group);
    if (result == GPUSHIM_OK) {
        free(group->members);
        memset(group, 0, sizeof(*group));
    }
    return result;
}

#endif
