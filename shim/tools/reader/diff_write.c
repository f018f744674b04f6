/*
 * diff_write.c - writes a comparison as text, in the form of the report, or as Markdown.
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include <stdio.h>
#include <string.h>

#include "shim/tools/reader/diff.h"
#include "shim/tools/reader/named_frame.h"
#include "shim/tools/reader/table_line.h"
#include "tracker/names/runtime_modules.h"
#include "tracker/report/report.h"

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static const char *signed_bytes(uint64_t before, uint64_t after, char out[32])
{
    char bytes[24];
    bool grew = after >= before;
    gs_text_bytes(grew ? after - before : before - after, bytes);
    snprintf(out, 32, "%c%s", grew ? '+' : '-', bytes);
    return out;
}

static const char *amount(uint64_t bytes, uint64_t count, char out[80])
{
    char size[24], number[32];
    snprintf(out, 80, "%s in %s allocation%s", gs_text_bytes(bytes, size),
             gs_text_count(count, number), plural(count));
    return out;
}

/* ---- the head ---------------------------------------------------------------------- */

/* The program's base name; "" if it is not known. */
static void name_program(const struct gs_report_file *file, char out[128])
{
    const char *name = gs_module_base_name(file->program);
    int length = (int)strlen(name);
    if (length == 0) { /* the first word of the command */
        name = file->command;
        length = (int)strcspn(name, " ");
        while (length > 0 && memchr(name, '/', (size_t)length)) {
            name++;
            length--;
        }
    }
    snprintf(out, 128, "%.*s", length, name);
}

static void write_file(const struct gs_report_file *file, const char *path, char letter,
                       struct gs_text *text)
{
    char who[32];
    gs_text_add(text, "%c: ", letter);
    gs_text_add_foreign(text, path);
    gs_text_add(text, "   %s   %s%s%s   %s\n", file->command,
                gs_report_file_who(file, who), file->hostname[0] ? " on " : "",
                file->hostname, file->ending);
}

static void write_rebuilt(const struct gs_diff *diff, struct gs_text *text)
{
    if (diff->rebuilt_count == 0 && !diff->joined) {
        return;
    }
    gs_text_add(text, "Note: ");
    for (size_t i = 0; i < diff->rebuilt_count && i < GS_DIFF_REBUILT_MOST; i++) {
        gs_text_add(text, "%s%s", i ? ", " : "", diff->rebuilt[i]);
    }
    if (diff->rebuilt_count > GS_DIFF_REBUILT_MOST) {
        gs_text_add(text, " and %zu more modules",
                    diff->rebuilt_count - GS_DIFF_REBUILT_MOST);
    }
    if (diff->rebuilt_count > 0) {
        gs_text_add(text, " of another build%s", diff->joined ? "; " : "\n");
    }
    if (diff->joined) {
        gs_text_add(text, "where lines have moved, a function is one call site\n");
    }
}

static void write_head(const struct gs_diff *diff, const struct gs_report_file files[2],
                       const char *const paths[2], struct gs_text *text)
{
    char programs[2][128];
    write_file(&files[0], paths[0], 'A', text);
    write_file(&files[1], paths[1], 'B', text);
    name_program(&files[0], programs[0]);
    name_program(&files[1], programs[1]);
    if (gs_is_same_file(paths[0], paths[1])) {
        gs_text_add(text, "Note: A and B are the same file\n");
    } else if (strcmp(programs[0], programs[1]) != 0) {
        gs_text_add(text, "Note: different programs: %s and %s\n", programs[0],
                    programs[1]);
    }
    for (unsigned side = 0; side < 2; side++) {
        if (files[side].no_start) {
            gs_text_add(text, "Note: in %c CUDA did not start: nothing was recorded\n",
                        'A' + (int)side);
        }
    }
    write_rebuilt(diff, text);
    if (diff->moved_count > 0) {
        gs_text_add(text, "Note: %zu file%s moved, such as ", diff->moved_count,
                    diff->moved_count == 1 ? " has" : "s have");
        gs_text_add_foreign(text, diff->moved[0]);
        gs_text_add(text, " to ");
        gs_text_add_foreign(text, diff->moved[1]);
        gs_text_add(text, "\n");
    }
    gs_text_add(text, "\n");
}

/* ---- call sites -------------------------------------------------------------------- */

static const char *const kind_names[GS_DIFF_KINDS] = {[GS_DIFF_NEW] = "NEW",
                                                      [GS_DIFF_GROWN] = "GROWN",
                                                      [GS_DIFF_SHRUNK] = "SHRUNK",
                                                      [GS_DIFF_GONE] = "GONE",
                                                      [GS_DIFF_SUPPRESSED] = "SUPPRESSED",
                                                      [GS_DIFF_SAME] = "SAME"};

