/*
 * tracker.h - the owners of GPU memory: live allocations, errors, totals.
 *
 * The shim reports each allocation to the tracker after the allocation, and each free
 * before the free: otherwise another thread could get the same address in between, and
 * the free would remove its record instead. The tracker knows no CUDA: a table holds the
 * names of calls.
 *
 * Locks: any thread may call any function; locking is internal.
 * Design: docs/tracker.md
 */
#ifndef GS_TRACKER_H
#define GS_TRACKER_H

#include <limits.h>
#include <time.h>

#include "gs_base.h"
#include "tracker/phases.h"
#include "tracker/sampling.h"
#include "tracker/stacks/stacks.h"

struct gs_tracker;

enum gs_memory_kind {
#define GS_MEMORY_KIND(name, word, row, place, doc) GS_MEMORY_##name,
#include "tracker/kinds.def"
#undef GS_MEMORY_KIND
    GS_MEMORY_KINDS
};

/*
 * Memory with a handle has a key instead of an address. Each kind of handle has its own
 * key space, in the byte above all addresses, so no handle collides with an address or
 * with a handle of another kind.
 */
enum gs_key_space {
    GS_KEY_ADDRESS,    /* the key is the address itself */
    GS_KEY_ALLOCATION, /* physical memory */
    GS_KEY_ARRAY,      /* arrays, mipmapped ones too */
    GS_KEY_EXTERNAL,   /* imported memory of other APIs */
    GS_KEY_ENDPOINT    /* logical endpoints; no record has such a key */
};
#define GS_KEY_SPACE_SHIFT 56

static inline uint64_t gs_key(enum gs_key_space space, uint64_t value)
{
    return value ^ (uint64_t)space << GS_KEY_SPACE_SHIFT;
}

