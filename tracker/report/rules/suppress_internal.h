/*
 * suppress_internal.h - the stored rules, and their look-up.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_SUPPRESS_INTERNAL_H
#define GS_SUPPRESS_INTERNAL_H

#include "tracker/report/rules/suppress.h"

/* A rule's key has at most this many bytes of its longest part without a `*`. */
#define GS_RULE_KEY_MAX 24u
/* With fewer rules, or for a longer text, each rule is tried. */
#define GS_RULE_FEW      16u
#define GS_RULE_TEXT_MAX 4096u

struct gs_rule_entry {
    struct gs_rule rule;
    uint64_t key_hash;
    uint32_t next;      /* next rule with this key, with a higher number */
    uint8_t key_length; /* 0: none, the rule is always tried */
    bool slash;         /* the pattern has a slash: compared with whole paths */
};

/* A part of a line. */
struct gs_rule_span {
    const char *begin, *end;
};

/* A line, as far as it is read. */
struct gs_rule_parsed {
    struct gs_rule rule;
    struct gs_rule_span pattern, file;
    struct gs_rule_span from[GS_RULE_FROM_MAX]; /* outermost first, as they are read */
    struct gs_rule_span from_files[GS_RULE_FROM_MAX];
    struct gs_rule_span not_from[GS_RULE_FROM_MAX];
    struct gs_rule_span after; /* begin NULL: not given */
    struct gs_rule_span wrong; /* the setting that has the fault; begin NULL: none has */
    uint64_t after_ns;         /* if after_is_time */
    unsigned from_count, not_from_count;
    bool after_is_time;
};

struct gs_rule_string {
    struct gs_rule_string *next;
    char text[];
};

struct gs_suppressions {
    struct gs_rule_entry *entries;
    uint32_t count, capacity;
    uint32_t of_files; /* number of rules that are not built in */
    uint32_t of_kind[GS_RULE_KINDS];
    struct gs_phases phases; /* of deny: rules */
    struct gs_rule_string *strings;
    /* The look-up; built at its first use, dropped when a rule is added. */
    bool indexed;
    bool any_slash;
    uint32_t *slots; /* open-addressed: first rule of a key + 1, 0 = empty */
    size_t slot_count;
    uint64_t *hashes;  /* space for the hashes of a text */
    uint32_t *keyless; /* rules without a key, ascending */
    uint32_t keyless_count;
    uint8_t lengths[GS_RULE_KEY_MAX]; /* key lengths in use */
    unsigned length_count;
};

static inline size_t gs_rule_length(struct gs_rule_span span)
{
    return (size_t)(span.end - span.begin);
}
struct gs_rule_span gs_rule_trim(struct gs_rule_span span);
bool gs_rule_equals(struct gs_rule_span span, const char *text);
/* Parses `word=value`, a form that no function's last word has. Sets *name and *value. */
bool gs_rule_is_setting(struct gs_rule_span word, struct gs_rule_span *name,
                        struct gs_rule_span *value);
/* Takes the settings off the pattern's end. Returns NULL, or the fault. */
const char *gs_rule_take_settings(struct gs_rule_parsed *parsed);

void gs_suppressions_drop_index(struct gs_suppressions *rules);

#endif
