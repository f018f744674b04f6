/*
 * json_read.h - reads JSON (RFC 8259) piece by piece, in place.
 *
 * A caller opens an object or array, asks for its members one by one, and takes or skips
 * each. Strings are decoded where they stand, so the text changes, and must live as long
 * as they do. A value of another type than the caller wants is skipped. After an error
 * nothing more is found, and `problem` says what it was.
 *
 * Locks: none.
 */
#ifndef GS_JSON_READ_H
#define GS_JSON_READ_H

#include "gs_base.h"

struct gs_json_read {
    char *at;            /* in a text that a NUL ends */
    const char *problem; /* the end of a sentence; NULL: none */
};

/* Enters an object ('{') or array ('['); false: the value was another, and is skipped. */
bool gs_json_read_open(struct gs_json_read *json, char bracket);
/* Returns whether a member follows; leaves the object or array after the last one. */
bool gs_json_read_more(struct gs_json_read *json);

/* A string without control characters; NULL: another value, such as null. */
const char *gs_json_read_text(struct gs_json_read *json);
/* Whole numbers; false: another value, or none that fits. */
bool gs_json_read_number(struct gs_json_read *json, uint64_t *out);
void gs_json_read_skip(struct gs_json_read *json);

/* A member that the caller knows, and where its value goes in the caller's struct. */
struct gs_json_field {
    const char *name;
    size_t offset;
    enum { GS_JSON_NUMBER, GS_JSON_HEX, GS_JSON_TEXT, GS_JSON_BOOL, GS_JSON_CALL } type;
    void (*read)(struct gs_json_read *json, void *self); /* GS_JSON_CALL */
};

/* Reads an object's members into `self`, whose other members stay as they are: numbers
 * (uint64_t; GS_JSON_HEX from a string "0x1f"), texts (const char *), bools. Reads
 * nothing of another value. */
void gs_json_read_fields(struct gs_json_read *json, const struct gs_json_field *fields,
                         size_t count, void *self);

#endif
