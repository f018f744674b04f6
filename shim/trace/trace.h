/*
 * trace.h - records every allocation and free of the program in a file
 * (GPUSHIM_TRACE_FILE).
 *
 * A wrapper records a free before it is carried out, and an allocation after it was made:
 * else another thread could be given the address in between, and the file would say that
 * it was handed out twice. Off, a call costs one branch.
 *
 * Locks: none but where the file grows, or a stream or context is met for the first time.
 * Format: trace_format.h.   Design: docs/traces.md
 */
#ifndef GS_TRACE_H
#define GS_TRACE_H

#include "cuda_names.h"
#include "trace_format.h"
#include "tracker.h"

/* Whether anything is recorded; relaxed: a call that is just starting or ending it may go
 * either way. */
extern bool gs_trace_on __attribute__((visibility("hidden")));

static inline bool gs_tracing(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_trace_on, __ATOMIC_RELAXED));
}

/* How a call names its stream. */
enum gs_trace_order {
    GS_TRACE_UNORDERED,          /* it names none */
    GS_TRACE_ORDERED,            /* NULL is the legacy default stream */
    GS_TRACE_ORDERED_PER_THREAD, /* NULL is the thread's own */
};

/*
 * Record from now on.
 * In:  pattern      as for gs_log_open; "" or NULL: nothing is recorded
 *      limit_bytes  of the file
 * If that is not possible one line says so. Called by start-up.
 */
void gs_trace_open(const char *pattern, uint64_t limit_bytes);
/* The process ends: the file gets its last mark. Async-signal-safe. */
void gs_trace_close(void);
/* In a forked child: nothing is recorded until gs_trace_open. */
void gs_trace_reset(void);

#define GS_TRACE_COLD __attribute__((noinline))
GS_TRACE_COLD void gs_trace_write_alloc(enum gs_memory_kind kind, uint64_t addr,
                                        size_t bytes, CUcontext context, int device,
                                        CUstream stream, enum gs_trace_order order);
GS_TRACE_COLD void gs_trace_write_free(uint64_t addr, enum gs_trace_how how,
                                       CUstream stream, enum gs_trace_order order);
GS_TRACE_COLD void gs_trace_write_refused(uint64_t addr);
GS_TRACE_COLD void gs_trace_write_sync(enum gs_trace_how how, CUcontext context,
                                       CUstream stream, enum gs_trace_order order);
GS_TRACE_COLD void gs_trace_write_context_end(CUcontext context);
GS_TRACE_COLD void gs_trace_forget_stream(CUstream stream);

/* Memory was allocated. `context` may be NULL. */
static inline void gs_trace_alloc(enum gs_memory_kind kind, uint64_t addr, size_t bytes,
                                  CUcontext context, int device, CUstream stream,
                                  enum gs_trace_order order)
{
    if (gs_tracing()) {
        gs_trace_write_alloc(kind, addr, bytes, context, device, stream, order);
    }
}

/* Memory is about to be freed; `how` is one of the free's. Address 0 is no allocation. */
static inline void gs_trace_free(uint64_t addr, enum gs_trace_how how, CUstream stream,
                                 enum gs_trace_order order)
{
    if (gs_tracing() && addr != 0) {
        gs_trace_write_free(addr, how, stream, order);
    }
}

/* The free that this thread has recorded last was refused: the memory is still there. */
static inline void gs_trace_free_refused(uint64_t addr)
{
    if (gs_tracing() && addr != 0) {
        gs_trace_write_refused(addr);
    }
}

/* A wait has ended successfully; `how` is one of the GS_TRACE_SYNC_*. */
static inline void gs_trace_sync(enum gs_trace_how how, CUcontext context,
                                 CUstream stream, enum gs_trace_order order)
{
    if (gs_tracing()) {
        gs_trace_write_sync(how, context, stream, order);
    }
}

/* A context is gone. */
static inline void gs_trace_context_end(CUcontext context)
{
    if (gs_tracing()) {
        gs_trace_write_context_end(context);
    }
}

/* A stream is about to be destroyed: its handle will mean another one. */
static inline void gs_trace_stream_end(CUstream stream)
{
    if (gs_tracing()) {
        gs_trace_forget_stream(stream);
    }
}

#endif
