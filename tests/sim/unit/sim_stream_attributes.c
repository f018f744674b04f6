/*
 * sim_stream_attributes.c - proves the attributes of streams: what they are at first,
 * that they can be set and copied, what is refused, and that captured kernels take them
 * along.
 */
#include <string.h>

#include "sim_helpers.h"

CUresult CUDAAPI cuStreamSetAttribute_ptsz(CUstream stream, CUstreamAttrID id,
                                           const CUstreamAttrValue *value);
CUresult CUDAAPI cuStreamGetAttribute_ptsz(CUstream stream, CUstreamAttrID id,
                                           CUstreamAttrValue *out);

static CUstream new_stream(int priority)
{
    CUstream stream;

    ok(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority));
    return stream;
}

static CUstreamAttrValue read_one(CUstream stream, CUstreamAttrID id)
{
    CUstreamAttrValue value;

    memset(&value, 0, sizeof(value));
    ok(cuStreamGetAttribute(stream, id, &value));
    return value;
}

static CUstreamAttrValue window(float hit_ratio, CUaccessProperty hit,
                                CUaccessProperty miss)
{
    CUstreamAttrValue value;

    memset(&value, 0, sizeof(value));
    value.accessPolicyWindow = (CUaccessPolicyWindow){
        .base_ptr = &value,
        .num_bytes = 4096,
        .hitRatio = hit_ratio,
        .hitProp = hit,
        .missProp = miss,
    };
    return value;
}

Test(sim_stream_attributes, begin_with_their_defaults)
{
    sim_test_start("1", "16M");
    CUstream stream = new_stream(-3);
    CUstreamAttrValue value = read_one(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW);
    cr_assert_eq(value.accessPolicyWindow.num_bytes, 0);
    value = read_one(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY);
    cr_assert_eq(value.syncPolicy, CU_SYNC_POLICY_AUTO);
    value = read_one(stream, CU_STREAM_ATTRIBUTE_PRIORITY);
    cr_assert_eq(value.priority, -3);
    value = read_one(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN);
    cr_assert_eq(value.memSyncDomain, CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT);
    value = read_one(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP);
    cr_assert_eq(value.memSyncDomainMap.default_, 0);
    cr_assert_eq(value.memSyncDomainMap.remote, 1);
}

Test(sim_stream_attributes, are_what_they_were_set_to)
{
    sim_test_start("1", "16M");
    CUstream stream = new_stream(0);
    CUstreamAttrValue set =
        window(0.5f, CU_ACCESS_PROPERTY_PERSISTING, CU_ACCESS_PROPERTY_STREAMING);

    ok(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &set));
    CUstreamAttrValue got = read_one(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW);
    cr_assert_eq(got.accessPolicyWindow.base_ptr, set.accessPolicyWindow.base_ptr);
    cr_assert_eq(got.accessPolicyWindow.num_bytes, 4096);
    cr_assert_float_eq(got.accessPolicyWindow.hitRatio, 0.5f, 0.0f);
    cr_assert_eq(got.accessPolicyWindow.missProp, CU_ACCESS_PROPERTY_STREAMING);
    set.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
    ok(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &set));
    got = read_one(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY);
    cr_assert_eq(got.syncPolicy, CU_SYNC_POLICY_BLOCKING_SYNC);
    set.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    ok(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN, &set));
    got = read_one(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN);
    cr_assert_eq(got.memSyncDomain, CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
    set.memSyncDomainMap = (CUlaunchMemSyncDomainMap){2, 3};
    ok(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &set));
    got = read_one(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP);
    cr_assert_eq(got.memSyncDomainMap.default_, 2);
    cr_assert_eq(got.memSyncDomainMap.remote, 3);
}

/* A priority outside the device's range is brought into it, as when a stream is made. */
Test(sim_stream_attributes, change_the_priority)
{
    CUstreamAttrValue set = {.priority = -100};
    int priority = 9;

    sim_test_start("1", "16M");
    CUstream stream = new_stream(0);
    ok(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_PRIORITY, &set));
    ok(cuStreamGetPriority(stream, &priority));
    cr_assert_eq(priority, -5);
    cr_assert_eq(read_one(stream, CU_STREAM_ATTRIBUTE_PRIORITY).priority, -5);
}

/* A program of CUDA 11 has a union of 32 bytes: nothing is written behind it. */
Test(sim_stream_attributes, write_no_more_than_their_member)
{
    CUstreamAttrValue value;

    sim_test_start("1", "16M");
    CUstream stream = new_stream(0);
    memset(&value, 0x5a, sizeof(value));
    ok(cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
    for (size_t i = sizeof(CUaccessPolicyWindow); i < sizeof(value); i++)
        cr_assert_eq(value.pad[i], 0x5a, "byte %zu", i);
    ok(cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_PRIORITY, &value));
    cr_assert_eq(value.priority, 0);
    cr_assert_eq(value.pad[sizeof(int)], 0, "a byte behind the priority changed");
}

