/*
 * suppress_report.c - applies the rules to the report's contents, and prints the result.
 *
 * A rule's caps apply to the sum of all its matches; where stacks are sampled, to the
 * estimate. If the caps are exceeded nothing is suppressed: the known part cannot be
 * distinguished from the rest.
 *
 * Owns: the sums by rule while they are made.   Lock: none.
 * Design: docs/suppressions.md
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker/stacks/scopes.h"

/* Frames recur, so the result for a name is cached by the name's address. */
#define KNOWN_NAMES 4096u

struct known_name {
    const char *text; /* NULL: unused */
    int device;
    uint8_t kind, what;
    uint32_t rule;
};

struct matcher {
    struct gs_suppressions *rules;
    const struct gs_report_config *config;
    const struct gs_report_source *source;
    const struct gs_frame_table *frames; /* NULL: modules alone decide */
    const struct gs_stacks *stacks;
    struct known_name *known; /* NULL: no memory for it */
};

static uint32_t rule_for_text(const struct matcher *matcher, enum gs_rule_kind kind,
                              int device, enum gs_rule_text what, const char *text)
{
    size_t slot = ((uintptr_t)text * UINT64_C(0x9e3779b97f4a7c15) >> 40) % KNOWN_NAMES;
    struct known_name *known = matcher->known ? &matcher->known[slot] : NULL;

    if (!text) {
        return GS_RULE_NONE;
    }
    if (known && known->text == text && known->device == device && known->kind == kind &&
        known->what == what) {
        return known->rule;
    }
    uint32_t rule = gs_suppressions_find(matcher->rules, kind, device, what, text, 0);
    if (known) {
        *known = (struct known_name){.text = text,
                                     .device = device,
                                     .kind = (uint8_t)kind,
                                     .what = (uint8_t)what,
                                     .rule = rule};
    }
    return rule;
}

static uint32_t lower(uint32_t a, uint32_t b)
{
    return a < b ? a : b; /* GS_RULE_NONE is the highest */
}

/* The path of a frame's module; NULL: not known. */
static const char *module_path(const struct gs_symbol_request *frame)
{
    return frame->module && frame->module->path ? frame->module->path
                                                : frame->result.module;
}

bool gs_report_scope_matches(const char *path, size_t length, const char *pattern)
{
    return gs_scopes_path_matches(path, length, pattern, gs_pattern_matches);
}

/* The same of a frame, which is "[scope step/forward]" for scopes. */
static bool matches_scope(const struct gs_symbol_request *frame, const char *pattern)
{
    static const char prefix[] = "[scope ";
    const char *name = frame->result.function;

    if (!gs_frame_is_scope(frame->frame) || !name ||
        strncmp(name, prefix, strlen(prefix)) != 0) {
        return false;
    }
    name += strlen(prefix);
    return gs_report_scope_matches(name, strlen(name) - 1, pattern);
}

bool gs_report_frame_matches(const struct gs_symbol_request *frame, const char *pattern)
{
    const char *module = module_path(frame), *file = frame->result.file;
    const char *const texts[] = {frame->result.function, file, module};
    bool whole = strchr(pattern, '/') != NULL;

    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        const char *text = texts[i], *slash = text ? strrchr(text, '/') : NULL;
        if (i > 0 && slash && !whole) {
            text = slash + 1;
        }
        if (text && text[0] && gs_pattern_matches(pattern, text)) {
            return true;
        }
    }
    return matches_scope(frame, pattern);
}

bool gs_report_callers_match(const struct gs_shown_stack *shown, unsigned callee,
                             const char *from)
{
    unsigned i = callee + 1;

    for (const char *file; *from; from = file + strlen(file) + 1) {
        file = from + strlen(from) + 1;
        while (i < shown->count &&
               !(gs_report_frame_matches(&shown->frames[i], from) &&
                 gs_pattern_matches_file(file, shown->frames[i].result.file))) {
            i++;
        }
        if (i++ >= shown->count) {
            return false;
        }
    }
    return true;
}

/* Whether a rule whose pattern matches a frame matches its file and callers, too. Without
 * names only rules without these do. */
