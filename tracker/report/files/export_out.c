/*
 * export_out.c - the buffer in front of a sink, the number formats, and the UTF-8 check.
 * Owns: nothing.   Lock: none.
 */
#include "tracker/report/files/export_out.h"

#include <stdio.h>
#include <string.h>

#include "gs_date.h"
#include "tracker/report/text/text.h"

static bool add_to_text(void *text, const void *data, size_t length)
{
    gs_text_add_bytes(text, data, length);
    return !((struct gs_text *)text)->truncated;
}

struct gs_export_sink gs_export_text_sink(struct gs_text *text)
{
    return (struct gs_export_sink){.write = add_to_text, .self = text};
}

void gs_out_begin(struct gs_export_out *out, const struct gs_export_sink *sink)
{
    out->sink = sink;
    out->length = 0;
    out->failed = false;
}

static void flush(struct gs_export_out *out)
{
    if (!out->failed && out->length > 0 &&
        !out->sink->write(out->sink->self, out->data, out->length)) {
        out->failed = true;
    }
    out->length = 0;
}

enum gs_status gs_out_end(struct gs_export_out *out)
{
    flush(out);
    return out->failed ? GS_ERR_IO : GS_OK;
}

void gs_out_bytes(struct gs_export_out *out, const void *data, size_t length)
{
    const char *from = data;

    while (length > 0) {
        size_t room = sizeof(out->data) - out->length;
        size_t part = length < room ? length : room;

        memcpy(out->data + out->length, from, part);
        out->length += part;
        from += part;
        length -= part;
        if (out->length == sizeof(out->data)) {
            flush(out);
        }
    }
}

void gs_out_text(struct gs_export_out *out, const char *text)
{
    gs_out_bytes(out, text, strlen(text));
}

void gs_out_char(struct gs_export_out *out, char c)
{
    gs_out_bytes(out, &c, 1);
}

/* Writes the digits of `value` backwards from `end`. Returns the first digit. */
static char *put_digits(uint64_t value, unsigned base, char *end)
{
    do {
        *--end = "0123456789abcdef"[value % base];
        value /= base;
    } while (value > 0);
    return end;
}

void gs_out_number(struct gs_export_out *out, uint64_t value)
{
    char digits[20];
    char *end = digits + sizeof(digits), *begin = put_digits(value, 10, end);

    gs_out_bytes(out, begin, (size_t)(end - begin));
}

void gs_out_hex(struct gs_export_out *out, uint64_t value)
{
    char digits[20];
    char *end = digits + sizeof(digits), *begin = put_digits(value, 16, end);

    *--begin = 'x';
    *--begin = '0';
    gs_out_bytes(out, begin, (size_t)(end - begin));
}

const char *gs_out_time(uint64_t unix_ms, char out[32])
{
    struct gs_date date = gs_date_of((int64_t)(unix_ms / 1000));

    snprintf(out, 32, "%04u-%02u-%02uT%02u:%02u:%02u", date.year % 10000, date.month,
             date.day, date.hour, date.minute, date.second);
    return out;
}

struct gs_utf8 gs_utf8_take(const char **text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    struct gs_utf8 taken = {.bytes = *text, .length = gs_utf8_length(*text)};

    *text += taken.length ? taken.length : 1;
    return taken.length ? taken : (struct gs_utf8){replacement, sizeof(replacement) - 1};
}

void gs_out_part(struct gs_export_out *out, const char *text, const char *also)
{
    while (*text) {
        struct gs_utf8 c = gs_utf8_take(&text);

        if (gs_is_control(c.bytes, c.length) ||
            (c.length == 1 && strchr(also, *c.bytes))) {
            gs_out_char(out, '?');
        } else {
            gs_out_bytes(out, c.bytes, c.length);
        }
    }
}
