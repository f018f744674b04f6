/*
 * stacks.c - captures stacks: walk, trim, look up, and record the modules of a new stack.
 *
 * Owns:  struct gs_stacks.   Lock: stacks->lock, for adding stacks and for the module
 *        table; known stacks are found without it.   Design: docs/stacks.md
 *
 * Order of a capture: walk (no lock), look up (no lock). Only for a new stack: query the
 * loader for added and removed modules (its lock, none of ours), take the lock, add. The
 * lock is the innermost of all: no other lock is taken under it.
 */
#include "gs_locks.h"
#include "tracker/stacks/stacks_internal.h"

#include "tracker/host_memory.h"
#include "tracker/names/loader_gate.h"
#include "tracker/names/modules.h"
#include "tracker/python/python.h"
#include "tracker/stacks/alt_stack.h"
#include "tracker/stacks/code_address.h"
#include "tracker/stacks/scopes.h"
#include "tracker/stacks/thread_stack.h"
#include "tracker/stacks/unwind.h"
#include "tracker/stacks/walk_cache.h"
#include "tracker/statefile/state_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INNER_FRAMES_FIRST 3u

/* Marks the id of a remembered walk: a native stack, into which Python frames must be
 * merged. Ids are smaller. */
#define WITH_PYTHON 0x80000000u

/* Stack space that a walk needs, libgcc's and the loader's part included, and as much
 * again for the program's call. */
#define CAPTURE_HEADROOM ((size_t)24 << 10)

#define MISSES_MAX    4u
#define COMPARE_EVERY 256u

/* A walk, trimmed. */
struct capture {
    uintptr_t walked[GS_WALK_INNER_MAX + GS_STACK_MAX_DEPTH + 1];
    const uintptr_t *frames; /* into walked */
    unsigned count;
    bool truncated;
    bool python; /* contains the interpreter: kept deeper, for Python's frames */
    struct gs_walk_reads notes;
};

static _Atomic uint64_t last_number; /* number of the newest gs_stacks */

/* Lock: none, the thread's own. `inner_frames`: the most frames that a capture dropped.
 */
__thread unsigned gs_capture_state;
static __thread unsigned inner_frames __attribute__((tls_model("initial-exec"))) =
    INNER_FRAMES_FIRST;

/* Begins what allocates or calls the loader; returns whether the thread was inside
 * already. */
static bool enter(void)
{
    bool was = gs_capture_state & GS_CAPTURE_INSIDE;

    gs_capture_state |= GS_CAPTURE_INSIDE;
    return was;
}

static void leave(bool was)
{
    if (!was) {
        gs_capture_state &= ~GS_CAPTURE_INSIDE;
    }
}

/* Captures since the last recognised walk.
 * Lock: none, the thread's own. */
static __thread unsigned misses __attribute__((tls_model("initial-exec")));

/* Whether to compare this walk with known ones. A thread whose walks are hardly ever
 * recognised does so only now and then: a failed comparison, with the recording of the
 * walk, costs half a walk. */
static inline bool worth_comparing(void)
{
    return GS_LIKELY(misses < MISSES_MAX) || ++misses % COMPARE_EVERY == 0;
}

static struct gs_python *python_of(const struct gs_stacks *stacks)
{
    return atomic_load_explicit(&stacks->python, memory_order_acquire);
}

static struct gs_python *scopes_of(const struct gs_stacks *stacks)
{
    return atomic_load_explicit(&stacks->scopes, memory_order_acquire);
}

/* Searches for an interpreter. Remembered walks do not say whether they contain it, so a
 * new number invalidates them. */
static void search_python(struct gs_stacks *stacks)
{
    struct gs_python_symbols symbols = {0};
    struct gs_python *none = NULL, *python;

    if (stacks->config.find_python == NULL || python_of(stacks) != NULL ||
        !stacks->config.find_python(&symbols)) {
        return;
    }
    python = gs_python_create(&symbols, &stacks->lock, stacks->config.memory);
    if (python == NULL) {
        return;
    }
    if (atomic_compare_exchange_strong(&stacks->python, &none, python)) {
        atomic_store(&stacks->number, atomic_fetch_add(&last_number, 1) + 1);
    } else {
        gs_python_destroy(python);
    }
}

