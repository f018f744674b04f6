/*
 * cached_parts.h - what a framework's caching allocator has handed out of the memory that
 * it keeps: tensors, by address. So a report tells memory that is cached from memory in
 * use.
 *
 * Locks: any thread may call any function; locking is internal.
 */
#ifndef GS_CACHED_PARTS_H
#define GS_CACHED_PARTS_H

#include "gs_base.h"

struct gs_cached_parts;

/* NULL: no memory. */
struct gs_cached_parts *gs_cached_parts_create(void);
void gs_cached_parts_destroy(struct gs_cached_parts *parts); /* NULL is allowed */

/* A part that is handed out. */
struct gs_part {
    uint64_t addr, bytes; /* addr 0: none */
    uint64_t time_ns;     /* since the tracker's start */
    uint32_t stack;       /* of the call that it was handed to; 0: not known */
};

/* The allocator hands out a part. Without memory the parts are no longer known. */
void gs_cached_parts_add(struct gs_cached_parts *parts, const struct gs_part *part);
/* The allocator has it back. */
void gs_cached_parts_remove(struct gs_cached_parts *parts, uint64_t addr);

/* The parts at one time, by address. */
struct gs_part_list {
    struct gs_part *items;
    size_t count;
    bool known; /* false: no allocator reports them, or memory was short */
};
/* `parts` may be NULL: nothing is known. gs_part_list_free must follow. */
struct gs_part_list gs_cached_parts_copy(struct gs_cached_parts *parts);
void gs_part_list_free(struct gs_part_list *list);
/* The number of parts that begin within the memory; *first is that of the first one. */
size_t gs_part_list_within(const struct gs_part_list *list, uint64_t addr, uint64_t bytes,
                           size_t *first);

#endif
