/*
 * timeline_memory_viz.c - a snapshot as PyTorch's allocator makes it, pickled, for
 * pytorch.org/memory_viz.
 *
 * A segment of the snapshot is one of the pool's, its blocks are allocations. An
 * allocation that the driver served is a segment with one block. A stack's frames are
 * written once and referred to. Of a damaged trace a segment may begin or end twice.
 *
 * Owns: nothing.   Lock: none.   Source: pytorch, torch/cuda/_memory_viz.py and
 * torch/utils/viz/MemoryViz.js; Python, Lib/pickletools.py (protocol 2)
 */
#include "gs_compare.h"
#include "pool/pool.h"
#include "shim/tools/launcher/timeline.h"
#include "tracker/report/files/export_out.h"

#include <stdlib.h>
#include <string.h>

/* A page's script passes the items of one APPENDS as arguments of a call. */
#define ITEMS_AT_ONCE 1000

/* The unit of the pool's blocks of a size. What size classes add is not in a trace, and
 * shows as a hole. */
#define UNIT(bytes) ((bytes) < GS_LARGE_BYTES ? GS_BLOCK_BYTES : GS_LARGE_BYTES)

/* Keys and words, each written once. */
enum word {
#define WORDS                                                                            \
    WORD(action)                                                                         \
    WORD(addr)                                                                           \
    WORD(size)                                                                           \
    WORD(stream)                                                                         \
    WORD(time_us)                                                                        \
    WORD(frames)                                                                         \
    WORD(name)                                                                           \
    WORD(filename)                                                                       \
    WORD(line)                                                                           \
    WORD(segments)                                                                       \
    WORD(device_traces)                                                                  \
    WORD(address)                                                                        \
    WORD(device)                                                                         \
    WORD(total_size)                                                                     \
    WORD(allocated_size)                                                                 \
    WORD(active_size)                                                                    \
    WORD(requested_size)                                                                 \
    WORD(segment_type)                                                                   \
    WORD(blocks)                                                                         \
    WORD(state)                                                                          \
    WORD(large)                                                                          \
    WORD(active_allocated)                                                               \
    WORD(inactive)                                                                       \
    WORD(segment_alloc)                                                                  \
    WORD(alloc)                                                                          \
    WORD(free_requested)                                                                 \
    WORD(free_completed)                                                                 \
    WORD(segment_free)
#define WORD(name) WORD_##name,
    WORDS
#undef WORD
        WORD_COUNT
};

static const char *const words[] = {
#define WORD(name) #name,
    WORDS
#undef WORD
};

/* The live allocations at the trace's end. */
struct block {
    struct gs_replay_op op;
    uint64_t address;
};

struct writer {
    struct gs_export_out out;
    const struct gs_timeline *timeline;
    bool written[WORD_COUNT];
    bool *stacks; /* written; one more for no stack */
    size_t items; /* of the list in progress */
    unsigned device;
    bool devices[256]; /* the trace has memory of it */
    struct gs_timeline_pool *pool;
    bool *alone;          /* by allocation: it is in no segment of the pool */
    struct block *blocks; /* by address */
    size_t block_count, block_room;
    uint64_t *made_up; /* addresses by allocation; NULL: the trace has them */
    size_t next;       /* the first block after the segments that are written */
};

/* ---- pickle ------------------------------------------------------------------------ */

static void put_little_endian(struct writer *writer, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        gs_out_char(&writer->out, (char)(value >> 8 * i));
    }
}

/* BININT1, BININT2 or LONG1, whose sign is a bit of its own. */
static void put_number(struct writer *writer, uint64_t value)
{
    unsigned bytes = 1;

    if (value <= UINT16_MAX) {
        bytes = value <= UINT8_MAX ? 1 : 2;
        gs_out_char(&writer->out, bytes == 1 ? 'K' : 'M');
        put_little_endian(writer, value, bytes);
        return;
    }
    while (bytes < 8 && value >> (8 * bytes - 1) != 0) {
        bytes++;
    }
    if (value >> 63) {
        bytes = 9;
    }
    gs_out_char(&writer->out, (char)0x8a);
    gs_out_char(&writer->out, (char)bytes);
    put_little_endian(writer, value, bytes < 8 ? bytes : 8);
    if (bytes == 9) {
        gs_out_char(&writer->out, 0);
    }
}

/* Text of any bytes; what is not UTF-8 becomes U+FFFD. */
static void put_text(struct writer *writer, const char *text)
{
    size_t length = 0;

    for (const char *c = text; *c;) {
        length += gs_utf8_take(&c).length;
    }
    gs_out_char(&writer->out, 'X');
    put_little_endian(writer, length, 4);
    while (*text) {
        struct gs_utf8 c = gs_utf8_take(&text);
        gs_out_bytes(&writer->out, c.bytes, c.length);
    }
}

