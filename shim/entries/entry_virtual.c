/*
 * entry_virtual.c - virtual memory management: physical memory, its mappings, multicast
 * objects, logical endpoints.
 *
 * The driver's own, forwarded. The report records the owner of physical memory as long as
 * it is reachable (physical.h), and it is charged against GPUSHIM_MEM_LIMIT. An address
 * reservation is not memory, and exports are unchanged. Idle memory of the pool must not
 * make cuMemCreate fail, so a failed call is repeated after idle memory was reclaimed.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/checks/described.h"
#include "shim/cuda/location.h"
#include "shim/heaps/moving_pages.h"
#include "shim/heaps/releasable.h"
#include "shim/lifetimes/physical.h"
#include "shim/memory/tell.h"
#include "shim/pooled_memory.h"
#include "shim/serve/driver.h"

/* The state if physical memory is recorded; gs_leave must follow then. */
static struct gs_state *enter_recording(void)
{
    struct gs_state *state = gs_enter();
    if (state && !gs_physical_wanted(state)) {
        gs_leave();
        return NULL;
    }
    return state;
}

static uint64_t key_of(CUmemGenericAllocationHandle handle)
{
    return gs_key(GS_KEY_ALLOCATION, handle);
}

/* Physical memory, which outlives every context. */
static struct gs_call call_of(const struct gs_context *context, enum gs_memory_kind kind,
                              enum gs_api api, int device)
{
    struct gs_call call = gs_call_in(context, kind, api);
    call.owner = NULL;
    call.device = device;
    return call;
}

/* ---- create and release ------------------------------------------------------------ */

/* A call of cuMemCreate. */
struct creation {
    CUmemGenericAllocationHandle *handle;
    size_t size;
    const CUmemAllocationProp *prop;
    unsigned long long flags;
};

/* The device of the memory by its properties (gs_described), or the calling thread's, for
 * a type of location that is not known; -1: the host, or unreadable. */
static int device_in(const CUmemAllocationProp *prop, const struct gs_context *context,
                     CUresult result)
{
    CUmemLocation location;
    return prop && gs_described(&location, &prop->location, sizeof(location), result)
               ? gs_location_device(&location, context ? context->device : 0)
               : -1;
}

/* The answer to a creation that does not fit the limit: the driver's own error comes
 * first, for a size that is no multiple of the granularity, or for the properties. */
static CUresult refusal_code(const struct creation *call, CUresult refused)
{
    size_t step = 0;
    if (refused != CUDA_ERROR_OUT_OF_MEMORY ||
        !gs_real()->cuMemGetAllocationGranularity) {
        return refused;
    }
    CUresult result = gs_real()->cuMemGetAllocationGranularity(
        &step, call->prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result == CUDA_SUCCESS && (call->flags || (step && call->size % step))) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return result == CUDA_SUCCESS ? refused : result;
}

/* The prop is read only now: the driver may refuse a call without reading it. */
static bool retry_create(struct gs_state *state, const struct gs_context *context,
                         const struct creation *call)
{
    int device = device_in(call->prop, context, CUDA_ERROR_OUT_OF_MEMORY);
    return gs_retry(state, context, device, device >= 0 ? call->size : 0);
}

/* cuMemCreate: charged, and repeated after idle memory was reclaimed. */
static CUresult create_physical(struct gs_state *state, const struct creation *call)
{
    /* Needed only to reclaim idle memory; but a limit is found by its context. */
    const struct gs_context *context = GS_UNLIKELY(gs_limits_charging)
                                           ? gs_context_current(state)
                                           : gs_context_current_known(state);
    int charged = GS_UNLIKELY(gs_limits_charging) && call->handle
                      ? device_in(call->prop, context, CUDA_ERROR_UNKNOWN)
                      : -1;
    CUresult result = GS_SERVED_ELSE(
        retry_create(state, context, call), charged, call->size,
        gs_real()->cuMemCreate(call->handle, call->size, call->prop, call->flags),
        refusal_code(call, refused));
    /* Read after the call: the driver may refuse it without reading its prop. */
    int device = device_in(call->prop, context, result);
    bool on_device = device >= 0;
    struct gs_call made =
        call_of(context, on_device ? GS_MEMORY_PHYSICAL : GS_MEMORY_PHYSICAL_HOST,
                GS_API_cuMemCreate, device);
    made.charged = charged >= 0;
    if (result != CUDA_SUCCESS) {
        gs_tell_refused(state, &made, call->size, result);
    } else if (gs_physical_wanted(state)) {
        gs_physical_created(state, &made, key_of(*call->handle), call->size, false);
    }
    return result;
}

GS_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                               const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuMemCreate(handle, size, prop, flags);
    }
    const struct creation call = {handle, size, prop, flags};
    CUresult result = create_physical(state, &call);
    gs_leave_served(state);
    return result;
}

