/*
 * variables.c - the variables of PTX: what stands behind .global or .const, outside of
 * functions. `.visible .global .align 4 .b8 name[16] = {...};` has 16 bytes; of several
 * dimensions the product counts, and a declaration with .extern is another module's.
 * Owns:  nothing.   Lock: none, images are immutable once loaded.
 * Source: PTX ISA, "Variable Declarations", "Array Declarations".
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

bool sim_image_add_variable(struct sim_image *image, const char *name, size_t length,
                            size_t bytes)
{
    struct sim_variable *grown =
        realloc(image->variables, (image->variable_count + 1) * sizeof(*grown));

    if (!grown)
        return false;
    image->variables = grown;
    grown[image->variable_count].name = strndup(name, length);
    grown[image->variable_count].bytes = bytes;
    if (!grown[image->variable_count].name)
        return false;
    image->variable_count++;
    return true;
}

/* The bytes of a type such as u32, b8, f64; 0: no type of variables. */
static size_t type_bytes(const char *word, size_t length)
{
    static const struct {
        const char *name;
        size_t bytes;
    } types[] = {{"b8", 1},        {"u8", 1},    {"s8", 1},     {"b16", 2},
                 {"u16", 2},       {"s16", 2},   {"f16", 2},    {"bf16", 2},
                 {"b32", 4},       {"u32", 4},   {"s32", 4},    {"f32", 4},
                 {"f16x2", 4},     {"b64", 8},   {"u64", 8},    {"s64", 8},
                 {"f64", 8},       {"b128", 16}, {"texref", 8}, {"surfref", 8},
                 {"samplerref", 8}};

    for (size_t i = 0; i < GS_ARRAY_LEN(types); i++) {
        if (strlen(types[i].name) == length && strncmp(word, types[i].name, length) == 0)
            return types[i].bytes;
    }
    return 0;
}

static const char *skip_blanks(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

static size_t name_length(const char *text)
{
    size_t length = 0;

    while (isalnum((unsigned char)text[length]) || strchr("_$%", text[length])) {
        if (!text[length])
            break;
        length++;
    }
    return length;
}

/* [4][16] behind a name: 64; without brackets 1. */
static size_t elements(const char *text)
{
    size_t count = 1;

    for (text = skip_blanks(text); *text == '['; text = skip_blanks(text)) {
        char *end;
        size_t one = strtoull(text + 1, &end, 0);
        count *= one ? one : 1;
        end = strchr(end, ']');
        if (!end)
            break;
        text = end + 1;
    }
    return count;
}

/* What follows .global or .const: attributes, a type, a name. */
static bool read_variable(struct sim_image *image, const char *text)
{
    size_t bytes = 0, vector = 1;

    for (text = skip_blanks(text); *text == '.'; text = skip_blanks(text)) {
        size_t length = name_length(++text);
        size_t type = type_bytes(text, length);
        if (length == 2 && text[0] == 'v')
            vector = (size_t)(text[1] - '0');
        bytes = type ? type : bytes;
        bool sized = length == 5 && strncmp(text, "align", 5) == 0;
        text = skip_blanks(text + length);
        if (sized)
            while (isdigit((unsigned char)*text))
                text++;
        else if (*text == '(') /* .attribute(.managed) */
            text += strcspn(text, ")") + 1;
    }
    size_t length = name_length(text);
    if (bytes == 0 || length == 0)
        return true;
    return sim_image_add_variable(image, text, length,
                                  bytes * vector * elements(text + length));
}

bool sim_image_read_variables(struct sim_image *image, const char *text)
{
    int depth = 0;
    bool external = false;

    for (; *text; text++) {
        if (text[0] == '/' && text[1] == '/') {
            text += strcspn(text, "\n");
        } else if (text[0] == '/' && text[1] == '*') {
            const char *end = strstr(text + 2, "*/");
            text = end ? end + 1 : text + strlen(text) - 1;
        } else if (*text == '"') {
            const char *end = strchr(text + 1, '"');
            text = end ? end : text + strlen(text) - 1;
        } else if (*text == '{' || *text == '}') {
            depth += *text == '{' ? 1 : -1;
        } else if (*text == ';') {
            external = false;
        } else if (*text == '.' && depth == 0) {
            size_t length = name_length(text + 1);
            bool variable = (length == 6 && strncmp(text + 1, "global", 6) == 0) ||
                            (length == 5 && strncmp(text + 1, "const", 5) == 0);
            external = external || (length == 6 && strncmp(text + 1, "extern", 6) == 0);
            if (variable && !external && !read_variable(image, text + 1 + length))
                return false;
        }
        if (!*text)
            break;
    }
    return true;
}