enum gs_status gs_stacks_create(const struct gs_stacks_config *config,
                                struct gs_stacks **out)
{
    struct gs_stacks *stacks;
    bool was_inside;
    int saved_errno = errno;

    if (config == NULL || out == NULL || config->depth == 0 ||
        config->depth > GS_STACK_MAX_DEPTH || config->own_begin > config->own_end ||
        (unsigned)config->unwinder > GS_UNWIND_CFI) {
        return GS_ERR_INVALID;
    }
    if (gs_loader_is_shut()) {
        return GS_ERR_NOT_FOUND;
    }
    stacks = gs_state_map(config->memory, sizeof(*stacks));
    if (stacks == NULL) {
        errno = saved_errno;
        return GS_ERR_HOST_NOMEM;
    }
    stacks->config = *config;
    stacks->table.memory = config->memory;
    stacks->modules.memory = config->memory;
    stacks->number = stacks->identity = atomic_fetch_add(&last_number, 1) + 1;
    gs_mutex_init(&stacks->lock, GS_RANK_STACKS);
    was_inside = enter();
    stacks->config.unwinder = gs_unwind_prepare(config->unwinder);
    if (stacks->config.unwinder != GS_UNWIND_OFF) {
        search_python(stacks);
    }
    leave(was_inside);
    errno = saved_errno;
    *out = stacks;
    return GS_OK;
}

void gs_stacks_destroy(struct gs_stacks *stacks)
{
    if (stacks == NULL) {
        return;
    }
    gs_python_destroy(python_of(stacks));
    gs_python_destroy(scopes_of(stacks));
    gs_stack_table_clear(&stacks->table);
    gs_module_table_clear(&stacks->modules);
    gs_mutex_destroy(&stacks->lock);
    gs_state_unmap(stacks->config.memory, stacks, sizeof(*stacks));
}

enum gs_unwinder gs_stacks_unwinder(const struct gs_stacks *stacks)
{
    return stacks->config.unwinder;
}

static GS_NOINLINE void call_ended(struct gs_stacks *stacks)
{
    void (*ended)(void *) = atomic_exchange(&stacks->ended, NULL);

    if (ended != NULL) {
        ended(stacks->ended_self);
    }
}

/* Called where a stack is not recognised: the first one of Python's end is new. */
static void check_ended(struct gs_stacks *stacks, const struct gs_python *python)
{
    if (atomic_load_explicit(&stacks->ended, memory_order_acquire) != NULL &&
        gs_python_has_ended(python)) {
        call_ended(stacks);
    }
}

/* Returns the number of inner frames to drop: up to the caller at `anchor`, then the
 * library's own range. */
static unsigned inner_count(const struct gs_stacks *stacks, const uintptr_t *walked,
                            unsigned count, uintptr_t anchor)
{
    const struct gs_stacks_config *config = &stacks->config;
    unsigned i = 0;

    while (i < count && i < GS_WALK_INNER_MAX && walked[i] != anchor) {
        i++;
    }
    if (i == count || walked[i] != anchor) {
        i = 0;
    }
    while (i < count &&
           walked[i] - 1 - config->own_begin < config->own_end - config->own_begin) {
        i++;
    }
    return i;
}

/*
 * Walks and trims. Leaves space for as many inner frames as this thread's captures had to
 * drop so far. If that was too little, walks again with all the space there is.
 */
static inline __attribute__((always_inline)) void capture_walk(struct gs_stacks *stacks,
                                                               struct capture *capture,
                                                               uintptr_t anchor,
                                                               bool noted)
{
    const struct gs_python *python = python_of(stacks);
    unsigned depth =
        GS_UNLIKELY(python != NULL) ? GS_STACK_MAX_DEPTH : stacks->config.depth;
    unsigned room = depth + 1 + inner_frames;
    enum gs_walk_end end;

    for (;;) {
        unsigned count =
            noted ? gs_unwind_walk_recording(stacks->config.unwinder, capture->walked,
                                             room, &end, &capture->notes)
                  : gs_unwind_walk(stacks->config.unwinder, capture->walked, room, &end);
        unsigned inner = inner_count(stacks, capture->walked, count, anchor);

        capture->frames = capture->walked + inner;
        capture->count = count - inner;
        if (inner > inner_frames && inner <= GS_WALK_INNER_MAX) {
            inner_frames = inner;
        }
        if (capture->count > depth || end != GS_WALK_FULL ||
            room == depth + 1 + GS_WALK_INNER_MAX) {
            break;
        }
        room = depth + 1 + GS_WALK_INNER_MAX;
    }
    capture->python = GS_UNLIKELY(python != NULL) &&
                      gs_python_runs(python, capture->frames, capture->count);
    if (GS_UNLIKELY(python != NULL) && !capture->python) {
        depth = stacks->config.depth;
        check_ended(stacks, python);
    }
    capture->truncated = capture->count > depth || end == GS_WALK_FULL ||
                         (end == GS_WALK_STOPPED && capture->count > 0);
    if (capture->count > depth) {
        capture->count = depth;
    }
}

