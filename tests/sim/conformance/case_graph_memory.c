/*
 * case_graph_memory.c - graphs that allocate and free: when their memory can be used, who
 * may free it, what such graphs cannot do.
 */
#include <string.h>

#include "work.h"

static bool has_memory_nodes(void)
{
    if (later()->add_alloc_node && later()->add_free_node &&
        device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        return true;
    skip("graphs have no memory nodes here");
    return false;
}

static CUgraphNode alloc_node(CUgraph graph, CUdeviceptr *out)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUgraphNode node = NULL;

    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.poolProps.location.id = the_device();
    params.bytesize = 4096;
    CHECK_OK(later()->add_alloc_node(&node, graph, NULL, 0, &params));
    CHECK(params.dptr);
    *out = params.dptr;
    return node;
}

/* A graph that allocates, writes 7 there and, where asked to, frees. */
static struct scene {
    CUgraph graph;
    CUgraphNode alloc, set, release;
    CUdeviceptr memory, words;
    CUstream stream;
} scene;

static void end_scene(void)
{
    CHECK_OK(cuStreamSynchronize(scene.stream));
    end_graph(scene.graph);
    end_stream(scene.stream);
    end_words(scene.words);
    CHECK_OK(later()->graph_mem_trim(the_device()));
}

static bool set_scene_that(bool frees)
{
    scene = (struct scene){0};
    if (!has_memory_nodes())
        return false;
    scene.words = new_words(2);
    scene.stream = new_stream(CU_STREAM_NON_BLOCKING);
    CHECK_OK(cuGraphCreate(&scene.graph, 0));
    scene.alloc = alloc_node(scene.graph, &scene.memory);
    scene.set = set_node(scene.graph, &scene.alloc, 1, scene.memory, 7);
    if (frees)
        CHECK_OK(later()->add_free_node(&scene.release, scene.graph, &scene.set, 1,
                                        scene.memory));
    if (scene.memory != 0)
        return true;
    end_scene();
    return false;
}

static bool set_scene(void)
{
    return set_scene_that(false);
}

static bool set_freeing_scene(void)
{
    return set_scene_that(true);
}

#define SCENE_CASE(label, ...)                                                           \
    FIXTURE_CASE(set_scene, end_scene, graph_memory, label, __VA_ARGS__)
#define FREEING_SCENE_CASE(label, ...)                                                   \
    FIXTURE_CASE(set_freeing_scene, end_scene, graph_memory, label, __VA_ARGS__)

SCENE_CASE(
    used_between_its_nodes, DRIVER_API, "cuGraphAddMemAllocNode",
    "If the allocation is freed in the same graph, it can be accessed by nodes ordered "
    "after the allocation node but before the free node")
{
    CUgraphNode copy = copy_node(scene.graph, &scene.set, 1, scene.words, scene.memory);
    CHECK_OK(later()->add_free_node(&scene.release, scene.graph, &copy, 1, scene.memory));
    CHECK_EQUAL(node_type(scene.alloc), CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    CHECK_EQUAL(node_type(scene.release), CU_GRAPH_NODE_TYPE_MEM_FREE);
    EXEC exec = instantiate(scene.graph);
    for (int i = 0; i < 3; i++) {
        put_word(scene.words, 0);
        run_exec(exec, scene.stream);
        CHECK_EQUAL(word_at(scene.words, 0), 7);
    }
}

FREEING_SCENE_CASE(
    nodes_tell_their_memory, DRIVER_API,
    "cuGraphMemAllocNodeGetParams, cuGraphMemFreeNodeGetParams",
    "Returns the parameters of a memory alloc node, and the address of a memory free "
    "node")
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUdeviceptr freed = 0;

    CHECK_OK(later()->alloc_node_get_params(scene.alloc, &params));
    CHECK_EQUAL(params.dptr, scene.memory);
    CHECK_EQUAL(params.bytesize, 4096);
    CHECK_OK(later()->free_node_get_params(scene.release, &freed));
    CHECK_EQUAL(freed, scene.memory);
}

