/*
 * streams.h - part of gpushim_memory.h: sets of streams, and their order.
 */
#ifndef GPUSHIM_MEMORY_STREAMS_H
#define GPUSHIM_MEMORY_STREAMS_H

#ifndef GPUSHIM_MEMORY_H
#error "include gpushim_memory.h"
#endif

/* Three non-blocking streams; a program may use the fields, but must not change them.
 */
struct gpushim_streams {
    void *compute, *upload, *download;
};

/* Destroys them; queued work still runs. Idempotent. After CUDA the streams not destroyed
 * remain. */
static inline gpushim_result gpushim_streams_free(struct gpushim_streams *streams)
{
    const struct gpushim_calls_ *cuda;
    void **each[3];
    gpushim_result result;
    int i, code;

    if (!streams) {
        return GPUSHIM_INVALID;
    }
    if (!streams->compute && !streams->upload && !streams->download) {
        return GPUSHIM_OK;
    }
    each[0] = &streams->compute;
    each[1] = &streams->upload;
    each[2] = &streams->download;
    result = gpushim_cuda_(&cuda);
    for (i = 0; i < 3 && result == GPUSHIM_OK; i++) {
        code = *each[i] ? cuda->stream_destroy(*each[i]) : 0;
        result = gpushim_from_cuda_(code);
        *each[i] = code ? *each[i] : NULL;
    }
    return result;
}

/* Creates them, all or none, in the current context. */
static inline gpushim_result gpushim_streams_create(struct gpushim_streams *out)
{
    const struct gpushim_calls_ *cuda;
    struct gpushim_streams made = {NULL, NULL, NULL};
    gpushim_result result;
    int code;

    if (!out) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    code = cuda->stream_create(&made.compute, GPUSHIM_CU_NON_BLOCKING_);
    code = code ? code : cuda->stream_create(&made.upload, GPUSHIM_CU_NON_BLOCKING_);
    code = code ? code : cuda->stream_create(&made.download, GPUSHIM_CU_NON_BLOCKING_);
    if (code) {
        (void)gpushim_streams_free(&made);
        return gpushim_from_cuda_(code);
    }
    *out = made;
    return GPUSHIM_OK;
}

/* Makes later work of `stream` wait for the work queued so far in `other`. The thread
 * does not wait. GPUSHIM_SYNC for either: INVALID. */
static inline gpushim_result gpushim_stream_after(void *stream, void *other)
{
    const struct gpushim_calls_ *cuda;
    void *event;
    gpushim_result result;
    int code;

    if (stream == GPUSHIM_SYNC || other == GPUSHIM_SYNC) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    code = cuda->event_create(&event, GPUSHIM_CU_NO_TIMING_);
    if (!code) {
        code = cuda->event_record(event, other);
        code = code ? code : cuda->stream_wait(stream, event, 0);
        (void)cuda->event_destroy(event); /* takes effect once the event is over */
    }
    return gpushim_from_cuda_(code);
}

/* Waits for the work of one stream. */
static inline gpushim_result gpushim_stream_wait(void *stream)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result =
        stream == GPUSHIM_SYNC ? GPUSHIM_INVALID : gpushim_cuda_(&cuda);

    return result == GPUSHIM_OK ? gpushim_from_cuda_(cuda->stream_sync(stream)) : result;
}

#endif
