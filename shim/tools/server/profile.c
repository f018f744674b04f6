/*
 * profile.c - see profile.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/server/profile.h"

#include <string.h>

/* Fields of profile.proto. */
#define STRING_TABLE        6u
#define DEFAULT_SAMPLE_TYPE 14u

/* Wire types of protocol buffers. */
enum { VARINT = 0, BYTES = 2 };

/* A message that is read. */
struct message {
    const unsigned char *at, *end;
    bool failed;
};

static uint64_t take_varint(struct message *message)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (message->at == message->end) {
            break;
        }
        unsigned char byte = *message->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
    message->failed = true;
    return 0;
}

/* Takes a field; *length is that of bytes. Returns its number. */
static uint64_t take_field(struct message *message, const unsigned char **bytes,
                           size_t *length)
{
    uint64_t key = take_varint(message);
    *bytes = NULL;
    *length = 0;
    if ((key & 7) == VARINT) {
        (void)take_varint(message);
    } else if ((key & 7) == BYTES) {
        uint64_t size = take_varint(message);
        if (size > (size_t)(message->end - message->at)) {
            message->failed = true;
        } else {
            *bytes = message->at;
            *length = (size_t)size;
            message->at += size;
        }
    } else {
        message->failed = true; /* a profile has no others */
    }
    return key >> 3;
}

bool gs_profile_prefer(struct gs_text *profile, const char *type)
{
    struct message message = {.at = (const unsigned char *)profile->data};
    const unsigned char *bytes;
    uint64_t number = 0, found = 0;
    size_t length;
    message.end = message.at + profile->length;
    while (message.at < message.end && !message.failed && found == 0) {
        if (take_field(&message, &bytes, &length) == STRING_TABLE && bytes) {
            found =
                length == strlen(type) && memcmp(bytes, type, length) == 0 ? number : 0;
            number++;
        }
    }
    if (message.failed || found == 0 || found >= 0x80) {
        return false;
    }
    /* Of a field that comes twice the last one counts. */
    const char field[] = {(char)(DEFAULT_SAMPLE_TYPE << 3 | VARINT), (char)found};
    gs_text_add_bytes(profile, field, sizeof(field));
    return true;
}
