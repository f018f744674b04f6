/*
 * frame_kinds.c - looks a frame up in the table of the code that is not the program's.
 * Owns: nothing.   Lock: none.
 */
#include "frame_kinds.h"

#include "rust_name.h"

#include <string.h>

enum by {
    BY_MODULE,
    BY_PACKAGE,
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
    unsigned char kind, by;
    char pattern[30];
} rows[] = {
#define GS_FRAME(kind, by, pattern) {GS_FRAME_##kind, BY_##by, pattern},
#include "frame_kinds.def"
};

static bool starts_with(const char *text, const char *prefix)
{
    return (text[0] == prefix[0] || prefix[0] == '\0') &&
           strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Returns what follows site-packages/ in a path; NULL: it is in no such folder. */
static const char *in_packages(const char *path)
{
    static const char folder[] = "-packages/";
    const char *found = NULL;

    while ((path = strstr(path, folder)) != NULL)
        found = path += sizeof folder - 1;
    return found;
}

enum gs_frame_kind gs_frame_kind_of_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base_name = slash ? slash + 1 : path;
    const char *package = slash ? in_packages(path) : NULL;

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if ((rows[i].by == BY_MODULE && starts_with(base_name, rows[i].pattern)) ||
            (rows[i].by == BY_PACKAGE && package &&
             starts_with(package, rows[i].pattern)) ||
            (rows[i].by == BY_UNDER && starts_with(path, rows[i].pattern)))
            return (enum gs_frame_kind)rows[i].kind;
    }
    return GS_FRAME_PROGRAM;
}

/* Returns the first name within a mangled one: "6thrust..." of _ZNK6thrust...; "" if the
 * name is not a mangled one. */
static const char *first_name(const char *linkage)
{
    if (!starts_with(linkage, "_Z"))
        return "";
    linkage += 2;
    linkage += strspn(linkage, "Z"); /* local to a function */
    if (*linkage == 'N')
        linkage += 1 + strspn(linkage + 1, "rVKRO");
    return linkage;
}

/* What the rows are compared with. */
struct known {
    const struct gs_symbol *symbol;
    const char *module, *path, *package, *namespace;
    bool rust; /* a function of Rust's, without a source file */
};

static bool fits(size_t row, const struct known *known)
{
    const struct gs_symbol *symbol = known->symbol;
    const char *pattern = rows[row].pattern;

    switch (rows[row].by) {
    case BY_MODULE:
        return starts_with(known->module, pattern);
    case BY_PACKAGE:
        return known->package && starts_with(known->package, pattern);
    case BY_UNDER:
        return starts_with(known->path, pattern);
    case BY_FUNCTION:
        return (symbol->linkage && strcmp(symbol->linkage, pattern) == 0) ||
               (symbol->function && strcmp(symbol->function, pattern) == 0);
    case BY_BEGINS:
        return symbol->linkage && starts_with(symbol->linkage, pattern);
    case BY_CONTAINS:
        return symbol->linkage && strstr(symbol->linkage, pattern);
    case BY_RUST:
        return known->rust && starts_with(symbol->function, pattern);
    case BY_SOURCE:
        return symbol->file && strstr(symbol->file, pattern);
    default:
        return !symbol->file && starts_with(known->namespace, pattern);
    }
}

enum gs_frame_kind gs_frame_kind(const struct gs_symbol_request *frame,
                                 const char *module)
{
    const struct gs_symbol *symbol = &frame->result;
    const char *path = frame->module && frame->module->path ? frame->module->path : "";
    struct known known = {.symbol = symbol,
                          .module = module,
                          .path = path,
                          .package = in_packages(path),
                          .namespace = symbol->linkage ? first_name(symbol->linkage) : "",
                          .rust = symbol->linkage && symbol->function && !symbol->file &&
                                  gs_rust_is_name(symbol->linkage)};

    if (gs_frame_is_python(frame->frame))
        return gs_frame_kind_of_file(symbol->file ? symbol->file : "");
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (fits(i, &known))
            return (enum gs_frame_kind)rows[i].kind;
    }
    return GS_FRAME_PROGRAM;
}