/* Whether the memory limit is reached: then only known stacks are found. */
static bool is_full(const struct gs_stacks *stacks)
{
    return stacks->config.most_bytes != 0 &&
           gs_stack_table_bytes(&stacks->table) >= stacks->config.most_bytes;
}

/* Copies what the loader has added to the list since the table's last merge. The gate is
 * closed while the process forks: then the table stays as it is. */
static struct gs_module_snapshot *take_snapshot(struct gs_stacks *stacks,
                                                const struct gs_loaded *since)
{
    struct gs_module_snapshot *snapshot = NULL;

    if (gs_loader_enter()) {
        snapshot = gs_module_snapshot_take(since);
        search_python(stacks);
        gs_loader_leave();
    }
    return snapshot;
}

/* Adds the stack under the lock. The caller has read `counts` before. */
static uint32_t add_stack(struct gs_stacks *stacks, uint32_t hash,
                          const uintptr_t *frames, unsigned count, bool truncated,
                          struct gs_module_counts counts)
{
    struct gs_module_snapshot *snapshot = NULL;
    struct gs_loaded since;
    bool is_current;
    uint32_t id;

    if (is_full(stacks)) {
        atomic_fetch_add_explicit(&stacks->refused, 1, memory_order_relaxed);
        return 0;
    }
    gs_mutex_lock(&stacks->lock);
    is_current = gs_module_table_is_current(&stacks->modules, counts);
    since = stacks->modules.loaded;
    gs_mutex_unlock(&stacks->lock);
    if (!is_current) {
        snapshot = take_snapshot(stacks, &since);
    }
    gs_mutex_lock(&stacks->lock);
    if (snapshot != NULL && !gs_module_table_merge(&stacks->modules, snapshot)) {
        gs_mutex_unlock(&stacks->lock);
        gs_module_snapshot_free(snapshot);
        since.count = 0; /* another thread's was merged: a whole one fits always */
        snapshot = take_snapshot(stacks, &since);
        gs_mutex_lock(&stacks->lock);
        if (snapshot != NULL) {
            (void)gs_module_table_merge(&stacks->modules, snapshot);
        }
    }
    id = gs_stack_table_add(&stacks->table, hash, frames, count, truncated,
                            stacks->modules.epoch);
    gs_mutex_unlock(&stacks->lock);
    gs_module_snapshot_free(snapshot);
    if (id == 0) {
        atomic_fetch_add_explicit(&stacks->refused, 1, memory_order_relaxed);
    }
    return id;
}

uint32_t gs_stacks_add(struct gs_stacks *stacks, const uintptr_t *frames, unsigned count,
                       bool truncated)
{
    uint32_t hash = gs_stack_hash(frames, count, truncated);
    uint32_t id = gs_stack_table_find(&stacks->table, hash, frames, count, truncated);

    if (id == 0 && gs_loader_enter()) {
        struct gs_module_counts counts = gs_modules_counts();

        gs_loader_leave();
        id = add_stack(stacks, hash, frames, count, truncated, counts);
    }
    return id;
}

/*
 * Handles an unknown stack. If modules were added or removed since CFI learned its rules,
 * the walk may have followed a stale rule: forget the rules and walk again.
 */
