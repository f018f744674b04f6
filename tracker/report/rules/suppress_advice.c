/*
 * suppress_advice.c - writes a ready rule for each printed leak, or for all of them.
 * Owns: nothing.   Lock: none.   Design: docs/suppressions.md
 */
#include "tracker/names/frame_kinds.h"
#include "tracker/report/report_internal.h"
#include "tracker/report/rules/suppress_files.h"

#include <stdio.h>
#include <stdlib.h>

#define PATTERN_BYTES GS_RULE_PATTERN_BYTES
/* Longer names of functions are shortened to the form that a reader would write, if at
 * least LETTERS_MIN letters remain. */
#define LONG_NAME   60u
#define LETTERS_MIN 6u
/* Template arguments of the function itself stay, if they are no longer than this. */
#define SHORT_ARGUMENTS 24u
/* Leaks beyond these numbers get no rule: in the report, and in a file. */
#define LEAKS_MAX      256u
#define LEAKS_MAX_FILE 1024u

/* Returns true for an extension module of Python: a binding layer allocates for all of
 * the program's functions. */
static bool is_extension(const char *name)
{
    return strstr(name, ".cpython-") || strstr(name, ".abi3.so");
}

/* Returns true for code of frameworks, the compiler and CUDA. A rule for one of its
 * functions would match far more than one leak. */
static bool is_foreign(const struct gs_symbol_request *frame)
{
    const char *module = gs_report_frame_module(frame);

    return gs_frame_kind(frame, module) == GS_FRAME_VENDOR ||
           gs_report_frame_is_carrier(frame) || gs_module_is_runtime(module) ||
           is_extension(module);
}

/* Returns true for a frame at the outer end of every stack, and for an inlined lambda,
 * which has no name of its own: a rule for it would match all leaks. */
