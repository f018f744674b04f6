/*
 * case_context_stack.c - which context is current: create, push, pop, set, get, by
 * thread.
 */
#include "case_context_help.h"

CASE(context, create_is_current, DRIVER_API, "cuCtxCreate",
     "If a context is already current to the thread, it is supplanted by the newly "
     "created context and may be restored by a subsequent call to cuCtxPopCurrent()")
{
    CUcontext created = create_context(0), popped = NULL;

    CHECK(created != NULL && created != the_context());
    CHECK(current_context() == created);
    CHECK_OK(cuCtxPopCurrent(&popped));
    CHECK(popped == created);
    CHECK(current_context() == the_context());
    CHECK_OK(cuCtxDestroy(created));
}

CASE(context, destroy_pops, DRIVER_API, "cuCtxDestroy",
     "If ctx is current to the calling thread then ctx will also be popped from the "
     "current thread's context stack")
{
    CUcontext created = create_context(0);

    CHECK_OK(cuCtxDestroy(created));
    CHECK(current_context() == the_context());
}

CASE(context, destroy_of_another, DRIVER_API, "cuCtxDestroy",
     "If ctx is current to the calling thread then ctx will also be popped: one that is "
     "not current leaves the stack alone")
{
    CUcontext created = create_context(0), popped = NULL;

    CHECK_OK(cuCtxPopCurrent(&popped));
    CHECK_OK(cuCtxPushCurrent(the_context()));
    CHECK_OK(cuCtxDestroy(created));
    CHECK(current_context() == the_context());
    CHECK_OK(cuCtxPopCurrent(&popped));
    CHECK(popped == the_context());
    CHECK(current_context() == the_context());
}

CASE(context, push_and_pop, DRIVER_API, "cuCtxPushCurrent, cuCtxPopCurrent",
     "Pushes the given context onto the stack; pop passes back the old context handle "
     "and makes the one before current again")
{
    CUcontext created = create_context(0), popped = NULL;

    CHECK_OK(cuCtxPushCurrent(the_context()));
    CHECK(current_context() == the_context());
    CHECK_OK(cuCtxPushCurrent(created));
    CHECK(current_context() == created);
    CHECK_OK(cuCtxPopCurrent(&popped));
    CHECK(popped == created);
    CHECK_OK(cuCtxPopCurrent(&popped));
    CHECK(popped == the_context());
    CHECK(current_context() == created);
    CHECK_OK(cuCtxDestroy(created));
}

