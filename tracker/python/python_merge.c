/*
 * python_merge.c - merges a native stack and Python's frames into one stack.
 *
 * Role:  leaves out the interpreter's own frames, and puts the Python frames that an
 *        evaluation function runs in its position. Native frames between them, such as an
 *        extension that calls back, keep their position.
 * Owns:  nothing.   Lock: none.   Design: docs/python.md
 *
 * Since 3.10 the evaluation function has data on the native stack that Python's chain
 * points to. The native frame that spans this address is the evaluation function's,
 * however the compiler split it. Before 3.10, or if the walk has no stack pointers, its
 * frames are recognised by their code addresses and counted. If the count differs from
 * Python's, all Python frames take the position of the interpreter's innermost frame.
 *
 * The depth bounds the stack, but not its Python frames: a dispatcher may put more native
 * frames than that before the first of them. Beyond the depth only Python frames are
 * kept, and one frame represents the native ones left out between them. Of a stack with
 * more frames than a stack can have, the innermost and the outermost are kept: a
 * framework's calls are in between, and the program's at both ends.
 */
#include "tracker/python/python_internal.h"

#include <string.h>

#define OUTERMOST 32u /* frames kept of a stack that is too deep */

struct merge {
    const struct gs_python *python;
    const struct gs_native_walk *native;
    const struct gs_python_walk *walk;
    struct gs_merged_stack *out;
    unsigned depth;
    unsigned run, entry; /* of the walk, the next to write */
    bool left_out;       /* native frames were left out since the last kept frame */
    uintptr_t outermost[OUTERMOST]; /* the last frames without space, as a ring */
    unsigned beyond;                /* how many had no space */
};

static bool is_in(const struct gs_code_range *range, uintptr_t frame)
{
    return frame - 1 - range->begin < range->end - range->begin;
}

bool gs_python_runs(const struct gs_python *python, const uintptr_t *frames,
                    unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (is_in(&python->symbols.code, frames[i])) {
            return true;
        }
    }
    return false;
}

static void emit(struct merge *merge, uintptr_t frame)
{
    struct gs_merged_stack *out = merge->out;
    unsigned wanted = merge->left_out ? 2 : 1;

    if (out->count >= merge->depth) {
        if (!gs_frame_is_python(frame)) {
            merge->left_out = true;
            return;
        }
        if (merge->beyond > 0 || out->count + wanted > GS_STACK_MAX_DEPTH) {
            merge->outermost[merge->beyond++ % OUTERMOST] = frame;
            return;
        }
    }
    if (merge->left_out && merge->python->left_out != 0) {
        out->frames[out->count++] = merge->python->left_out;
    }
    merge->left_out = false;
    out->frames[out->count++] = frame;
}

static void emit_run(struct merge *merge)
{
    const struct gs_python_walk *walk = merge->walk;

    while (merge->entry < walk->count &&
           walk->entries[merge->entry] != GS_PYTHON_RUN_END) {
        emit(merge, walk->entries[merge->entry++]);
    }
    merge->entry++;
    merge->run++;
}

/* Returns true if the native frame contains the address of the next run. A truncated run
 * has no address: it belongs to the next evaluation function further out. */
static bool spans_run(const struct merge *merge, unsigned i, bool has_one)
{
    const struct gs_native_walk *native = merge->native;
    uintptr_t address = merge->walk->native_addresses[merge->run];

    if (address == 0) {
        return !has_one && is_in(&merge->python->symbols.evaluation, native->frames[i]);
    }
    return address >= native->stack_pointers[i] &&
           (i + 1 == native->count || address < native->stack_pointers[i + 1]);
}

static bool is_program(const struct merge *merge, uintptr_t frame)
{
    for (size_t i = 0; i < GS_PYTHON_PROGRAMS; i++) {
        if (is_in(&merge->python->symbols.programs[i], frame)) {
            return true;
        }
    }
    return false;
}

