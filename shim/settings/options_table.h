/*
 * options_table.h - options.def as tables, and the parser of single values; for the files
 * that read (options.c) and describe (options_help.c) the options.
 * Locks: none; the tables are immutable.
 */
#ifndef GS_OPTIONS_TABLE_H
#define GS_OPTIONS_TABLE_H

#include "gs_base.h"

enum gs_option_type {
    GS_OPTION_BOOL,
    GS_OPTION_SIZE,
    GS_OPTION_UINT,
    GS_OPTION_TIME,
    GS_OPTION_ENUM,
    GS_OPTION_PATH,
    GS_OPTION_SHARE,
    GS_OPTION_TEXT
};

/* Short texts are stored in the row itself, so that a program that never calls CUDA does
 * not pay for relocating them; "" if there is none. */
struct gs_option {
    char name[32];
    enum gs_option_type type;
    size_t offset; /* of the field in struct gs_options; also the key of gs_choices */
    char fallback[8], min[8], max[8], group[16];
    const char *doc;
};

struct gs_choice {
    size_t offset;
    const char *word;
    int value;
    const char *doc;
};

/* GS_OPTIONS_COUNT is the number of rows. */
enum gs_option_row {
#define GS_OPT(field, name, type, default_, min, max, group, doc) GS_OPTION_ROW_##field,
#include "shim/settings/options.def"
    GS_OPTIONS_COUNT
};

extern const struct gs_option gs_options_table[GS_OPTIONS_COUNT];
extern const struct gs_choice gs_choices[];
extern const size_t gs_choices_count;
/* The launcher's variables; each is a path. */
extern const struct gs_launcher_option {
    const char *name, *doc;
} gs_launcher_options[];
extern const size_t gs_launcher_options_count;

/* Bytes for an option's choices in one line. */
#define GS_OPTION_WORDS_BYTES 128

/*
 * Parses a value of any type but PATH and TEXT; sizes in bytes, times in milliseconds,
 * shares in the encoding of gs_share_bytes.
 * Errors: GS_ERR_INVALID  malformed, or too large for 64 bits; does not check the range
 */
enum gs_status gs_option_parse(const struct gs_option *option, const char *text,
                               uint64_t *out) GS_MUST_USE;

/*
 * Makes a foreign text fit to print: printable ASCII only, cut to `capacity` >= 8 bytes.
 * Returns `out`.
 */
const char *gs_option_quote(const char *text, size_t length, char *out, size_t capacity);

/* Returns true if a parsed value is between the option's bounds. */
bool gs_option_in_range(const struct gs_option *option, uint64_t value);

/* A size or a share in the user's notation, exact to the byte: "100M", "2100224", "2.5%".
 * Returns `out`. */
#define GS_OPTION_SIZE_BYTES 32
const char *gs_option_size_text(uint64_t share, char out[GS_OPTION_SIZE_BYTES]);

/* The row of a variable, with or without the prefix GPUSHIM_, in any case;
 * GS_OPTIONS_COUNT: there is none. */
unsigned gs_option_row_of(const char *name);

/* The value of an option, as one would write it; `plain`: sizes in bytes and times in
 * milliseconds. Returns `out`, or a text that lives as long as *options. */
struct gs_options;
const char *gs_option_value_text(const struct gs_option *option,
                                 const struct gs_options *options, bool plain,
                                 char out[GS_OPTION_SIZE_BYTES]);

/* Returns the reason why a text is not a value, if known: completes "NAME=value: "; NULL:
 * the text is malformed. */
const char *gs_option_problem(const struct gs_option *option, const char *text);

/* Why a text is no value of the option: "not in 0 to 255", "not a size (such as 20M)";
 * NULL: it is one. Of a TEXT only the length is checked: its reader knows the rest.
 * Returns `out`, or a literal. */
#define GS_OPTION_WRONG_BYTES 192
const char *gs_option_wrong(const struct gs_option *option, const char *text,
                            char out[GS_OPTION_WRONG_BYTES]);

/* Returns true if the launcher's option without a value is `on`. */
bool gs_option_is_switch(const struct gs_option *option);

/* A SIZE is rounded up to a multiple of this size; NULL: no rounding. */
const char *gs_option_multiple(const struct gs_option *option);

/* The option's choices, such as "exit, off"; "" if it has none. Returns `out`. */
const char *gs_option_words(const struct gs_option *option, const char *separator,
                            char out[GS_OPTION_WORDS_BYTES]);

#endif
