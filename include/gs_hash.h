/*
 * gs_hash.h - maps by key: uthash, set up for the library.
 *
 * For a map that is off the hot path and is used under its owner's lock. Not for a table
 * that is read without a lock or in a signal handler, that is in a shared file, or that
 * must keep out of the program's heap.
 *
 * An element is a struct of the owner's with the key and a member `UT_hash_handle hh`,
 * zero at first; it does not move while it is in a map. A map is a pointer to such a
 * struct: NULL is an empty map. HASH_ITER and `hh.next` walk a map in the order in which
 * its elements were added. Keys are compared byte by byte: no padding in them.
 *
 * Owns:  the buckets of a map, in the C library's heap.   Lock: the caller's.
 */
#ifndef GS_HASH_H
#define GS_HASH_H

#include "gs_base.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* Hides uthash from Clang's analyzer, which takes the head of a map for freed with any
 * other element. */
#ifdef __clang_analyzer__
void *gs_hash_unknown(void *map, void *element);
#undef HASH_FIND
#undef HASH_ADD_KEYPTR
#undef HASH_DELETE_HH
#define HASH_FIND(hh, map, key, length, out)                                             \
    ((out) = ((void)(key), (void)(length), gs_hash_unknown(map, NULL)))
#define HASH_ADD_KEYPTR(hh, map, key, length, element)                                   \
    ((map) = gs_hash_unknown(map, element))
#define HASH_DELETE_HH(hh, map, handle) ((map) = gs_hash_unknown(map, handle))
#endif

/* The element with the key at `key`, or NULL. */
#define GS_HASH_FIND(map, key)                                                           \
    ({                                                                                   \
        __typeof__(map) gs_hash_found;                                                   \
        HASH_FIND(hh, map, key, sizeof(*(key)), gs_hash_found);                          \
        gs_hash_found;                                                                   \
    })

/* Adds an element by its member `field`; no element of the map has the same key. False:
 * no memory, the map is as it was. */
#define GS_HASH_ADD(map, field, element)                                                 \
    ({                                                                                   \
        HASH_ADD(hh, map, field, sizeof((element)->field), element);                     \
        (element)->hh.tbl != NULL;                                                       \
    })

/* Frees the elements of a map, which are blocks of malloc, and empties it. */
#define GS_HASH_FREE(map)                                                                \
    do {                                                                                 \
        __typeof__(map) gs_hash_each, gs_hash_next;                                      \
        HASH_ITER (hh, map, gs_hash_each, gs_hash_next) {                                \
            HASH_DEL(map, gs_hash_each);                                                 \
            free(gs_hash_each);                                                          \
        }                                                                                \
    } while (0)

#endif
