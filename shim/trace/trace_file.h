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
 * Sets the file to record to; it is created with its first slot. One that was opened
 * before must be closed.
 * In:     pattern      of the file's name, checked by gs_log_pattern_problem; not empty
 *         limit_bytes  the largest size of the file; at least one chunk
 *         pid_start    for the header
 * Errors: GS_ERR_HOST_NOMEM, GS_ERR_INVALID (a name too long); logs nothing
 */
enum gs_status gs_trace_file_open(const char *pattern, uint64_t limit_bytes,
                                  uint64_t pid_start) GS_MUST_USE;

/* Creates the file opened last at once, not with its first slot: the program runs
 * already. Returns 0 or an errno, which was logged. */
int gs_trace_file_create(void);
/* CLOCK_MONOTONIC at the newest file's creation. */
uint64_t gs_trace_file_start_ns(void);
/* The name of the newest file; "": none was created. */
const char *gs_trace_file_path(void);

/* The name of the newest file if it began late and belongs to this process, once; "" from
 * then on. */
const char *gs_trace_file_take_late(void);
/* Returns true if there may be such a file. Makes no system call. */
bool gs_trace_file_is_late(void);

/* The slots of one file. It outlives its recording: threads may be late. */
struct gs_trace_slots {
    uint64_t next;  /* atomic: number of the next slot */
    uint64_t stale; /* immutable: after how many more a batch is too old to be written to,
                     * since its chunk may be read or overwritten */
    uint64_t start_ns; /* atomic: CLOCK_MONOTONIC at the creation of the file; before the
                        * first slot */
};

/* Returns whether the batch with this slot may still be written to. */
static inline bool gs_trace_file_is_fresh(const struct gs_trace_slots *slots,
                                          uint64_t slot)
{
    return __atomic_load_n(&slots->next, __ATOMIC_RELAXED) - slot <= slots->stale;
}

/*
 * Hands out GS_TRACE_BATCH_SLOTS zeroed slots of the file opened last to the caller
 * alone, each to be filled, and sealed last.
 * Out:    *slots   of the file; written unless NULL is returned
 *         *number  the first slot's, for its seal; likewise
 * Returns NULL once recording has ended: by the limit, a full disk, or a file that could
 * not be created. Logs the reason once.
 */
struct gs_trace_record *gs_trace_file_batch(struct gs_trace_slots **slots,
                                            uint64_t *number);

/* Visits the mappings of all files so far. */
void gs_trace_file_visit(void (*visit)(void *arg, uintptr_t begin, size_t bytes),
                         void *arg);

/* Writes the end of the header and cuts the file to the slots handed out, which may still
 * be filled. Async-signal-safe. False in a vfork child, where nothing happens. */
bool gs_trace_file_close(void);

/* After gs_trace_file_close, in a process that goes on: the pages of the mapping return
 * to the system. The mapping stays, for threads that are late. */
void gs_trace_file_rest(void);

/* In a forked child: no file; the parent's file is unchanged. */
void gs_trace_file_reset(void);

#endif
