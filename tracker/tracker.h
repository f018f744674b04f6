/*
 * tracker.h - who owns the GPU memory: live allocations, errors, totals.
 *
 * The shim tells the tracker of every allocation after it was made and of every free
 * before it is carried out (else another thread could be handed the same address in
 * between and be forgotten instead). Knows no CUDA: the names of calls come in as a
 * table.
 *
 * Locks: all functions may be called from any thread; locking is internal.
 * Design: docs/tracker.md.
 */
#ifndef GS_TRACKER_H
#define GS_TRACKER_H

#include <time.h>

#include "gs_base.h"
#include "sampling.h"
#include "stacks.h"

struct gs_tracker;

enum gs_memory_kind {
#define GS_MEMORY_KIND(name, word, row, place, doc) GS_MEMORY_##name,
#include "kinds.def"
#undef GS_MEMORY_KIND
    GS_MEMORY_KINDS
};

/*
 * What is known by a handle has a key in the place of an address. Each sort of handle has
 * a space of keys of its own, in the byte above all addresses, so that no handle is taken
 * for an address or for a handle of another sort.
 */
enum gs_key_space {
    GS_KEY_ADDRESS,    /* a key is the address itself */
    GS_KEY_ALLOCATION, /* physical memory */
    GS_KEY_ARRAY,      /* arrays, mipmapped ones too */
    GS_KEY_EXTERNAL    /* imported memory of other APIs */
};
#define GS_KEY_SPACE_SHIFT 56

static inline uint64_t gs_key(enum gs_key_space space, uint64_t value)
{
    return value ^ (uint64_t)space << GS_KEY_SPACE_SHIFT;
}

/* The handle, or the address. */
static inline uint64_t gs_key_value(uint64_t key)
{
    return key & ((UINT64_C(1) << GS_KEY_SPACE_SHIFT) - 1);
}

static inline bool gs_key_is_handle(uint64_t key)
{
    return key >> GS_KEY_SPACE_SHIFT != GS_KEY_ADDRESS;
}

/* More than any address space has. */
#define GS_TRACKED_BYTES_MAX ((UINT64_C(1) << 48) - 1)

/* One allocation; what is held of it is smaller. */
struct gs_allocation {
    uint64_t addr;    /* or another key: gs_key */
    uint64_t bytes;   /* as asked for */
    uint64_t context; /* handle, opaque */
    uint64_t stream;  /* handle, opaque; 0 for calls without a stream */
    uint64_t time_ns; /* since the tracker's start; kept in steps of 128 ns */
    uint32_t thread;  /* kernel thread id */
    uint32_t stack;   /* id in the stack table; 0 = none; or GS_STACK_NOT_SAMPLED ... */
    int16_t device;   /* ordinal */
    uint16_t api;     /* index into gs_tracker_config.api_names */
    uint8_t kind;     /* enum gs_memory_kind */
    uint8_t lost;     /* 1: its context was destroyed or reset while it was live */
};

enum gs_error_kind {
    GS_ERROR_DOUBLE_FREE,
    GS_ERROR_INVALID_FREE,     /* never allocated, or interior */
    GS_ERROR_MISMATCHED_FREE,  /* right address, wrong call */
    GS_ERROR_DAMAGE_BEHIND,    /* bytes behind an allocation were written: gs_damage */
    GS_ERROR_WRITE_AFTER_FREE, /* likewise, of one that is gone */
    GS_ERROR_USE_AFTER_FREE,   /* from here on uses of memory: gs_bad_use */
    GS_ERROR_OVERRUN,          /* begins in an allocation, or behind it, and leaves it */
    GS_ERROR_UNDERRUN,         /* begins before an allocation, and reaches into it */
    GS_ERROR_STRAY_USE,        /* of memory that is nobody's */
    GS_ERROR_NOT_IDLE,         /* a free found the device idle, and it was not */
    GS_ERROR_KINDS
};

/* Who frees, and how: the other half of an error report. */
struct gs_free_site {
    uint64_t time_ns; /* filled in by the tracker if 0 */
    uint32_t thread;
    uint32_t stack; /* 0 = none recorded */
    uint16_t api;
};

