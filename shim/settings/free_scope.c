/*
 * free_scope.c - this process's table of the waits of frees.
 * Owns:  the table.   Lock: none; written at start, immutable after.
 */
#include "shim/settings/free_scope.h"

#include "shim/settings/log.h"
#include "shim/settings/options_table.h"

static struct gs_free_waits waits;

static bool any(bool (*is_so)(size_t class))
{
    for (size_t i = 0; i < GS_FREE_CLASSES; i++) {
        if (is_so(i)) {
            return true;
        }
    }
    return false;
}

static bool reaches_others(size_t class)
{
    return waits.scope[class] == GS_FREE_DEVICE;
}

static bool blocks(size_t class)
{
    return waits.scope[class] == GS_FREE_BLOCKING;
}

static bool holds(size_t class)
{
    return gs_free_class_rows[class].kind_number == GS_FREE_device &&
           waits.scope[class] < GS_FREE_CONTEXT;
}

bool gs_free_scopes_reach_others(void)
{
    return any(reaches_others);
}

bool gs_free_scopes_block(void)
{
    return any(blocks);
}

bool gs_free_scopes_hold(void)
{
    return any(holds);
}

static void read_text(const char *text)
{
    char quote[96];
    size_t length;
    const char *wrong = gs_free_waits_parse(text, &waits, &length);
    if (wrong) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_FREE_WAITS: '%s' is not none, blocking, context or device, "
                    "nor device=, pinned=, managed=, device.tiny=, .small=, .medium= or "
                    ".large= with one of them: not used, each free waits for its context",
                    gs_option_quote(wrong, length, quote, sizeof(quote)));
    }
}

void gs_free_scopes_start(const struct gs_options *options)
{
    waits = gs_free_waits_assumed();
    if (options->free_waits[0]) {
        read_text(options->free_waits);
    }
    for (size_t i = 0; i < GS_FREE_CLASSES; i++) {
        if (options->free_sync == GS_FREE_SYNC_WAIT && waits.scope[i] < GS_FREE_CONTEXT) {
            waits.scope[i] = GS_FREE_CONTEXT;
        }
    }
}

enum gs_free_scope gs_free_scope(enum gs_free_kind kind, size_t bytes)
{
    return gs_free_waits_of(&waits, kind, bytes);
}
