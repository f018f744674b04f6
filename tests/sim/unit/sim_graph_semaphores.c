/*
 * sim_graph_semaphores.c - proves that nodes signal external semaphores and wait for
 * them, tell what they were given, and keep their number.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim_graph_helpers.h"

static CUexternalSemaphore new_timeline(void)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc;
    CUexternalSemaphore semaphore;
    int fd = memfd_create("sim-graph-test", MFD_CLOEXEC);

    cr_assert_geq(fd, 0);
    cr_assert_eq(ftruncate(fd, 4096), 0);
    memset(&desc, 0, sizeof(desc));
    desc.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
    desc.handle.fd = fd;
    ok(cuImportExternalSemaphore(&semaphore, &desc));
    return semaphore;
}

static CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal_of(uint64_t value)
{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params;

    memset(&params, 0, sizeof(params));
    params.params.fence.value = value;
    return params;
}

Test(sim_graph_semaphores, order_two_launches)
{
    CUgraphNode node, wait;
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS await;

    sim_test_start("1", "16M");
    CUexternalSemaphore semaphore = new_timeline();
    CUdeviceptr words = new_words(0);
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = signal_of(3);
    memset(&await, 0, sizeof(await));
    await.params.fence.value = 3;
    CUDA_EXT_SEM_WAIT_NODE_PARAMS waits = {&semaphore, &await, 1};
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signals = {&semaphore, &signal, 1};
    CUgraph waiting = new_graph(), signaling = new_graph();
    ok(cuGraphAddExternalSemaphoresWaitNode(&wait, waiting, NULL, 0, &waits));
    add_set(waiting, wait, words, 5);
    ok(cuGraphAddExternalSemaphoresSignalNode(&node, signaling, NULL, 0, &signals));
    CUstream stream = new_stream(), other = new_stream();
    ok(cuGraphLaunch(instantiate(waiting), stream));
    sim_test_sleep_ms(20);
    cr_assert_eq(peek(words), 0);
    CUgraphExec exec = instantiate(signaling);
    signal = signal_of(2);
    ok(cuGraphExecExternalSemaphoresSignalNodeSetParams(exec, node, &signals));
    ok(cuGraphLaunch(exec, other));
    ok(cuStreamSynchronize(other));
    sim_test_sleep_ms(20);
    cr_assert_eq(peek(words), 0, "the executable graph signals 2");
    ok(cuGraphLaunch(instantiate(signaling), other));
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(peek(words), 5);
}

Test(sim_graph_semaphores, tell_and_keep_their_number)
{
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS told;
    CUDA_EXT_SEM_WAIT_NODE_PARAMS none;
    CUgraphNode node;

    sim_test_start("1", "16M");
    CUexternalSemaphore semaphores[] = {new_timeline(), new_timeline()};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS both[] = {signal_of(1), signal_of(2)};
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signals = {semaphores, both, 2};
    CUgraph graph = new_graph();
    ok(cuGraphAddExternalSemaphoresSignalNode(&node, graph, NULL, 0, &signals));
    ok(cuGraphExternalSemaphoresSignalNodeGetParams(node, &told));
    cr_assert_eq(told.numExtSems, 2);
    cr_assert_eq(told.extSemArray[1], semaphores[1]);
    cr_assert_eq(told.paramsArray[1].params.fence.value, 2);
    fails(cuGraphExternalSemaphoresWaitNodeGetParams(node, &none),
          CUDA_ERROR_INVALID_VALUE);
    CUgraphExec exec = instantiate(graph);
    signals.numExtSems = 1;
    fails(cuGraphExecExternalSemaphoresSignalNodeSetParams(exec, node, &signals),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphExternalSemaphoresSignalNodeSetParams(node, &signals));
    semaphores[0] = NULL;
    fails(cuGraphExternalSemaphoresSignalNodeSetParams(node, &signals),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphAddExternalSemaphoresSignalNode(&node, graph, NULL, 0, NULL),
          CUDA_ERROR_INVALID_VALUE);
}

Test(sim_graph_semaphores, are_captured_as_such)
{
    CUgraphNode node;
    CUgraphNodeType type;
    CUgraph graph;
    size_t count = 1;

    sim_test_start("1", "16M");
    CUexternalSemaphore semaphore = new_timeline();
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = signal_of(3);
    CUstream stream = new_stream();
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuSignalExternalSemaphoresAsync(&semaphore, &signal, 1, stream));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphGetNodes(graph, &node, &count));
    ok(cuGraphNodeGetType(node, &type));
    cr_assert_eq(type, CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
    run_graph(instantiate(graph));
}
