/*
 * frame_kinds.c - looks a frame up in the table of the code that is not the program's.
 * Owns: nothing.   Lock: none.
 */
#include "tracker/names/frame_kinds.h"

#include "gs_string.h"
#include "tracker/names/rust_name.h"

#include <string.h>

enum by {
    BY_MODULE,
    BY_PACKAGE,
    BY_PYTHON,
    BY_UNDER,
    BY_FUNCTION,
    BY_BEGINS,
    BY_CONTAINS,
    BY_SOURCE,
    BY_RUST,
    BY_NAMESPACE
};

/* The texts are in their rows: no program pays for relocating them at its start. */
static const struct {
    unsigned char kind, family, by;
    char pattern[30];
} rows[] = {
#define GS_FRAME(kind, family, by, pattern)                                              \
    {GS_FRAME_##kind, GS_FAMILY_##family, BY_##by, pattern},
#include "tracker/names/frame_kinds.def"
};

const char *gs_frame_family_name(unsigned family)
{
    static const char names[][20] = {
#define GS_FAMILY(id, name) name,
#include "tracker/names/frame_kinds.def"
    };

    return names[family < GS_FAMILIES ? family : 0];
}

const char *gs_frame_package(const char *path)
{
    static const char folder[] = "-packages/";
    const char *found = NULL;

    while ((path = strstr(path, folder)) != NULL) {
        found = path += sizeof(folder) - 1;
    }
    return found;
}

/* Returns what follows lib/python3.N/ in a path, and "" for code that Python has built
 * in; NULL: the file is not of Python's library. */
static const char *in_python(const char *path)
{
    static const char folder[] = "/python3.";
    const char *found = strstr(path, folder), *end;

    if (gs_starts_with(path, "<frozen ")) {
        return "";
    }
    if (!found || gs_frame_package(path)) {
        return NULL;
    }
    end = found + sizeof(folder) - 1;
    end += strspn(end, "0123456789");
    if (*end != '/' || !((found - path >= 4 && memcmp(found - 4, "/lib", 4) == 0) ||
                         (found - path >= 6 && memcmp(found - 6, "/lib64", 6) == 0))) {
        return NULL;
    }
    return end + 1;
}

/* What the rows are compared with. */
struct known {
    const struct gs_symbol *symbol; /* NULL: the file alone is known */
    const char *module, *path, *package, *python, *namespace;
    bool rust; /* a function of Rust's, without a source file */
};

static struct known known_file(const char *path)
{
    const char *slash = strrchr(path, '/');

    return (struct known){.module = slash ? slash + 1 : path,
                          .path = path,
                          .package = slash ? gs_frame_package(path) : NULL,
                          .python = in_python(path),
                          .namespace = ""};
}

/* Returns the first name within a mangled one: "6thrust..." of _ZNK6thrust...; "" if the
 * name is not a mangled one. */
static const char *first_name(const char *linkage)
{
    if (!gs_starts_with(linkage, "_Z")) {
        return "";
    }
    linkage += 2;
    linkage += strspn(linkage, "Z"); /* local to a function */
    if (*linkage == 'N') {
        linkage += 1 + strspn(linkage + 1, "rVKRO");
    }
    return linkage;
}

/* What of a frame the rows of a kind are compared with, from its begin; NULL: the frame
 * has no such thing, and no row of that kind fits. */
static const char *text_of(const struct known *known, enum by by)
{
    static const struct gs_symbol none;
    const struct gs_symbol *symbol = known->symbol ? known->symbol : &none;

    switch (by) {
    case BY_MODULE:
        return known->module;
    case BY_PACKAGE:
        return known->package;
    case BY_PYTHON:
        return known->python;
    case BY_UNDER:
        return known->path;
    case BY_RUST:
        return known->rust ? symbol->function : NULL;
    case BY_SOURCE:
        return known->symbol ? symbol->file : known->path;
    case BY_NAMESPACE:
        return symbol->file || !known->namespace[0] ? NULL : known->namespace;
    case BY_FUNCTION:
        return symbol->linkage ? symbol->linkage : symbol->function;
    default:
        return symbol->linkage;
    }
}

static bool fits(size_t row, const char *text, const struct known *known)
{
    const char *pattern = rows[row].pattern;

    switch (rows[row].by) {
    case BY_FUNCTION:
        return strcmp(text, pattern) == 0 ||
               (known->symbol->function && strcmp(known->symbol->function, pattern) == 0);
    case BY_CONTAINS:
    case BY_SOURCE:
        return strstr(text, pattern) != NULL;
    default:
        return gs_starts_with(text, pattern);
    }
}

static struct gs_frame_class find(const struct known *known, bool python)
{
    struct gs_frame_class class = {.known = true,
                                   .python = python,
                                   .generated = python && known->path[0] == '<',
                                   .kind = GS_FRAME_PROGRAM,
                                   .family = GS_FAMILIES};
    const char *texts[BY_NAMESPACE + 1];

    for (unsigned by = 0; by < GS_ARRAY_LEN(texts); by++) {
        texts[by] = text_of(known, (enum by)by);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        const char *text = texts[rows[i].by];
        if (text && fits(i, text, known)) {
            class.kind = rows[i].kind;
            class.family = rows[i].family;
            break;
        }
    }
    return class;
}

struct gs_frame_class gs_frame_class_of_file(const char *path)
{
    struct known known = known_file(path);

    return find(&known, false);
}

enum gs_frame_kind gs_frame_kind_of_file(const char *path)
{
    return (enum gs_frame_kind)gs_frame_class_of_file(path).kind;
}

struct gs_frame_class gs_frame_class(const struct gs_symbol_request *frame,
                                     const char *module)
{
    const struct gs_symbol *symbol = &frame->result;
    bool python = gs_frame_is_python(frame->frame);
    struct known known;

    if (frame->class.known) {
        return frame->class;
    }
    if (python) {
        known = known_file(symbol->file ? symbol->file : "");
        return find(&known, true);
    }
    known = known_file(frame->module && frame->module->path ? frame->module->path : "");
    known.module = module;
    known.symbol = symbol;
    known.namespace = symbol->linkage ? first_name(symbol->linkage) : "";
    known.rust = symbol->linkage && symbol->function && !symbol->file &&
                 gs_rust_is_name(symbol->linkage);
    return find(&known, false);
}

enum gs_frame_kind gs_frame_kind(const struct gs_symbol_request *frame,
                                 const char *module)
{
    return (enum gs_frame_kind)gs_frame_class(frame, module).kind;
}

struct gs_frame_class gs_frame_class_of_family(const char *name)
{
    struct gs_frame_class class = {.kind = GS_FRAME_FRAMEWORK, .known = name != NULL};

    while (name && class.family < GS_FAMILIES &&
           strcmp(gs_frame_family_name(class.family), name) != 0) {
        class.family++;
    }
    return class;
}

/* ---- the program's own frame ------------------------------------------------------ */

bool gs_frame_is_carrier(struct gs_frame_class class)
{
    return class.kind == GS_FRAME_RUNTIME || class.kind == GS_FRAME_BRIDGE ||
           class.kind == GS_FRAME_FRAMEWORK || class.kind == GS_FRAME_LIBRARY;
}

/* The frame that stands for a framework which is the program: see gs_frame_own. The
 * frame before `end` is one of its frames. */
static unsigned own_of_framework(gs_frame_class_at *class_at, void *self, unsigned end)
{
    unsigned family = class_at(self, end - 1).family, begin = end - 1;

    for (unsigned i = 0; i < end; i++) {
        struct gs_frame_class class = class_at(self, i);
        if (class.python && class.family == family && class.kind == GS_FRAME_FRAMEWORK) {
            return i;
        }
    }
    while (begin > 0 && class_at(self, begin - 1).family == family) {
        begin--;
    }
    return begin;
}

unsigned gs_frame_own(gs_frame_class_at *class_at, void *self, unsigned count)
{
    unsigned end = count;

    for (unsigned i = 0; i < count; i++) {
        struct gs_frame_class class = class_at(self, i);
        if (class.generated && i + 1 < count &&
            class_at(self, i + 1).kind == GS_FRAME_FRAMEWORK) {
            continue; /* the framework compiled it */
        }
        if (!gs_frame_is_carrier(class) && class.kind != GS_FRAME_START) {
            return i;
        }
    }
    while (end > 0 && class_at(self, end - 1).kind != GS_FRAME_FRAMEWORK) {
        end--;
    }
    return end > 0 ? own_of_framework(class_at, self, end) : 0;
}
