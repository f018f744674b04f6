/*
 * gs_free_waits.h - the work that a native free waits for, by kind and size of the
 * memory: the table of gs_free_waits.def, and the parser of the text that replaces rows
 * of it.
 *
 * The simulated device parses CUDASIM_FREE_WAITS with it.
 *
 * Owns: nothing.   Lock: none.   Design: docs/free.md
 */
#ifndef GS_FREE_WAITS_H
#define GS_FREE_WAITS_H

#include <string.h>

#include "gs_base.h"

enum gs_free_kind { GS_FREE_device, GS_FREE_pinned, GS_FREE_managed };

/* Rising: each scope includes the one before it. */
enum gs_free_scope {
#define GS_FREE_SCOPE(word, name, doc) GS_FREE_##name,
#include "gs_free_waits.def"
    GS_FREE_SCOPES
};

enum gs_free_class {
#define GS_FREE_CLASS(kind, size, least, scope) GS_FREE_##kind##_##size,
#include "gs_free_waits.def"
    GS_FREE_CLASSES
};

struct gs_free_waits {
    uint8_t scope[GS_FREE_CLASSES]; /* enum gs_free_scope */
};

static const struct gs_free_class_row {
    const char *kind, *size;
    size_t least_bytes;
    enum gs_free_kind kind_number;
    enum gs_free_scope scope;
} gs_free_class_rows[GS_FREE_CLASSES] = {
#define GS_FREE_CLASS(kind, size, least, scope)                                          \
    {#kind, #size, least, GS_FREE_##kind, GS_FREE_##scope},
#include "gs_free_waits.def"
};

static const char *const gs_free_scope_words[GS_FREE_SCOPES] = {
#define GS_FREE_SCOPE(word, name, doc) word,
#include "gs_free_waits.def"
};

/* Returns the table of gs_free_waits.def. */
static inline struct gs_free_waits gs_free_waits_assumed(void)
{
    struct gs_free_waits waits;
    for (size_t i = 0; i < GS_FREE_CLASSES; i++) {
        waits.scope[i] = (uint8_t)gs_free_class_rows[i].scope;
    }
    return waits;
}

/* The work that a free of `bytes` waits for. */
static inline enum gs_free_scope gs_free_waits_of(const struct gs_free_waits *waits,
                                                  enum gs_free_kind kind, size_t bytes)
{
    enum gs_free_scope scope = GS_FREE_CONTEXT;
    for (size_t i = 0; i < GS_FREE_CLASSES; i++) {
        const struct gs_free_class_row *row = &gs_free_class_rows[i];
        if (row->kind_number == kind && bytes >= row->least_bytes) {
            scope = (enum gs_free_scope)waits->scope[i];
        }
    }
    return scope;
}

static inline bool gs_free_waits_is(const char *word, const char *text, size_t length)
{
    return strlen(word) == length && memcmp(word, text, length) == 0;
}

/* Returns true if the row has that name: "device", or "device.tiny". */
static inline bool gs_free_waits_names(const struct gs_free_class_row *row,
                                       const char *name, size_t length)
{
    size_t kind = strcspn(name, ".");
    if (kind >= length) {
        return gs_free_waits_is(row->kind, name, length);
    }
    return gs_free_waits_is(row->kind, name, kind) &&
           gs_free_waits_is(row->size, name + kind + 1, length - kind - 1);
}

/* Parses "SCOPE" or "CLASS=SCOPE". Returns false if the item is neither. */
static inline bool gs_free_waits_parse_item(struct gs_free_waits *waits, const char *item,
                                            size_t length)
{
    const char *sign = memchr(item, '=', length);
    const char *word = sign ? sign + 1 : item;
    size_t scope = 0, changed = 0;
    while (scope < GS_FREE_SCOPES && !gs_free_waits_is(gs_free_scope_words[scope], word,
                                                       length - (size_t)(word - item))) {
        scope++;
    }
    for (size_t i = 0; i < GS_FREE_CLASSES && scope < GS_FREE_SCOPES; i++) {
        if (!sign ||
            gs_free_waits_names(&gs_free_class_rows[i], item, (size_t)(sign - item))) {
            waits->scope[i] = (uint8_t)scope;
            changed++;
        }
    }
    return changed > 0;
}

/*
 * Replaces rows according to the text: "none", or "device.tiny=none,pinned=blocking".
 * Later items win. A text with a wrong item changes nothing. Returns NULL, or the wrong
 * item, of *length characters.
 */
static inline const char *gs_free_waits_parse(const char *text,
                                              struct gs_free_waits *waits, size_t *length)
{
    struct gs_free_waits read = *waits;
    const char *item = text;
    for (;; item += *length + 1) {
        *length = strcspn(item, ",");
        if (!gs_free_waits_parse_item(&read, item, *length)) {
            return item;
        }
        if (!item[*length]) {
            *waits = read;
            return NULL;
        }
    }
}

#endif
