/*
 * scopes.c - the scopes of each thread, and their frames.
 *
 * Paths are stored like functions of Python, which have numbers for frames as well.
 *
 * Owns:  struct gs_scopes, from a thread's first scope to the thread's end.   Lock:
 * stacks->lock, for a new path.   Design: docs/api.md, "Scopes"
 */
#include "tracker/stacks/scopes.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker/python/python_internal.h"
#include "tracker/stacks/alt_stack.h"
#include "tracker/stacks/stacks_internal.h"

__thread struct gs_scopes *gs_scopes_of_thread;
static pthread_key_t thread_end; /* without it the memory of ended threads stays */
static bool thread_end_set;

static void end_thread(void *scopes)
{
    gs_scopes_of_thread = NULL;
    gs_capture_state &= ~GS_CAPTURE_SCOPED;
    free(scopes);
}

static void set_thread_end(void)
{
    thread_end_set = pthread_key_create(&thread_end, end_thread) == 0;
}

static __attribute__((noinline)) struct gs_scopes *make_scopes(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, set_thread_end);
    gs_scopes_of_thread = calloc(1, sizeof(*gs_scopes_of_thread));
    if (gs_scopes_of_thread != NULL && thread_end_set) {
        (void)pthread_setspecific(thread_end, gs_scopes_of_thread);
    }
    return gs_scopes_of_thread;
}

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

/* Returns true if the name is that of the scope that ended last at this depth. */
static inline bool is_last_one(const struct gs_scopes *scopes, const char *name,
                               size_t length)
{
    const unsigned depth = scopes->depth;
    const unsigned end = path_length(scopes), begin = end > 0 ? end + 1 : 0;

    return depth < scopes->kept && length > 0 && scopes->ends[depth] == begin + length &&
           memcmp(scopes->path + begin, name, length) == 0;
}

static __attribute__((noinline)) bool add_scope(struct gs_scopes *scopes,
                                                const char *name, size_t length)
{
    unsigned end = path_length(scopes);
    bool valid = length > 0 && length <= GS_SCOPE_NAME_MAX &&
                 scopes->depth < GS_SCOPES_MAX && end + 1 + length < GS_SCOPE_PATH_SIZE;

    if (scopes->numbered > scopes->depth) {
        scopes->numbered = scopes->depth;
    }
    scopes->kept =
        (scopes->depth < GS_SCOPES_MAX ? scopes->depth : GS_SCOPES_MAX) + valid;
    if (valid) {
        if (end > 0) {
            scopes->path[end++] = '/';
        }
        for (size_t i = 0; i < length; i++) {
            scopes->path[end + i] = path_char(name[i]);
        }
        end += (unsigned)length;
    }
    if (scopes->depth < GS_SCOPES_MAX) {
        scopes->ends[scopes->depth] = (uint16_t)end;
    }
    return valid;
}

enum gs_status gs_scopes_begin(const char *name)
{
    struct gs_scopes *scopes = gs_scopes_of_thread;
    size_t length = name == NULL ? 0 : strnlen(name, GS_SCOPE_NAME_MAX + 1);

    if (GS_UNLIKELY(scopes == NULL) && (scopes = make_scopes()) == NULL) {
        return GS_ERR_HOST_NOMEM;
    }
    bool valid = is_last_one(scopes, name, length) || add_scope(scopes, name, length);
    scopes->depth++;
    gs_capture_state |= GS_CAPTURE_SCOPED;
    return valid ? GS_OK : GS_ERR_INVALID;
}

enum gs_status gs_scopes_end(void)
{
    struct gs_scopes *scopes = gs_scopes_of_thread;

    if (scopes == NULL || scopes->depth == 0) {
        return GS_ERR_NOT_FOUND;
    }
    if (--scopes->depth == 0) {
        gs_capture_state &= ~GS_CAPTURE_SCOPED;
    }
    if (scopes->told > scopes->depth) {
        scopes->told = scopes->depth;
    }
    return GS_OK;
}

size_t gs_scopes_current(const char **path)
{
    const struct gs_scopes *scopes = gs_scopes_of_thread;
    unsigned length = scopes != NULL ? path_length(scopes) : 0;

    *path = length > 0 ? scopes->path : "";
    return length;
}