struct gs_tracker_config {
    const char *const *api_names; /* static; index 0 is "unknown" */
    size_t api_count;
    struct gs_stacks *stacks; /* the caller's; outlives the tracker; may be NULL */
    size_t free_history; /* just-freed addresses remembered (64 bytes each), a power of
                            two; 0: none, and a double free is then an invalid one */
    int (*clock)(clockid_t, struct timespec *); /* NULL: the C library's clock_gettime */
    struct gs_state_memory *memory; /* where all of it is kept; NULL: in no file */
    bool tally; /* keep sums of all that gs_tracker_tally is told of, for a profile */
    struct gs_sampling sampling; /* which allocations have a stack; all 0: all of them */
    bool stopped;                /* gs_tracker_switch starts it */
};

/* When it was told of allocations. */
struct gs_tracker_windows {
    uint32_t count;             /* 0: never yet */
    bool open;                  /* it still is */
    bool switched;              /* it was not, at some time */
    uint64_t first_ns, from_ns; /* when the first and the last of them began */
    uint64_t to_ns; /* when the last one ended; meaningless while it is open */
};

/* Totals of one device, or of what is counted apart; names and docs in
 * tracker/totals.def. */
struct gs_tracker_totals {
#define GS_TOTAL(name, unit, doc) uint64_t name;
#include "totals.def"
#undef GS_TOTAL
};

/* Errors: GS_ERR_INVALID, GS_ERR_HOST_NOMEM. */
enum gs_status gs_tracker_create(const struct gs_tracker_config *config,
                                 struct gs_tracker **out) GS_MUST_USE;
/* No other call may be in progress. */
void gs_tracker_destroy(struct gs_tracker *tracker);
/* In a forked child, which has one thread; trackers of before are not used any more. */
void gs_tracker_after_fork_in_child(void);

/*
 * Whether allocations are to be told now. While they are not, the caller says
 * gs_tracker_pass of each instead, and tells of frees as ever: of what has no record
 * nothing is known, and nothing is wrong with it.
 */
bool gs_tracker_records(const struct gs_tracker *tracker);
/* From now on it is the other way round. Async-signal-safe. */
void gs_tracker_switch(struct gs_tracker *tracker);
void gs_tracker_get_windows(const struct gs_tracker *tracker,
                            struct gs_tracker_windows *out);
/* How often it was switched, and when the time before last and so on was: `number` counts
 * from 1, and the last GS_SWITCHES_KEPT are known. */
#define GS_SWITCHES_KEPT 16u
uint32_t gs_tracker_switches(const struct gs_tracker *tracker);
uint64_t gs_tracker_switch_ns(const struct gs_tracker *tracker, uint32_t number);

/* What an allocation that is about to be told has: 0 a stack, which the caller takes;
 * else the value that `stack` gets. */
uint32_t gs_tracker_choose_stack(const struct gs_tracker *tracker,
                                 enum gs_memory_kind kind, uint64_t bytes);

/* An allocation that is not to be recorded: what the address was before is forgotten.
 * indexed: as in gs_tracker_add. */
void gs_tracker_pass(struct gs_tracker *tracker, uint64_t addr, bool indexed);

/* Nanoseconds since the tracker was created (monotonic, coarse: about 1-4 ms steps). */
uint64_t gs_tracker_now(const struct gs_tracker *tracker);
/* The same, and no record that was made before has a later time (docs/tracker.md,
 * "Peaks").
 */
uint64_t gs_tracker_latest(const struct gs_tracker *tracker);

/*
 * Record an allocation that was made.
 * In:     allocation  time_ns 0 means now
 *         indexed     true: it will be removed by *id and the caller keeps the id;
 *                     false: it will be removed by address
 * Out:    *id         never 0; small, dense, reused after removal
 * Errors: GS_ERR_HOST_NOMEM  not recorded; counted in `allocs`, but not as live. So it is
 *                            where 65,535 combinations of context, device, call and kind
 *                            of memory are in use
 *         GS_ERR_INVALID     no such kind, or more bytes than GS_TRACKED_BYTES_MAX
 * An address record of an address that has one already replaces it: its free was not
 * seen.
 */
enum gs_status gs_tracker_add(struct gs_tracker *tracker,
                              const struct gs_allocation *allocation, bool indexed,
                              uint32_t *id) GS_MUST_USE;

