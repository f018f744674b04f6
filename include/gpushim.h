/*
 * gpushim.h - queries and controls libgpushim.so from within a program.
 *
 * No program needs this file: everything works with LD_PRELOAD alone. There is nothing to
 * link with (before glibc 2.34: -ldl), because the functions look for the library,
 * preloaded or linked, at the first call. Without the library, or with
 * GPUSHIM_ENABLE=off, they return GPUSHIM_INACTIVE, set their outputs to zero or "", and
 * have no other effect.
 *
 * C99 or C++11. Sizes are in bytes. Any thread may call any function at any time. In a
 * signal handler that interrupted the library, or one of these functions, they return
 * GPUSHIM_INACTIVE. A handler that interrupted malloc or CUDA must not call them. In a
 * forked child of a process that has used CUDA they return GPUSHIM_INACTIVE until the
 * child makes a CUDA call.
 *
 * Manual: docs/api.md
 */
#ifndef GPUSHIM_H
#define GPUSHIM_H

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* one source for C and C++ */
#endif

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- results ---- */

typedef enum gpushim_result {
    GPUSHIM_OK = 0,
    GPUSHIM_INACTIVE = 1,  /* the library is missing, switched off, not started, or
                              interrupted by a signal handler */
    GPUSHIM_INVALID = 2,   /* an argument is wrong: NULL, a device below 0, ... */
    GPUSHIM_NOT_FOUND = 3, /* no such option, allocation, scope, ... */
    GPUSHIM_NO_MEMORY =
        4,               /* the host's, or, of a function that allocates, the device's */
    GPUSHIM_TOO_OLD = 5, /* the library is older than this file, and lacks the function */
    GPUSHIM_AT_START = 6, /* the option is only read at the first CUDA call */
    GPUSHIM_OFF = 7,      /* the call needs what is switched off: the pool, tracking */
    GPUSHIM_CUDA = 8,     /* a CUDA call failed */
    GPUSHIM_BUSY = 9 /* not now: a stream captures, or another thread does the same */
} gpushim_result;

/* A sentence without a full stop; never NULL. Needs no library. */
static inline const char *gpushim_result_text(gpushim_result result)
{
    static const char *const texts[] = {
        "success",
        "gpushim is not active in this process",
        "an argument is not valid",
        "not found",
        "out of memory",
        "the library is older than the program's gpushim.h",
        "the option is read at the start only",
        "switched off by an option",
        "a CUDA call failed",
        "not possible now",
    };
    return (size_t)result < sizeof(texts) / sizeof(texts[0]) ? texts[result]
                                                             : "unknown result";
}

/* ---- types ----
 *
 * A struct begins with its size. The functions of this file set it; the library fills in
 * no more than this size, and sets members that it does not know to zero. So programs and
 * libraries of different versions work together.
 */

/* A kind of memory: the ordinal of a device, or one of these. */
enum {
    GPUSHIM_ALL_DEVICES = -100,
    GPUSHIM_PINNED = -1,      /* page-locked host memory */
    GPUSHIM_REGISTERED = -2,  /* the program's own, page-locked by cudaHostRegister */
    GPUSHIM_IMPORTED = -3,    /* memory of other processes and of other APIs */
    GPUSHIM_EVERYWHERE = -101 /* all of these: to visit allocations, and for snapshots */
};

/* Counters only rise; all other members are current values. Those of the pool are 0 for
 * memory that is not a device's. GPUSHIM_ALL_DEVICES: sums, and of each peak the highest
 * of one device. */
struct gpushim_statistics {
    size_t size;
    /* Allocations as the program made them; all 0 with GPUSHIM_TRACK=off. */
    uint64_t allocs, frees, failed; /* counters */
    uint64_t live_bytes, live_count;
    uint64_t peak_bytes; /* the most ever live at once */
    /* The pool. */
    uint64_t hits,
        misses; /* counters: requests served without, and with, a driver call */
    uint64_t thread_hits, stream_hits, global_hits; /* counters: hits by the cache */
    uint64_t segments_mapped, segments_unmapped, driver_calls, driver_ns; /* counters */
    uint64_t reserved_bytes, reserved_peak_bytes; /* held from the driver: now, at most */
    uint64_t used_bytes;                          /* of these, in live blocks */
    uint64_t pending_bytes; /* freed, but running work may still use them */
    uint64_t cached_bytes;  /* freed, in the caches of threads and streams */
    uint64_t idle_bytes;    /* reserved and not used */
    /* Free blocks in segments that several blocks share. */
    uint64_t holes, hole_bytes, largest_hole_bytes;
    /* The device; 0 for all devices, and without a context. */
    uint64_t device_free_bytes, device_total_bytes;
    /* PyTorch's tensors, in the blocks that its caching allocator keeps: now, and the most
     * ever live at once. 0 with its other allocators. */
    uint64_t tensor_bytes, tensor_peak_bytes;
};

/* One class of block sizes of the pool. */
struct gpushim_class {
    uint64_t bytes;                /* its largest size; smaller classes end below it */
    uint64_t hits, misses;         /* counters */
    uint64_t live, live_bytes;     /* in use */
    uint64_t cached, cached_bytes; /* freed, and kept whole */
    uint64_t rounding_bytes;       /* part of live_bytes beyond the requested sizes */
};
/* Classes that the pool has. */
#define GPUSHIM_CLASSES 131

