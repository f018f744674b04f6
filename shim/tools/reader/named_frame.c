/*
 * named_frame.c - see named_frame.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/reader/named_frame.h"

#include <stdio.h>

#define FUNCTION_BYTES 81

struct gs_named_frame gs_named_frame(const struct gs_report_file *file,
                                     const struct gs_file_frame *frame)
{
    const struct gs_file_module *module = gs_report_file_module(file, frame);
    bool in_file = frame->file && frame->file[0];
    return (struct gs_named_frame){.function = frame->function,
                                   .path = in_file  ? frame->file
                                           : module ? module->path
                                                    : NULL,
                                   .number = in_file ? frame->line : frame->offset,
                                   .in_file = in_file};
}

size_t gs_named_frames(const struct gs_report_file *file,
                       const struct gs_file_place *place, struct gs_named_frame *out,
                       size_t most)
{
    size_t named = 0;
    for (size_t i = 0; i < place->depth && named < most; i++) {
        const struct gs_file_frame *frame = gs_report_file_frame(file, place, i);
        if (frame) {
            out[named++] = gs_named_frame(file, frame);
        }
    }
    return named;
}

void gs_named_frames_write(const struct gs_named_frame *frames, size_t count,
                           struct gs_shown_paths *paths, struct gs_text *text)
{
    for (size_t i = 0; i < count; i++) {
        const struct gs_named_frame *frame = &frames[i];
        char function[FUNCTION_BYTES];
        (void)snprintf(function, sizeof(function), "%s",
                       frame->function ? frame->function : "??");
        gs_text_add(text, "%s", i ? " < " : "");
        gs_text_add_foreign(text, function);
        if (frame->path) {
            gs_text_add(text, " ");
            gs_text_add_foreign(text, gs_shown_path(paths, frame->path));
            gs_text_add(text, frame->in_file ? ":%llu" : "+0x%llx",
                        (unsigned long long)frame->number);
        }
    }
}

void gs_named_frames_json(struct gs_json *json, const char *key,
                          const struct gs_named_frame *frames, size_t count)
{
    gs_json_member_open(json, key, '[');
    for (size_t i = 0; i < count; i++) {
        const struct gs_named_frame *frame = &frames[i];
        bool has_line = frame->in_file && frame->number != 0;
        gs_json_open(json, '{');
        gs_json_member_text(json, "function", frame->function);
        gs_json_member_text(json, "file", frame->in_file ? frame->path : NULL);
        gs_json_member_or_null(json, "line", has_line, frame->number);
        if (!frame->in_file && frame->path) {
            gs_json_member_text(json, "module", frame->path);
            gs_json_member_hex(json, "offset", frame->number);
        }
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
}
