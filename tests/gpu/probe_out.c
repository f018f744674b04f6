/*
 * probe_out.c - rows: one JSON object a line, and the same for people below it.
 *
 *   {"question":"codes","row":"free","unit":"code","status":"measured",...}
 *     codes          free            null=0 twice=INVALID_VALUE
 *
 * A row is put together in memory and written at once, so that what was measured before a
 * question is cut off is whole.
 * Owns: the row being written.   Lock: row_lock; rows are written by the thread that
 * asks, but the one that watches the time may end a row in the middle.
 */
#include "probe.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WIDTH       100 /* columns of the table */
#define MARK_WIDTH  10
#define NAME_WIDTH  17
#define LABEL_WIDTH 16
#define CELLS_AT    (MARK_WIDTH + NAME_WIDTH + LABEL_WIDTH)

struct text {
    size_t used;
    char chars[12288];
};

static const char *question = "none"; /* immutable after probe_out_begin */
static const char *label = "";        /* likewise: what stands in front of its name */
static const char *mark = "gpu";      /* likewise: what stands in front of each row */
static const char *simulated_json = "false"; /* likewise */

static pthread_mutex_t row_lock = PTHREAD_MUTEX_INITIALIZER;

static bool closed; /* row_lock: the last row is written */

static struct { /* row_lock */
    bool open, hidden;
    char unit[16];
    char note[512];
    bool first;
    struct text json, table;
    size_t column;
} row;

/* Append; what does not fit is cut, the text stays terminated. */
static void put(struct text *text, const char *format, ...) GS_PRINTF(2, 3);

static void put(struct text *text, const char *format, ...)
{
    size_t room = sizeof(text->chars) - text->used;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text->chars + text->used, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        text->used += (size_t)length < room ? (size_t)length : room - 1;
}

static void put_out(const struct text *text)
{
    size_t done = 0;

    while (done < text->used) {
        ssize_t written = write(STDOUT_FILENO, text->chars + done, text->used - done);

        if (written <= 0)
            return;
        done += (size_t)written;
    }
}

/* Characters a JSON string cannot hold as they are become spaces. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || *text < ' ' || (unsigned char)*text > 0x7e)
            *text = ' ';
}

void probe_out_begin(const char *name, bool is_simulated)
{
    question = name;
    mark = is_simulated ? "simulated" : "gpu";
    simulated_json = is_simulated ? "true" : "false";
}

void probe_out_label(const char *text)
{
    label = text;
}

const char *probe_size_text(size_t bytes)
{
    static char texts[8][24]; /* the thread that asks */
    static unsigned next;
    char *text = texts[next++ % 8];
    const char *units = "BKMG";
    size_t rest = bytes;

    while (rest >= 1024 && rest % 1024 == 0 && units[1]) {
        rest /= 1024;
        units++;
    }
    snprintf(text, sizeof(texts[0]), "%zu%c", rest, *units);
    return text;
}

void probe_name_suffix(char *out, size_t size, const char *name, const char *suffix)
{
    snprintf(out, size, "%s%s", name, suffix);
}

/* Three significant digits with the unit: 41ns, 1.24us, 12.0ms. */
static void duration_text(char *out, size_t size, double ns)
{
    const char *const units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;

    while (ns >= 999.5 && unit < 3) {
        ns /= 1000;
        unit++;
    }
    snprintf(out, size, "%.*f%s",
             unit == 0 || ns >= 99.95 ? 0
             : ns >= 9.995            ? 1
                                      : 2,
             ns, units[unit]);
}

static void number_text(char *out, size_t size, double value)
{
    if (strcmp(row.unit, "ns") == 0)
        duration_text(out, size, value);
    else if (strcmp(row.unit, "bytes") == 0 && value >= 0)
        snprintf(out, size, "%s", probe_size_text((size_t)value));
    else
        snprintf(out, size, "%.0f", value);
}

void probe_row_begin(const char *plain, const char *unit)
{
    char name[64];

    probe_name_suffix(name, sizeof(name), label, plain);
    pthread_mutex_lock(&row_lock);
    memset(&row, 0, sizeof(row));
    row.open = true;
    snprintf(row.unit, sizeof(row.unit), "%s", unit);
    row.first = true;
    put(&row.json,
        "{\"part\":\"probe\",\"question\":\"%s\",\"row\":\"%s\",\"status\":\"measured\","
        "\"unit\":\"%s\",\"values\":{",
        question, name, unit);
    put(&row.table, "%-*s%-*s%-*s", MARK_WIDTH, mark, NAME_WIDTH, question, LABEL_WIDTH,
        name);
    row.column = CELLS_AT;
    pthread_mutex_unlock(&row_lock);
}

/* row_lock is held by the callers of these three. */
static void table_cell(const char *cell, const char *text)
{
    size_t length = strlen(cell) + 1 + strlen(text);

    if (row.column + length > WIDTH && row.column > CELLS_AT) {
        row.table.used--; /* the blank after the last cell */
        put(&row.table, "\n%-*s", CELLS_AT, mark);
        row.column = CELLS_AT;
    }
    put(&row.table, "%s=%s ", cell, text);
    row.column += length + 1;
}