/* How much of a device's memory is in use (GPUSHIM_PRESSURE). */
typedef enum gpushim_pressure {
    GPUSHIM_NORMAL = 0,
    GPUSHIM_ELEVATED = 1,
    GPUSHIM_WARNING = 2,
    GPUSHIM_CRITICAL = 3,
    GPUSHIM_OUT_OF_MEMORY = 4 /* an allocation on the device failed */
} gpushim_pressure;

/* Called when a level has risen: gpushim_on_pressure. */
typedef void (*gpushim_pressure_call)(void *self, int device, gpushim_pressure level);

/* Where gpushim_release keeps the contents of memory. */
typedef enum gpushim_keep {
    GPUSHIM_KEEP_PINNED = 0, /* copied to page-locked memory of the host: the fastest */
    GPUSHIM_KEEP_PLAIN = 1,  /* copied to plain memory of the host */
    GPUSHIM_DISCARD = 2      /* nowhere: undefined after gpushim_resume */
} gpushim_keep;

/* Why a live allocation of a scope is not released. */
enum {
    GPUSHIM_LEFT_SHARED = 0, /* not on pages of its own: smaller than 2 MiB; or allocated
                                before GPUSHIM_RELEASABLE named the scope, while a stream
                                captured, or as pitched memory */
    GPUSHIM_LEFT_STREAM = 1, /* in the order of a stream, or of a graph */
    GPUSHIM_LEFT_HELD = 2,   /* exported, registered, or with attributes set on it */
    GPUSHIM_LEFT_OTHER =
        3, /* an array, managed, imported, or the program's own mapping */
    GPUSHIM_LEFT_REASONS = 4
};

/* The answer of gpushim_release and gpushim_resume. */
struct gpushim_released {
    size_t size;
    uint64_t count,
        bytes; /* allocations that this call released or resumed; as requested */
    uint64_t device_bytes; /* of the device, given to it or taken from it: whole pages */
    uint64_t host_bytes;   /* in copies of the scope's memory on the host, now */
    /* By GPUSHIM_LEFT_...; of gpushim_release only. Those but HELD with GPUSHIM_TRACK
     * only, and as far as allocations have a stack. */
    uint64_t left_count[GPUSHIM_LEFT_REASONS], left_bytes[GPUSHIM_LEFT_REASONS];
};

/* The memory of a scope, the scopes within it included: gpushim_scope_statistics. Of the
 * blocks that PyTorch's caching allocator keeps, the tensors count. */
struct gpushim_scope_totals {
    size_t size;
    uint64_t begun;                                  /* how often */
    uint64_t allocs, alloc_bytes, frees, free_bytes; /* in all */
    uint64_t live_count, live_bytes;
    uint64_t peak_bytes;             /* the most ever live at once */
    uint64_t lost_count, lost_bytes; /* live when their context ended: neither live now,
                                        nor freed */
    uint64_t missed; /* allocations that no other member counts, since the table of call
                        stacks was full (GPUSHIM_STACK=table) */
};

/* A stretch of time: gpushim_stretch_begin. */
struct gpushim_stretch;

#define GPUSHIM_SCOPE_BYTES 1024

/* A live allocation. Strings are never NULL, and valid until the process ends, but not in
 * a forked child. */
struct gpushim_allocation {
    size_t size;
    uint64_t number;  /* no other allocation of the process ever has it */
    uint64_t address; /* its first byte; a handle if it has no address */
    uint64_t bytes;   /* as requested; 0: not known, of some imported memory */
    uint64_t age_ns;  /* in steps of 1 to 4 ms */
    uint64_t stream;  /* of its call; 0: none, or the default stream */
    uint32_t thread;  /* that allocated it: the kernel's number */
    uint32_t stack;   /* for gpushim_get_stack; equal call stacks have equal numbers; 0:
                         not recorded */
    int device;       /* an ordinal, GPUSHIM_PINNED, ...: where the statistics count it */
    int has_address;  /* 0: an array, memory of cuMemCreate, a multicast object, or
                         imported memory of another API */
    const char *kind; /* "device", "managed", "stream-ordered", ... as JSON reports say */
    const char *call; /* "cuMemAlloc", or the runtime's, if known */
    const char *owner;    /* path of the owner's file, as in reports; "": not known */
    const char *no_stack; /* if stack is 0, why: "no call stack: not sampled" */
    char scope[GPUSHIM_SCOPE_BYTES]; /* "step/forward"; "": none, or no stack */
};

/* Called for each allocation: gpushim_visit_allocations. Returns 0 to go on. */
typedef int (*gpushim_visit_call)(void *self,
                                  const struct gpushim_allocation *allocation);

/* The live allocations of one time: gpushim_snapshot_take. */
struct gpushim_snapshot;

/* What one call site has allocated and freed from one snapshot to another. The members
 * before the counts are those of struct gpushim_allocation. */
