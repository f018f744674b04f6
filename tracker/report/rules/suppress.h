/*
 * suppress.h - rules that suppress known leaks, wrong frees and wrong uses, and rules
 * that a program has to keep: budgets and denied calls.
 *
 * The grammar is that of LeakSanitizer's files, with caps and more kinds of rules
 * (docs/suppressions.md). The first rule that matches decides, in the order of addition;
 * each peak: and deny: rule is judged on its own.
 *
 * Locks: none; one thread adds rules, later one thread at a time looks them up.
 */
#ifndef GS_SUPPRESS_H
#define GS_SUPPRESS_H

#include "gs_base.h"
#include "tracker/phases.h"
#include "tracker/report/text/text.h"

struct gs_suppressions;

enum gs_rule_kind {
    GS_RULE_LEAK,
    GS_RULE_FREE,
    GS_RULE_OVERRUN, /* damaged memory: after an allocation, or after its free */
    GS_RULE_ARG,     /* wrong arguments of copies and sets */
    GS_RULE_PEAK,    /* a budget of memory at the process's peak: budgets.c */
    GS_RULE_DENY,    /* calls that may not be made: budgets.c */
    GS_RULE_KINDS
};

/* The word before the colon. */
const char *gs_rule_kind_name(enum gs_rule_kind kind);

/* The most from= patterns of a rule. */
#define GS_RULE_FROM_MAX 8u

/* No rule; also the caps that are not set. */
#define GS_RULE_NONE UINT32_MAX
#define GS_RULE_ANY  UINT64_MAX

struct gs_rule {
    enum gs_rule_kind kind;
    const char *pattern; /* as written, without kind and settings */
    const char *file;    /* pattern of the source file of that frame; "": any */
    const char *from;    /* patterns of callers, innermost first, each with that of its
                          * file: "a\0\0b\0b.c\0\0"; NULL: none */
    int device;          /* < 0: any */
    uint64_t max_count, max_bytes; /* GS_RULE_ANY: no cap */
    const char *not_from;          /* of deny: patterns, "a\0b\0\0"; NULL: none */
    const char *after;             /* of deny, as written; NULL: from the start */
    uint8_t phase;                 /* the bit of `after` (phases.h); 0: none */
    const char *source;            /* the file's name as given; NULL: built in */
    unsigned line;                 /* in it, from 1 */
};

/* Reports the fault in a line of a file: one sentence without a full stop. */
typedef void (*gs_rule_problem)(void *self, unsigned line, const char *what);

/* The fault of a line that is a rule of another sanitizer. */
extern const char gs_rule_foreign[];

/* Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_suppressions_create(struct gs_suppressions **out) GS_MUST_USE;
void gs_suppressions_destroy(struct gs_suppressions *rules); /* NULL is allowed */

/*
 * Appends a file's rules. Reports a malformed line to `problem` and skips it.
 * In:     source  the name to show; copied
 *         text    any bytes, `length` of them
 * Errors: GS_ERR_HOST_NOMEM  rules from some line on are missing
 */
enum gs_status gs_suppressions_add(struct gs_suppressions *rules, const char *source,
                                   const char *text, size_t length,
                                   gs_rule_problem problem, void *self) GS_MUST_USE;

/* Adds the rules of suppressions.def.
 * Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_suppressions_add_builtin(struct gs_suppressions *rules) GS_MUST_USE;
/* Prints the same rules as the text of a file. */
void gs_suppressions_print_builtin(struct gs_text *text);

uint32_t gs_suppressions_count(const struct gs_suppressions *rules); /* NULL: 0 */
/* Returns true if there are rules other than the built-in ones. Only those need functions
 * and files. */
bool gs_suppressions_need_names(const struct gs_suppressions *rules);
const struct gs_rule *gs_suppressions_rule(const struct gs_suppressions *rules,
                                           uint32_t number);
/* Returns true if there is a rule of the kind. NULL: there is none. */
bool gs_suppressions_has(const struct gs_suppressions *rules, enum gs_rule_kind kind);
/* The conditions of the deny: rules; they live as long as the rules. */
struct gs_phases *gs_suppressions_phases(struct gs_suppressions *rules);

/* The texts that rules are compared with. */
enum gs_rule_text {
    GS_RULE_TEXT_NAME, /* a function */
    GS_RULE_TEXT_PATH  /* a file: its base name, or the whole path for rules with a
                        * slash */
};

/*
 * Finds the first rule of a kind, numbered `least` or higher, whose pattern matches a
 * text, for an allocation on `device`. The caller compares the callers (from). The
 * first call prepares the look-up. The time of later calls grows with the length of the
 * text, not with the number of rules.
 * In:  text  NULL and "" match nothing
 * Returns its number, GS_RULE_NONE if there is none.
 */
uint32_t gs_suppressions_find(struct gs_suppressions *rules, enum gs_rule_kind kind,
                              int device, enum gs_rule_text what, const char *text,
                              uint32_t least);

/* Returns true if a pattern of files matches a path: its base name, or all of it for a
 * pattern with a slash. A path that is NULL or "" matches no pattern, but "". */
bool gs_pattern_matches_file(const char *pattern, const char *path);

/* Returns true if the pattern matches, as in LeakSanitizer: anywhere in the text; `*` is
 * any characters; `^` at the start and `$` at the end anchor it. */
bool gs_pattern_matches(const char *pattern, const char *text);

#endif