static bool matches_rest(const struct gs_rule *rule, const struct gs_shown_stack *shown,
                         unsigned i)
{
    if (!rule->from && !rule->file[0]) {
        return true;
    }
    return shown && gs_pattern_matches_file(rule->file, shown->frames[i].result.file) &&
           (!rule->from || gs_report_callers_match(shown, i, rule->from));
}

/* Returns the rule for a text of a frame whose file and callers match, too. */
static uint32_t rule_for_frame(const struct matcher *matcher, enum gs_rule_kind kind,
                               int device, enum gs_rule_text what, const char *text,
                               const struct gs_shown_stack *shown, unsigned i)
{
    uint32_t rule = rule_for_text(matcher, kind, device, what, text);

    while (rule != GS_RULE_NONE &&
           !matches_rest(gs_suppressions_rule(matcher->rules, rule), shown, i)) {
        rule = gs_suppressions_find(matcher->rules, kind, device, what, text, rule + 1);
    }
    return rule;
}

/* Returns the rule for the function, file and module of the frames that the report
 * shows. */
static uint32_t rule_for_shown(const struct matcher *matcher, enum gs_rule_kind kind,
                               int device, uint32_t stack)
{
    struct gs_shown_stack shown =
        gs_frame_table_show(matcher->frames, matcher->config, stack);
    uint32_t rule = GS_RULE_NONE;

    shown.frames -= shown.inner; /* a rule may name a framework's function */
    shown.count += shown.inner;
    for (unsigned i = 0; i < shown.count; i++) {
        const struct gs_symbol_request *frame = &shown.frames[i];
        rule = lower(rule, rule_for_frame(matcher, kind, device, GS_RULE_TEXT_NAME,
                                          frame->result.function, &shown, i));
        rule = lower(rule, rule_for_frame(matcher, kind, device, GS_RULE_TEXT_PATH,
                                          frame->result.file, &shown, i));
        rule = lower(rule, rule_for_frame(matcher, kind, device, GS_RULE_TEXT_PATH,
                                          module_path(frame), &shown, i));
    }
    return rule;
}

/* Returns the rule for the modules of the frames. Needs no names, so it is affordable for
 * every stack. */
static uint32_t rule_for_modules(const struct matcher *matcher, enum gs_rule_kind kind,
                                 int device, uint32_t stack)
{
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    unsigned count = gs_report_stack_frames(matcher->stacks, stack, frames);
    uint32_t rule = GS_RULE_NONE;
    struct gs_module module = {0};

    for (unsigned i = 0; i < count; i++) {
        /* Most frames are in the module of the one before, which was asked for. */
        if (frames[i] - 1 >= module.begin && frames[i] - 1 < module.end) {
            continue;
        }
        if (matcher->source->module(matcher->source->self, stack, frames[i], &module) ==
            GS_OK) {
            rule = lower(rule, rule_for_frame(matcher, kind, device, GS_RULE_TEXT_PATH,
                                              module.path, NULL, 0));
        }
    }
    return rule;
}

static uint32_t find_rule(const struct matcher *matcher, enum gs_rule_kind kind,
                          int device, uint32_t stack)
{
    return matcher->frames ? rule_for_shown(matcher, kind, device, stack)
                           : rule_for_modules(matcher, kind, device, stack);
}

/* ---- caps ------------------------------------------------------------------------- */

static void count_for(struct gs_rule_use *use, uint64_t count, uint64_t bytes)
{
    use->count += count;
    use->bytes += bytes;
}

static void count_group(struct gs_rule_use *use, const struct gs_group *group)
{
    count_for(use, gs_group_shown_count(group), gs_group_shown_bytes(group));
}

/* Clears a rule whose caps are exceeded. Groups and errors number rules from 1; 0:
 * none. */
static void apply_caps(const struct gs_report_data *data,
                       const struct gs_suppressions *rules, uint32_t *suppressed_by,
                       uint32_t *beyond_rule)
{
    const struct gs_rule *rule;
    const struct gs_rule_use *use;

    if (*suppressed_by == 0) {
        return;
    }
    rule = gs_suppressions_rule(rules, *suppressed_by - 1);
    use = &data->uses[*suppressed_by - 1];
    if (use->count > rule->max_count || use->bytes > rule->max_bytes) {
        *beyond_rule = *suppressed_by;
        *suppressed_by = 0;
    }
}

