/*
 * text.c - a growable text buffer, and the number formats of the report.
 * Owns: the buffer.   Lock: none, one thread uses one buffer.
 */
#include "tracker/report/text/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_printable.h"

#define FIRST_CAPACITY 4096

/* Makes space for `length` more bytes and the NUL. */
static bool make_room(struct gs_text *text, size_t length)
{
    size_t capacity = text->capacity ? text->capacity : FIRST_CAPACITY;

    if (length >= SIZE_MAX / 2 - text->length) {
        return false;
    }
    while (capacity <= text->length + length) {
        capacity *= 2;
    }
    if (capacity == text->capacity) {
        return true;
    }
    char *data = realloc(text->data, capacity);
    if (!data) {
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

/*
 * Adds formatted text, without control characters from foreign names. Out of memory, or
 * for a format that cannot be written, the call adds nothing and sets text->truncated;
 * later calls add nothing, so the text misses its end but has no hole.
 */
void gs_text_add(struct gs_text *text, const char *format, ...)
{
    va_list arguments;

    if (!text || !format || text->truncated) {
        return;
    }
    va_start(arguments, format);
    size_t room = text->capacity - text->length;
    int length = vsnprintf(text->data ? text->data + text->length : NULL,
                           text->data ? room : 0, format, arguments);
    va_end(arguments);
    if (length < 0 || ((size_t)length >= room && !make_room(text, (size_t)length))) {
        if (text->data) {
            text->data[text->length] = '\0';
        }
        text->truncated = true;
        return;
    }
    if ((size_t)length >= room) {
        va_start(arguments, format);
        vsnprintf(text->data + text->length, text->capacity - text->length, format,
                  arguments);
        va_end(arguments);
    }
    if (text->data) {
        gs_make_printable(text->data + text->length, true);
    }
    text->length += (size_t)length;
}

void gs_text_reserve(struct gs_text *text, size_t bytes)
{
    while (bytes >= FIRST_CAPACITY && !make_room(text, bytes)) {
        bytes /= 2;
    }
    if (text->data) {
        text->data[text->length] = '\0';
    }
}

void gs_text_add_foreign(struct gs_text *text, const char *foreign)
{
    size_t before = text->length;

    gs_text_add_bytes(text, foreign, strlen(foreign));
    if (text->length > before) {
        gs_make_printable(text->data + before, false);
    }
}

void gs_text_add_bytes(struct gs_text *text, const char *bytes, size_t length)
{
    if (text->truncated) {
        return;
    }
    if (!make_room(text, length)) {
        text->truncated = true;
        return;
    }
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

/* The buffer may be used again afterwards. */
void gs_text_free(struct gs_text *text)
{
    if (!text) {
        return;
    }
    free(text->data);
    memset(text, 0, sizeof(*text));
}

/* Returns value / unit, in steps of 1 / `scale`, rounded half up. */
static uint64_t divide(uint64_t value, uint64_t unit, unsigned scale)
{
    __extension__ unsigned __int128 product = (unsigned __int128)value * scale;

    return (uint64_t)((product + unit / 2) / unit);
}

/*
 * Three significant digits; four for 1000 to 1023 of a unit; all of them for single
 * bytes. A value that rounds up to 1024 gets the next unit.
 */
const char *gs_text_bytes(uint64_t bytes, char out[24])
{
    static const char prefixes[] = "KMGTPE";
    unsigned unit = 0;
    uint64_t size = 1024;

    if (bytes < 1024) {
        snprintf(out, 24, "%u B", (unsigned)bytes);
        return out;
    }
    while (unit + 1 < sizeof(prefixes) - 1 && divide(bytes, size, 1) >= 1024) {
        unit++;
        size *= 1024;
    }
    uint64_t hundredths = divide(bytes, size, 100);
    uint64_t tenths = divide(bytes, size, 10);
    if (hundredths < 1000) {
        snprintf(out, 24, "%u.%02u %ciB", (unsigned)(hundredths / 100),
                 (unsigned)(hundredths % 100), prefixes[unit]);
    } else if (tenths < 1000) {
        snprintf(out, 24, "%u.%u %ciB", (unsigned)(tenths / 10), (unsigned)(tenths % 10),
                 prefixes[unit]);
    } else {
        snprintf(out, 24, "%u %ciB", (unsigned)divide(bytes, size, 1), prefixes[unit]);
    }
    return out;
}

const char *gs_text_count(uint64_t count, char out[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
    char *to = out;

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            *to++ = ',';
        }
        *to++ = digits[i];
    }
    *to = '\0';
    return out;
}

/* Three digits, rounded down like a clock: 59.99 s is "59.9 s". From a minute on, minutes
 * and seconds, or hours and minutes. */
const char *gs_text_duration(uint64_t ns, char out[24])
{
    static const struct {
        uint64_t ns;
        char name[3];
    } units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}};
    unsigned long long seconds = ns / units[0].ns;
    size_t i = 0;

    if (seconds >= 3600) {
        snprintf(out, 24, "%lluh%02llum", seconds / 3600, seconds / 60 % 60);
    } else if (seconds >= 60) {
        snprintf(out, 24, "%llum%02llus", seconds / 60, seconds % 60);
    }
    if (seconds >= 60) {
        return out;
    }
    while (i + 1 < sizeof(units) / sizeof(*units) && ns < units[i].ns) {
        i++;
    }
    unsigned hundredths = (unsigned)(ns * 100 / units[i].ns);
    if (ns < units[i].ns) {
        snprintf(out, 24, "0 s");
    } else if (i + 1 == sizeof(units) / sizeof(*units) || hundredths >= 10000) {
        snprintf(out, 24, "%u %s", hundredths / 100, units[i].name);
    } else if (hundredths >= 1000) {
        snprintf(out, 24, "%u.%u %s", hundredths / 100, hundredths / 10 % 10,
                 units[i].name);
    } else {
        snprintf(out, 24, "%u.%02u %s", hundredths / 100, hundredths % 100,
                 units[i].name);
    }
    return out;
}

const char *gs_text_growth(int64_t bytes, uint64_t ns, char out[96])
{
    uint64_t apart = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
    char change[24], duration[24], rate[24];

    gs_text_duration(ns, duration);
    if (bytes == 0) {
        snprintf(out, 96, "no change in the last %s", duration);
    } else {
        snprintf(out, 96, "%c%s in the last %s (%s/s)", bytes < 0 ? '-' : '+',
                 gs_text_bytes(apart, change), duration,
                 gs_text_bytes(divide(apart, ns ? ns : 1, 1000000000), rate));
    }
    return out;
}
