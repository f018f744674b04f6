/*
 * spill.c - serves from host memory what a full device has refused.
 *
 * The memory is managed memory whose pages stay on the host: the device could hold them
 * only in place of other managed memory, since the program's own cannot be moved. A
 * device that cannot reach host memory while the host runs has none of it, nor has an
 * allocation while a stream captures, which managed memory would end.
 *
 * Owns:   nothing.   Lock: none.
 * Design: docs/tuning.md
 */
#include "shim/heaps/spill.h"

#include "shim/link/real.h"
#include "shim/memory/tell.h"
#include "shim/order/captures.h"
#include "shim/settings/log.h"
#include "tracker/report/text/text.h"

static bool told[GS_MAX_DEVICES]; /* atomic: a line was logged */

void gs_spill_reset(void)
{
    __builtin_memset(told, 0, sizeof(told));
}

static bool can_reach_host(CUdevice device)
{
    const struct gs_real *real = gs_real_now();
    int value = 0;
    return real->cuDeviceGetAttribute && real->cuMemAllocManaged &&
           real->cuDeviceGetAttribute(&value,
                                      CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                                      device) == CUDA_SUCCESS &&
           value != 0;
}

/* Its pages stay on the host, and the device reaches them without a fault. */
static void keep_on_host(CUdeviceptr addr, size_t bytes, CUdevice device)
{
    const struct gs_real *real = gs_real_now();
    if (real->cuMemAdvise) {
        gs_notify_begin("cuMemAlloc_v2", false);
        (void)real->cuMemAdvise(addr, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                                CU_DEVICE_CPU);
        (void)real->cuMemAdvise(addr, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device);
        gs_notify_end();
    }
}

static void tell_once(int device, size_t bytes)
{
    char text[24];
    if (!__atomic_exchange_n(&told[device], true, __ATOMIC_RELAXED)) {
        gs_log_line(GS_LOG_WARN,
                    "GPU %d is full: %s were allocated from host memory, which is "
                    "slower; more may follow (GPUSHIM_SPILL)",
                    device, gs_text_bytes(bytes, text));
    }
}

bool gs_spill_alloc(struct gs_state *state, const struct gs_call *request,
                    CUdeviceptr *out, size_t bytes)
{
    struct gs_call managed = *request;
    int device = request->device;
    if (!out || bytes == 0 || device < 0 || device >= GS_MAX_DEVICES ||
        gs_captures_active() || !can_reach_host(device) || !gs_spilled_take(bytes)) {
        return false;
    }
    CUdeviceptr addr; /* a failure leaves the program's as it is */
    if (gs_real_now()->cuMemAllocManaged(&addr, bytes, CU_MEM_ATTACH_GLOBAL) !=
        CUDA_SUCCESS) {
        gs_spilled_return(bytes);
        return false;
    }
    keep_on_host(addr, bytes, device);
    gs_spilled_record(addr, bytes, device, request->owner);
    tell_once(device, bytes);
    managed.kind = GS_MEMORY_MANAGED;
    managed.charged = true; /* no memory of the device */
    gs_tell_allocated(state, &managed, addr, bytes);
    *out = addr;
    return true;
}