bool gs_scopes_current_path(char out[GS_SCOPE_PATH_SIZE])
{
    const char *path;
    size_t length = gs_scopes_current(&path);

    memcpy(out, path, length);
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

/* Returns the end of the name that begins at `name`. */
static const char *name_end(const char *name, const char *end)
{
    const char *slash = memchr(name, '/', (size_t)(end - name));

    return slash != NULL ? slash : end;
}

bool gs_scopes_path_matches(const char *path, size_t length, const char *pattern,
                            gs_scope_match *matches)
{
    const char *end = path + length, *next;
    bool several = strchr(pattern, '/') != NULL;
    char names[GS_SCOPE_PATH_SIZE];

    for (const char *first = path; first < end; first = name_end(first, end) + 1) {
        for (const char *last = first; last < end; last = next + 1) {
            next = name_end(last, end);
            snprintf(names, sizeof(names), "%.*s", (int)(next - first), first);
            if (matches(pattern, names)) {
                return true;
            }
            if (!several) {
                break;
            }
        }
    }
    return false;
}

bool gs_scopes_within(const char *name)
{
    const struct gs_scopes *scopes = gs_scopes_of_thread;

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

/* A path as the function of a location. */
static void write_function(char out[GS_SCOPE_PATH_SIZE + 16], const char *path,
                           int length)
{
    snprintf(out, GS_SCOPE_PATH_SIZE + 16, PREFIX "%.*s]", length, path);
}

static __attribute__((noinline)) uint32_t
add_path(struct gs_stacks *stacks, struct gs_python *table, const char *path, int length)
{
    char text[GS_SCOPE_PATH_SIZE + 16];
    uintptr_t frame;

    write_function(text, path, length);
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

/* The number of the thread's path; 0: it has none yet, or no memory. */
static uint32_t number_now(const struct gs_scopes *scopes, const struct gs_stacks *stacks)
{
    unsigned depth = scopes->depth < GS_SCOPES_MAX ? scopes->depth : GS_SCOPES_MAX;

    return scopes->owner == stacks->identity && scopes->numbered >= depth
               ? scopes->numbers[depth - 1]
               : 0;
}

/* Numbers the scopes that have no number yet. Returns the number of the thread's path. */
static uint32_t number_scopes(struct gs_stacks *stacks, struct gs_scopes *scopes)
{
    unsigned depth = scopes->depth < GS_SCOPES_MAX ? scopes->depth : GS_SCOPES_MAX;

    if (scopes->owner != stacks->identity) {
        scopes->owner = stacks->identity;
        scopes->numbered = scopes->told = 0;
        scopes->stack = scopes->settled = 0;
    }
    for (unsigned at = scopes->numbered; at < depth; at++) {
        scopes->numbers[at] = is_valid(scopes, at)
                                  ? number_path(stacks, scopes->path, scopes->ends[at])
                                  : around(scopes, at);
        scopes->numbered = at + 1;
    }
    if (scopes->numbers[depth - 1] == 0) {
        scopes->numbered = depth - 1; /* tried again when it begins again */
    }
    return scopes->numbers[depth - 1];
}

/* For a scope that begun was not called for yet. */
static __attribute__((noinline)) uint32_t number_new(struct gs_stacks *stacks,
                                                     struct gs_scopes *scopes,
                                                     gs_scope_begun *begun, void *self)
{
    unsigned depth = scopes->depth < GS_SCOPES_MAX ? scopes->depth : GS_SCOPES_MAX;
    uint32_t number = number_now(scopes, stacks);

    if (number == 0) {
        gs_capture_state |= GS_CAPTURE_INSIDE;
        number = number_scopes(stacks, scopes);
        gs_capture_state &= ~GS_CAPTURE_INSIDE;
    }
    for (; scopes->told < depth; scopes->told++) {
        if (is_valid(scopes, scopes->told) && scopes->numbers[scopes->told] != 0) {
            begun(self, scopes->numbers[scopes->told], around(scopes, scopes->told));
        }
    }
    return number;
}

uint32_t gs_scopes_number(struct gs_stacks *stacks, gs_scope_begun *begun, void *self)
{
    struct gs_scopes *scopes = gs_scopes_of_thread;

    if ((gs_capture_state & (GS_CAPTURE_SCOPED | GS_CAPTURE_INSIDE)) !=
            GS_CAPTURE_SCOPED ||
        stacks == NULL) {
        return 0;
    }
    if (GS_LIKELY(scopes->owner == stacks->identity && scopes->told == scopes->depth)) {
        return scopes->numbers[scopes->depth - 1];
    }
    return number_new(stacks, scopes, begun, self);
}

bool gs_scopes_have(uint32_t stack)
{
    const struct gs_scopes *scopes = gs_scopes_of_thread;

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

uint32_t gs_scopes_find(struct gs_stacks *stacks, const char *path)
{
    struct gs_python *table = stacks != NULL ? atomic_load(&stacks->scopes) : NULL;
    char text[GS_SCOPE_PATH_SIZE + 16];
    size_t length = strnlen(path, GS_SCOPE_PATH_SIZE);
    uintptr_t frame;

    if (table == NULL || length == GS_SCOPE_PATH_SIZE) {
        return 0;
    }
    write_function(text, path, (int)length);
    gs_mutex_lock(&stacks->lock);
    frame = gs_python_location_find(table, text, "", 0);
    gs_mutex_unlock(&stacks->lock);
    return frame == 0 ? 0 : (uint32_t)(frame - GS_PYTHON_FRAME_BASE);
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

static inline void remember(struct gs_scopes *scopes, uint32_t native, uint32_t number,
                            uint32_t stack)
{
    scopes->native = native;
    scopes->native_number = number;
    scopes->stack = stack;
}

static void add(void *arg)
{
    struct request *request = arg;
    uint32_t number = number_scopes(request->stacks, gs_scopes_of_thread);
    uint32_t stack;

    if (number == 0) {
        return;
    }
    stack = gs_python_pair_find(request->table, request->id, number);
    if (stack == 0) {
        stack = add_frame(request->stacks, request->id, GS_SCOPE_FRAME_BASE + number);
        gs_python_pair_add(request->table, request->id, number, stack);
    }
    remember(gs_scopes_of_thread, request->id, number, stack);
    request->id = stack == 0 ? request->id : stack;
}

static uint32_t add_new(struct gs_stacks *stacks, uint32_t id, uint32_t number)
{
    struct request request = {.stacks = stacks, .table = table_of(stacks), .id = id};
    struct gs_scopes *scopes = gs_scopes_of_thread;
    uint32_t known = 0;

    scopes->stack = 0;
    if (request.table == NULL) {
        return id;
    }
    if (number != 0) {
        known = gs_python_pair_find(request.table, id, number);
    }
    if (known != 0) {
        remember(scopes, id, number, known);
        return known;
    }
    if (gs_alt_stack_has(ADD_HEADROOM)) {
        add(&request);
    } else {
        gs_alt_stack_call(ADD_HEADROOM, add, &request);
    }
    return request.id;
}

uint32_t gs_scopes_add(struct gs_stacks *stacks, uint32_t id)
{
    int saved_errno = errno;
    uint32_t stack = add_new(stacks, id, number_now(gs_scopes_of_thread, stacks));

    errno = saved_errno;
    return stack;
}
