/*
 * groups.h - allocations added up by where they came from.
 *
 * A group is everything with the same stack, call, kind, device and fate. The tracker
 * keeps what was lost with its context in this form (a program that resets its device in
 * a loop must not make the tracker grow), and the report groups what is live with it.
 *
 * Locks: none; the owner of the table has one.
 */
#ifndef GS_GROUPS_H
#define GS_GROUPS_H

#include "gs_base.h"
#include "leak_scan.h"
#include "sampling.h"

struct gs_group {
    /* The key. */
    uint32_t stack;
    uint16_t api;
    int16_t device;
    uint8_t kind;
    uint8_t lost;
    /* The sums. */
    uint64_t bytes, count;
    double likely_bytes, likely_count; /* that they stand for: sampling.h */
    uint64_t oldest_ns, newest_ns;     /* allocation times */
    uint64_t found[GS_SCAN_RESULTS];   /* what a scan of host memory found of them */
    /* Set by the report, numbers of rules + 1, 0: none. The rule that suppresses it; or
     * one that would, if it did not match more than its caps allow. */
    uint32_t suppressed_by, beyond_rule;
};

/* The number of allocations that a group stands for; it is not the number that there is.
 */
static inline uint64_t gs_group_likely_count(const struct gs_group *group)
{
    return gs_likely(group->likely_count);
}
static inline bool gs_group_is_estimate(const struct gs_group *group)
{
    return gs_group_likely_count(group) > group->count;
}

struct gs_groups {
    struct gs_group *items;
    size_t count, capacity;
    uint32_t *slots;   /* item number + 1, 0 = empty */
    size_t slot_count; /* a power of two */
};

/*
 * Add `part` (any number of allocations with one key) to its group.
 * Errors: GS_ERR_HOST_NOMEM  a new group could not be made; nothing was added
 */
enum gs_status gs_groups_add(struct gs_groups *groups,
                             const struct gs_group *part) GS_MUST_USE;
/* Add what `part` has to a group, whatever their keys. */
void gs_group_sum(struct gs_group *group, const struct gs_group *part);
/* The group of the key; NULL: there is none. */
const struct gs_group *gs_groups_find(const struct gs_groups *groups,
                                      const struct gs_group *key);
void gs_groups_free(struct gs_groups *groups);

#endif