static __attribute__((noinline)) uint32_t capture_new(struct gs_stacks *stacks,
                                                      struct capture *capture,
                                                      uintptr_t anchor, uint32_t hash,
                                                      bool noted)
{
    struct gs_module_counts counts;
    uint32_t id = 0;

    if (!gs_loader_enter()) {
        return 0; /* the process is forking */
    }
    counts = gs_modules_counts();
    gs_loader_leave();
    if (gs_unwind_cfi_is_stale(counts.adds, counts.unloads)) {
        capture_walk(stacks, capture, anchor, noted);
        if (capture->count == 0) {
            return 0;
        }
        hash = gs_stack_hash(capture->frames, capture->count, capture->truncated);
        id = gs_stack_table_find(&stacks->table, hash, capture->frames, capture->count,
                                 capture->truncated);
    }
    if (id != 0) {
        return id;
    }
    return add_stack(stacks, hash, capture->frames, capture->count, capture->truncated,
                     counts);
}

/* Walks the native frames again, for their positions, and merges both stacks. */
static __attribute__((noinline)) uint32_t merge_new(struct gs_stacks *stacks,
                                                    struct gs_python *python,
                                                    const struct gs_python_walk *walk,
                                                    uintptr_t anchor)
{
    uintptr_t frames[GS_WALK_INNER_MAX + GS_STACK_MAX_DEPTH + 1];
    uintptr_t stack_pointers[GS_WALK_INNER_MAX + GS_STACK_MAX_DEPTH + 1];
    struct gs_merged_stack merged;
    struct gs_native_walk native;
    enum gs_walk_end end;
    bool has_pointers;
    unsigned count =
        gs_unwind_walk_with_pointers(stacks->config.unwinder, frames, stack_pointers,
                                     GS_ARRAY_LEN(frames), &end, &has_pointers);
    unsigned inner = inner_count(stacks, frames, count, anchor);

    native = (struct gs_native_walk){.frames = frames + inner,
                                     .stack_pointers =
                                         has_pointers ? stack_pointers + inner : NULL,
                                     .count = count - inner,
                                     .truncated = end != GS_WALK_OUTERMOST};
    gs_python_merge(python, &native, walk, stacks->config.depth, &merged);
    return merged.count == 0
               ? 0
               : gs_stacks_add(stacks, merged.frames, merged.count, merged.truncated);
}

/* Work that needs a larger stack, and its result. */
struct request {
    struct gs_stacks *stacks;
    struct gs_walk_start *start; /* for capture_by_walk */
    uint32_t native;             /* for walk_python */
    uintptr_t anchor;
    uint32_t id;
};

/* Merges Python's frames into the native stack `native`, which contains the
 * interpreter. */
static __attribute__((noinline)) void walk_python(void *arg)
{
    struct request *request = arg;
    struct gs_stacks *stacks = request->stacks;
    struct gs_python *python = python_of(stacks);
    struct gs_python_walk walk;
    uint32_t id;

    check_ended(stacks, python);
    gs_python_walk(python, &walk);
    id = gs_python_pair_find(python, request->native, walk.id);
    if (id == 0) {
        id = merge_new(stacks, python, &walk, request->anchor);
        gs_python_pair_add(python, request->native, walk.id, id);
    }
    request->id = id;
}

/* The same, from the cache of merged stacks if possible. */
static __attribute__((noinline)) uint32_t with_python(struct gs_stacks *stacks,
                                                      uint32_t native, uintptr_t anchor)
{
    struct gs_python *python = python_of(stacks);
    bool was_inside = enter();
    int saved_errno = errno;
    uint32_t walk, id = 0;

    if (GS_LIKELY(gs_python_recognise(python, &walk))) {
        id = gs_python_pair_find(python, native, walk);
    }
    if (GS_UNLIKELY(id == 0)) {
        struct request request = {.stacks = stacks, .native = native, .anchor = anchor};

        gs_alt_stack_call(CAPTURE_HEADROOM, walk_python, &request);
        id = request.id;
    }
    gs_python_count(python, id);
    leave(was_inside);
    errno = saved_errno;
    return id;
}

/* Walks a stack that was not recognised. Remembers the walk, unless `start` has no
 * `high`. */
