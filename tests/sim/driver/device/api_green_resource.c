/*
 * api_green_resource.c - resources of devices and green contexts, and how they are split.
 * A device of compute capability 9.0 has groups of eight multiprocessors; of two where
 * they need not run together. Which ones a kernel runs on changes nothing here.
 * Owns:  descriptors.   Lock: none, immutable.
 * Source: Driver API, cuDevSmResourceSplitByCount, cuDevResourceGenerateDesc.
 */
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "green.h"
#include "green_resource.h"

#if CUDA_VERSION >= 12040

enum {
#define SIM_ATTRIBUTE(number, name, value) name = (value),
#include "attributes.def"
#undef SIM_ATTRIBUTE
};

#define MAGIC               0x6e656572675f6d69u
#define TOGETHER            8 /* multiprocessors of a group that runs together */
#define APART               2 /* where they need not */
#define KNOWN_FLAGS         3u
#define IGNORE_COSCHEDULING 1u

/* What the unused bytes of a resource hold. */
struct inside {
    uint64_t magic;
    uint64_t multiprocessors; /* a bit for each */
    uint64_t split;           /* the call that split it off; 0: none */
    int device;
};
static_assert(sizeof(struct inside) <= sizeof(((CUdevResource *)0)->_internal_padding),
              "a resource has room for it");

/* The part programs see: as in the newest headers, older ones have the first alone. */
struct shown {
    unsigned count, smallest, alignment;
};

struct desc {
    struct sim_object object;
    struct inside inside;
};

static atomic_ullong last_split; /* atomic */

static unsigned count_of(uint64_t multiprocessors)
{
    return (unsigned)__builtin_popcountll(multiprocessors);
}

static uint64_t all_multiprocessors(void)
{
    return (1ull << MULTIPROCESSOR_COUNT) - 1;
}

static void fill(CUdevResource *out, const struct inside *inside, unsigned granularity)
{
    const struct shown shown = {count_of(inside->multiprocessors), granularity,
                                granularity};

    memset(out, 0, sizeof(*out));
    if (shown.count == 0)
        return; /* CU_DEV_RESOURCE_TYPE_INVALID */
    out->type = CU_DEV_RESOURCE_TYPE_SM;
    memcpy(out->_internal_padding, inside, sizeof(*inside));
    memcpy(&out->sm, &shown, sizeof(shown));
}

/* Errors: CUDA_ERROR_INVALID_RESOURCE_TYPE, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION
 * (nobody gave it out) */
static CUresult read(const CUdevResource *resource, struct inside *out)
{
    if (resource->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    memcpy(out, resource->_internal_padding, sizeof(*out));
    return out->magic == MAGIC && out->multiprocessors != 0
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
}

/* Tell of the multiprocessors of a device or green context. */
static CUresult tell(int device, uint64_t multiprocessors, CUdevResource *out,
                     CUdevResourceType type)
{
    const struct inside inside = {
        .magic = MAGIC, .multiprocessors = multiprocessors, .device = device};

    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    fill(out, &inside, TOGETHER);
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetDevResource, CUdevice device, CUdevResource *out,
        CUdevResourceType type)
{
    SIM_TRY(sim_enter(SIM_ID_cuDeviceGetDevResource));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return tell(device, all_multiprocessors(), out, type);
}

SIM_API(cuCtxGetDevResource, CUcontext handle, CUdevResource *out, CUdevResourceType type)
{
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);

    SIM_TRY(sim_enter(SIM_ID_cuCtxGetDevResource));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *context = sim_context_get_any(handle);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult res =
        tell(context->device,
             context->green ? context->green->multiprocessors : all_multiprocessors(),
             out, type);
    sim_context_put(context);
    return res;
}

SIM_API(cuGreenCtxGetDevResource, CUgreenCtx handle, CUdevResource *out,
        CUdevResourceType type)
{
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);

    SIM_TRY(sim_enter(SIM_ID_cuGreenCtxGetDevResource));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_green *green = sim_green_get(handle);
    if (!green)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult res = tell(green->primary->device, green->multiprocessors, out, type);
    sim_green_put(green);
    return res;
}

