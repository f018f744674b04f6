/*
 * case_primary_flags.c - flags of primary contexts.
 */
#include "case_context_help.h"

static unsigned schedule_told(CUdevice device)
{
    unsigned flags = 0;
    int active;

    CHECK_OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    return flags & CU_CTX_SCHED_MASK;
}

UNINITIALIZED_CASE(primary, flags_are_kept, DRIVER_API, "cuDevicePrimaryCtxSetFlags",
                   "Sets the flags for the primary context on the device overwriting "
                   "previously set ones; cuDevicePrimaryCtxGetState returns them")
{
    CHECK_OK(cuInit(0));
    CHECK_OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_SPIN));
    CHECK_EQUAL(schedule_told(0), CU_CTX_SCHED_SPIN);
    CHECK_OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
    CHECK_EQUAL(schedule_told(0), CU_CTX_SCHED_BLOCKING_SYNC);
}

UNINITIALIZED_CASE(primary, flags_take_effect, DRIVER_API, "cuDevicePrimaryCtxSetFlags",
                   "Sets the flags for the primary context: the context has them once it "
                   "is retained")
{
    CUcontext context = NULL;
    unsigned flags = 0;

    CHECK_OK(cuInit(0));
    CHECK_OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD));
    CHECK_OK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK_OK(cuCtxSetCurrent(context));
    CHECK_OK(cuCtxGetFlags(&flags));
    CHECK_EQUAL(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_YIELD);
    CHECK_OK(cuDevicePrimaryCtxRelease(0));
}

OWN_PROCESS_CASE(primary, flags_while_active, DRIVER_API, "cuDevicePrimaryCtxSetFlags",
                 "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE is not among the answers: flags can "
                 "be set while the context is active")
{
    CHECK_OK(cuDevicePrimaryCtxSetFlags(the_device(), CU_CTX_SCHED_BLOCKING_SYNC));
    CHECK_EQUAL(schedule_told(the_device()), CU_CTX_SCHED_BLOCKING_SYNC);
}

OWN_PROCESS_CASE(primary, flags_refused, DRIVER_API, "cuDevicePrimaryCtxSetFlags",
                 "Only one of the scheduling flags can be set; CUDA_ERROR_INVALID_VALUE")
{
    unsigned before = schedule_told(the_device());

    CHECK_INVALID(
        cuDevicePrimaryCtxSetFlags(the_device(), CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD));
    CHECK_INVALID(cuDevicePrimaryCtxSetFlags(the_device(), 0x10000));
    CHECK_EQUAL(schedule_told(the_device()), before);
}

CASE_IS(primary, retain_nowhere, DRIVER_API, "cuDevicePrimaryCtxRetain",
        "CUDA_ERROR_INVALID_VALUE: one or more of the parameters passed is not within an "
        "acceptable range of values",
        CHECK_INVALID(cuDevicePrimaryCtxRetain(NULL, the_device())))
