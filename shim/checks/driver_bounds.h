/*
 * driver_bounds.h - how exactly the driver compares a use of memory with an allocation.
 *
 * The driver refuses a copy or a set that leaves its allocation; whether it compares with
 * the requested bytes, with the rounded block, or with the pages after it, is not
 * documented. The library asks the driver itself, the first time that it matters: may one
 * byte more than an allocation be read?
 */
#ifndef GS_DRIVER_BOUNDS_H
#define GS_DRIVER_BOUNDS_H

#include "shim/state/state.h"

enum gs_driver_bounds {
    GS_BOUNDS_PAGES, /* of 2 MiB; also where the driver cannot be asked now */
    GS_BOUNDS_BLOCKS,
    GS_BOUNDS_BYTES,
};

/*
 * Called between gs_enter and gs_leave, with the current context's device idle or busy,
 * also while a stream captures. The first answer is kept. It costs a small allocation of
 * the driver's, which stays.
 */
enum gs_driver_bounds gs_driver_bounds(void);

/* In a forked child. */
void gs_driver_bounds_reset(void);

#endif