static bool is_outermost(const struct gs_symbol_request *frame)
{
    static const char names[][24] = {
        "main",         "_start",    "__libc_start_main", "__libc_start_call_main",
        "start_thread", "operator()"};
    const char *function = frame->result.function;

    if (!function) {
        return false;
    }
    if (gs_frame_is_python(frame->frame)) { /* without a file: replaces other rules */
        return strcmp(function, "<module>") == 0 || !frame->result.file ||
               frame->result.file[0] == '\0';
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (strcmp(function, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns true if a rule for the frame would match this leak, but not most other leaks. A
 * frame with a function qualifies unless it is the outermost. A frame without one
 * qualifies by its module, if this is a library, but not that of the outermost frame,
 * which all stacks contain. */
static bool is_specific(const struct gs_shown_stack *stack,
                        const struct gs_symbol_request *frame)
{
    const char *module = gs_report_frame_module(frame);

    if (frame->result.function) {
        return !is_outermost(frame);
    }
    return strstr(module, ".so") && !is_extension(module) &&
           strcmp(module, gs_report_frame_module(&stack->frames[stack->count - 1])) != 0;
}

/* Returns the index of the innermost frame of the program's own code, else of the
 * innermost with a function; stack->count: a rule for any frame would match too much. */
static unsigned program_frame(const struct gs_shown_stack *stack)
{
    unsigned named = stack->count;

    for (unsigned i = 0; i < stack->count; i++) {
        const struct gs_symbol_request *frame = &stack->frames[i];
        if (!is_specific(stack, frame)) {
            continue;
        }
        if (!is_foreign(frame)) {
            return i;
        }
        if (named == stack->count && frame->result.function &&
            !is_extension(gs_report_frame_module(frame))) {
            named = i;
        }
    }
    return named;
}

/* Makes a pattern that matches the name literally: special characters become `*`. */
static void make_pattern(const char *name, char *out, size_t size)
{
    gs_report_clean(name, out, size);
    if (strlen(name) >= size) { /* the name was cut: "..." is not part of it */
        memcpy(out + strlen(out) - 3, "*", 2);
    }
    for (char *at = out; *at; at++) {
        if (*at == '^' || *at == '$' || *at == '?') {
            *at = '*';
        }
    }
}

/* ---- long names ------------------------------------------------------------------- */

/* Returns the text after the matching closing bracket. */
static const char *skip_brackets(const char *at)
{
    unsigned depth = 0;

    for (; *at; at++) {
        if (strchr("<({[", *at)) {
            depth++;
        } else if (strchr(">)}]", *at) && (at[-1] != '-' || *at != '>') && --depth == 0) {
            return at + 1;
        }
    }
    return at;
}

/* Returns the length of "operator" and its symbol, in which < and ( are no brackets. 0:
 * no such word. */
static size_t operator_length(const char *at)
{
    static const char word[] = "operator";
    size_t length = sizeof(word) - 1;

    if (strncmp(at, word, length) != 0) {
        return 0;
    }
    if (at[length] == ' ') {
        return length + 1;
    }
    if (strncmp(at + length, "()", 2) == 0) {
        return length + 2;
    }
    return length + strspn(at + length, "<>=-![]+*/%&|^~,");
}

/* Shortens "void* Pool<std::string>::get<int>(int, ...)" to "Pool<*>::get<*": drops the
 * result and the arguments, and replaces template arguments. */
static void shorten(const char *name, char *out, size_t size)
{
    static const char nameless[] = "(anonymous namespace)";
    size_t used = 0, length;

    for (const char *at = name; *at && used + 4 < size; at += length) {
        length = operator_length(at);
        if (length == 0 && strncmp(at, nameless, sizeof(nameless) - 1) == 0) {
            length = sizeof(nameless) - 1;
        }
        if (length != 0 && used + length < size) {
            memcpy(out + used, at, length);
            used += length;
            continue;
        }
        length = 1;
        if (*at == '(') {
            break;
        } else if (*at == ' ' && at[1] != '<') {
            used = 0; /* the text so far was the result type */
        } else if (*at == '<' || *at == '{') {
            length = (size_t)(skip_brackets(at) - at);
            if (length <= SHORT_ARGUMENTS && at[length] == '(' && used + length < size) {
                memcpy(out + used, at,
                       length); /* the function's own: they tell it apart */
                used += length;
                continue;
            }
            out[used++] = *at;
            out[used++] = '*';
            if (at[length] && at[length] != '(') {
                out[used++] = at[length - 1];
            }
        } else {
            out[used++] = *at;
        }
    }
    out[used] = '\0';
}

/* Counts the characters that a matching name must contain literally, without
 * punctuation. */
static size_t literal_length(const char *pattern)
{
    size_t count = 0;

    for (; *pattern; pattern++) {
        count += *pattern != '*' && *pattern != '<' && *pattern != '>' && *pattern != ':';
    }
    return count;
}

/* Writes the name without "[clone .isra.0]": the next build may have another number, or
 * no clone. */
static size_t length_without_clones(const char *name)
{
    const char *clone = strstr(name, " [clone ");

    return clone ? (size_t)(clone - name) : strlen(name);
}

static void make_short_pattern(const char *name, char *out)
{
    char shorter[PATTERN_BYTES];
    size_t length = length_without_clones(name);

    make_pattern(name, out, PATTERN_BYTES);
    if (name[length] != '\0' && length + 1 < PATTERN_BYTES && length < strlen(out)) {
        strcpy(out + length, "*");
    }
    if (length <= LONG_NAME) {
        return;
    }
    shorten(name, shorter, sizeof(shorter));
    make_pattern(shorter, shorter, sizeof(shorter));
    if (literal_length(shorter) >= LETTERS_MIN && gs_pattern_matches(shorter, name)) {
        strcpy(out, shorter);
    }
}

/* Anchors a pattern, so that it does not match longer names as well: "^step$" for step,
 * "^step(*" for step(int), "* Pool<*>::get<*" after a type that the function returns. */
static void anchor_pattern(const char *name, char out[PATTERN_BYTES])
{
    static const struct {
        char begin[4], end[3];
    } ways[] = {{"^", "$"}, {"^", "(*"}, {"^* ", "$"}, {"^* ", "(*"}, {"^", ""}};
    char anchored[PATTERN_BYTES + 8];

    for (size_t i = 0; i < GS_ARRAY_LEN(ways); i++) {
        size_t length = strlen(out);
        bool open = length > 0 && out[length - 1] == '*';
        if (length + 6 > PATTERN_BYTES || (open && ways[i].end[0] == '(')) {
            continue;
        }
        snprintf(anchored, sizeof(anchored), "%s%.*s%s", ways[i].begin, (int)length, out,
                 open ? "" : ways[i].end);
        if (gs_pattern_matches(anchored, name)) {
            strcpy(out, anchored);
            return;
        }
    }
}

static void make_anchored_pattern(const char *name, char *out)
{
    make_short_pattern(name, out);
    anchor_pattern(name, out);
}

/* ---- the rule of a leak -------------------------------------------------------------
 */

/* The most callers of a rule. */
#define CALLERS_MAX 4u

struct advice {
    char pattern[PATTERN_BYTES]; /* "": no rule is good for the leak */
    char file[PATTERN_BYTES];
    char from[CALLERS_MAX * 2 * PATTERN_BYTES + 1]; /* as gs_rule.from */
    size_t from_bytes;                              /* in use */
    unsigned callers;                               /* in `from` */
    uint64_t bytes; /* of the leaks that the rule takes, by the order of the rules */
    size_t same;    /* the leak whose rule takes this one; NO_RULE: none does */
};

#define NO_RULE SIZE_MAX

/* The rules of the first leaks, one each. */
struct advices {
    struct advice *all;
    size_t count;
    size_t *order; /* of those to be written, which leak's rule: the first one decides */
    size_t rules;
};

/* Adds a caller to the rule's from= patterns, which have no spaces. */
static void add_caller(struct advice *advice, struct gs_rule_functions *functions,
                       const struct gs_symbol *symbol)
{
    char *at = advice->from + advice->from_bytes;

    make_anchored_pattern(symbol->function, at);
    for (char *c = at; *c; c++) {
        if (*c == ' ') {
            *c = '*';
        }
    }
    at += strlen(at) + 1;
    gs_rule_functions_pattern(functions, symbol, at);
    at += strlen(at) + 1;
    *at = '\0';
    advice->from_bytes = (size_t)(at - advice->from);
    advice->callers++;
}

/* Returns true if the rule matches the leak of that number. */
static bool matches(const struct gs_report_writer *writer, size_t number,
                    const struct advice *advice)
{
    struct gs_shown_stack stack = gs_frame_table_show(
        writer->frames, writer->config, writer->data->groups.items[number].stack);

    for (unsigned i = 0; i < stack.count; i++) {
        if (gs_report_frame_matches(&stack.frames[i], advice->pattern) &&
            gs_pattern_matches_file(advice->file, stack.frames[i].result.file) &&
            gs_report_callers_match(&stack, i, advice->from)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the rule matches a leak of the first `count` other than `number`. */
static bool matches_another(const struct gs_report_writer *writer, size_t number,
                            size_t count, const struct advice *advice)
{
    for (size_t i = 0; i < count; i++) {
        if (i != number && matches(writer, i, advice)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the function of a frame has been seen since frame `first`: recursion.
 */
static bool is_repeated(const struct gs_shown_stack *stack, unsigned first, unsigned i)
{
    const char *function = stack->frames[i].result.function;

    for (unsigned k = first; k < i; k++) {
        if (stack->frames[k].result.function &&
            strcmp(stack->frames[k].result.function, function) == 0) {
            return true;
        }
    }
    return false;
}

/* The rule names the function and, of its callers in the program, the next one; more only
 * while the rule would match another leak. */
static void make_advice(const struct gs_report_writer *writer,
                        struct gs_rule_functions *functions, size_t number, size_t count,
                        struct advice *out)
{
    const struct gs_group *group = &writer->data->groups.items[number];
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, group->stack);
    unsigned i = program_frame(&stack), first = i, callers = 0;

    memset(out, 0, sizeof(*out));
    if (i == stack.count) {
        return;
    }
    make_anchored_pattern(stack.frames[i].result.function
                              ? stack.frames[i].result.function
                              : gs_report_frame_module(&stack.frames[i]),
                          out->pattern);
    gs_rule_functions_pattern(functions, &stack.frames[i].result, out->file);
    for (i++; i < stack.count && callers < CALLERS_MAX; i++) {
        const struct gs_symbol_request *frame = &stack.frames[i];
        if (!frame->result.function || is_outermost(frame) ||
            is_repeated(&stack, first, i) || is_foreign(frame)) {
            continue;
        }
        if (callers > 0 && !matches_another(writer, number, count, out)) {
            break;
        }
        add_caller(out, functions, &frame->result);
        callers++;
    }
}

/* Where no other rule is good, for a file alone: the innermost function of the program,
 * main say, or its module. It matches most leaks, stands last, and its cap lets no other
 * leak pass. */
static void make_last_advice(const struct gs_report_writer *writer, size_t number,
                             struct advice *out)
{
    struct gs_shown_stack stack = gs_frame_table_show(
        writer->frames, writer->config, writer->data->groups.items[number].stack);
    unsigned i = 0;

    while (i < stack.count && is_foreign(&stack.frames[i])) {
        i++;
    }
    if (i < stack.count) {
        const struct gs_symbol_request *frame = &stack.frames[i];
        make_anchored_pattern(frame->result.function ? frame->result.function
                                                     : gs_report_frame_module(frame),
                              out->pattern);
    }
}

static bool is_same(const struct advice *a, const struct advice *b)
{
    return a->from_bytes == b->from_bytes &&
           memcmp(a->from, b->from, a->from_bytes) == 0 &&
           strcmp(a->pattern, b->pattern) == 0 && strcmp(a->file, b->file) == 0;
}

/* Returns where the rule of a leak belongs among those in order: before the first one
 * that would take its leak, unless it would take that one's leak as well; SIZE_MAX: there
 * is the same rule. */
static size_t place_of(const struct gs_report_writer *writer,
                       const struct advices *advices, size_t number)
{
    const struct advice *all = advices->all;
    size_t place = advices->rules;

    for (size_t i = 0; i < advices->rules; i++) {
        size_t other = advices->order[i];
        if (is_same(&all[other], &all[number])) {
            return SIZE_MAX;
        }
        if (place == advices->rules && matches(writer, number, &all[other]) &&
            !matches(writer, other, &all[number])) {
            place = i;
        }
    }
    return place;
}

/* Adds the rule of a leak to those in order. */
static void place_rule(const struct gs_report_writer *writer, struct advices *advices,
                       size_t number)
{
    size_t place = place_of(writer, advices, number);

    if (place != SIZE_MAX) {
        memmove(&advices->order[place + 1], &advices->order[place],
                (advices->rules - place) * sizeof(advices->order[0]));
        advices->order[place] = number;
        advices->rules++;
    }
}

/* Gives each leak to the first rule that matches, as the next run will, and drops rules
 * that take none. */
static void take_leaks(const struct gs_report_writer *writer, struct advices *advices)
{
    size_t used = 0;

    for (size_t i = 0; i < advices->count; i++) {
        size_t rule = 0;
        while (rule < advices->rules &&
               !matches(writer, i, &advices->all[advices->order[rule]])) {
            rule++;
        }
        bool taken = rule < advices->rules;
        advices->all[i].same = taken ? advices->order[rule] : NO_RULE;
        if (taken) {
            advices->all[advices->order[rule]].bytes +=
                gs_group_shown_bytes(&writer->data->groups.items[i]);
        }
    }
    for (size_t i = 0; i < advices->rules; i++) {
        size_t leak = 0;
        while (leak < advices->count && advices->all[leak].same != advices->order[i]) {
            leak++;
        }
        if (leak < advices->count) {
            advices->order[used++] = advices->order[i];
        }
    }
    advices->rules = used;
}

/* The rules for the first `count` leaks, those of more callers first. `last`: also those
 * that match most leaks. Without memory there are none. */
static struct advices make_all(const struct gs_report_writer *writer, size_t count,
                               bool last)
{
    struct advices made = {.all = count ? calloc(count, sizeof(struct advice)) : NULL,
                           .order = count ? calloc(count, sizeof(size_t)) : NULL};
    struct gs_rule_functions functions;

    if (!made.all || !made.order) {
        return made;
    }
    made.count = count;
    gs_rule_functions_find(writer, &functions);
    for (size_t i = 0; i < count; i++) {
        make_advice(writer, &functions, i, count, &made.all[i]);
    }
    gs_rule_functions_free(&functions);
    for (unsigned callers = CALLERS_MAX + 1; callers-- > 0;) {
        for (size_t i = 0; i < count; i++) {
            if (made.all[i].pattern[0] && made.all[i].callers == callers) {
                place_rule(writer, &made, i);
            }
        }
    }
    for (size_t i = 0; last && i < count; i++) {
        if (!made.all[i].pattern[0]) {
            make_last_advice(writer, i, &made.all[i]);
            if (made.all[i].pattern[0] && place_of(writer, &made, i) != SIZE_MAX) {
                made.order[made.rules++] = i;
            }
        }
    }
    take_leaks(writer, &made);
    return made;
}

static void free_all(struct advices *advices)
{
    free(advices->all);
    free(advices->order);
}

/* The cap is the sum, so that a later leak through the same functions is reported; where
 * stacks are sampled, the sum is an estimate, and the rule has no cap. */
static void write_rule(const struct gs_report_writer *writer, const struct advice *advice,
                       struct gs_text *text)
{
    char size[32];

    gs_text_add(text, "leak:%s%s%s", advice->pattern, advice->file[0] ? " file=" : "",
                advice->file);
    for (const char *from = advice->from; *from; from += strlen(from) + 1) {
        gs_text_add(text, " from=%s", from);
        from += strlen(from) + 1;
        gs_text_add(text, "%s%s", from[0] ? " file=" : "", from);
    }
    if (!gs_tracker_is_sampled(writer->tracker)) {
        gs_text_add(text, " max_bytes=%s", gs_report_size(advice->bytes, size));
    }
    gs_text_add(text, "\n");
}

/* "1, 3", the leaks that a rule takes. */
static const char *list_leaks(const struct advices *advices, size_t rule, char out[160])
{
    size_t used = 0;

    for (size_t i = 0; i < advices->count && used + 24 < 160; i++) {
        if (advices->all[i].same == rule) {
            used += (size_t)snprintf(out + used, 160 - used, "%s%zu", used ? ", " : "",
                                     i + 1);
        }
    }
    return out;
}

static void write_rules(const struct gs_report_writer *writer,
                        const struct advices *advices)
{
    char leaks[160];

    if (advices->rules != 0) {
        gs_text_add(writer->text,
                    "%sTo suppress a LEAK, put its rule into a file and name the "
                    "file in GPUSHIM_SUPPRESSIONS:\n",
                    writer->prefix);
    }
    for (size_t i = 0; i < advices->rules; i++) {
        gs_text_add(writer->text, "%s  %s:  ", writer->prefix,
                    list_leaks(advices, advices->order[i], leaks));
        write_rule(writer, &advices->all[advices->order[i]], writer->text);
    }
}

void gs_report_advice(const struct gs_report_writer *writer)
{
    size_t count = writer->data->shown < LEAKS_MAX ? writer->data->shown : LEAKS_MAX;
    struct advices advices = make_all(writer, count, false);

    if (writer->config->show_pool || writer->config->rules) {
        write_rules(writer, &advices);
    } else if (advices.rules != 0 &&
               !gs_suppressions_need_names(writer->config->suppressions)) {
        gs_text_add(writer->text, /* who has files of rules needs no hint */
                    "%sTo suppress known leaks: GPUSHIM_WRITE_SUPPRESSIONS=FILE writes "
                    "their rules\n",
                    writer->prefix);
    }
    free_all(&advices);
}

void gs_report_rules(const struct gs_report_writer *writer, struct gs_text *out)
{
    size_t leaks = writer->data->leak_groups, without = 0;
    size_t count = leaks < LEAKS_MAX_FILE ? leaks : LEAKS_MAX_FILE;
    struct advices advices = make_all(writer, count, true);

    for (size_t i = 0; i < advices.rules; i++) {
        write_rule(writer, &advices.all[advices.order[i]], out);
    }
    for (size_t i = 0; i < advices.count; i++) {
        without += advices.all[i].same == NO_RULE;
    }
    without += leaks - advices.count;
    if (without != 0) {
        gs_text_add(out,
                    "# %zu call site%s without a rule: no function of the program in "
                    "the stack%s\n",
                    without, gs_report_plural(without),
                    leaks > advices.count ? ", or beyond the largest 1,024" : "");
    }
    free_all(&advices);
}
