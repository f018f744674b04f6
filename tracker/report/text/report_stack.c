/*
 * report_stack.c - prints a call stack: one line per frame, repeats and runs of frames of
 * frameworks and libraries folded.
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md
 */
#include "gs_printable.h"
#include "tracker/names/short_name.h"
#include "tracker/report/report_internal.h"

#include <stdio.h>

#define NAME_WIDTH_MIN 30 /* the function's column in a stack */
#define NAME_WIDTH_MAX 48
#define NAME_SIZE      104 /* longer names are cut within their arguments */
#define REPEATS_MIN    2   /* fewer equal frames are printed one by one */
#define FAMILIES_MAX   3u  /* of a folded run that are named */
#define RUN_MIN        2   /* likewise of frameworks and libraries */

static const char *frame_name(const struct gs_symbol_request *frame, char out[NAME_SIZE])
{
    char fitted[NAME_SIZE];

    if (frame->result.function) {
        return gs_report_clean(
            gs_name_fit(frame->result.function, fitted, sizeof(fitted)), out, NAME_SIZE);
    }
    if (gs_report_frame_module(frame)[0] != '\0') {
        snprintf(out, NAME_SIZE, "??");
    } else {
        snprintf(out, NAME_SIZE, "0x%llx", (unsigned long long)frame->frame);
    }
    return out;
}

/* Writes "leaky.c:30", or "libfoo.so+0x12ab"; nothing if neither is known. */
static void write_place(struct gs_text *text, struct gs_shown_paths *paths,
                        const struct gs_symbol_request *frame)
{
    const struct gs_symbol *symbol = &frame->result;
    const char *path = gs_report_frame_path(frame);
    uint64_t offset = symbol->offset;

    if (!path || !path[0]) {
        return;
    }
    gs_text_add_foreign(text, gs_shown_path(paths, path));
    if (path != symbol->file) {
        if (offset == 0 && frame->module) {
            offset = frame->frame - frame->module->bias;
        }
        gs_text_add(text, "+0x%llx", (unsigned long long)offset);
    } else if (symbol->line != 0 || !gs_frame_is_python(frame->frame)) {
        gs_text_add(text, ":%u", symbol->line);
    }
    gs_text_add(text, "%s", frame->inlined ? " (inlined)" : "");
}

/* Returns the number of equal frames after this one that one line replaces: a
 * recursion. */
static unsigned count_repeats(const struct gs_shown_stack *stack, unsigned number)
{
    unsigned more = 0;

    while (number + more + 1 < stack->count &&
           gs_report_compare_frames(&stack->frames[number],
                                    &stack->frames[number + more + 1]) == 0) {
        more++;
    }
    return more >= REPEATS_MIN ? more : 0;
}

/* Returns the number of frames of frameworks and libraries from this one on that one line
 * replaces; none of a script that is a framework's own. */
static unsigned carrier_run(const struct gs_shown_stack *stack, unsigned number)
{
    unsigned count = 0;

    if (gs_frame_is_python(stack->frames[0].frame) &&
        gs_report_frame_is_carrier(&stack->frames[0])) {
        return 0;
    }
    while (number > 0 && number + count < stack->count &&
           gs_report_frame_is_carrier(&stack->frames[number + count])) {
        count++;
    }
    return count >= RUN_MIN ? count : 0;
}

const char *gs_report_families(const struct gs_symbol_request *frames, unsigned count,
                               char out[160])
{
    const char *names[FAMILIES_MAX];
    unsigned known = 0;
    size_t used =
        (size_t)snprintf(out, 160, "%u frame%s of ", count, gs_report_plural(count));

    for (unsigned i = 0, k = 0; i < count; i++) {
        const char *name = gs_report_frame_family(&frames[i]);
        if (!name) {
            name = gs_report_frame_module(&frames[i]);
        }
        while (k < known && strcmp(names[k], name) != 0) {
            k++;
        }
        if (k == known && known < FAMILIES_MAX && name[0]) {
            names[known++] = name;
            used += (size_t)snprintf(out + used, 160 - used, "%s%.40s",
                                     known > 1 ? ", " : "", name);
        }
        k = 0;
    }
    return out;
}

/* The width of the functions' column. */
static int name_width(const struct gs_shown_stack *stack, bool all)
{
    int width = NAME_WIDTH_MIN;
    char name[NAME_SIZE];

    for (unsigned i = 0; i < stack->count; i++) {
        unsigned run = all ? 0 : carrier_run(stack, i);
        if (run != 0) {
            i += run - 1;
            continue;
        }
        int length = (int)gs_printable_columns(frame_name(&stack->frames[i], name));
        if (length + 2 > width && length + 2 <= NAME_WIDTH_MAX) {
            width = length + 2;
        }
    }
    return width;
}

