/*
 * fill_stream.c - the streams and pinned buffers with which the checks access device
 * memory.
 *
 * A thread uses a fill stream exclusively; a context gets another one when all are taken.
 * A fill stream whose work was late is stuck: until the driver reports this work
 * complete, no further fill or comparison begins in its context.
 *
 * Owns:  the fill streams of all contexts; their streams and buffers end with the
 *        context.
 * Lock:  none; a fill stream is taken by an atomic exchange.
 */
#include "shim/checks/fill_stream.h"

#include <stdlib.h>
#include <string.h>

#include "gs_wait.h"
#include "shim/order/captures.h"
#include "shim/order/context_errors.h"
#include "shim/order/own_handles.h"
#include "shim/order/visit.h"

#define PIECE_BYTES ((size_t)1 << 20)
/* The time limit of a fill, and as much again for each 256 MiB. */
#define PATIENCE_NS    1000000000ull
#define PATIENCE_SHIFT 28
#define PATIENCE_MOST  30u
/* Polls before the first sleep, and the sleep between two polls. */
#define YIELDS 20u
#define NAP_NS 50000

struct gs_fill_stream {
    struct gs_fill_stream *next; /* immutable */
    CUstream stream;             /* immutable */
    unsigned char *buffer;       /* immutable: pinned, PIECE_BYTES */
    bool taken;                  /* atomic */
    bool stuck;                  /* used by its holder */
};

/* The state to restore at the end. */
struct visit {
    struct gs_fill_stream *fill_stream;
    struct gs_visit calls;
};

/* ---- fill streams ----------------------------------------------------------------- */

static struct gs_fill_stream **fill_streams_of(const struct gs_context *context)
{
    return &((struct gs_context *)(uintptr_t)context)->fill_streams;
}

/* Creates a fill stream, taken by the caller. NULL: the driver refused. The context is
 * current. */
