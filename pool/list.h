/*
 * list.h - a circular doubly linked list through a member of the listed record.
 * Owns: nothing.   Lock: that of the list's owner.
 */
#ifndef GS_POOL_LIST_H
#define GS_POOL_LIST_H

#include <stddef.h>

struct gs_link {
    struct gs_link *prev, *next;
};

/* The record that contains the link as a member. */
#define GS_LINK_OWNER(link, type, member)                                                \
    ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* An empty list, or a link that is on no list. */
static inline void gs_list_init(struct gs_link *list)
{
    list->prev = list->next = list;
}

static inline void gs_list_append(struct gs_link *list, struct gs_link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static inline void gs_list_remove(struct gs_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = link;
}

static inline int gs_list_empty(const struct gs_link *list)
{
    return list->next == list;
}

#endif
