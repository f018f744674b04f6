/*
 * mem_group.h - GPUSHIM_MEM_GROUP: one GPUSHIM_MEM_LIMIT for several processes.
 *
 * The members of a group charge their memory to a ledger (ledger.h). The kernel ends the
 * membership of a process at any end of the process, also in another container.
 *
 * Locks: the group's own. Not async-signal-safe.
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
 * Returns the device's place, for the functions below; -1: there is no group, or it
 * cannot be joined, which was logged.
 */
int gs_group_join(const char *bus);

/*
 * Charges to the group. Returns false, with nothing charged, if its members would have
 * more than `limit` bytes of the device. Before that it removes members that have ended,
 * and waits for other members' attempts, a millisecond at most. Once the ledger was
 * shortened, which is logged, this process counts alone.
 */
bool gs_group_charge(int place, uint64_t bytes, uint64_t limit) GS_MUST_USE;
/* Adds to the charge or, modulo 2^64, takes from it, whatever the limit is. */
void gs_group_add(int place, uint64_t bytes);

/* The device memory of this process, in bytes. */
uint64_t gs_group_own(int place);
/* The bytes that all members have of the device. Members that have ended are removed
 * first, at most ten times a second. */
uint64_t gs_group_charged(int place);

/* Whether this process has idle memory to return if other members ask. No effect before
 * the group is joined. */
void gs_group_offer(bool gives);
/* Returns true if another member that would has memory of the device. */
bool gs_group_offered(int place);
/* The bytes that the other members have of the device, by the ledger alone. */
uint64_t gs_group_charged_by_others(int place);
/* Asks the other members to give idle memory of the device back, for a second, or until
 * the same bytes are wanted no longer. Several threads may ask. */
void gs_group_want(int place, uint64_t bytes);
void gs_group_want_no_longer(int place, uint64_t bytes);
/* The bytes that the other members together ask for. */
uint64_t gs_group_wanted_by_others(int place);
/* Changes whenever a member asks for memory of any device. 0: no group was joined. */
uint64_t gs_group_requests(void);

#endif
