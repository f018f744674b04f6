/*
 * python.h - the frames of CPython's functions, read without the interpreter's help.
 *
 * A thread that runs Python has a chain of Python frames in addition to its native stack.
 * The thread reads its own frames as plain memory. It takes no lock of the interpreter,
 * and calls only the interpreter's look-up of the thread's own state. If the layout of a
 * version is not known for certain, there are no Python frames.
 *
 * A Python frame gets a number in place of a return address, from a range without code.
 * So stacks with both kinds of frames are stored like all others.
 *
 * Locks: none for known frames; the owner's for new ones.   Design: docs/python.md
 */
#ifndef GS_PYTHON_H
#define GS_PYTHON_H

#include "gs_base.h"
#include "gs_locks.h"
#include "tracker/stacks/stacks.h"

struct gs_python;

/* A walk returns the program's frames. This value separates the frames of two calls
 * of the interpreter's evaluation function. */
#define GS_PYTHON_RUN_END GS_PYTHON_FRAME_BASE

/* Deeper than any stored stack. */
#define GS_PYTHON_ENTRIES_MAX (2 * GS_STACK_MAX_DEPTH + 2)

/* The calling thread's Python frames, innermost first. */
struct gs_python_walk {
    unsigned count, runs;
    uint32_t id; /* equal for equal walks; 0: no frames, or no memory */
    bool truncated;
    uintptr_t entries[GS_PYTHON_ENTRIES_MAX]; /* frames, and GS_PYTHON_RUN_END */
    /* For each run, an address within the native frame of the evaluation function; 0:
     * unknown */
    uintptr_t native_addresses[GS_STACK_MAX_DEPTH + 2];
};

/* A native stack, the input of a merge. */
struct gs_native_walk {
    const uintptr_t *frames;
    const uintptr_t *stack_pointers; /* one for each frame; NULL: not known */
    unsigned count;
    bool truncated;
};

struct gs_merged_stack {
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    unsigned count;
    bool truncated;
};

/* NULL: an unknown version or build, or no memory. `lock` is the owner's, and is taken
 * for new frames; `memory` holds functions, files and lines. */
struct gs_python *gs_python_create(const struct gs_python_symbols *symbols,
                                   struct gs_mutex *lock, struct gs_state_memory *memory);
/* For the functions and lines of an interpreter in another process, and for scopes. NULL:
 * no memory. */
struct gs_python *gs_python_create_bare(struct gs_mutex *lock,
                                        struct gs_state_memory *memory);
void gs_python_destroy(struct gs_python *python);

/*
 * Call when the process ends but the library still has work. Keeps threads that Python
 * never waited for from waking up in a finalized interpreter, where they would crash
 * (docs/python.md). Returns whether they are held; they stay held for good.
 */
bool gs_python_hold_threads(const struct gs_python_symbols *symbols);

/* Returns true if the interpreter is on this native stack. Only then does it have a
 * readable state of this thread. */
bool gs_python_runs(const struct gs_python *python, const uintptr_t *frames,
                    unsigned count);

/* Walks the frames of the calling thread; count 0: none available. May change errno. */
void gs_python_walk(struct gs_python *python, struct gs_python_walk *walk);

/* Returns true if this thread's stack is the same as in its last walk; *id is then that
 * walk's number. Costs a fraction of a walk. May change errno. */
bool gs_python_recognise(struct gs_python *python, uint32_t *id);

/* The merged stack of a native stack and a walk, as added with gs_python_pair_add; 0: not
 * known, or forgotten. */
uint32_t gs_python_pair_find(const struct gs_python *python, uint32_t native,
                             uint32_t walk);
void gs_python_pair_add(struct gs_python *python, uint32_t native, uint32_t walk,
                        uint32_t stack);

/* Replaces the interpreter's own frames in a native stack with Python's: the innermost
 * `depth` frames, and further out only Python frames, to GS_STACK_MAX_DEPTH in all. A
 * frame named "[native frames left out]" replaces native frames between those. Of still
 * more frames the innermost and the outermost are kept, with "[frames left out]"
 * between. */
void gs_python_merge(const struct gs_python *python, const struct gs_native_walk *native,
                     const struct gs_python_walk *walk, unsigned depth,
                     struct gs_merged_stack *out);

/* The function, file and line of a frame's number. GS_ERR_NOT_FOUND. */
enum gs_status gs_python_location(const struct gs_python *python, uintptr_t frame,
                                  struct gs_python_location *out) GS_MUST_USE;

/* Counts a capture with this merged stack. */
void gs_python_count(struct gs_python *python, uint32_t stack);
/* The captures with a merged stack; false: not known. No lock. */
bool gs_python_uses(const struct gs_python *python, uint32_t stack,
                    struct gs_python_uses *out);
/* Whether the interpreter has ended, and frees its objects. No lock. */
bool gs_python_has_ended(const struct gs_python *python);

size_t gs_python_bytes(const struct gs_python *python);

#endif
