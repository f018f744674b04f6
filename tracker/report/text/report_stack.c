/*
 * report_stack.c - prints a call stack: one line per frame, repeats and runs of frames of
 * the C++ library folded.
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md
 */
#include "report_internal.h"
#include "short_name.h"

#include <stdio.h>

#define NAME_WIDTH_MIN 30 /* the function's column in a stack */
#define NAME_WIDTH_MAX 48
#define NAME_SIZE      104 /* longer names are cut within their arguments */
#define REPEATS_MIN    2   /* fewer equal frames are printed one by one */
#define LIBRARY_MIN    2   /* likewise of the C++ library */

static const char *frame_name(const struct gs_symbol_request *frame, char out[NAME_SIZE])
{
    char fitted[NAME_SIZE];

    if (frame->result.function)
        return gs_report_clean(gs_name_fit(frame->result.function, fitted, sizeof fitted),
                               out, NAME_SIZE);
    if (gs_report_frame_module(frame)[0] != '\0')
        snprintf(out, NAME_SIZE, "??");
    else
        snprintf(out, NAME_SIZE, "0x%llx", (unsigned long long)frame->frame);
    return out;
}

static const char *frame_place(const struct gs_symbol_request *frame, char *out,
                               size_t size)
{
    const struct gs_symbol *symbol = &frame->result;
    const char *module = gs_report_frame_module(frame);
    const char *mark = frame->inlined ? " (inlined)" : "";
    char clean[256];

    out[0] = '\0';
    if (symbol->file && symbol->file[0]) {
        gs_report_clean(gs_module_base_name(symbol->file), clean, sizeof clean);
        if (symbol->line != 0 || !gs_frame_is_python(frame->frame))
            snprintf(out, size, "%s:%u%s", clean, symbol->line, mark);
        else
            snprintf(out, size, "%s", clean);
    } else if (module[0] != '\0') {
        uint64_t offset = symbol->offset;
        if (offset == 0 && frame->module)
            offset = frame->frame - frame->module->bias;
        gs_report_clean(module, clean, sizeof clean);
        snprintf(out, size, "%s+0x%llx%s", clean, (unsigned long long)offset, mark);
    }
    return out;
}

/* Returns the number of equal frames after this one that one line replaces: a
 * recursion. */
static unsigned repeats(const struct gs_shown_stack *stack, unsigned number)
{
    unsigned more = 0;

    while (number + more + 1 < stack->count &&
           gs_report_compare_frames(&stack->frames[number],
                                    &stack->frames[number + more + 1]) == 0)
        more++;
    return more >= REPEATS_MIN ? more : 0;
}

/* Returns the number of library frames from this one on that one line
 * replaces. */
static unsigned library_run(const struct gs_shown_stack *stack, unsigned number)
{
    unsigned count = 0;

    while (number + count < stack->count &&
           gs_report_frame_is_library(&stack->frames[number + count]))
        count++;
    return count >= LIBRARY_MIN && count < stack->count ? count : 0;
}

void gs_report_stack(const struct gs_report_writer *writer,
                     const struct gs_shown_stack *stack)
{
    int width = NAME_WIDTH_MIN, digits = stack->count > 10 ? 2 : 1;
    char name[NAME_SIZE], place[384];

    for (unsigned i = 0; i < stack->count; i++) {
        unsigned run = library_run(stack, i);
        if (run != 0) {
            i += run - 1;
            continue;
        }
        int length = (int)strlen(frame_name(&stack->frames[i], name));
        if (length + 2 > width && length + 2 <= NAME_WIDTH_MAX)
            width = length + 2;
    }
    if (stack->count > 100)
        digits = 3;
    for (unsigned i = 0, more; i < stack->count; i += 1 + more) {
        unsigned run = library_run(stack, i);
        if (run != 0) {
            gs_text_add(writer->text, "%s       ... %u library frames\n", writer->prefix,
                        run);
            more = run - 1;
            continue;
        }
        frame_name(&stack->frames[i], name);
        frame_place(&stack->frames[i], place, sizeof place);
        if (place[0] == '\0')
            gs_text_add(writer->text, "%s    #%-*u %s\n", writer->prefix, digits, i,
                        name);
        else
            gs_text_add(writer->text, "%s    #%-*u %-*s  %s\n", writer->prefix, digits, i,
                        width - 2, name, place);
        more = repeats(stack, i);
        if (more != 0)
            gs_text_add(writer->text, "%s       ... %u times more\n", writer->prefix,
                        more);
    }
    if (stack->cut)
        gs_text_add(writer->text, "%s       ... more (GPUSHIM_STACK_DEPTH)\n",
                    writer->prefix);
    if (stack->count == 0)
        gs_text_add(writer->text, "%s    %s\n", writer->prefix,
                    gs_report_no_stack(stack->id).line);
}

void gs_report_write_stack(const struct gs_symbol_request *frames, unsigned count,
                           bool cut, struct gs_text *text)
{
    const struct gs_report_writer writer = {.text = text};
    const struct gs_shown_stack stack = {.frames = frames, .count = count, .cut = cut};

    gs_report_stack(&writer, &stack);
}

const char *gs_report_call_name(const struct gs_tracker *tracker, const char *call,
                                uint16_t api)
{
    const struct gs_tracker_config *config = &tracker->config;

    if (call)
        return call;
    if (api < config->api_count && config->api_names[api])
        return config->api_names[api];
    return "unknown";
}

const char *gs_report_call(const struct gs_report_writer *writer,
                           const struct gs_shown_stack *stack, uint16_t api)
{
    return gs_report_call_name(writer->tracker, stack->call, api);
}
