/*
 * api_stream_attribute.c - the attributes of streams. They are hints to a device and
 * change nothing in the order of work; what is captured from a stream takes those along
 * that a kernel's node has too.
 *
 * Only the member that an attribute names is read or written: programs built before CUDA
 * 11.8 pass a union that ends behind the access policy window.
 *
 * Owns:  each stream's attributes.   Lock: attributes_lock, taken last.
 * Source: Driver API, cuStreamSetAttribute, CUlaunchAttributeID.
 */
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "launch.h"
#include "stream.h"

/* Guards the attributes of every stream; nothing else is taken while it is held. */
static pthread_mutex_t attributes_lock = PTHREAD_MUTEX_INITIALIZER;

/* Bytes of the attribute's member; 0: streams do not have it. */
static size_t member_bytes(unsigned id)
{
    switch (id) {
    case SIM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        return sizeof(CUaccessPolicyWindow);
    case SIM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        return sizeof(CUsynchronizationPolicy);
    case SIM_ATTRIBUTE_PRIORITY:
        return sizeof(int);
    case SIM_ATTRIBUTE_DOMAIN_MAP:
        return 2; /* a byte for each of the two domains */
    case SIM_ATTRIBUTE_DOMAIN:
    case SIM_ATTRIBUTE_NVLINK:
        return sizeof(unsigned);
    default:
        return 0;
    }
}

/* What an attribute is while nobody set it. */
static void read_default(const struct sim_stream *stream, unsigned id,
                         CUlaunchAttributeValue *out)
{
    const int priority = stream->priority;

    memset(out, 0, sizeof(*out));
    if (id == SIM_ATTRIBUTE_SYNCHRONIZATION_POLICY)
        out->syncPolicy = CU_SYNC_POLICY_AUTO;
    else if (id == SIM_ATTRIBUTE_PRIORITY)
        memcpy(out, &priority, sizeof(priority));
    else if (id == SIM_ATTRIBUTE_DOMAIN_MAP)
        out->pad[1] = 1; /* the default domain is 0, the remote one another */
}

static CUresult check(unsigned id, const CUlaunchAttributeValue *value)
{
    if (id != SIM_ATTRIBUTE_SYNCHRONIZATION_POLICY)
        return sim_attribute_check(id, value, NULL);
    return value->syncPolicy >= CU_SYNC_POLICY_AUTO &&
                   value->syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* The stream's attributes, made at first use; NULL without memory. Needs the lock. */
static struct sim_attributes *attributes_of(struct sim_stream *stream)
{
    if (!stream->attributes)
        stream->attributes = calloc(1, sizeof(*stream->attributes));
    return stream->attributes;
}

void sim_stream_give_attributes(const struct sim_stream *stream,
                                struct sim_attributes *node)
{
    pthread_mutex_lock(&attributes_lock);
    const struct sim_attributes *mine = stream->attributes;
    for (unsigned id = 0; mine && id < SIM_ATTRIBUTES; id++) {
        if ((mine->set >> id & 1u) && !(node->set >> id & 1u) &&
            sim_attribute_of_node(id))
            sim_attribute_set(node, id, &mine->values[id]);
    }
    pthread_mutex_unlock(&attributes_lock);
}

static CUresult get(enum sim_api api, enum sim_variant variant, CUstream handle,
                    unsigned id, CUlaunchAttributeValue *out)
{
    const size_t bytes = member_bytes(id);
    struct sim_context *context;
    struct sim_stream *stream;
    CUlaunchAttributeValue value;
    CUresult res = sim_enter_context(api, &context);

    if (res == CUDA_SUCCESS)
        res = sim_stream_get(context, handle, variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    if (!out || !bytes) {
        sim_stream_put(stream);
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&attributes_lock);
    const struct sim_attributes *attributes = stream->attributes;
    if (attributes && (attributes->set >> id & 1u))
        value = attributes->values[id];
    else
        read_default(stream, id, &value);
    pthread_mutex_unlock(&attributes_lock);
    memcpy(out, &value, bytes);
    sim_stream_put(stream);
    return CUDA_SUCCESS;
}

/* Remember a value that has been checked. */
static CUresult keep(struct sim_stream *stream, unsigned id,
                     const CUlaunchAttributeValue *value)
{
    pthread_mutex_lock(&attributes_lock);
    struct sim_attributes *attributes = attributes_of(stream);
    if (attributes)
        sim_attribute_set(attributes, id, value);
    if (attributes && id == SIM_ATTRIBUTE_PRIORITY)
        stream->priority = value->priority;
    pthread_mutex_unlock(&attributes_lock);
    return attributes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult set(enum sim_api api, enum sim_variant variant, CUstream handle,
                    unsigned id, const CUlaunchAttributeValue *given)
{
    CUlaunchAttributeValue value = {.pad = {0}};
    const size_t bytes = member_bytes(id);
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult res = sim_enter_context(api, &context);

    if (res == CUDA_SUCCESS)
        res = sim_stream_get(context, handle, variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    if (given && bytes) {
        memcpy(&value, given, bytes);
        res = check(id, &value);
    } else {
        res = CUDA_ERROR_INVALID_VALUE;
    }
    if (res == CUDA_SUCCESS) {
        if (id == SIM_ATTRIBUTE_PRIORITY)
            value.priority = sim_stream_priority(value.priority);
        res = keep(stream, id, &value);
    }
    sim_stream_put(stream);
    return res;
}

/* The target then has what the source has, and nothing else. */
static CUresult copy_all(struct sim_stream *to, const struct sim_stream *from)
{
    static const struct sim_attributes none;

    pthread_mutex_lock(&attributes_lock);
    struct sim_attributes *attributes = attributes_of(to);
    if (attributes) {
        memmove(attributes, from->attributes ? from->attributes : &none,
                sizeof(*attributes));
        to->priority = from->priority;
    }
    pthread_mutex_unlock(&attributes_lock);
    return attributes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult copy(enum sim_api api, enum sim_variant variant, CUstream to_handle,
                     CUstream from_handle)
{
    struct sim_context *context;
    struct sim_stream *to = NULL, *from = NULL;

    SIM_TRY(sim_enter_context(api, &context));
    CUresult res = sim_stream_get(context, to_handle, variant, &to);
    if (res == CUDA_SUCCESS)
        res = sim_stream_get(context, from_handle, variant, &from);
    if (res == CUDA_ERROR_INVALID_HANDLE)
        res = CUDA_ERROR_INVALID_VALUE; /* the code it documents */
    if (res == CUDA_SUCCESS)
        res =
            to->context == from->context ? copy_all(to, from) : CUDA_ERROR_INVALID_VALUE;
    if (from)
        sim_stream_put(from);
    if (to)
        sim_stream_put(to);
    return res;
}

SIM_API_TWINS(cuStreamGetAttribute, ptsz,
              (CUstream stream, CUstreamAttrID id, CUstreamAttrValue *out),
              get(api, variant, stream, id, out));

SIM_API_TWINS(cuStreamSetAttribute, ptsz,
              (CUstream stream, CUstreamAttrID id, const CUstreamAttrValue *value),
              set(api, variant, stream, id, value));

SIM_API_TWINS(cuStreamCopyAttributes, ptsz, (CUstream to, CUstream from),
              copy(api, variant, to, from));
