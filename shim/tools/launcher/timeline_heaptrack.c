/*
 * timeline_heaptrack.c - the file that heaptrack's own interpreter writes, version 2.
 *
 * Texts, frames, stacks and kinds of allocations are numbered by the order of their
 * lines; a line of an event names a number. The innermost frame of each stack is the
 * memory, "GPU 0", so that heaptrack's views begin with devices.
 *
 * Owns: nothing.   Lock: none.   Source: KDE/heaptrack,
 * src/analyze/accumulatedtracedata.cpp
 */
#include "gs_hash.h"
#include "shim/tools/launcher/timeline.h"
#include "tracker/report/files/export_out.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text_number {
    UT_hash_handle hh;
    char *text;
    uint32_t number;
};

/* A size at a stack of a memory: what an event names. */
struct kind_number {
    UT_hash_handle hh;
    struct kind_key {
        uint64_t bytes, stack;
    } key;
    uint32_t number;
};

struct writer {
    struct gs_export_out out;
    const struct gs_timeline *timeline;
    struct text_number *texts;
    uint32_t text_count;
    uint32_t *frames; /* by number of the frame: heaptrack's; 0: not written */
    uint32_t frame_count, node_count;
    struct kind_number *kinds;
    uint32_t kind_count;
    uint64_t last_ms;
    bool failed; /* no memory */
};

static void GS_PRINTF(2, 3) put(struct writer *writer, const char *format, ...)
{
    char line[256];
    va_list words;

    va_start(words, format);
    vsnprintf(line, sizeof(line), format, words);
    va_end(words);
    gs_out_text(&writer->out, line);
}

/* The number of a text; 0: none. Control characters become '?': a line ends a text. */
static uint32_t number_text(struct writer *writer, const char *text)
{
    struct text_number *found = NULL;

    if (!text || !*text) {
        return 0;
    }
    HASH_FIND_STR(writer->texts, text, found);
    if (found) {
        return found->number;
    }
    found = calloc(1, sizeof(*found));
    if (!found || !(found->text = strdup(text))) {
        free(found);
        writer->failed = true;
        return 0;
    }
    found->number = ++writer->text_count;
    HASH_ADD_KEYPTR(hh, writer->texts, found->text, strlen(found->text), found);
    gs_out_text(&writer->out, "s ");
    gs_out_part(&writer->out, text, "");
    gs_out_char(&writer->out, '\n');
    return found->number;
}

static uint32_t number_frame(struct writer *writer, const struct gs_export_frame *frame)
{
    uint32_t *number = &writer->frames[frame->number];

    if (*number == 0) {
        uint32_t module = number_text(writer, frame->module);
        uint32_t function = number_text(writer, frame->function);
        uint32_t file = number_text(writer, frame->file);

        put(writer, "i %llx %x", (unsigned long long)frame->offset, module);
        if (function) {
            put(writer, " %x %x %x", function, file, file ? frame->line : 0);
        }
        gs_out_char(&writer->out, '\n');
        *number = ++writer->frame_count;
    }
    return *number;
}

/* Returns the number of the memory's frame. */
static uint32_t number_memory(struct writer *writer, const char *memory)
{
    uint32_t name = number_text(writer, memory);

    put(writer, "i 0 %x %x 0 0\n", name, name);
    return ++writer->frame_count;
}

/* Writes a stack with its memory innermost. Returns the number of its innermost node. */
static uint32_t put_stack(struct writer *writer, const struct gs_timeline_stack *stack,
                          const char *memory)
{
    uint32_t frames[1024], parent = 0;
    size_t count = 0;

    frames[count++] = number_memory(writer, memory);
    for (size_t i = 0; i < stack->count && count < GS_ARRAY_LEN(frames); i++) {
        frames[count++] = number_frame(writer, &stack->frames[i]);
    }
    while (count > 0) {
        put(writer, "t %x %x\n", frames[--count], parent);
        parent = ++writer->node_count;
    }
    return parent;
}

/* Returns the number of an allocation's size and stack. */
static uint32_t number_kind(struct writer *writer, const struct gs_replay_op *op)
{
    const struct gs_timeline *timeline = writer->timeline;
    uint64_t memory = gs_timeline_memory_of(op);
    struct kind_key place = {.bytes = UINT64_MAX,
                             .stack = gs_timeline_stack_number(timeline, op) | memory
                                                                                   << 32};
    struct kind_key key = {.bytes = op->bytes, .stack = place.stack};
    struct kind_number *found = GS_HASH_FIND(writer->kinds, &key), *node;
    char name[32];

    if (found) {
        return found->number;
    }
    node = GS_HASH_FIND(writer->kinds, &place);
    found = calloc(1, sizeof(*found));
    if (!node && found && (node = calloc(1, sizeof(*node)))) {
        const struct gs_timeline_stack stack = gs_timeline_stack(timeline, op);

        node->key = place;
        node->number = put_stack(writer, &stack, gs_timeline_memory(op, name));
        if (!GS_HASH_ADD(writer->kinds, key, node)) {
            free(node);
            node = NULL;
        }
    }
    if (!found || !node) {
        free(found);
        writer->failed = true;
        return 0;
    }
    found->key = key;
    found->number = writer->kind_count++;
    put(writer, "a %llx %x\n", (unsigned long long)op->bytes, node->number);
    if (!GS_HASH_ADD(writer->kinds, key, found)) {
        free(found);
        writer->failed = true;
        return 0;
    }
    return found->number;
}

/* gs_replay_see */
static void put_event(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct writer *writer = self;
    uint64_t ms = op->time_ns / 1000000;
    uint32_t kind;

    (void)address;
    if (op->op == GS_TRACE_SYNC || writer->failed) {
        return;
    }
    if (ms != writer->last_ms) {
        put(writer, "c %llx\n", (unsigned long long)ms);
    }
    writer->last_ms = ms;
    kind = number_kind(writer, op);
    put(writer, "%c %x\n", op->op == GS_TRACE_ALLOC ? '+' : '-', kind);
}

static void free_writer(struct writer *writer)
{
    struct text_number *text, *after;

    HASH_ITER (hh, writer->texts, text, after) {
        HASH_DEL(writer->texts, text);
        free(text->text);
        free(text);
    }
    GS_HASH_FREE(writer->kinds);
    free(writer->frames);
}

enum gs_status gs_timeline_heaptrack(const struct gs_timeline *timeline,
                                     const struct gs_export_sink *sink)
{
    const struct gs_replay_trace *trace = timeline->trace;
    struct writer writer = {.timeline = timeline,
                            .frames =
                                gs_replay_alloc(timeline->frame_count, sizeof(uint32_t))};

    gs_out_begin(&writer.out, sink);
    put(&writer, "v 10400 2\n");
    gs_out_text(&writer.out, "X ");
    gs_out_part(&writer.out, trace->program[0] ? trace->program : "gpushim", "");
    put(&writer, "\nI 1000 1\n");
    gs_replay_visit(trace, put_event, &writer);
    put(&writer, "c %llx\n", (unsigned long long)(trace->end_ns / 1000000) + 1);
    bool failed = writer.failed;
    free_writer(&writer);
    enum gs_status status = gs_out_end(&writer.out);
    return failed ? GS_ERR_HOST_NOMEM : status;
}
