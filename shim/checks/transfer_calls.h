/*
 * transfer_calls.h - GPUSHIM_CHECK=transfers: records copies between host and device by
 * call site, with what costs time in them (transfers.h).
 *
 * args.c finds the memory of a copy before its call and begins here; the wrapper ends
 * here. Copies that fail are not recorded, nor any copy while a stream captures: a
 * captured copy runs later, if at all, and the driver is not queried.
 *
 * Lock: the table's own, never held across a driver call. All functions may be called
 * from any thread.
 */
#ifndef GS_TRANSFER_CALLS_H
#define GS_TRANSFER_CALLS_H

#include "gs_base.h"
#include "shim/cuda/cuda_names.h"

struct gs_state;
struct gs_transfers;

/* Called at start. Without a tracker there is no report, and nothing is recorded; nor
 * without memory for the table. */
void gs_transfer_start(const struct gs_state *state);
/* In a forked child. */
void gs_transfer_reset(void);
/* The copies by call site; NULL: they are not recorded. */
struct gs_transfers *gs_transfer_table(void);

/* One end of a copy: what the call says of the memory there, and where it is. */
enum gs_copy_side { GS_SIDE_UNKNOWN, GS_SIDE_HOST, GS_SIDE_DEVICE };
struct gs_copy_end {
    enum gs_copy_side side;
    uint64_t addr;
};

/* The call of a copy or a set. The last members are valid if `bytes` is not 0. */
struct gs_copy_call {
    const char *function; /* the driver's */
    uint64_t bytes;       /* of a copy that is to be recorded; else 0 */
    CUresult refused;     /* not CUDA_SUCCESS: the driver would refuse the call */
    struct gs_copy_end dst, src;
    uint64_t began_ns; /* 0: not timed */
};

/* Called before the copy is made. */
void gs_transfer_begin(struct gs_copy_call *call, struct gs_copy_end dst,
                       struct gs_copy_end src, uint64_t bytes);
void gs_transfer_record(const struct gs_copy_call *call, uintptr_t tagged_stream);

/* Called with the driver's answer. tagged_stream: submissions.h. */
static inline void gs_transfer_end(const struct gs_copy_call *call,
                                   uintptr_t tagged_stream, CUresult result)
{
    if (GS_UNLIKELY(call->bytes != 0) && result == CUDA_SUCCESS) {
        gs_transfer_record(call, tagged_stream);
    }
}

/* Called between gs_enter and gs_leave after a synchronize of the program's.
 * stream: gs_submissions_stream_of; 0: it was one of the context. */
void gs_transfer_waited(uintptr_t stream);

#endif
