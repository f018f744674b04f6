/*
 * merge.c - see merge.h.
 * Owns: the lines of struct gs_merge.   Lock: none.
 * Source: OpenMetrics 1.0; Prometheus' text format 0.0.4
 */
#include "shim/tools/server/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_compare.h"
#include "gs_grow.h"

#define MOST_LABELS 24u

static const char name_first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
static const char name_rest[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
static const char digits[] = "0123456789";

/* A label as it is written: name="value". */
struct label {
    const char *at;
    size_t length, name_length;
};

/* The process that is added. */
struct adding {
    struct gs_merge *merge;
    const struct gs_merge_labels *labels;
    struct gs_text own; /* its labels, as they are written */
    uint64_t *hashes;   /* of its samples without their values */
    size_t count, room;
};

/* ---- the syntax of a sample -------------------------------------------------------- */

/* Moves after the value of a label, whose '"' is next. Returns NULL if it is none. */
static const char *skip_value(const char *at)
{
    for (at++; *at != '"'; at++) {
        size_t length = gs_utf8_length(at);
        if (length == 0 || gs_is_control(at, length)) {
            return NULL; /* also at the end of the line */
        }
        if (*at == '\\' && (at[1] == '\0' || !strchr("\\\"n", *++at))) {
            return NULL;
        }
        at += length - 1;
    }
    return at + 1;
}

/* Reads the labels, whose '{' is next. Returns the text after their '}'; NULL: none. */
static const char *read_labels(const char *at, struct label labels[MOST_LABELS],
                               size_t *count)
{
    *count = 0;
    if (at[0] == '{' && at[1] == '}') {
        return at + 2;
    }
    for (; *count < MOST_LABELS && (*at == '{' || *at == ','); ++*count) {
        struct label *label = &labels[*count];
        label->at = ++at;
        label->name_length = strspn(at, name_first) > 0 ? strspn(at, name_rest) : 0;
        at += label->name_length;
        if (label->name_length == 0 || at[0] != '=' || at[1] != '"' ||
            !(at = skip_value(at + 1))) {
            return NULL;
        }
        label->length = (size_t)(at - label->at);
        for (size_t i = 0; i < *count; i++) {
            if (labels[i].name_length == label->name_length &&
                memcmp(labels[i].at, label->at, label->name_length) == 0) {
                return NULL;
            }
        }
    }
    return *at == '}' ? at + 1 : NULL;
}

/* Moves after " VALUE\n", a number that is not negative. NULL: it is none. */
static const char *skip_number(const char *at)
{
    size_t whole = *at == ' ' ? strspn(at + 1, digits) : 0;
    size_t part = whole && at[whole + 1] == '.' ? strspn(at + whole + 2, digits) : 0;
    const char *end = whole ? at + 1 + whole + (part ? part + 1 : 0) : NULL;
    return end && end - at < 48 && *end == '\n' ? end + 1 : NULL;
}

/* The family that a sample of this name belongs to; GS_METRICS: none. */
static size_t family_of(const char *name, size_t length)
{
    size_t i = 0;
    for (; i < GS_METRICS; i++) {
        const struct gs_metric_family *family = &gs_metric_families[i];
        size_t plain = strlen(family->name);
        if (length == plain + (family->counter ? strlen("_total") : 0) &&
            memcmp(name, family->name, plain) == 0 &&
            (!family->counter || memcmp(name + plain, "_total", strlen("_total")) == 0)) {
            break;
        }
    }
    return i;
}

/* ---- the labels of a process ------------------------------------------------------- */

/* Returns false if there is no memory. */
static bool put_own(struct adding *adding)
{
    const struct gs_merge_labels *labels = adding->labels;
    const struct gs_export_sink sink = gs_export_text_sink(&adding->own);
    const char *const rows[][2] = {{"program", labels->program},
                                   {"namespace", labels->namespace},
                                   {"pod", labels->pod},
                                   {"container", labels->container}};
    struct gs_export_out out;
    char number[24];
    (void)snprintf(number, sizeof(number), "%ld", labels->pid);
    gs_out_begin(&out, &sink);
    gs_metric_label(&out, '{', "pid", number);
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (rows[i][1] && rows[i][1][0]) {
            gs_metric_label(&out, ',', rows[i][0], rows[i][1]);
        }
    }
    return gs_out_end(&out) == GS_OK;
}