static void json_name(const char *cell)
{
    put(&row.json, "%s\"%s\":", row.first ? "" : ",", cell);
    row.first = false;
}

static void json_number(const char *cell, double value)
{
    json_name(cell);
    /* JSON has no infinity and no NaN: a division without samples shows as null. */
    if (isfinite(value))
        put(&row.json, "%.10g", value);
    else
        put(&row.json, "null");
}

void probe_cell_quiet_number(const char *cell, double value)
{
    pthread_mutex_lock(&row_lock);
    json_number(cell, value);
    pthread_mutex_unlock(&row_lock);
}

void probe_cell_number(const char *cell, double value)
{
    char text[48];

    pthread_mutex_lock(&row_lock);
    json_number(cell, value);
    number_text(text, sizeof(text), value);
    table_cell(cell, text);
    pthread_mutex_unlock(&row_lock);
}

void probe_cell_text(const char *cell, const char *format, ...)
{
    va_list arguments;
    char text[512];

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    make_plain(text);
    pthread_mutex_lock(&row_lock);
    json_name(cell);
    put(&row.json, "\"%s\"", text);
    table_cell(cell, text);
    pthread_mutex_unlock(&row_lock);
}

void probe_cell_quiet(const char *cell, const char *format, ...)
{
    va_list arguments;
    char text[1024];

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    make_plain(text);
    pthread_mutex_lock(&row_lock);
    json_name(cell);
    put(&row.json, "\"%s\"", text);
    pthread_mutex_unlock(&row_lock);
}

void probe_cell_table(const char *cell, const char *format, ...)
{
    va_list arguments;
    char text[512];

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    make_plain(text);
    pthread_mutex_lock(&row_lock);
    table_cell(cell, text);
    pthread_mutex_unlock(&row_lock);
}

void probe_row_hide(void)
{
    pthread_mutex_lock(&row_lock);
    row.hidden = true;
    pthread_mutex_unlock(&row_lock);
}

void probe_cell_code(const char *cell, CUresult code)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", (int)code);
    pthread_mutex_lock(&row_lock);
    json_name(cell);
    put(&row.json, "\"%s\"", probe_code_name(code));
    table_cell(cell, number);
    pthread_mutex_unlock(&row_lock);
}

void probe_row_note(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    pthread_mutex_lock(&row_lock);
    vsnprintf(row.note, sizeof(row.note), format, arguments);
    make_plain(row.note);
    pthread_mutex_unlock(&row_lock);
    va_end(arguments);
}

/* row_lock is held. */
static void write_row(void)
{
    put(&row.json, "},\"note\":\"%s\",\"simulated\":%s}\n", row.note, simulated_json);
    while (row.table.used > 0 && row.table.chars[row.table.used - 1] == ' ')
        row.table.used--;
    put(&row.table, "\n");
    put_out(&row.json);
    if (!row.hidden)
        put_out(&row.table);
    row.open = false;
}

void probe_row_end(void)
{
    pthread_mutex_lock(&row_lock);
    if (!closed)
        write_row();
    pthread_mutex_unlock(&row_lock);
}

/* row_lock is held. */
static void write_status(const char *name, const char *status, const char *why)
{
    struct text text = {0, ""};
    size_t begin; /* column of the reason */

    put(&text,
        "{\"part\":\"probe\",\"question\":\"%s\",\"row\":\"%s\",\"status\":\"%s\","
        "\"unit\":\"\",\"values\":{},\"note\":\"%s\",\"simulated\":%s}\n",
        question, name, status, why, simulated_json);
    put(&text, "%-*s%-*s", MARK_WIDTH, mark, NAME_WIDTH, question);
    if (strcmp(name, "-") != 0)
        put(&text, "%-*s", LABEL_WIDTH, name);
    begin = strlen(strrchr(text.chars, '\n') + 1) + strlen(status) + 2;
    put(&text, "%s: %.*s\n", status, begin < WIDTH ? (int)(WIDTH - begin) : 0, why);
    put_out(&text);
}

void probe_row_status(const char *name, const char *status, const char *format, ...)
{
    va_list arguments;
    char why[512];

    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    make_plain(why);
    pthread_mutex_lock(&row_lock);
    if (!closed)
        write_status(name, status, why);
    pthread_mutex_unlock(&row_lock);
}

void probe_row_last(const char *status, const char *format, ...)
{
    va_list arguments;
    char why[512];

    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    make_plain(why);
    pthread_mutex_lock(&row_lock);
    if (!closed) {
        if (row.open && !row.first) {
            snprintf(row.note, sizeof(row.note), "ended early: later cells are missing");
            write_row();
        }
        write_status("-", status, why);
    }
    closed = true;
    pthread_mutex_unlock(&row_lock);
}
