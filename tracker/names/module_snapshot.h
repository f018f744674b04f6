/*
 * module_snapshot.h - one copy of the loader's list, or of what was added to it, to be
 * merged by modules.c.
 * Owns: nothing.   Lock: none, a snapshot belongs to the thread that took it.
 */
#ifndef GS_MODULE_SNAPSHOT_H
#define GS_MODULE_SNAPSHOT_H

#include "tracker/names/modules.h"

struct gs_module_snapshot {
    struct gs_loaded before, now; /* the list before what the copy has, and with it */
    bool all;                     /* every module of the list */
    size_t count, capacity;
    char *names; /* paths of the modules below */
    size_t names_used, names_capacity;
    size_t bytes; /* of this mapping */
    bool overflow;
    struct gs_module modules[];
};

#endif
