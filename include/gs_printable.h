/*
 * gs_printable.h - makes text from outside safe for a terminal and a log.
 *
 * File names, values of variables, and names in a file of another process may contain
 * control characters, which a terminal executes, or line feeds, which forge a line.
 *
 * Locks: none. Async-signal-safe.
 */
#ifndef GS_PRINTABLE_H
#define GS_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * Length of the UTF-8 character at the start of `text`, 0 if there is none. Never reads
 * past the NUL. Overlong forms, surrogates and values beyond U+10FFFF count as none.
 * Source: the Unicode standard, table 3-7: the second byte's range depends on the first
 */
static inline size_t gs_utf8_length(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xbf;
    size_t length;

    if (at[0] < 0x80) {
        return 1;
    }
    if (at[0] < 0xc2 || at[0] > 0xf4) {
        return 0;
    }
    length = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (at[0] == 0xe0) {
        low = 0xa0;
    } else if (at[0] == 0xed) {
        high = 0x9f;
    } else if (at[0] == 0xf0) {
        low = 0x90;
    } else if (at[0] == 0xf4) {
        high = 0x8f;
    }
    if (at[1] < low || at[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

/* The code point of a UTF-8 character of 1 to 4 bytes. */
static inline unsigned gs_utf8_value(const char *text, size_t length)
{
    unsigned value = (unsigned char)text[0];

    if (length > 1) {
        value &= 0xffu >> (length + 1);
    }
    for (size_t i = 1; i < length; i++) {
        value = value << 6 | ((unsigned char)text[i] & 0x3f);
    }
    return value;
}

/* Returns true if the character of `length` bytes is a control character: C0, DEL, C1
 * (U+0080 to U+009F), or one that begins a line or turns the direction of the text, so
 * that a terminal shows other names than there are (U+200E, U+200F, U+2028 to U+202E,
 * U+2066 to U+2069). */
static inline bool gs_is_control(const char *text, size_t length)
{
    const unsigned char *at = (const unsigned char *)text;

    if (length == 3 && at[0] == 0xe2) {
        return (at[1] == 0x80 &&
                (at[2] == 0x8e || at[2] == 0x8f || (at[2] >= 0xa8 && at[2] <= 0xae))) ||
               (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9);
    }
    return length == 1 ? at[0] < 0x20 || at[0] == 0x7f
                       : length == 2 && at[0] == 0xc2 && at[1] < 0xa0;
}

/*
 * Replaces each byte of a control character, and each byte that is not UTF-8, with a
 * question mark. The length stays.
 * In:  lines  keep line feeds and tabs: whole lines of ours, with names from outside
 */
static inline void gs_make_printable(char *text, bool lines)
{
    while (*text) {
        size_t length = gs_utf8_length(text), bytes = length ? length : 1;

        if (length == 0 || (gs_is_control(text, length) &&
                            !(lines && (*text == '\n' || *text == '\t')))) {
            memset(text, '?', bytes);
        }
        text += bytes;
    }
}

/* The characters of a text once it is printable: what a column of it takes. */
static inline size_t gs_printable_columns(const char *text)
{
    size_t columns = 0;

    for (; *text; columns++) {
        size_t length = gs_utf8_length(text);

        text += length == 0 || gs_is_control(text, length) ? 1 : length;
    }
    return columns;
}

#endif
