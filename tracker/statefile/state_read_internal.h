/*
 * state_read_internal.h - a file being read, for state_read.c and its parts.
 * Locks: none; one thread reads.
 */
#ifndef GS_STATE_READ_INTERNAL_H
#define GS_STATE_READ_INTERNAL_H

#include <string.h>

#include "tracker/stacks/stacks_internal.h"
#include "tracker/statefile/state_read.h"
#include "tracker/tracker_internal.h"

struct gs_image {
    const char *data;
    size_t bytes;
    uint64_t base;
    const struct gs_tracker *tracker;
    const struct gs_stacks *stacks;          /* NULL: there are none */
    const struct gs_python *python, *scopes; /* likewise */
    uint32_t *ids; /* ids of the stacks read, by their ids in the file */
    uint32_t id_count;
    size_t api_count;
    struct gs_state_found *out;
};

/* Returns the bytes at the process's address; NULL: not all are in the file. */
const void *gs_image_at(const struct gs_image *image, uint64_t address, uint64_t bytes,
                        size_t alignment);

#define AT(image, pointer, count)                                                        \
    ((__typeof__(pointer))gs_image_at(image, (uintptr_t)(pointer),                       \
                                      (count) * sizeof(*(pointer)),                      \
                                      __alignof__(*(pointer))))

void gs_image_end_text(char *text, size_t size);
/* Makes a flag of the file, which may have any bits, one of this program's. */
static inline void gs_image_flag(bool *flag)
{
    unsigned char bits;

    memcpy(&bits, flag, sizeof(bits));
    *flag = bits != 0;
}
/* Returns this process's id of a stack of the file; 0: none. */
uint32_t gs_image_stack(const struct gs_image *image, uint32_t id);
/* Converts a frame of the file to this process: a Python frame or a scope gets a new
 * number. 0: none. */
uintptr_t gs_image_frame(const struct gs_image *image, uintptr_t frame);
/* Records the time of an event. */
void gs_image_record_time(const struct gs_image *image, uint64_t time_ns);
/* Returns true if the allocation is plausible. Converts its stack id to this
 * process's. */
bool gs_image_allocation(const struct gs_image *image, struct gs_allocation *allocation);

/* ---- state_read_scopes.c ---------------------------------------------------------- */

/* Reads what was allocated in each scope. */
void gs_image_scopes(const struct gs_image *image);

/* ---- state_read_past.c ------------------------------------------------------------ */

/* Reads past events, after the live records. */
void gs_image_past(const struct gs_image *image);

#endif
