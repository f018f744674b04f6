/*
 * stacks.h - call stacks: captured fast, interned once, resolved late.
 *
 * A stack is a list of return addresses, innermost first. Interning gives it a small id;
 * equal stacks have equal ids. Each new stack records the modules (shared objects) of its
 * addresses, so that a plug-in that was closed can still be named at exit.
 *
 * Locks: any thread may call any function; locking is internal. No lock of ours is held
 * while a stack is unwound or the loader is queried.
 * Design: docs/stacks.md
 */
#ifndef GS_STACKS_H
#define GS_STACKS_H

#include "gs_base.h"

#define GS_STACK_MAX_DEPTH 128

struct gs_stacks;
struct gs_state_memory;

enum gs_unwinder {
    GS_UNWIND_AUTO,      /* CFI if it passes its trial, else libunwind, else GCC */
    GS_UNWIND_LIBUNWIND, /* libunwind's unw_backtrace, by dlopen RTLD_LOCAL */
    GS_UNWIND_FP,        /* frame pointers, within this thread's stack only */
    GS_UNWIND_GCC,       /* _Unwind_Backtrace of libgcc_s, by dlopen */
    GS_UNWIND_OFF,
    GS_UNWIND_CFI /* our own walk by .eh_frame, within this thread's stack only */
};

/* A range of code; end is one past its last byte. Both 0: none. */
struct gs_code_range {
    uintptr_t begin, end;
};

#define GS_PYTHON_PROGRAMS 3

/* A Python interpreter in the process: addresses of its own. */
struct gs_python_symbols {
    unsigned version;                /* PY_VERSION_HEX */
    bool free_threaded;              /* a build without the interpreter's lock */
    const void *runtime;             /* PyInterpreterState_Head: the first; may be NULL */
    const void *code_type;           /* PyCode_Type */
    void *(*thread_state)(void);     /* PyGILState_GetThisThreadState */
    void *(*interpreters)(void);     /* PyInterpreterState_Head: the first; may be NULL */
    struct gs_code_range code;       /* all of the interpreter's code */
    struct gs_code_range evaluation; /* _PyEval_EvalFrameDefault */
    /* Py_BytesMain and similar: their caller is the python command */
    struct gs_code_range programs[GS_PYTHON_PROGRAMS];
};

struct gs_stacks_config {
    enum gs_unwinder unwinder;
    unsigned depth; /* frames stored, 1 to GS_STACK_MAX_DEPTH */
    /* Addresses in this range (the shim's own code) are dropped from the inner end. */
    uintptr_t own_begin, own_end;
    /* Finds an interpreter. Called at the start, then whenever modules were added, until
     * it succeeds. No lock of ours is held; the loader's lock may be taken. NULL: no
     * Python frames (docs/python.md). */
    bool (*find_python)(struct gs_python_symbols *out);
    struct gs_state_memory *memory; /* holds all state of the stacks; NULL: not in a
                                     * file */
    size_t most_bytes; /* limit of the memory for stacks; 0: 67 million stacks */
};

/* Frames from here on are numbers of Python lines, and of scopes; no code can be there.
 */
#define GS_PYTHON_FRAME_BASE ((uintptr_t)1 << 63)
#define GS_SCOPE_FRAME_BASE  (GS_PYTHON_FRAME_BASE + ((uintptr_t)1 << 32))

static inline bool gs_frame_is_scope(uintptr_t frame)
{
    return frame - GS_SCOPE_FRAME_BASE <= UINT32_MAX;
}

/* Returns true for a Python frame, and for a scope, which is a function without a file.
 */
static inline bool gs_frame_is_python(uintptr_t frame)
{
    return frame - GS_PYTHON_FRAME_BASE < (uintptr_t)2 << 32;
}

/* A Python frame, or a scope. Strings live as long as the table. */
struct gs_python_location {
    const char *function, *file; /* UTF-8 */
    unsigned line;               /* 0: none */
};

/*
 * The module of an address. Strings live as long as the table.
 */
struct gs_module {
    const char *path; /* absolute where known; the program has its real path; "[vdso]" */
    uintptr_t begin, end; /* mapped range at the snapshot */
    uintptr_t bias;       /* subtract from an address to get the ELF virtual address */
    uint8_t build_id[20]; /* the first 20 bytes of a longer one */
    uint8_t build_id_len; /* 0: none */
    uint64_t file_stamp;  /* gs_elf_file_stamp of the file, if it has no build id */
};

