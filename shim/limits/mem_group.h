/*
 * mem_group.h - GPUSHIM_MEM_GROUP: one GPUSHIM_MEM_LIMIT for several processes.
 *
 * The members of a group charge their memory to a ledger, a file that all of them have
 * mapped. A member that is killed leaves nothing to clean up.
 *
 * Locks: the group's own, while it is joined. Not async-signal-safe.
 */
#ifndef GS_MEM_GROUP_H
#define GS_MEM_GROUP_H

#include "gs_base.h"

/* Called at start with GPUSHIM_MEM_GROUP. Opens nothing: a process that never finds a
 * device is no member. */
void gs_group_start(const char *name);
void gs_group_reset(void); /* in a forked child */
bool gs_group_wanted(void);

/*
 * Joins the group, if the process has not, and counts memory of a device there.
 * In:  bus  the device's PCI bus id; "": unknown
 * Returns where this process's charge of the device is, for the functions below; NULL:
 * there is no group, or it cannot be joined, which was logged.
 */
uint64_t *gs_group_join(const char *bus);

/* Charges to the group. Returns false, with nothing charged, if its members would have
 * more than `limit` bytes of the device. Before that it looks whether each of the others
 * runs, and waits for their attempts, a millisecond at most. */
bool gs_group_charge(uint64_t *charge, uint64_t bytes, uint64_t limit) GS_MUST_USE;

/* Before the process becomes another program: with its memory it leaves the group. After
 * that has failed: it is a member again, with what it had. Async-signal-safe. */
void gs_group_leave(void);
void gs_group_return(void);

/* The bytes that all members have of the device. What a process that has ended had is
 * taken out first, at most ten times a second. */
uint64_t gs_group_charged(const uint64_t *charge);

/* Whether this process would give idle memory back if others asked. No effect before the
 * group is joined. */
void gs_group_offer(bool gives);
/* Returns true if another member that would has memory of the device. */
bool gs_group_offered(const uint64_t *charge);
/* The bytes that the other members have of the device, by the ledger alone. */
uint64_t gs_group_charged_by_others(const uint64_t *charge);
/* Asks the other members to give idle memory of the device back, for a second, or until
 * the same bytes are wanted no longer. Several threads may ask. */
void gs_group_want(const uint64_t *charge, uint64_t bytes);
void gs_group_want_no_longer(const uint64_t *charge, uint64_t bytes);
/* The bytes that the other members together ask for. */
uint64_t gs_group_wanted_by_others(const uint64_t *charge);
/* Changes whenever a member asks for memory of any device. 0: no group was joined. */
uint64_t gs_group_requests(void);

#endif