static void write_frames(const struct gs_report_writer *writer,
                         const struct gs_shown_stack *stack, bool all)
{
    int width = name_width(stack, all), digits = stack->count > 10 ? 2 : 1;
    char name[NAME_SIZE], families[160];

    if (stack->count > 100) {
        digits = 3;
    }
    for (unsigned i = 0, more; i < stack->count; i += 1 + more) {
        unsigned run = all ? 0 : carrier_run(stack, i);
        if (run != 0) {
            gs_text_add(writer->text, "%s       ... %s\n", writer->prefix,
                        gs_report_families(&stack->frames[i], run, families));
            more = run - 1;
            continue;
        }
        frame_name(&stack->frames[i], name);
        const char *path = gs_report_frame_path(&stack->frames[i]);
        bool has_place = path && path[0];
        int left = width - (int)gs_printable_columns(name);
        gs_text_add(writer->text, "%s    #%-*u %s%*s", writer->prefix, digits, i, name,
                    !has_place ? 0
                    : left > 2 ? left
                               : 2,
                    "");
        write_place(writer->text, writer->paths, &stack->frames[i]);
        gs_text_add(writer->text, "\n");
        more = count_repeats(stack, i);
        if (more != 0) {
            gs_text_add(writer->text, "%s       ... %u times more\n", writer->prefix,
                        more);
        }
    }
}

void gs_report_stack(const struct gs_report_writer *writer,
                     const struct gs_shown_stack *stack)
{
    const bool all = writer->config && writer->config->all_frames;
    struct gs_shown_stack whole = *stack;
    char families[160];

    if (all && stack->inner != 0) {
        whole.frames -= stack->inner;
        whole.count += stack->inner;
    } else if (stack->inner != 0) {
        gs_text_add(
            writer->text, "%s       ... %s\n", writer->prefix,
            gs_report_families(stack->frames - stack->inner, stack->inner, families));
    }
    write_frames(writer, &whole, all);
    if (stack->cut) {
        gs_text_add(writer->text, "%s       ... more (GPUSHIM_STACK=depth)\n",
                    writer->prefix);
    }
    if (stack->count == 0) {
        gs_text_add(writer->text, "%s    %s\n", writer->prefix,
                    gs_report_no_stack(stack->id).line);
    }
}

void gs_report_put_where(const struct gs_symbol_request *frame,
                         struct gs_shown_paths *paths, struct gs_text *out)
{
    char name[NAME_SIZE];
    struct gs_symbol_request own = *frame;

    own.inlined = false; /* without the mark: the line's form is fixed */
    const char *path = gs_report_frame_path(&own);
    gs_text_add(out, "at %s%s", frame_name(&own, name), path && path[0] ? " " : "");
    write_place(out, paths, &own);
}

void gs_report_where(const struct gs_report_writer *writer,
                     const struct gs_shown_stack *stack)
{
    if (stack->count == 0) {
        gs_text_add(writer->text, "(%s)", gs_report_no_stack(stack->id).line);
        return;
    }
    gs_report_put_where(&stack->frames[0], writer->paths, writer->text);
}

void gs_report_caller(const struct gs_report_writer *writer,
                      const struct gs_shown_stack *stack)
{
    char name[NAME_SIZE];
    unsigned i = 1;

    while (i < stack->count && gs_report_frame_is_carrier(&stack->frames[i])) {
        i++;
    }
    if (i < stack->count) {
        struct gs_symbol_request caller = stack->frames[i];
        caller.inlined = false;
        gs_text_add(writer->text, " < %s ", frame_name(&caller, name));
        write_place(writer->text, writer->paths, &caller);
    }
}

void gs_report_stack_paths(const struct gs_report_config *config,
                           const struct gs_shown_stack *stack,
                           struct gs_shown_paths *paths)
{
    const bool all = config && config->all_frames;
    struct gs_shown_stack whole = *stack;

    if (all) {
        whole.frames -= stack->inner;
        whole.count += stack->inner;
    }
    for (unsigned i = 0; i < whole.count; i++) {
        unsigned run = all ? 0 : carrier_run(&whole, i);
        if (run != 0) {
            i += run - 1;
        } else {
            gs_shown_paths_add(paths, gs_report_frame_path(&whole.frames[i]));
        }
    }
}

void gs_report_add_paths(const struct gs_symbol_request *frames, unsigned count,
                         struct gs_shown_paths *paths)
{
    const struct gs_shown_stack stack = {.frames = frames, .count = count};

    gs_report_stack_paths(NULL, &stack, paths);
}

void gs_report_write_stack(const struct gs_symbol_request *frames, unsigned count,
                           const char *inner, bool cut, struct gs_shown_paths *paths,
                           struct gs_text *text)
{
    const struct gs_report_writer writer = {.text = text, .paths = paths};
    const struct gs_shown_stack stack = {.frames = frames, .count = count, .cut = cut};

    if (inner && inner[0]) {
        gs_text_add(text, "       ... %s\n", inner);
    }
    gs_report_stack(&writer, &stack);
}

const char *gs_report_call_name(const struct gs_tracker *tracker, const char *call,
                                uint16_t api)
{
    const struct gs_tracker_config *config = &tracker->config;

    if (call) {
        return call;
    }
    if (api < config->api_count && config->api_names[api]) {
        return config->api_names[api];
    }
    return "unknown";
}

const char *gs_report_call(const struct gs_report_writer *writer,
                           const struct gs_shown_stack *stack, uint16_t api)
{
    return gs_report_call_name(writer->tracker, stack->call, api);
}
