/*
 * rust_legacy.c - the parts of a path, in which $LT$ and the like stand for characters.
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/names/rust_legacy.h"

#include <stdlib.h>
#include <string.h>

#define HASH_DIGITS 16u

static bool is_hash(const char *part, size_t length)
{
    return length == 1 + HASH_DIGITS && part[0] == 'h' &&
           strspn(part + 1, "0123456789abcdef") >= HASH_DIGITS;
}

/* Reads the length of a part. Returns where the part begins; NULL: none does. */
static const char *begin_part(const char *at, size_t *length)
{
    size_t value = 0;

    if (*at < '1' || *at > '9') {
        return NULL;
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (size_t)(*at - '0');
        if (value > 65536) {
            return NULL;
        }
    }
    *length = value;
    return strnlen(at, value) == value ? at : NULL;
}

bool gs_rust_is_legacy(const char *linkage)
{
    const char *at = linkage, *part = NULL;
    size_t length = 0;

    if (strncmp(linkage, "_ZN", 3) != 0) {
        return false;
    }
    for (at += 3; *at != 'E'; at = part + length) {
        part = begin_part(at, &length);
        if (part == NULL) {
            return false;
        }
    }
    return part != NULL && is_hash(part, length) && (at[1] == '\0' || at[1] == '.');
}

/* Writes the character that "$code$" stands for. Returns the length of the code; 0: none.
 */
static size_t put_code(const char *code, char **out)
{
    static const struct {
        char code[6], text;
    } codes[] = {{"$SP$", '@'}, {"$BP$", '*'}, {"$RF$", '&'}, {"$LT$", '<'},
                 {"$GT$", '>'}, {"$LP$", '('}, {"$RP$", ')'}, {"$C$", ','}};
    char *end;
    unsigned long value;

    for (size_t i = 0; i < GS_ARRAY_LEN(codes); i++) {
        size_t length = strlen(codes[i].code);

        if (strncmp(code, codes[i].code, length) == 0) {
            *(*out)++ = codes[i].text;
            return length;
        }
    }
    if (code[1] != 'u') {
        return 0;
    }
    value = strtoul(code + 2, &end, 16);
    if (*end != '$' || end == code + 2 || value < ' ' || value == 0x7f ||
        value > 0x10ffff) {
        return 0;
    }
    *out += gs_rust_put_utf8(*out, (uint32_t)value);
    return (size_t)(end + 1 - code);
}

/* Demangles a part, which never gets longer. */
static void put_part(const char *part, size_t length, char **out)
{
    const char *end = part + length;

    if (length > 1 && part[0] == '_' && part[1] == '$') {
        part++;
    }
    while (part < end) {
        size_t code = *part == '$' ? put_code(part, out) : 0;

        if (code != 0) {
            part += code;
        } else if (part[0] == '.' && part + 1 < end && part[1] == '.') {
            *(*out)++ = ':';
            *(*out)++ = ':';
            part += 2;
        } else {
            *(*out)++ = *part++;
        }
    }
}

char *gs_rust_demangle_legacy(const char *linkage)
{
    char *text = malloc(2 * strlen(linkage) + 1), *out = text;
    const char *at = linkage + 3, *part;
    size_t length;

    for (; text != NULL && *at != 'E'; at = part + length) {
        part = begin_part(at, &length);
        if (part == NULL) {
            break;
        }
        if (is_hash(part, length) && part[length] == 'E') {
            continue;
        }
        if (out != text) {
            *out++ = ':';
            *out++ = ':';
        }
        put_part(part, length, &out);
    }
    if (text != NULL) {
        *out = '\0';
    }
    return text;
}
