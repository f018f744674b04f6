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

/* A path has slashes between names alone, so that each path names one scope. */
static char path_char(char of_name)
{
    return of_name == '/' ? ':' : of_name;
}

/* Returns whether a name of a path is that of a scope. */
static bool is_name(const char *in_path, const char *name, size_t length)
{
    size_t i = 0;

    while (i < length && in_path[i] == path_char(name[i])) {
        i++;
    }
    return i == length;
}

enum gs_status gs_scopes_begin(const char *name)
{
    struct gs_scopes *scopes = scopes_of_thread;
    size_t length = name == NULL ? 0 : strnlen(name, GS_SCOPE_NAME_MAX + 1);
    bool valid = length > 0 && length <= GS_SCOPE_NAME_MAX;
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
        for (size_t i = 0; i <= length; i++) {
            scopes->path[end + i] = path_char(name[i]);
        }
        end += (unsigned)length;
    }
    if (scopes->depth < GS_SCOPES_MAX) {
        scopes->ends[scopes->depth] = (uint16_t)end;
    }
    scopes->depth++;
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
    if (scopes->numbered > scopes->depth) {
        scopes->numbered = scopes->depth;
    }
    if (scopes->told > scopes->depth) {
        scopes->told = scopes->depth;
    }
    return GS_OK;
}

bool gs_scopes_current_path(char out[GS_SCOPE_PATH_SIZE])
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

        if ((size_t)(next - path) == wanted && is_name(path, name, wanted)) {
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

/* ---- numbers of paths ------------------------------------------------------------ */

#define PREFIX       "[scope "
#define PREFIX_BYTES (sizeof(PREFIX) - 1)

/* Numbers of paths by a hash of their text, which is compared before a number is used.
 * Lock: none; atomic. */
#define KNOWN_PATHS 4096u
static uint32_t known_paths[KNOWN_PATHS];

static uint32_t *known_path(const char *path, unsigned length)
{
    uint64_t hash = length;

    for (unsigned i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)path[i]) * 0x100000001b3u;
    }
    return &known_paths[(hash ^ hash >> 24) % KNOWN_PATHS];
}

static bool is_path(const struct gs_stacks *stacks, uint32_t number, const char *path,
                    unsigned length)
{
    struct gs_python_location location;

    return number != 0 &&
           gs_stacks_python(stacks, GS_SCOPE_FRAME_BASE + number, &location) == GS_OK &&
           strncmp(location.function + PREFIX_BYTES, path, length) == 0 &&
           location.function[PREFIX_BYTES + length] == ']' &&
           location.function[PREFIX_BYTES + length + 1] == '\0';
}

static __attribute__((noinline)) uint32_t
add_path(struct gs_stacks *stacks, struct gs_python *table, const char *path, int length)
{
    char text[GS_SCOPE_PATH_SIZE + 16];
    uintptr_t frame;

    snprintf(text, sizeof(text), PREFIX "%.*s]", length, path);
    gs_mutex_lock(&stacks->lock);
    frame = gs_python_location_add(table, text, "", 0);
    gs_mutex_unlock(&stacks->lock);
    return frame == 0 ? 0 : (uint32_t)(frame - GS_PYTHON_FRAME_BASE);
}

/* Returns the number of a path; 0: no memory. */
static uint32_t number_path(struct gs_stacks *stacks, const char *path, unsigned length)
{
    uint32_t *known = known_path(path, length);
    uint32_t number = __atomic_load_n(known, __ATOMIC_RELAXED);
    struct gs_python *table;

    if (!is_path(stacks, number, path, length)) {
        table = table_of(stacks);
        number = table == NULL ? 0 : add_path(stacks, table, path, (int)length);
        __atomic_store_n(known, number, __ATOMIC_RELAXED);
    }
    return number;
}

/* Returns true if the scope was begun with a valid name: what is allocated in one that
 * was not belongs to the scope around it. */
static bool is_valid(const struct gs_scopes *scopes, unsigned at)
{
    return scopes->ends[at] != (at == 0 ? 0 : scopes->ends[at - 1]);
}

static uint32_t around(const struct gs_scopes *scopes, unsigned at)
{
    return at == 0 ? 0 : scopes->numbers[at - 1];
}

