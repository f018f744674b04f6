/*
 * group_name.h - what GPUSHIM_MEM_GROUP may be: the path of a file, or a name.
 */
#ifndef GS_GROUP_NAME_H
#define GS_GROUP_NAME_H

#include <stdbool.h>
#include <string.h>

#define GS_GROUP_NAME_MOST 64 /* bytes */
#define GS_GROUP_WRONG     "not a path, nor a name of at most 64 letters, digits and . _ -"

/* Returns whether the text, which has no slash, is the name of a group. */
static inline bool gs_group_is_name(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789._-");
    return text[length] == '\0' && length <= GS_GROUP_NAME_MOST && text[0] != '.';
}

#endif
