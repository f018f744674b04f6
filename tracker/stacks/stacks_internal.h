/*
 * stacks_internal.h - the stacks of a process, for stacks.c and for the readers of a
 * file.
 * Owns: nothing.   Lock: stacks->lock.   Design: docs/stacks.md
 */
#ifndef GS_STACKS_INTERNAL_H
#define GS_STACKS_INTERNAL_H

#include "gs_locks.h"
#include "tracker/names/modules.h"
#include "tracker/python/python.h"
#include "tracker/stacks/stack_table.h"
#include "tracker/stacks/stacks.h"

/* What keeps a thread's capture from being a plain one. Lock: none, the thread's own. */
#define GS_CAPTURE_INSIDE 1u /* one is in progress: a nested one takes no stack */
#define GS_CAPTURE_SCOPED 2u /* the thread is in a scope */
extern __thread unsigned gs_capture_state
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

struct gs_stacks {
    struct gs_stacks_config config;     /* immutable; unwinder is the one in use */
    uint64_t identity;                  /* unique, never reused; immutable */
    _Atomic uint64_t number;            /* unique, never reused; changes once there is
                                         * Python */
    _Atomic(struct gs_python *) python; /* set once */
    _Atomic(struct gs_python *) scopes; /* the names of scopes; set once */
    _Atomic(void (*)(void *)) ended;    /* gs_stacks_watch_python */
    void *ended_self;                   /* its argument; written before */
    struct gs_stack_table table;        /* read without, added to under lock */
    struct gs_module_table modules;     /* under lock */
    _Atomic uint64_t refused;           /* captures without space left */
    struct gs_mutex lock;
};

#endif
