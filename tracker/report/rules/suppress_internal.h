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

struct gs_rule_string {
    struct gs_rule_string *next;
    char text[];
};

struct gs_suppressions {
    struct gs_rule_entry *entries;
    uint32_t count, capacity;
    uint32_t of_files; /* number of rules that are not built in */
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

void gs_suppressions_drop_index(struct gs_suppressions *rules);

#endif
