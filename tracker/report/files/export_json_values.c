/*
 * export_json_values.c - JSON's own syntax (RFC 8259).
 * Owns: nothing.   Lock: none.
 */
#include "tracker/report/files/export_json_values.h"

#include <stdio.h>
#include <string.h>

#define LINES_DEPTH 2

/* Members below this depth begin no line. */
static unsigned lines_of(const struct gs_json *json)
{
    return json->lines ? json->lines : LINES_DEPTH;
}

static void put_line(struct gs_json *json)
{
    static const char indent[] = "\n        ";

    gs_out_bytes(&json->out, indent, 1 + 2 * (size_t)json->depth);
}

/* Writes the comma or line before a value or key. */
static void put_separator(struct gs_json *json)
{
    if (json->named) {
        json->named = false;
        return;
    }
    if (json->begun) {
        gs_out_text(&json->out, json->depth > lines_of(json) ? ", " : ",");
    }
    json->begun = true;
    if (json->depth > 0 && json->depth <= lines_of(json)) {
        put_line(json);
    }
}

void gs_json_open(struct gs_json *json, char bracket)
{
    put_separator(json);
    gs_out_char(&json->out, bracket);
    json->depth++;
    json->begun = false;
}

void gs_json_close(struct gs_json *json, char bracket)
{
    json->depth--;
    if (json->begun && json->depth < lines_of(json)) {
        put_line(json);
    }
    gs_out_char(&json->out, bracket);
    json->begun = true;
}

static void put_escaped(struct gs_json *json, unsigned c)
{
    static const char letters[] = "btnvfr"; /* 8 to 13; JSON has no \v */
    char code[8];

    gs_out_char(&json->out, '\\');
    if (c == '"' || c == '\\') {
        gs_out_char(&json->out, c);
    } else if (c >= 8 && c <= 13 && c != 11) {
        gs_out_char(&json->out, letters[c - 8]);
    } else {
        snprintf(code, sizeof(code), "u%04x", c);
        gs_out_text(&json->out, code);
    }
}

static void put_string(struct gs_json *json, const char *text)
{
    gs_out_char(&json->out, '"');
    while (*text) {
        struct gs_utf8 c = gs_utf8_take(&text);

        if (gs_is_control(c.bytes, c.length) || *c.bytes == '"' || *c.bytes == '\\') {
            put_escaped(json, gs_utf8_value(c.bytes, c.length));
        } else {
            gs_out_bytes(&json->out, c.bytes, c.length);
        }
    }
    gs_out_char(&json->out, '"');
}

void gs_json_key(struct gs_json *json, const char *key)
{
    put_separator(json);
    put_string(json, key);
    gs_out_text(&json->out, ": ");
    json->named = true;
}

void gs_json_text(struct gs_json *json, const char *text)
{
    if (!text) {
        gs_json_null(json);
        return;
    }
    put_separator(json);
    put_string(json, text);
}

void gs_json_number(struct gs_json *json, uint64_t value)
{
    put_separator(json);
    gs_out_number(&json->out, value);
}

void gs_json_thousandths(struct gs_json *json, uint64_t value)
{
    unsigned rest = (unsigned)(value % 1000);
    const char digits[] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
                           (char)('0' + rest % 10)};

    gs_json_number(json, value / 1000);
    gs_out_bytes(&json->out, digits, sizeof(digits));
}

void gs_json_hex(struct gs_json *json, uint64_t value)
{
    put_separator(json);
    gs_out_char(&json->out, '"');
    gs_out_hex(&json->out, value);
    gs_out_char(&json->out, '"');
}

void gs_json_bool(struct gs_json *json, bool value)
{
    put_separator(json);
    gs_out_text(&json->out, value ? "true" : "false");
}

void gs_json_null(struct gs_json *json)
{
    put_separator(json);
    gs_out_text(&json->out, "null");
}

void gs_json_member(struct gs_json *json, const char *key, uint64_t value)
{
    gs_json_key(json, key);
    gs_json_number(json, value);
}

void gs_json_member_text(struct gs_json *json, const char *key, const char *text)
{
    gs_json_key(json, key);
    gs_json_text(json, text);
}

void gs_json_member_hex(struct gs_json *json, const char *key, uint64_t value)
{
    gs_json_key(json, key);
    gs_json_hex(json, value);
}

void gs_json_member_bool(struct gs_json *json, const char *key, bool value)
{
    gs_json_key(json, key);
    gs_json_bool(json, value);
}

void gs_json_member_or_null(struct gs_json *json, const char *key, bool known,
                            uint64_t value)
{
    if (known) {
        gs_json_member(json, key, value);
    } else {
        gs_json_member_null(json, key);
    }
}

void gs_json_member_null(struct gs_json *json, const char *key)
{
    gs_json_key(json, key);
    gs_json_null(json);
}

void gs_json_member_open(struct gs_json *json, const char *key, char bracket)
{
    gs_json_key(json, key);
    gs_json_open(json, bracket);
}
