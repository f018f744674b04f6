/*
 * warmup_list.c - reads the list of GPUSHIM_WARMUP.
 * Owns:  nothing.   Lock: none.   Design: docs/tuning.md
 */
#include "shim/limits/warmup_list.h"

#include <stdlib.h>
#include <string.h>

#include "shim/limits/list_item.h"
#include "shim/settings/options_table.h"
#include "shim/settings/read_file.h"
#include "shim/settings/start_folder.h"

/* The longest item that is parsed: a size, a colon and a count. */
#define ITEM_BYTES 48

/* Parses an item. Returns NULL, or a description of the error. */
static const char *read_item(const char *text, size_t length, struct gs_warmup_item *out)
{
    static const struct gs_option size = {.type = GS_OPTION_SIZE};
    static const struct gs_option number = {.type = GS_OPTION_UINT};
    char item[ITEM_BYTES];
    uint64_t bytes, count;
    if (length >= sizeof(item)) {
        return "not SIZE:COUNT (such as 64K:20)";
    }
    memcpy(item, text, length);
    item[length] = '\0';
    char *colon = strchr(item, ':');
    if (!colon) {
        return "not SIZE:COUNT (such as 64K:20)";
    }
    *colon = '\0';
    if (gs_option_parse(&size, item, &bytes) != GS_OK || bytes == 0 ||
        bytes > SIZE_MAX / 2) {
        return "does not begin with a size (such as 64K)";
    }
    if (gs_option_parse(&number, colon + 1, &count) != GS_OK || count == 0 ||
        count > GS_WARMUP_COUNT_MAX) {
        return "does not end with a count from 1 to 1000000";
    }
    *out = (struct gs_warmup_item){(size_t)bytes, (unsigned)count};
    return NULL;
}

static_assert(GS_WARMUP_COUNT_MAX == 1000000, "read_item names the limit");

void gs_warmup_parse(const char *text, struct gs_warmup_list *out,
                     gs_warmup_problem problem, void *self)
{
    out->count = 0;
    for (const char *next = text; *text; text = next) {
        struct gs_warmup_item item;
        size_t length = strcspn(text, ",");
        const char *what = NULL;
        next = text + length + (text[length] == ',');
        gs_list_trim(&text, &length);
        what = out->count == GS_WARMUP_ITEMS ? "more than 64 items"
                                             : read_item(text, length, &item);
        if (what) {
            problem(self, text, length, what);
        } else {
            out->items[out->count++] = item;
        }
    }
}

static_assert(GS_WARMUP_ITEMS == 64, "gs_warmup_parse names the limit");

#define FILE_BYTES_MAX 65536u

void gs_warmup_read(const char *text, struct gs_warmup_list *out,
                    gs_warmup_problem problem, void *self)
{
    static const char name[] = "GPUSHIM_WARMUP=";
    static char path[PATH_MAX]; /* under the start lock */
    const char *why;
    size_t length;
    if (text[0] != '@') {
        gs_warmup_parse(text, out, problem, self);
        return;
    }
    gs_start_folder_absolute(text + 1, path);
    char *file = gs_read_file(path, FILE_BYTES_MAX, &length, &why);
    out->count = 0;
    if (!file) {
        problem(self, text, strlen(text), why ? why : "larger than 64K");
        return;
    }
    while (length && strchr(" \r\n", file[length - 1])) {
        length--;
    }
    file[length] = '\0';
    bool named = strncmp(file, name, sizeof(name) - 1) == 0;
    gs_warmup_parse(named ? file + sizeof(name) - 1 : file, out, problem, self);
    free(file);
}
