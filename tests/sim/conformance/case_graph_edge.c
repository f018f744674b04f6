/*
 * case_graph_edge.c - the lists a graph gives out, edges added and removed, cycles,
 * clones.
 */
#include "work.h"

/* Four empty nodes: 0 before 1 and 2, both before 3. */
struct diamond {
    CUgraph graph;
    CUgraphNode nodes[4];
};

static struct diamond new_diamond(void)
{
    struct diamond diamond = {0};

    CHECK_OK(cuGraphCreate(&diamond.graph, 0));
    diamond.nodes[0] = empty_node(diamond.graph, NULL, 0);
    diamond.nodes[1] = empty_node(diamond.graph, &diamond.nodes[0], 1);
    diamond.nodes[2] = empty_node(diamond.graph, &diamond.nodes[0], 1);
    diamond.nodes[3] = empty_node(diamond.graph, &diamond.nodes[1], 2);
    return diamond;
}

static bool is_among(CUgraphNode node, const CUgraphNode *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == node)
            return true;
    }
    return false;
}

CASE(graph_list, nodes, DRIVER_API, "cuGraphGetNodes",
     "If numNodes is higher than the actual number of nodes, the remaining entries in "
     "nodes will be set to NULL, and the number actually obtained returned in numNodes")
{
    struct diamond diamond = new_diamond();
    CUgraphNode list[6], filler = (CUgraphNode)(uintptr_t)8;
    size_t count = 6;

    for (size_t i = 0; i < 6; i++)
        list[i] = filler;
    CHECK_EQUAL(node_count(diamond.graph), 4);
    CHECK_OK(cuGraphGetNodes(diamond.graph, list, &count));
    CHECK_EQUAL(count, 4);
    for (size_t i = 0; i < 4; i++)
        CHECK(is_among(diamond.nodes[i], list, 4));
    CHECK(!list[4] && !list[5]);
    end_graph(diamond.graph);
}

CASE(graph_list, nodes_in_part, DRIVER_API, "cuGraphGetNodes",
     "Otherwise, numNodes entries will be filled in: as many as were asked for")
{
    struct diamond diamond = new_diamond();
    CUgraphNode list[3] = {NULL, NULL, (CUgraphNode)(uintptr_t)8};
    size_t count = 2;

    CHECK_OK(cuGraphGetNodes(diamond.graph, list, &count));
    CHECK_EQUAL(count, 2);
    CHECK(is_among(list[0], diamond.nodes, 4) && is_among(list[1], diamond.nodes, 4));
    CHECK(list[2] == (CUgraphNode)(uintptr_t)8);
    end_graph(diamond.graph);
}

CASE(graph_list, roots, DRIVER_API, "cuGraphGetRootNodes",
     "Returns a list of hGraph's root nodes")
{
    struct diamond diamond = new_diamond();
    CUgraphNode root = NULL;
    size_t count = 0;

    CHECK_OK(cuGraphGetRootNodes(diamond.graph, NULL, &count));
    CHECK_EQUAL(count, 1);
    CHECK_OK(cuGraphGetRootNodes(diamond.graph, &root, &count));
    CHECK(root == diamond.nodes[0]);
    end_graph(diamond.graph);
}

CASE(graph_list, edges, DRIVER_API, "cuGraphGetEdges",
     "Edges are returned via corresponding indices in from and to; that is, the node in "
     "to[i] has a dependency on the node in from[i]")
{
    struct diamond diamond = new_diamond();
    const unsigned wanted[4][2] = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
    CUgraphNode from[6], to[6];
    size_t count = 6;

    CHECK_EQUAL(edge_count(diamond.graph), 4);
    CHECK_OK(later()->get_edges(diamond.graph, from, to, &count));
    CHECK_EQUAL(count, 4);
    for (size_t i = 0; i < 4; i++) {
        bool found = false;
        for (size_t k = 0; k < 4; k++)
            found = found || (from[k] == diamond.nodes[wanted[i][0]] &&
                              to[k] == diamond.nodes[wanted[i][1]]);
        CHECK(found);
    }
    CHECK(!from[4] && !to[5]);
    end_graph(diamond.graph);
}

