/*
 * suppress_match.c - finds the rule that matches a text, among any number of rules.
 *
 * A rule's longest part without a `*` must occur literally in the text. Up to
 * GS_RULE_KEY_MAX of its last bytes are its key. A hash table holds the rules by their
 * keys, and every piece of the text with the length of some key is looked up there. Only
 * the rules found are compared in full.
 *
 * Owns: the look-up tables of a struct gs_suppressions.   Lock: none.
 */
#include "tracker/names/runtime_modules.h"
#include "tracker/report/rules/suppress_internal.h"

#include <stdlib.h>
#include <string.h>

#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/* ---- one pattern ------------------------------------------------------------------ */

/* A pattern without its anchors. */
struct body {
    const char *begin, *end;
    bool at_begin, at_end;
};

static struct body body_of(const char *pattern)
{
    struct body body = {.begin = pattern, .end = pattern + strlen(pattern)};

    if (body.begin < body.end && *body.begin == '^') {
        body.at_begin = true;
        body.begin++;
    }
    if (body.begin < body.end && body.end[-1] == '$') {
        body.at_end = true;
        body.end--;
    }
    return body;
}

/* Returns the end of the part that begins at `at`: the next `*`. */
static const char *part_end(const char *at, const char *end)
{
    const char *star = memchr(at, '*', (size_t)(end - at));

    return star ? star : end;
}

bool gs_pattern_matches(const char *pattern, const char *text)
{
    struct body body = body_of(pattern);
    const char *text_end = text + strlen(text);

    for (const char *part = body.begin;; part++) {
        const char *end = part_end(part, body.end);
        size_t length = (size_t)(end - part);
        bool held = body.at_begin && part == body.begin;

        if (end == body.end && body.at_end) {
            if ((size_t)(text_end - text) < length ||
                (held && (size_t)(text_end - text) != length)) {
                return false;
            }
            return memcmp(text_end - length, part, length) == 0;
        }
        const char *found =
            length ? memmem(text, (size_t)(text_end - text), part, length) : text;
        if (!found || (held && found != text)) {
            return false;
        }
        if (end == body.end) {
            return true;
        }
        text = found + length;
        part = end;
    }
}

bool gs_pattern_matches_file(const char *pattern, const char *path)
{
    if (!pattern[0]) {
        return true;
    }
    if (!path || !path[0]) {
        return false;
    }
    return gs_pattern_matches(pattern,
                              strchr(pattern, '/') ? path : gs_module_base_name(path));
}

/* ---- the look-up ------------------------------------------------------------------ */

static uint64_t extend(uint64_t hash, char c)
{
    return hash * HASH_FACTOR + (unsigned char)c + 1;
}

static size_t slot_of(const struct gs_suppressions *rules, uint64_t hash, unsigned length)
{
    hash ^= (uint64_t)length << 56;
    hash ^= hash >> 29;
    hash *= UINT64_C(0xbf58476d1ce4e5b9);
    return (size_t)(hash >> 32) & (rules->slot_count - 1);
}

/* Returns the first rule of a key, or the empty slot where the key belongs. */
static uint32_t *find_slot(const struct gs_suppressions *rules, uint64_t hash,
                           unsigned length)
{
    size_t slot = slot_of(rules, hash, length);

    while (rules->slots[slot] != 0) {
        const struct gs_rule_entry *entry = &rules->entries[rules->slots[slot] - 1];
        if (entry->key_hash == hash && entry->key_length == length) {
            break;
        }
        slot = (slot + 1) & (rules->slot_count - 1);
    }
    return &rules->slots[slot];
}

/* Chooses the longest literal part of the pattern as the key by which rules are indexed.
 */
static void make_key(struct gs_rule_entry *entry)
{
    struct body body = body_of(entry->rule.pattern);
    const char *best = body.begin;
    size_t best_length = 0;

    for (const char *part = body.begin; part < body.end; part++) {
        const char *end = part_end(part, body.end);
        if ((size_t)(end - part) > best_length) {
            best = part;
            best_length = (size_t)(end - part);
        }
        part = end;
        if (part == body.end) {
            break;
        }
    }
    if (best_length > GS_RULE_KEY_MAX) {
        best += best_length - GS_RULE_KEY_MAX;
        best_length = GS_RULE_KEY_MAX;
    }
    entry->key_length = (uint8_t)best_length;
    entry->key_hash = 0;
    for (size_t i = 0; i < best_length; i++) {
        entry->key_hash = extend(entry->key_hash, best[i]);
    }
    entry->slash = strchr(entry->rule.pattern, '/') != NULL;
    entry->next = GS_RULE_NONE;
}

void gs_suppressions_drop_index(struct gs_suppressions *rules)
{
    free(rules->slots);
    free(rules->keyless);
    free(rules->hashes);
    rules->slots = NULL;
    rules->hashes = NULL;
    rules->keyless = NULL;
    rules->keyless_count = 0;
    rules->length_count = 0;
    rules->indexed = false;
}

