/*
 * pressure_levels.c - parses GPUSHIM_PRESSURE, and finds the level of a share in use.
 *
 * A text with an error is ignored entirely: without one of its items, another level would
 * act for it.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/tuning.md
 */
#include "gs_float_mode.h"
#include "shim/limits/list_item.h"
#include "shim/limits/pressure_levels.h"

#include <string.h>
#include <strings.h>

/* A level, two shares and some spaces. */
#define ITEM_BYTES 64

static const struct gs_pressure_levels shipped = {
    .threshold = {[GPUSHIM_ELEVATED] = 0.70,
                  [GPUSHIM_WARNING] = 0.80,
                  [GPUSHIM_CRITICAL] = 0.95,
                  [GPUSHIM_OUT_OF_MEMORY] = 2 /* begins with a refusal alone */}};

/* The levels that the text has, and those of them with an action: a bit each. */
struct seen {
    unsigned levels, actions;
};

/* More than GS_PRESSURE_SLACK, so that each level can end. */
#define LEAST_SHARE 0.05

/* Parses digits with a point, whatever the locale. */
static bool read_share(const char *text, double *out)
{
    double digits = 0, scale = 1;
    bool any = false, point = false;

    for (; *text; text++) {
        if (*text == '.' && !point) {
            point = true;
        } else if (*text >= '0' && *text <= '9') {
            any = true;
            digits = digits * 10 + (*text - '0');
            scale *= point ? 10 : 1;
        } else {
            return false;
        }
    }
    *out = digits / scale;
    return any && *out >= LEAST_SHARE && *out <= 1;
}

/* The level of this name; GPUSHIM_NORMAL if no level has it. */
static gpushim_pressure read_level(const char *name)
{
    for (int level = GPUSHIM_ELEVATED; level <= GPUSHIM_CRITICAL; level++) {
        if (strcasecmp(name, gpushim_pressure_text((gpushim_pressure)level)) == 0) {
            return (gpushim_pressure)level;
        }
    }
    return GPUSHIM_NORMAL;
}

/* Cuts the text at a character. Returns what follows it, NULL if it does not occur. */
static char *split(char *text, char at)
{
    char *found = strchr(text, at);

    if (found) {
        *found++ = '\0';
    }
    return found;
}

/* Parses LEVEL:SHARE[=ACTION]. Returns NULL, or a description of the error. */
static const char *read_item(const char *text, size_t length, struct seen *seen,
                             struct gs_pressure_levels *out)
{
    const char *malformed =
        "not LEVEL:SHARE, followed by =none or =shrink:SHARE if needed (such as "
        "warning:0.80=shrink:0.70)";
    const char *no_share = "a share is not from 0.05 to 1 (such as 0.80)";
    char item[ITEM_BYTES];

    if (!gs_list_item(text, length, item, sizeof(item)) || !*item) {
        return malformed;
    }
    char *action = split(item, '='), *share = split(item, ':');
    gpushim_pressure level = read_level(item);
    if (level == GPUSHIM_NORMAL) {
        return "a level is not elevated, warning or critical";
    }
    if (seen->levels & 1u << level) {
        return "a level is named twice";
    }
    seen->levels |= 1u << level;
    seen->actions |= (action ? 1u : 0u) << level;
    if (share && !read_share(share, &out->threshold[level])) {
        return no_share;
    }
    if (!action || strcasecmp(action, "none") == 0) {
        return NULL;
    }
    if (strncasecmp(action, "shrink:", 7) != 0) {
        return malformed;
    }
    return read_share(action + 7, &out->target[level]) ? NULL : no_share;
}

/* Checks what no item shows by itself, and gives each level without an action that of the
 * level below. */
static const char *complete_levels(struct gs_pressure_levels *levels,
                                   const struct seen *seen)
{
    for (int level = GPUSHIM_ELEVATED; level <= GPUSHIM_OUT_OF_MEMORY; level++) {
        if (!(seen->actions & 1u << level)) {
            levels->target[level] = levels->target[level - 1];
        }
        if (levels->threshold[level] <= levels->threshold[level - 1]) {
            return "the levels do not rise (elevated 0.70, warning 0.80 and critical "
                   "0.95 if not given)";
        }
        if (levels->target[level] >= levels->threshold[level]) {
            return "the share of a shrink is not below the share of its level";
        }
    }
    return NULL;
}

const char *gs_pressure_parse(const char *text, struct gs_pressure_levels *out)
{
    const char *wrong = NULL;
    struct seen seen = {0};
    struct gs_float_mode mode =
        gs_float_mode_begin(); /* the program's first call reads */

    *out = shipped;
    for (const char *next = text; *text && !wrong; text = next) {
        size_t length = strcspn(text, ",");

        next = text + length + (text[length] == ',');
        wrong = read_item(text, length, &seen, out);
        if (!wrong && text[length] && !*next) {
            wrong = "it ends with a comma";
        }
    }
    wrong = wrong ? wrong : complete_levels(out, &seen);
    if (wrong) {
        *out = shipped;
    }
    gs_float_mode_end(mode);
    return wrong;
}

gpushim_pressure gs_pressure_level(const struct gs_pressure_levels *levels,
                                   gpushim_pressure was, double share)
{
    int level = GPUSHIM_CRITICAL;

    while (level > GPUSHIM_NORMAL &&
           share <
               levels->threshold[level] - (level <= (int)was ? GS_PRESSURE_SLACK : 0)) {
        level--;
    }
    return (gpushim_pressure)level;
}
