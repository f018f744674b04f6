/*
 * case_primary_life.c - primary contexts: retained, released, reset. In processes in
 * which nobody else holds them.
 */
#include "case_context_help.h"

static int is_active(CUdevice device)
{
    unsigned flags = 0;
    int active = -1;

    CHECK_OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    return active;
}

static CUcontext retain(CUdevice device)
{
    CUcontext context = NULL;

    CHECK_OK(cuDevicePrimaryCtxRetain(&context, device));
    return context;
}

/* Does a context of the calling thread serve an allocation? */
static void check_usable(void)
{
    CUdeviceptr pointer = 0;

    if (CHECK_OK(cuMemAlloc(&pointer, 4096))) {
        CHECK_OK(cuMemsetD8(pointer, 3, 4096));
        CHECK_OK(cuCtxSynchronize());
        CHECK_OK(cuMemFree(pointer));
    }
}

UNINITIALIZED_CASE(primary, inactive_at_first, DRIVER_API, "cuDevicePrimaryCtxGetState",
                   "*active: 0 = inactive, 1 = active; active once it is retained")
{
    CHECK_OK(cuInit(0));
    CHECK_EQUAL(is_active(0), 0);
    CHECK(retain(0) != NULL);
    CHECK_EQUAL(is_active(0), 1);
    CHECK_OK(cuDevicePrimaryCtxRelease(0));
}

UNINITIALIZED_CASE(primary, release_unretained, DRIVER_API, "cuDevicePrimaryCtxRelease",
                   "Releasing a primary context that has not been previously retained "
                   "will fail with CUDA_ERROR_INVALID_CONTEXT")
{
    CHECK_OK(cuInit(0));
    CHECK_CODE(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    CHECK(retain(0) != NULL);
    CHECK_OK(cuDevicePrimaryCtxRelease(0));
    CHECK_CODE(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

UNINITIALIZED_CASE(primary, is_counted, DRIVER_API, "cuDevicePrimaryCtxRelease",
                   "The context is automatically reset once the last reference to it is "
                   "released")
{
    CHECK_OK(cuInit(0));
    CUcontext first = retain(0), second = retain(0);
    CHECK(first == second);
    CHECK_OK(cuDevicePrimaryCtxRelease(0));
    CHECK_EQUAL(is_active(0), 1);
    CHECK_OK(cuCtxSetCurrent(first));
    check_usable();
    CHECK_OK(cuDevicePrimaryCtxRelease(0));
    CHECK_EQUAL(is_active(0), 0);
}

UNINITIALIZED_CASE(primary, not_pushed, DRIVER_API, "cuDevicePrimaryCtxRetain",
                   "Unlike cuCtxCreate() the newly retained context is not pushed onto "
                   "the stack")
{
    CHECK_OK(cuInit(0));
    CHECK(retain(0) != NULL);
    CHECK(current_context() == NULL);
    CHECK_OK(cuDevicePrimaryCtxRelease(0));
}

UNINITIALIZED_CASE(
    primary, not_popped, DRIVER_API, "cuDevicePrimaryCtxRelease",
    "Unlike cuCtxDestroy() this method does not pop the context from stack "
    "in any circumstances")
{
    CHECK_OK(cuInit(0));
    CUcontext context = retain(0);
    CHECK_OK(cuCtxPushCurrent(context));
    CHECK_OK(cuDevicePrimaryCtxRelease(0));
    CHECK(current_context() == context);
}

UNINITIALIZED_CASE(primary, retained_again, DRIVER_API, "cuDevicePrimaryCtxRetain",
                   "Once the user successfully retains the primary context, it will be "
                   "active and available until it is released: again after a release")
{
    CHECK_OK(cuInit(0));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(cuCtxSetCurrent(retain(0)));
        check_usable();
        CHECK_OK(cuDevicePrimaryCtxRelease(0));
        CHECK_EQUAL(is_active(0), 0);
    }
}

OWN_PROCESS_CASE(primary, reset_ends_it, DRIVER_API, "cuDevicePrimaryCtxReset",
                 "Explicitly destroys and cleans up all resources associated with the "
                 "current device in the current process")
{
    CUdeviceptr pointer = 0;

    CHECK_OK(cuMemAlloc(&pointer, GS_MIB));
    CHECK_OK(cuDevicePrimaryCtxReset(the_device()));
    CHECK_EQUAL(is_active(the_device()), 0);
}

OWN_PROCESS_CASE(primary, reset_then_release, DRIVER_API, "cuDevicePrimaryCtxReset",
                 "It is safe for other modules to call cuDevicePrimaryCtxRelease() even "
                 "after resetting the device; an application that has retained the "
                 "primary context should explicitly release its usage")
{
    CHECK_OK(cuDevicePrimaryCtxReset(the_device()));
    CHECK_OK(cuDevicePrimaryCtxRelease(the_device()));
}

OWN_PROCESS_CASE(primary, reset_then_reuse, DRIVER_API, "cuDevicePrimaryCtxRetain",
                 "Once the user successfully retains the primary context, it will be "
                 "active and available: after a reset too")
{
    CHECK_OK(cuDevicePrimaryCtxReset(the_device()));
    CUcontext context = retain(the_device());
    CHECK_EQUAL(is_active(the_device()), 1);
    CHECK_OK(cuCtxSetCurrent(context));
    check_usable();
}

OWN_PROCESS_CASE(primary, reset_of_another, DRIVER_API, "cuDevicePrimaryCtxReset",
                 "Destroys all allocations and resets all state on the primary context: "
                 "that of another device stays")
{
    CUdevice other;

    if (!second_device(&other))
        return;
    CHECK(retain(other) != NULL);
    CHECK_OK(cuDevicePrimaryCtxReset(other));
    CHECK_EQUAL(is_active(other), 0);
    CHECK_EQUAL(is_active(the_device()), 1);
    check_usable();
}

CASE(primary, of_no_device, DRIVER_API, "cuDevicePrimaryCtxRetain and the others",
     "CUDA_ERROR_INVALID_DEVICE: the device ordinal supplied does not correspond to a "
     "valid CUDA device")
{
    CUcontext context;
    unsigned flags;
    int active;

    CHECK_CODE(cuDevicePrimaryCtxRetain(&context, device_count()),
               CUDA_ERROR_INVALID_DEVICE);
    CHECK_CODE(cuDevicePrimaryCtxRelease(device_count()), CUDA_ERROR_INVALID_DEVICE);
    CHECK_CODE(cuDevicePrimaryCtxReset(device_count()), CUDA_ERROR_INVALID_DEVICE);
    CHECK_CODE(cuDevicePrimaryCtxGetState(device_count(), &flags, &active),
               CUDA_ERROR_INVALID_DEVICE);
    CHECK_CODE(cuDevicePrimaryCtxSetFlags(device_count(), 0), CUDA_ERROR_INVALID_DEVICE);
}
