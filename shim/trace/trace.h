/*
 * trace.h - GPUSHIM_TRACE_FILE: records every allocation and free of the program in a
 * file.
 *
 * A wrapper records a free before the real free, and an allocation after the real
 * allocation: otherwise another thread could get the address in between, and the file
 * would show two live allocations at one address. While off, a call costs one branch.
 *
 * Locks: none, except where the file grows, or a stream or context first appears.
 * Format: trace_format.h.   Design: docs/traces.md
 */
#ifndef GS_TRACE_H
#define GS_TRACE_H

#include "shim/cuda/cuda_names.h"
#include "shim/trace/trace_format.h"
#include "tracker/tracker.h"

/* True while recording is on; relaxed: a call that is just starting or ending may be
 * missed. */
extern bool gs_trace_on __attribute__((visibility("hidden")));

static inline bool gs_tracing(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_trace_on, __ATOMIC_RELAXED));
}

/* The meaning of a call's stream argument. */
enum gs_trace_order {
    GS_TRACE_UNORDERED,          /* it has no stream */
    GS_TRACE_ORDERED,            /* NULL is the legacy default stream */
    GS_TRACE_ORDERED_PER_THREAD, /* NULL is the per-thread default stream */
};

/*
 * Starts recording.
 * In:  pattern      as for gs_log_open; "" or NULL: no recording
 *      limit_bytes  of the file
 *      pid_start    gs_state_file_pid_start: stacks of records are ids of that file
 * A failure is logged in one line. Called at start.
 */
void gs_trace_open(const char *pattern, uint64_t limit_bytes, uint64_t pid_start);
/*
 * Starts recording while the program runs: the file exists from now on. What is live then
 * must be written by gs_trace_write_live and _mapped. One caller at a time, and a
 * recording before must have been ended.
 * In:     as for gs_trace_open; the pattern was checked
 * Returns NULL, or why nothing is recorded, as the end of a sentence
 */
const char *gs_trace_begin(const char *pattern, uint64_t limit_bytes, uint64_t pid_start);
/* The time of the trace, after gs_trace_begin. */
uint64_t gs_trace_now(void);
/* Returns true while records go to a file. */
bool gs_trace_records(void);
/* Ends recording while the program runs. */
void gs_trace_end(void);
/* Keeps gs_tracing() true without a file: the caller has a use of its own for the
 * events. Called at start. */
void gs_trace_stay_on(void);
/* Called when the process ends: writes the end of the header. Async-signal-safe. */
void gs_trace_close(void);
/* In a forked child: records nothing until gs_trace_open. */
void gs_trace_reset(void);

#define GS_TRACE_COLD __attribute__((noinline))
GS_TRACE_COLD void gs_trace_write_alloc(enum gs_memory_kind kind, uint64_t addr,
                                        size_t bytes, CUcontext context, int device,
                                        CUstream stream, enum gs_trace_order order,
                                        uint32_t stack);
/* The pool maps memory of the driver, or returns it. context: the one with which the
 * memory ends; NULL: none. */
GS_TRACE_COLD void gs_trace_write_range(bool mapped, enum gs_memory_kind kind,
                                        uint64_t addr, size_t bytes, CUcontext context,
                                        int device);

/* After gs_trace_begin: an allocation, or a range of the pool, from before. In: time_ns
 * of the trace; 0: its first moment. A second record of an allocation does no harm. */
void gs_trace_write_live(const struct gs_allocation *allocation, uint64_t time_ns);
void gs_trace_write_mapped(enum gs_memory_kind kind, uint64_t addr, size_t bytes,
                           CUcontext context, int device);

GS_TRACE_COLD void gs_trace_write_free(uint64_t addr, enum gs_trace_how how,
                                       CUstream stream, enum gs_trace_order order);
GS_TRACE_COLD void gs_trace_write_refused(uint64_t addr);
GS_TRACE_COLD void gs_trace_write_sync(enum gs_trace_how how, CUcontext context,
                                       CUstream stream, enum gs_trace_order order);
GS_TRACE_COLD void gs_trace_write_context_end(CUcontext context);
GS_TRACE_COLD void gs_trace_forget_stream(CUstream stream);

/* Records an allocation. `context` may be NULL; `stack`: its id, 0: none. */
static inline void gs_trace_alloc(enum gs_memory_kind kind, uint64_t addr, size_t bytes,
                                  CUcontext context, int device, CUstream stream,
                                  enum gs_trace_order order, uint32_t stack)
{
    if (gs_tracing()) {
        gs_trace_write_alloc(kind, addr, bytes, context, device, stream, order, stack);
    }
}

/* Records a free that is about to be made; `how` is one of the free's values. Address 0
 * is ignored. */
static inline void gs_trace_free(uint64_t addr, enum gs_trace_how how, CUstream stream,
                                 enum gs_trace_order order)
{
    if (gs_tracing() && addr != 0) {
        gs_trace_write_free(addr, how, stream, order);
    }
}

/* Records that this thread's last recorded free was refused: the memory is still
 * allocated. */
static inline void gs_trace_free_refused(uint64_t addr)
{
    if (gs_tracing() && addr != 0) {
        gs_trace_write_refused(addr);
    }
}

/* Records a successful wait; `how` is one of GS_TRACE_SYNC_*. */
static inline void gs_trace_sync(enum gs_trace_how how, CUcontext context,
                                 CUstream stream, enum gs_trace_order order)
{
    if (gs_tracing()) {
        gs_trace_write_sync(how, context, stream, order);
    }
}

/* Records the end of a context. */
static inline void gs_trace_context_end(CUcontext context)
{
    if (gs_tracing()) {
        gs_trace_write_context_end(context);
    }
}

/* Records that a stream is about to be destroyed: its handle will name another stream. */
static inline void gs_trace_stream_end(CUstream stream)
{
    if (gs_tracing()) {
        gs_trace_forget_stream(stream);
    }
}

#endif
