/*
 * list_item.h - an item of an option's list: "4K, 64K", "stream:10, global:100".
 */
#ifndef GS_LIST_ITEM_H
#define GS_LIST_ITEM_H

#include <string.h>

#include "gs_base.h"

/* Leaves out the spaces around an item; a list of a file has line feeds. */
static inline void gs_list_trim(const char **text, size_t *length)
{
    static const char spaces[] = " \t\r\n";

    while (*length && memchr(spaces, **text, sizeof(spaces) - 1)) {
        (*text)++;
        (*length)--;
    }
    while (*length && memchr(spaces, (*text)[*length - 1], sizeof(spaces) - 1)) {
        (*length)--;
    }
}

/* Copies an item without the spaces around it. Returns false if it does not fit. */
static inline bool gs_list_item(const char *text, size_t length, char *out, size_t room)
{
    gs_list_trim(&text, &length);
    if (length >= room) {
        return false;
    }
    memcpy(out, text, length);
    out[length] = '\0';
    return true;
}

#endif
