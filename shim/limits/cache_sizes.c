/*
 * cache_sizes.c - parses GPUSHIM_POOL_CACHE: a size, and the blocks of two cache tiers.
 *
 * A text with an error is ignored entirely: a part of it would be a setting that the user
 * did not choose.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/pool.md, "Cache tiers"
 */
#include "shim/limits/cache_sizes.h"

#include <string.h>
#include <strings.h>

#include "shim/limits/list_item.h"
#include "shim/settings/log.h"
#include "shim/settings/options_table.h"

/* Limits: the longest item (a tier, a number and some spaces), the default, and the
 * largest values. */
#define ITEM_BYTES    48
#define SHIPPED_BYTES (32 * GS_MIB)
#define BYTES_MAX     GS_GIB
#define BLOCKS_MAX    1000000u

/* The items given so far; each may be given once. */
struct seen {
    bool bytes, stream, global;
};

/* Parses "stream:100": the part after the colon. */
static const char *read_blocks(const char *text, bool *seen, uint32_t *out)
{
    static const struct gs_option number = {.type = GS_OPTION_UINT};
    uint64_t blocks;

    if (*seen) {
        return "a tier is named twice";
    }
    if (gs_option_parse(&number, text, &blocks) != GS_OK || blocks > BLOCKS_MAX) {
        return "a tier's number of blocks is not from 0 to 1000000";
    }
    *out = blocks ? (uint32_t)blocks : GS_TIER_NO_BLOCKS;
    *seen = true;
    return NULL;
}

static_assert(BLOCKS_MAX == 1000000, "read_blocks names the limit");

static const char *read_bytes(const char *text, bool *seen, size_t *out)
{
    static const struct gs_option size = {.type = GS_OPTION_SIZE};
    uint64_t bytes;

    if (gs_option_parse(&size, text, &bytes) != GS_OK) {
        return "not a size (such as 32M), stream:N or global:N";
    }
    if (*seen) {
        return "there are two sizes";
    }
    if (bytes > BYTES_MAX) {
        return "the size is above 1G";
    }
    *out = (size_t)bytes;
    *seen = true;
    return NULL;
}

static_assert(BYTES_MAX >> 30 == 1, "read_bytes names the limit");

static const char *read_item(const char *text, size_t length, struct seen *seen,
                             struct gs_cache_sizes *out)
{
    char item[ITEM_BYTES];

    if (!gs_list_item(text, length, item, sizeof(item))) {
        return "not a size (such as 32M), stream:N or global:N";
    }
    if (strncasecmp(item, "stream:", 7) == 0) {
        return read_blocks(item + 7, &seen->stream, &out->stream_blocks);
    }
    if (strncasecmp(item, "global:", 7) == 0) {
        return read_blocks(item + 7, &seen->global, &out->global_blocks);
    }
    return read_bytes(item, &seen->bytes, &out->bytes);
}

const char *gs_cache_sizes_parse(const char *text, struct gs_cache_sizes *out)
{
    static const struct gs_cache_sizes shipped = {.bytes = SHIPPED_BYTES};
    const char *wrong = NULL;
    struct seen seen = {0};

    *out = shipped;
    for (const char *next = text; *text && !wrong; text = next) {
        size_t length = strcspn(text, ",");

        next = text + length + (text[length] == ',');
        wrong = read_item(text, length, &seen, out);
        if (!wrong && text[length] && !*next) {
            wrong = "it ends with a comma";
        }
    }
    if (wrong) {
        *out = shipped;
    }
    return wrong;
}

void gs_cache_sizes_read(const char *text, struct gs_cache_sizes *out)
{
    const char *wrong = gs_cache_sizes_parse(text, out);
    char shown[2 * ITEM_BYTES];

    if (wrong) {
        gs_log_line(GS_LOG_WARN, "GPUSHIM_POOL_CACHE=%s: %s; using 32M",
                    gs_option_quote(text, strlen(text), shown, sizeof(shown)), wrong);
    }
}
