/*
 * context.h - contexts: a device's primary one and those programs create.
 * A context's struct outlives its contents, and its handle is no other's meanwhile:
 * threads may still have it current, and a primary context dies and lives again in the
 * same struct, each life with an id of its own. Owns: its memory heap, streams, events,
 * modules. Lock: context->lock; `alive`, `id` and `error` are atomic.
 */
#ifndef SIM_CONTEXT_H
#define SIM_CONTEXT_H

#include "gs_free_waits.h"
#include "handle.h"
#include "memory.h"
#include "rules.h"

struct sim_green;
struct sim_stream;
struct sim_op;

#define SIM_LIMITS    10 /* CU_LIMIT_MAX of the 13.0 headers */
#define SIM_MAX_PEERS 64

/* A context whose memory this one may access. */
struct sim_peer {
    struct sim_context *context; /* identity only */
    uint64_t id;
};

struct sim_context {
    struct sim_object object;
    int device;              /* immutable */
    bool primary;            /* immutable */
    struct sim_green *green; /* immutable; of a view (green.h), with a reference; NULL */
    atomic_bool alive;
    atomic_ullong id; /* of the present life */
    atomic_int error; /* sticky CUresult */
    atomic_uint flags;
    unsigned api_version; /* immutable */
    unsigned retained;    /* device lock: a primary context's count */
    pthread_mutex_t lock;
    struct sim_heap heap;        /* the device's space lock */
    struct sim_stream *streams;  /* lock: all kinds */
    struct sim_stream *legacy;   /* lock: made at first use, with a reference */
    struct sim_stream *marks;    /* lock: context-wide events, likewise */
    struct sim_stream *barriers; /* lock: context-wide waits, likewise */
    struct sim_op *barrier;      /* lock: later submissions wait for it */
    struct oracle_line *gone[2]; /* lock: what gone streams did; [1]: blocking ones */
    struct sim_object *children; /* lock: events and modules, each with a reference */
    size_t limits[SIM_LIMITS];   /* lock */
    int cache_config;            /* lock */
    int shared_config;           /* lock */
    struct sim_peer peers[SIM_MAX_PEERS]; /* lock */
    unsigned peer_count;                  /* lock */
    struct sim_context *retired_next;     /* retired_lock */
    struct sim_context *made_before;      /* retired_lock: every context there ever was */
    struct sim_context *next_context;     /* contexts_lock */
};

/*
 * Make a context, alive, with the caller's reference and a handle.
 *
 * In:      primary  it starts dead; sim_context_revive gives it a life
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_context_create(int device, bool primary, unsigned flags,
                            unsigned api_version, struct sim_context **out) GS_MUST_USE;

/* Give a dead primary context a new life. */
void sim_context_revive(struct sim_context *context);

/* Wait for its work, then end everything it owns. Only one caller gets true. */
bool sim_context_end(struct sim_context *context) GS_MUST_USE;

/* The context of a handle, with a reference; NULL if it is none. May be dead (primary).
 * A green context's view stands for its primary context. */
struct sim_context *sim_context_get(CUcontext handle) GS_MUST_USE;

/* The same, but a view is itself: it has a device and a green context, nothing else. */
struct sim_context *sim_context_get_any(CUcontext handle) GS_MUST_USE;
void sim_context_put(struct sim_context *context);

/* The context's handle. */
CUcontext sim_context_handle(const struct sim_context *context);

/* The context's legacy stream, with a reference for the caller. */
CUresult sim_context_legacy(struct sim_context *context,
                            struct sim_stream **out) GS_MUST_USE;

/* Wait for all work submitted to all its streams. Returns the sticky error. */
CUresult sim_context_wait(struct sim_context *context) GS_MUST_USE;

/* The same, as cuCtxSynchronize does it. */
CUresult sim_context_synchronize(struct sim_context *context) GS_MUST_USE;

/* The same for what the legacy stream stands for: itself and the blocking streams. */
CUresult sim_context_wait_blocking(struct sim_context *context) GS_MUST_USE;

/* True if all that is done; the calling thread then knows it. */
bool sim_context_blocking_idle(struct sim_context *context) GS_MUST_USE;

/* The same as sim_context_wait for what a free of such memory of its waits for
 * (CUDASIM_FREE_WAITS). */
CUresult sim_context_wait_for_free(struct sim_context *context, enum gs_free_kind kind,
                                   size_t bytes) GS_MUST_USE;

/* Run `visit` on every context of a device that is alive. Takes contexts_lock. */
void sim_context_visit(int device,
                       void (*visit)(struct sim_context *context, void *argument),
                       void *argument);

/*
 * Make `op` wait for all work submitted to all its streams so far. Takes the context's
 * lock.
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_context_depend(struct sim_context *context, struct sim_op *op) GS_MUST_USE;

/* Submit an operation that waits for everything so far: an event of the whole context. */
CUresult sim_context_mark(struct sim_context *context, struct sim_op *op) GS_MUST_USE;

/* Submit an operation that everything later in the context waits for. */
CUresult sim_context_bar(struct sim_context *context, struct sim_op *op) GS_MUST_USE;

/*
 * An allocation: where CUDASIM_ALLOC_WAITS says that it stands between streams, all later
 * work of the context is behind all earlier work, on the device; no thread waits.
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_context_stand_between(enum sim_api api,
                                   struct sim_context *context) GS_MUST_USE;

/* Keep an object (event, module) until it is closed or the context ends. */
void sim_context_adopt(struct sim_context *context, struct sim_object *child);

/* The object is closed: drop the context's reference, if it still has one. */
void sim_context_disown(struct sim_context *context, struct sim_object *child);

/* May code of `context` access that allocation? Takes the context's lock. */
bool sim_context_may_access(struct sim_context *context, const struct sim_alloc *alloc);

/* Remember the first error; it is returned by everything from then on. */
void sim_context_set_error(struct sim_context *context, CUresult error);

/* May a context be made with these flags by this driver? */
bool sim_context_flags_valid(unsigned flags) GS_MUST_USE;

/* Give every living context of the device that error. Any thread, without locks. */
void sim_context_fail_all(int device, CUresult error);

static inline uint64_t sim_context_id(struct sim_context *context)
{
    return atomic_load_explicit(&context->id, memory_order_acquire);
}

/* True while the life of that id goes on. */
static inline bool sim_context_lives(struct sim_context *context, uint64_t id)
{
    return atomic_load_explicit(&context->alive, memory_order_acquire) &&
           sim_context_id(context) == id;
}

static inline CUresult sim_context_error(struct sim_context *context)
{
    return (CUresult)atomic_load_explicit(&context->error, memory_order_acquire);
}

#endif
