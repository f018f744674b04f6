/*
 * export_proto.h - messages in the protocol buffers' wire format, and a table of strings.
 *
 * A message is built in memory, because its length precedes it. Fields that are 0 or
 * empty are left out, as in proto3.
 *
 * Owns: a message's bytes; the strings' copies.   Lock: none.
 */
#ifndef GS_EXPORT_PROTO_H
#define GS_EXPORT_PROTO_H

#include "gs_hash.h"
#include "tracker/report/files/export_out.h"

struct gs_proto {
    unsigned char *data;
    size_t length, capacity;
    bool failed; /* out of memory: the message is incomplete */
};

void gs_proto_clear(struct gs_proto *message); /* keeps the memory for the next message */
void gs_proto_free(struct gs_proto *message);

void gs_proto_varint(struct gs_proto *message, uint64_t value);
/* Adds a field of one number; 0 is left out. */
void gs_proto_number(struct gs_proto *message, unsigned field, uint64_t value);
void gs_proto_bytes(struct gs_proto *message, unsigned field, const void *data,
                    size_t length);
void gs_proto_message(struct gs_proto *message, unsigned field,
                      const struct gs_proto *inner);

/* Numbers of strings, in the order of their first use; 0 is "". */
struct gs_proto_string {
    UT_hash_handle hh; /* by text */
    char *text;        /* valid UTF-8 */
    uint64_t number;
};
struct gs_proto_strings {
    struct gs_proto_string *items; /* by number, ascending */
    bool failed;                   /* out of memory: some strings got 0 */
};

uint64_t gs_proto_string(struct gs_proto_strings *strings, const char *text);
void gs_proto_strings_free(struct gs_proto_strings *strings);

#endif