struct gpushim_change {
    size_t size;
    uint32_t stack;
    int device;
    const char *kind, *call, *owner, *no_stack;
    uint64_t new_count, new_bytes;     /* in the later snapshot only: they still live */
    uint64_t freed_count, freed_bytes; /* in the earlier one only */
    char scope[GPUSHIM_SCOPE_BYTES];
};

/* Called for each call site: gpushim_snapshot_difference. Returns 0 to go on. */
typedef int (*gpushim_change_call)(void *self, const struct gpushim_change *change);

/* The library's functions: internal to this file. New functions come last. */
struct gpushim_functions {
    size_t size;
    const char *version;
    gpushim_result (*statistics)(int device, struct gpushim_statistics *out);
    gpushim_result (*classes)(int device, struct gpushim_class *out, size_t class_bytes,
                              size_t capacity);
    gpushim_result (*trim)(int device, uint64_t bytes, uint64_t *given);
    gpushim_result (*get_option)(const char *name, char *value, size_t capacity);
    gpushim_result (*set_option)(const char *name, const char *value, char *problem,
                                 size_t capacity);
    gpushim_result (*report)(void);
    gpushim_result (*record)(int on);
    gpushim_result (*scope_begin)(const char *name);
    gpushim_result (*scope_end)(void);
    gpushim_result (*stream_alloc)(void **out, size_t bytes, int device, void *stream);
    gpushim_result (*stream_free)(void *memory, int device, void *stream);
    gpushim_result (*stream_uses)(void *memory, void *stream);
    gpushim_result (*warm_up)(int device, const char *blocks);
    gpushim_result (*get_pressure)(int device, gpushim_pressure *level, double *share);
    gpushim_result (*on_pressure)(gpushim_pressure from, gpushim_pressure_call call,
                                  void *self);
    gpushim_result (*off_pressure)(gpushim_pressure_call call, void *self);
    gpushim_result (*release)(const char *scope, gpushim_keep keep,
                              struct gpushim_released *out);
    gpushim_result (*resume)(const char *scope, struct gpushim_released *out);
    gpushim_result (*stretch_begin)(int device, struct gpushim_stretch **out);
    gpushim_result (*stretch_get)(struct gpushim_stretch *stretch,
                                  struct gpushim_statistics *out);
    gpushim_result (*stretch_end)(struct gpushim_stretch *stretch);
    gpushim_result (*find_allocation)(const void *address,
                                      struct gpushim_allocation *out);
    gpushim_result (*visit_allocations)(int device, gpushim_visit_call call, void *self);
    gpushim_result (*get_stack)(uint32_t stack, char *out, size_t capacity,
                                size_t *length);
    gpushim_result (*snapshot_take)(int device, struct gpushim_snapshot **out);
    gpushim_result (*snapshot_difference)(const struct gpushim_snapshot *before,
                                          const struct gpushim_snapshot *after,
                                          gpushim_change_call call, void *self);
    gpushim_result (*snapshot_free)(struct gpushim_snapshot *snapshot);
    gpushim_result (*scope_statistics)(const char *path, int device,
                                       struct gpushim_scope_totals *out);
    gpushim_result (*scope_path)(char *out, size_t capacity);
};

/* The beginning of struct dl_phdr_info, and dl_iterate_phdr: <link.h> declares them for
 * some programs only. */
struct gpushim_module_ {
    uintptr_t address;
    const char *name;
    const void *headers;
    uint16_t header_count;
    unsigned long long loads, unloads;
};
extern int gpushim_visit_modules_(int (*visit)(struct gpushim_module_ *, size_t, void *),
                                  void *data) __asm__("dl_iterate_phdr");

/* Reads how many modules were loaded so far. */
static inline int gpushim_read_loads_(struct gpushim_module_ *first, size_t size,
                                      void *loads)
{
    (void)size;
    *(unsigned long long *)loads = first->loads;
    return 1;
}