static struct gs_fill_stream *make_fill_stream(const struct gs_context *context)
{
    const struct gs_real *real = gs_real();
    struct gs_fill_stream *fill_stream = calloc(1, sizeof(*fill_stream));
    void *buffer = NULL;
    if (!fill_stream) {
        return NULL;
    }
    if (gs_own_stream_create(&fill_stream->stream, CU_STREAM_NON_BLOCKING) !=
        CUDA_SUCCESS) {
        goto no_stream;
    }
    if (real->cuMemHostAlloc(&buffer, PIECE_BYTES, 0) != CUDA_SUCCESS) {
        goto no_buffer;
    }
    fill_stream->buffer = buffer;
    fill_stream->taken = true;
    fill_stream->next = __atomic_load_n(fill_streams_of(context), __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(fill_streams_of(context), &fill_stream->next,
                                        fill_stream, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
    }
    return fill_stream;

no_buffer:
    real->cuStreamDestroy_v2(fill_stream->stream);
no_stream:
    free(fill_stream);
    return NULL;
}

/* Returns CUDA_SUCCESS if the fill stream's work is complete. */
static CUresult query(const struct gs_fill_stream *fill_stream)
{
    CUresult result = gs_real()->cuStreamQuery(fill_stream->stream);
    /* The work is complete, so this does not wait. Needed since a query does not order
     * work for the simulated device. */
    return result == CUDA_SUCCESS && gs_notified()
               ? gs_real()->cuStreamSynchronize(fill_stream->stream)
               : result;
}

static void give_fill_stream(struct gs_fill_stream *fill_stream)
{
    __atomic_store_n(&fill_stream->taken, false, __ATOMIC_RELEASE);
}

static enum gs_check_outcome take_fill_stream(const struct gs_context *context,
                                              struct gs_fill_stream **out)
{
    struct gs_fill_stream *fill_stream =
        __atomic_load_n(fill_streams_of(context), __ATOMIC_ACQUIRE);
    for (; fill_stream; fill_stream = fill_stream->next) {
        if (__atomic_exchange_n(&fill_stream->taken, true, __ATOMIC_ACQ_REL)) {
            continue;
        }
        if (fill_stream->stuck && query(fill_stream) != CUDA_SUCCESS) {
            give_fill_stream(fill_stream);
            return GS_CHECK_BUSY;
        }
        fill_stream->stuck = false;
        *out = fill_stream;
        return GS_CHECK_DONE;
    }
    *out = make_fill_stream(context);
    return *out ? GS_CHECK_DONE : GS_CHECK_REFUSED;
}

/* leave must follow, whatever the result. */
static enum gs_check_outcome begin(const struct gs_context *context, struct visit *visit)
{
    enum gs_check_outcome answer = gs_captures_active()        ? GS_CHECK_CAPTURE
                                   : !gs_real()->cuStreamQuery ? GS_CHECK_REFUSED
                                                               : GS_CHECK_DONE;
    bool looks = answer == GS_CHECK_DONE;
    visit->fill_stream = NULL;
    /* Relaxed: the first capture of the process may begin at any time from now on. */
    CUresult result = gs_visit_begin(&visit->calls, "a check of memory",
                                     looks ? context->handle : NULL, looks);
    return result == CUDA_SUCCESS ? answer : GS_CHECK_REFUSED;
}

/* leave must follow, whatever the result. */
static enum gs_check_outcome enter(const struct gs_context *context, struct visit *visit)
{
    enum gs_check_outcome answer = begin(context, visit);
    return answer == GS_CHECK_DONE ? take_fill_stream(context, &visit->fill_stream)
                                   : answer;
}

static void leave(struct visit *visit)
{
    if (visit->fill_stream) {
        give_fill_stream(visit->fill_stream);
    }
    gs_visit_end(&visit->calls);
}

/* Waits until the fill stream's work is complete, within the time limit. */
static enum gs_check_outcome await(struct gs_fill_stream *fill_stream, size_t bytes)
{
    uint64_t more = bytes >> PATIENCE_SHIFT;
    struct gs_wait wait = {
        .yields = YIELDS,
        .nap_ns = NAP_NS,
        .until_ns = gs_now_ns() +
                    PATIENCE_NS * (1 + (more < PATIENCE_MOST ? more : PATIENCE_MOST))};
    CUresult result;
    do {
        result = query(fill_stream);
    } while (result == CUDA_ERROR_NOT_READY && gs_wait_step(&wait));
    if (result == CUDA_SUCCESS) {
        return GS_CHECK_DONE;
    }
    fill_stream->stuck = true; /* true: without an answer the work may still run */
    return result == CUDA_ERROR_NOT_READY ? GS_CHECK_BUSY : GS_CHECK_REFUSED;
}

static enum gs_fill_state state_of(CUresult result)
{
    return result == CUDA_SUCCESS          ? GS_FILL_SETTLED
           : gs_error_ends_context(result) ? GS_FILL_FAILED
                                           : GS_FILL_BUSY;
}

/* Queries the driver for the fill stream's late work; another thread may hold the fill
 * stream. The context is current. */
static enum gs_fill_state query_late_work(struct gs_fill_stream *fill_stream)
{
    enum gs_fill_state state = GS_FILL_SETTLED;
    if (__atomic_exchange_n(&fill_stream->taken, true, __ATOMIC_ACQ_REL)) {
        return GS_FILL_BUSY; /* its holder still waits */
    }
    if (fill_stream->stuck) {
        state = state_of(query(fill_stream));
        fill_stream->stuck = state != GS_FILL_SETTLED;
    }
    give_fill_stream(fill_stream);
    return state;
}

/* Takes no fill stream: on a full device there may be no memory for one. */
enum gs_fill_state gs_fill_stream_settled(const struct gs_context *context)
{
    struct visit visit;
    enum gs_fill_state state =
        begin(context, &visit) == GS_CHECK_DONE ? GS_FILL_SETTLED : GS_FILL_BUSY;
    struct gs_fill_stream *fill_stream =
        __atomic_load_n(fill_streams_of(context), __ATOMIC_ACQUIRE);
    for (; state == GS_FILL_SETTLED && fill_stream; fill_stream = fill_stream->next) {
        state = query_late_work(fill_stream);
    }
    leave(&visit);
    return state;
}

/* ---- fills ----------------------------------------------------------------------- */

static enum gs_check_outcome submit_fills(struct gs_fill_stream *fill_stream,
                                          const struct gs_fill *fills, size_t count)
{
    enum gs_check_outcome answer = GS_CHECK_DONE;
    if (!gs_gate_enter()) {
        return GS_CHECK_CAPTURE;
    }
    for (size_t i = 0; i < count && answer == GS_CHECK_DONE; i++) {
        if (gs_real()->cuMemsetD8Async(fills[i].at, fills[i].value, fills[i].bytes,
                                       fill_stream->stream) != CUDA_SUCCESS) {
            answer = GS_CHECK_REFUSED;
        }
    }
    gs_gate_leave();
    return answer;
}

static size_t bytes_of(const struct gs_fill *fills, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += fills[i].bytes;
    }
    return bytes;
}