/* Moves suppressed groups after the others; both keep their order. */
static void move_suppressed(struct gs_report_data *data)
{
    size_t count = data->groups.count, kept = 0, behind = 0;
    struct gs_group *items = data->groups.items;
    struct gs_group *moved = malloc(count * sizeof(*moved));

    if (!moved) { /* no memory: suppress nothing, rather than a part */
        for (size_t i = 0; i < count; i++) {
            items[i].suppressed_by = items[i].cached_by = 0;
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (items[i].suppressed_by == 0 && items[i].cached_by == 0) {
            items[kept++] = items[i];
        } else {
            moved[behind++] = items[i];
        }
    }
    memcpy(items + kept, moved, behind * sizeof(*moved));
    data->leak_groups = kept;
    free(moved);
}

static void subtract_suppressed(struct gs_report_data *data)
{
    for (size_t i = data->leak_groups; i < data->groups.count; i++) {
        const struct gs_group *group = &data->groups.items[i];
        *(group->cached_by ? &data->cached_bytes : &data->suppressed_bytes) +=
            gs_group_weight(group);
        *(group->cached_by ? &data->cached_count : &data->suppressed_count) +=
            group->count;
    }
    data->leaked_bytes -= data->suppressed_bytes + data->cached_bytes;
    data->leaked_count -= data->suppressed_count + data->cached_count;
    data->grouped_bytes -= data->suppressed_bytes + data->cached_bytes;
    data->grouped_count -= data->suppressed_count + data->cached_count;
}

/* For damage the owner of the memory is known, the writer is not: the rule is compared
 * with the allocation's stack. */
static uint32_t rule_for_error(const struct matcher *matcher,
                               const struct gs_error *error)
{
    if (error->kind ==
        GS_ERROR_NOT_IDLE) { /* the library's own fault, not the program's */
        return GS_RULE_NONE;
    }
    if (gs_error_is_damage(error)) {
        return find_rule(matcher, GS_RULE_OVERRUN, error->device,
                         error->allocation.stack);
    }
    return find_rule(matcher, gs_error_is_use(error) ? GS_RULE_ARG : GS_RULE_FREE,
                     error->device, error->freed.stack);
}

static void check_all(const struct matcher *matcher, struct gs_report_data *data)
{
    for (size_t i = 0; i < data->groups.count; i++) {
        struct gs_group *group = &data->groups.items[i];
        uint32_t rule =
            group->cached_by == 0
                ? find_rule(matcher, GS_RULE_LEAK, group->device, group->stack)
                : GS_RULE_NONE; /* no leak: no cap of a rule counts it */
        if (rule != GS_RULE_NONE) {
            group->suppressed_by = rule + 1;
            count_group(&data->uses[rule], group);
        }
    }
    for (size_t i = 0; i < data->errors_kept; i++) {
        struct gs_error *error = &data->errors[i];
        uint32_t rule = rule_for_error(matcher, error);
        if (rule != GS_RULE_NONE) {
            error->suppressed_by = rule + 1;
            count_for(&data->uses[rule], 1, 0);
        }
    }
}

/* Marks what the rules match and their caps allow. */
static void apply_rules(struct matcher *matcher, struct gs_report_data *data)
{
    uint32_t count = gs_suppressions_count(matcher->rules);

    if (count == 0 || !(data->uses = calloc(count, sizeof(*data->uses)))) {
        return;
    }
    matcher->known = calloc(KNOWN_NAMES, sizeof(*matcher->known));
    check_all(matcher, data);
    free(matcher->known);
    for (size_t i = 0; i < data->groups.count; i++) {
        apply_caps(data, matcher->rules, &data->groups.items[i].suppressed_by,
                   &data->groups.items[i].beyond_rule);
    }
    for (size_t i = 0; i < data->errors_kept; i++) {
        struct gs_error *error = &data->errors[i];
        apply_caps(data, matcher->rules, &error->suppressed_by, &error->beyond_rule);
        data->suppressed_errors += error->suppressed_by != 0 ? 1 + error->repeats : 0;
    }
}

void gs_report_suppress(const struct gs_tracker *tracker,
                        const struct gs_report_config *config,
                        const struct gs_report_source *source,
                        const struct gs_frame_table *frames, struct gs_report_data *data)
{
    struct matcher matcher = {.rules = config->suppressions,
                              .config = config,
                              .source = source,
                              .frames = frames,
                              .stacks = tracker->config.stacks};

    if (data->groups.count == 0 && data->errors_kept == 0) {
        return;
    }
    if (gs_suppressions_need_names(matcher.rules)) {
        gs_report_find_cached(tracker, config, source, true, data);
    }
    apply_rules(&matcher, data);
    gs_report_find_cached(tracker, config, source, false, data);
    if (data->groups.count > 0) {
        move_suppressed(data);
    }
    subtract_suppressed(data);
    if (data->groups.count > data->leak_groups) {
        gs_report_suppress_share(data);
    }
}

/* ---- output ----------------------------------------------------------------------- */

const char *gs_report_size(uint64_t bytes, char out[32])
{
    unsigned unit = 0;

    while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, 32, "%llu%.*s", (unsigned long long)bytes, unit > 0, &"\0KMGT"[unit]);
    return out;
}