/* Looks for the library's table, if modules were loaded since the last time. */
__attribute__((cold)) static inline const struct gpushim_functions *
gpushim_look_(const struct gpushim_functions **found)
{
    static unsigned long long looked; /* how many modules were loaded then */
    /* A signal handler that interrupts this would wait for the linker's lock for ever. */
    static __thread int inside;
    const struct gpushim_functions *(*ask)(void);
    unsigned long long loads = 0;
    void *symbol, *loaded;

    if (inside) {
        return (const struct gpushim_functions *)0;
    }
    inside = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    (void)gpushim_visit_modules_(gpushim_read_loads_, &loads);
    if (loads != __atomic_load_n(&looked, __ATOMIC_RELAXED)) {
        symbol = dlsym((void *)0 /* RTLD_DEFAULT */, "gpushim_functions");
        if (!symbol) {
            loaded = dlopen("libgpushim.so", RTLD_LAZY | 4 /* RTLD_NOLOAD */);
            symbol = loaded ? dlsym(loaded, "gpushim_functions") : symbol;
        }
        if (symbol) {
            memcpy(&ask, &symbol, sizeof(ask));
            __atomic_store_n(found, ask(), __ATOMIC_RELEASE);
        } else {
            __atomic_store_n(&looked, loads, __ATOMIC_RELAXED);
        }
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    inside = 0;
    return __atomic_load_n(found, __ATOMIC_ACQUIRE);
}

/* The library's table; NULL without a library. A program without one looks for it at its
 * first call, and at each 256th if modules were loaded: gpushim attach may have loaded
 * it. */
static inline const struct gpushim_functions *gpushim_library(void)
{
    static const struct gpushim_functions *found;
    static unsigned missed; /* calls; with several threads, fewer */
    /* Read first: once it is not 0, a library that was there at the first call is found.
     */
    const unsigned call = __atomic_load_n(&missed, __ATOMIC_ACQUIRE);
    const struct gpushim_functions *table = __atomic_load_n(&found, __ATOMIC_ACQUIRE);

    if (!table) {
        if ((call & 255) == 0) {
            table = gpushim_look_(&found);
        }
        __atomic_store_n(&missed, call + 1, __ATOMIC_RELEASE);
    }
    return table;
}

/* Calls a function of the table. */
#define GPUSHIM_CALL_(name, arguments)                                                   \
    do {                                                                                 \
        const struct gpushim_functions *library_ = gpushim_library();                    \
        if (!library_) {                                                                 \
            return GPUSHIM_INACTIVE;                                                     \
        }                                                                                \
        if (library_->size <                                                             \
            offsetof(struct gpushim_functions, name) + sizeof(library_->name)) {         \
            return GPUSHIM_TOO_OLD;                                                      \
        }                                                                                \
        return library_->name arguments;                                                 \
    } while (0)

/* ---- the library ---- */

/* "MAJOR.MINOR.PATCH" of the library in this process; "" without a library. */
static inline const char *gpushim_library_version(void)
{
    const struct gpushim_functions *library = gpushim_library();
    return library ? library->version : "";
}

/* ---- statistics ---- */

/*
 * In:     device  an ordinal, GPUSHIM_ALL_DEVICES, GPUSHIM_PINNED, ...
 * Errors: INACTIVE, INVALID
 * Queries the driver for the device's free memory and visits each segment: call it now
 * and then, not at every step.
 */
static inline gpushim_result gpushim_get_statistics(int device,
                                                    struct gpushim_statistics *out)
{
    if (!out) {
        return GPUSHIM_INVALID;
    }
    memset(out, 0, sizeof(*out));
    out->size = sizeof(*out);
    GPUSHIM_CALL_(statistics, (device, out));
}

/* The change from `before` to `after`: counters are differences, all other members those
 * of `after`. Needs no library. `out` may be one of the two. Errors: INVALID */
static inline gpushim_result
gpushim_get_difference(const struct gpushim_statistics *before,
                       const struct gpushim_statistics *after,
                       struct gpushim_statistics *out)
{
    struct gpushim_statistics was;

    if (!before || !after || !out) {
        return GPUSHIM_INVALID;
    }
    was = *before;
    *out = *after;
    out->allocs -= was.allocs;
    out->frees -= was.frees;
    out->failed -= was.failed;
    out->hits -= was.hits;
    out->misses -= was.misses;
    out->thread_hits -= was.thread_hits;
    out->stream_hits -= was.stream_hits;
    out->global_hits -= was.global_hits;
    out->segments_mapped -= was.segments_mapped;
    out->segments_unmapped -= was.segments_unmapped;
    out->driver_calls -= was.driver_calls;
    out->driver_ns -= was.driver_ns;
    return GPUSHIM_OK;
}

/*
 * Begins a stretch of time with a peak of its own, such as a request, a phase or a test.
 * Any number may be open, in any threads, and end in any order; all allocations of the
 * process count. Before the first CUDA call the stretch begins with it.
 * In:     device  as in gpushim_get_statistics
 * Out:    *out    to be ended with gpushim_stretch_end; NULL after an error
 * Errors: INACTIVE, INVALID, NO_MEMORY (host)
 */
static inline gpushim_result gpushim_stretch_begin(int device,
                                                   struct gpushim_stretch **out)
{
    if (out) {
        *out = (struct gpushim_stretch *)0;
    }
    GPUSHIM_CALL_(stretch_begin, (device, out));
}

/*
 * What has happened since the beginning: counters are differences, peak_bytes is the most
 * that was live at once in the stretch, and other members are current values. As exact as
 * the peak of the process: exact with one thread.
 * Errors: INACTIVE, INVALID; NOT_FOUND  begun before a fork, in the parent
 */
static inline gpushim_result gpushim_stretch_get(struct gpushim_stretch *stretch,
                                                 struct gpushim_statistics *out)
{
    if (!out) {
        return GPUSHIM_INVALID;
    }
    memset(out, 0, sizeof(*out));
    out->size = sizeof(*out);
    GPUSHIM_CALL_(stretch_get, (stretch, out));
}

/* Ends and frees a stretch. A stretch that is never ended costs time until the process
 * ends. Errors: INVALID; INACTIVE  not ended: called within another call */
static inline gpushim_result gpushim_stretch_end(struct gpushim_stretch *stretch)
{
    GPUSHIM_CALL_(stretch_end, (stretch));
}

/* The share of requests that the pool served without a driver call, 0 to 1; 1 without any
 * request, or without statistics (NULL). */
static inline double gpushim_hit_rate(const struct gpushim_statistics *statistics)
{
    uint64_t requests = statistics ? statistics->hits + statistics->misses : 0;
    return requests ? (double)statistics->hits / (double)requests : 1.0;
}

/* The share of the free bytes in shared segments that is outside the largest free block,
 * 0 to 1. NULL: 0. */
static inline double gpushim_fragmentation(const struct gpushim_statistics *statistics)
{
    return statistics && statistics->hole_bytes > statistics->largest_hole_bytes
               ? (double)(statistics->hole_bytes - statistics->largest_hole_bytes) /
                     (double)statistics->hole_bytes
               : 0.0;
}

/*
 * The pool's classes, smallest first; with GPUSHIM_POOL_SIZE_CLASSES those of the list,
 * then the pool's own above them. Of sizes of the list in one class of the pool (512 bytes
 * at least) the largest is left. Entries beyond the last class are 0.
 * In:     device    an ordinal, or GPUSHIM_ALL_DEVICES
 *         capacity  of `out`; entries beyond GPUSHIM_CLASSES are left as they are
 * Errors: INACTIVE, INVALID, OFF (GPUSHIM_POOL=off)
 * Visits each block, 10 ns each, while other threads wait.
 */
static inline gpushim_result gpushim_get_classes(int device, struct gpushim_class *out,
                                                 size_t capacity)
{
    if (!out) {
        return GPUSHIM_INVALID;
    }
    capacity = capacity < GPUSHIM_CLASSES ? capacity : GPUSHIM_CLASSES;
    memset(out, 0, capacity * sizeof(*out));
    GPUSHIM_CALL_(classes, (device, out, sizeof(*out), capacity));
}

/* The index, in the result of gpushim_get_classes, of the class that serves a request of
 * `bytes`. Returns `count` if the request is larger than all classes, or if `classes` is
 * NULL. Needs no library. */
static inline size_t gpushim_class_of(const struct gpushim_class *classes, size_t count,
                                      uint64_t bytes)
{
    size_t index = classes ? 0 : count;
    while (index < count && classes[index].bytes < bytes) {
        index++;
    }
    return index;
}

/* ---- live allocations: INACTIVE after gpushim detach, since nothing is recorded ---- */

/*
 * The live allocation that contains an address. Under sampling it is exact, too, but may
 * have no stack, and then no owner and no scope.
 * In:     address  of any byte of the allocation
 * Errors: INACTIVE, INVALID (NULL), OFF (GPUSHIM_TRACK=off)
 *         NOT_FOUND  freed, not from CUDA, of addresses that the program mapped by
 *                    cuMemMap, or allocated while nothing recorded: before gpushim
 *                    attach, or by gpushim_record(0)
 * Reads each live allocation: 5 ns each.
 */
static inline gpushim_result gpushim_find_allocation(const void *address,
                                                     struct gpushim_allocation *out)
{
    if (!out) {
        return GPUSHIM_INVALID;
    }
    memset(out, 0, sizeof(*out));
    out->size = sizeof(*out);
    out->kind = out->call = out->owner = out->no_stack = "";
    GPUSHIM_CALL_(find_allocation, (address, out));
}

/*
 * Calls a function for each live allocation. Other threads may allocate and free
 * meanwhile: what is live throughout is visited once, what is new or freed in the
 * meantime once or not at all.
 *
 * The function may call everything: allocate, free (the visited allocation, too), visit,
 * and leave by an exception or longjmp. The library holds no lock during the call. The
 * struct is valid during the call.
 *
 * In:     device  an ordinal, GPUSHIM_PINNED, ..., GPUSHIM_ALL_DEVICES,
 *                 GPUSHIM_EVERYWHERE
 *         call    a non-zero return ends the visit; the result is OK
 * Errors: INACTIVE  also in a child that the function has forked, after its return
 *         INVALID, OFF (GPUSHIM_TRACK=off)
 */
static inline gpushim_result
gpushim_visit_allocations(int device, gpushim_visit_call call, void *self)
{
    GPUSHIM_CALL_(visit_allocations, (device, call, self));
}

/*
 * A call stack as the report writes it, a line for each frame. A thread of the library's
 * names it, and a helper program finds file and line (GPUSHIM_SYMBOLIZE): tens of
 * milliseconds, 5 s at most.
 * In:     stack   of a struct gpushim_allocation
 * Out:    out     cut at `capacity`, NUL-terminated
 *         length  of the whole text; may be NULL
 * Errors: INACTIVE, INVALID, NO_MEMORY (host), OFF (GPUSHIM_TRACK=off)
 *         NOT_FOUND  no such stack
 *         BUSY       for 5 s a report was being written, or no name found; or a signal
 *                    handler calls
 */
static inline gpushim_result gpushim_get_stack(uint32_t stack, char *out, size_t capacity,
                                               size_t *length)
{
    if (length) {
        *length = 0;
    }
    if (!out || !capacity) {
        return GPUSHIM_INVALID;
    }
    out[0] = '\0';
    GPUSHIM_CALL_(get_stack, (stack, out, capacity, length));
}

/*
 * Takes a snapshot: 32 bytes for each live allocation.
 * In:     device  as in gpushim_visit_allocations
 * Out:    *out    for gpushim_snapshot_free; NULL after an error
 * Errors: INACTIVE, INVALID, NO_MEMORY (host), OFF (GPUSHIM_TRACK=off)
 */
static inline gpushim_result gpushim_snapshot_take(int device,
                                                   struct gpushim_snapshot **out)
{
    if (!out) {
        return GPUSHIM_INVALID;
    }
    *out = (struct gpushim_snapshot *)0;
    GPUSHIM_CALL_(snapshot_take, (device, out));
}

/*
 * Calls a function for each call site whose live allocations differ between two snapshots
 * of the same `device`, the one with the most growth in bytes first. Memory that was
 * allocated and freed between the two is in neither. The function may call everything.
 * In:     before  NULL: an empty one
 *         call    a non-zero return ends the calls; the result is OK. No exception, no
 *                 longjmp: they lose memory of the library's.
 * Errors: INACTIVE, NO_MEMORY (host)
 *         INVALID    also of snapshots of different devices
 *         NOT_FOUND  a snapshot is of another process: taken before a fork, in the parent
 */
static inline gpushim_result
gpushim_snapshot_difference(const struct gpushim_snapshot *before,
                            const struct gpushim_snapshot *after,
                            gpushim_change_call call, void *self)
{
    GPUSHIM_CALL_(snapshot_difference, (before, after, call, self));
}

/* Errors: INVALID (NULL); INACTIVE  not freed: called within another call */
static inline gpushim_result gpushim_snapshot_free(struct gpushim_snapshot *snapshot)
{
    GPUSHIM_CALL_(snapshot_free, (snapshot));
}

/* ---- control ---- */

/*
 * Returns idle memory of the pool to the driver.
 * In:     device  an ordinal, or GPUSHIM_ALL_DEVICES
 *         bytes   to return at least, if that much is idle; UINT64_MAX: all
 * Out:    *given  bytes returned; may be NULL
 * Errors: INACTIVE, INVALID, OFF (GPUSHIM_POOL=off)
 * The driver may wait for running work, as cudaFree does.
 */
static inline gpushim_result gpushim_trim(int device, uint64_t bytes, uint64_t *given)
{
    if (given) {
        *given = 0;
    }
    GPUSHIM_CALL_(trim, (device, bytes, given));
}

/*
 * Allocates blocks ahead of need and frees them into the pool, so that later requests
 * need no driver call.
 * In:     blocks  as in GPUSHIM_WARMUP: "4K:50,64K:20,1M:10"
 * Errors: INACTIVE, CUDA
 *         INVALID    an item is wrong; nothing was allocated
 *         NO_MEMORY  of the device, for some of them; the log says for which
 *         OFF        GPUSHIM_POOL=off
 */
static inline gpushim_result gpushim_warm_up(int device, const char *blocks)
{
    GPUSHIM_CALL_(warm_up, (device, blocks));
}

/*
 * The value of an option, in the form that its variable takes.
 * In:     name  "GPUSHIM_POOL_LIMIT", or "POOL_LIMIT"
 * Out:    value  cut at `capacity`, NUL-terminated
 * Errors: INACTIVE, INVALID, NOT_FOUND
 */
static inline gpushim_result gpushim_get_option(const char *name, char *value,
                                                size_t capacity)
{
    if (!name || !value || !capacity) {
        return GPUSHIM_INVALID;
    }
    value[0] = '\0';
    GPUSHIM_CALL_(get_option, (name, value, capacity));
}

/*
 * Changes an option, with the values and limits of its variable (docs/options.md). Before
 * the first CUDA call any, for this process alone; gpushim_get_option is INACTIVE until
 * then.
 * Out:    problem  the warning that the variable would have caused, or ""; may be NULL
 * Errors: INACTIVE, NOT_FOUND
 *         INVALID   not a value of this option; nothing was changed
 *         AT_START  the option can no longer change (gpushim set PID lists those that
 * can)
 */
static inline gpushim_result gpushim_set_option(const char *name, const char *value,
                                                char *problem, size_t capacity)
{
    if (problem && capacity) {
        problem[0] = '\0';
    }
    if (!name || !value) {
        return GPUSHIM_INVALID;
    }
    GPUSHIM_CALL_(set_option, (name, value, problem, problem ? capacity : 0));
}

/* Writes the current report and its files, as GPUSHIM_REPORT_ON=USR1 does. Errors:
 * INACTIVE, OFF (GPUSHIM_TRACK=off). */
static inline gpushim_result gpushim_report(void)
{
    GPUSHIM_CALL_(report, ());
}

/* Stops (0) or restarts (1) the recording of allocations, as GPUSHIM_TRACK=USR2 does.
 * Errors: INACTIVE, OFF (GPUSHIM_TRACK=off). */
static inline gpushim_result gpushim_record(int on)
{
    GPUSHIM_CALL_(record, (on));
}

/* ---- memory pressure ---- */

/* The name of a level; never NULL. Needs no library. */
static inline const char *gpushim_pressure_text(gpushim_pressure level)
{
    static const char *const texts[] = {"normal", "elevated", "warning", "critical",
                                        "out of memory"};
    return (size_t)level < sizeof(texts) / sizeof(texts[0]) ? texts[level]
                                                            : "unknown level";
}

/*
 * The level of a device, and the share in use, 0 to 1: of the device (by all processes),
 * of GPUSHIM_MEM_LIMIT or of GPUSHIM_POOL_LIMIT, whichever is larger.
 * Out:    *level, *share  each may be NULL
 * Errors: INACTIVE, INVALID, OFF (GPUSHIM_POOL=off)
 *         NOT_FOUND  the program has no context on the device
 * Queries the driver for the device's free memory: call it now and then.
 */
static inline gpushim_result gpushim_get_pressure(int device, gpushim_pressure *level,
                                                  double *share)
{
    if (level) {
        *level = GPUSHIM_NORMAL;
    }
    if (share) {
        *share = 0;
    }
    GPUSHIM_CALL_(get_pressure, (device, level, share));
}

/*
 * Registers a function that is called each time the level of a device rises to `from` or
 * above; a level that is reached already counts as risen. The thread whose allocation
 * raised the level calls it at the end of that allocation, whether it succeeded or
 * failed; with the runtime API this is within cudaMalloc, before its address is stored. A
 * rise that other processes caused is reported by the next thread for which the pool
 * calls the driver. Not reported: falls, and rises that GPUSHIM_PRESSURE reversed at
 * once.
 *
 * The function may allocate, free, wait for the device, and use everything in this file.
 * Its own allocations cause no calls; a level that they raise is reported with the next
 * driver call. It must return: no exception, no longjmp. The library holds no lock during
 * the call, but the program may, for example in a framework's allocator: a lock that the
 * function takes must not be held around an allocation. Several threads may be in the
 * function at once. It is not called while a stream captures.
 *
 * In:     from  GPUSHIM_ELEVATED or above
 *         self  for `call`; registering the same pair again only changes `from`
 * Errors: INACTIVE, INVALID, OFF (GPUSHIM_POOL=off)
 *         NO_MEMORY  16 functions are registered already
 * A forked child starts without any.
 */
static inline gpushim_result gpushim_on_pressure(gpushim_pressure from,
                                                 gpushim_pressure_call call, void *self)
{
    GPUSHIM_CALL_(on_pressure, (from, call, self));
}

/* Removes a function of gpushim_on_pressure. Another thread may still be in it on return.
 * Errors: INACTIVE, NOT_FOUND. */
static inline gpushim_result gpushim_off_pressure(gpushim_pressure_call call, void *self)
{
    GPUSHIM_CALL_(off_pressure, (call, self));
}

/* ---- scopes ---- */

/*
 * Begins a scope of the calling thread: the allocations that the thread makes until
 * gpushim_scope_end belong to it, in the report and in each of its files. Scopes nest: a
 * scope "forward" in a scope "step" is "step/forward".
 * In:     name  copied; up to 127 bytes, and up to 32 scopes deep. Each '/' of it is ':'
 *               in paths, in reports and for rules: a scope "GET /v1" in "serve" is
 *               "serve/GET :v1"
 * Errors: INACTIVE, NO_MEMORY (host)
 *         INVALID  no name, too long or too deep: the allocations belong to the enclosing
 *                  scope; gpushim_scope_end must still be called
 */
static inline gpushim_result gpushim_scope_begin(const char *name)
{
    GPUSHIM_CALL_(scope_begin, (name));
}

/* Ends the innermost scope of the calling thread. Errors: INACTIVE, NOT_FOUND. */
static inline gpushim_result gpushim_scope_end(void)
{
    GPUSHIM_CALL_(scope_end, ());
}

/*
 * What was allocated in a scope so far, by all threads: also what is freed outside of it,
 * and by other threads. Memory that a free failed to free counts as live. A scope that
 * ends before the first CUDA call is not counted.
 * In:     path    from the outermost scope on: "step/forward"
 *         device  as in gpushim_get_statistics; GPUSHIM_ALL_DEVICES: all memory, and
 *                 the most of it that was live at once
 * Errors: INACTIVE, INVALID, OFF (GPUSHIM_TRACK=off, GPUSHIM_STACK=off)
 *         NOT_FOUND  no such scope was begun
 * Compares the path with that of each scope: call it now and then, not at every step.
 */
static inline gpushim_result gpushim_scope_statistics(const char *path, int device,
                                                      struct gpushim_scope_totals *out)
{
    if (!out) {
        return GPUSHIM_INVALID;
    }
    memset(out, 0, sizeof(*out));
    out->size = sizeof(*out);
    GPUSHIM_CALL_(scope_statistics, (path, device, out));
}

/*
 * Writes the path of the calling thread's scopes, for gpushim_scope_statistics:
 * "step/forward", without names that gpushim_scope_begin rejected.
 * In:     capacity  GPUSHIM_SCOPE_BYTES is enough for each path
 * Out:    out       "" after an error
 * Errors: INACTIVE, INVALID (the path does not fit), NOT_FOUND (in no scope)
 */
static inline gpushim_result gpushim_scope_path(char *out, size_t capacity)
{
    if (!out || capacity == 0) {
        return GPUSHIM_INVALID;
    }
    out[0] = '\0';
    GPUSHIM_CALL_(scope_path, (out, capacity));
}

/* Names the allocations of one call: err = GPUSHIM_NAMED("weights", cudaMalloc(&w, n)).
 * GCC and Clang. */
#ifdef __GNUC__
#define GPUSHIM_NAMED(name, call)                                                        \
    (__extension__({                                                                     \
        const gpushim_result begun_ = gpushim_scope_begin(name);                         \
        __typeof__(call) result_ = (call);                                               \
        if (begun_ == GPUSHIM_OK || begun_ == GPUSHIM_INVALID) {                         \
            gpushim_scope_end();                                                         \
        }                                                                                \
        result_;                                                                         \
    }))
#endif

/* ---- release and resume of the memory of a scope ---- */

/* The reason of a GPUSHIM_LEFT_... in words; never NULL. Needs no library. */
static inline const char *gpushim_left_text(unsigned reason)
{
    static const char *const texts[GPUSHIM_LEFT_REASONS] = {
        "not on pages of its own",
        "in the order of a stream",
        "exported, registered, or with attributes",
        "of a kind that cannot be released",
    };
    return reason < GPUSHIM_LEFT_REASONS ? texts[reason] : "unknown reason";
}

/*
 * Frees the pages of the scope's live allocations, so that other processes and other
 * allocations can use them. The addresses stay reserved, and graphs that name them stay
 * valid. Only allocations of 2 MiB and more, made while GPUSHIM_RELEASABLE named the
 * scope, have pages of their own; all others are left unchanged, and *out counts them.
 * Waits for all work of their contexts, and for the copies.
 *
 * Until gpushim_resume the memory may be freed. A copy or a set of it fails with
 * CUDA_ERROR_INVALID_VALUE, and is reported. A kernel that touches it fails, as with memory
 * that was freed, and so does work that another thread submits during this call. New
 * allocations of the scope are as usual; a second call releases those.
 *
 * In:     scope  a name, not a path: allocations in any scope of this name, and in the
 *                scopes within
 *         keep   memory that cannot be page-locked is plain
 * Out:    *out   may be NULL; all 0 on an error, after which all is as before
 * Errors: INACTIVE, INVALID (no name), OFF (GPUSHIM_POOL=off)
 *         NOT_FOUND  GPUSHIM_RELEASABLE never had this name
 *         BUSY       a stream captures, or another thread releases or resumes
 *         NO_MEMORY  of the host, for the copies
 *         CUDA       the work, or a copy, failed
 * A forked child has none of the parent's memory: NOT_FOUND.
 */
static inline gpushim_result gpushim_release(const char *scope, gpushim_keep keep,
                                             struct gpushim_released *out)
{
    if (out) {
        memset(out, 0, sizeof(*out));
        out->size = sizeof(*out);
    }
    GPUSHIM_CALL_(release, (scope, keep, out));
}

/*
 * Restores the released memory of the scope, at the same addresses, with its contents.
 * If no memory of the scope is released, the result is OK and *out is 0.
 * Out, Errors: as above; NO_MEMORY: of the device; all of the memory remains released
 */
static inline gpushim_result gpushim_resume(const char *scope,
                                            struct gpushim_released *out)
{
    if (out) {
        memset(out, 0, sizeof(*out));
        out->size = sizeof(*out);
    }
    GPUSHIM_CALL_(resume, (scope, out));
}

/* ---- stream-ordered memory, for other allocators ---- */

/*
 * Allocates device memory that the work of one stream uses. Memory that was freed in the
 * same stream is reused at once, without a wait: the stream keeps the order.
 * In:     stream  a CUstream or cudaStream_t; NULL: the legacy default stream
 * Out:    *out    NULL on failure
 * Errors: INACTIVE   (use cudaMallocAsync then)
 *         INVALID, NO_MEMORY, CUDA
 */
static inline gpushim_result gpushim_stream_alloc(void **out, size_t bytes, int device,
                                                  void *stream)
{
    if (!out) {
        return GPUSHIM_INVALID;
    }
    *out = NULL;
    GPUSHIM_CALL_(stream_alloc, (out, bytes, device, stream));
}

/*
 * Frees memory of gpushim_stream_alloc, without a wait. It is reused once the work queued
 * so far in `stream`, and in each stream of gpushim_stream_uses, is complete.
 * In:     memory  NULL: no effect
 *         device  the memory's
 * Errors: INACTIVE, CUDA
 *         INVALID  not an allocation that can be freed, or not of this device
 * Memory that was allocated while its stream captured stays allocated, since graphs use
 * it at each launch; the log says so once.
 */
static inline gpushim_result gpushim_stream_free(void *memory, int device, void *stream)
{
    GPUSHIM_CALL_(stream_free, (memory, device, stream));
}

/*
 * Declares that work of another stream, of any device and context, uses the memory. If
 * the stream is destroyed, the memory's free waits as cudaFree does.
 * In:     memory  an address in a live allocation
 * Errors: INACTIVE, NO_MEMORY (host)
 *         INVALID  nothing is live there, or there is no such stream
 */
static inline gpushim_result gpushim_stream_uses(void *memory, void *stream)
{
    GPUSHIM_CALL_(stream_uses, (memory, stream));
}

#undef GPUSHIM_CALL_

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