/* Loads the unwinder now, so that no later capture does, and tries it once. An unwinder
 * that is missing, or fails its trial, is replaced by the next one (GCC last, then OFF);
 * gs_stacks_unwinder returns the one in use.
 * Errors: GS_ERR_INVALID (depth, unwinder, range), GS_ERR_HOST_NOMEM, GS_ERR_NOT_FOUND (a
 * forked child that must not call the loader) */
enum gs_status gs_stacks_create(const struct gs_stacks_config *config,
                                struct gs_stacks **out) GS_MUST_USE;
/* NULL is allowed. No other call may be in progress; strings of its modules end here. */
void gs_stacks_destroy(struct gs_stacks *stacks);
enum gs_unwinder gs_stacks_unwinder(const struct gs_stacks *stacks);

/*
 * Captures the calling thread's stack. Never allocates from the program's malloc on the
 * fast path; takes no lock for a known stack; preserves errno. The stack begins with the
 * caller of this function, or further out, outside the caller's own range. Returns its
 * id, 0 if there is none: off, out of memory, over the limit, or a nested call (an
 * allocation by the loader or the unwinder; a signal handler).
 */
uint32_t gs_stacks_capture(struct gs_stacks *stacks);

/* Interns given addresses (tests, imports). A `count` beyond the configured depth is cut
 * and the stack marked as truncated. 0 if count is 0, or without memory, or as above. */
uint32_t gs_stacks_intern(struct gs_stacks *stacks, const uintptr_t *frames,
                          unsigned count);

/* Adds a stack whose frames are known to be code or numbers of this table. 0: no memory,
 * over the limit, or the process is forking. */
uint32_t gs_stacks_add(struct gs_stacks *stacks, const uintptr_t *frames, unsigned count,
                       bool truncated);

/* Frames of a stack: writes at most `max`, returns how many there are (0: unknown id). */
unsigned gs_stacks_frames(const struct gs_stacks *stacks, uint32_t id, uintptr_t *frames,
                          unsigned max);

/* Returns true if the stack continues beyond its last frame, because the configured depth
 * was reached. The same frames with and without more after them are two stacks. False for
 * an unknown id. */
bool gs_stacks_truncated(const struct gs_stacks *stacks, uint32_t id);

/* The module of the address at the first capture of its stack. GS_ERR_NOT_FOUND. */
enum gs_status gs_stacks_module(const struct gs_stacks *stacks, uint32_t id,
                                uintptr_t frame, struct gs_module *out) GS_MUST_USE;

/* The function and line of a Python frame. GS_ERR_NOT_FOUND: not one of this table. */
enum gs_status gs_stacks_python(const struct gs_stacks *stacks, uintptr_t frame,
                                struct gs_python_location *out) GS_MUST_USE;

/* When a stack with Python frames was captured: the numbers of the first and the last
 * time, of `all` captures with such frames. */
struct gs_python_uses {
    uint32_t count, first, last, all;
};
/* False: not known. No lock. */
bool gs_stacks_python_uses(const struct gs_stacks *stacks, uint32_t id,
                           struct gs_python_uses *out);

/* Sets the function that the first capture calls that sees that Python has ended, and
 * frees its objects: once, within the capture. NULL: none. */
void gs_stacks_watch_python(struct gs_stacks *stacks, void (*ended)(void *self),
                            void *self);

/* Call both around fork, in the forking thread, so that no insertion is half done in
 * the child; `after` in the parent. They take and release the table's lock. NULL is
 * allowed. */
void gs_stacks_before_fork(struct gs_stacks *stacks);
void gs_stacks_after_fork(struct gs_stacks *stacks);
/* Call in the child instead of `after`. If another thread held the loader's lock at the
 * fork, the child captures no new stack. */
void gs_stacks_after_fork_in_child(struct gs_stacks *stacks);

/* Distinct stacks interned (ids run from 1 to this), and bytes of memory held for
 * them. */
uint32_t gs_stacks_count(const struct gs_stacks *stacks);
/* Captures that were dropped at the limit of memory. */
uint64_t gs_stacks_refused(const struct gs_stacks *stacks);
size_t gs_stacks_bytes(const struct gs_stacks *stacks);

/*
 * Returns true if the calling thread is inside a signal handler: the interrupted code may
 * hold locks. False if the thread's stack cannot be walked.
 */
bool gs_stacks_in_signal_handler(void);

#endif