/* What gs_tracker_add_block has in registers. */
struct gs_tracked_who {
    uint32_t thread, stack; /* as in gs_allocation */
};
struct gs_tracked_how {
    int16_t device;
    uint16_t api;
    uint32_t kind;
};

/*
 * gs_tracker_add, indexed and without a stream, for a pool's block: what nearly every
 * allocation comes to. Returns the id; 0: not recorded, as there.
 */
uint32_t gs_tracker_add_block(struct gs_tracker *tracker, uint64_t addr, uint64_t bytes,
                              uint64_t context, struct gs_tracked_who who,
                              struct gs_tracked_how how) GS_MUST_USE;

/* Add an allocation that was made to the sums of its place, which its free does not take
 * it off again. Nothing happens where no tally is kept. */
void gs_tracker_tally(struct gs_tracker *tracker, const struct gs_allocation *allocation);

/* An allocation that the driver refused. */
void gs_tracker_add_failed(struct gs_tracker *tracker, int device,
                           enum gs_memory_kind kind);

/* Forget the record `id` (from gs_tracker_add, indexed). `site` (may be NULL) is kept for
 * the history. An id that is not live, or is not an indexed record's, is ignored; so is
 * one whose context died meanwhile: such an id is not reused before this call has come,
 * or the next context has died. */
void gs_tracker_remove(struct gs_tracker *tracker, uint32_t id,
                       const struct gs_free_site *site);

/* The same, by the freeing thread, with no stack. */
void gs_tracker_remove_block(struct gs_tracker *tracker, uint32_t id, uint32_t thread,
                             uint16_t api);

/*
 * Forget a record added with indexed == false.
 * In:     site  kept for the history; may be NULL
 * Out:    *out  what it was (may be NULL)
 * Errors: GS_ERR_NOT_FOUND
 */
enum gs_status gs_tracker_remove_address(struct gs_tracker *tracker, uint64_t addr,
                                         const struct gs_free_site *site,
                                         struct gs_allocation *out) GS_MUST_USE;

/* A free that was taken out of the books failed in the driver: put it back as it was, to
 * be removed by address. Errors: GS_ERR_HOST_NOMEM, GS_ERR_INVALID. */
enum gs_status gs_tracker_restore(struct gs_tracker *tracker,
                                  const struct gs_allocation *allocation) GS_MUST_USE;

/* A copy of a live record by address, whichever way it was added. GS_ERR_NOT_FOUND.
 * Slow for indexed records (a scan): for error messages and tests. */
enum gs_status gs_tracker_find(struct gs_tracker *tracker, uint64_t addr,
                               struct gs_allocation *out) GS_MUST_USE;

/* More of an indexed record's memory has become known: `by` bytes. Dropped where the
 * record is not live, or would have more than GS_TRACKED_BYTES_MAX. One call at a time
 * for a record, and none beside its removal. */
void gs_tracker_grow(struct gs_tracker *tracker, uint32_t id, uint64_t by);

/*
 * A context died. Its live allocations (by kinds bit mask, 1 << kind) stop being live and
 * are kept as "lost at reset" for the report, added up by stack, call, kind and device.
 * Holds up all other calls while it looks at every record: 5 ns each, and some 50 ns for
 * one that is lost.
 */
void gs_tracker_lose_context(struct gs_tracker *tracker, uint64_t context,
                             unsigned kinds);

/*
 * A free the driver refused or the pool recognised as wrong. The tracker itself decides
 * between double and invalid by its history of recent frees, and finds the allocation
 * that an interior address lies in (a scan, for the errors that are kept in full: 32).
 */
void gs_tracker_error_free(struct gs_tracker *tracker, uint64_t addr, int device,
                           const struct gs_free_site *site);

/* Memory that nobody was to write, and somebody has. */
struct gs_damage {
    enum gs_error_kind kind;         /* GS_ERROR_DAMAGE_BEHIND or _WRITE_AFTER_FREE */
    struct gs_allocation allocation; /* whose memory it is or was; addr is needed */
    struct gs_free_site freed;       /* of a write after free: by whom */
    uint64_t changed_bytes;          /* > 0 */
    uint64_t first;                  /* the first of them, from the allocation's begin */
};

/* `found`: the call that found it; its api is 0 at the last look at memory, before
 * the process or a context ends, or it goes back to the driver. */
