/*
 * json_read.c - see json_read.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/reader/json_read.h"

#include <stdlib.h>
#include <string.h>

#include "gs_printable.h"

#define SPACE " \t\r\n"

static void fail(struct gs_json_read *json)
{
    if (!json->problem) {
        json->problem = *json->at ? "not JSON" : "its JSON is truncated";
    }
    json->at += strlen(json->at);
}

static void skip_space(struct gs_json_read *json)
{
    json->at += strspn(json->at, SPACE);
}

/* ---- strings ----------------------------------------------------------------------- */

/* The value of four hexadecimal digits; UINT32_MAX: they are none. */
static uint32_t read_unit(const char *at)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; i++) {
        char c = at[i], letter = (char)(c | 0x20);
        if (c >= '0' && c <= '9') {
            value = value << 4 | (uint32_t)(c - '0');
        } else if (letter >= 'a' && letter <= 'f') {
            value = value << 4 | (uint32_t)(letter - 'a' + 10);
        } else {
            return UINT32_MAX;
        }
    }
    return value;
}

static char *put_utf8(char *to, uint32_t c)
{
    static const unsigned char marks[] = {0, 0xc0, 0xe0, 0xf0};
    unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    *to++ = (char)(marks[more] | c >> 6 * more);
    while (more-- > 0) {
        *to++ = (char)(0x80 | (c >> 6 * more & 0x3f));
    }
    return to;
}

/* Decodes "\u0041" after its backslash, which is never shorter than what it stands for.
 * NUL and half a pair become a question mark. Returns the text after it; NULL: error. */
static char *take_code(char *at, char **to)
{
    uint32_t c = read_unit(at + 1), low;
    if (c == UINT32_MAX) {
        return NULL;
    }
    at += 5;
    if (c >= 0xd800 && c < 0xdc00 && at[0] == '\\' && at[1] == 'u' &&
        (low = read_unit(at + 2)) >= 0xdc00 && low < 0xe000) {
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    }
    *to = put_utf8(*to, c == 0 || (c >= 0xd800 && c < 0xe000) ? '?' : c);
    return at;
}

/* Returns the text after an escape's backslash; NULL: error. */
static char *take_escape(char *at, char **to)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *letter = *at ? strchr(letters, *at) : NULL;
    if (*at == 'u') {
        return take_code(at, to);
    }
    if (!letter) {
        return NULL;
    }
    *(*to)++ = values[letter - letters];
    return at + 1;
}

/* Decodes the string at json->at; "" after an error. */
static const char *take_string(struct gs_json_read *json)
{
    char *text = json->at + 1, *to = text, *at = text;
    while (at && *at && *at != '"') {
        if (*at == '\\') {
            at = take_escape(at + 1, &to);
        } else {
            *to++ = *at++;
        }
    }
    if (!at || *at != '"') {
        json->at = at ? at : json->at;
        fail(json);
        return "";
    }
    json->at = at + 1;
    *to = '\0';
    gs_make_printable(text, false);
    return text;
}

/* ---- values ------------------------------------------------------------------------ */

bool gs_json_read_open(struct gs_json_read *json, char bracket)
{
    skip_space(json);
    if (*json->at != bracket) {
        gs_json_read_skip(json);
        return false;
    }
    json->at++;
    return true;
}

bool gs_json_read_more(struct gs_json_read *json)
{
    skip_space(json);
    if (*json->at == ',') {
        json->at++;
        skip_space(json);
    }
    if (*json->at == '}' || *json->at == ']') {
        json->at++;
        return false;
    }
    if (*json->at == '\0') {
        fail(json);
    }
    return *json->at != '\0';
}

/* Takes a member's name. "" after an error. */
static const char *read_key(struct gs_json_read *json)
{
    skip_space(json);
    if (*json->at != '"') {
        fail(json);
        return "";
    }
    const char *key = take_string(json);
    skip_space(json);
    if (*json->at != ':') {
        fail(json);
        return "";
    }
    json->at++;
    return key;
}

const char *gs_json_read_text(struct gs_json_read *json)
{
    skip_space(json);
    if (*json->at == '"') {
        return take_string(json);
    }
    gs_json_read_skip(json);
    return NULL;
}

bool gs_json_read_number(struct gs_json_read *json, uint64_t *out)
{
    uint64_t value = 0;
    bool fits = true;
    skip_space(json);
    const char *digits = json->at;
    for (; *json->at >= '0' && *json->at <= '9'; json->at++) {
        fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, (uint64_t)(*json->at - '0'), &value);
    }
    bool whole = json->at > digits && !strchr(".eE+-", *json->at ? *json->at : ',');
    if (!whole) {
        gs_json_read_skip(json);
        return false;
    }
    if (fits) {
        *out = value;
    }
    return fits;
}

/* "true" is true, any other value false. */
static bool read_bool(struct gs_json_read *json)
{
    skip_space(json);
    bool value = strncmp(json->at, "true", 4) == 0;
    gs_json_read_skip(json);
    return value;
}

/* Numbers and words; no bracket, comma or quote. */
static bool skip_word(struct gs_json_read *json)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzE0123456789+-.";
    size_t length = strspn(json->at, word);
    json->at += length;
    return length > 0;
}

void gs_json_read_skip(struct gs_json_read *json)
{
    size_t depth = 0;
    do {
        skip_space(json);
        char c = *json->at;
        if (c == '"') {
            (void)take_string(json);
        } else if (c == '{' || c == '[') {
            depth++;
            json->at++;
        } else if (depth > 0 && (c == '}' || c == ']')) {
            depth--;
            json->at++;
        } else if (depth > 0 && (c == ',' || c == ':')) {
            json->at++;
        } else if (!skip_word(json)) {
            fail(json);
        }
    } while (depth > 0 && *json->at);
    if (depth > 0) {
        fail(json);
    }
}

/* ---- objects ----------------------------------------------------------------------- */

static void read_hex(struct gs_json_read *json, uint64_t *out)
{
    const char *text = gs_json_read_text(json);
    if (text && strncmp(text, "0x", 2) == 0) {
        *out = strtoull(text, NULL, 16);
    }
}

static void read_field(struct gs_json_read *json, const struct gs_json_field *field,
                       void *self)
{
    void *value = (char *)self + field->offset;
    switch (field->type) {
    case GS_JSON_NUMBER:
        (void)gs_json_read_number(json, value);
        break;
    case GS_JSON_HEX:
        read_hex(json, value);
        break;
    case GS_JSON_TEXT:
        *(const char **)value = gs_json_read_text(json);
        break;
    case GS_JSON_BOOL:
        *(bool *)value = read_bool(json);
        break;
    case GS_JSON_CALL:
        field->read(json, self);
        break;
    }
}

void gs_json_read_fields(struct gs_json_read *json, const struct gs_json_field *fields,
                         size_t count, void *self)
{
    if (!gs_json_read_open(json, '{')) {
        return;
    }
    while (gs_json_read_more(json)) {
        const char *key = read_key(json);
        size_t i = 0;
        while (i < count && strcmp(key, fields[i].name) != 0) {
            i++;
        }
        if (i < count) {
            read_field(json, &fields[i], self);
        } else {
            gs_json_read_skip(json);
        }
    }
}
