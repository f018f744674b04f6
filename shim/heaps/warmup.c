/*
 * warmup.c - reads the list of GPUSHIM_WARMUP and allocates it once a context.
 *
 * All blocks of the list are allocated before the first is freed, so that they exist at
 * the same time. They never belong to the program: tracker and report do not know them,
 * and blocks that the program does not use are returned to the driver like all idle
 * memory.
 *
 * Owns:  the list.   Lock: none; immutable after start.   Design: docs/tuning.md
 */
#include "shim/heaps/warmup.h"

#include <stdlib.h>
#include <string.h>

#include "shim/heaps/ipc_mode.h"
#include "shim/heaps/unpooled.h"
#include "shim/settings/log.h"
#include "shim/settings/options_table.h"

bool gs_warmup_wanted;             /* immutable after start */
static struct gs_warmup_list list; /* likewise */

/* ---- reading ----------------------------------------------------------------------- */

static void log_problem(void *self, const char *item, size_t length, const char *problem)
{
    char shown[96];
    (void)self;
    gs_log_line(GS_LOG_WARN, "GPUSHIM_WARMUP: '%s': %s; ignored",
                gs_option_quote(item, length, shown, sizeof(shown)), problem);
}

void gs_warmup_start(const char *text)
{
    gs_warmup_read(text, &list, log_problem, NULL);
    gs_warmup_wanted = list.count > 0;
}

void gs_warmup_reset(void)
{
    gs_warmup_wanted = false;
}

/* ---- allocating -------------------------------------------------------------------- */

/* The blocks in allocation order. */
struct blocks {
    struct gs_block **items;
    size_t count, room;
};

/* Makes room for `more` blocks; false without host memory. */
static bool make_room(struct blocks *blocks, size_t more)
{
    struct gs_block **grown =
        reallocarray(blocks->items, blocks->room + more, sizeof(*grown));
    if (grown) {
        blocks->items = grown;
        blocks->room += more;
    }
    return grown != NULL;
}

/* Returns whether there are all of its blocks. */
static bool allocate_item(const struct gs_context *context, struct blocks *blocks,
                          const struct gs_warmup_item *item, const char *who)
{
    unsigned made = 0;
    int native = 0;
    if (gs_ipc_is_apart() && item->bytes < GS_LARGE_BYTES) {
        return true; /* the driver serves such requests */
    }
    if (make_room(blocks, item->count)) {
        while (made < item->count &&
               gs_heap_alloc(context->heap, item->bytes, &blocks->items[blocks->count],
                             &native) == GS_OK) {
            blocks->count++;
            made++;
        }
        gs_unpooled_drop();
    }
    if (made < item->count) {
        gs_log_line(
            GS_LOG_WARN,
            "%s: only %u of %u blocks of %zu bytes could be allocated on device %d", who,
            made, item->count, item->bytes, context->device);
    }
    return made == item->count;
}

bool gs_warmup_allocate(const struct gs_context *context,
                        const struct gs_warmup_list *wanted, const char *who)
{
    struct blocks blocks = {0};
    bool all = true;
    for (size_t i = 0; i < wanted->count; i++) {
        all = allocate_item(context, &blocks, &wanted->items[i], who) && all;
    }
    while (blocks.count > 0) {
        gs_block_free(blocks.items[--blocks.count]);
    }
    free(blocks.items);
    return all;
}

void gs_warmup_run(const struct gs_context *context)
{
    bool *warmed = &((struct gs_context *)(uintptr_t)context)->warmed;
    if (!__atomic_load_n(warmed, __ATOMIC_RELAXED) &&
        !__atomic_exchange_n(warmed, true, __ATOMIC_RELAXED)) {
        (void)gs_warmup_allocate(context, &list, "GPUSHIM_WARMUP");
    }
}
