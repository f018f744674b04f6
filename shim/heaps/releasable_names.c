/*
 * releasable_names.c - the scopes whose allocations are releasable; allocates in them.
 * Owns:  the names, which change only by adding.   Lock: none, atomic; one thread adds.
 */
#include <stdlib.h>
#include <string.h>

#include "shim/heaps/moving_pages.h"
#include "shim/heaps/releasable_items.h"
#include "shim/order/captures.h"
#include "shim/settings/log.h"
#include "tracker/stacks/scopes.h"

#define MOST_NAMES 32u

/* A name stays, with its bit, once it was given. */
static char names[MOST_NAMES][GS_SCOPE_NAME_MAX + 1]; /* immutable below names_count */
static unsigned names_count;                          /* atomic */
static uint32_t names_wanted; /* atomic: those that the option has now */

uint32_t gs_releasable_name(const char *name)
{
    unsigned count = __atomic_load_n(&names_count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return 1u << i;
        }
    }
    return 0;
}

const char *gs_releasable_away_nth(unsigned n, uint64_t *pages)
{
    if (n >= __atomic_load_n(&names_count, __ATOMIC_ACQUIRE)) {
        return NULL;
    }
    *pages = gs_releasable_away_of(1u << n);
    return names[n];
}

/* The bit of a name, which is new or not; 0: not a scope's, or too many. */
static uint32_t add_name(const char *text, size_t length)
{
    char name[GS_SCOPE_NAME_MAX + 1];
    unsigned count = __atomic_load_n(&names_count, __ATOMIC_RELAXED);
    if (length > GS_SCOPE_NAME_MAX || memchr(text, '/', length)) {
        return 0;
    }
    memcpy(name, text, length);
    name[length] = '\0';
    uint32_t bit = gs_releasable_name(name);
    if (bit || count == MOST_NAMES) {
        return bit;
    }
    memcpy(names[count], name, length + 1);
    __atomic_store_n(&names_count, count + 1, __ATOMIC_RELEASE);
    return 1u << count;
}

const char *gs_releasable_change(const struct gs_state *state, const char *text)
{
    uint32_t wanted = 0;
    while (state->pool && *text) {
        size_t length = strcspn(text, ",");
        uint32_t bit = length ? add_name(text, length) : 0;
        if (length && !bit) {
            gs_log_line(GS_LOG_WARN, "GPUSHIM_RELEASABLE: %.*s: %s", (int)length, text,
                        length <= GS_SCOPE_NAME_MAX && !memchr(text, '/', length)
                            ? "there are 32 names already"
                            : "not the name of one scope");
        }
        wanted |= bit;
        text += length + (text[length] == ',');
    }
    if (wanted) {
        gs_moving_pages_prepare();
    }
    __atomic_store_n(&names_wanted, wanted, __ATOMIC_RELAXED);
    if (wanted) {
        __atomic_store_n(&gs_alloc_detours, true, __ATOMIC_RELEASE);
    }
    return NULL;
}

void gs_releasable_start(const struct gs_state *state)
{
    (void)gs_releasable_change(state, state->options.releasable);
}

/* The names of the calling thread's scopes. */
static uint32_t names_here(void)
{
    uint32_t wanted = __atomic_load_n(&names_wanted, __ATOMIC_ACQUIRE), found = 0;
    for (unsigned i = 0; wanted >> i && i < MOST_NAMES; i++) {
        found |= wanted >> i & 1 && gs_scopes_within(names[i]) ? 1u << i : 0;
    }
    return found;
}

bool gs_releasable_here(size_t bytes)
{
    return bytes >= GS_LARGE_BYTES && names_here() != 0;
}

void gs_releasable_names_reset(void)
{
    names_count = 0;
    names_wanted = 0;
    gs_alloc_detours = false;
}

bool gs_releasable_alloc(struct gs_state *state, const struct gs_context *context,
                         size_t bytes, struct gs_block **out)
{
    uint32_t found = bytes >= GS_LARGE_BYTES && !gs_captures_active() ? names_here() : 0;
    struct gs_releasable *item = found ? calloc(1, sizeof(*item)) : NULL;
    int native;
    if (!item || gs_heap_alloc_apart(context->heap, bytes, gs_moving_pages_make_apart,
                                     out, &native) != GS_OK) {
        free(item);
        return false;
    }
    (void)state;
    item->addr = gs_block_addr(*out);
    item->bytes = gs_block_whole_bytes(*out);
    item->requested = bytes;
    item->context = (struct gs_context *)(uintptr_t)context;
    item->block = *out;
    item->names = found;
    if (!gs_releasable_add(item)) { /* it stays present for good */
        free(item);
    }
    return true;
}
