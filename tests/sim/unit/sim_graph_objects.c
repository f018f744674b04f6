/*
 * sim_graph_objects.c - proves that user objects live as long as a graph or what was made
 * of it needs them, and no longer; that kernel nodes keep attributes; and that a graph
 * can be written as a DOT file.
 */
#include <stdio.h>
#include <unistd.h>

#include "sim_graph_helpers.h"

static int destroyed; /* atomic: counts destructors */
static CUresult seen; /* what a driver call answers in a destructor */

static void CUDA_CB destroy(void *data)
{
    int count;

    seen = cuDeviceGetCount(&count);
    __atomic_fetch_add((int *)data, 1, __ATOMIC_SEQ_CST);
}

static bool is_destroyed(int times)
{
    for (int i = 0; i < SIM_TEST_LOOKS; i++) {
        if (__atomic_load_n(&destroyed, __ATOMIC_SEQ_CST) >= times)
            break;
        sim_test_sleep_ms(2);
    }
    return __atomic_load_n(&destroyed, __ATOMIC_SEQ_CST) == times;
}

static bool lives(void)
{
    sim_test_sleep_ms(10);
    return __atomic_load_n(&destroyed, __ATOMIC_SEQ_CST) == 0;
}

static CUuserObject new_object(unsigned count)
{
    CUuserObject object;

    ok(cuUserObjectCreate(&object, &destroyed, destroy, count,
                          CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    return object;
}

Test(sim_graph_objects, live_while_the_program_refers_to_them)
{
    CUuserObject object;

    sim_test_start("1", "16M");
    fails(cuUserObjectCreate(&object, NULL, destroy, 1, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuUserObjectCreate(&object, NULL, destroy, 0, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuUserObjectCreate(&object, NULL, NULL, 1, 1), CUDA_ERROR_INVALID_VALUE);
    object = new_object(1);
    ok(cuUserObjectRetain(object, 2));
    ok(cuUserObjectRelease(object, 2));
    cr_assert(lives());
    fails(cuUserObjectRelease(object, 2), CUDA_ERROR_INVALID_VALUE);
    fails(cuUserObjectRelease(object, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuUserObjectRelease(object, 1));
    cr_assert(is_destroyed(1));
    cr_assert_eq(seen, CUDA_ERROR_NOT_PERMITTED);
    fails(cuUserObjectRetain(object, 1), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_graph_objects, live_while_a_graph_or_its_clone_does)
{
    CUgraph clone;

    sim_test_start("1", "16M");
    CUgraph graph = new_graph();
    CUuserObject object = new_object(1);
    fails(cuGraphRetainUserObject(graph, object, 1, 2), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphRetainUserObject(graph, object, 2, CU_GRAPH_USER_OBJECT_MOVE),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    fails(cuGraphReleaseUserObject(graph, object, 2), CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphClone(&clone, graph));
    ok(cuGraphDestroy(graph));
    cr_assert(lives());
    ok(cuGraphReleaseUserObject(clone, object, 1));
    cr_assert(is_destroyed(1));
    ok(cuGraphDestroy(clone));
    cr_assert(is_destroyed(1));
}

Test(sim_graph_objects, live_until_what_was_launched_is_done)
{
    struct sim_latch latch;
    CUgraphNode child;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUgraph small = new_graph(), graph = new_graph();
    add_latch(small, NULL, &latch);
    add_set(small, NULL, new_words(0), 1);
    ok(cuGraphRetainUserObject(small, new_object(1), 1, CU_GRAPH_USER_OBJECT_MOVE));
    ok(cuGraphAddChildGraphNode(&child, graph, NULL, 0, small));
    ok(cuGraphDestroy(small));
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphDestroy(graph));
    cr_assert(lives());
    CUstream stream = new_stream();
    ok(cuGraphLaunch(exec, stream));
    ok(cuGraphExecDestroy(exec));
    cr_assert(lives(), "the launch is under way");
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    cr_assert(is_destroyed(1));
}

/* ---- attributes -------------------------------------------------------------------- */

Test(sim_graph_objects, of_kernels_keep_attributes)
{
    CUlaunchAttributeValue value = {.priority = -2}, told;

    sim_test_start("1", "16M");
    CUgraph graph = new_graph(), clone;
    CUfunction kernel = sim_test_kernel("own_kernel");
    CUgraphNode first = add_kernel(graph, NULL, 0, kernel, NULL);
    CUgraphNode second = add_kernel(graph, NULL, 0, kernel, NULL), found;
    CUgraphNode set = add_set(graph, NULL, new_words(0), 1);
    ok(cuGraphKernelNodeGetAttribute(first, CU_LAUNCH_ATTRIBUTE_PRIORITY, &told));
    cr_assert_eq(told.priority, 0);
    ok(cuGraphKernelNodeSetAttribute(first, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    ok(cuGraphKernelNodeCopyAttributes(second, first));
    ok(cuGraphKernelNodeGetAttribute(second, CU_LAUNCH_ATTRIBUTE_PRIORITY, &told));
    cr_assert_eq(told.priority, -2);
    ok(cuGraphClone(&clone, graph));
    ok(cuGraphNodeFindInClone(&found, first, clone));
    ok(cuGraphKernelNodeGetAttribute(found, CU_LAUNCH_ATTRIBUTE_PRIORITY, &told));
    cr_assert_eq(told.priority, -2);
    fails(cuGraphKernelNodeSetAttribute(set, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphKernelNodeGetAttribute(first, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
                                        &told),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphKernelNodeSetAttribute(first, (CUkernelNodeAttrID)99, &value),
          CUDA_ERROR_INVALID_VALUE);
    value.clusterDim.x = 3;
    value.clusterDim.y = 1;
    value.clusterDim.z = 1;
    fails(cuGraphKernelNodeSetAttribute(first, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                        &value),
          CUDA_ERROR_INVALID_CLUSTER_SIZE);
    value.deviceUpdatableKernelNode.deviceUpdatable = 1;
    fails(cuGraphKernelNodeSetAttribute(
              first, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value),
          CUDA_ERROR_NOT_SUPPORTED);
}

Test(sim_graph_objects, of_captured_kernels_have_the_streams_priority)
{
    CUlaunchAttributeValue told;
    CUstream stream;
    CUgraph graph;
    CUgraphNode node;
    size_t count = 1;

    sim_test_start("1", "16M");
    ok(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -4));
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(sim_test_launch(sim_test_kernel("own_kernel"), stream, NULL));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphGetNodes(graph, &node, &count));
    ok(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &told));
    cr_assert_eq(told.priority, -4);
}

/* ---- DOT --------------------------------------------------------------------------- */

Test(sim_graph_objects, are_drawn)
{
    char path[] = "/tmp/sim_graph_XXXXXX", text[4096];
    CUgraphNode child;

    sim_test_start("1", "16M");
    CUgraph small = new_graph(), graph = new_graph();
    CUdeviceptr words = new_words(0);
    add_set(small, NULL, words, 1);
    CUgraphNode kernel = add_kernel(graph, NULL, 0, sim_test_kernel("own_kernel"), NULL);
    ok(cuGraphAddChildGraphNode(&child, graph, &kernel, 1, small));
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    ok(cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
    ssize_t bytes = read(fd, text, sizeof(text) - 1);
    cr_assert_gt(bytes, 0);
    text[bytes] = '\0';
    cr_assert_not_null(strstr(text, "digraph"));
    cr_assert_not_null(strstr(text, "KERNEL\\nown_kernel"));
    cr_assert_not_null(strstr(text, "MEMSET"));
    cr_assert_not_null(strstr(text, "->"));
    close(fd);
    unlink(path);
    fails(cuGraphDebugDotPrint(graph, "/nowhere/at/all", 0), CUDA_ERROR_OPERATING_SYSTEM);
    fails(cuGraphDebugDotPrint(graph, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphDebugDotPrint(graph, path, 1 << 20), CUDA_ERROR_INVALID_VALUE);
}
