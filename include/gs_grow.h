/*
 * gs_grow.h - arrays that grow as items are added. Not installed.
 * Locks: none; the array's owner has one where threads share it.
 */
#ifndef GS_GROW_H
#define GS_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * Makes room for one more item after `count` items of `bytes` bytes each.
 * In:   array  the address of the pointer to the items, NULL at first; from malloc
 * Out:  the pointer and *room, on success
 * Returns false, with nothing changed, without memory.
 */
static inline bool gs_grow(void *array, size_t count, size_t *room, size_t bytes)
{
    void *items;
    size_t more = *room ? 2 * *room : 64;
    if (count < *room) {
        return true;
    }
    memcpy(&items, array, sizeof(items)); /* its type is the caller's */
    items = reallocarray(items, more, bytes);
    if (!items) {
        return false;
    }
    memcpy(array, &items, sizeof(items));
    *room = more;
    return true;
}

#endif
