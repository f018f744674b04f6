/*
 * devices.h - part of gpushim_memory.h: what devices see and have, and blocks ahead of
 * need.
 */
#ifndef GPUSHIM_MEMORY_DEVICES_H
#define GPUSHIM_MEMORY_DEVICES_H

#ifndef GPUSHIM_MEMORY_H
#error "include gpushim_memory.h"
#endif

/* ---- devices --------------------------------------------------------------------- */

/* When host and device see what the other has written to memory that both can address. */
typedef enum gpushim_visibility {
    GPUSHIM_SYSTEM_SCOPE = 0, /* while a kernel runs, too */
    GPUSHIM_DEVICE_SCOPE = 1, /* after a synchronize: WSL2, Jetson */
    GPUSHIM_COPIES_ONLY = 2   /* the device has no managed memory */
} gpushim_visibility;

/* In: device, an ordinal. Errors: INVALID, INACTIVE, CUDA (no such device). */
static inline gpushim_result gpushim_get_visibility(int device, gpushim_visibility *out)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;
    int code, managed = 0, concurrent = 0;

    if (device < 0 || !out) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    code = cuda->device_attribute(&managed, GPUSHIM_CU_HAS_MANAGED_, device);
    code = code ? code
                : cuda->device_attribute(&concurrent, GPUSHIM_CU_HAS_CONCURRENT_, device);
    if (!code) {
        *out = !managed      ? GPUSHIM_COPIES_ONLY
               : !concurrent ? GPUSHIM_DEVICE_SCOPE
                             : GPUSHIM_SYSTEM_SCOPE;
    }
    return gpushim_from_cuda_(code);
}

/*
 * The free and total bytes of a device, as in gpushim_statistics. Needs no library.
 * In:     device  an ordinal. One without an active primary context gets one for the
 *                 call, which takes long
 * Out:    *free_bytes, *total_bytes  each may be NULL
 * Errors: INVALID, INACTIVE, CUDA (no such device)
 */
static inline gpushim_result gpushim_get_memory(int device, size_t *free_bytes,
                                                size_t *total_bytes)
{
    const struct gpushim_calls_ *cuda;
    void *before = NULL, *context;
    size_t found[2] = {0, 0};
    gpushim_result result;
    int code, current = -1;

    if (device < 0) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    code = cuda->context_get(&before);
    code = code ? code : cuda->context_device(&current);
    if (!code && current == device) {
        code = cuda->memory_info(&found[0], &found[1]);
    } else if (!code) {
        code = cuda->primary_retain(&context, device);
        if (!code) {
            code = cuda->context_set(context);
            code = code ? code : cuda->memory_info(&found[0], &found[1]);
            (void)cuda->context_set(before);
            (void)cuda->primary_release(device);
        }
    }
    if (!code && free_bytes) {
        *free_bytes = found[0];
    }
    if (!code && total_bytes) {
        *total_bytes = found[1];
    }
    return gpushim_from_cuda_(code);
}

/* Lets device `from` read and write the memory of `to`. Keeps a primary context that it
 * makes active, and changes the current one. Returns the driver's code. */
static inline int gpushim_enable_peer_(const struct gpushim_calls_ *cuda, int from,
                                       int to)
{
    int had_own = gpushim_is_active_(cuda, from), had_other, code;
    void *own, *other;

    code = cuda->primary_retain(&own, from);
    if (code) {
        return code;
    }
    had_other = gpushim_is_active_(cuda, to);
    code = cuda->primary_retain(&other, to);
    if (!code) {
        code = cuda->context_set(own);
        code = code ? code : cuda->enable_peer(other, 0);
        code = code == GPUSHIM_CU_PEERS_ALREADY_ ? 0 : code;
        if (code || had_other) {
            (void)cuda->primary_release(to);
        }
    }
    if (code || had_own) {
        (void)cuda->primary_release(from);
    }
    return code;
}

/*
 * Lets every device read and write the memory of every other, where the hardware can. The
 * primary contexts of these devices exist from then on, and take memory.
 * Out:    *pairs  ordered pairs that have access now, those that had it before included;
 *                 may be NULL
 * Errors: CUDA: one pair failed; the others have been tried
 */
static inline gpushim_result gpushim_enable_peers(int *pairs)
{
    const struct gpushim_calls_ *cuda;
    void *before = NULL;
    gpushim_result result = gpushim_cuda_(&cuda);
    int count = 0, from, to, can, code, enabled = 0;

    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(cuda->context_get(&before));
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(cuda->device_count(&count));
    }
    for (from = 0; from < count; from++) {
        for (to = 0; to < count; to++) {
            if (from == to || cuda->can_access_peer(&can, from, to) || !can) {
                continue;
            }
            code = gpushim_enable_peer_(cuda, from, to);
            enabled += !code;
            result = code && result == GPUSHIM_OK ? gpushim_from_cuda_(code) : result;
        }
    }
    if (count > 0) {
        (void)cuda->context_set(before);
    }
    if (pairs) {
        *pairs = enabled;
    }
    return result;
}

/* ---- blocks ahead of need, by a thread --------------------------------------------- */

/* Begin with gpushim_warming_start; do not move the struct until gpushim_warming_wait. */
struct gpushim_warming {
    pthread_t thread; /* internal, as all of it */
    int device, begun, done;
    char *blocks;
    gpushim_result result;
};

static inline void *gpushim_warm_(void *argument)
{
    struct gpushim_warming *warming = (struct gpushim_warming *)argument;
    int cancelled;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    warming->result = gpushim_warm_up(warming->device, warming->blocks);
    __atomic_store_n(&warming->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/*
 * gpushim_warm_up (gpushim.h) on a thread of its own, in the device's primary context.
 * Errors: INACTIVE (there is no library), INVALID, NO_MEMORY (host); nothing is under way
 */
static inline gpushim_result gpushim_warming_start(struct gpushim_warming *out,
                                                   int device, const char *blocks)
{
    if (!out || device < 0 || !blocks) {
        return GPUSHIM_INVALID;
    }
    if (!gpushim_library()) {
        return GPUSHIM_INACTIVE;
    }
    memset(out, 0, sizeof(*out));
    out->device = device;
    out->blocks = (char *)malloc(strlen(blocks) + 1);
    if (!out->blocks) {
        return GPUSHIM_NO_MEMORY;
    }
    memcpy(out->blocks, blocks, strlen(blocks) + 1);
    out->begun = pthread_create(&out->thread, NULL, gpushim_warm_, out) == 0;
    if (!out->begun) {
        free(out->blocks);
        return GPUSHIM_NO_MEMORY;
    }
    return GPUSHIM_OK;
}

/* Is it done? Does not wait. Out: *ready, 0 or 1. Errors: INVALID. */
static inline gpushim_result gpushim_warming_poll(const struct gpushim_warming *warming,
                                                  int *ready)
{
    if (!warming || !warming->begun || !ready) {
        return GPUSHIM_INVALID;
    }
    *ready = __atomic_load_n(&warming->done, __ATOMIC_ACQUIRE);
    return GPUSHIM_OK;
}

/* Waits until it is done. Errors: as of gpushim_warm_up; INVALID also if none is under
 * way. Once for each start. */
static inline gpushim_result gpushim_warming_wait(struct gpushim_warming *warming)
{
    gpushim_result result;

    if (!warming || !warming->begun) {
        return GPUSHIM_INVALID;
    }
    (void)pthread_join(warming->thread, NULL);
    result = warming->result;
    free(warming->blocks);
    memset(warming, 0, sizeof(*warming));
    return result;
}

#endif
