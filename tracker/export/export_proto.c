/*
 * export_proto.c - the part of protocol buffers' wire format (protobuf.dev, "Encoding")
 * that a profile needs.
 * Owns: the bytes of messages and strings.   Lock: none.
 */
#include "export_proto.h"

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
    memset(message, 0, sizeof *message);
}

static bool make_room(struct gs_proto *message, size_t length)
{
    size_t capacity = message->capacity ? message->capacity : 256;

    while (capacity < message->length + length)
        capacity *= 2;
    if (capacity == message->capacity)
        return true;
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
    if (!make_room(message, 10))
        return;
    while (value >= 0x80) {
        message->data[message->length++] = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    message->data[message->length++] = (unsigned char)value;
}

void gs_proto_number(struct gs_proto *message, unsigned field, uint64_t value)
{
    if (value == 0)
        return;
    gs_proto_varint(message, (uint64_t)field << 3 | VARINT);
    gs_proto_varint(message, value);
}

void gs_proto_bytes(struct gs_proto *message, unsigned field, const void *data,
                    size_t length)
{
    gs_proto_varint(message, (uint64_t)field << 3 | LENGTH_DELIMITED);
    gs_proto_varint(message, length);
    if (length == 0 || !make_room(message, length))
        return;
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
        size_t length = gs_utf8_length(text);
        const char *from = length ? text : GS_UTF8_REPLACEMENT;
        size_t bytes = length ? length : sizeof GS_UTF8_REPLACEMENT - 1;
        memcpy(to, from, bytes);
        to += bytes;
        text += length ? length : 1;
    }
    if (copy)
        *to = '\0';
    return copy;
}

static size_t find_slot(const struct gs_proto_strings *strings, const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (const char *at = text; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    size_t slot = (size_t)(hash ^ hash >> 32) & (strings->slot_count - 1);
    while (strings->slots[slot] != 0 &&
           strcmp(strings->items[strings->slots[slot] - 1], text) != 0)
        slot = (slot + 1) & (strings->slot_count - 1);
    return slot;
}

/* Room for twice as many. */
static bool grow(struct gs_proto_strings *strings)
{
    size_t capacity = strings->capacity ? strings->capacity * 2 : 256;
    char **items = realloc(strings->items, capacity * sizeof *items);

    if (!items)
        return false;
    strings->items = items;
    uint32_t *slots = calloc(capacity * 2, sizeof *slots);
    if (!slots)
        return false;
    free(strings->slots);
    strings->slots = slots;
    strings->slot_count = capacity * 2;
    strings->capacity = capacity;
    for (size_t i = 0; i < strings->count; i++)
        slots[find_slot(strings, items[i])] = (uint32_t)(i + 1);
    return true;
}

/* The number of a valid string, which is given away. */
static uint64_t number_of(struct gs_proto_strings *strings, char *text)
{
    if (!text || (strings->count == strings->capacity && !grow(strings))) {
        strings->failed = true;
        free(text);
        return 0;
    }
    size_t slot = find_slot(strings, text);
    if (strings->slots[slot] != 0) {
        free(text);
    } else {
        strings->items[strings->count] = text;
        strings->slots[slot] = (uint32_t)++strings->count;
    }
    return strings->slots[slot] - 1;
}

uint64_t gs_proto_string(struct gs_proto_strings *strings, const char *text)
{
    if (strings->count == 0)
        (void)number_of(strings, valid_copy(""));
    return text ? number_of(strings, valid_copy(text)) : 0;
}

void gs_proto_strings_free(struct gs_proto_strings *strings)
{
    for (size_t i = 0; i < strings->count; i++)
        free(strings->items[i]);
    free(strings->items);
    free(strings->slots);
    memset(strings, 0, sizeof *strings);
}
