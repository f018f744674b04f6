/*
 * short_name.c - C++ names as a reader would write them, and cut where they are long.
 *
 * A demangled name is read in pieces: an operator's name is one piece, because its <, >
 * and ( are no brackets. Brackets of four kinds nest; a > that closes none is text.
 *
 * Owns: nothing.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/names/short_name.h"

#include <stdint.h>
#include <string.h>

#include "gs_string.h"

/* Brackets nested deeper, and commas beyond, are not looked at. */
#define NEST_MAX   48u
#define COMMAS_MAX 4u

#define ELLIPSIS       "..."
#define ELLIPSIS_BYTES (sizeof(ELLIPSIS) - 1)

/* The brackets that close the open ones. */
struct nest {
    char close[NEST_MAX];
    unsigned depth;
};

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_';
}

/* Returns the length of "operator" and its symbol, 0: no such word. A space after it
 * belongs to it: "operator new", "operator< <int>". */
static size_t operator_length(const char *name, const char *at)
{
    static const char word[] = "operator";
    static const char symbols[][4] = {
        "()", "[]", "->*", "->", "<=>", "<<=", ">>=", "<<", ">>", "<=",
        ">=", "==", "!=",  "&&", "||",  "++",  "--",  "+=", "-=", "*=",
        "/=", "%=", "^=",  "&=", "|=",  "<",   ">",   "=",  "!",  "+",
        "-",  "*",  "/",   "%",  "^",   "&",   "|",   "~",  ",",  "\"\""};
    size_t length = sizeof(word) - 1;

    if (!gs_starts_with(at, word) || (at > name && is_word(at[-1])) ||
        is_word(at[length])) {
        return 0;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(symbols); i++) {
        if (gs_starts_with(at + length, symbols[i])) {
            length += strlen(symbols[i]);
            break;
        }
    }
    return length + (at[length] == ' ');
}

/* Returns the length of the piece at `at`; only pieces of one byte are brackets. */
static size_t piece_length(const char *name, const char *at)
{
    static const char nameless[] = "(anonymous namespace)";
    size_t length = operator_length(name, at);

    if (length != 0) {
        return length;
    }
    if (gs_starts_with(at, nameless)) {
        return sizeof(nameless) - 1;
    }
    return gs_starts_with(at, "->") ? 2 : 1;
}

/* Returns the bracket that closes `c`; 0: none opens. */
static char closing_bracket(char c)
{
    const char *found = c != '\0' ? strchr("<>()[]{}", c) : NULL;

    return found && strchr("<([{", c) ? found[1] : '\0';
}

/* Follows a piece. False: nested too deeply. */
static bool nest_step(struct nest *nest, const char *at, size_t length)
{
    char close = length == 1 ? closing_bracket(*at) : '\0';

    if (close != '\0') {
        if (nest->depth == NEST_MAX) {
            return false;
        }
        nest->close[nest->depth++] = close;
    } else if (length == 1 && nest->depth > 0 && *at == nest->close[nest->depth - 1]) {
        nest->depth--;
    }
    return true;
}

/* ---- tidy ------------------------------------------------------------------------- */

/* The contents of an open bracket; positions in the text that was written. */
struct level {
    uint32_t begin;              /* after the bracket */
    uint32_t commas[COMMAS_MAX]; /* between its parts */
    uint16_t comma_count;
};

/* Returns whether the text that ends before `end` is one of the names, not the end of a
 * longer one. */
static bool ends_with_container(const char *text, size_t end)
{
    static const char names[][24] = {"std::vector",        "std::deque",
                                     "std::list",          "std::forward_list",
                                     "std::map",           "std::multimap",
                                     "std::set",           "std::multiset",
                                     "std::unordered_map", "std::unordered_multimap",
                                     "std::unordered_set", "std::unordered_multiset",
                                     "std::unique_ptr",    "std::basic_string",
                                     "std::basic_ostream", "std::basic_string_view"};

    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        size_t length = strnlen(names[i], sizeof(names[i]));
        if (end >= length && memcmp(text + end - length, names[i], length) == 0 &&
            (end == length ||
             (!is_word(text[end - length - 1]) && text[end - length - 1] != ':'))) {
            return true;
        }
    }
    return false;
}