static __attribute__((noinline)) void capture_by_walk(void *arg)
{
    struct request *request = arg;
    struct gs_stacks *stacks = request->stacks;
    struct gs_walk_start *start = request->start;
    uintptr_t anchor = request->anchor;
    struct capture capture;
    uint32_t hash, id = 0;

    capture.notes.base = start->base;
    capture_walk(stacks, &capture, anchor, start->high != 0);
    if (GS_LIKELY(capture.count > 0)) {
        hash = gs_stack_hash(capture.frames, capture.count, capture.truncated);
        id = gs_stack_table_find(&stacks->table, hash, capture.frames, capture.count,
                                 capture.truncated);
        if (GS_UNLIKELY(id == 0)) {
            id = capture_new(stacks, &capture, anchor, hash, start->high != 0);
        }
    }
    if (start->high != 0) {
        gs_walk_cache_add(start, &capture.notes,
                          GS_UNLIKELY(capture.python) && id != 0 ? id | WITH_PYTHON : id);
    }
    if (GS_UNLIKELY(capture.python) && id != 0) {
        id = with_python(stacks, id, anchor);
    }
    request->id = id;
}

/* Walks on the caller's stack if it has enough space, else on another. */
static __attribute__((noinline)) uint32_t
capture_with_room(struct gs_stacks *stacks, struct gs_walk_start *start, uintptr_t anchor)
{
    struct request request = {.stacks = stacks, .start = start, .anchor = anchor};
    int saved_errno = errno;
    bool was = enter();

    if (GS_LIKELY(gs_alt_stack_has(CAPTURE_HEADROOM))) {
        capture_by_walk(&request);
    } else {
        gs_alt_stack_call(CAPTURE_HEADROOM, capture_by_walk, &request);
    }
    leave(was);
    errno = saved_errno;
    return request.id;
}

/* A capture of a thread that is not inside one, by an unwinder. `start`: its base. */
static inline __attribute__((always_inline)) uint32_t
capture(struct gs_stacks *stacks, struct gs_walk_start *start, uintptr_t anchor)
{
    uint32_t id;

    start->stacks = atomic_load_explicit(&stacks->number, memory_order_relaxed);
    if (GS_LIKELY(worth_comparing()) &&
        GS_LIKELY(gs_thread_stack_known(start->base, &start->high))) {
        start->generation = gs_unwind_rules(stacks->config.unwinder);
        id = gs_walk_cache_find(start);
        if (GS_LIKELY(id != 0)) {
            misses = 0;
            if (GS_UNLIKELY(id & WITH_PYTHON)) {
                id = with_python(stacks, id & ~WITH_PYTHON, anchor);
            }
            return id;
        }
        misses++;
    }
    return capture_with_room(stacks, start, anchor);
}

/* A capture of a thread that is inside one, or in a scope; or without an unwinder. */
static __attribute__((noinline)) uint32_t
capture_specially(struct gs_stacks *stacks, struct gs_walk_start *start, uintptr_t anchor)
{
    uint32_t id = 0;

    if (gs_capture_state & GS_CAPTURE_INSIDE) {
        return 0;
    }
    if (stacks->config.unwinder != GS_UNWIND_OFF) {
        id = capture(stacks, start, anchor);
    }
    if (gs_capture_state & GS_CAPTURE_SCOPED) {
        uint32_t known = gs_scopes_added(stacks->identity, id);
        if (GS_LIKELY(known != 0)) {
            return known;
        }
        gs_capture_state |= GS_CAPTURE_INSIDE;
        id = gs_scopes_add(stacks, id);
        gs_capture_state &= ~GS_CAPTURE_INSIDE;
    }
    return id;
}

__attribute__((noinline)) uint32_t gs_stacks_capture(struct gs_stacks *stacks)
{
    uintptr_t anchor = gs_code_address((uintptr_t)__builtin_return_address(0));
    struct gs_walk_start start = {.base = (uintptr_t)__builtin_frame_address(0)};

    if (stacks == NULL) {
        return 0;
    }
    if (GS_UNLIKELY(gs_capture_state != 0) ||
        GS_UNLIKELY(stacks->config.unwinder == GS_UNWIND_OFF)) {
        return capture_specially(stacks, &start, anchor);
    }
    return capture(stacks, &start, anchor);
}

