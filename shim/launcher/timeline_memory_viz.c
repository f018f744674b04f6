/*
 * timeline_memory_viz.c - a snapshot as PyTorch's allocator makes it, pickled, for
 * pytorch.org/memory_viz.
 *
 * Each allocation of the program is a segment with one block: that is what PyTorch takes
 * from the driver. A stack's frames are written once and referred to.
 *
 * Owns: nothing.   Lock: none.   Source: pytorch, torch/cuda/_memory_viz.py and
 * torch/utils/viz/MemoryViz.js; Python, Lib/pickletools.py (protocol 2)
 */
#include "export_out.h"
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

/* A page's script passes the items of one APPENDS as arguments of a call. */
#define ITEMS_AT_ONCE 1000

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

struct writer {
    struct gs_export_out out;
    const struct gs_timeline *timeline;
    bool written[WORD_COUNT];
    bool *stacks; /* written; one more for no stack */
    size_t items; /* of the list in progress */
    unsigned device, devices;
};

/* ---- pickle ------------------------------------------------------------------------ */

static void put_little_endian(struct writer *writer, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        gs_out_char(&writer->out, (char)(value >> 8 * i));
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
    while (bytes < 8 && value >> (8 * bytes - 1) != 0)
        bytes++;
    if (value >> 63)
        bytes = 9;
    gs_out_char(&writer->out, (char)0x8a);
    gs_out_char(&writer->out, (char)bytes);
    put_little_endian(writer, value, bytes < 8 ? bytes : 8);
    if (bytes == 9)
        gs_out_char(&writer->out, 0);
}

/* Text of any bytes; what is not UTF-8 becomes U+FFFD. */
static void put_text(struct writer *writer, const char *text)
{
    size_t length = 0;

    for (const char *c = text; *c;)
        length += gs_utf8_take(&c).length;
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
    if (!writer->written[word])
        put_text(writer, words[word]);
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

/* Behind each item of a list that may be long. */
static void end_item(struct writer *writer)
{
    if (++writer->items % ITEMS_AT_ONCE == 0)
        gs_out_text(&writer->out, "e(");
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

static void put_frames(struct writer *writer, const struct gs_replay_op *op)
{
    const struct gs_timeline *timeline = writer->timeline;
    const struct gs_timeline_stack stack = gs_timeline_stack(timeline, op);
    size_t index = gs_timeline_stack_number(timeline, op);
    size_t number = (size_t)WORD_COUNT + index;

    put_word(writer, WORD_frames);
    if (!writer->stacks[index]) {
        gs_out_char(&writer->out, ']');
        put_memo(writer, false, number);
        gs_out_char(&writer->out, '(');
        for (size_t i = 0; i < stack.count; i++)
            put_frame(writer, &stack.frames[i]);
        gs_out_char(&writer->out, 'e');
        writer->stacks[index] = true;
    } else {
        put_memo(writer, true, number);
    }
}

/* The address; one of its own where the trace has none. */
static uint64_t address_of(const struct gs_replay_op *op, uint64_t address)
{
    return address ? address : ((uint64_t)op->id + 1) << 9;
}

static void put_event(struct writer *writer, const struct gs_replay_op *op,
                      uint64_t address, enum word action)
{
    const struct gs_replay_trace *trace = writer->timeline->trace;

    open_dict(writer);
    put_word_pair(writer, WORD_action, action);
    put_pair(writer, WORD_addr, address_of(op, address));
    put_pair(writer, WORD_size, op->bytes);
    put_pair(writer, WORD_stream, op->stream);
    put_pair(writer, WORD_time_us, (trace->start_real_ns + op->time_ns) / 1000);
    put_frames(writer, op);
    close_dict(writer);
    end_item(writer);
}

static bool is_shown(const struct writer *writer, const struct gs_replay_op *op)
{
    return op->op != GS_TRACE_SYNC && op->kind != GS_TRACE_KIND_PINNED &&
           gs_timeline_shows(writer->timeline, op->id);
}

/* gs_replay_see: what happened to memory of writer->device. */
static void put_operation(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct writer *writer = self;

    if (!is_shown(writer, op) || op->device != writer->device)
        return;
    if (op->op == GS_TRACE_ALLOC) {
        put_event(writer, op, address, WORD_segment_alloc);
        put_event(writer, op, address, WORD_alloc);
    } else {
        put_event(writer, op, address, WORD_free_requested);
        put_event(writer, op, address, WORD_free_completed);
        put_event(writer, op, address, WORD_segment_free);
    }
}

/* A list of one item: its end mark is its caller's. */
static void put_segment(struct writer *writer, const struct gs_replay_op *op,
                        uint64_t address)
{
    open_dict(writer);
    put_pair(writer, WORD_address, address_of(op, address));
    put_pair(writer, WORD_device, op->device);
    put_pair(writer, WORD_total_size, op->bytes);
    put_pair(writer, WORD_allocated_size, op->bytes);
    put_pair(writer, WORD_active_size, op->bytes);
    put_pair(writer, WORD_requested_size, op->bytes);
    put_pair(writer, WORD_stream, op->stream);
    put_word_pair(writer, WORD_segment_type, WORD_large);
    put_frames(writer, op);
    put_word(writer, WORD_blocks);
    gs_out_char(&writer->out, ']');
    open_dict(writer);
    put_pair(writer, WORD_address, address_of(op, address));
    put_pair(writer, WORD_size, op->bytes);
    put_pair(writer, WORD_requested_size, op->bytes);
    put_word_pair(writer, WORD_state, WORD_active_allocated);
    put_frames(writer, op);
    close_dict(writer);
    gs_out_char(&writer->out, 'a');
    close_dict(writer);
    end_item(writer);
}

/* gs_replay_see: what is live at the trace's end. */
static void put_if_live(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct writer *writer = self;

    if (!is_shown(writer, op))
        return;
    if (op->device >= writer->devices)
        writer->devices = op->device + 1u;
    if (op->op == GS_TRACE_ALLOC && !writer->timeline->freed[op->id])
        put_segment(writer, op, address);
}

enum gs_status gs_timeline_memory_viz(const struct gs_timeline *timeline,
                                      const struct gs_export_sink *sink)
{
    struct writer writer = {.timeline = timeline,
                            .devices = 1,
                            .stacks =
                                gs_replay_alloc(timeline->stack_count + 1, sizeof(bool))};

    gs_out_begin(&writer.out, sink);
    gs_out_bytes(&writer.out, "\x80\x02", 2);
    open_dict(&writer);
    put_word(&writer, WORD_segments);
    open_list(&writer);
    gs_replay_visit(timeline->trace, put_if_live, &writer);
    close_list(&writer);
    put_word(&writer, WORD_device_traces);
    gs_out_text(&writer.out, "](");
    for (; writer.device < writer.devices; writer.device++) {
        open_list(&writer);
        gs_replay_visit(timeline->trace, put_operation, &writer);
        close_list(&writer);
    }
    close_list(&writer);
    close_dict(&writer);
    gs_out_char(&writer.out, '.');
    free(writer.stacks);
    return gs_out_end(&writer.out);
}
