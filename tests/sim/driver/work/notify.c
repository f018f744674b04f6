/*
 * notify.c - notes of a layer between the program and the driver (cudasim_notify.h),
 * told to the oracle: what it hands out and takes back is the program's allocation and
 * free, whose native meaning counts in N; what it does in between is its own and counts
 * in S.
 *
 * Owns:  the blocks taken back that are not yet handed out again, by address.
 * Lock:  blocks_lock.
 */
#include "cudasim_notify.h"

#include <stdlib.h>

#include "config.h"
#include "context.h"
#include "event.h"
#include "log.h"
#include "order.h"
#include "thread.h"

#define BUCKETS 1024

/* The last life of a block at that address. */
struct block {
    uintptr_t address;
    struct oracle_allocation *allocation; /* with a reference */
    struct block *next;
};

static struct block *blocks[BUCKETS]; /* blocks_lock */
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static struct block **bucket_of(uintptr_t address)
{
    return &blocks[(address / SIM_ALIGN_BYTES * 0x9e3779b97f4a7c15ull) >> 54];
}

/* Remember the allocation as the last one at its address, with the caller's reference. */
static void remember(uintptr_t address, struct oracle_allocation *allocation)
{
    struct oracle_allocation *before = NULL;

    pthread_mutex_lock(&blocks_lock);
    struct block *block = *bucket_of(address);
    while (block && block->address != address)
        block = block->next;
    if (!block && (block = calloc(1, sizeof(*block)))) {
        block->address = address;
        block->next = *bucket_of(address);
        *bucket_of(address) = block;
    }
    if (block) {
        before = block->allocation;
        block->allocation = allocation;
    } else {
        before = allocation;
    }
    pthread_mutex_unlock(&blocks_lock);
    if (before)
        oracle_allocation_unref(before);
}

/* The last one, and forget it; NULL if there is none. */
static struct oracle_allocation *take(uintptr_t address)
{
    struct oracle_allocation *allocation = NULL;

    pthread_mutex_lock(&blocks_lock);
    for (struct block *block = *bucket_of(address); block; block = block->next) {
        if (block->address == address) {
            allocation = block->allocation;
            block->allocation = NULL;
        }
    }
    pthread_mutex_unlock(&blocks_lock);
    return allocation;
}

/* ---- where in a stream ------------------------------------------------------------- */

/* The program's point in the stream of a note, as an operation; NULL: none. The driver's
 * own call would be work there, behind that of other streams where one of them is the
 * legacy stream. A layer that serves it by itself submits nothing: the point is behind
 * them in N alone. */
static struct sim_op *point_of(const struct cudasim_note *note)
{
    struct sim_context *context = sim_thread_current();
    struct sim_layer *layer = sim_thread_layer();
    struct sim_stream *stream;

    if (!note->stream_ordered || !context ||
        sim_stream_get(context, note->stream,
                       note->per_thread ? SIM_PER_THREAD : SIM_LEGACY,
                       &stream) != CUDA_SUCCESS)
        return NULL;
    const struct sim_layer before = *layer;
    struct sim_op *op = sim_op_new(SIM_OP_MARK, SIM_ID_cuMemAllocAsync, NULL);
    layer->depth = 0; /* the program's, not the layer's */
    if (op)
        op->point = true;
    if (op && sim_submit(stream, op) != CUDA_SUCCESS) {
        sim_op_unref(op);
        op = NULL;
    }
    *layer = before;
    sim_stream_put(stream);
    return op;
}

/* ---- what a native free waits for -------------------------------------------------- */

struct lines {
    struct oracle_line **lines; /* from malloc */
    size_t count, room;
    enum gs_free_scope scope;
};

/* That of `bytes` at an address. */
static enum gs_free_scope scope_of(uintptr_t address, size_t bytes)
{
    struct sim_alloc *alloc = sim_memory_find(address);
    enum gs_free_kind kind = GS_FREE_device;

    if (alloc && alloc->kind == SIM_MEMORY_MANAGED)
        kind = GS_FREE_managed;
    else if (alloc && !sim_memory_is_device_kind(alloc))
        kind = GS_FREE_pinned;
    if (alloc)
        sim_memory_unref(alloc);
    return gs_free_waits_of(&sim_config()->free_waits, kind, bytes);
}

/* Without memory a line is left out, and what it did looks unordered. */
static void add_line(struct lines *all, struct oracle_line *line)
{
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct oracle_line **more = realloc(all->lines, room * sizeof(*more));
        if (!more)
            return;
        all->lines = more;
        all->room = room;
    }
    if (line)
        all->lines[all->count++] = line;
}

static void add_context(struct sim_context *context, void *argument)
{
    struct lines *all = argument;
    bool blocking_only = all->scope == GS_FREE_BLOCKING;

    pthread_mutex_lock(&context->lock);
    for (struct sim_stream *stream = context->streams; stream; stream = stream->next) {
        if (!blocking_only || stream->kind == SIM_STREAM_LEGACY ||
            sim_stream_is_blocking(stream))
            add_line(all, stream->line);
    }
    if (!blocking_only)
        add_line(all, context->gone[0]);
    add_line(all, context->gone[1]);
    pthread_mutex_unlock(&context->lock);
}