void gs_tracker_error_damage(struct gs_tracker *tracker, const struct gs_damage *damage,
                             const struct gs_free_site *found);

/* What was looked at for such damage, and what was not, and why. */
enum gs_check_count {
#define GS_CHECK(name, key, text) GS_CHECK_##name,
#include "checks.def"
    GS_CHECK_LOOKED,
    GS_CHECK_COUNTS
};
void gs_tracker_count_check(struct gs_tracker *tracker, enum gs_check_count which,
                            uint64_t count);

/* A copy of the live record that was added as indexed and has this id. Errors:
 * GS_ERR_NOT_FOUND. */
enum gs_status gs_tracker_get(struct gs_tracker *tracker, uint32_t id,
                              struct gs_allocation *out) GS_MUST_USE;

/* An allocation that is gone, as far as the history has it: no context and no stream. */
struct gs_former {
    struct gs_allocation allocation;
    struct gs_free_site site;
    bool lost; /* not freed: its context died */
};

/* A use of memory by a call that has no number of its own. */
struct gs_bad_use {
    enum gs_error_kind kind; /* GS_ERROR_USE_AFTER_FREE or a later one */
    uint64_t addr, bytes;    /* of the use */
    bool writes;
    int device;
    const char *call;     /* as the driver names it; copied, GS_CALL_NAME_MAX of it */
    uint64_t time_ns;     /* filled in by the tracker if 0 */
    uint32_t thread;      /* who uses it */
    uint32_t stack;       /* 0 = none recorded */
    uint64_t extent_addr; /* overrun, underrun: of the live allocation ... */
    uint64_t extent_bytes;
    struct gs_former former; /* use after free */
};
#define GS_CALL_NAME_MAX 40u

/*
 * A use that is wrong, as the caller has found. Of several from one place (the same kind,
 * call and stack) the first is kept, and the others are counted with it. Finds who made
 * the live allocation (a scan, for those that are kept).
 */
void gs_tracker_error_use(struct gs_tracker *tracker, const struct gs_bad_use *use);

/*
 * A free relied on a proof that the device is idle, and the device was not
 * (docs/free.md, "Verify"). Later ones from the same place are counted with the first;
 * the longest wait of a place is kept.
 * In:  stream     the handle of a stream that showed work; 0: none did, and a wait was
 *                 long
 *      waited_ns  how long the device took to become idle
 */
void gs_tracker_error_not_idle(struct gs_tracker *tracker, int device, uint64_t stream,
                               uint64_t waited_ns, const struct gs_free_site *site);

/* A copy of the live record that is to be removed by this very address. Takes a lock, and
 * looks at no other record. GS_ERR_NOT_FOUND. */
enum gs_status gs_tracker_look_up(struct gs_tracker *tracker, uint64_t addr,
                                  struct gs_allocation *out) GS_MUST_USE;

/* Whether a live allocation holds the address. A scan: 24 ns a record. */
bool gs_tracker_holds(struct gs_tracker *tracker, uint64_t addr);

/* What was gone last of all allocations that held the address, as far as the history goes
 * back. Looks at all of it: some 7 us. GS_ERR_NOT_FOUND. */
enum gs_status gs_tracker_former(struct gs_tracker *tracker, uint64_t addr,
                                 struct gs_former *out) GS_MUST_USE;

/* Errors seen so far. */
uint64_t gs_tracker_error_count(struct gs_tracker *tracker);

/* What is no device's, in the place of an ordinal. */
enum gs_totals_apart {
    GS_TOTALS_PINNED = -1,     /* page-locked host memory */
    GS_TOTALS_REGISTERED = -2, /* the program's own, page-locked afterwards */
    GS_TOTALS_IMPORTED = -3,   /* memory of others */
    GS_TOTALS_VIEWS = -4,      /* of memory that is counted elsewhere */
    GS_TOTALS_FIRST = GS_TOTALS_VIEWS
};

/*
 * device < 0: an enum gs_totals_apart; otherwise GPU memory of that device, all kinds of
 * it. Devices from GS_MAX_DEVICES - 1 on share the last row. peak_bytes is never less
 * than any live_bytes given; it is exact with one thread, and see totals.c for several.
 */
void gs_tracker_get_totals(struct gs_tracker *tracker, int device,
                           struct gs_tracker_totals *out);

#endif
