/*
 * suppress_advice.c - a ready rule for each leak that was written out.
 * Owns: nothing.   Lock: none.   Design: docs/suppressions.md
 */
#include "report_internal.h"

#include <stdlib.h>

#define PATTERN_BYTES 256u
/* Who asks for more leaks than these gets no rule for the rest. */
#define LEAKS_MAX 256u

/* Files that are no program's: the system's, the compiler's, CUDA's and frameworks'. A
 * rule for one of their functions would match far more than one leak. */
static bool of_a_system_library(const char *name)
{
    static const char *const begins[] = {
        "libc.so",     "libc-2.",       "ld-linux",      "libpthread",   "libm.so",
        "libdl.so",    "librt.so",      "libstdc++.so",  "libc++",       "libgcc_s.so",
        "libgomp.so",  "libcublas",     "libcudnn",      "libcufft",     "libcusparse",
        "libcusolver", "libcurand",     "libnccl.so",    "libnvshmem",   "libnvrtc",
        "libnvidia-",  "libnpp",        "libcupti.so",   "libnvJitLink", "libtorch",
        "libc10",      "libtensorflow", "xla_extension", "libpython",    "[vdso]",
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(begins); i++) {
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    }
    return gs_report_runtime_module(name);
}

/* The innermost frame that is the program's own, but for main, which is in every stack;
 * else the innermost with any name. */
static const struct gs_symbol_request *own_frame(const struct gs_shown_stack *stack)
{
    const struct gs_symbol_request *named = NULL;

    for (unsigned i = 0; i < stack->count; i++) {
        const struct gs_symbol_request *frame = &stack->frames[i];
        const char *module = gs_report_frame_module(frame);
        if (!frame->result.function && module[0] == '\0')
            continue;
        bool is_main =
            frame->result.function && strcmp(frame->result.function, "main") == 0;
        if (!is_main && !of_a_system_library(module))
            return frame;
        if (!named)
            named = frame;
    }
    return named;
}

/* As a pattern that matches itself: what is special in one becomes any characters. */
static void make_pattern(const char *name, char *out, size_t size)
{
    gs_report_clean(name, out, size);
    if (strlen(name) >= size) /* it was cut: "..." is not in the name */
        memcpy(out + strlen(out) - 3, "*", 2);
    for (char *at = out; *at; at++) {
        if (*at == '^' || *at == '$' || *at == '?')
            *at = '*';
    }
}

/* The rule's pattern for a leak; "" where nothing is known of its stack. */
static void pattern_of(const struct gs_report_writer *writer, size_t number,
                       char out[PATTERN_BYTES])
{
    struct gs_shown_stack stack = gs_frame_table_show(
        writer->frames, writer->config, writer->data->groups.items[number].stack);
    const struct gs_symbol_request *frame = own_frame(&stack);

    out[0] = '\0';
    if (frame)
        make_pattern(frame->result.function ? frame->result.function
                                            : gs_report_frame_module(frame),
                     out, PATTERN_BYTES);
}

/* One line for all leaks that the rule matches by the same name. */
static void write_rule(const struct gs_report_writer *writer, size_t number,
                       char (*patterns)[PATTERN_BYTES], size_t count)
{
    if (patterns[number][0] == '\0')
        return;
    gs_text_add(writer->text, "%sTo suppress LEAK %zu", writer->prefix, number + 1);
    for (size_t i = number + 1; i < count; i++) {
        if (strcmp(patterns[i], patterns[number]) == 0) {
            gs_text_add(writer->text, ", %zu", i + 1);
            patterns[i][0] = '\0';
        }
    }
    gs_text_add(writer->text, ":  leak:%s   in GPUSHIM_SUPPRESSIONS\n", patterns[number]);
}

void gs_report_advice(const struct gs_report_writer *writer)
{
    size_t count = writer->data->shown < LEAKS_MAX ? writer->data->shown : LEAKS_MAX;
    char(*patterns)[PATTERN_BYTES] = count ? calloc(count, sizeof *patterns) : NULL;

    if (!patterns)
        return;
    for (size_t i = 0; i < count; i++)
        pattern_of(writer, i, patterns[i]);
    for (size_t i = 0; i < count; i++)
        write_rule(writer, i, patterns, count);
    free(patterns);
}
