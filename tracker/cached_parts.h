/*
 * cached_parts.h - what a framework's caching allocator has handed out of the memory that
 * it keeps: tensors, by address. So a report tells memory that is cached from memory in
 * use.
 *
 * Locks: any thread may call any function; locking is internal.
 */
#ifndef GS_CACHED_PARTS_H
#define GS_CACHED_PARTS_H

#include "tracker/groups.h"
#include "tracker/grown.h"
#include "tracker/samples.h"
#include "tracker/statefile/state_memory.h"
#include "tracker/tracker_lock.h"

struct gs_cached_parts;

/* memory: that of the tracker, or NULL. NULL: no memory. */
struct gs_cached_parts *gs_cached_parts_create(struct gs_state_memory *memory);
void gs_cached_parts_destroy(struct gs_cached_parts *parts); /* NULL is allowed */

/* A part that is handed out. */
struct gs_part {
    uint64_t addr; /* 0: none */
    uint64_t bytes : 54, device : 8;
    uint64_t kept : 1;  /* gs_cached_parts_keep */
    uint64_t grown : 1; /* gs_cached_parts_end */
    uint64_t time_ns;   /* since the tracker's start */
    uint32_t stack;     /* of the call that it was handed to; 0: not known; in the table
                         * alone also what stands for its scope: live_record.h */
    uint32_t moment;    /* of its device, that it is newer than: gs_parts_peak */
    uint64_t number;    /* of all that were handed out, from 1; 0: not known */
};

/* A table of parts, open-addressed by address. */
struct gs_part_table {
    uint64_t room; /* a power of two */
    struct gs_part slots[];
};

/* The parts of a device at its peak: at the first moment at which they had the most
 * bytes. A device stays at its peak while its allocator fills the memory that it has. */
struct gs_parts_peak {
    uint64_t reserved_bytes; /* that the allocator has reserved from the device */
    uint64_t live_bytes;     /* of parts */
    uint64_t peak_bytes;     /* of parts: the most ever */
    uint64_t most_bytes;     /* of parts, at the moment */
    uint32_t seen;           /* the device's last peak, by number */
    uint32_t moment;         /* by number */
    uint32_t newest;         /* moment of `gone` */
    struct gs_samples gone;  /* that the allocator has back, by stack; stream: moment */
};

/* For its functions, and for the reader of a file that has it. */
struct gs_cached_parts {
    struct gs_tracker_lock lock;
    uint32_t lost; /* memory was short: some parts are missing */
    struct gs_state_memory *memory;
    struct gs_part_table *table; /* atomic: the one that is complete */
    size_t count;
    uint64_t handed_out; /* parts so far */
    uint32_t ended;      /* atomic: gs_cached_parts_end was called */
    /* What grew until Python ended, and came back then; the rest with stack 0. */
    struct gs_grown_site grown[GS_GROWN_SITES + 1];
    struct gs_parts_peak peaks[GS_MAX_DEVICES];
};

/* The allocator hands out a part. Without memory the parts are no longer known. */
void gs_cached_parts_add(struct gs_cached_parts *parts, const struct gs_part *part);

/* A device at the time of a call: the number of its last peak, and what the allocator
 * has of it. */
struct gs_parts_now {
    unsigned device; /* < GS_MAX_DEVICES */
    uint32_t peak;
    uint64_t reserved_bytes;
    /* Whether the device has as much as at its peak; asked only for a new maximum of
     * parts. */
    bool (*is_at_peak)(const struct gs_tracker *tracker, unsigned device);
    const struct gs_tracker *tracker;
};
/* As gs_cached_parts_add, and sets the part's device and moment: memory that the
 * allocator has just taken of the device, it took for this part. Returns the bytes of the
 * device's parts now. */
uint64_t gs_cached_parts_hand_out(struct gs_cached_parts *parts, struct gs_part part,
                                  const struct gs_parts_now *now);
/* The part is freed to its allocator. Returns it; its address is 0: there was none. */
struct gs_part gs_cached_parts_remove(struct gs_cached_parts *parts, uint64_t addr,
                                      const struct gs_parts_now *now);
/* The bytes of a device's parts. `parts` may be NULL. */
struct gs_parts_bytes {
    uint64_t live_bytes, peak_bytes; /* now, and the most ever */
};
struct gs_parts_bytes gs_cached_parts_bytes(struct gs_cached_parts *parts,
                                            unsigned device);
/* The owner of the part, or of the allocation, at this address was to be freed once
 * Python had ended, and stays. An allocation has a part without bytes for that. */
void gs_cached_parts_keep(struct gs_cached_parts *parts, uint64_t addr);
/* Python has ended, and frees its objects. The first call marks the parts of call sites
 * that grew, as gs_part_list_judge_kept has it. */
void gs_cached_parts_end(struct gs_cached_parts *parts);

/* What grew until Python ended, and came back then. Returns how many call sites there
 * are; `parts` may be NULL. */
size_t gs_cached_parts_grown(struct gs_cached_parts *parts,
                             struct gs_grown_site out[GS_GROWN_SITES + 1]);

/* Adds the parts that were live at the device's peak, of that number, and are no more, by
 * stack.
 * Errors: GS_ERR_HOST_NOMEM  some are missing */
enum gs_status gs_cached_parts_gone(struct gs_cached_parts *parts, unsigned device,
                                    uint32_t peak, struct gs_groups *out) GS_MUST_USE;

/* The parts at one time, by address. */
struct gs_part_list {
    struct gs_part *items;
    size_t count, room;
    uint64_t handed_out; /* parts so far */
    bool known;          /* false: no allocator reports them, or memory was short */
    struct {
        uint32_t peak, moment; /* as struct gs_parts_peak has them */
    } devices[GS_MAX_DEVICES];
};
/* `parts` may be NULL: nothing is known. gs_part_list_free must follow. */
struct gs_part_list gs_cached_parts_copy(struct gs_cached_parts *parts);
void gs_part_list_free(struct gs_part_list *list);
/* Whether a part of the list was live at the device's peak, of that number. */
bool gs_part_list_at_peak(const struct gs_part_list *list, const struct gs_part *part,
                          unsigned device, uint32_t peak);
/* A call site grew if it has as many kept parts, over so many eighths of the run. */
#define GS_GREW_PARTS   8
#define GS_GREW_EIGHTHS 7
/* Clears `kept` of the parts of a call site that grew: it handed out the kept ones over
 * nearly the whole run. With `all`, of each part. kept_parts.c */
void gs_part_list_judge_kept(struct gs_part_list *list, bool all);
/* Whether all parts that begin within the memory are kept. */
bool gs_part_list_all_kept(const struct gs_part_list *list, uint64_t addr,
                           uint64_t bytes);
/* The number of parts that begin within the memory; *first is that of the first one. */
size_t gs_part_list_within(const struct gs_part_list *list, uint64_t addr, uint64_t bytes,
                           size_t *first);

/* Calls `add` with each part of the memory, and with the rest of it; `add` may change it.
 * False: it has no parts, or not all of their stacks are known; `add` was not called. */
bool gs_part_list_split(const struct gs_part_list *list, uint64_t addr,
                        const struct gs_group *whole,
                        void (*add)(void *self, struct gs_group *piece), void *self);

#endif