/* Checks that the device completes work in time and reports it: fills the fill stream's
 * own buffer, whose contents do not matter. */
static enum gs_check_outcome try_fill_stream(struct gs_fill_stream *fill_stream)
{
    const struct gs_fill own = {(CUdeviceptr)(uintptr_t)fill_stream->buffer, 1, 0};
    enum gs_check_outcome answer = submit_fills(fill_stream, &own, 1);
    return answer == GS_CHECK_DONE ? await(fill_stream, own.bytes) : answer;
}

enum gs_check_outcome gs_fill_stream_fill(const struct gs_context *context,
                                          const struct gs_fill *fills, size_t count,
                                          bool *pending)
{
    struct visit visit;
    enum gs_check_outcome answer = enter(context, &visit);
    *pending = false;
    if (answer == GS_CHECK_DONE) {
        answer = try_fill_stream(visit.fill_stream);
    }
    if (answer == GS_CHECK_DONE) {
        answer = submit_fills(visit.fill_stream, fills, count);
        if (answer != GS_CHECK_CAPTURE) { /* one of two fills may be in progress */
            enum gs_check_outcome done = await(visit.fill_stream, bytes_of(fills, count));
            *pending = done != GS_CHECK_DONE;
            answer = *pending ? done : answer;
        }
    }
    leave(&visit);
    return answer;
}

/* ---- checks ---------------------------------------------------------------------- */

static bool is_filled(const unsigned char *bytes, size_t count, unsigned char value)
{
    return bytes[0] == value && memcmp(bytes, bytes + 1, count - 1) == 0;
}

/* `offset`: of `bytes` in the whole range. */
static void compare(const unsigned char *bytes, size_t count, unsigned char value,
                    uint64_t offset, struct gs_changed *changed)
{
    if (is_filled(bytes, count, value)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == value) {
            continue;
        }
        if (changed->bytes == 0) {
            changed->first = offset + i;
        }
        changed->bytes++;
    }
}

static enum gs_check_outcome fetch(struct gs_fill_stream *fill_stream, CUdeviceptr at,
                                   size_t bytes)
{
    if (!gs_gate_enter()) {
        return GS_CHECK_CAPTURE;
    }
    CUresult result = gs_real()->cuMemcpyDtoHAsync_v2(fill_stream->buffer, at, bytes,
                                                      fill_stream->stream);
    gs_gate_leave();
    return result == CUDA_SUCCESS ? await(fill_stream, bytes) : GS_CHECK_REFUSED;
}

enum gs_check_outcome gs_fill_stream_compare(const struct gs_context *context,
                                             CUdeviceptr at, size_t bytes,
                                             unsigned char value, struct gs_changed *out)
{
    struct gs_changed changed = {.bytes = 0};
    struct visit visit;
    enum gs_check_outcome answer = enter(context, &visit);
    for (size_t done = 0, piece; answer == GS_CHECK_DONE && done < bytes; done += piece) {
        piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        answer = fetch(visit.fill_stream, at + done, piece);
        if (answer == GS_CHECK_DONE) {
            compare(visit.fill_stream->buffer, piece, value, done, &changed);
        }
    }
    leave(&visit);
    if (answer == GS_CHECK_DONE) {
        *out = changed;
    }
    return answer;
}