/* Returns whether the server writes this label itself. */
static bool is_own(const struct label *label)
{
    static const char own[][12] = {"pid", "program", "namespace", "pod", "container"};
    for (size_t i = 0; i < GS_ARRAY_LEN(own); i++) {
        if (label->name_length == strlen(own[i]) &&
            memcmp(label->at, own[i], label->name_length) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- samples ----------------------------------------------------------------------- */

/* Two equal hashes of a process are taken for the same sample twice. */
static bool note_hash(struct adding *adding, uint64_t hash)
{
    if (!gs_grow(&adding->hashes, adding->count, &adding->room,
                 sizeof(*adding->hashes))) {
        return false;
    }
    adding->hashes[adding->count++] = hash;
    return true;
}

/* Adds a sample whose name, with a family's, has `length` bytes. Returns the next line;
 * NULL: it is malformed. */
static const char *add_sample(struct adding *adding, const char *line, size_t length)
{
    struct label labels[MOST_LABELS];
    size_t count, family = family_of(line, length);
    const char *number =
        line[length] == '{' ? read_labels(line + length, labels, &count) : NULL;
    const char *end = number ? skip_number(number) : NULL;
    if (!end || family == GS_METRICS) {
        return end; /* a later version's family is left out */
    }
    struct gs_text *to = &adding->merge->samples[family];
    size_t before = to->length;
    gs_text_add_bytes(to, line, length);
    gs_text_add_bytes(to, adding->own.data, adding->own.length);
    for (size_t i = 0; i < count; i++) {
        if (!is_own(&labels[i])) {
            gs_text_add_bytes(to, ",", 1);
            gs_text_add_bytes(to, labels[i].at, labels[i].length);
        }
    }
    if (to->truncated ||
        !note_hash(adding, gs_fnv1a(to->data + before, to->length - before))) {
        return NULL;
    }
    gs_text_add_bytes(to, "}", 1);
    gs_text_add_bytes(to, number, (size_t)(end - number));
    return end;
}

static int compare_hashes(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return GS_RISING(a, b);
}

/* Returns whether a sample comes twice: in OpenMetrics no reader has to take that. */
static bool has_twice(struct adding *adding)
{
    if (adding->count == 0) {
        return false;
    }
    qsort(adding->hashes, adding->count, sizeof(*adding->hashes), compare_hashes);
    for (size_t i = 1; i < adding->count; i++) {
        if (adding->hashes[i] == adding->hashes[i - 1]) {
            return true;
        }
    }
    return false;
}

bool gs_merge_add(struct gs_merge *merge, const char *text, size_t length,
                  const struct gs_merge_labels *labels)
{
    struct adding adding = {.merge = merge, .labels = labels};
    size_t before[GS_METRICS];
    const char *line = text, *end = text + length;
    for (size_t i = 0; i < GS_METRICS; i++) {
        before[i] = merge->samples[i].length;
    }
    bool good = put_own(&adding);
    while (good && line && line < end) {
        size_t name = strncmp(line, "gpushim_", strlen("gpushim_")) == 0
                          ? strspn(line, name_rest)
                          : 0;
        const char *feed = strchr(line, '\n');
        line = *line == '#' ? (feed ? feed + 1 : NULL)
               : name > 0   ? add_sample(&adding, line, name)
                            : NULL;
    }
    good = good && line == end && !has_twice(&adding);
    for (size_t i = 0; i < GS_METRICS && !good; i++) {
        merge->samples[i].length = before[i];
    }
    gs_text_free(&adding.own);
    free(adding.hashes);
    return good;
}

/* ---- the page ---------------------------------------------------------------------- */

void gs_merge_write(const struct gs_merge *merge, bool plain, struct gs_export_out *out)
{
    for (size_t i = 0; i < GS_METRICS; i++) {
        if (merge->samples[i].length > 0) {
            gs_metric_head(out, &gs_metric_families[i], plain);
            gs_out_bytes(out, merge->samples[i].data, merge->samples[i].length);
        }
    }
}

bool gs_merge_failed(const struct gs_merge *merge)
{
    for (size_t i = 0; i < GS_METRICS; i++) {
        if (merge->samples[i].truncated) {
            return true;
        }
    }
    return false;
}

void gs_merge_free(struct gs_merge *merge)
{
    for (size_t i = 0; i < GS_METRICS; i++) {
        gs_text_free(&merge->samples[i]);
    }
}