/* Lines a native free of so much memory at that address waits for. */
static void native_waits(uintptr_t address, size_t bytes, struct lines *all)
{
    struct sim_alloc *alloc = sim_memory_find(address);
    struct sim_context *context = sim_thread_current();

    if (alloc && sim_memory_is_of_pool(alloc))
        context = NULL; /* a free of stream-ordered memory assumes that all is complete */
    else if (alloc && alloc->context &&
             sim_context_lives(alloc->context, alloc->context_id))
        context = alloc->context;
    all->scope = scope_of(address, bytes);
    if (context && all->scope == GS_FREE_DEVICE)
        sim_context_visit(context->device, add_context, all);
    else if (context && all->scope != GS_FREE_NONE)
        add_context(context, all);
    if (alloc)
        sim_memory_unref(alloc);
}

/* ---- the notes --------------------------------------------------------------------- */

static const char *call_of(const struct cudasim_note *note)
{
    return note->call ? note->call : "a layer";
}

/* Memory that the host can touch without a call? */
static bool is_hosts(uintptr_t address)
{
    struct sim_alloc *alloc = sim_memory_find(address);
    bool hosts = alloc && !sim_memory_on_device(alloc, address);

    if (alloc)
        sim_memory_unref(alloc);
    return hosts;
}

static void hand_out(const struct cudasim_note *note)
{
    const struct oracle_range range = {note->address, note->bytes};
    struct sim_op *op = point_of(note);
    struct oracle_allocation *allocation = oracle_allocation_begin(
        &range, call_of(note), sim_thread_line(), op ? op->order : NULL, true);

    if (!op && is_hosts(note->address))
        oracle_allocation_for_host(allocation);
    sim_op_unref(op);
    if (allocation)
        oracle_allocation_unref(allocation); /* the oracle keeps those that live */
}

static void take_back(const struct cudasim_note *note)
{
    struct oracle_allocation *allocation = oracle_allocation_find(note->address);
    struct lines all = {.count = 0};
    struct sim_op *op = point_of(note);

    if (allocation && oracle_allocation_is_block(allocation, note->address)) {
        if (!op)
            native_waits(note->address, oracle_allocation_bytes(allocation), &all);
        oracle_allocation_end(allocation, call_of(note), sim_thread_line(),
                              op ? op->order : NULL, all.lines, all.count);
        remember(note->address, allocation);
        allocation = NULL;
    } else {
        sim_log_always("a layer takes back 0x%llx, which it has not handed out",
                       (unsigned long long)note->address);
    }
    sim_op_unref(op);
    free(all.lines);
    if (allocation)
        oracle_allocation_unref(allocation);
}

static void retire(const struct cudasim_note *note)
{
    struct oracle_allocation *allocation = take(note->address);
    struct sim_event *event = note->event ? sim_event_get(note->event) : NULL;
    struct sim_op *op = event ? sim_event_recorded(event) : NULL;

    if (allocation) {
        oracle_allocation_retire(allocation, sim_thread_line(), op ? op->order : NULL);
        if (note->bytes)
            remember(note->address, allocation); /* another event comes */
        else
            oracle_allocation_unref(allocation);
    }
    sim_op_unref(op);
    if (event)
        sim_event_put(event);
}

static void touch(const struct cudasim_note *note, bool writes)
{
    struct oracle_allocation *allocation = oracle_allocation_find(note->address);
    const struct oracle_access access = {.range = {note->address, note->bytes},
                                         .allocation = allocation,
                                         .writes = writes};

    oracle_host_access(sim_thread_line(), &access);
    if (allocation)
        oracle_allocation_unref(allocation);
}

/* The thread goes on behind whoever last wrote there. */
static void saw(const struct cudasim_note *note)
{
    struct oracle_op *op = oracle_op_new();

    oracle_op_saw(op, note->address, note->bytes, false);
    oracle_host_saw(sim_thread_line(), op, false, false);
    oracle_op_unref(op);
}

static void enter(const struct cudasim_note *note)
{
    struct sim_layer *layer = sim_thread_layer();

    if (layer->depth++ > 0)
        return;
    layer->entry = call_of(note);
    layer->native_waits = note->native_waits;
    layer->native_scope = scope_of(note->address, note->address ? note->bytes : SIZE_MAX);
}

static void judge(const struct cudasim_note *note)
{
    struct sim_layer *layer = sim_thread_layer();

    switch ((enum cudasim_note_kind)note->kind) {
    case CUDASIM_ENTER:
        enter(note);
        return;
    case CUDASIM_LEAVE:
        layer->depth -= layer->depth > 0;
        return;
    case CUDASIM_FORWARD:
        layer->forwarded++;
        return;
    case CUDASIM_BACK:
        layer->forwarded -= layer->forwarded > 0;
        return;
    case CUDASIM_HAND_OUT:
        hand_out(note);
        return;
    case CUDASIM_TAKE_BACK:
        take_back(note);
        return;
    case CUDASIM_RETIRE:
        retire(note);
        return;
    case CUDASIM_YIELD:
    case CUDASIM_LISTENS:
        return;
    case CUDASIM_HOST_READS:
    case CUDASIM_HOST_WRITES:
        touch(note, note->kind == CUDASIM_HOST_WRITES);
        return;
    case CUDASIM_HOST_SAW:
        saw(note);
        return;
    }
}

GS_EXPORT cudasim_notify_function cudasim_notify;

int cudasim_notify(const struct cudasim_note *note)
{
    if (!note || note->size < sizeof(*note))
        return -1;
    if (note->kind < CUDASIM_ENTER || note->kind > CUDASIM_HOST_SAW)
        return -1;
    if (note->kind == CUDASIM_LISTENS)
        return sim_order_is_wanted() || sim_config()->hostile ? 0 : 1;
    if (!sim_is_ready())
        return 0;
    if (note->kind == CUDASIM_YIELD)
        sim_sched_point();
    else if (oracle_on && sim_thread_layer())
        judge(note);
    return 0;
}
