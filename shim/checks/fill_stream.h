/*
 * fill_stream.h - the checks' own driver calls: write a pattern to device memory, and
 * compare memory with a pattern.
 *
 * The calls use streams of their own, which neither wait for other streams nor are waited
 * for. They have a time limit, since the running work may wait for the calling thread.
 * While a stream captures no call begins.
 *
 * Lock: none is held; all functions may be called from any thread.
 * Source: rules L3 and L4 (docs/free.md)
 */
#ifndef GS_FILL_STREAM_H
#define GS_FILL_STREAM_H

#include "shim/state/contexts.h"
#include "tracker/tracker.h"

struct gs_fill {
    CUdeviceptr at;
    size_t bytes;
    unsigned char value;
};

enum gs_fill_state { GS_FILL_BUSY, GS_FILL_SETTLED, GS_FILL_FAILED };

/* Queries whether all late work of the fill streams in the context has ended.
 * GS_FILL_FAILED: the context has failed (context_errors.h), so this will never be
 * known. */
enum gs_fill_state gs_fill_stream_settled(const struct gs_context *context);

/*
 * Writes the patterns of `fills`. Begins only after the device has completed a trial fill
 * in time: a device that is busy for long, or a driver that does not report completion,
 * leaves nothing pending.
 *
 * Returns GS_CHECK_DONE: they are written; else the reason: GS_CHECK_BUSY, _CAPTURE or
 * _REFUSED.
 * Out: *pending  the patterns may still be written, until gs_fill_stream_settled: no
 *                later owner of the memory can be ordered after the writes
 */
enum gs_check_outcome gs_fill_stream_fill(const struct gs_context *context,
                                          const struct gs_fill *fills, size_t count,
                                          bool *pending);

struct gs_changed {
    uint64_t bytes; /* number of differing bytes */
    uint64_t first; /* offset of the first one */
};

/* Compares memory with the byte `value`. Out: *out, if the result is GS_CHECK_DONE; any
 * other result is the reason for no comparison. */
enum gs_check_outcome gs_fill_stream_compare(const struct gs_context *context,
                                             CUdeviceptr at, size_t bytes,
                                             unsigned char value, struct gs_changed *out);

#endif