CASE(graph_list, neighbours, DRIVER_API,
     "cuGraphNodeGetDependencies, cuGraphNodeGetDependentNodes",
     "Returns a list of node's dependencies, and of its dependent nodes")
{
    struct diamond diamond = new_diamond();
    CUgraphNode list[3] = {NULL};
    size_t count = 0;

    CHECK_OK(later()->get_dependencies(diamond.nodes[3], NULL, &count));
    CHECK_EQUAL(count, 2);
    CHECK_OK(later()->get_dependencies(diamond.nodes[3], list, &count));
    CHECK(is_among(diamond.nodes[1], list, 2) && is_among(diamond.nodes[2], list, 2));
    count = 3;
    CHECK_OK(later()->get_dependents(diamond.nodes[1], list, &count));
    CHECK_EQUAL(count, 1);
    CHECK(list[0] == diamond.nodes[3] && !list[1] && !list[2]);
    CHECK_OK(later()->get_dependents(diamond.nodes[3], NULL, &count));
    CHECK_EQUAL(count, 0);
    end_graph(diamond.graph);
}

/* ---- edges ----------------------------------------------------------------------- */

CASE(graph_edge, added, DRIVER_API, "cuGraphAddDependencies",
     "Elements in from and to at corresponding indices define a dependency")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(3);
    GRAPH graph = NULL;

    CHECK_OK(cuGraphCreate(&graph, 0));
    CUgraphNode last = copy_node(graph, NULL, 0, words + 8, words + 4);
    CUgraphNode middle = copy_node(graph, NULL, 0, words + 4, words);
    CUgraphNode first = set_node(graph, NULL, 0, words, 5);
    const CUgraphNode from[] = {first, middle}, to[] = {middle, last};
    CHECK_OK(later()->add_dependencies(graph, from, to, 2));
    CHECK_EQUAL(edge_count(graph), 2);
    EXEC exec = instantiate(graph);
    run_exec(exec, stream);
    CHECK_EQUAL(word_at(words, 2), 5);
}

CASE(graph_edge, added_twice, DRIVER_API, "cuGraphAddDependencies",
     "Specifying an existing dependency will return an error")
{
    struct diamond diamond = new_diamond();

    CHECK_INVALID(later()->add_dependencies(diamond.graph, &diamond.nodes[0],
                                            &diamond.nodes[1], 1));
    CHECK_EQUAL(edge_count(diamond.graph), 4);
    end_graph(diamond.graph);
}

CASE(graph_edge, none_added, DRIVER_API, "cuGraphAddDependencies",
     "If numDependencies is 0, elements in from and to will be ignored")
{
    struct diamond diamond = new_diamond();

    CHECK_OK(later()->add_dependencies(diamond.graph, NULL, NULL, 0));
    CHECK_OK(later()->remove_dependencies(diamond.graph, NULL, NULL, 0));
    CHECK_EQUAL(edge_count(diamond.graph), 4);
    end_graph(diamond.graph);
}

CASE(graph_edge, removed, DRIVER_API, "cuGraphRemoveDependencies",
     "Elements in from and to at corresponding indices define a dependency to be removed")
{
    struct diamond diamond = new_diamond();
    size_t count = 9;

    CHECK_OK(later()->remove_dependencies(diamond.graph, &diamond.nodes[0],
                                          &diamond.nodes[1], 1));
    CHECK_EQUAL(edge_count(diamond.graph), 3);
    CHECK_OK(cuGraphGetRootNodes(diamond.graph, NULL, &count));
    CHECK_EQUAL(count, 2);
    end_graph(diamond.graph);
}

CASE(graph_edge, removed_without_being, DRIVER_API, "cuGraphRemoveDependencies",
     "Specifying an edge that does not exist in the graph results in an error")
{
    struct diamond diamond = new_diamond();

    CHECK_INVALID(later()->remove_dependencies(diamond.graph, &diamond.nodes[0],
                                               &diamond.nodes[3], 1));
    CHECK_EQUAL(edge_count(diamond.graph), 4);
    end_graph(diamond.graph);
}

CASE(graph_edge, cycle_is_refused, DRIVER_API, "cuGraphInstantiate",
     "The graph is validated for any structural constraints: one whose edges make a "
     "cycle is not instantiated")
{
    struct diamond diamond = new_diamond();
    CUgraphExec exec = NULL;
    CUresult res =
        later()->add_dependencies(diamond.graph, &diamond.nodes[3], &diamond.nodes[0], 1);

    if (res == CUDA_SUCCESS)
        res = later()->graph_instantiate(&exec, diamond.graph, 0);
    if (!CHECK_REFUSED(res))
        end_exec(exec);
    end_graph(diamond.graph);
}

