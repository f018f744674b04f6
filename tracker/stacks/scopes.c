/*
 * scopes.c - the scopes of each thread, and their frames.
 *
 * Paths are stored like functions of Python, which have numbers for frames as well.
 *
 * Owns:  struct gs_scopes, while a thread is in a scope.   Lock: stacks->lock, for a new
 *        path.   Design: docs/api.md, "Scopes"
 */
#include "tracker/stacks/scopes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker/python/python_internal.h"
#include "tracker/stacks/alt_stack.h"
#include "tracker/stacks/stacks_internal.h"

/* NULL: the thread is in no scope. Lock: none, the thread's own. */
static __thread struct gs_scopes *scopes_of_thread
    __attribute__((tls_model("initial-exec")));

static unsigned path_length(const struct gs_scopes *scopes)
{
    unsigned depth = scopes->depth < GS_SCOPES_MAX ? scopes->depth : GS_SCOPES_MAX;

    return depth == 0 ? 0 : scopes->ends[depth - 1];
}

enum gs_status gs_scopes_begin(const char *name)
{
    struct gs_scopes *scopes = scopes_of_thread;
    size_t length = name == NULL ? 0 : strnlen(name, GS_SCOPE_NAME_MAX + 1);
    bool valid = length > 0 && length <= GS_SCOPE_NAME_MAX && strchr(name, '/') == NULL;
    unsigned end;

    if (scopes == NULL) {
        scopes = calloc(1, sizeof(*scopes));
        if (scopes == NULL) {
            return GS_ERR_HOST_NOMEM;
        }
        scopes_of_thread = scopes;
        gs_capture_state |= GS_CAPTURE_SCOPED;
    }
    end = path_length(scopes);
    valid =
        valid && scopes->depth < GS_SCOPES_MAX && end + 1 + length < GS_SCOPE_PATH_SIZE;
    if (valid) {
        if (end > 0) {
            scopes->path[end++] = '/';
        }
        memcpy(scopes->path + end, name, length + 1);
        end += (unsigned)length;
    }
    if (scopes->depth < GS_SCOPES_MAX) {
        scopes->ends[scopes->depth] = (uint16_t)end;
    }
    scopes->depth++;
    scopes->owner = NULL;
    return valid ? GS_OK : GS_ERR_INVALID;
}

enum gs_status gs_scopes_end(void)
{
    struct gs_scopes *scopes = scopes_of_thread;

    if (scopes == NULL) {
        return GS_ERR_NOT_FOUND;
    }
    if (--scopes->depth == 0) {
        gs_capture_state &= ~GS_CAPTURE_SCOPED;
        scopes_of_thread = NULL;
        free(scopes);
        return GS_OK;
    }
    scopes->path[path_length(scopes)] = '\0';
    scopes->owner = NULL;
    return GS_OK;
}

bool gs_scopes_path(char out[GS_SCOPE_PATH_SIZE])
{
    const struct gs_scopes *scopes = scopes_of_thread;
    unsigned length = scopes != NULL ? path_length(scopes) : 0;

    memcpy(out, length > 0 ? scopes->path : "", length);
    out[length] = '\0';
    return length > 0;
}

bool gs_scopes_path_has(const char *path, size_t length, const char *name)
{
    const char *end = path + length;
    size_t wanted = strlen(name);

    while (wanted > 0 && path < end) {
        const char *slash = memchr(path, '/', (size_t)(end - path));
        const char *next = slash != NULL ? slash : end;

        if ((size_t)(next - path) == wanted && memcmp(path, name, wanted) == 0) {
            return true;
        }
        path = next + 1;
    }
    return false;
}

bool gs_scopes_within(const char *name)
{
    const struct gs_scopes *scopes = scopes_of_thread;

    return scopes != NULL && gs_scopes_path_has(scopes->path, path_length(scopes), name);
}

/* The table of paths; created by the first thread that needs it. NULL: no memory. */
static struct gs_python *table_of(struct gs_stacks *stacks)
{
    struct gs_python *none = NULL;
    struct gs_python *table = atomic_load_explicit(&stacks->scopes, memory_order_acquire);

    if (table != NULL) {
        return table;
    }
    table = gs_python_create_bare(&stacks->lock, stacks->config.memory);
    if (table != NULL && !atomic_compare_exchange_strong(&stacks->scopes, &none, table)) {
        gs_python_destroy(table);
        table = none;
    }
    return table;
}

/* Stack space for a new path or a new stack, and as much again for the program's call. */
#define ADD_HEADROOM ((size_t)8 << 10)

struct request {
    struct gs_stacks *stacks;
    struct gs_python *table;
    uint32_t id; /* in: without the scopes; out: with them */
};

/* Finds the frame of the thread's path; 0: no memory, or no valid scope. */
static __attribute__((noinline)) void
find_frame(struct gs_stacks *stacks, struct gs_python *table, struct gs_scopes *scopes)
{
    char text[GS_SCOPE_PATH_SIZE + 16];
    uintptr_t frame = 0;

    if (path_length(scopes) > 0) {
        snprintf(text, sizeof(text), "[scope %s]", scopes->path);
        gs_mutex_lock(&stacks->lock);
        frame = gs_python_location_add(table, text, "", 0);
        gs_mutex_unlock(&stacks->lock);
    }
    scopes->frame = frame == 0 ? 0 : frame - GS_PYTHON_FRAME_BASE + GS_SCOPE_FRAME_BASE;
    scopes->owner = stacks;
}

static uint32_t number_of(const struct gs_scopes *scopes)
{
    return (uint32_t)(scopes->frame - GS_SCOPE_FRAME_BASE);
}

static __attribute__((noinline)) uint32_t add_frame(struct gs_stacks *stacks, uint32_t id,
                                                    uintptr_t frame)
{
    uintptr_t frames[GS_STACK_MAX_DEPTH + 1];
    unsigned count = gs_stacks_frames(stacks, id, frames, GS_STACK_MAX_DEPTH);

    if (count == GS_STACK_MAX_DEPTH) {
        count--;
    }
    frames[count] = frame;
    return gs_stacks_add(stacks, frames, count + 1, gs_stacks_truncated(stacks, id));
}

static void add(void *arg)
{
    struct request *request = arg;
    struct gs_scopes *scopes = scopes_of_thread;
    uint32_t stack;

    if (scopes->owner != request->stacks) {
        find_frame(request->stacks, request->table, scopes);
    }
    if (scopes->frame == 0) {
        return;
    }
    stack = gs_python_pair_find(request->table, request->id, number_of(scopes));
    if (stack == 0) {
        stack = add_frame(request->stacks, request->id, scopes->frame);
        gs_python_pair_add(request->table, request->id, number_of(scopes), stack);
    }
    request->id = stack == 0 ? request->id : stack;
}

uint32_t gs_scopes_add(struct gs_stacks *stacks, uint32_t id)
{
    struct request request = {.stacks = stacks, .table = table_of(stacks), .id = id};
    const struct gs_scopes *scopes = scopes_of_thread;
    uint32_t known = 0;

    if (request.table == NULL) {
        return id;
    }
    if (scopes->owner == stacks && scopes->frame != 0) {
        known = gs_python_pair_find(request.table, id, number_of(scopes));
    }
    if (known != 0) {
        return known;
    }
    if (gs_alt_stack_has(ADD_HEADROOM)) {
        add(&request);
    } else {
        gs_alt_stack_call(ADD_HEADROOM, add, &request);
    }
    return request.id;
}
