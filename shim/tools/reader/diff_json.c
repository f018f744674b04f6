/*
 * diff_json.c - writes a comparison as JSON.
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "shim/tools/reader/diff.h"
#include "shim/tools/reader/named_frame.h"

#include <stdlib.h>

static const char kind_names[GS_DIFF_KINDS][12] = {[GS_DIFF_NEW] = "new",
                                                   [GS_DIFF_GROWN] = "grown",
                                                   [GS_DIFF_SHRUNK] = "shrunk",
                                                   [GS_DIFF_GONE] = "gone",
                                                   [GS_DIFF_SUPPRESSED] = "suppressed",
                                                   [GS_DIFF_SAME] = "unchanged"};

static void put_report(struct gs_json *json, const struct gs_report_file *file,
                       const char *path)
{
    gs_json_open(json, '{');
    gs_json_member_text(json, "file", path);
    gs_json_member(json, "pid", file->pid);
    gs_json_member_or_null(json, "rank", file->rank != UINT64_MAX, file->rank);
    gs_json_member_text(json, "host", file->hostname);
    gs_json_member_text(json, "command", file->command);
    gs_json_member_text(json, "ending", file->ending);
    gs_json_member_bool(json, "running", file->running);
    gs_json_member_bool(json, "killed", file->killed);
    gs_json_member_bool(json, "no_start", file->no_start != NULL);
    gs_json_close(json, '}');
}

static void put_amount(struct gs_json *json, const char *key, uint64_t bytes,
                       uint64_t count)
{
    gs_json_member_open(json, key, '{');
    gs_json_member(json, "bytes", bytes);
    gs_json_member(json, "count", count);
    gs_json_close(json, '}');
}

static void put_stack(struct gs_json *json, const struct gs_report_file *file,
                      const struct gs_file_place *place)
{
    struct gs_named_frame *frames = calloc(place->depth + 1, sizeof(*frames));
    gs_named_frames_json(json, "stack", frames,
                         frames ? gs_named_frames(file, place, frames, place->depth) : 0);
    gs_json_member_bool(json, "truncated", place->cut || !frames);
    free(frames);
}

static void put_row(struct gs_json *json, const struct gs_diff_row *row,
                    const struct gs_report_file files[2])
{
    const struct gs_file_place *place = row->place;
    gs_json_open(json, '{');
    gs_json_member_text(json, "change", kind_names[row->kind]);
    put_amount(json, "before", row->bytes[0], row->counts[0]);
    put_amount(json, "after", row->bytes[1], row->counts[1]);
    gs_json_member_text(json, "call", place->call);
    gs_json_member_text(json, "kind", place->kind);
    put_stack(json, &files[row->side], place);
    gs_json_close(json, '}');
}

void gs_diff_json(const struct gs_diff *diff, const struct gs_report_file files[2],
                  const char *const paths[2], struct gs_json *json)
{
    gs_json_member_open(json, "reports", '[');
    put_report(json, &files[0], paths[0]);
    put_report(json, &files[1], paths[1]);
    gs_json_close(json, ']');
    put_amount(json, "before", diff->bytes[0], diff->counts[0]);
    put_amount(json, "after", diff->bytes[1], diff->counts[1]);
    gs_json_member_open(json, "summary", '{');
    for (size_t kind = 0; kind < GS_DIFF_KINDS; kind++) {
        gs_json_member_open(json, kind_names[kind], '{');
        gs_json_member(json, "call_sites", diff->kinds[kind]);
        gs_json_member(json, "bytes", diff->grown[kind]);
        gs_json_close(json, '}');
    }
    gs_json_close(json, '}');
    gs_json_member_open(json, "rebuilt", '[');
    for (size_t i = 0; i < diff->rebuilt_count && i < GS_DIFF_REBUILT_MOST; i++) {
        gs_json_text(json, diff->rebuilt[i]);
    }
    gs_json_close(json, ']');
    gs_json_member_bool(json, "lines_joined", diff->joined);
    gs_json_member(json, "moved_files", diff->moved_count);
    gs_json_member_open(json, "call_sites", '[');
    for (size_t i = 0; i < diff->count; i++) {
        put_row(json, &diff->rows[i], files);
    }
    gs_json_close(json, ']');
}
