/*
 * named_frame.h - a frame as a line of a table has it: "load_weights leaky.c:39", or
 * "?? libfoo.so+0x12".
 * Locks: none.
 */
#ifndef GS_NAMED_FRAME_H
#define GS_NAMED_FRAME_H

#include "shim/tools/reader/report_file.h"
#include "tracker/report/files/export_json_values.h"
#include "tracker/report/text/text.h"

struct gs_named_frame {
    const char *function; /* NULL: unknown */
    const char *path;     /* NULL: neither file nor module is known */
    uint64_t number;      /* line, or offset */
    bool in_file;
};

/* The innermost frames that a line has. */
#define GS_FRAMES_NAMED 2

/* The texts are the file's. */
struct gs_named_frame gs_named_frame(const struct gs_report_file *file,
                                     const struct gs_file_frame *frame);
/* The first `most` frames of a stack that the file has. Returns how many. */
size_t gs_named_frames(const struct gs_report_file *file,
                       const struct gs_file_place *place, struct gs_named_frame *out,
                       size_t most);
/* Writes "load_weights leaky.c:39 < main leaky.c:85"; long functions are cut. */
void gs_named_frames_write(const struct gs_named_frame *frames, size_t count,
                           struct gs_shown_paths *paths, struct gs_text *text);
/* Writes frames as an array of objects. */
void gs_named_frames_json(struct gs_json *json, const char *key,
                          const struct gs_named_frame *frames, size_t count);

#endif
