/*
 * size_classes.c - the presets and lists of GPUSHIM_POOL_SIZE_CLASSES.
 *
 * A list with an error is ignored entirely: with one class missing, requests would be
 * rounded up to the next one, which may be far larger than intended.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/tuning.md, "Size classes"
 */
#include "shim/limits/size_classes.h"

#include <string.h>
#include <strings.h>

#include "shim/limits/list_item.h"
#include "shim/settings/log.h"
#include "shim/settings/options_table.h"

/* A size, its unit and some spaces. */
#define ITEM_BYTES 48

struct preset {
    const char *name;
    const char *sizes;
};

static const struct preset presets[] = {
    {"stratified", "256,1K,4K,16K,64K"},
    /* Twenty sizes; with the class above them, which is not rounded, 21. */
    {"dotcompute", "4K,8K,16K,32K,64K,128K,256K,512K,768K,1M,2M,4M,8M,16M,32M,64M,128M,"
                   "256M,384M,512M"},
};

static const char *read_size(const char *text, size_t length, size_t *out)
{
    static const struct gs_option size = {.type = GS_OPTION_SIZE};
    char item[ITEM_BYTES];
    uint64_t bytes;

    if (!gs_list_item(text, length, item, sizeof(item)) || !*item) {
        return "not a list of sizes (such as 4K,64K,1M), stratified or dotcompute";
    }
    if (gs_option_parse(&size, item, &bytes) != GS_OK) {
        return "not a list of sizes (such as 4K,64K,1M), stratified or dotcompute";
    }
    if (bytes == 0 || bytes > (uint64_t)1 << 40) {
        return "a size is 0, or above 1T";
    }
    *out = (size_t)bytes;
    return NULL;
}

/* Out: *out may be written even if there is an error. */
static const char *read_list(const char *text, struct gs_size_classes *out)
{
    for (;;) {
        size_t length = strcspn(text, ","), bytes;
        const char *wrong = read_size(text, length, &bytes);

        if (wrong) {
            return wrong;
        }
        if (out->count == GS_SIZE_CLASSES_MAX) {
            return "more than 64 sizes";
        }
        if (out->count && bytes <= out->bytes[out->count - 1]) {
            return "the sizes do not rise";
        }
        out->bytes[out->count++] = bytes;
        if (!text[length]) {
            return NULL;
        }
        text += length + 1;
    }
}

static_assert(GS_SIZE_CLASSES_MAX == 64, "read_list names the limit");

const char *gs_size_classes_parse(const char *text, struct gs_size_classes *out)
{
    const char *wrong;

    out->count = 0;
    if (!*text || strcasecmp(text, "off") == 0) {
        return NULL;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(presets); i++) {
        if (strcasecmp(text, presets[i].name) == 0) {
            text = presets[i].sizes;
        }
    }
    wrong = read_list(text, out);
    if (wrong) {
        out->count = 0;
    }
    return wrong;
}

void gs_size_classes_read(const char *text, struct gs_size_classes *out)
{
    const char *wrong = gs_size_classes_parse(text, out);
    char shown[2 * ITEM_BYTES];

    if (!wrong) {
        return;
    }
    gs_log_line(GS_LOG_WARN, "GPUSHIM_POOL_SIZE_CLASSES=%s: %s; sizes are not rounded",
                gs_option_quote(text, strlen(text), shown, sizeof(shown)), wrong);
}
