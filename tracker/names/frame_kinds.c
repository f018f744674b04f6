/*
 * frame_kinds.c - looks a frame up in the table of the code that is not the program's.
 * Owns: nothing.   Lock: none.
 */
#include "frame_kinds.h"

#include <string.h>

enum by { BY_MODULE, BY_FUNCTION, BY_SOURCE, BY_NAMESPACE };

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
    return text[0] == prefix[0] && strncmp(text, prefix, strlen(prefix)) == 0;
}

enum gs_frame_kind gs_frame_kind_of_module(const char *base_name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (rows[i].by == BY_MODULE && starts_with(base_name, rows[i].pattern))
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

static bool fits(size_t row, const struct gs_symbol *symbol, const char *module,
                 const char *namespace)
{
    const char *pattern = rows[row].pattern;

    switch (rows[row].by) {
    case BY_MODULE:
        return starts_with(module, pattern);
    case BY_FUNCTION:
        return (symbol->linkage && strcmp(symbol->linkage, pattern) == 0) ||
               (symbol->function && strcmp(symbol->function, pattern) == 0);
    case BY_SOURCE:
        return symbol->file && strstr(symbol->file, pattern);
    default:
        return !symbol->file && starts_with(namespace, pattern);
    }
}

enum gs_frame_kind gs_frame_kind(const struct gs_symbol_request *frame,
                                 const char *module)
{
    const struct gs_symbol *symbol = &frame->result;
    const char *namespace = first_name(symbol->linkage ? symbol->linkage : "");

    if (gs_frame_is_python(frame->frame))
        return GS_FRAME_PROGRAM;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (fits(i, symbol, module, namespace))
            return (enum gs_frame_kind)rows[i].kind;
    }
    return GS_FRAME_PROGRAM;
}