static void write_row(const struct gs_diff_row *row, unsigned number,
                      const struct gs_report_file files[2], struct gs_shown_paths *paths,
                      struct gs_text *text)
{
    char change[32], before[80], after[80];
    const struct gs_file_place *place = row->place;
    gs_text_add(text, "%s %u: %s", kind_names[row->kind], number,
                signed_bytes(row->bytes[0], row->bytes[1], change));
    amount(row->bytes[0], row->counts[0], before);
    amount(row->bytes[1], row->counts[1], after);
    if (row->kind == GS_DIFF_NEW || row->kind == GS_DIFF_GONE ||
        row->kind == GS_DIFF_SUPPRESSED) {
        unsigned side = row->counts[1] != 0;
        char number_text[32];
        gs_text_add(text, " in %s allocation%s",
                    gs_text_count(row->counts[side], number_text),
                    plural(row->counts[side]));
        if (row->kind == GS_DIFF_SUPPRESSED) {
            gs_text_add(text, ", suppressed in %c", 'A' + !side);
        }
        gs_text_add(text, "\n");
    } else {
        gs_text_add(text, ": %s, then %s\n", before, after);
    }
    gs_text_add(text, "  %s%s%s\n", place->call ? place->call : "unknown call",
                place->kind ? ", " : "", place->kind ? place->kind : "");
    gs_report_file_stack(&files[row->side], place, paths, text);
    gs_text_add(text, "\n");
}

static const char *what_of(const struct gs_report_file files[2])
{
    const bool live[] = {files[0].running || files[0].killed,
                         files[1].running || files[1].killed};
    return files[0].of == GS_REPORT_OF_PEAK ? "At the peaks"
           : live[0] && live[1]             ? "Live"
           : live[0]                        ? "Live, then leaked"
           : live[1]                        ? "Leaked, then live"
                                            : "Leaked";
}

static void write_sum(const struct gs_diff *diff, enum gs_diff_kind kind,
                      const char *word, struct gs_text *text)
{
    char number[32], bytes[24];
    bool grew = kind == GS_DIFF_NEW || kind == GS_DIFF_GROWN;
    const char *sign = kind == GS_DIFF_SUPPRESSED ? "" : grew ? "+" : "-";
    gs_text_add(text, "%s%s %s", kind == GS_DIFF_NEW ? "" : ", ",
                gs_text_count(diff->kinds[kind], number), word);
    if (diff->kinds[kind] > 0) {
        gs_text_add(text, " (%s%s)", sign, gs_text_bytes(diff->grown[kind], bytes));
    }
}

typedef void row_writer(const struct gs_diff_row *row, unsigned number,
                        const struct gs_report_file files[2],
                        struct gs_shown_paths *paths, struct gs_text *text);

/* Writes the call sites that differ, at most `most`. Returns how many. */
static unsigned write_rows(const struct gs_diff *diff,
                           const struct gs_report_file files[2], unsigned most,
                           row_writer *write, struct gs_text *text)
{
    struct gs_shown_paths paths = {.whole = gs_state_settings()->full_paths};
    unsigned written = 0, found = 0;
    for (size_t i = 0; i < diff->count && found < most; i++) {
        if (diff->rows[i].kind != GS_DIFF_SAME) {
            gs_report_file_paths(&files[diff->rows[i].side], diff->rows[i].place, &paths);
            found++;
        }
    }
    for (size_t i = 0; i < diff->count && written < most; i++) {
        if (diff->rows[i].kind != GS_DIFF_SAME) {
            write(&diff->rows[i], ++written, files, &paths, text);
        }
    }
    gs_shown_paths_free(&paths);
    return written;
}

/* "Leaked: 28.5 MiB in 7 allocations, then 51.0 MiB in 6 allocations" */
static void write_amounts(const struct gs_diff *diff,
                          const struct gs_report_file files[2], struct gs_text *text)
{
    char before[80], after[80];
    gs_text_add(text, "%s: %s, then %s\n", what_of(files),
                amount(diff->bytes[0], diff->counts[0], before),
                amount(diff->bytes[1], diff->counts[1], after));
}

static void write_sums(const struct gs_diff *diff, struct gs_text *text)
{
    char number[32];
    write_sum(diff, GS_DIFF_NEW, "new", text);
    write_sum(diff, GS_DIFF_GROWN, "grown", text);
    write_sum(diff, GS_DIFF_SHRUNK, "shrunk", text);
    write_sum(diff, GS_DIFF_GONE, "gone", text);
    if (diff->kinds[GS_DIFF_SUPPRESSED] > 0) {
        write_sum(diff, GS_DIFF_SUPPRESSED, "suppressed in one of them", text);
    }
    gs_text_add(text, ", %s unchanged\n",
                gs_text_count(diff->kinds[GS_DIFF_SAME], number));
}