static bool is_default(const char *argument)
{
    static const char names[][24] = {"std::allocator<", "std::char_traits<",
                                     "std::less<",      "std::hash<",
                                     "std::equal_to<",  "std::default_delete<"};

    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (gs_starts_with(argument, names[i])) {
            return true;
        }
    }
    return false;
}

/* Drops the default arguments at the end of a container's. Returns the new end. */
static size_t drop_defaults(char *text, const struct level *level, size_t end)
{
    unsigned count = level->comma_count;

    text[end] = '\0';
    if (count > COMMAS_MAX || !ends_with_container(text, level->begin - 1)) {
        return end;
    }
    while (count > 0 && is_default(text + level->commas[count - 1] + 2)) {
        end = level->commas[--count];
    }
    return end;
}

/* Replaces "std::basic_string<char" at the end of the text, and likes of it. Returns the
 * new end, or 0: nothing is replaced. */
static size_t use_alias(char *text, size_t end)
{
    static const struct {
        char name[32], alias[20];
    } aliases[] = {{"std::basic_string<char", "std::string"},
                   {"std::basic_string<wchar_t", "std::wstring"},
                   {"std::basic_string_view<char", "std::string_view"},
                   {"std::basic_ostream<char", "std::ostream"}};

    for (size_t i = 0; i < GS_ARRAY_LEN(aliases); i++) {
        size_t length = strlen(aliases[i].name), begin = end - length;
        if (end < length || memcmp(text + begin, aliases[i].name, length) != 0 ||
            (begin > 0 && is_word(text[begin - 1]))) {
            continue;
        }
        length = strlen(aliases[i].alias);
        memcpy(text + begin, aliases[i].alias, length + 1);
        return begin + length;
    }
    return 0;
}

/* Returns the length of the name of the library's version after "std::". */
static size_t version_length(const char *text, size_t used, const char *at)
{
    static const char versions[][12] = {"__cxx11::", "__1::", "__ndk1::"};

    if (used < 5 || memcmp(text + used - 5, "std::", 5) != 0) {
        return 0;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(versions); i++) {
        if (gs_starts_with(at, versions[i])) {
            return strlen(versions[i]);
        }
    }
    return 0;
}

/* Writes what closes template arguments. Returns the new end. */
static size_t close_arguments(char *text, const struct level *level, size_t used)
{
    size_t alias, end = used;

    if (used > level->begin && text[used - 1] == ' ') {
        used--;
    }
    used = drop_defaults(text, level, used);
    alias = use_alias(text, used);
    if (alias != 0) {
        return alias;
    }
    if (text[used - 1] == '>' && used < end) { /* there was a space, or more */
        text[used++] = ' ';
    }
    text[used++] = '>';
    return used;
}

void gs_name_tidy(char *name)
{
    struct level levels[NEST_MAX];
    struct nest nest = {.depth = 0};
    size_t used = 0, length;

    for (const char *at = name; *at != '\0'; at += length) {
        unsigned before = nest.depth;
        struct level *level = before > 0 ? &levels[before - 1] : NULL;

        length = version_length(name, used, at);
        if (length != 0) {
            continue;
        }
        length = piece_length(name, at);
        if (level && *at == ',' && length == 1 && level->comma_count <= COMMAS_MAX) {
            if (level->comma_count < COMMAS_MAX) {
                level->commas[level->comma_count] = (uint32_t)used;
            }
            level->comma_count++;
        }
        if (!nest_step(&nest, at, length)) {
            memmove(name + used, at, strlen(at) + 1);
            return;
        }
        if (nest.depth > before) {
            levels[before] = (struct level){.begin = (uint32_t)used + 1};
        }
        if (nest.depth < before && *at == '>') {
            used = close_arguments(name, level, used);
            continue;
        }
        memmove(name + used, at, length);
        used += length;
    }
    name[used] = '\0';
}

