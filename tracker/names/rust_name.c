/*
 * rust_name.c - the "v0" mangling of Rust (RFC 2603): a name is a tree of paths and
 * types, in which a part may refer back to an earlier one.
 *
 * The text is that of rustc's own tools in their short form: no hashes of crates, no
 * types of constants. A damaged name, one nested too deeply, or one whose references
 * unfold to a huge text is no name.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/names/rust_name.h"

#include "tracker/names/rust_legacy.h"
#include "tracker/names/rust_punycode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 200u
#define TEXT_MAX  ((size_t)256 << 10)
#define STEPS_MAX 100000u
#define LIFETIMES 26u /* with a letter */

struct demangler {
    const char *name; /* after "_R" */
    size_t length, at;
    char *text;
    size_t used, room;
    unsigned depth, steps;
    uint64_t bound;     /* lifetimes of the binders around */
    bool failed, quiet; /* quiet: reads without writing */
};

static void read_path(struct demangler *d, bool in_value);
static void read_type(struct demangler *d);
static void read_const(struct demangler *d);

/* ---- text ---------------------------------------------------------------------------
 */

static void put_bytes(struct demangler *d, const char *text, size_t length)
{
    if (d->failed || d->quiet || length == 0) {
        return;
    }
    if (length > d->room - d->used) {
        size_t room = (d->room + length) * 2;
        char *larger = room <= TEXT_MAX ? realloc(d->text, room + 1) : NULL;

        if (larger == NULL) {
            d->failed = true;
            return;
        }
        d->text = larger;
        d->room = room;
    }
    memcpy(d->text + d->used, text, length);
    d->used += length;
}

static void put(struct demangler *d, const char *text)
{
    put_bytes(d, text, strlen(text));
}