/* Counts evaluation functions inside the innermost run. They belong to another
 * interpreter, which this thread's state does not refer to. */
static unsigned foreign_evaluations(const struct merge *merge)
{
    unsigned evaluations = 0;

    for (unsigned i = 0; i < merge->native->count; i++) {
        evaluations +=
            is_in(&merge->python->symbols.evaluation, merge->native->frames[i]);
    }
    if (merge->native->truncated || merge->walk->truncated ||
        evaluations < merge->walk->runs) {
        return 0;
    }
    return evaluations - merge->walk->runs;
}

/* Puts each run in its position. False: a run has none. */
static bool merge_in_place(struct merge *merge)
{
    const struct gs_native_walk *native = merge->native;
    const struct gs_python_symbols *symbols = &merge->python->symbols;
    bool by_address =
        native->stack_pointers != NULL && merge->walk->native_addresses[0] != 0;
    unsigned skipped = by_address ? 0 : foreign_evaluations(merge);

    for (unsigned i = 0; i < native->count; i++) {
        uintptr_t frame = native->frames[i];
        unsigned before = merge->run;

        if (by_address) {
            while (merge->run < merge->walk->runs &&
                   spans_run(merge, i, merge->run != before)) {
                emit_run(merge);
            }
        } else if (is_in(&symbols->evaluation, frame) && merge->run < merge->walk->runs) {
            if (skipped > 0) {
                skipped--;
            } else {
                emit_run(merge);
            }
        }
        if (is_program(merge, frame)) {
            break;
        }
        if (merge->run == before && !is_in(&symbols->code, frame)) {
            emit(merge, frame);
        }
    }
    if (native->truncated || merge->walk->truncated) {
        while (merge->run < merge->walk->runs) {
            emit_run(merge);
        }
    }
    return merge->run == merge->walk->runs;
}

static void merge_together(struct merge *merge)
{
    const struct gs_native_walk *native = merge->native;
    bool inside = false;

    for (unsigned i = 0; i < native->count; i++) {
        bool interpreters = is_in(&merge->python->symbols.code, native->frames[i]);

        if (interpreters && !inside) {
            inside = true;
            while (merge->run < merge->walk->runs) {
                emit_run(merge);
            }
        }
        if (is_program(merge, native->frames[i])) {
            return;
        }
        if (!interpreters) {
            emit(merge, native->frames[i]);
        }
    }
}

/* Replaces frames in the middle by the outermost ones, and by one that says so. */
static void put_outermost(struct merge *merge)
{
    struct gs_merged_stack *out = merge->out;
    unsigned kept = merge->beyond < OUTERMOST ? merge->beyond : OUTERMOST;
    unsigned at = GS_STACK_MAX_DEPTH - kept;

    if (merge->beyond == 0) {
        return;
    }
    if (merge->python->skipped != 0) {
        out->frames[at - 1] = merge->python->skipped;
    }
    for (unsigned i = 0; i < kept; i++) {
        out->frames[at + i] = merge->outermost[(merge->beyond - kept + i) % OUTERMOST];
    }
    out->count = GS_STACK_MAX_DEPTH;
}

void gs_python_merge(const struct gs_python *python, const struct gs_native_walk *native,
                     const struct gs_python_walk *walk, unsigned depth,
                     struct gs_merged_stack *out)
{
    struct merge merge = {
        .python = python, .native = native, .walk = walk, .out = out, .depth = depth};

    out->count = 0;
    out->truncated = false;
    if (walk->count == 0) {
        for (unsigned i = 0; i < native->count; i++) {
            emit(&merge, native->frames[i]);
        }
    } else if (!merge_in_place(&merge)) {
        merge.run = merge.entry = 0;
        merge.left_out = false;
        merge.beyond = 0;
        out->count = 0;
        out->truncated = false;
        merge_together(&merge);
    }
    put_outermost(&merge);
    out->truncated =
        out->truncated || merge.left_out || native->truncated || walk->truncated;
}
