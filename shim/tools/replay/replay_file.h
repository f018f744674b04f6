/*
 * replay_file.h - what the library recorded, read from its file at each visit.
 * Owns: nothing; a file is its trace's.   Lock: none.   Formats: docs/traces.md
 */
#ifndef GS_REPLAY_FILE_H
#define GS_REPLAY_FILE_H

#include "shim/tools/replay/replay_trace.h"

/*
 * A program that ends cuts its trace after the last record, and touching what was mapped
 * there would end this process. So the first reading takes slots with pread; later ones
 * touch the sealed slots alone, which no program changes or cuts off.
 */
struct gs_replay_file {
    const unsigned char *data;
    size_t length;
    size_t mapped;   /* bytes to unmap; 0: `data` is from malloc, or the caller's */
    int fd;          /* of what is mapped, until it is scanned; -1: none */
    uint32_t *order; /* the slots of the records, by their times */
    size_t records;
    unsigned visits; /* so far */
    /* Of the first visit: if the file changes, later ones hand on no more. */
    uint32_t allocations;
    uint64_t *refused; /* ascending numbers of operations: frees that were refused */
    size_t refused_count, refused_room;
};

bool gs_replay_is_binary(const unsigned char *data, size_t length);
/* Reads all but the operations themselves; they are counted. Returns false if it is no
 * trace. */
bool gs_replay_scan_binary(struct gs_replay_file *file, struct gs_replay_trace *out,
                           struct gs_replay_note *note);
/* gs_replay_visit_ranges of a file that was scanned. see_range may be NULL. */
void gs_replay_visit_binary(struct gs_replay_file *file, gs_replay_see *see,
                            gs_replay_see_range *see_range, void *self);

#endif
