/*
 * groups.h - allocations summed by call site.
 *
 * A group is all allocations with the same stack, call, kind, device and fate. The
 * tracker keeps memory lost with its context in this form, because a program that resets
 * its device in a loop must not make the tracker grow. The report groups live memory the
 * same way.
 *
 * Locks: none; the owner of the table has one.
 */
#ifndef GS_GROUPS_H
#define GS_GROUPS_H

#include "gs_base.h"
#include "tracker/sampling.h"
#include "tracker/scan/leak_scan.h"

/* Whether memory has parts that a caching allocator has handed out (cached_parts.h). */
enum gs_group_holds {
    GS_HOLDS_NOTHING, /* or no allocator says */
    GS_HOLDS_PARTS,
    GS_HOLDS_UNKNOWN, /* memory without an address */
    GS_HOLDS_ITSELF,  /* it is such parts, by their own stacks */
    GS_HOLDS_KEPT,    /* likewise, that were owned when Python ended (gs_part.kept) */
    GS_HOLDS_OWNER    /* memory without parts that was owned then */
};

struct gs_group {
    /* The key. */
    uint32_t stack;
    uint16_t api;
    int16_t device;
    uint8_t kind;
    uint8_t lost;
    uint8_t holds;     /* enum gs_group_holds; the report's alone */
    uint8_t cached_by; /* set by the report: a row of GS_CACHE + 1; 0: no cache */
    /* The sums. */
    uint64_t bytes, count;
    double likely_bytes, likely_count; /* estimates from samples: sampling.h */
    uint64_t oldest_ns, newest_ns;     /* allocation times */
    uint64_t found[GS_SCAN_RESULTS];   /* results of a scan of host memory */
    /* Set by the report: the number of a suppression rule + 1; 0: none. suppressed_by
     * suppresses the group; beyond_rule matches, but the group exceeds its caps. */
    uint32_t suppressed_by, beyond_rule;
};

/* Returns true if the group is parts of memory, by their own stacks. */
static inline bool gs_group_is_parts(const struct gs_group *group)
{
    return group->holds == GS_HOLDS_ITSELF || group->holds == GS_HOLDS_KEPT;
}

/* The estimated number of allocations of a group; `count` is the recorded number. */
static inline uint64_t gs_group_likely_count(const struct gs_group *group)
{
    return gs_likely(group->likely_count);
}
static inline bool gs_group_is_estimate(const struct gs_group *group)
{
    return gs_group_likely_count(group) > group->count;
}

/* The amount that a report shows for a group: the estimate, if it exceeds the recorded
 * amount. */
static inline uint64_t gs_group_shown_bytes(const struct gs_group *group)
{
    return gs_group_is_estimate(group) ? gs_likely(group->likely_bytes) : group->bytes;
}
static inline uint64_t gs_group_shown_count(const struct gs_group *group)
{
    return gs_group_is_estimate(group) ? gs_group_likely_count(group) : group->count;
}

struct gs_groups {
    struct gs_group *items;
    size_t count, capacity;
    uint32_t *slots;   /* item number + 1, 0 = empty */
    size_t slot_count; /* a power of two */
};

/*
 * Adds `part` (any number of allocations with one key) to its group.
 * Errors: GS_ERR_HOST_NOMEM  no new group; nothing was added
 */
enum gs_status gs_groups_add(struct gs_groups *groups,
                             const struct gs_group *part) GS_MUST_USE;
/* Adds the sums of `part` to a group, whatever their keys. */
void gs_group_sum(struct gs_group *group, const struct gs_group *part);
/* The group of the key; NULL: there is none. */
const struct gs_group *gs_groups_find(const struct gs_groups *groups,
                                      const struct gs_group *key);
void gs_groups_free(struct gs_groups *groups);

#endif