/* LONG_BINPUT: the value just written is number `number`; LONG_BINGET: it, once more. */
static void put_memo(struct writer *writer, bool again, size_t number)
{
    gs_out_char(&writer->out, again ? 'j' : 'r');
    put_little_endian(writer, number, 4);
}

static void put_word(struct writer *writer, enum word word)
{
    if (!writer->written[word]) {
        put_text(writer, words[word]);
    }
    put_memo(writer, writer->written[word], word);
    writer->written[word] = true;
}

static void put_pair(struct writer *writer, enum word key, uint64_t value)
{
    put_word(writer, key);
    put_number(writer, value);
}

static void put_word_pair(struct writer *writer, enum word key, enum word value)
{
    put_word(writer, key);
    put_word(writer, value);
}

static void open_dict(struct writer *writer)
{
    gs_out_text(&writer->out, "}(");
}

static void close_dict(struct writer *writer)
{
    gs_out_char(&writer->out, 'u');
}

static void open_list(struct writer *writer)
{
    gs_out_text(&writer->out, "](");
    writer->items = 0;
}

/* After each item of a list that may be long. */
static void end_item(struct writer *writer)
{
    if (++writer->items % ITEMS_AT_ONCE == 0) {
        gs_out_text(&writer->out, "e(");
    }
}

static void close_list(struct writer *writer)
{
    gs_out_char(&writer->out, 'e');
}

/* ---- the snapshot ------------------------------------------------------------------ */

static void put_frame(struct writer *writer, const struct gs_export_frame *frame)
{
    char function[512];
    const char *file = frame->file ? frame->file : frame->module;

    open_dict(writer);
    put_word(writer, WORD_name);
    put_text(writer, gs_timeline_function(frame, function));
    put_word(writer, WORD_filename);
    put_text(writer, file ? file : "");
    put_pair(writer, WORD_line, frame->line);
    close_dict(writer);
}

/* NULL: no stack. */
static void put_frames(struct writer *writer, const struct gs_replay_op *op)
{
    const struct gs_timeline *timeline = writer->timeline;
    size_t index = op ? gs_timeline_stack_number(timeline, op) : timeline->stack_count;
    const struct gs_timeline_stack stack =
        op ? gs_timeline_stack(timeline, op) : (struct gs_timeline_stack){.count = 0};
    size_t number = (size_t)WORD_COUNT + index;

    put_word(writer, WORD_frames);
    if (!writer->stacks[index]) {
        gs_out_char(&writer->out, ']');
        put_memo(writer, false, number);
        gs_out_char(&writer->out, '(');
        for (size_t i = 0; i < stack.count; i++) {
            put_frame(writer, &stack.frames[i]);
        }
        gs_out_char(&writer->out, 'e');
        writer->stacks[index] = true;
    } else {
        put_memo(writer, true, number);
    }
}

/* The address; one of its own where the trace has none. */
static uint64_t address_of(const struct writer *writer, const struct gs_replay_op *op,
                           uint64_t address)
{
    return writer->made_up ? writer->made_up[op->id] : address;
}

/* `op`: of which allocation; NULL: of a segment of the pool. */
static void put_event(struct writer *writer, enum word action, uint64_t time_ns,
                      uint64_t address, uint64_t bytes, const struct gs_replay_op *op)
{
    const struct gs_replay_trace *trace = writer->timeline->trace;

    open_dict(writer);
    put_word_pair(writer, WORD_action, action);
    put_pair(writer, WORD_addr, address);
    put_pair(writer, WORD_size, bytes);
    put_pair(writer, WORD_stream, op ? op->stream : 0);
    put_pair(writer, WORD_time_us, (trace->start_real_ns + time_ns) / 1000);
    put_frames(writer, op);
    close_dict(writer);
    end_item(writer);
}

static void put_operation_event(struct writer *writer, const struct gs_replay_op *op,
                                uint64_t address, enum word action)
{
    put_event(writer, action, op->time_ns, address_of(writer, op, address), op->bytes,
              op);
}

/* Device memory. */
static bool is_device(const struct gs_replay_op *op)
{
    return op->op != GS_TRACE_SYNC && op->kind != GS_TRACE_KIND_PINNED;
}