/* Builds the look-up. False without memory: then each rule is tried. */
static bool make_index(struct gs_suppressions *rules)
{
    bool lengths[GS_RULE_KEY_MAX + 1] = {false};

    gs_suppressions_drop_index(rules);
    for (rules->slot_count = 64; rules->slot_count < (size_t)rules->count * 2;) {
        rules->slot_count *= 2;
    }
    rules->slots = calloc(rules->slot_count, sizeof(*rules->slots));
    rules->keyless = calloc(rules->count ? rules->count : 1, sizeof(*rules->keyless));
    rules->hashes = calloc(GS_RULE_TEXT_MAX + 1, sizeof(*rules->hashes));
    rules->any_slash = false;
    rules->indexed = true;
    /* Adds the rules from the last to the first, so that the first rule of a key heads
     * its chain. */
    for (uint32_t i = rules->count; i-- > 0;) {
        struct gs_rule_entry *entry = &rules->entries[i];
        make_key(entry);
        rules->any_slash = rules->any_slash || entry->slash;
        lengths[entry->key_length] = true;
        if (!rules->slots || !rules->keyless || entry->key_length == 0) {
            continue;
        }
        uint32_t *slot = find_slot(rules, entry->key_hash, entry->key_length);
        entry->next = *slot ? *slot - 1 : GS_RULE_NONE;
        *slot = i + 1;
    }
    for (uint32_t i = 0; rules->keyless && i < rules->count; i++) {
        if (rules->entries[i].key_length == 0) {
            rules->keyless[rules->keyless_count++] = i;
        }
    }
    for (unsigned i = 1; i <= GS_RULE_KEY_MAX; i++) {
        if (lengths[i]) {
            rules->lengths[rules->length_count++] = (uint8_t)i;
        }
    }
    return rules->slots && rules->keyless && rules->hashes;
}

/* The query, and the best rule so far. */
struct search {
    enum gs_rule_kind kind;
    int device;
    bool any;   /* rules with a slash count, too */
    bool slash; /* if not `any`: only rules with, or only rules without a slash */
    const char *text;
    uint32_t least; /* rules with lower numbers are not wanted */
    uint32_t found;
};

static void try_rule(const struct gs_suppressions *rules, uint32_t number,
                     struct search *search)
{
    const struct gs_rule_entry *entry = &rules->entries[number];

    if (number < search->least || number >= search->found ||
        entry->rule.kind != search->kind ||
        (entry->rule.device >= 0 && entry->rule.device != search->device) ||
        (!search->any && entry->slash != search->slash)) {
        return;
    }
    if (gs_pattern_matches(entry->rule.pattern, search->text)) {
        search->found = number;
    }
}

static void try_all(const struct gs_suppressions *rules, struct search *search)
{
    for (uint32_t i = search->least; i < rules->count && search->found == GS_RULE_NONE;
         i++) {
        try_rule(rules, i, search);
    }
}

/* Looks up every piece of the text that has the length of some key. */
static void try_pieces(const struct gs_suppressions *rules, struct search *search,
                       size_t length)
{
    uint64_t *hashes = rules->hashes; /* of the text's first i bytes */

    hashes[0] = 0;
    for (size_t i = 0; i < length; i++) {
        hashes[i + 1] = extend(hashes[i], search->text[i]);
    }
    for (unsigned k = 0; k < rules->length_count; k++) {
        unsigned piece = rules->lengths[k];
        uint64_t power = 1;
        for (unsigned i = 0; i < piece; i++) {
            power *= HASH_FACTOR;
        }
        for (size_t i = 0; i + piece <= length; i++) {
            uint64_t hash = hashes[i + piece] - hashes[i] * power;
            uint32_t number = *find_slot(rules, hash, piece);
            for (number--; number != GS_RULE_NONE && number < search->found;
                 number = rules->entries[number].next) {
                try_rule(rules, number, search);
            }
        }
    }
    for (uint32_t i = 0; i < rules->keyless_count; i++) {
        try_rule(rules, rules->keyless[i], search);
    }
}

static void search_text(const struct gs_suppressions *rules, struct search *search)
{
    size_t length = strlen(search->text);

    if (length == 0) {
        return;
    }
    if (rules->count <= GS_RULE_FEW || length > GS_RULE_TEXT_MAX || !rules->slots ||
        !rules->keyless || !rules->hashes) {
        try_all(rules, search);
    } else {
        try_pieces(rules, search, length);
    }
}

uint32_t gs_suppressions_find(struct gs_suppressions *rules, enum gs_rule_kind kind,
                              int device, enum gs_rule_text what, const char *text,
                              uint32_t least)
{
    struct search search = {.kind = kind,
                            .device = device,
                            .text = text,
                            .least = least,
                            .found = GS_RULE_NONE};

    if (!rules || rules->count == 0 || !text) {
        return GS_RULE_NONE;
    }
    if (!rules->indexed) {
        (void)make_index(rules);
    }
    search.any = what == GS_RULE_TEXT_NAME;
    if (what == GS_RULE_TEXT_NAME) {
        search_text(rules, &search);
        return search.found;
    }
    const char *slash = strrchr(text, '/');
    if (rules->any_slash) { /* the whole path */
        uint32_t first;
        search.slash = true;
        search_text(rules, &search);
        first = search.found;
        search.found = GS_RULE_NONE;
        search.slash = false;
        search.text = slash ? slash + 1 : text;
        search_text(rules, &search);
        return first < search.found ? first : search.found;
    }
    search.text = slash ? slash + 1 : text;
    search_text(rules, &search);
    return search.found;
}