CASE(graph_edge, cycle_is_told, DRIVER_API, "cuGraphInstantiateWithParams",
     "CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, if the graph structure is invalid. "
     "hErrNode_out will be set to one of the offending nodes")
{
    struct diamond diamond = new_diamond();
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    CUgraphExec exec = NULL;

    if (!later()->graph_instantiate_with_params) {
        skip("the driver has no cuGraphInstantiateWithParams");
    } else if (later()->add_dependencies(diamond.graph, &diamond.nodes[3],
                                         &diamond.nodes[0], 1) != CUDA_SUCCESS) {
        skip("the driver refuses the edge already");
    } else {
        CHECK(later()->graph_instantiate_with_params(&exec, diamond.graph, &params) !=
              CUDA_SUCCESS);
        CHECK_EQUAL(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
        CHECK(is_among(params.hErrNode_out, diamond.nodes, 4));
    }
    end_graph(diamond.graph);
}

CASE(graph_edge, to_itself, DRIVER_API, "cuGraphInstantiate",
     "The graph is validated for any structural constraints: a node cannot depend on "
     "itself")
{
    struct diamond diamond = new_diamond();
    CUgraphExec exec = NULL;
    CUresult res =
        later()->add_dependencies(diamond.graph, &diamond.nodes[1], &diamond.nodes[1], 1);

    if (res == CUDA_SUCCESS)
        res = later()->graph_instantiate(&exec, diamond.graph, 0);
    if (!CHECK_REFUSED(res))
        end_exec(exec);
    end_graph(diamond.graph);
}

/* ---- clones ---------------------------------------------------------------------- */

CASE(graph_clone, is_independent, DRIVER_API, "cuGraphClone",
     "All parameters are copied into the cloned graph. The original graph may be "
     "modified after this call without affecting the clone")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);
    CUgraph graph = NULL;
    GRAPH clone = NULL;

    CHECK_OK(cuGraphCreate(&graph, 0));
    CUgraphNode set = set_node(graph, NULL, 0, words, 5);
    copy_node(graph, &set, 1, words + 4, words);
    CHECK_OK(cuGraphClone(&clone, graph));
    CUDA_MEMSET_NODE_PARAMS params = set_params(words, 6);
    CHECK_OK(cuGraphMemsetNodeSetParams(set, &params));
    empty_node(graph, NULL, 0);
    CHECK_EQUAL(node_count(clone), 2);
    CHECK_EQUAL(edge_count(clone), 1);
    end_graph(graph); /* not needed by the clone */
    EXEC exec = instantiate(clone);
    run_exec(exec, stream);
    CHECK_EQUAL(word_at(words, 1), 5);
}

CASE(graph_clone, finds_its_nodes, DRIVER_API, "cuGraphNodeFindInClone",
     "Returns the node in hClonedGraph corresponding to hOriginalNode in the original "
     "graph")
{
    struct diamond diamond = new_diamond();
    DEVICE_WORDS words = new_words(1);
    CUgraphNode set = set_node(diamond.graph, &diamond.nodes[3], 1, words, 5);
    CUgraphNode found = NULL, neighbour = NULL;
    CUgraph clone = NULL;
    size_t count = 1;

    CHECK_OK(cuGraphClone(&clone, diamond.graph));
    CHECK_OK(cuGraphNodeFindInClone(&found, set, clone));
    CHECK(found && found != set);
    CHECK_EQUAL(node_type(found), CU_GRAPH_NODE_TYPE_MEMSET);
    CHECK_OK(later()->get_dependencies(found, &neighbour, &count));
    CHECK_OK(cuGraphNodeFindInClone(&found, diamond.nodes[3], clone));
    CHECK(neighbour == found);
    end_graph(clone);
    end_graph(diamond.graph);
}

CASE(graph_clone, misses_what_it_never_had, DRIVER_API, "cuGraphNodeFindInClone",
     "hClonedGraph must have been cloned from hOriginalGraph, and hOriginalNode must "
     "have been in it at the time: otherwise CUDA_ERROR_INVALID_VALUE")
{
    struct diamond diamond = new_diamond(), other = new_diamond();
    CUgraphNode found = NULL;
    CUgraph clone = NULL;

    CHECK_OK(cuGraphClone(&clone, diamond.graph));
    CUgraphNode late = empty_node(diamond.graph, NULL, 0);
    CHECK_INVALID(cuGraphNodeFindInClone(&found, late, clone));
    CHECK_INVALID(cuGraphNodeFindInClone(&found, other.nodes[0], clone));
    CHECK_INVALID(cuGraphNodeFindInClone(&found, diamond.nodes[0], other.graph));
    end_graph(clone);
    end_graph(other.graph);
    end_graph(diamond.graph);
}