/* Adds a setting to a rule's text, if it is there and fits. */
static void add_setting(char caps[240], size_t *length, const char *name,
                        const char *pattern)
{
    char clean[64];

    gs_report_clean(pattern, clean, sizeof(clean));
    if (pattern[0] && *length + strlen(name) + strlen(clean) < 160) {
        *length += (size_t)snprintf(caps + *length, 240 - *length, "%s%s", name, clean);
    }
}

const char *gs_report_rule_text(const struct gs_rule *rule, char *out, size_t size)
{
    char pattern[160], source[160], caps[240] = "", bytes[32];
    size_t length = 0;

    add_setting(caps, &length, " file=", rule->file);
    for (const char *from = rule->from; from && *from; from += strlen(from) + 1) {
        add_setting(caps, &length, " from=", from);
        from += strlen(from) + 1;
        add_setting(caps, &length, " file=", from);
    }
    for (const char *from = rule->not_from; from && *from; from += strlen(from) + 1) {
        add_setting(caps, &length, " not_from=", from);
    }
    if (rule->after) {
        add_setting(caps, &length, " after=", rule->after);
    }
    if (rule->max_count != GS_RULE_ANY) {
        length +=
            (size_t)snprintf(caps + length, sizeof(caps) - length, " max_count=%llu",
                             (unsigned long long)rule->max_count);
    }
    if (rule->max_bytes != GS_RULE_ANY) {
        length += (size_t)snprintf(caps + length, sizeof(caps) - length, " max_bytes=%s",
                                   gs_report_size(rule->max_bytes, bytes));
    }
    if (rule->device >= 0) {
        snprintf(caps + length, sizeof(caps) - length, " device=%d", rule->device);
    }
    gs_report_clean(rule->pattern, pattern, sizeof(pattern));
    gs_report_clean(rule->source, source, sizeof(source));
    int printed =
        rule->source
            ? snprintf(out, size, "%s:%s%s (%s:%u)", gs_rule_kind_name(rule->kind),
                       pattern, caps, source, rule->line)
            : snprintf(out, size, "leak:%s%s (built-in)", pattern, caps);
    if (printed < 0) {
        out[0] = '\0';
    }
    return out;
}

/* Returns "about " if the matched memory is an estimate. */
static const char *estimate_prefix(const struct gs_report_writer *writer,
                                   const struct gs_rule *rule)
{
    return rule->kind == GS_RULE_LEAK && gs_tracker_is_sampled(writer->tracker) ? "about "
                                                                                : "";
}

void gs_report_beyond(const struct gs_report_writer *writer, uint32_t rule)
{
    char text[512], bytes[24], count[32];

    if (rule == 0) {
        return;
    }
    const struct gs_rule_use *use = &writer->data->uses[rule - 1];
    const struct gs_rule *of =
        gs_suppressions_rule(writer->config->suppressions, rule - 1);
    gs_text_add(writer->text, "%s  not suppressed: %s%s", writer->prefix,
                estimate_prefix(writer, of), gs_text_count(use->count, count));
    if (of->kind == GS_RULE_LEAK) {
        gs_text_add(writer->text, " allocation%s of %s", gs_report_plural(use->count),
                    gs_text_bytes(use->bytes, bytes));
    } else {
        gs_text_add(writer->text, " error%s", gs_report_plural(use->count));
    }
    gs_text_add(writer->text, " in all, more than %s allows\n",
                gs_report_rule_text(of, text, sizeof(text)));
}