/* The lowest multiprocessors of a set are taken out of it. */
static uint64_t take(uint64_t *from, unsigned count)
{
    uint64_t taken = 0;

    while (count-- > 0 && *from) {
        uint64_t lowest = *from & -*from;
        taken |= lowest;
        *from &= ~lowest;
    }
    return taken;
}

static CUresult check_split(const unsigned *count, const CUdevResource *input,
                            unsigned flags, unsigned smallest, struct inside *inside)
{
    if (!count || !input || (flags & ~KNOWN_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;

    SIM_TRY(read(input, inside));
    if (inside->split != 0) /* only what is a context's can be split */
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    return smallest <= count_of(inside->multiprocessors) ? CUDA_SUCCESS
                                                         : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuDevSmResourceSplitByCount, CUdevResource *result, unsigned int *count,
        const CUdevResource *input, CUdevResource *remaining, unsigned int flags,
        unsigned int smallest)
{
    struct inside left, part;

    SIM_TRY(sim_enter(SIM_ID_cuDevSmResourceSplitByCount));
    SIM_TRY(check_split(count, input, flags, smallest, &left));
    unsigned granularity = flags & IGNORE_COSCHEDULING ? APART : TOGETHER;
    unsigned each = smallest ? (unsigned)gs_round_up(smallest, granularity) : granularity;
    unsigned most = count_of(left.multiprocessors) / each;
    if (!result) {
        *count = most;
        return CUDA_SUCCESS;
    }
    if (most < *count)
        *count = most;
    left.split = 1 + atomic_fetch_add(&last_split, 1);
    for (unsigned i = 0; i < *count; i++) {
        part = left;
        part.multiprocessors = take(&left.multiprocessors, each);
        fill(&result[i], &part, granularity);
    }
    if (remaining)
        fill(remaining, &left, granularity);
    return CUDA_SUCCESS;
}

static void destroy_desc(struct sim_object *object)
{
    free(object);
}

/* All resources in one; those of one descriptor come from the same split. */
static CUresult join(const CUdevResource *resources, unsigned count, struct inside *out)
{
    CUresult res = read(&resources[0], out);

    for (unsigned i = 1; i < count && res == CUDA_SUCCESS; i++) {
        struct inside more;
        res = read(&resources[i], &more);
        if (res == CUDA_SUCCESS &&
            (more.device != out->device || more.split == 0 || more.split != out->split))
            res = CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        if (res == CUDA_SUCCESS)
            out->multiprocessors |= more.multiprocessors;
    }
    return res;
}

/* No call destroys a descriptor. */
SIM_API(cuDevResourceGenerateDesc, CUdevResourceDesc *out, CUdevResource *resources,
        unsigned int count)
{
    SIM_JUDGED_FIRST(!out || !resources, CUDA_ERROR_INVALID_VALUE);

    struct inside inside;

    SIM_TRY(sim_enter(SIM_ID_cuDevResourceGenerateDesc));
    if (!out || !resources || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(join(resources, count, &inside));
    struct desc *desc = calloc(1, sizeof(*desc));
    if (!desc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&desc->object, SIM_TYPE_RESOURCES, destroy_desc);
    desc->inside = inside;
    void *handle = sim_handle_open(&desc->object);
    if (handle)
        *out = handle;
    sim_object_unref(&desc->object);
    return handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool sim_green_resource_read(const void *handle, CUdevice device, uint64_t *out)
{
    struct desc *desc = (struct desc *)sim_handle_get(handle, SIM_TYPE_RESOURCES);

    if (!desc)
        return false;
    bool right = desc->inside.device == device;
    *out = desc->inside.multiprocessors;
    sim_object_unref(&desc->object);
    return right;
}

#else

SIM_API_TOO_NEW(cuDeviceGetDevResource)
SIM_API_TOO_NEW(cuCtxGetDevResource)
SIM_API_TOO_NEW(cuGreenCtxGetDevResource)
SIM_API_TOO_NEW(cuDevSmResourceSplitByCount)
SIM_API_TOO_NEW(cuDevResourceGenerateDesc)

bool sim_green_resource_read(const void *handle, CUdevice device, uint64_t *out)
{
    (void)handle;
    (void)device;
    (void)out;
    return false;
}

#endif