GS_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct gs_state *state = enter_recording();
    if (!state) {
        return gs_real()->cuMemRelease(handle);
    }
    struct gs_physical *physical = gs_physical_release(key_of(handle));
    CUresult result = gs_real()->cuMemRelease(handle);
    if (physical) {
        gs_physical_released(state, physical, !gs_refused(result), GS_API_cuMemRelease);
    } else if (gs_record_unknown(result)) {
        gs_record_bad_free(state, key_of(handle), GS_API_cuMemRelease);
    }
    gs_leave();
    return result;
}

/* The state after a success, if physical memory is recorded; gs_leave must follow
 * then. */
static struct gs_state *enter_after(CUresult result)
{
    return result == CUDA_SUCCESS ? enter_recording() : NULL;
}

/* The address to pass for a query of a handle by address. For the pool's pages it is an
 * address that no memory has: natively memory of cuMemAlloc has no handle either. */
static void *address_to_query(void *addr)
{
    struct gs_state *state =
        gs_moving_pages_wanted || gs_alloc_detours ? gs_enter() : NULL;
    struct gs_range range;
    if (state) {
        if (gs_pooled_find(state, (CUdeviceptr)(uintptr_t)addr, &range) == GS_OK &&
            range.paged) {
            gs_moving_pages_end("cuMemRetainAllocationHandle");
            addr = (void *)(uintptr_t)gs_unknown_address;
        }
        gs_leave();
    }
    return addr;
}

static void address_retained(CUresult result, void *addr)
{
    GS_WITHIN(enter_after(result), gs_physical_retained((CUdeviceptr)(uintptr_t)addr));
}

/* ---- memory of other processes ----------------------------------------------------- */

/* The device of imported memory; -1: on the host, or not reported by the driver. */
static int device_of(CUmemGenericAllocationHandle handle)
{
    CUmemAllocationProp prop;
    return gs_real()->cuMemGetAllocationPropertiesFromHandle &&
                   gs_real()->cuMemGetAllocationPropertiesFromHandle(&prop, handle) ==
                       CUDA_SUCCESS
               ? gs_location_device(&prop.location, -1)
               : -1;
}

/* Records imported memory. A driver may return a handle that this process already has,
 * for memory that the process itself exported. No call reports the size of another
 * process's memory: it is known once the memory is mapped. */
static void handle_imported(CUresult result, const CUmemGenericAllocationHandle *handle)
{
    struct gs_state *state = enter_after(result);
    if (!state) {
        return;
    }
    if (!gs_physical_referenced(key_of(*handle))) {
        const struct gs_call call =
            call_of(NULL, GS_MEMORY_IMPORTED, GS_API_cuMemImportFromShareableHandle,
                    device_of(*handle));
        gs_physical_created(state, &call, key_of(*handle), 0, true);
    }
    gs_leave();
}

/* ---- mappings ---------------------------------------------------------------------- */

static void range_mapped(CUresult result, CUmemGenericAllocationHandle handle,
                         CUdeviceptr ptr, size_t size, size_t offset)
{
    GS_WITHIN(enter_after(result), gs_physical_mapped(state, handle, ptr, size, offset));
}

static void range_unmapped(CUresult result, CUdeviceptr ptr, size_t size)
{
    GS_WITHIN(enter_after(result), gs_physical_unmapped(state, ptr, size));
}

static CUcontext current_owner(struct gs_state *state)
{
    const struct gs_context *context = gs_context_current(state);
    return context ? context->owner : NULL;
}

/* Parts of arrays without memory of their own were mapped. */
static void mapped_tiles(CUresult result, CUarrayMapInfo *list, unsigned count)
{
    GS_WITHIN(enter_after(result),
              gs_physical_array_mapped(state, list, count, current_owner(state)));
}

/* ---- multicast --------------------------------------------------------------------- */

static void made_multicast(CUresult result, const CUmemGenericAllocationHandle *object,
                           const CUmulticastObjectProp *prop)
{
    GS_WITHIN(enter_after(result), {
        struct gs_call call = gs_call_in(gs_context_current(state), GS_MEMORY_MULTICAST,
                                         GS_API_cuMulticastCreate);
        call.owner = NULL;
        gs_physical_created(state, &call, key_of(*object), prop->size, false);
    });
}

/* ---- bindings to multicast objects and logical endpoints ----------------------------- */

static uint64_t endpoint_key(CUlogicalEndpointId id)
{
    return gs_key(GS_KEY_ENDPOINT, id);
}

/* Records a binding: of the handle's memory, or of the memory mapped at the address. */
static void memory_bound(CUresult result, struct gs_bound bound)
{
    GS_WITHIN(enter_after(result), gs_physical_bound(&bound));
}

static void memory_unbound(CUresult result, struct gs_bound range)
{
    GS_WITHIN(enter_after(result), gs_physical_unbound(state, &range));
}

/* "Any memory bound by this process to any device associated with the logical endpoint
 * will be unbound" (cuLogicalEndpointDestroy). */
static void endpoint_ended(CUresult result, CUlogicalEndpointId id, enum gs_api api)
{
    GS_WITHIN(enter_after(result),
              gs_physical_object_ended(state, endpoint_key(id), api));
}

#define GS_FILE_virtual ,
#include "shim/entries/forward.h"
