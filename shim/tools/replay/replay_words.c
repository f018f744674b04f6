/*
 * replay_words.c - the command line of gpushim replay and gpushim advise.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/replay/replay.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "gs_printable.h"
#include "shim/tools/replay/driver_model.h"
#include "shim/tools/replay/foreign.h"

/* Prints a line and ends the program. */
_Noreturn static void GS_PRINTF(1, 2) refuse(const char *format, ...)
{
    va_list words;

    va_start(words, format);
    gs_foreign_line(stderr, gs_replay_program, format, words);
    va_end(words);
    exit(GS_REPLAY_USAGE);
}

void gs_replay_refuse(const char *what, const char *why)
{
    refuse("%s: %s", what, why);
}

void gs_replay_refuse_value(const char *name, const char *value, const char *possible)
{
    refuse("%s=%s: not %s", name, value, possible);
}

/* ---- options ----------------------------------------------------------------------- */

_Noreturn static void refuse_option(const char *word,
                                    const struct gs_replay_options *options)
{
    size_t length = strcspn(word, "=");

    for (size_t i = 0; i < options->count; i++) {
        const char *name = options->rows[i].name;

        if (length > 2 && gs_options_is_near(word + 2, length - 2, name + 2)) {
            refuse("unknown option %.*s: did you mean %s? (see %s --help)", (int)length,
                   word, name, options->command);
        }
    }
    refuse("unknown option %.*s (see %s --help)", (int)length, word, options->command);
}

char gs_replay_next_option(char ***words, const struct gs_replay_options *options,
                           char **value)
{
    const struct gs_replay_option *rows = options->rows;
    char *word = **words;

    if (!word || word[0] != '-' || !word[1]) {
        return 0;
    }
    ++*words;
    if (!strcmp(word, "--")) {
        return 0;
    }
    if (!strcmp(word, "-h")) {
        return 'h';
    }
    for (size_t i = 0; i < options->count; i++) {
        size_t length = strlen(rows[i].name);

        if (strncmp(word, rows[i].name, length) != 0 ||
            (word[length] != '\0' && word[length] != '=')) {
            continue;
        }
        *value = word[length] ? word + length + 1 : NULL;
        if (!rows[i].has_value && *value) {
            gs_replay_refuse(rows[i].name, "takes no value");
        }
        if (rows[i].has_value && !*value) {
            *value = **words;
            if (!*value) {
                gs_replay_refuse(rows[i].name, "needs a value");
            }
            ++*words;
        }
        return rows[i].letter;
    }
    refuse_option(word, options);
}

unsigned gs_replay_words_of(char *const *words, const struct gs_replay_options *options)
{
    for (size_t i = 0; i < options->count; i++) {
        const struct gs_replay_option *row = &options->rows[i];
        size_t length = strlen(row->name);

        if (strncmp(words[0], row->name, length) == 0 &&
            (words[0][length] == '\0' || words[0][length] == '=')) {
            return row->has_value && !words[0][length] && words[1] ? 2 : 1;
        }
    }
    return 0;
}

/* ---- values ------------------------------------------------------------------------ */

/* Returns whether the text is a number. */
static bool read_number(const char *text, uint64_t *out)
{
    char *end;

    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0';
}

uint64_t gs_replay_read_count(const char *text, const char *name, uint64_t least)
{
    uint64_t value;
    char possible[48];

    if (!read_number(text, &value) || value < least || value > UINT32_MAX) {
        (void)snprintf(possible, sizeof(possible), "a number from %llu to %u",
                       (unsigned long long)least, UINT32_MAX);
        gs_replay_refuse_value(name, text, possible);
    }
    return value;
}

struct gs_replay_ready gs_replay_read_ready(const char *text)
{
    if (!strcmp(text, "at-once")) {
        return (struct gs_replay_ready){GS_READY_AT_ONCE, 0};
    }
    if (!strcmp(text, "sync")) {
        return (struct gs_replay_ready){GS_READY_SYNC, 0};
    }
    uint64_t after;

    if (strncmp(text, "after:", 6) != 0 || !read_number(text + 6, &after)) {
        gs_replay_refuse_value("--ready", text, "at-once, after:N or sync");
    }
    return (struct gs_replay_ready){GS_READY_AFTER, after};
}

