/*
 * trace_file.h - the slots of a trace file, handed out in batches; for trace.c.
 *
 * The file is mapped chunk by chunk, and its blocks are allocated before (a sparse file
 * on a full disk would end the program by SIGBUS). No descriptor stays open: an extension
 * opens the file again. A file that has reached its size overwrites its oldest chunks,
 * and keeps what they have left (trace_live.h).
 *
 * Locks: gs_trace_file_batch takes one only when the file is extended.
 */
#ifndef GS_TRACE_FILE_H
#define GS_TRACE_FILE_H

#include "shim/trace/trace_format.h"

/*
 * Sets the file to record to; it is created with its first slot.
 * In:     pattern      of the file's name, checked by gs_log_pattern_problem; not empty
 *         limit_bytes  the largest size of the file; at least one chunk
 *         pid_start    for the header
 * Errors: GS_ERR_HOST_NOMEM, GS_ERR_INVALID (a name too long); logs nothing
 */
enum gs_status gs_trace_file_open(const char *pattern, uint64_t limit_bytes,
                                  uint64_t pid_start) GS_MUST_USE;

/* Number of the next slot, and after how many more a batch is too old to be written to,
 * since its chunk may be read or overwritten. */
extern uint64_t gs_trace_file_next __attribute__((visibility("hidden"))); /* atomic */
extern uint64_t gs_trace_file_stale
    __attribute__((visibility("hidden"))); /* after open */

/* Returns whether the batch with this slot may still be written to. */
static inline bool gs_trace_file_is_fresh(uint64_t slot)
{
    return __atomic_load_n(&gs_trace_file_next, __ATOMIC_RELAXED) - slot <=
           __atomic_load_n(&gs_trace_file_stale, __ATOMIC_RELAXED);
}

/*
 * Hands out GS_TRACE_BATCH_SLOTS zeroed slots to the caller alone, each to be filled, and
 * sealed last.
 * Out:    *number  the first slot's, for its seal
 * Returns NULL once recording has ended: by the limit, a full disk, or a file that could
 * not be created. Logs the reason once.
 */
struct gs_trace_record *gs_trace_file_batch(uint64_t *number);

/* CLOCK_MONOTONIC at the creation of the file; 0 before its first slot. */
uint64_t gs_trace_file_start_ns(void);

/* Visits the mappings of the file. */
void gs_trace_file_visit(void (*visit)(void *arg, uintptr_t begin, size_t bytes),
                         void *arg);

/* Writes the end of the header and cuts the file to the slots handed out, which may still
 * be filled. Async-signal-safe. False in a vfork child, where nothing happens. */
bool gs_trace_file_close(void);

/* In a forked child: no file; the parent's file is unchanged. */
void gs_trace_file_reset(void);

#endif
