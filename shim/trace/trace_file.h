/*
 * trace_file.h - the slots of a trace file, handed out in batches; for trace.c.
 *
 * The file is mapped chunk by chunk, each written before (a sparse file on a full disk
 * would end the program by SIGBUS). Nothing of it stays open: growing opens it
 * again.
 *
 * Locks: gs_trace_file_batch takes one only where the file has to grow.
 */
#ifndef GS_TRACE_FILE_H
#define GS_TRACE_FILE_H

#include "trace_format.h"

/*
 * Remember where to record; the file is created with its first slot.
 * In:     pattern      of the file's name, checked by gs_log_pattern_problem; not empty
 *         limit_bytes  the file never grows beyond it; at least one chunk
 * Errors: GS_ERR_HOST_NOMEM, GS_ERR_INVALID (a name too long); nothing is said
 */
enum gs_status gs_trace_file_open(const char *pattern, uint64_t limit_bytes) GS_MUST_USE;

/*
 * GS_TRACE_BATCH_SLOTS slots of the caller's own, zeroed: each to be filled, and sealed
 * last.
 * Out:    *number  the first slot's, for its seal
 * Returns NULL once recording has ended, by the limit, a full disk or a file that could
 * not be created; the first time one line has said so.
 */
struct gs_trace_record *gs_trace_file_batch(uint64_t *number);

/* CLOCK_MONOTONIC of the moment the file was created; 0 before its first slot. */
uint64_t gs_trace_file_start_ns(void);

/* Write the header's end and cut the file to what was handed out, which may still be
 * filled. Async-signal-safe. False in a vfork child, where nothing happens. */
bool gs_trace_file_close(void);

/* In a forked child: no file yet; the parent's is not touched. */
void gs_trace_file_reset(void);

#endif
