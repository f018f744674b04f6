/*
 * export_json_values.h - JSON's syntax: values, commas, escapes, lines.
 *
 * Members down to a depth begin a line each: by default those of the outermost object,
 * and their members. Deeper members stay on one line, so that a file of thousands of call
 * sites can be read and compared.
 *
 * Owns: nothing.   Lock: none, one thread writes.
 */
#ifndef GS_EXPORT_JSON_VALUES_H
#define GS_EXPORT_JSON_VALUES_H

#include "tracker/report/files/export_out.h"

struct gs_json {
    struct gs_export_out out;
    unsigned depth;
    unsigned lines; /* the depth to which members begin a line, at most 4; 0: 2 */
    bool begun;     /* the innermost object or array is not empty */
    bool named;     /* a key was written, its value is due */
};

/* '{' or '[', and its end. */
void gs_json_open(struct gs_json *json, char bracket);
void gs_json_close(struct gs_json *json, char bracket);
void gs_json_key(struct gs_json *json, const char *key);

/* Text of any bytes; invalid UTF-8 becomes U+FFFD. NULL: null. */
void gs_json_text(struct gs_json *json, const char *text);
void gs_json_number(struct gs_json *json, uint64_t value);
/* Thousandths: 1500 is 1.500. */
void gs_json_thousandths(struct gs_json *json, uint64_t value);
void gs_json_hex(struct gs_json *json, uint64_t value); /* as text: "0x7f00" */
void gs_json_bool(struct gs_json *json, bool value);
void gs_json_null(struct gs_json *json);

/* A key with its value. */
void gs_json_member(struct gs_json *json, const char *key, uint64_t value);
void gs_json_member_text(struct gs_json *json, const char *key, const char *text);
void gs_json_member_hex(struct gs_json *json, const char *key, uint64_t value);
void gs_json_member_bool(struct gs_json *json, const char *key, bool value);
/* The value if it is known, else null. */
void gs_json_member_or_null(struct gs_json *json, const char *key, bool known,
                            uint64_t value);
void gs_json_member_null(struct gs_json *json, const char *key);
void gs_json_member_open(struct gs_json *json, const char *key, char bracket);

#endif
