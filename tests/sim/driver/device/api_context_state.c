/*
 * api_context_state.c - what acts on a whole context: synchronization, context-wide
 * events, limits and configurations, peer access.
 * Owns:   nothing.   Lock: context->lock for limits, configurations and peers.
 * Source: Driver API, "Context Management", "Peer Context Memory Access".
 */
#include "capture.h"
#include "device.h"
#include "event.h"
#include "green.h"
#include "pool.h"
#include "stream.h"
#include "version.h"

static CUresult synchronize(struct sim_context *context)
{
    SIM_TRY(sim_capture_check_context(context));
    CUresult res = sim_context_synchronize(context);
    sim_pool_after_sync(context->device);
    return res;
}

SIM_API(cuCtxSynchronize, void)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuCtxSynchronize, &context));
    struct sim_green *green = sim_green_current();
    return green ? sim_green_wait(green) : synchronize(context);
}

SIM_API(cuCtxSynchronize_v2, CUcontext handle)
{
    struct sim_context *context;
    CUresult res = sim_enter(SIM_ID_cuCtxSynchronize_v2);

    if (res != CUDA_SUCCESS)
        return res;
    if (!handle)
        return cuCtxSynchronize();
    struct sim_green *green = sim_green_of(handle);
    if (green) {
        res = sim_green_wait(green);
        sim_green_put(green);
        return res;
    }
    context = sim_context_get(handle);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    res = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (atomic_load(&context->alive))
        res = synchronize(context);
    sim_context_put(context);
    return res;
}

SIM_API(cuCtxRecordEvent, CUcontext handle, CUevent event)
{
    CUresult res = sim_enter(SIM_ID_cuCtxRecordEvent);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_green *green = sim_green_of(handle);
    if (green) {
        res = sim_green_record(SIM_ID_cuCtxRecordEvent, green, event);
        sim_green_put(green);
        return res;
    }
    struct sim_context *context = sim_context_get(handle);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    res = atomic_load(&context->alive)
              ? sim_event_record_context(SIM_ID_cuCtxRecordEvent, context, event)
              : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    sim_context_put(context);
    return res;
}

SIM_API(cuCtxWaitEvent, CUcontext handle, CUevent event)
{
    CUresult res = sim_enter(SIM_ID_cuCtxWaitEvent);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_green *green = sim_green_of(handle);
    if (green) {
        res = sim_green_wait_event(SIM_ID_cuCtxWaitEvent, green, event);
        sim_green_put(green);
        return res;
    }
    struct sim_context *context = sim_context_get(handle);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    res = atomic_load(&context->alive)
              ? sim_event_wait_context(SIM_ID_cuCtxWaitEvent, context, event)
              : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    sim_context_put(context);
    return res;
}

SIM_API(cuCtxSetLimit, CUlimit limit, size_t value)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuCtxSetLimit, &context));
    if ((unsigned)limit >= SIM_LIMITS || !sim_version_knows(SIM_SINCE_LIMIT, limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) /* for devices before 9.0 */
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    pthread_mutex_lock(&context->lock);
    context->limits[limit] = value;
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetLimit, size_t *value, CUlimit limit)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuCtxGetLimit, &context));
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)limit >= SIM_LIMITS || !sim_version_knows(SIM_SINCE_LIMIT, limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    pthread_mutex_lock(&context->lock);
    *value = context->limits[limit];
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

/* Write a configuration of the current context. */
static CUresult set_config(enum sim_api api, size_t field, int value, int last)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(api, &context));
    if (value < 0 || value > last)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&context->lock);
    *(int *)((char *)context + field) = value;
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

static CUresult get_config(enum sim_api api, size_t field, int *value)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(api, &context));
    pthread_mutex_lock(&context->lock);
    *value = *(int *)((char *)context + field);
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

SIM_API_ONE(cuCtxSetCacheConfig, (CUfunc_cache config),
            set_config(api, offsetof(struct sim_context, cache_config), (int)config,
                       CU_FUNC_CACHE_PREFER_EQUAL));

SIM_API(cuCtxGetCacheConfig, CUfunc_cache *config)
{
    int value = 0;

    if (!config)
        return sim_unless_before_init(CUDA_ERROR_INVALID_VALUE);
    CUresult res = get_config(SIM_ID_cuCtxGetCacheConfig,
                              offsetof(struct sim_context, cache_config), &value);
    if (res == CUDA_SUCCESS)
        *config = (CUfunc_cache)value;
    return res;
}

SIM_API_ONE(cuCtxSetSharedMemConfig, (CUsharedconfig config),
            set_config(api, offsetof(struct sim_context, shared_config), (int)config,
                       CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));

SIM_API(cuCtxGetSharedMemConfig, CUsharedconfig *config)
{
    int value = 0;

    if (!config)
        return sim_unless_before_init(CUDA_ERROR_INVALID_VALUE);
    CUresult res = get_config(SIM_ID_cuCtxGetSharedMemConfig,
                              offsetof(struct sim_context, shared_config), &value);
    if (res == CUDA_SUCCESS)
        *config = (CUsharedconfig)value;
    return res;
}

SIM_API(cuCtxGetStreamPriorityRange, int *least, int *greatest)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuCtxGetStreamPriorityRange, &context));
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxResetPersistingL2Cache, void)
{
    struct sim_context *context;

    return sim_enter_context(SIM_ID_cuCtxResetPersistingL2Cache, &context);
}

/* Index of a peer among those of the context, or peer_count. Needs context->lock. */
static unsigned find_peer(const struct sim_context *context,
                          const struct sim_context *peer, uint64_t id)
{
    unsigned i = 0;

    while (i < context->peer_count &&
           (context->peers[i].context != peer || context->peers[i].id != id))
        i++;
    return i;
}

static CUresult change_peer(struct sim_context *context, struct sim_context *peer,
                            bool enable)
{
    uint64_t id = sim_context_id(peer);
    CUresult res = CUDA_SUCCESS;

    pthread_mutex_lock(&context->lock);
    unsigned at = find_peer(context, peer, id);
    if (enable && at < context->peer_count)
        res = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    else if (enable && context->peer_count == SIM_MAX_PEERS)
        res = CUDA_ERROR_TOO_MANY_PEERS;
    else if (enable)
        context->peers[context->peer_count++] = (struct sim_peer){peer, id};
    else if (at == context->peer_count)
        res = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    else
        context->peers[at] = context->peers[--context->peer_count];
    pthread_mutex_unlock(&context->lock);
    return res;
}

static CUresult peer_access(enum sim_api api, CUcontext handle, unsigned flags,
                            bool enable)
{
    struct sim_context *context;
    CUresult res = sim_enter_context(api, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *peer = sim_context_get(handle);
    if (!peer)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (peer == context || !atomic_load(&peer->alive))
        res = CUDA_ERROR_INVALID_CONTEXT;
    else
        res = change_peer(context, peer, enable);
    sim_context_put(peer);
    return res;
}

SIM_API_ONE(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags),
            peer_access(api, peer, flags, true));

SIM_API_ONE(cuCtxDisablePeerAccess, (CUcontext peer), peer_access(api, peer, 0, false));
