/*
 * python_more.c - larger caches of frames and of merged stacks, for programs that
 * allocate in more lines than the first caches have room for.
 *
 * Owns:  the memory of these caches.   Lock: the owner's, to make one; none to use it.
 * Design: docs/python.md
 */
#include "tracker/host_memory.h"
#include "tracker/python/python_internal.h"

#define GROWTH_BITS 2u
#define BITS_MOST   18u

struct gs_python_more *gs_python_more(struct gs_python *python,
                                      _Atomic(struct gs_python_more *) *newest,
                                      struct gs_python_more *now, unsigned bits,
                                      size_t entry_bytes)
{
    struct gs_python_more *more;
    size_t bytes;

    bits = (now != NULL ? now->bits : bits) + GROWTH_BITS;
    if (bits > BITS_MOST) {
        return NULL;
    }
    gs_mutex_lock(python->lock);
    more = atomic_load_explicit(newest, memory_order_relaxed);
    if (more == now) { /* else another thread has made it */
        bytes = sizeof(*more) + (entry_bytes << bits);
        more = gs_host_map(bytes);
        if (more != NULL) {
            more->older = now;
            more->bytes = bytes;
            more->bits = bits;
            atomic_fetch_add_explicit(&python->bytes, bytes, memory_order_relaxed);
            atomic_store_explicit(newest, more, memory_order_release);
        }
    }
    gs_mutex_unlock(python->lock);
    return more;
}

void gs_python_more_clear(struct gs_python_more *newest)
{
    while (newest != NULL) {
        struct gs_python_more *older = newest->older;

        gs_host_unmap(newest, newest->bytes);
        newest = older;
    }
}
