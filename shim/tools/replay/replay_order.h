/*
 * replay_order.h - which slots of a recorded trace have its records, in the order of
 * their times: the sealed ones, from what a full trace has kept of its beginning on.
 * Owns: nothing.   Lock: none.   Formats: shim/trace/trace_format.h
 */
#ifndef GS_REPLAY_ORDER_H
#define GS_REPLAY_ORDER_H

#include "shim/tools/replay/replay_file.h"

/* What was found on the way. */
struct gs_replay_ordered {
    const char *lost; /* what is missing, as the beginning of a sentence; NULL: nothing */
    uint64_t damaged, unfinished; /* records that are left out */
    uint64_t last_ns;
    bool ordered;
};

/* Reads the header. Returns why it is no trace, or NULL. */
const char *gs_replay_order_header(const struct gs_replay_file *file,
                                   struct gs_trace_header *header);
/* Fills file->order and file->records. */
void gs_replay_order(struct gs_replay_file *file, const struct gs_trace_header *header,
                     struct gs_replay_ordered *out);
/* A slot of file->order. */
void gs_replay_order_read(const struct gs_replay_file *file, uint32_t slot,
                          struct gs_trace_record *record);

#endif
