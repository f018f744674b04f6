/*
 * export_out.h - buffers text and bytes for a sink.
 * Owns: the buffer.   Lock: none, one thread writes.
 */
#ifndef GS_EXPORT_OUT_H
#define GS_EXPORT_OUT_H

#include "gs_printable.h"
#include "tracker/report/export.h"

struct gs_export_out {
    const struct gs_export_sink *sink;
    size_t length;
    bool failed;     /* the sink failed: all later bytes are dropped */
    char data[1024]; /* on the stack of the thread that ends the process */
};

void gs_out_begin(struct gs_export_out *out, const struct gs_export_sink *sink);
/* Flushes the buffer. Errors: GS_ERR_IO. */
enum gs_status gs_out_end(struct gs_export_out *out) GS_MUST_USE;

void gs_out_bytes(struct gs_export_out *out, const void *data, size_t length);
void gs_out_text(struct gs_export_out *out, const char *text);
void gs_out_char(struct gs_export_out *out, char c);
void gs_out_number(struct gs_export_out *out, uint64_t value);
void gs_out_hex(struct gs_export_out *out, uint64_t value); /* "0x1f" */

/* "2026-01-31T23:59:59", in UTC. Returns `out`. */
const char *gs_out_time(uint64_t unix_ms, char out[32]);

/* A character of a text, or U+FFFD in place of a byte that is not UTF-8. */
struct gs_utf8 {
    const char *bytes;
    size_t length;
};
/* Takes the first character of a text, which must not be empty. */
struct gs_utf8 gs_utf8_take(const char **text);
/* Writes a text from outside as a part of a line: control characters, and the characters
 * of `also`, become question marks. */
void gs_out_part(struct gs_export_out *out, const char *text, const char *also);

#endif