SCENE_CASE(
    used_after_the_graph, DRIVER_API, "cuGraphAddMemAllocNode",
    "If the allocation is not freed in the same graph, it can be accessed also by "
    "stream operations ordered after the graph's execution but before it is freed, by "
    "cuMemFreeAsync or cuMemFree")
{
    EXEC exec = instantiate(scene.graph);
    CHECK_OK(cuGraphLaunch(exec, scene.stream));
    CHECK_OK(copy_word(scene.stream, scene.words, scene.memory));
    CHECK_OK(cuMemFreeAsync(scene.memory, scene.stream));
    CHECK_OK(cuGraphLaunch(exec, scene.stream)); /* at the same address */
    CHECK_OK(copy_word(scene.stream, scene.words + 4, scene.memory));
    CHECK_OK(cuStreamSynchronize(scene.stream));
    CHECK_OK(cuMemFree(scene.memory));
    CHECK_EQUAL(word_at(scene.words, 0), 7);
    CHECK_EQUAL(word_at(scene.words, 1), 7);
}

SCENE_CASE(
    unfreed_forbids_the_next_launch, DRIVER_API, "cuGraphLaunch",
    "If any allocations created by hGraphExec remain unfreed (from a previous launch), "
    "the launch will fail with CUDA_ERROR_INVALID_VALUE")
{
    EXEC exec = instantiate(scene.graph);
    run_exec(exec, scene.stream);
    CHECK_INVALID(cuGraphLaunch(exec, scene.stream));
    CHECK_OK(cuMemFreeAsync(scene.memory, scene.stream));
    run_exec(exec, scene.stream);
    CHECK_OK(cuMemFreeAsync(scene.memory, scene.stream));
}

