/*
 * options_lists.h - variables that are lists: GPUSHIM_CHECK=args,redzone:256. Each item
 * sets one row of options.def, whose own name was a variable before.
 *
 * The own name still works, by the same parser, with a line that names the list.
 * Locks: none; the tables are immutable.
 */
#ifndef GS_OPTIONS_LISTS_H
#define GS_OPTIONS_LISTS_H

#include "shim/settings/options_table.h"

enum gs_list_row {
#define GS_OPT_LIST(list, name, kind, default_, group, doc) GS_LIST_##list,
#include "shim/settings/options.def"
    GS_LISTS
};

struct gs_list {
    char name[24];
    /* The list says all that is on: an item that it lacks is off. Else an item that it
     * lacks has its default. */
    bool is_set;
    char fallback[24], group[16],
        doc[88]; /* without relocations, as struct gs_option's */
};

struct gs_item {
    unsigned char list, row; /* enum gs_list_row, enum gs_option_row */
    char word[12];           /* "": any value of the row */
    char value[8];           /* that the word alone stands for; "": word:VALUE */
};

extern const struct gs_list gs_lists[GS_LISTS];
extern const struct gs_item gs_items[];
extern const size_t gs_items_count;

/* The first item that sets this row; NULL: the row is in no list. */
const struct gs_item *gs_item_of(unsigned row);
/* The list of this name; GS_LISTS: there is none. */
unsigned gs_list_named(const char *name, size_t length);
/* The list of this name, with or without the prefix GPUSHIM_, in any case; GS_LISTS:
 * there is none. */
unsigned gs_list_of(const char *name);
/* The row that has the name of the list; GS_OPTIONS_COUNT: none has. */
unsigned gs_list_own_row(unsigned list);

/* Returns whether a value of the variable is to be read as a list. Only a list that has a
 * row of its own name may have values that are not. */
bool gs_list_is_meant(unsigned list, const char *value);

/* Bytes for a list, with its NUL; longer ones are not read. */
#define GS_LIST_BYTES 2048

struct gs_list_sink {
    /* An item and the value of its row. First comes the value of each row without an
     * item, then the items, in the order of options.def. */
    void (*value)(void *self, const struct gs_item *item, const char *value);
    /* item: as it is written, not terminated. problem: completes "NAME=item: ". */
    void (*problem)(void *self, const char *item, size_t length, const char *problem);
    void *self;
};

/*
 * Reads a list. Values are not checked, except those without a word. A list without any
 * item that is known sets nothing.
 * In: copy  room for the list
 */
void gs_list_read(unsigned list, const char *text, char copy[GS_LIST_BYTES],
                  const struct gs_list_sink *sink);

/* Writes the item that says a value of the row: "redzone:256". Returns `out`. */
#define GS_ITEM_BYTES 80
const char *gs_item_write(const struct gs_item *item, const char *value,
                          char out[GS_ITEM_BYTES]);

/* Writes the list that says the same as values of its rows: values[row], NULL: not given.
 * A value that is malformed counts as not given. Returns `out`; "": nothing is given. */
const char *gs_list_write(unsigned list, const char *const values[GS_OPTIONS_COUNT],
                          char out[GS_LIST_BYTES]);

/* Writes the list that sets its rows to their current values. If all rows have their
 * defaults, writes the default of the variable. Returns `out`. */
struct gs_options;
const char *gs_list_text(unsigned list, const struct gs_options *options,
                         char out[GS_LIST_BYTES]);

#endif
