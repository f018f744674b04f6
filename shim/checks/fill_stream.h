/*
 * fill_stream.h - the checks' own calls of the driver: a pattern written to device
 * memory, and memory compared with one.
 *
 * They go by a stream of their own that waits for no other and that no other waits for,
 * and they are given a time: what runs may be waiting for the calling thread. While a
 * stream captures nothing is begun.
 *
 * Lock: none is held; all functions may be called from any thread.
 * Source: reuse safety, rules L3 and L4 (docs/free.md)
 */
#ifndef GS_FILL_STREAM_H
#define GS_FILL_STREAM_H

#include "contexts.h"
#include "tracker.h"

struct gs_fill {
    CUdeviceptr at;
    size_t bytes;
    unsigned char value;
};

enum gs_fill_state { GS_FILL_BUSY, GS_FILL_SETTLED, GS_FILL_FAILED };

/* Whether all that was begun in the context, and not done in its time, has ended.
 * GS_FILL_FAILED: the context has failed (context_errors.h), so that will never be known.
 */
enum gs_fill_state gs_fill_stream_settled(const struct gs_context *context);

/*
 * They are not begun before the device has answered in its time: one that is busy for
 * long, or a driver that does not tell, leaves nothing pending.
 *
 * Returns GS_CHECK_LOOKED: they are written; else why not: GS_CHECK_BUSY, _CAPTURE or
 * _REFUSED.
 * Out: *pending  they may yet be written, until gs_fill_stream_settled: no later owner of
 * that memory can be ordered behind it
 */
enum gs_check_count gs_fill_stream_fill(const struct gs_context *context,
                                        const struct gs_fill *fills, size_t count,
                                        bool *pending);

struct gs_changed {
    uint64_t bytes; /* how many differ */
    uint64_t first; /* offset of the first of them */
};

/* Out: *out, where the answer is GS_CHECK_LOOKED; else why it was not. */
enum gs_check_count gs_fill_stream_look(const struct gs_context *context, CUdeviceptr at,
                                        size_t bytes, unsigned char value,
                                        struct gs_changed *out);

#endif
