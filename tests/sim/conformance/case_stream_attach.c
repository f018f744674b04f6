/*
 * case_stream_attach.c - managed memory attached to streams: what the calls accept.
 */
#include "work.h"

#define BYTES 65536

/* Managed memory; 0 where there is none. */
static CUdeviceptr new_managed(void)
{
    CUdeviceptr managed = 0;

    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
        skip("the device has no managed memory");
    else
        CHECK_OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    return managed;
}

static void end_managed(CUdeviceptr managed)
{
    if (managed)
        CHECK_OK(cuMemFree(managed));
}

CASE(stream, attach_takes_its_turn, DRIVER_API, "cuStreamAttachMemAsync",
     "This function is a stream-ordered operation, meaning that it is dependent on, and "
     "will only take effect when, previous work in stream has completed")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr managed = new_managed();
    CUevent event = new_event();
    struct blocker blocker;

    if (managed && block_stream(&blocker, stream)) {
        CHECK_OK(cuStreamAttachMemAsync(stream, managed, 0, CU_MEM_ATTACH_SINGLE));
        CHECK_OK(cuEventRecord(event, stream));
        CHECK_CODE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK_OK(cuStreamAttachMemAsync(stream, managed, BYTES, CU_MEM_ATTACH_GLOBAL));
        CHECK_OK(cuStreamSynchronize(stream));
    }
    end_event(event);
    end_managed(managed);
}

CASE(stream, attach_to_the_null_stream, DRIVER_API, "cuStreamAttachMemAsync",
     "It is illegal to attach singly to the NULL stream, because the NULL stream is a "
     "virtual global stream and not a specific stream. An error will be returned in this "
     "case")
{
    CUdeviceptr managed = new_managed();

    if (managed) {
        CHECK_REFUSED(cuStreamAttachMemAsync(NULL, managed, 0, CU_MEM_ATTACH_SINGLE));
        CHECK_OK(cuStreamAttachMemAsync(NULL, managed, 0, CU_MEM_ATTACH_GLOBAL));
        CHECK_OK(cuStreamSynchronize(NULL));
    }
    end_managed(managed);
}

CASE(stream, attach_a_part, DRIVER_API, "cuStreamAttachMemAsync",
     "For managed allocations, length must be either zero or the entire allocation's "
     "size. Currently, it is not possible to change stream association for a portion")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr managed = new_managed();

    if (managed) {
        CHECK_REFUSED(
            cuStreamAttachMemAsync(stream, managed, BYTES / 2, CU_MEM_ATTACH_GLOBAL));
        CHECK_OK(cuStreamAttachMemAsync(stream, managed, BYTES, CU_MEM_ATTACH_GLOBAL));
        CHECK_OK(cuStreamSynchronize(stream));
    }
    end_managed(managed);
}

CASE(stream, attach_by_unknown_flags, DRIVER_API, "cuStreamAttachMemAsync",
     "The stream association is specified using flags which must be one of "
     "CUmemAttach_flags")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr managed = new_managed();

    if (managed)
        CHECK_REFUSED(cuStreamAttachMemAsync(stream, managed, 0, 0x40));
    CHECK_OK(cuStreamSynchronize(stream));
    end_managed(managed);
}

CASE(stream, attach_other_memory, DRIVER_API, "cuStreamAttachMemAsync",
     "dptr must point to managed memory, or to pageable memory where the device can "
     "access it: device memory is neither")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(16);

    CHECK_REFUSED(cuStreamAttachMemAsync(stream, words, 0, CU_MEM_ATTACH_GLOBAL));
    CHECK_OK(cuStreamSynchronize(stream));
}