/* Returns true if the rule was used and its matches are within its caps. */
static bool took_effect(const struct gs_report_data *data, const struct gs_rule *rule,
                        uint32_t number)
{
    const struct gs_rule_use *use = &data->uses[number];

    return use->count != 0 && use->count <= rule->max_count &&
           use->bytes <= rule->max_bytes;
}

static void write_uses(const struct gs_report_writer *writer)
{
    const struct gs_suppressions *rules = writer->config->suppressions;
    char text[512], bytes[24], count[32];

    for (uint32_t i = 0; i < gs_suppressions_count(rules); i++) {
        const struct gs_rule *rule = gs_suppressions_rule(rules, i);
        const struct gs_rule_use *use = &writer->data->uses[i];
        if (!took_effect(writer->data, rule, i)) {
            continue;
        }
        gs_text_add(writer->text, "%s  %8s %9s  %s\n", writer->prefix,
                    gs_text_count(use->count, count),
                    rule->kind == GS_RULE_LEAK ? gs_text_bytes(use->bytes, bytes)
                                               : "error",
                    gs_report_rule_text(rule, text, sizeof(text)));
    }
}

void gs_report_suppressed(const struct gs_report_writer *writer)
{
    const struct gs_report_data *data = writer->data;
    const struct gs_suppressions *rules = writer->config->suppressions;
    uint64_t of_files = 0, built_in = 0;
    char bytes[24], count[32], number[32];
    const char *between = "";

    if (data->suppressed_count == 0 && data->suppressed_errors == 0) {
        return;
    }
    for (uint32_t i = 0; i < gs_suppressions_count(rules); i++) {
        const struct gs_rule *rule = gs_suppressions_rule(rules, i);
        if (took_effect(data, rule, i)) {
            *(rule->source ? &of_files : &built_in) += 1;
        }
    }
    gs_text_add(writer->text, "%sSuppressed: ", writer->prefix);
    if (data->suppressed_errors != 0) {
        gs_text_add(writer->text, "%s error%s",
                    gs_text_count(data->suppressed_errors, count),
                    gs_report_plural(data->suppressed_errors));
        between = ", ";
    }
    if (data->suppressed_count != 0) {
        gs_text_add(writer->text, "%s%s allocation%s, %s", between,
                    gs_text_count(data->suppressed_count, count),
                    gs_report_plural(data->suppressed_count),
                    gs_text_bytes(data->suppressed_bytes, bytes));
    }
    between = " by ";
    if (of_files != 0) {
        gs_text_add(writer->text, "%s%s rule%s", between, gs_text_count(of_files, number),
                    gs_report_plural(of_files));
        between = " and ";
    }
    if (built_in != 0) {
        gs_text_add(writer->text, "%s%s built-in rule%s", between,
                    gs_text_count(built_in, number), gs_report_plural(built_in));
    }
    if (data->shared_count != 0) {
        gs_text_add(
            writer->text,
            " (of these %s without a call stack, in proportion to those with one)",
            gs_text_count(data->shared_count, count));
    }
    gs_text_add(writer->text, "\n");
    if (writer->config->show_devices) {
        write_uses(writer);
    }
}

void gs_report_live_suppressed(const struct gs_report_writer *writer, unsigned row)
{
    const struct gs_report_data *data = writer->data;
    struct gs_rule_use kept = {0}, other = {0};
    char bytes[24], count[32];

    for (size_t i = data->leak_groups; i < data->groups.count; i++) {
        const struct gs_group *group = &data->groups.items[i];
        if (group->lost || group->suppressed_by == 0 ||
            gs_totals_row(group->device, group->kind) != row) {
            continue;
        }
        const struct gs_rule *rule =
            gs_suppressions_rule(writer->config->suppressions, group->suppressed_by - 1);
        count_group(rule->source ? &other : &kept, group);
    }
    if (kept.count != 0) {
        gs_text_add(writer->text, "  (kept by libraries %s in %s)",
                    gs_text_bytes(kept.bytes, bytes), gs_text_count(kept.count, count));
    }
    if (other.count != 0) {
        gs_text_add(writer->text, "  (suppressed %s in %s)",
                    gs_text_bytes(other.bytes, bytes), gs_text_count(other.count, count));
    }
}