static void put_number(struct demangler *d, uint64_t value)
{
    char digits[24];

    (void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
    put(d, digits);
}

static void put_character(struct demangler *d, uint32_t c)
{
    char bytes[4];

    put_bytes(d, bytes, gs_rust_put_utf8(bytes, c));
}

/* ---- tokens -------------------------------------------------------------------------
 */

static char peek_char(const struct demangler *d)
{
    return d->at < d->length ? d->name[d->at] : '\0';
}

static char next(struct demangler *d)
{
    if (d->at >= d->length || d->steps++ > STEPS_MAX) {
        d->failed = true;
        return '\0';
    }
    return d->name[d->at++];
}

static bool accept_char(struct demangler *d, char c)
{
    if (d->failed || peek_char(d) != c) {
        return false;
    }
    d->at++;
    return true;
}

static bool descend(struct demangler *d)
{
    if (++d->depth > DEPTH_MAX || d->steps++ > STEPS_MAX) {
        d->failed = true;
    }
    return !d->failed;
}

static uint64_t read_decimal(struct demangler *d)
{
    uint64_t value = 0;

    if (peek_char(d) < '0' || peek_char(d) > '9') {
        d->failed = true;
    }
    if (accept_char(d, '0')) {
        return 0;
    }
    while (!d->failed && peek_char(d) >= '0' && peek_char(d) <= '9' &&
           value < UINT32_MAX) {
        value = value * 10 + (uint64_t)(next(d) - '0');
    }
    return value;
}

/* "_" is 0, "0_" is 1, and so on. */
static uint64_t read_base62(struct demangler *d)
{
    uint64_t value = 0;

    if (accept_char(d, '_')) {
        return 0;
    }
    while (!d->failed && !accept_char(d, '_')) {
        char c = next(d);
        uint64_t digit = c >= '0' && c <= '9'   ? (uint64_t)(c - '0')
                         : c >= 'a' && c <= 'z' ? (uint64_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'Z' ? (uint64_t)(c - 'A') + 36
                                                : 62;
        if (digit == 62 || value > UINT64_MAX / 62) {
            d->failed = true;
        }
        value = value * 62 + digit;
    }
    return value + 1;
}

/* 0 without the tag. */
static uint64_t read_optional62(struct demangler *d, char tag)
{
    return accept_char(d, tag) ? read_base62(d) + 1 : 0;
}

static void put_punycode(struct demangler *d, const char *text, size_t length)
{
    uint32_t characters[GS_RUST_IDENT_MAX];
    size_t count = gs_rust_punycode(text, length, characters);

    if (count == 0) {
        d->failed = true;
    }
    for (size_t i = 0; i < count; i++) {
        put_character(d, characters[i]);
    }
}

struct ident {
    const char *text;
    size_t length;
    bool punycode;
    uint64_t number; /* of several with the name */
};

static struct ident read_ident(struct demangler *d)
{
    struct ident ident = {.number = read_optional62(d, 's')};
    uint64_t length;

    ident.punycode = accept_char(d, 'u');
    length = read_decimal(d);
    (void)accept_char(d, '_');
    if (d->failed || length > d->length - d->at) {
        d->failed = true;
        return ident;
    }
    ident.text = d->name + d->at;
    ident.length = (size_t)length;
    d->at += (size_t)length;
    return ident;
}

static void put_ident(struct demangler *d, const struct ident *ident)
{
    if (d->failed) {
        return;
    }
    if (ident->punycode) {
        put_punycode(d, ident->text, ident->length);
    } else {
        put_bytes(d, ident->text, ident->length);
    }
}

/* Reads what an earlier position describes. */
static void follow(struct demangler *d, void (*read)(struct demangler *d))
{
    size_t from = d->at - 1, back;
    uint64_t to = read_base62(d);

    if (d->failed || to >= from) {
        d->failed = true;
        return;
    }
    if (d->quiet) {
        return;
    }
    back = d->at;
    d->at = (size_t)to;
    read(d);
    d->at = back;
}

/* ---- paths --------------------------------------------------------------------------
 */

static void read_type_path(struct demangler *d)
{
    read_path(d, false);
}

static void read_value_path(struct demangler *d)
{
    read_path(d, true);
}

/* Lifetimes count from the innermost binder; 0 is the erased one. */
static void put_lifetime(struct demangler *d, uint64_t index)
{
    uint64_t depth = d->bound - index;

    put(d, "'");
    if (index == 0) {
        put(d, "_");
    } else if (index > d->bound) {
        d->failed = true;
    } else if (depth < LIFETIMES) {
        put_character(d, (uint32_t)('a' + depth));
    } else {
        put(d, "_");
        put_number(d, depth);
    }
}

static void read_argument(struct demangler *d)
{
    if (accept_char(d, 'L')) {
        put_lifetime(d, read_base62(d));
    } else if (accept_char(d, 'K')) {
        read_const(d);
    } else {
        read_type(d);
    }
}

/* Reads parts up to "E". Returns their number. */
static unsigned read_list(struct demangler *d, void (*read)(struct demangler *d),
                          const char *between)
{
    unsigned count = 0;

    for (; !d->failed && !accept_char(d, 'E'); count++) {
        if (count > 0) {
            put(d, between);
        }
        read(d);
    }
    return count;
}

/* The path of an impl block is not written. */
static void skip_impl_path(struct demangler *d)
{
    bool quiet = d->quiet;

    d->quiet = true;
    (void)read_optional62(d, 's');
    read_path(d, false);
    d->quiet = quiet;
}

static void read_nested(struct demangler *d, bool in_value)
{
    char space = next(d);
    struct ident ident;

    read_path(d, in_value);
    ident = read_ident(d);
    if (space >= 'A' && space <= 'Z') {
        put(d, "::{");
        put(d, space == 'C' ? "closure" : space == 'S' ? "shim" : "");
        if (space != 'C' && space != 'S') {
            put_bytes(d, &space, 1);
        }
        if (ident.length > 0) {
            put(d, ":");
            put_ident(d, &ident);
        }
        put(d, "#");
        put_number(d, ident.number);
        put(d, "}");
    } else if (ident.length > 0) {
        put(d, "::");
        put_ident(d, &ident);
    }
}

static void read_path(struct demangler *d, bool in_value)
{
    char tag = descend(d) ? next(d) : '\0';
    struct ident ident;

    switch (tag) {
    case 'C':
        ident = read_ident(d);
        put_ident(d, &ident);
        break;
    case 'N':
        read_nested(d, in_value);
        break;
    case 'M':
    case 'X':
    case 'Y':
        if (tag != 'Y') {
            skip_impl_path(d);
        }
        put(d, "<");
        read_type(d);
        if (tag != 'M') {
            put(d, " as ");
            read_path(d, false);
        }
        put(d, ">");
        break;
    case 'I':
        read_path(d, in_value);
        put(d, in_value ? "::<" : "<");
        (void)read_list(d, read_argument, ", ");
        put(d, ">");
        break;
    case 'B':
        follow(d, in_value ? read_value_path : read_type_path);
        break;
    default:
        d->failed = true;
    }
    d->depth--;
}

/* ---- types --------------------------------------------------------------------------
 */

/* The name of a type of one letter; NULL: none. The texts are in their rows: no program
 * pays for relocating them at its start. */
static const char *basic_type(char tag)
{
    static const char names[26][6] = {
        "i8",    "bool", "char", "f64", "str",  "f32",  "",    "u8", "isize",
        "usize", "",     "i32",  "u32", "i128", "u128", "_",   "",   "",
        "i16",   "u16",  "()",   "...", "",     "i64",  "u64", "!"};

    return tag >= 'a' && tag <= 'z' && names[tag - 'a'][0] != '\0' ? names[tag - 'a']
                                                                   : NULL;
}

/* Begins a binder: "for<'a, 'b> ". Returns how many lifetimes it has. */
static uint64_t begin_binder(struct demangler *d)
{
    uint64_t count = read_optional62(d, 'G');

    if (count > DEPTH_MAX) {
        d->failed = true;
        return 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        d->bound++;
        put(d, i == 0 ? "for<" : ", ");
        put_lifetime(d, 1);
    }
    if (count > 0) {
        put(d, "> ");
    }
    return count;
}

static void read_function(struct demangler *d)
{
    uint64_t bound = begin_binder(d);

    if (accept_char(d, 'U')) {
        put(d, "unsafe ");
    }
    if (accept_char(d, 'K')) {
        put(d, "extern \"");
        if (accept_char(d, 'C')) {
            put(d, "C");
        } else {
            struct ident abi = read_ident(d);

            for (size_t i = 0; !d->failed && i < abi.length; i++) {
                put_bytes(d, abi.text[i] == '_' ? "-" : &abi.text[i], 1);
            }
        }
        put(d, "\" ");
    }
    put(d, "fn(");
    (void)read_list(d, read_type, ", ");
    put(d, ")");
    if (!accept_char(d, 'u')) {
        put(d, " -> ");
        read_type(d);
    }
    d->bound -= bound;
}

/* A trait, with the types that it binds: Iterator<Item = u8>. */
static void read_dyn_trait(struct demangler *d)
{
    bool open = false;

    if (accept_char(d, 'I')) {
        read_path(d, false);
        put(d, "<");
        open = true;
        if (read_list(d, read_argument, ", ") == 0) {
            open = false;
        }
    } else {
        read_path(d, false);
    }
    while (!d->failed && accept_char(d, 'p')) {
        struct ident name = read_ident(d);

        put(d, open ? ", " : "<");
        open = true;
        put_ident(d, &name);
        put(d, " = ");
        read_type(d);
    }
    if (open) {
        put(d, ">");
    }
}

static void read_dyn(struct demangler *d)
{
    uint64_t bound, lifetime;

    put(d, "dyn ");
    bound = begin_binder(d);
    (void)read_list(d, read_dyn_trait, " + ");
    d->bound -= bound;
    if (!accept_char(d, 'L')) {
        d->failed = true;
        return;
    }
    lifetime = read_base62(d);
    if (lifetime != 0) {
        put(d, " + ");
        put_lifetime(d, lifetime);
    }
}

static void read_reference(struct demangler *d, bool is_mutable)
{
    put(d, "&");
    if (accept_char(d, 'L')) {
        uint64_t lifetime = read_base62(d);

        if (lifetime != 0) {
            put_lifetime(d, lifetime);
            put(d, " ");
        }
    }
    put(d, is_mutable ? "mut " : "");
    read_type(d);
}

static void read_type(struct demangler *d)
{
    const char *basic = basic_type(peek_char(d));
    char tag;

    if (!descend(d)) {
        return;
    }
    tag = next(d);
    if (basic != NULL) {
        put(d, basic);
    } else if (tag == 'A' || tag == 'S') {
        put(d, "[");
        read_type(d);
        if (tag == 'A') {
            put(d, "; ");
            read_const(d);
        }
        put(d, "]");
    } else if (tag == 'T') {
        put(d, "(");
        put(d, read_list(d, read_type, ", ") == 1 ? ",)" : ")");
    } else if (tag == 'R' || tag == 'Q') {
        read_reference(d, tag == 'Q');
    } else if (tag == 'P' || tag == 'O') {
        put(d, tag == 'P' ? "*const " : "*mut ");
        read_type(d);
    } else if (tag == 'F') {
        read_function(d);
    } else if (tag == 'D') {
        read_dyn(d);
    } else if (tag == 'B') {
        follow(d, read_type);
    } else {
        d->at--;
        read_path(d, false);
    }
    d->depth--;
}

/* ---- constants ----------------------------------------------------------------------
 */

/* Writes hexadecimal digits up to "_": a number, a truth value or a character. */
static void read_number(struct demangler *d, char type)
{
    uint64_t value = 0;
    size_t begin, digits;

    if (accept_char(d, 'n')) {
        put(d, "-");
    }
    begin = d->at;
    while (!d->failed && !accept_char(d, '_')) {
        char c = next(d);

        if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) {
            d->failed = true;
        }
        value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    digits = d->failed ? 0 : d->at - 1 - begin;
    if (digits > 16) {
        put(d, "0x");
        put_bytes(d, d->name + begin, digits);
    } else if (type == 'b') {
        put(d, value != 0 ? "true" : "false");
    } else if (type == 'c' && value >= ' ' && value <= 0x10ffff && value != 0x7f) {
        put(d, "'");
        put_character(d, (uint32_t)value);
        put(d, "'");
    } else {
        put_number(d, value);
    }
}

static void read_const(struct demangler *d)
{
    char tag = descend(d) ? next(d) : '\0';

    if (tag == 'p') {
        put(d, "_");
    } else if (tag == 'B') {
        follow(d, read_const);
    } else if (tag != '\0' && strchr("abchijlmnostxy", tag) != NULL) {
        read_number(d, tag);
    } else {
        d->failed = true; /* a string or a structure: unstable in Rust, too */
    }
    d->depth--;
}

/* ---- names --------------------------------------------------------------------------
 */

bool gs_rust_is_name(const char *linkage)
{
    return (linkage[0] == '_' && linkage[1] == 'R' && linkage[2] >= 'A' &&
            linkage[2] <= 'Z') ||
           gs_rust_is_legacy(linkage);
}

char *gs_rust_demangle(const char *linkage)
{
    struct demangler d = {.name = linkage + 2};

    if (!gs_rust_is_name(linkage)) {
        return NULL;
    }
    if (linkage[1] != 'R') {
        return gs_rust_demangle_legacy(linkage);
    }
    d.length = strcspn(d.name, ".$"); /* after them compilers number clones */
    read_path(&d, true);
    if (!d.failed && d.at < d.length) {
        d.quiet = true;
        read_path(&d, false); /* the crate that the code was generated in */
    }
    if (d.failed || d.at != d.length || d.used == 0) {
        free(d.text);
        return NULL;
    }
    d.text[d.used] = '\0';
    return d.text;
}