/* gs_replay_see: what happened to memory of writer->device. */
static void put_operation(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct writer *writer = self;
    bool *alone = &writer->alone[op->id];

    if (op->op == GS_TRACE_SYNC) {
        return;
    }
    gs_timeline_pool_see(writer->pool, op, address);
    if (!is_device(op) || !gs_timeline_shows(writer->timeline, op->id) ||
        op->device != writer->device) {
        return;
    }
    if (op->op == GS_TRACE_ALLOC) {
        *alone = !gs_timeline_pool_has(writer->pool, address);
        if (*alone) {
            put_operation_event(writer, op, address, WORD_segment_alloc);
        }
        put_operation_event(writer, op, address, WORD_alloc);
    } else {
        put_operation_event(writer, op, address, WORD_free_requested);
        put_operation_event(writer, op, address, WORD_free_completed);
        if (*alone) {
            put_operation_event(writer, op, address, WORD_segment_free);
        }
    }
}

/* gs_replay_see_range */
static void see_range(void *self, const struct gs_replay_range *range)
{
    struct writer *writer = self;

    gs_timeline_pool_see_range(writer->pool, range);
}

/* gs_timeline_segment_see: a segment of the pool begins or ends. */
static void put_range(void *self, const struct gs_timeline_segment *segment)
{
    struct writer *writer = self;

    if (segment->memory == writer->device) {
        put_event(writer, segment->ends ? WORD_segment_free : WORD_segment_alloc,
                  segment->time_ns, segment->begin, segment->bytes, NULL);
    }
}

/* ---- at the end -------------------------------------------------------------------- */

/* gs_replay_see_range */
static void note_device(void *self, const struct gs_replay_range *range)
{
    struct writer *writer = self;

    if (range->op == GS_TRACE_MAPPED && range->kind != GS_TRACE_KIND_PINNED) {
        writer->devices[range->device] = true;
    }
}

/* gs_replay_see: notes the device, and keeps what is live at the end. */
static void keep_if_live(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct writer *writer = self;

    if (!is_device(op)) {
        return;
    }
    writer->devices[op->device] = true;
    if (op->op != GS_TRACE_ALLOC || op->bytes == 0 || writer->timeline->freed[op->id]) {
        return;
    }
    writer->blocks = gs_replay_grow(writer->blocks, writer->block_count,
                                    &writer->block_room, sizeof(*writer->blocks));
    writer->blocks[writer->block_count++] =
        (struct block){.op = *op, .address = address_of(writer, op, address)};
}

static int by_address(const void *a, const void *b)
{
    const struct block *x = a, *y = b;

    return GS_RISING(x->address, y->address);
}

/* An item of a segment's list. `op`: of which allocation; NULL: of none that is shown. */
static void put_block(struct writer *writer, uint64_t address, uint64_t bytes,
                      uint64_t requested, const struct gs_replay_op *op, bool live)
{
    open_dict(writer);
    put_pair(writer, WORD_address, address);
    put_pair(writer, WORD_size, bytes);
    put_pair(writer, WORD_requested_size, requested);
    put_word_pair(writer, WORD_state, live ? WORD_active_allocated : WORD_inactive);
    put_frames(writer, op);
    close_dict(writer);
    end_item(writer);
}

/* The members of a segment in front of its blocks. */
static void put_segment(struct writer *writer, const struct gs_timeline_segment *segment,
                        uint64_t live, const struct gs_replay_op *op)
{
    put_pair(writer, WORD_address, segment->begin);
    put_pair(writer, WORD_device, segment->memory);
    put_pair(writer, WORD_total_size, segment->bytes);
    put_pair(writer, WORD_allocated_size, live);
    put_pair(writer, WORD_active_size, live);
    put_pair(writer, WORD_requested_size, live);
    put_pair(writer, WORD_stream, op ? op->stream : 0);
    put_word_pair(writer, WORD_segment_type, WORD_large);
    put_frames(writer, op);
    put_word(writer, WORD_blocks);
}

/* A segment that the driver gave for one allocation; not one of the pool's. */
static void put_alone(struct writer *writer, const struct block *block)
{
    const struct gs_replay_op *op = &block->op;
    size_t items = writer->items;

    if (!writer->alone[op->id]) {
        return;
    }
    open_dict(writer);
    put_segment(writer,
                &(struct gs_timeline_segment){
                    .begin = block->address, .bytes = op->bytes, .memory = op->device},
                op->bytes, op);
    open_list(writer);
    put_block(writer, block->address, op->bytes, op->bytes, op, true);
    close_list(writer);
    close_dict(writer);
    writer->items = items;
    end_item(writer);
}

/* Those in front of the address. */
static void put_all_alone(struct writer *writer, uint64_t address)
{
    while (writer->next < writer->block_count &&
           writer->blocks[writer->next].address < address) {
        put_alone(writer, &writer->blocks[writer->next++]);
    }
}

/* Blocks of a segment that follow each other, written as one. */
struct piece {
    uint64_t begin, end, requested;
    const struct gs_replay_op *op; /* NULL: of several, or not shown */
    bool live;
};