static void pop_nothing(void *argument)
{
    CUcontext popped = argument;

    CHECK_CODE(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
}

CASE_IS(context, pop_nothing, DRIVER_API, "cuCtxPopCurrent",
        "CUDA_ERROR_INVALID_CONTEXT: there is no context bound to the current thread",
        on_bare_thread(pop_nothing, NULL))

CASE(context, set_replaces_top, DRIVER_API, "cuCtxSetCurrent",
     "If there exists a CUDA context stack on the calling CPU thread, this will replace "
     "the top of that stack with ctx")
{
    CUcontext created = create_context(0), popped = NULL;

    CHECK_OK(cuCtxPushCurrent(the_context()));
    switch_to(created);
    CHECK(current_context() == created);
    CHECK_OK(cuCtxPopCurrent(&popped));
    CHECK(popped == created);
    CHECK(current_context() == created);
    CHECK_OK(cuCtxDestroy(created));
    CHECK(current_context() == the_context());
}

CASE(context, set_null_pops, DRIVER_API, "cuCtxSetCurrent",
     "If ctx is NULL then this will be equivalent to popping the top of the calling CPU "
     "thread's CUDA context stack")
{
    CUcontext created = create_context(0);

    CHECK_OK(cuCtxSetCurrent(NULL));
    CHECK(current_context() == the_context());
    CHECK_OK(cuCtxDestroy(created));
}

static void set_null(void *argument)
{
    CHECK(argument == NULL && current_context() == NULL);
    CHECK_OK(cuCtxSetCurrent(NULL));
    CHECK(current_context() == NULL);
}

CASE_IS(context, set_null_on_nothing, DRIVER_API, "cuCtxSetCurrent",
        "If ctx is NULL: a no-op if the calling CPU thread's CUDA context stack is empty",
        on_bare_thread(set_null, NULL))

CASE(context, get_without_one, DRIVER_API, "cuCtxGetCurrent",
     "If no context is bound to the calling CPU thread then *pctx is set to NULL and "
     "CUDA_SUCCESS is returned")
{
    CUcontext left = NULL, top = NULL;

    while (current_context())
        if (!CHECK_OK(cuCtxPopCurrent(&top)))
            break;
    left = top; /* anything but NULL */
    CHECK_OK(cuCtxGetCurrent(&left));
    CHECK(left == NULL);
    switch_to(the_context());
}

CASE_IS(context, get_nowhere, DRIVER_API, "cuCtxGetDevice",
        "CUDA_ERROR_INVALID_VALUE: one or more of the parameters passed is not within an "
        "acceptable range of values",
        CHECK_INVALID(cuCtxGetDevice(NULL)))

static void bind_own(void *argument)
{
    CUcontext created = argument;

    switch_to(created);
    CHECK(current_context() == created);
}

CASE(context, per_thread, DRIVER_API, "cuCtxSetCurrent",
     "Binds the specified CUDA context to the calling CPU thread: other threads keep "
     "theirs")
{
    CUcontext created = create_context(0);

    switch_to(the_context());
    on_bare_thread(bind_own, created);
    CHECK(current_context() == the_context());
    CHECK_OK(cuCtxDestroy(created));
}

/* One block, in a context that several threads have current. */
struct shared {
    CUcontext context;
    CUdeviceptr pointer;
};

static void make_block(void *argument)
{
    struct shared *shared = argument;

    switch_to(shared->context);
    CHECK_OK(cuMemAlloc(&shared->pointer, 16));
}

static void end_block_there(void *argument)
{
    struct shared *shared = argument;

    switch_to(shared->context);
    CHECK_OK(cuMemFree(shared->pointer));
}

CASE(context, of_several_threads, GUIDE, "Driver API, Context",
     "A context is analogous to a CPU process: what one of its threads makes, another "
     "may use")
{
    struct shared shared = {the_context(), 0};
    unsigned char byte = 0;

    on_bare_thread(make_block, &shared);
    CHECK_OK(cuMemsetD8(shared.pointer, 9, 16));
    CHECK_OK(cuMemcpyDtoH(&byte, shared.pointer + 15, 1));
    CHECK_EQUAL(byte, 9);
    on_bare_thread(end_block_there, &shared);
}

static void memory_without_context(void *argument)
{
    CUdeviceptr pointer = 0;
    size_t free_bytes, total_bytes;

    CHECK(argument == NULL);
    CHECK_CODE(cuMemAlloc(&pointer, 256), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(cuMemGetInfo(&free_bytes, &total_bytes), CUDA_ERROR_INVALID_CONTEXT);
}

CASE_IS(
    context, memory_needs_one, DRIVER_API, "cuMemAlloc, cuMemGetInfo",
    "CUDA_ERROR_INVALID_CONTEXT: this most frequently indicates that there is no context "
    "bound to the current thread",
    on_bare_thread(memory_without_context, NULL))

static void work_without_context(void *argument)
{
    CUstream stream = NULL;
    CUevent event = NULL;

    CHECK(argument == NULL);
    CHECK_CODE(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(cuEventCreate(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}

CASE_IS(
    context, work_needs_one, DRIVER_API,
    "cuStreamCreate, cuEventCreate, cuCtxSynchronize",
    "CUDA_ERROR_INVALID_CONTEXT: this most frequently indicates that there is no context "
    "bound to the current thread",
    on_bare_thread(work_without_context, NULL))

static void state_without_context(void *argument)
{
    CUdevice device;
    CUmodule module;
    unsigned flags;

    CHECK(argument == NULL);
    CHECK_CODE(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(cuCtxGetFlags(&flags), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(cuModuleLoadData(&module, two_kernels), CUDA_ERROR_INVALID_CONTEXT);
}

CASE_IS(
    context, state_needs_one, DRIVER_API,
    "cuCtxGetDevice, cuCtxGetFlags, cuModuleLoadData",
    "CUDA_ERROR_INVALID_CONTEXT: this most frequently indicates that there is no context "
    "bound to the current thread",
    on_bare_thread(state_without_context, NULL))
