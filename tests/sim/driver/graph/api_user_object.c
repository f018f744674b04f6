/*
 * api_user_object.c - user objects, and the references graphs hold to them.
 * Owns:  nothing.   Lock: graph_lock for what a graph holds.
 * Source: Driver API, cuUserObjectCreate and its kin.
 */
#include <limits.h>
#include <stdlib.h>

#include "user_object.h"

static void destroy(struct sim_object *object)
{
    free(object);
}

SIM_API(cuUserObjectCreate, CUuserObject *out, void *data, CUhostFn destructor,
        unsigned int count, unsigned int flags)
{
    SIM_JUDGED_FIRST(!out || !destructor || !count || !flags, CUDA_ERROR_INVALID_VALUE);

    SIM_TRY(sim_enter(SIM_ID_cuUserObjectCreate));
    if (!out || !destructor || count == 0 || count > INT_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_user_object *user = calloc(1, sizeof(*user));
    if (!user)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&user->object, SIM_TYPE_USER_OBJECT, destroy);
    atomic_init(&user->count, count);
    user->destructor = destructor;
    user->data = data;
    void *handle = sim_handle_open(&user->object);
    if (handle)
        *out = handle;
    sim_object_unref(&user->object);
    return handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The door of a call with an object and a number of references. */
static CUresult enter(enum sim_api api, CUuserObject handle, unsigned count,
                      struct sim_user_object **out)
{
    SIM_TRY(sim_enter(api));
    if (count == 0 || count > INT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *out = sim_user_object_get(handle);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuUserObjectRetain, CUuserObject handle, unsigned int count)
{
    SIM_JUDGED_FIRST(!handle || !count, CUDA_ERROR_INVALID_VALUE);

    struct sim_user_object *user;

    SIM_TRY(enter(SIM_ID_cuUserObjectRetain, handle, count, &user));
    sim_user_object_retain(user, count);
    sim_object_unref(&user->object);
    return CUDA_SUCCESS;
}

/* Releasing more references than there are is refused; whose they are is not known. */
SIM_API(cuUserObjectRelease, CUuserObject handle, unsigned int count)
{
    SIM_JUDGED_FIRST(!handle || !count, CUDA_ERROR_INVALID_VALUE);

    struct sim_user_object *user;
    CUresult res = enter(SIM_ID_cuUserObjectRelease, handle, count, &user);

    if (res != CUDA_SUCCESS)
        return res;
    if (count <= atomic_load(&user->count))
        sim_user_object_release(user, count);
    else
        res = CUDA_ERROR_INVALID_VALUE;
    sim_object_unref(&user->object);
    return res;
}

SIM_API(cuGraphRetainUserObject, CUgraph graph_handle, CUuserObject handle,
        unsigned int count, unsigned int flags)
{
    struct sim_user_object *user;
    CUresult res = enter(SIM_ID_cuGraphRetainUserObject, handle, count, &user);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_graph *graph = sim_graph_get(graph_handle);
    bool moves = flags == CU_GRAPH_USER_OBJECT_MOVE;
    if (!graph || (flags != 0 && !moves) || (moves && count > atomic_load(&user->count)))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS) {
        if (!moves)
            sim_user_object_retain(user, count);
        pthread_mutex_lock(&sim_graph_lock);
        if (!sim_held_add(&graph->held, user, count))
            res = CUDA_ERROR_OUT_OF_MEMORY;
        pthread_mutex_unlock(&sim_graph_lock);
        if (res != CUDA_SUCCESS && !moves)
            sim_user_object_release(user, count);
    }
    if (graph)
        sim_graph_put(graph);
    sim_object_unref(&user->object);
    return res;
}

SIM_API(cuGraphReleaseUserObject, CUgraph graph_handle, CUuserObject handle,
        unsigned int count)
{
    struct sim_user_object *user;

    SIM_TRY(enter(SIM_ID_cuGraphReleaseUserObject, handle, count, &user));
    struct sim_graph *graph = sim_graph_get(graph_handle);
    CUresult res = CUDA_ERROR_INVALID_VALUE;
    if (graph) {
        pthread_mutex_lock(&sim_graph_lock);
        if (sim_held_remove(&graph->held, user, count))
            res = CUDA_SUCCESS;
        pthread_mutex_unlock(&sim_graph_lock);
        sim_graph_put(graph);
    }
    sim_object_unref(&user->object);
    return res;
}