static void put_piece(struct writer *writer, const struct piece *piece)
{
    if (piece->end > piece->begin) {
        put_block(writer, piece->begin, piece->end - piece->begin, piece->requested,
                  piece->op, piece->live);
    }
}

/* The blocks from `from` on that are in a segment, and the holes between them. */
static void put_pieces(struct writer *writer, const struct gs_timeline_segment *segment,
                       size_t from, size_t to)
{
    uint64_t end = segment->begin + segment->bytes;
    struct piece last = {.begin = segment->begin, .end = segment->begin};

    for (size_t i = from; i < to; i++) {
        const struct block *block = &writer->blocks[i];
        uint64_t next = i + 1 < to ? writer->blocks[i + 1].address : end;
        uint64_t unit = UNIT(block->op.bytes);
        uint64_t bytes = (block->op.bytes + unit - 1) & ~(unit - 1);
        bool shown = gs_timeline_shows(writer->timeline, block->op.id);

        bytes = bytes <= next - block->address ? bytes : next - block->address;
        if (block->address != last.end || shown || last.op || !last.live) {
            put_piece(writer, &last);
            put_piece(writer, &(struct piece){.begin = last.end, .end = block->address});
            last = (struct piece){
                .begin = block->address, .op = shown ? &block->op : NULL, .live = true};
        }
        last.end = block->address + bytes;
        last.requested += block->op.bytes;
    }
    put_piece(writer, &last);
    put_piece(writer, &(struct piece){.begin = last.end, .end = end});
}

/* gs_timeline_segment_see: a segment of the pool, and those alone in front of it. */
static void put_pool_segment(void *self, const struct gs_timeline_segment *segment)
{
    struct writer *writer = self;
    uint64_t live = 0;
    size_t from, items;

    put_all_alone(writer, segment->begin);
    from = writer->next;
    for (; writer->next < writer->block_count &&
           writer->blocks[writer->next].address < segment->begin + segment->bytes;
         writer->next++) {
        live += writer->blocks[writer->next].op.bytes;
    }
    if (segment->memory == GS_TIMELINE_PINNED) {
        return;
    }
    items = writer->items;
    open_dict(writer);
    put_segment(writer, segment, live, NULL);
    open_list(writer);
    put_pieces(writer, segment, from, writer->next);
    close_list(writer);
    close_dict(writer);
    writer->items = items;
    end_item(writer);
}

static void put_device(struct writer *writer)
{
    if (!writer->devices[writer->device]) {
        gs_out_char(&writer->out, ']');
        return;
    }
    if (writer->pool) {
        gs_timeline_pool_free(writer->pool);
    }
    writer->pool = gs_timeline_pool_create(writer->timeline);
    gs_timeline_pool_watch(writer->pool, put_range, writer);
    open_list(writer);
    gs_replay_visit_ranges(writer->timeline->trace, put_operation, see_range, writer);
    close_list(writer);
}

enum gs_status gs_timeline_memory_viz(const struct gs_timeline *timeline,
                                      const struct gs_export_sink *sink)
{
    struct writer writer = {
        .timeline = timeline,
        .stacks = gs_replay_alloc(timeline->stack_count + 1, sizeof(bool)),
        .alone = gs_replay_alloc(timeline->trace->allocations + 1, sizeof(bool))};
    unsigned devices = GS_ARRAY_LEN(writer.devices);

    if (!timeline->trace->file) {
        writer.made_up = gs_replay_make_up_addresses(timeline->trace);
    }
    gs_replay_visit_ranges(timeline->trace, keep_if_live, note_device, &writer);
    if (writer.block_count) {
        qsort(writer.blocks, writer.block_count, sizeof(*writer.blocks), by_address);
    }
    gs_out_begin(&writer.out, sink);
    gs_out_bytes(&writer.out, "\x80\x02", 2);
    open_dict(&writer);
    put_word(&writer, WORD_device_traces);
    gs_out_text(&writer.out, "](");
    while (devices > 0 && !writer.devices[devices - 1]) {
        devices--;
    }
    for (; writer.device < devices; writer.device++) {
        put_device(&writer);
    }
    close_list(&writer);
    put_word(&writer, WORD_segments);
    open_list(&writer);
    if (writer.pool) {
        gs_timeline_pool_segments(writer.pool, put_pool_segment, &writer);
    }
    put_all_alone(&writer, UINT64_MAX);
    close_list(&writer);
    close_dict(&writer);
    gs_out_char(&writer.out, '.');
    if (writer.pool) {
        gs_timeline_pool_free(writer.pool);
    }
    free(writer.stacks);
    free(writer.alone);
    free(writer.blocks);
    free(writer.made_up);
    return gs_out_end(&writer.out);
}