/* ---- fit -------------------------------------------------------------------------- */

/* How much of a name is written. */
struct shape {
    bool result;        /* the type of the result */
    unsigned templates; /* template arguments nested so deeply */
    bool arguments;
};

/* A part of the text: `skip` bytes are left out, then `room` bytes are stored. */
struct window {
    char *out;
    size_t skip, room;
    size_t length; /* of the whole text */
};

static void put(struct window *window, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++, window->length++) {
        if (window->length >= window->skip &&
            window->length - window->skip < window->room) {
            window->out[window->length - window->skip] = text[i];
        }
    }
}

/* Returns the bracket that closes the one at `at`; NULL: none does. */
static const char *find_close(const char *name, const char *at)
{
    struct nest nest = {.depth = 0};
    size_t length;

    for (; *at != '\0'; at += length) {
        length = piece_length(name, at);
        if (!nest_step(&nest, at, length)) {
            return NULL;
        }
        if (nest.depth == 0) {
            return at;
        }
    }
    return NULL;
}

/* Returns the name without the type of the result. */
static const char *skip_result(const char *name)
{
    const char *begin = name;
    struct nest nest = {.depth = 0};
    size_t length;

    for (const char *at = name; *at != '\0'; at += length) {
        length = piece_length(name, at);
        if (nest.depth == 0 && length == 1 && *at == '(') {
            return begin;
        }
        if (!nest_step(&nest, at, length)) {
            return name;
        }
        if (nest.depth == 0 && length == 1 && *at == ' ') {
            begin = at + 1;
        }
    }
    return name;
}

/* Writes the name in a shape. */
static void write_shape(const char *name, struct shape shape, struct window *window)
{
    const char *at = shape.result ? name : skip_result(name), *close;
    struct nest nest = {.depth = 0};
    unsigned templates = 0;
    size_t length;

    for (; *at != '\0'; at += length) {
        unsigned before = nest.depth;

        length = piece_length(name, at);
        put(window, at, length);
        if (!nest_step(&nest, at, length)) {
            put(window, at + length, strlen(at + length));
            return;
        }
        if (nest.depth == before) {
            continue;
        }
        if (nest.depth < before) {
            templates -= *at == '>';
            continue;
        }
        templates += *at == '<';
        if (*at == '<' ? templates <= shape.templates : *at != '(' || shape.arguments) {
            continue;
        }
        close = find_close(name, at);
        if (close && (size_t)(close - at) > ELLIPSIS_BYTES + 1) {
            put(window, ELLIPSIS, ELLIPSIS_BYTES);
            at = close - length; /* the closing bracket is next */
        }
    }
}

const char *gs_name_fit(const char *name, char *out, size_t size)
{
    static const struct shape shapes[] = {{false, NEST_MAX, true}, {false, 2, true},
                                          {false, 1, true},        {false, 1, false},
                                          {false, 0, true},        {false, 0, false}};
    struct window window = {.out = out, .room = size - 1};

    if (strlen(name) < size) {
        return name;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(shapes); i++) {
        window.length = 0;
        write_shape(name, shapes[i], &window);
        if (window.length < size) {
            out[window.length] = '\0';
            return out;
        }
    }
    /* The end has the function: its name alone is long, or its classes are many. */
    window = (struct window){.out = out + ELLIPSIS_BYTES,
                             .room = size - 1 - ELLIPSIS_BYTES,
                             .skip = window.length - (size - 1 - ELLIPSIS_BYTES)};
    write_shape(name, shapes[GS_ARRAY_LEN(shapes) - 1], &window);
    memcpy(out, ELLIPSIS, ELLIPSIS_BYTES);
    out[size - 1] = '\0';
    return out;
}