static void write_more(const struct gs_diff *diff, unsigned written, struct gs_text *text)
{
    uint64_t changed = diff->count - diff->kinds[GS_DIFF_SAME];
    char number[32];
    if (changed > written) {
        gs_text_add(text,
                    "%s more call site%s changed (GPUSHIM_LEAK_MAX=N lists more)\n\n",
                    gs_text_count(changed - written, number), plural(changed - written));
    }
}

void gs_diff_write(const struct gs_diff *diff, const struct gs_report_file files[2],
                   const char *const paths[2], unsigned most, struct gs_text *text)
{
    write_head(diff, files, paths, text);
    write_more(diff, write_rows(diff, files, most, write_row, text), text);
    write_amounts(diff, files, text);
    gs_text_add(text, "SUMMARY: gpushim diff: ");
    write_sums(diff, text);
}

/* ---- Markdown ---------------------------------------------------------------------- */

static void write_cell(uint64_t bytes, uint64_t count, struct gs_text *text)
{
    char size[24], number[32];
    if (count == 0) {
        gs_text_add(text, " | -");
        return;
    }
    gs_text_add(text, " | %s in %s", gs_text_bytes(bytes, size),
                gs_text_count(count, number));
}

/* Adds the scope of a place, which is beyond the frames of a line. */
static void add_scope(const struct gs_report_file *file,
                      const struct gs_file_place *place, struct gs_text *text)
{
    for (size_t i = GS_FRAMES_NAMED; i < place->depth; i++) {
        const struct gs_file_frame *frame = gs_report_file_frame(file, place, i);
        if (frame && frame->function && strncmp(frame->function, "[scope ", 7) == 0) {
            gs_text_add(text, " ");
            gs_text_add_foreign(text, frame->function);
        }
    }
}

static void write_line(const struct gs_diff_row *row, unsigned number,
                       const struct gs_report_file files[2], struct gs_shown_paths *paths,
                       struct gs_text *text)
{
    static const char words[GS_DIFF_KINDS][12] = {[GS_DIFF_NEW] = "new",
                                                  [GS_DIFF_GROWN] = "grown",
                                                  [GS_DIFF_SHRUNK] = "shrunk",
                                                  [GS_DIFF_GONE] = "gone",
                                                  [GS_DIFF_SUPPRESSED] = "suppressed"};
    const struct gs_file_place *place = row->place;
    struct gs_named_frame frames[GS_FRAMES_NAMED];
    size_t named = gs_named_frames(&files[row->side], place, frames, GS_FRAMES_NAMED);
    struct gs_text code = {0};
    char change[32];
    if (number == 1) {
        gs_text_add(text, "| | Growth | Before | After | Call site | Call |\n"
                          "| --- | ---: | ---: | ---: | --- | --- |\n");
    }
    gs_text_add(text, "| %s | %s", words[row->kind],
                signed_bytes(row->bytes[0], row->bytes[1], change));
    write_cell(row->bytes[0], row->counts[0], text);
    write_cell(row->bytes[1], row->counts[1], text);
    gs_text_add(text, " | ");
    gs_named_frames_write(frames, named, paths, &code);
    add_scope(&files[row->side], place, &code);
    gs_table_code(named > 0 && code.data ? code.data : "no call stack", text);
    code.length = 0;
    gs_text_add(&code, "%s%s%s", place->call ? place->call : "unknown call",
                place->kind ? ", " : "", place->kind ? place->kind : "");
    gs_text_add(text, " | ");
    gs_table_code(code.data ? code.data : "", text);
    gs_text_add(text, " |\n");
    gs_text_free(&code);
}

void gs_diff_markdown(const struct gs_diff *diff, const struct gs_report_file files[2],
                      const char *const paths[2], unsigned most, struct gs_text *text)
{
    struct gs_text head = {0};
    gs_text_add(text, "**gpushim diff**: ");
    write_sums(diff, text);
    gs_text_add(text, "\n");
    write_amounts(diff, files, text);
    gs_text_add(text, "\n");
    unsigned written = write_rows(diff, files, most, write_line, text);
    gs_text_add(text, "%s", written ? "\n" : "");
    write_more(diff, written, text);
    /* Indented, it is code, whatever the names contain. */
    write_head(diff, files, paths, &head);
    for (const char *at = head.data ? head.data : ""; *at && *at != '\n';) {
        size_t length = strcspn(at, "\n");
        gs_text_add(text, "    %.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
    gs_text_free(&head);
}
