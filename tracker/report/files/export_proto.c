/*
 * export_proto.c - the part of protocol buffers' wire format (protobuf.dev, "Encoding")
 * that a profile needs.
 * Owns: the bytes of messages and strings.   Lock: none.
 */
#include "tracker/report/files/export_proto.h"

#include <stdlib.h>
#include <string.h>

/* Wire types. */
enum { VARINT = 0, LENGTH_DELIMITED = 2 };

void gs_proto_clear(struct gs_proto *message)
{
    message->length = 0;
}

void gs_proto_free(struct gs_proto *message)
{
    free(message->data);
    memset(message, 0, sizeof(*message));
}

static bool make_room(struct gs_proto *message, size_t length)
{
    size_t capacity = message->capacity ? message->capacity : 256;

    while (capacity < message->length + length) {
        capacity *= 2;
    }
    if (capacity == message->capacity) {
        return true;
    }
    unsigned char *data = realloc(message->data, capacity);
    if (!data) {
        message->failed = true;
        return false;
    }
    message->data = data;
    message->capacity = capacity;
    return true;
}

void gs_proto_varint(struct gs_proto *message, uint64_t value)
{
    if (!make_room(message, 10)) {
        return;
    }
    while (value >= 0x80) {
        message->data[message->length++] = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    message->data[message->length++] = (unsigned char)value;
}

void gs_proto_number(struct gs_proto *message, unsigned field, uint64_t value)
{
    if (value == 0) {
        return;
    }
    gs_proto_varint(message, (uint64_t)field << 3 | VARINT);
    gs_proto_varint(message, value);
}

void gs_proto_bytes(struct gs_proto *message, unsigned field, const void *data,
                    size_t length)
{
    gs_proto_varint(message, (uint64_t)field << 3 | LENGTH_DELIMITED);
    gs_proto_varint(message, length);
    if (length == 0 || !make_room(message, length)) {
        return;
    }
    memcpy(message->data + message->length, data, length);
    message->length += length;
}

void gs_proto_message(struct gs_proto *message, unsigned field,
                      const struct gs_proto *inner)
{
    gs_proto_bytes(message, field, inner->data, inner->length);
    message->failed = message->failed || inner->failed;
}

/* ---- strings ---------------------------------------------------------------------- */

/* A copy with invalid UTF-8 replaced: readers reject a string that is not valid. */
static char *valid_copy(const char *text)
{
    char *copy = malloc(3 * strlen(text) + 1), *to = copy;

    while (copy && *text) {
        struct gs_utf8 c = gs_utf8_take(&text);

        memcpy(to, c.bytes, c.length);
        to += c.length;
    }
    if (copy) {
        *to = '\0';
    }
    return copy;
}

/* Adds a string with the next number. Takes ownership of `text`. NULL: no memory. */
static struct gs_proto_string *add(struct gs_proto_strings *strings, char *text)
{
    struct gs_proto_string *made = calloc(1, sizeof(*made));

    if (made) {
        made->text = text;
        made->number = HASH_COUNT(strings->items);
        HASH_ADD_KEYPTR(hh, strings->items, text, strlen(text), made);
        if (made->hh.tbl) {
            return made;
        }
    }
    free(made);
    free(text);
    return NULL;
}

/* Returns the number of a valid string. Takes ownership of `text`. */
static uint64_t number_of(struct gs_proto_strings *strings, char *text)
{
    struct gs_proto_string *known = NULL;

    if (text) {
        HASH_FIND_STR(strings->items, text, known);
    }
    if (known) {
        free(text);
    } else if (text) {
        known = add(strings, text);
    }
    strings->failed = strings->failed || !known;
    return known ? known->number : 0;
}

uint64_t gs_proto_string(struct gs_proto_strings *strings, const char *text)
{
    if (!strings->items) {
        (void)number_of(strings, valid_copy(""));
    }
    return text ? number_of(strings, valid_copy(text)) : 0;
}

void gs_proto_strings_free(struct gs_proto_strings *strings)
{
    for (struct gs_proto_string *item = strings->items; item; item = item->hh.next) {
        free(item->text);
    }
    GS_HASH_FREE(strings->items);
}