/* Numbers the scopes that have no number yet. Returns the number of the thread's path. */
static uint32_t number_scopes(struct gs_stacks *stacks, struct gs_scopes *scopes)
{
    unsigned depth = scopes->depth < GS_SCOPES_MAX ? scopes->depth : GS_SCOPES_MAX;

    if (scopes->owner != stacks) {
        scopes->owner = stacks;
        scopes->numbered = scopes->told = 0;
    }
    for (unsigned at = scopes->numbered; at < depth; at++) {
        scopes->numbers[at] = is_valid(scopes, at)
                                  ? number_path(stacks, scopes->path, scopes->ends[at])
                                  : around(scopes, at);
        scopes->numbered = at + 1;
    }
    return scopes->numbers[depth - 1];
}

uint32_t gs_scopes_number(struct gs_stacks *stacks, gs_scope_begun *begun, void *self)
{
    struct gs_scopes *scopes = scopes_of_thread;
    uint32_t number;

    if (scopes == NULL || stacks == NULL || (gs_capture_state & GS_CAPTURE_INSIDE)) {
        return 0;
    }
    if (scopes->owner == stacks && scopes->told == scopes->depth) {
        return scopes->numbers[scopes->depth - 1];
    }
    gs_capture_state |= GS_CAPTURE_INSIDE;
    number = number_scopes(stacks, scopes);
    gs_capture_state &= ~GS_CAPTURE_INSIDE;
    for (; scopes->told < scopes->numbered; scopes->told++) {
        if (is_valid(scopes, scopes->told) && scopes->numbers[scopes->told] != 0) {
            begun(self, scopes->numbers[scopes->told], around(scopes, scopes->told));
        }
    }
    return number;
}

bool gs_scopes_have(uint32_t stack)
{
    const struct gs_scopes *scopes = scopes_of_thread;

    return scopes != NULL && stack != 0 && scopes->stack == stack;
}

size_t gs_scopes_path(const struct gs_stacks *stacks, uint32_t scope,
                      char path[GS_SCOPE_PATH_SIZE])
{
    struct gs_python_location location;
    size_t length;

    if (stacks == NULL || scope == 0 ||
        gs_stacks_python(stacks, GS_SCOPE_FRAME_BASE + scope, &location) != GS_OK) {
        return 0;
    }
    length = strlen(location.function);
    if (length <= PREFIX_BYTES + 1 || length - PREFIX_BYTES > GS_SCOPE_PATH_SIZE) {
        return 0;
    }
    length -= PREFIX_BYTES + 1;
    memcpy(path, location.function + PREFIX_BYTES, length);
    path[length] = '\0';
    return length;
}

/* ---- frames ---------------------------------------------------------------------- */

/* Stack space for a new path or a new stack, and as much again for the program's call. */
#define ADD_HEADROOM ((size_t)8 << 10)

struct request {
    struct gs_stacks *stacks;
    struct gs_python *table;
    uint32_t id; /* in: without the scopes; out: with them */
};

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

/* The number of the thread's path; 0: it has none yet, or no memory. */
static uint32_t number_now(const struct gs_scopes *scopes, const struct gs_stacks *stacks)
{
    unsigned depth = scopes->depth < GS_SCOPES_MAX ? scopes->depth : GS_SCOPES_MAX;

    return scopes->owner == stacks && scopes->numbered == depth
               ? scopes->numbers[depth - 1]
               : 0;
}

static void add(void *arg)
{
    struct request *request = arg;
    uint32_t number = number_scopes(request->stacks, scopes_of_thread);
    uint32_t stack;

    if (number == 0) {
        return;
    }
    stack = gs_python_pair_find(request->table, request->id, number);
    if (stack == 0) {
        stack = add_frame(request->stacks, request->id, GS_SCOPE_FRAME_BASE + number);
        gs_python_pair_add(request->table, request->id, number, stack);
    }
    scopes_of_thread->stack = stack;
    request->id = stack == 0 ? request->id : stack;
}

uint32_t gs_scopes_add(struct gs_stacks *stacks, uint32_t id)
{
    struct request request = {.stacks = stacks, .table = table_of(stacks), .id = id};
    struct gs_scopes *scopes = scopes_of_thread;
    uint32_t number = number_now(scopes, stacks), known = 0;

    scopes->stack = 0;
    if (request.table == NULL) {
        return id;
    }
    if (number != 0) {
        known = gs_python_pair_find(request.table, id, number);
    }
    if (known != 0) {
        scopes->stack = known;
        return known;
    }
    if (gs_alt_stack_has(ADD_HEADROOM)) {
        add(&request);
    } else {
        gs_alt_stack_call(ADD_HEADROOM, add, &request);
    }
    return request.id;
}