Test(sim_stream_attributes, refuse_what_is_not_allowed)
{
    const CUstreamAttrID access = CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW;
    const CUresult invalid = CUDA_ERROR_INVALID_VALUE;
    CUstreamAttrValue value;

    sim_test_start("1", "16M");
    CUstream stream = new_stream(0);
    value = window(1.5f, CU_ACCESS_PROPERTY_NORMAL, CU_ACCESS_PROPERTY_NORMAL);
    fails(cuStreamSetAttribute(stream, access, &value), invalid);
    value = window(0.5f, CU_ACCESS_PROPERTY_NORMAL, CU_ACCESS_PROPERTY_PERSISTING);
    fails(cuStreamSetAttribute(stream, access, &value), invalid);
    cr_assert_eq(read_one(stream, access).accessPolicyWindow.num_bytes, 0);
    memset(&value, 0, sizeof(value));
    fails(
        cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value),
        invalid);
    value.memSyncDomainMap.remote = 4; /* of MEM_SYNC_DOMAIN_COUNT */
    fails(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value),
          invalid);
    value.cooperative = 1; /* of launches, not of streams */
    fails(cuStreamSetAttribute(stream, (CUstreamAttrID)2, &value), invalid);
    fails(cuStreamGetAttribute(stream, (CUstreamAttrID)2, &value), invalid);
    fails(cuStreamGetAttribute(stream, (CUstreamAttrID)4000, &value), invalid);
    fails(cuStreamGetAttribute(stream, access, NULL), invalid);
    fails(cuStreamSetAttribute(stream, access, NULL), invalid);
}

Test(sim_stream_attributes, need_a_live_stream)
{
    CUstreamAttrValue value = {.priority = 0};

    sim_test_start("1", "16M");
    CUstream stream = new_stream(0), gone = new_stream(0);
    ok(cuStreamDestroy(gone));
    fails(cuStreamGetAttribute(gone, CU_STREAM_ATTRIBUTE_PRIORITY, &value),
          CUDA_ERROR_INVALID_HANDLE);
    fails(cuStreamSetAttribute(gone, CU_STREAM_ATTRIBUTE_PRIORITY, &value),
          CUDA_ERROR_INVALID_HANDLE);
    fails(cuStreamCopyAttributes(gone, stream), CUDA_ERROR_INVALID_VALUE);
    fails(cuStreamCopyAttributes(stream, gone), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_stream_attributes, are_copied_all_at_once)
{
    CUstreamAttrValue set = {.priority = -2};
    CUcontext second;
    CUstream other;

    sim_test_start("1", "16M");
    CUstream from = new_stream(0), to = new_stream(-1);
    ok(cuStreamSetAttribute(from, CU_STREAM_ATTRIBUTE_PRIORITY, &set));
    set.syncPolicy = CU_SYNC_POLICY_SPIN;
    ok(cuStreamSetAttribute(from, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &set));
    set.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    ok(cuStreamSetAttribute(to, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN, &set));
    ok(cuStreamCopyAttributes(to, from));
    cr_assert_eq(read_one(to, CU_STREAM_ATTRIBUTE_PRIORITY).priority, -2);
    cr_assert_eq(read_one(to, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY).syncPolicy,
                 CU_SYNC_POLICY_SPIN);
    cr_assert_eq(read_one(to, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN).memSyncDomain,
                 CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT);
    ok(cuStreamCopyAttributes(to, to));
    cr_assert_eq(read_one(to, CU_STREAM_ATTRIBUTE_PRIORITY).priority, -2);
    ok(cuCtxCreate_v2(&second, 0, 0));
    ok(cuStreamCreate(&other, 0));
    fails(cuStreamCopyAttributes(other, from), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_stream_attributes, mean_the_default_stream_of_their_variant)
{
    CUstreamAttrValue set = {.syncPolicy = CU_SYNC_POLICY_YIELD}, got;
    const CUstreamAttrID id = CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY;

    sim_test_start("1", "16M");
    ok(cuStreamSetAttribute_ptsz(NULL, id, &set));
    ok(cuStreamGetAttribute_ptsz(NULL, id, &got));
    cr_assert_eq(got.syncPolicy, CU_SYNC_POLICY_YIELD);
    cr_assert_eq(read_one(CU_STREAM_PER_THREAD, id).syncPolicy, CU_SYNC_POLICY_YIELD);
    cr_assert_eq(read_one(CU_STREAM_LEGACY, id).syncPolicy, CU_SYNC_POLICY_AUTO);
}

/* Those that kernels' nodes have go with what is captured, unless the launch says
 * otherwise. */
Test(sim_stream_attributes, go_with_a_captured_kernel)
{
    CUstreamAttrValue set = {.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE}, got;
    CUgraphNode node;
    CUgraph graph;
    size_t count = 1;
    unsigned long long ns = 0;
    void *params[] = {&ns};

    sim_test_start("1", "16M");
    CUstream stream = new_stream(-4);
    CUfunction spin = sim_test_kernel("gs_spin");
    ok(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN, &set));
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(sim_test_launch(spin, stream, params));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphGetNodes(graph, &node, &count));
    ok(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &got));
    cr_assert_eq(got.memSyncDomain, CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
    ok(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &got));
    cr_assert_eq(got.priority, -4);
}
