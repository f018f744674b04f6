/*
 * state_read_internal.h - a file that is read, shared by state_read.c and its parts.
 * Locks: none; one thread reads.
 */
#ifndef GS_STATE_READ_INTERNAL_H
#define GS_STATE_READ_INTERNAL_H

#include "stacks_internal.h"
#include "state_read.h"
#include "tracker_internal.h"

struct gs_image {
    const char *data;
    size_t bytes;
    uint64_t base;
    const struct gs_tracker *tracker;
    const struct gs_stacks *stacks; /* NULL: there are none */
    const struct gs_python *python; /* likewise */
    uint32_t *ids;                  /* of stacks that were read, by that in the file */
    uint32_t id_count;
    size_t api_count;
    struct gs_state_found *out;
};

/* What lay at the address, all of it; NULL: not in the file. */
const void *gs_image_at(const struct gs_image *image, uint64_t address, uint64_t bytes,
                        size_t alignment);

#define AT(image, pointer, count)                                                        \
    ((__typeof__(pointer))gs_image_at(image, (uintptr_t)(pointer),                       \
                                      (count) * sizeof *(pointer),                       \
                                      __alignof__(*(pointer))))

void gs_image_end_text(char *text, size_t size);
/* The number that a stack of the file has here; 0: none. */
uint32_t gs_image_stack(const struct gs_image *image, uint32_t id);
/* Something happened then. */
void gs_image_record_time(const struct gs_image *image, uint64_t time_ns);
/* Whether it can have been one of the tracker's; its stack is this process's then. */
bool gs_image_allocation(const struct gs_image *image, struct gs_allocation *allocation);

/* --- state_read_past.c ----------------------------------------------------------------
 */

/* What happened before, once the live records were read. */
void gs_image_past(const struct gs_image *image);

#endif