SCENE_CASE(
    freed_by_the_next_launch, DRIVER_API, "cuGraphInstantiate",
    "CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH configures a graph containing "
    "memory allocation nodes to automatically free any unfreed memory allocations "
    "before the graph is relaunched")
{
    CUgraphExec exec = NULL;

    CHECK_OK(later()->graph_instantiate(&exec, scene.graph,
                                        CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    run_exec(exec, scene.stream);
    run_exec(exec, scene.stream);
    CHECK_OK(copy_word(scene.stream, scene.words, scene.memory));
    CHECK_OK(cuMemFreeAsync(scene.memory, scene.stream));
    CHECK_OK(cuStreamSynchronize(scene.stream));
    CHECK_EQUAL(word_at(scene.words, 0), 7);
    end_exec(exec);
}

SCENE_CASE(
    freed_by_another_graph, DRIVER_API, "cuGraphAddMemAllocNode",
    "Allocations which are not freed in the same graph can be freed by launching a "
    "graph with a free node for that allocation")
{
    CUgraph other = NULL;
    CUgraphNode node = NULL;

    CHECK_OK(cuGraphCreate(&other, 0));
    CHECK_OK(later()->add_free_node(&node, other, NULL, 0, scene.memory));
    EXEC exec = instantiate(scene.graph);
    EXEC freeing = instantiate(other);
    for (int i = 0; i < 2; i++) {
        run_exec(exec, scene.stream);
        run_exec(freeing, scene.stream);
    }
    end_graph(other);
}

FREEING_SCENE_CASE(
    not_freed_in_two_graphs, DRIVER_API, "cuGraphAddMemAllocNode",
    "If the allocation is freed in the same graph, a free node cannot be added to "
    "another graph")
{
    CUgraph other = NULL;
    CUgraphNode node = NULL;

    CHECK_OK(cuGraphCreate(&other, 0));
    CHECK(later()->add_free_node(&node, other, NULL, 0, scene.memory) != CUDA_SUCCESS);
    end_graph(other);
}

FREEING_SCENE_CASE(
    not_freed_twice, DRIVER_API, "cuGraphAddMemFreeNode",
    "cuGraphAddMemFreeNode will return CUDA_ERROR_INVALID_VALUE if the user attempts to "
    "free an allocation twice in the same graph")
{
    CUgraphNode node = NULL;

    CHECK_INVALID(
        later()->add_free_node(&node, scene.graph, &scene.release, 1, scene.memory));
}

FREEING_SCENE_CASE(
    frees_its_own_kind, DRIVER_API, "cuGraphAddMemFreeNode",
    "CUDA_ERROR_INVALID_VALUE if the user attempts to free an address that was not "
    "returned by an allocation node")
{
    CUgraphNode node = NULL;

    CHECK_INVALID(later()->add_free_node(&node, scene.graph, &scene.set, 1, scene.words));
}

/* ---- restrictions ---------------------------------------------------------------- */

FREEING_SCENE_CASE(
    one_instance_at_a_time, DRIVER_API, "cuGraphInstantiate",
    "If hGraph contains any allocation or free nodes, there can be at most one "
    "executable graph in existence for that graph at a time")
{
    CUgraphExec second = NULL;

    CUgraphExec first = instantiate(scene.graph);
    if (!CHECK(later()->graph_instantiate(&second, scene.graph, 0) != CUDA_SUCCESS))
        end_exec(second);
    end_exec(first);
    end_exec(instantiate(scene.graph));
}

FREEING_SCENE_CASE(
    not_cloned, DRIVER_API, "cuGraphClone",
    "Cloning is not supported for graphs which contain memory allocation nodes or "
    "memory free nodes")
{
    CUgraph clone = NULL;

    if (!CHECK(cuGraphClone(&clone, scene.graph) != CUDA_SUCCESS))
        end_graph(clone);
}

FREEING_SCENE_CASE(
    nodes_are_not_destroyed, DRIVER_API, "cuGraphDestroyNode",
    "Nodes which belong to a graph which contains allocation or free nodes cannot be "
    "destroyed. Any attempt to do so will return an error")
{
    CHECK_REFUSED(cuGraphDestroyNode(scene.set));
    CHECK_REFUSED(cuGraphDestroyNode(scene.alloc));
    CHECK_EQUAL(node_count(scene.graph), 3);
}

FREEING_SCENE_CASE(
    edges_are_not_removed, DRIVER_API, "cuGraphRemoveDependencies",
    "Dependencies cannot be removed from graphs which contain allocation or free nodes. "
    "Any attempt to do so will return an error")
{
    CHECK(later()->remove_dependencies(scene.graph, &scene.alloc, &scene.set, 1) !=
          CUDA_SUCCESS);
    CHECK_EQUAL(edge_count(scene.graph), 2);
}

FREEING_SCENE_CASE(
    no_child, DRIVER_API, "cuGraphAddChildGraphNode",
    "If childGraph contains allocation nodes or free nodes, this call will return an "
    "error")
{
    CUgraph parent = NULL;
    CUgraphNode node = NULL;

    CHECK_OK(cuGraphCreate(&parent, 0));
    CHECK(cuGraphAddChildGraphNode(&node, parent, NULL, 0, scene.graph) != CUDA_SUCCESS);
    CHECK_EQUAL(node_count(parent), 0);
    end_graph(parent);
}

/* ---- what the device tells ------------------------------------------------------- */

SCENE_CASE(is_counted, DRIVER_API, "cuDeviceGetGraphMemAttribute",
           "CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: amount of memory, in bytes, currently "
           "associated with graphs; _HIGH: its high watermark")
{
    cuuint64_t used = 0, high = 0, zero = 0;

    CHECK_OK(
        later()->set_graph_mem(the_device(), CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
    EXEC exec = instantiate(scene.graph);
    run_exec(exec, scene.stream);
    CHECK_OK(
        later()->get_graph_mem(the_device(), CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    CHECK_OK(
        later()->get_graph_mem(the_device(), CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &high));
    CHECK(used >= 4096);
    CHECK(high >= used);
    CHECK_OK(cuMemFreeAsync(scene.memory, scene.stream));
    CHECK_OK(cuStreamSynchronize(scene.stream));
}

CASE_WHERE(has_memory_nodes, graph_memory, watermark_is_reset_to_zero, DRIVER_API,
           "cuDeviceSetGraphMemAttribute", "High watermark can only be reset to zero")
{
    cuuint64_t value = 1;

    CHECK(later()->set_graph_mem(the_device(), CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value) !=
          CUDA_SUCCESS);
    value = 0;
    CHECK_OK(
        later()->set_graph_mem(the_device(), CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
}

FREEING_SCENE_CASE(
    is_trimmed, DRIVER_API, "cuDeviceGraphMemTrim",
    "Blocks which are not in use by a graph that is either currently executing or "
    "scheduled to execute are freed back to the operating system")
{
    cuuint64_t reserved = 1;

    CUgraphExec exec = instantiate(scene.graph);
    run_exec(exec, scene.stream);
    end_exec(exec);
    end_graph(scene.graph);
    CHECK_OK(cuGraphCreate(&scene.graph, 0));
    CHECK_OK(cuCtxSynchronize());
    CHECK_OK(later()->graph_mem_trim(the_device()));
    CHECK_OK(later()->get_graph_mem(the_device(), CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                    &reserved));
    CHECK_EQUAL(reserved, 0);
}