uint32_t gs_stacks_intern(struct gs_stacks *stacks, const uintptr_t *frames,
                          unsigned count)
{
    bool truncated;
    uint32_t id;
    int saved_errno = errno;

    if (stacks == NULL || frames == NULL || count == 0 ||
        (gs_capture_state & GS_CAPTURE_INSIDE)) {
        return 0;
    }
    (void)enter();
    truncated = count > stacks->config.depth;
    if (truncated) {
        count = stacks->config.depth;
    }
    id = gs_stacks_add(stacks, frames, count, truncated);
    leave(false);
    errno = saved_errno;
    return id;
}

unsigned gs_stacks_frames(const struct gs_stacks *stacks, uint32_t id, uintptr_t *frames,
                          unsigned max)
{
    const struct gs_stack_entry *entry = gs_stack_table_entry(&stacks->table, id);

    return entry == NULL ? 0 : gs_stack_table_frames(&stacks->table, entry, frames, max);
}

bool gs_stacks_truncated(const struct gs_stacks *stacks, uint32_t id)
{
    const struct gs_stack_entry *entry = gs_stack_table_entry(&stacks->table, id);

    return entry != NULL && entry->truncated;
}

/* Drops the const that the contract promises to callers, to take the lock: nothing
 * changes for the caller. */
static struct gs_stacks *without_const(const struct gs_stacks *stacks)
{
    return (struct gs_stacks *)(uintptr_t)stacks;
}

enum gs_status gs_stacks_module(const struct gs_stacks *stacks, uint32_t id,
                                uintptr_t frame, struct gs_module *out)
{
    const struct gs_stack_entry *entry = gs_stack_table_entry(&stacks->table, id);
    const struct gs_module *module;

    if (entry == NULL) {
        return GS_ERR_NOT_FOUND;
    }
    gs_mutex_lock(&without_const(stacks)->lock);
    module =
        gs_module_table_find(&without_const(stacks)->modules, entry->epoch, frame - 1);
    if (module != NULL) {
        *out = *module;
    }
    gs_mutex_unlock(&without_const(stacks)->lock);
    return module != NULL ? GS_OK : GS_ERR_NOT_FOUND;
}

bool gs_stacks_python_uses(const struct gs_stacks *stacks, uint32_t id,
                           struct gs_python_uses *out)
{
    const struct gs_python *python = python_of(stacks);

    return python != NULL && gs_python_uses(python, id, out);
}

void gs_stacks_watch_python(struct gs_stacks *stacks, void (*ended)(void *self),
                            void *self)
{
    stacks->ended_self = self;
    atomic_store_explicit(&stacks->ended, ended, memory_order_release);
}

enum gs_status gs_stacks_python(const struct gs_stacks *stacks, uintptr_t frame,
                                struct gs_python_location *out)
{
    return gs_frame_is_scope(frame)
               ? gs_python_location(scopes_of(stacks),
                                    frame - GS_SCOPE_FRAME_BASE + GS_PYTHON_FRAME_BASE,
                                    out)
               : gs_python_location(python_of(stacks), frame, out);
}

void gs_stacks_before_fork(struct gs_stacks *stacks)
{
    gs_loader_close();
    if (stacks != NULL) {
        gs_mutex_lock(&stacks->lock);
    }
}

void gs_stacks_after_fork(struct gs_stacks *stacks)
{
    if (stacks != NULL) {
        gs_mutex_unlock(&stacks->lock);
    }
    gs_loader_open();
}

void gs_stacks_after_fork_in_child(struct gs_stacks *stacks)
{
    if (stacks != NULL) {
        gs_mutex_unlock(&stacks->lock);
    }
    gs_loader_open_in_child();
}

uint32_t gs_stacks_count(const struct gs_stacks *stacks)
{
    return atomic_load_explicit(&stacks->table.count, memory_order_acquire);
}

uint64_t gs_stacks_refused(const struct gs_stacks *stacks)
{
    return atomic_load_explicit(&stacks->refused, memory_order_relaxed);
}

size_t gs_stacks_bytes(const struct gs_stacks *stacks)
{
    size_t bytes;

    gs_mutex_lock(&without_const(stacks)->lock);
    bytes = gs_stack_table_bytes(&stacks->table) + stacks->modules.bytes +
            gs_python_bytes(python_of(stacks)) + gs_python_bytes(scopes_of(stacks));
    gs_mutex_unlock(&without_const(stacks)->lock);
    return bytes;
}
