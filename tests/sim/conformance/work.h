/*
 * work.h - what the cases about order, capture and graphs share: memory to see results
 * in, streams and events that are made and ended in a line, functions that the suite does
 * not link against.
 */
#ifndef GS_CONFORMANCE_WORK_H
#define GS_CONFORMANCE_WORK_H

#include "conformance.h"

/* How long a call that must block is watched, and one that must not is given (less by
 * --returns-ms). */
#define BLOCKS_MS  150
#define RETURNS_MS 60000

/* ---- functions by name (later.def) ------------------------------------------------- */

struct later {
#define LATER(field, symbol, ...) CUresult (*field)(__VA_ARGS__);
#include "later.def"
#undef LATER
};

/* The functions of later.def, NULL where this driver has none. */
const struct later *later(void);

/* ---- memory ------------------------------------------------------------------------ */

/* Words of device memory, or pinned words (one address for both sides), all 0. 0 and
 * NULL with a failed check. */
CUdeviceptr new_words(size_t count);
void end_words(CUdeviceptr words);
uint32_t *new_pinned(size_t count);
void end_pinned(uint32_t *words);
CUdeviceptr seen(const uint32_t *pinned); /* its address on the device */

/* A word of device memory, read by a synchronous copy: everything blocked must be let go
 * before. */
uint32_t word_at(CUdeviceptr words, size_t index);

/* Set one word, and wait until it is: a set by itself does not, and other streams do not
 * wait for it. Everything blocked must be let go before. */
void put_word(CUdeviceptr word, uint32_t value);

/* Set one word, copy one word (device or pinned, each side) in a stream. */
CUresult set_word(CUstream stream, CUdeviceptr word, uint32_t value);
CUresult copy_word(CUstream stream, CUdeviceptr to, CUdeviceptr from);

/* gs_add and gs_copy of `count` words. */
CUresult add_words(CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t count);
CUresult copy_words(CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t count);

/* ---- streams and events ------------------------------------------------------------ */

CUstream new_stream(unsigned flags);
void end_stream(CUstream stream); /* NULL is allowed */
CUevent new_event(void);          /* without timing */
void end_event(CUevent event);    /* NULL is allowed */

/* Asks every half millisecond whether something is so, for RETURNS_MS, or what
 * --returns-ms says if that is less. */
bool comes_true(bool (*is_so)(void *), void *argument);

/* Does all work of the stream, or all the event stands for, end in that time? Never waits
 * in the driver. */
bool completes(CUstream stream);
bool event_completes(CUevent event);

/* A second context of device 0; the primary one stays current. NULL with a failed
 * check. */
CUcontext new_context(void);
void end_context(CUcontext context);

/* Streams, events and memory that end with the block. */
static inline void own_words(CUdeviceptr *words)
{
    end_words(*words);
}
static inline void own_pinned(uint32_t **words)
{
    end_pinned(*words);
}
static inline void own_stream(CUstream *stream)
{
    end_stream(*stream);
}
static inline void own_event(CUevent *event)
{
    end_event(*event);
}
#define DEVICE_WORDS OWN(own_words) CUdeviceptr
#define PINNED       OWN(own_pinned) uint32_t
#define STREAM       OWN(own_stream) CUstream
#define EVENT        OWN(own_event) CUevent

/* ---- capture and graphs ------------------------------------------------------------ */

bool begin_capture(CUstream stream, CUstreamCaptureMode mode);
CUgraph end_capture(CUstream stream); /* with a failed check where there is no graph */

/* End a capture that may be invalid, and forget its graph. */
void drop_capture(CUstream stream);

/* CU_STREAM_CAPTURE_STATUS_... of a stream; -1 with a failed check. */
int capture_status(CUstream stream);

/* The capture of `stream` is invalidated, its end says so, and the stream is out of it.
 */
void check_invalidated(CUstream stream);

size_t node_count(CUgraph graph);
size_t edge_count(CUgraph graph);
int node_type(CUgraphNode node); /* -1 with a failed check */

/* How many nodes of that type, without those in child graphs. */
size_t nodes_of_type(CUgraph graph, CUgraphNodeType type);

void end_graph(CUgraph graph); /* NULL is allowed */
CUgraphExec instantiate(CUgraph graph);
void end_exec(CUgraphExec exec); /* NULL is allowed */
static inline void own_graph(CUgraph *graph)
{
    end_graph(*graph);
}
static inline void own_exec(CUgraphExec *exec)
{
    end_exec(*exec);
}
#define GRAPH OWN(own_graph) CUgraph /* ends with the block */
#define EXEC  OWN(own_exec) CUgraphExec

/* Launch in a stream and wait. */
void run_exec(CUgraphExec exec, CUstream stream);

/* Nodes that set a word, copy a word, launch gs_add of one word, call a function; behind
 * the `count` nodes at `after`. NULL with a failed check. */
CUgraphNode set_node(CUgraph graph, const CUgraphNode *after, size_t count,
                     CUdeviceptr word, uint32_t value);
CUgraphNode copy_node(CUgraph graph, const CUgraphNode *after, size_t count,
                      CUdeviceptr to, CUdeviceptr from);
CUgraphNode add_node(CUgraph graph, const CUgraphNode *after, size_t count,
                     CUdeviceptr to, CUdeviceptr from);
CUgraphNode empty_node(CUgraph graph, const CUgraphNode *after, size_t count);

/* What the nodes are made from, for updates. */
CUDA_MEMSET_NODE_PARAMS set_params(CUdeviceptr word, uint32_t value);
CUDA_MEMCPY3D copy_params(CUdeviceptr to, CUdeviceptr from);

#endif