_Noreturn static void refuse_kind(const char *word)
{
    char possible[256];
    size_t used = 0;

    for (unsigned kind = 1; kind < GS_TRACE_KINDS; kind++) {
        used += (size_t)snprintf(possible + used, sizeof(possible) - used, "%s, ",
                                 gs_replay_kind_name(kind));
    }
    (void)snprintf(possible + used, sizeof(possible) - used, "or all");
    gs_replay_refuse_value("--kinds", word, possible);
}

unsigned gs_replay_read_kinds(char *text)
{
    unsigned kinds = 0;
    char *rest = text;
    const char *word;

    while ((word = strsep(&rest, ",")) != NULL) {
        unsigned kind = gs_replay_kind_of(word);

        if (!strcmp(word, "all")) {
            kinds |= ~0u;
        } else if (kind == GS_TRACE_KIND_NONE) {
            refuse_kind(word);
        } else {
            kinds |= 1u << kind;
        }
    }
    return kinds;
}

_Noreturn static void refuse_size(const char *text)
{
    gs_replay_refuse_value("--device", text,
                           "a size such as 24G, or 1.25x for the peak times 1.25");
}

struct gs_replay_size gs_replay_read_size(const char *text)
{
    static const char units[] = "KMGT";
    struct gs_replay_size size = {.text = text};
    const char *unit;
    char *end;
    double value = strtod(text, &end);

    if (*text < '0' || *text > '9' || value <= 0) {
        refuse_size(text);
    }
    if (!strcmp(end, "x")) {
        size.factor = value;
        return size;
    }
    unit = *end ? strchr(units, *end) : NULL;
    if (*end && (!unit || end[1] != '\0')) {
        refuse_size(text);
    }
    for (; unit && unit >= units; unit--) {
        value *= 1024;
    }
    if (value >= (double)GS_REPLAY_AMPLE || value < 1) {
        refuse_size(text);
    }
    size.bytes = (uint64_t)value;
    return size;
}

uint64_t gs_replay_size_bytes(const struct gs_replay_size *size,
                              const struct gs_replay_peaks *peaks)
{
    double bytes =
        size->bytes ? (double)size->bytes : size->factor * (double)peaks->live_bytes;

    if (bytes >= (double)GS_REPLAY_AMPLE) {
        return GS_REPLAY_AMPLE;
    }
    return (uint64_t)bytes / GS_MODEL_PAGE * GS_MODEL_PAGE;
}

/* ---- files ------------------------------------------------------------------------- */

int gs_replay_open(const char *path, gs_replay_reader *read, struct gs_replay_trace *out)
{
    struct gs_replay_note note;
    bool good = read(path, out, &note);

    if (note.text[0] != '\0') {
        gs_replay_warn("%s: %s", path, note.text);
    } else if (out->count == 0) {
        gs_replay_warn("%s: no operation in it", path);
    }
    return good && note.text[0] == '\0' ? 0 : GS_REPLAY_BAD;
}

static uint32_t count_kind(const struct gs_replay_trace *trace, unsigned kind)
{
    uint32_t count = 0;

    for (size_t i = 0; i < trace->count; i++) {
        count += trace->ops[i].op == GS_TRACE_ALLOC && trace->ops[i].kind == kind;
    }
    return count;
}

bool gs_replay_choose_kinds(struct gs_replay_trace *trace, unsigned kinds,
                            const char *path)
{
    char others[128] = "none";
    size_t used = 0;

    for (unsigned kind = 1; kind < GS_TRACE_KINDS; kind++) {
        uint32_t count = count_kind(trace, kind);

        if (count && kinds >> kind & 1) {
            gs_replay_keep_kinds(trace, kinds);
            return true;
        }
        if (count) {
            used += (size_t)snprintf(others + used, sizeof(others) - used, "%s%u %s",
                                     used ? ", " : "", count, gs_replay_kind_name(kind));
        }
    }
    gs_replay_warn("%s: no allocation of this kind of memory; the trace has %s", path,
                   others);
    return false;
}

void gs_replay_put_text(const char *text)
{
    putchar('"');
    while (*text) {
        size_t length = gs_utf8_length(text);

        if (*text == '"' || *text == '\\') {
            printf("\\%c", *text);
        } else if (length == 0) {
            fputs("\\ufffd", stdout); /* JSON is UTF-8 */
        } else if (gs_is_control(text, length)) {
            printf("\\u%04x", gs_utf8_value(text, length));
        } else {
            (void)fwrite(text, 1, length, stdout);
        }
        text += length ? length : 1;
    }
    putchar('"');
}