static inline enum gs_key_space gs_key_space(uint64_t key)
{
    return (enum gs_key_space)(key >> GS_KEY_SPACE_SHIFT);
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

/* What a framework's allocator reports of a part of memory that it keeps. */
struct gs_part_report {
    uint64_t addr;
    int64_t bytes;           /* handed out; negative: it has the part back */
    uint64_t reserved_bytes; /* that the allocator has reserved from the device */
    int device;
    uint32_t stack; /* of the call that the part is handed to, as of
                     * gs_tracker_scope_stack; 0: not known */
    bool ended;     /* Python has ended, and frees its objects */
};
void gs_tracker_part(struct gs_tracker *tracker, const struct gs_part_report *report);
/*
 * Called before gs_tracker_part, by the same thread, of a part that is handed out. Scopes
 * count parts by their stacks, and no longer the memory around a part: its allocation
 * counts in no scope, as if it had never been in one.
 * True: that memory was not found, and may be the one of an id that the caller has.
 * Without scopes, and unless the thread has allocated memory of the device since the last
 * call, nothing is done.
 */
bool gs_tracker_divide(struct gs_tracker *tracker, const struct gs_part_report *report);
void gs_tracker_divide_record(struct gs_tracker *tracker, uint32_t id);
/* The bytes of a device's parts: now, and the most ever. device >= 0. */
void gs_tracker_part_bytes(struct gs_tracker *tracker, int device, uint64_t *live_bytes,
                           uint64_t *peak_bytes);
/* The owner of the part, or of the allocation, at an address was to be freed once Python
 * had ended, and stays: gs_cached_parts_keep. */
void gs_tracker_part_kept(struct gs_tracker *tracker, uint64_t addr);

/* Larger than any address space. */
#define GS_TRACKED_BYTES_MAX ((UINT64_C(1) << 48) - 1)

/* One allocation. The stored record is smaller. */
struct gs_allocation {
    uint64_t addr;    /* or another key: gs_key */
    uint64_t bytes;   /* as requested */
    uint64_t context; /* handle, opaque */
    uint64_t stream;  /* handle, opaque; 0 for calls without a stream */
    uint64_t time_ns; /* since the tracker's start; in steps of 128 ns */
    uint32_t thread;  /* kernel thread id */
    uint32_t stack;   /* id in the stack table; 0 = none; or GS_STACK_NOT_SAMPLED ... */
    int16_t device;   /* ordinal */
    uint16_t api;     /* index into gs_tracker_config.api_names */
    uint8_t kind;     /* enum gs_memory_kind */
    uint8_t lost;     /* 1: its context was destroyed or reset while it was live */
    uint8_t divided;  /* 1: it counts in no scope: gs_tracker_divide */
};

enum gs_error_kind {
    GS_ERROR_DOUBLE_FREE,
    GS_ERROR_INVALID_FREE,     /* never allocated, or interior */
    GS_ERROR_MISMATCHED_FREE,  /* right address, wrong function */
    GS_ERROR_DAMAGE_BEHIND,    /* bytes after an allocation were written: gs_damage */
    GS_ERROR_WRITE_AFTER_FREE, /* likewise, after a freed allocation */
    GS_ERROR_USE_AFTER_FREE,   /* from here on uses of memory: gs_bad_use */
    GS_ERROR_OVERRUN,          /* begins in or after an allocation, and exceeds it */
    GS_ERROR_UNDERRUN,  /* begins before an allocation, and reaches into the allocation */
    GS_ERROR_STRAY_USE, /* the memory belongs to no allocation */
    GS_ERROR_NOT_IDLE,  /* a free took the device for idle, and work was running */
    GS_ERROR_STALE_HANDLE, /* gs_bad_use, of a handle: destroyed before */
    GS_ERROR_RELEASED_USE, /* gs_bad_use: the memory has no pages now */
    GS_ERROR_OVER_BUDGET,  /* a peak: rule; the report alone finds it, as the next */
    GS_ERROR_DENIED_CALL,  /* a deny: rule */
    GS_ERROR_KINDS
};

/* The thread and call of a free: the other half of an error report. */
struct gs_free_site {
    uint64_t time_ns; /* 0: the tracker fills it in */
    uint32_t thread;
    uint32_t stack; /* 0 = none recorded */
    uint16_t api;
};

/* Which frees have a call stack (free_stacks.h). */
enum gs_free_stacks {
    GS_FREE_STACKS_NONE,
    GS_FREE_STACKS_SOME, /* as many as cost a thread next to nothing */
    GS_FREE_STACKS_ALL
};

struct gs_tracker_config {
    const char *const *api_names; /* static; index 0 is "unknown" */
    size_t api_count;
    struct gs_stacks *stacks; /* the caller's; outlives the tracker; may be NULL */
    size_t free_history; /* just-freed addresses remembered (64 bytes each), a power of
                          * two; 0: none, and a double free counts as an invalid one */
    int (*clock)(clockid_t, struct timespec *); /* NULL: the C library's clock_gettime */
    struct gs_state_memory *memory; /* holds all state of the tracker; NULL: not in a
                                     * file */
    bool tally;                     /* keep the sums of gs_tracker_tally, for a profile */
    struct gs_phases *phases;    /* conditions that the tally keeps apart; NULL: none */
    struct gs_sampling sampling; /* which allocations have a stack; all 0: all of them */
    enum gs_free_stacks free_stacks;
    bool stopped;  /* gs_tracker_switch starts it */
    bool attached; /* gs_tracker_restart sets it */
};

/* The time windows in which the tracker recorded allocations. */
struct gs_tracker_windows {
    uint32_t count;             /* 0: none yet */
    bool open;                  /* recording now */
    bool switched;              /* recording was off at some time */
    bool attached;              /* it began in a running process: gs_tracker_restart */
    uint64_t first_ns, from_ns; /* when the first and the last window began */
    uint64_t to_ns;             /* when the last window ended; valid if not open */
};

/* Totals of one device, or of a row apart; tracker/totals.def has the names and docs. */
struct gs_tracker_totals {
#define GS_TOTAL(name, unit, doc) uint64_t name;
#include "tracker/totals.def"
#undef GS_TOTAL
};

/* Errors: GS_ERR_INVALID, GS_ERR_HOST_NOMEM. */
enum gs_status gs_tracker_create(const struct gs_tracker_config *config,
                                 struct gs_tracker **out) GS_MUST_USE;
/* No other call may be in progress. */
void gs_tracker_destroy(struct gs_tracker *tracker);
/* Call in a forked child, which has one thread; the parent's trackers are no longer
 * used. */
void gs_tracker_after_fork_in_child(void);

/*
 * Returns true if the tracker records allocations now. If not, the caller calls
 * gs_tracker_pass for each allocation, and reports frees as usual: a free without a
 * record is not an error.
 */
bool gs_tracker_records(const struct gs_tracker *tracker);
/* Switches recording on or off. Async-signal-safe. */
void gs_tracker_switch(struct gs_tracker *tracker);
/*
 * Forgets all records, sums, peaks and errors, and records from now on: the process may
 * have freed and allocated unseen. A later free of a forgotten allocation is no error.
 *
 * In:      ran_ns  how long the process has run, from which the first call counts time
 * Threads: none allocates or frees through the tracker at the first call; later, a call
 *          in progress may or may not be forgotten.
 */
void gs_tracker_restart(struct gs_tracker *tracker, uint64_t ran_ns);
void gs_tracker_get_windows(const struct gs_tracker *tracker,
                            struct gs_tracker_windows *out);
/* The number of switches of recording, and the time of one. `number` counts from 1; the
 * times of the last GS_SWITCHES_KEPT switches are kept. */
#define GS_SWITCHES_KEPT 16u
uint32_t gs_tracker_switches(const struct gs_tracker *tracker);
uint64_t gs_tracker_switch_ns(const struct gs_tracker *tracker, uint32_t number);

/* Changes which allocations get a stack from now on; those before keep their weights. One
 * change at a time. NULL: nothing. */
void gs_tracker_sample(struct gs_tracker *tracker, const struct gs_sampling *sampling);
/* The sampling now. */
struct gs_sampling gs_tracker_sampling(const struct gs_tracker *tracker);

/* Decides about the stack of an allocation that is about to be recorded. 0: the caller
 * takes a stack; else the value for `stack`. */
uint32_t gs_tracker_choose_stack(const struct gs_tracker *tracker,
                                 enum gs_memory_kind kind, uint64_t bytes);

/* Passes over an allocation that is not recorded: forgets the address's former record.
 * indexed: as in gs_tracker_add. */
void gs_tracker_pass(struct gs_tracker *tracker, uint64_t addr, bool indexed);

/* Nanoseconds since the tracker was created (monotonic, coarse: about 1-4 ms steps). */
uint64_t gs_tracker_now(const struct gs_tracker *tracker);
/* The same, but no earlier than the time of any record (docs/tracker.md, "Peaks"). */
uint64_t gs_tracker_latest(const struct gs_tracker *tracker);

/*
 * Records an allocation.
 * In:     allocation  time_ns 0 means now
 *         indexed     true: the caller keeps *id and removes the record by it;
 *                     false: the record is removed by address
 * Out:    *id         never 0; small, dense, reused after removal
 * Errors: GS_ERR_HOST_NOMEM  not recorded; counted in `allocs`, but not as live. Also if
 *                            65,535 combinations of context, device, call and kind of
 *                            memory are in use
 *         GS_ERR_INVALID     unknown kind, or more bytes than GS_TRACKED_BYTES_MAX
 * An address record replaces an earlier one of the same address, whose free the tracker
 * missed.
 */
enum gs_status gs_tracker_add(struct gs_tracker *tracker,
                              const struct gs_allocation *allocation, bool indexed,
                              uint32_t *id) GS_MUST_USE;

/* Register arguments of gs_tracker_add_block. */
struct gs_tracked_who {
    uint32_t thread, stack; /* as in gs_allocation */
};
struct gs_tracked_how {
    int16_t device;
    uint16_t api;
    uint32_t kind;
};

/*
 * gs_tracker_add, indexed and without a stream, for a block of the pool: the path of
 * nearly every allocation. Returns the id; 0: not recorded, as there.
 */
uint32_t gs_tracker_add_block(struct gs_tracker *tracker, uint64_t addr, uint64_t bytes,
                              uint64_t context, struct gs_tracked_who who,
                              struct gs_tracked_how how) GS_MUST_USE;

/*
 * gs_tracker_add for an allocation that may be in a scope: its stack is one of
 * gs_tracker_scope_stack. The scope counts it, its growth and its free.
 */
enum gs_status gs_tracker_add_scoped(struct gs_tracker *tracker,
                                     const struct gs_allocation *allocation, bool indexed,
                                     uint32_t *id) GS_MUST_USE;

/* The same as gs_tracker_add_block. */
uint32_t gs_tracker_add_scoped_block(struct gs_tracker *tracker, uint64_t addr,
                                     uint64_t bytes, uint64_t context,
                                     struct gs_tracked_who who,
                                     struct gs_tracked_how how) GS_MUST_USE;

/* Adds an allocation to the sums of its call site; a free does not subtract from them. No
 * effect without a tally. */
void gs_tracker_tally(struct gs_tracker *tracker, const struct gs_allocation *allocation);

/* Counts an allocation that the driver refused. */
void gs_tracker_add_failed(struct gs_tracker *tracker, int device,
                           enum gs_memory_kind kind);

/* Removes the record `id` (from gs_tracker_add, indexed). `site` (may be NULL) goes into
 * the history. Ignores an id that is not live, or not an indexed record's. Also ignores
 * an id whose context has died since: it is reused only after this call, or after the
 * next context death. */
void gs_tracker_remove(struct gs_tracker *tracker, uint32_t id,
                       const struct gs_free_site *site);

/* Fills in the time of a gs_free_site of the calling thread, and its stack if this free
 * is to have one. */
void gs_tracker_free_now(const struct gs_tracker *tracker, struct gs_free_site *site);

/* gs_tracker_remove, called by the freeing thread: captures the stack, likewise. */
void gs_tracker_remove_block(struct gs_tracker *tracker, uint32_t id, uint32_t thread,
                             uint16_t api);

/*
 * Removes a record added with indexed == false.
 * In:     site  for the history; may be NULL
 * Out:    *out  the removed record (may be NULL), for gs_tracker_restore
 * Errors: GS_ERR_NOT_FOUND
 */
enum gs_status gs_tracker_remove_address(struct gs_tracker *tracker, uint64_t addr,
                                         const struct gs_free_site *site,
                                         struct gs_allocation *out) GS_MUST_USE;

/* Puts a removed record back after the driver's free has failed. The record is now
 * removed by address.
 * Errors: GS_ERR_HOST_NOMEM, GS_ERR_INVALID. */
enum gs_status gs_tracker_restore(struct gs_tracker *tracker,
                                  const struct gs_allocation *allocation) GS_MUST_USE;

/* A copy of a live record by address, however it was added. GS_ERR_NOT_FOUND. Slow for
 * indexed records (a scan): for error messages and tests. */
enum gs_status gs_tracker_find(struct gs_tracker *tracker, uint64_t addr,
                               struct gs_allocation *out) GS_MUST_USE;

/* Adds `by` bytes to an indexed record, whose memory turned out larger. Ignored if the
 * record is not live, or would exceed GS_TRACKED_BYTES_MAX. One call at a time for a
 * record, and none during its removal. */
void gs_tracker_grow(struct gs_tracker *tracker, uint32_t id, uint64_t by);

/*
 * A context died. Its live allocations (by kinds bit mask, 1 << kind) stop being live.
 * They count as "live at reset" in the report, summed by stack, call, kind and device.
 * Blocks all other calls while it reads every record: 5 ns each, and some 50 ns for each
 * lost one.
 */
void gs_tracker_lose_context(struct gs_tracker *tracker, uint64_t context,
                             unsigned kinds);

/*
 * Records a free that the driver refused or the pool recognised as wrong. The tracker
 * distinguishes a double free from an invalid one by its history of recent frees, and
 * finds the allocation around an interior address (a scan, for the 32 errors that are
 * kept in full).
 */
void gs_tracker_error_free(struct gs_tracker *tracker, uint64_t addr, int device,
                           const struct gs_free_site *site);

/* Damage: a write after an allocation, or to a freed one. */
struct gs_damage {
    enum gs_error_kind kind;         /* GS_ERROR_DAMAGE_BEHIND or _WRITE_AFTER_FREE */
    struct gs_allocation allocation; /* of the memory, now or before its free; addr is
                                      * required */
    struct gs_free_site freed;       /* of a write after free: the free */
    uint64_t changed_bytes;          /* > 0 */
    uint64_t first;                  /* the first changed byte, from the allocation's
                                      * start */
};

/* `found`: the call that found the damage. Its api is 0 for the last check of memory:
 * before the process or a context ends, or before the memory is unmapped. */
void gs_tracker_error_damage(struct gs_tracker *tracker, const struct gs_damage *damage,
                             const struct gs_free_site *found);

/* Numbers of checks for such damage, and of omitted checks by reason. */
enum gs_check_outcome {
#define GS_CHECK(name, key, text) GS_CHECK_##name,
#include "tracker/checks.def"
    GS_CHECK_DONE,
    GS_CHECK_COUNTS
};
void gs_tracker_count_check(struct gs_tracker *tracker, enum gs_check_outcome which,
                            uint64_t count);

/* ---- scopes: their numbers are those of gs_scopes_number ---- */

/* Counts the begin of a scope; `around` is the scope around it, 0: none. */
void gs_tracker_scope_begun(struct gs_tracker *tracker, uint32_t scope, uint32_t around);
/* Tells the scope that a stack was captured in. Returns the stack for the record of an
 * allocation: `stack`, or where sampling left it out, what stands for it and the scope.
 */
uint32_t gs_tracker_scope_stack(struct gs_tracker *tracker, uint32_t stack,
                                uint32_t scope);

/* Counts an allocation in the scope that no other count includes, since it has no stack
 * to tell its scope by. */
void gs_tracker_scope_missed(struct gs_tracker *tracker, uint32_t scope);

/* The memory of a scope, the scopes within it included. */
struct gs_scope_totals {
    uint64_t begun, missed;                          /* of all devices */
    uint64_t allocs, frees, alloc_bytes, free_bytes; /* in all */
    uint64_t live_count, live_bytes, peak_bytes;
    uint64_t lost_count, lost_bytes; /* with their context: neither live nor freed */
};

/* In: device  as in gs_tracker_get_totals, or GS_SCOPE_ALL: all memory but views of it.
 * False: the scope was never begun; *out is all 0. */
#define GS_SCOPE_ALL INT_MAX
bool gs_tracker_scope_totals(struct gs_tracker *tracker, uint32_t scope, int device,
                             struct gs_scope_totals *out);
/* One more than the highest number of a scope; 1: there was none. */
uint32_t gs_tracker_scope_limit(struct gs_tracker *tracker);
/* The number of the scope with this path; 0: it was never begun. */
uint32_t gs_tracker_scope_find(struct gs_tracker *tracker, const char *path);

/* A copy of the live record that was added as indexed and has this id. Errors:
 * GS_ERR_NOT_FOUND. */
enum gs_status gs_tracker_get(struct gs_tracker *tracker, uint32_t id,
                              struct gs_allocation *out) GS_MUST_USE;

/* A freed allocation, as recorded in the history: no context and no stream. */
struct gs_former {
    struct gs_allocation allocation;
    struct gs_free_site site;
    bool lost; /* not freed: its context died */
};

/* A use of memory by a call that has no api index. */
struct gs_bad_use {
    enum gs_error_kind kind; /* GS_ERROR_USE_AFTER_FREE or a later one */
    uint64_t addr, bytes;    /* of the use */
    bool writes;
    int device;
    const char *call;     /* the driver's name; GS_CALL_NAME_MAX of it are copied */
    uint64_t time_ns;     /* 0: the tracker fills it in */
    uint32_t thread;      /* the using thread */
    uint32_t stack;       /* 0 = none recorded */
    uint64_t extent_addr; /* overrun, underrun: of the live allocation ... */
    uint64_t extent_bytes;
    struct gs_former former; /* use after free */
};
#define GS_CALL_NAME_MAX 40u

/*
 * Records a wrong use that the caller has found. Uses from one call site (the same kind,
 * call and stack) count with the first, which is kept. For a use that is kept, a scan
 * finds the allocating call.
 */
void gs_tracker_error_use(struct gs_tracker *tracker, const struct gs_bad_use *use);

/*
 * Records a free that relied on a proof that the device is idle, while work was running
 * (docs/free.md, "Verify"). Later ones from one call site count with the first; the
 * longest wait of a call site is kept.
 * In:  stream     the handle of a stream that showed work; 0: none did, and a wait was
 *                 long
 *      waited_ns  how long the device took to become idle
 */
void gs_tracker_error_not_idle(struct gs_tracker *tracker, int device, uint64_t stream,
                               uint64_t waited_ns, const struct gs_free_site *site);

/* Copies the live record of exactly this address, if it is removed by address. Takes a
 * lock, and reads no other record. GS_ERR_NOT_FOUND. */
enum gs_status gs_tracker_look_up(struct gs_tracker *tracker, uint64_t addr,
                                  struct gs_allocation *out) GS_MUST_USE;

/* Calls `visit` with a copy of each live allocation. No lock is held: one that is made or
 * freed meanwhile may be left out. */
void gs_tracker_visit(struct gs_tracker *tracker,
                      void (*visit)(void *self, const struct gs_allocation *allocation),
                      void *self);

/* Calls `visit` with a copy of each live allocation within a scope of this name
 * (scopes.h), as far as its stack was recorded. No lock is held. */
void gs_tracker_visit_scope(struct gs_tracker *tracker, const char *name,
                            void (*visit)(void *self,
                                          const struct gs_allocation *allocation),
                            void *self);

/* The path of the scopes in which a stack was captured, such as step/forward. Returns its
 * length; 0: none. *path has no end of its own, and lives as long as the stack table. */
size_t gs_tracker_scope_of(const struct gs_tracker *tracker, uint32_t stack,
                           const char **path);

/*
 * Calls `visit` with a copy of each live allocation until it returns false. No lock is
 * held: `visit` may allocate and free. An allocation that is live throughout is visited
 * once; one that is made or freed in the meantime may be left out.
 * number: no other allocation of the process has it, whatever its address; never 0. It
 * rises from call to call of `visit`.
 */
void gs_tracker_visit_numbered(struct gs_tracker *tracker,
                               bool (*visit)(void *self, uint64_t number,
                                             const struct gs_allocation *allocation),
                               void *self);

/* A copy of the live allocation that contains the address, and its number. A scan.
 * GS_ERR_NOT_FOUND. */
enum gs_status gs_tracker_around(struct gs_tracker *tracker, uint64_t addr,
                                 struct gs_allocation *out, uint64_t *number) GS_MUST_USE;

/* Returns true if a live allocation contains the address. A scan: 24 ns a record. */
bool gs_tracker_holds(struct gs_tracker *tracker, uint64_t addr);

/* The most recently freed allocation that contained the address, as far as the history
 * goes back. Reads the whole history: some 7 us. GS_ERR_NOT_FOUND. */
enum gs_status gs_tracker_former(struct gs_tracker *tracker, uint64_t addr,
                                 struct gs_former *out) GS_MUST_USE;

/* Errors seen so far. */
uint64_t gs_tracker_error_count(struct gs_tracker *tracker);

/* Rows of totals apart from the devices, in place of an ordinal. */
enum gs_totals_apart {
    GS_TOTALS_PINNED = -1,     /* page-locked host memory */
    GS_TOTALS_REGISTERED = -2, /* the program's own memory, page-locked by
                                * cuMemHostRegister */
    GS_TOTALS_IMPORTED = -3,   /* memory of other owners */
    GS_TOTALS_VIEWS = -4,      /* views of memory that another row counts */
    GS_TOTALS_FIRST = GS_TOTALS_VIEWS
};

/*
 * device < 0: an enum gs_totals_apart; otherwise GPU memory of that device, of all kinds.
 * Devices from GS_MAX_DEVICES - 1 on share the last row. peak_bytes is never less than
 * any live_bytes returned. It is exact with one thread; totals.c describes several
 * threads.
 */
void gs_tracker_get_totals(struct gs_tracker *tracker, int device,
                           struct gs_tracker_totals *out);
/*
 * A stretch of time with peaks of its own; any number may be open. The members are the
 * tracker's.
 */
struct gs_stretch {
    struct gs_stretch *next;
    int64_t peaks[GS_MAX_DEVICES - GS_TOTALS_FIRST]; /* by row */
    uint64_t part_peaks[GS_MAX_DEVICES];             /* by device: gs_tracker_part */
};
/* Begins a stretch at what is live now. The memory is the caller's, until its end. While
 * one is open, an allocation beyond its peak so far costs as one beyond the process's. */
void gs_tracker_stretch_begin(struct gs_tracker *tracker, struct gs_stretch *stretch);
/* The most that was live at once since its beginning. device: as in
 * gs_tracker_get_totals, as exact as its peak. */
uint64_t gs_tracker_stretch_peak(struct gs_tracker *tracker,
                                 const struct gs_stretch *stretch, int device);
/* The same of the parts that a framework's allocator had handed out. */
uint64_t gs_tracker_stretch_part_peak(struct gs_tracker *tracker,
                                      const struct gs_stretch *stretch, int device);
/* Without effect on one that is not open. */
void gs_tracker_stretch_end(struct gs_tracker *tracker, struct gs_stretch *stretch);

/* Over all rows: allocs and live_count; live_bytes without views; peak_bytes is the
 * highest peak of a device. The other members are 0. */
void gs_tracker_sum_totals(struct gs_tracker *tracker, struct gs_tracker_totals *sum);

#endif
