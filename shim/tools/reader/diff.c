/*
 * diff.c - see diff.h.
 *
 * Call sites of the same functions in the same files form a class; of the same functions
 * alone, if the file of some is not known, or if one file was renamed. Within a class
 * lines tell them apart, if both reports are of the same builds, or if one report has all
 * lines of the other: then no line has moved. Otherwise the class is one call site, so
 * that a line inserted above an allocation makes no new leak. Where one report lacks
 * names, because a file is missing or was not read, call sites of the same build are
 * found by their addresses.
 *
 * Owns: struct gs_diff.   Lock: none.   Design: docs/outputs.md
 */
#include "shim/tools/reader/diff.h"
#include "gs_compare.h"
#include "shim/tools/reader/moved_paths.h"

#include <stdlib.h>
#include <string.h>

#include "shim/settings/options.h"
#include "shim/settings/options_table.h"
#include "tracker/names/runtime_modules.h"

/* ---- builds ------------------------------------------------------------------------ */

/* The path by which both reports know a module; NULL: none. */
static const char *path_of(const struct gs_file_module *module)
{
    return module->path_there ? module->path_there : module->path;
}

/* Returns the other report's module of this path, else the first one of the base name;
 * NULL: there is none. */
static const struct gs_file_module *module_there(const struct gs_report_file *other,
                                                 const struct gs_file_module *module)
{
    const struct gs_file_module *named = NULL;
    for (size_t i = 0; module->path && i < other->module_count; i++) {
        const struct gs_file_module *there = &other->modules[i];
        if (there->path && gs_path_compare(path_of(there), path_of(module)) == 0) {
            return there;
        }
        if (!named && there->path &&
            strcmp(gs_module_base_name(there->path), gs_module_base_name(module->path)) ==
                0) {
            named = there;
        }
    }
    return named;
}

/* Returns whether a module is the same build in the other report. */
static bool is_same_build(const struct gs_report_file *other,
                          const struct gs_file_module *module)
{
    const struct gs_file_module *there = module_there(other, module);
    return there && there->build_id && module->build_id &&
           strcmp(there->build_id, module->build_id) == 0;
}

/* Returns whether a frame of a place is in the module with this number. */
static bool is_used(const struct gs_report_file *file, size_t module)
{
    for (size_t i = 0; i < file->place_count; i++) {
        for (size_t j = 0; j < file->places[i].depth; j++) {
            const struct gs_file_frame *frame =
                gs_report_file_frame(file, &file->places[i], j);
            if (frame && frame->module == module) {
                return true;
            }
        }
    }
    return false;
}

static void find_rebuilt(const struct gs_report_file files[2], struct gs_diff *diff)
{
    for (size_t i = 0; i < files[0].module_count; i++) {
        const struct gs_file_module *module = &files[0].modules[i];
        const struct gs_file_module *there = module_there(&files[1], module);
        if (there && there->build_id && module->build_id &&
            strcmp(there->build_id, module->build_id) != 0 && is_used(&files[0], i)) {
            if (diff->rebuilt_count < GS_DIFF_REBUILT_MOST) {
                diff->rebuilt[diff->rebuilt_count] = gs_module_base_name(module->path);
            }
            diff->rebuilt_count++;
        }
    }
}

/* Returns whether all frames of a place are in modules that are the same build in both
 * reports; `same` has a byte for each module of the file. */
static bool is_same_code(const struct gs_report_file *file,
                         const struct gs_file_place *place, const bool *same)
{
    for (size_t i = 0; i < place->depth; i++) {
        const struct gs_file_frame *frame = gs_report_file_frame(file, place, i);
        if (frame && (frame->module >= file->module_count || !same[frame->module])) {
            return false;
        }
    }
    return true;
}

/* ---- classes ----------------------------------------------------------------------- */

/* A place of one of the reports. */
struct entry {
    struct gs_place_key functions, files, modules, lines;
    const struct gs_file_place *place;
    size_t unlined; /* frames that have no file */
    unsigned side;
    bool same_code; /* all its modules are of the same build in both reports */
    bool suppressed;
};

static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    int order = gs_place_key_compare(&a->functions, &b->functions);
    if (order == 0) {
        order = gs_place_key_compare(&a->files, &b->files);
    }
    return order ? order : gs_place_key_compare(&a->lines, &b->lines);
}

static size_t count_unlined(const struct gs_report_file *file,
                            const struct gs_file_place *place)
{
    size_t count = 0;
    for (size_t i = 0; i < place->depth; i++) {
        const struct gs_file_frame *frame = gs_report_file_frame(file, place, i);
        count += frame && !(frame->file && frame->file[0]);
    }
    return count;
}

static bool has_lines(const struct gs_report_file *file)
{
    for (size_t i = 0; i < file->frame_count; i++) {
        if (file->frames[i].file && file->frames[i].address != GS_PYTHON_FRAME_BASE) {
            return true;
        }
    }
    return false;
}

/* How many entries a file has. */
static size_t count_entries(const struct gs_report_file *file)
{
    return file->place_count + file->suppressed_place_count;
}

static bool add_entries(const struct gs_report_file files[2], unsigned side,
                        enum gs_place_by by, struct entry *entries)
{
    const struct gs_report_file *file = &files[side];
    bool *same = calloc(file->module_count + 1, sizeof(*same));
    for (size_t i = 0; same && i < file->module_count; i++) {
        same[i] = is_same_build(&files[!side], &file->modules[i]);
    }
    for (size_t i = 0; same && i < count_entries(file); i++) {
        bool suppressed = i >= file->place_count;
        const struct gs_file_place *place =
            suppressed ? &file->suppressed_places[i - file->place_count]
                       : &file->places[i];
        entries[i] = (struct entry){
            .functions = gs_place_key_of(file, place, by),
            .files = gs_place_key_of(file, place,
                                     by == GS_PLACE_BY_FUNCTION ? GS_PLACE_BY_FILE : by),
            .modules = gs_place_key_of(file, place, GS_PLACE_BY_MODULE),
            .unlined = count_unlined(file, place),
            .lines = gs_place_key_of(file, place, GS_PLACE_BY_LINE),
            .place = place,
            .side = side,
            .same_code = is_same_code(file, place, same),
            .suppressed = suppressed};
    }
    free(same);
    return same != NULL;
}

static size_t end_of_lines(const struct entry *entries, size_t begin, size_t end)
{
    size_t i = begin + 1;
    while (i < end &&
           gs_place_key_compare(&entries[i].lines, &entries[begin].lines) == 0) {
        i++;
    }
    return i;
}

/* The same functions in the same files. */
static size_t end_of_files(const struct entry *entries, size_t begin, size_t end)
{
    size_t i = begin + 1;
    while (i < end &&
           gs_place_key_compare(&entries[i].files, &entries[begin].files) == 0) {
        i++;
    }
    return i;
}

/* Takes the files of the second report for those of the first, if each has one that the
 * other does not, in the same modules: functions of one name in a module are one, and
 * their file was renamed. */
static void join_renamed(struct entry *entries, size_t begin, size_t end)
{
    size_t alone[2] = {begin, begin}, counts[2] = {0, 0}, next;
    for (size_t i = begin; i < end; i = next) {
        bool sides[2] = {false, false};
        next = end_of_files(entries, i, end);
        for (size_t j = i; j < next; j++) {
            sides[entries[j].side] = true;
        }
        if (sides[0] != sides[1]) {
            counts[sides[1]]++;
            alone[sides[1]] = i;
        }
    }
    if (counts[0] != 1 || counts[1] != 1 ||
        gs_place_key_compare(&entries[alone[0]].modules, &entries[alone[1]].modules) !=
            0) {
        return;
    }
    next = end_of_files(entries, alone[1], end);
    for (size_t i = alone[1]; i < next; i++) {
        entries[i].files = entries[alone[0]].files;
    }
    qsort(entries + begin, end - begin, sizeof(*entries), compare_entries);
}

/* Returns whether the files of all call sites of these functions are known alike: a
 * look-up may have ended before all lines were read. */
static bool files_hold(const struct entry *entries, size_t begin, size_t end)
{
    bool alike = true;
    for (size_t i = begin + 1; i < end; i++) {
        alike = alike && entries[i].unlined == entries[begin].unlined;
    }
    return alike;
}

static size_t end_of_class(const struct entry *entries, size_t begin, size_t count)
{
    size_t i = begin + 1;
    while (i < count &&
           gs_place_key_compare(&entries[i].functions, &entries[begin].functions) == 0) {
        i++;
    }
    return i;
}

/* Returns whether lines tell the call sites of a class apart. `alike`: both reports have
 * lines, or neither has. */
static bool lines_hold(const struct entry *entries, size_t begin, size_t end, bool alike)
{
    bool same_code = alike, has_own[2] = {false, false};
    for (size_t i = begin, next; i < end; i = next) {
        bool sides[2] = {false, false};
        next = end_of_lines(entries, i, end);
        for (size_t j = i; j < next; j++) {
            sides[entries[j].side] = true;
            same_code = same_code && entries[j].same_code;
        }
        has_own[0] |= !sides[1];
        has_own[1] |= !sides[0];
    }
    return same_code || !has_own[0] || !has_own[1];
}

/* ---- rows -------------------------------------------------------------------------- */

static void add(uint64_t *sum, uint64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum)) {
        *sum = UINT64_MAX;
    }
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* `sides`: in which reports it leaks; `rules`: in which a rule took it. */
static enum gs_diff_kind kind_of(const struct gs_diff_row *row, const bool sides[2],
                                 const bool rules[2])
{
    unsigned by = row->bytes[0] == row->bytes[1];
    uint64_t before = by ? row->counts[0] : row->bytes[0],
             after = by ? row->counts[1] : row->bytes[1];
    if (!sides[0]) {
        return rules[0] ? GS_DIFF_SUPPRESSED : GS_DIFF_NEW;
    }
    if (!sides[1]) {
        return rules[1] ? GS_DIFF_SUPPRESSED : GS_DIFF_GONE;
    }
    return after > before   ? GS_DIFF_GROWN
           : after < before ? GS_DIFF_SHRUNK
                            : GS_DIFF_SAME;
}

/* What rules took in both reports is no row. */
static void add_row(struct gs_diff *diff, const struct entry *entries, size_t begin,
                    size_t end)
{
    struct gs_diff_row *row = &diff->rows[diff->count];
    bool sides[2] = {false, false}, rules[2] = {false, false}, same_code = true;
    *row = (struct gs_diff_row){.place = NULL};
    for (size_t i = begin; i < end; i++) {
        const struct gs_file_place *place = entries[i].place;
        unsigned side = entries[i].side;
        same_code = same_code && entries[i].same_code;
        if (entries[i].suppressed) {
            rules[side] = true;
            continue;
        }
        sides[side] = true;
        add(&row->bytes[side], place->bytes);
        add(&row->counts[side], place->count);
        /* The newer report has the lines of today. */
        if (!row->place || side > row->side ||
            (side == row->side && place->bytes > row->place->bytes)) {
            row->place = place;
            row->side = side;
        }
    }
    row->kind = kind_of(row, sides, rules);
    row->same_code = same_code;
    diff->count += row->place != NULL;
}

static void count_kinds(struct gs_diff *diff)
{
    for (size_t i = 0; i < diff->count; i++) {
        const struct gs_diff_row *row = &diff->rows[i];
        diff->kinds[row->kind]++;
        add(&diff->grown[row->kind], distance(row->bytes[0], row->bytes[1]));
    }
}

/* ---- by address -------------------------------------------------------------------- */

struct by_address {
    struct gs_place_key key;
    struct gs_diff_row *row;
};

/* Equal addresses: an old call site comes before a new one. */
static int compare_addresses(const void *left, const void *right)
{
    const struct by_address *a = left, *b = right;
    int order = gs_place_key_compare(&a->key, &b->key);
    return order ? order : (int)b->row->kind - (int)a->row->kind;
}

static bool has_name(const struct gs_report_file files[2], const struct gs_diff_row *row)
{
    const struct gs_file_frame *frame =
        row->place->depth > 0 ? gs_report_file_frame(&files[row->side], row->place, 0)
                              : NULL;
    return frame && frame->function;
}

/* Makes one row of two. */
static void join(const struct gs_report_file files[2], struct gs_diff_row *gone,
                 struct gs_diff_row *new)
{
    static const bool both[2] = {true, true}, none[2] = {false, false};
    if (has_name(files, new)) {
        gone->place = new->place;
        gone->side = new->side;
    }
    gone->bytes[1] = new->bytes[1];
    gone->counts[1] = new->counts[1];
    gone->kind = kind_of(gone, both, none);
    new->place = NULL;
}

/* Joins an old call site with a new one at the same address of the same build. Without
 * memory nothing is joined. */
static void join_by_address(const struct gs_report_file files[2], struct gs_diff *diff)
{
    struct by_address *rows = malloc((diff->count + 1) * sizeof(*rows));
    size_t count = 0, kept = 0;
    for (size_t i = 0; rows && i < diff->count; i++) {
        struct gs_diff_row *row = &diff->rows[i];
        if (row->same_code && (row->kind == GS_DIFF_NEW || row->kind == GS_DIFF_GONE)) {
            rows[count++] = (struct by_address){
                gs_place_key_of(&files[row->side], row->place, GS_PLACE_BY_ADDRESS), row};
        }
    }
    if (count > 0) {
        qsort(rows, count, sizeof(*rows), compare_addresses);
    }
    for (size_t i = 0; i + 1 < count; i++) {
        if (gs_place_key_compare(&rows[i].key, &rows[i + 1].key) == 0 &&
            rows[i].row->kind == GS_DIFF_GONE && rows[i + 1].row->kind == GS_DIFF_NEW) {
            join(files, rows[i].row, rows[i + 1].row);
            i++;
        }
    }
    free(rows);
    for (size_t i = 0; i < diff->count; i++) {
        if (diff->rows[i].place) {
            diff->rows[kept++] = diff->rows[i];
        }
    }
    diff->count = kept;
}

/* What grew most first. Equal growth: in the order of the reports. */
static int compare_rows(const void *left, const void *right)
{
    const struct gs_diff_row *a = left, *b = right;
    bool a_grew = a->bytes[1] >= a->bytes[0], b_grew = b->bytes[1] >= b->bytes[0];
    uint64_t a_by = distance(a->bytes[0], a->bytes[1]),
             b_by = distance(b->bytes[0], b->bytes[1]);
    return GS_FALLING(a_grew, b_grew) ?:
        (a_grew ? GS_FALLING(a_by, b_by) : GS_RISING(a_by, b_by)) ?:
        GS_FALLING(a->side, b->side) ?: GS_RISING(a->place, b->place);
}

/* Adds the rows of a class. */
static void add_class(struct gs_diff *diff, const struct entry *entries, size_t begin,
                      size_t end, bool alike)
{
    bool lines = lines_hold(entries, begin, end, alike);
    diff->joined |= !lines;
    for (size_t i = begin, next; i < end; i = next) {
        next = lines ? end_of_lines(entries, i, end) : end;
        add_row(diff, entries, i, next);
    }
}

bool gs_diff_make(struct gs_report_file files[2], struct gs_diff *out)
{
    size_t count = count_entries(&files[0]) + count_entries(&files[1]);
    bool lined[2] = {has_lines(&files[0]), has_lines(&files[1])};
    bool alike = lined[0] == lined[1];
    enum gs_place_by by =
        lined[0] && lined[1] ? GS_PLACE_BY_FUNCTION : GS_PLACE_BY_SYMBOL;
    struct entry *entries = malloc((count + 1) * sizeof(*entries));
    struct gs_moved_paths moved;
    *out = (struct gs_diff){.rows = malloc((count + 1) * sizeof(*out->rows))};
    if (!entries || !out->rows || !gs_moved_paths_find(files, &moved) ||
        !add_entries(files, 0, by, entries) ||
        !add_entries(files, 1, by, entries + count_entries(&files[0]))) {
        free(entries);
        gs_diff_free(out);
        return false;
    }
    memcpy(out->moved, moved.example, sizeof(out->moved));
    out->moved_count = moved.count;
    find_rebuilt(files, out);
    qsort(entries, count, sizeof(*entries), compare_entries);
    for (size_t i = 0, end; i < count; i = end) {
        end = end_of_class(entries, i, count);
        bool by_file = files_hold(entries, i, end);
        if (by_file) {
            join_renamed(entries, i, end);
        }
        for (size_t j = i, next; j < end; j = next) {
            next = by_file ? end_of_files(entries, j, end) : end;
            add_class(out, entries, j, next, alike);
        }
    }
    free(entries);
    join_by_address(files, out);
    count_kinds(out);
    qsort(out->rows, out->count, sizeof(*out->rows), compare_rows);
    for (unsigned side = 0; side < 2; side++) {
        for (size_t i = 0; i < out->count; i++) {
            add(&out->bytes[side], out->rows[i].bytes[side]);
            add(&out->counts[side], out->rows[i].counts[side]);
        }
        add(&out->bytes[side], files[side].rest_bytes);
        add(&out->counts[side], files[side].rest_count);
    }
    return true;
}

void gs_diff_free(struct gs_diff *diff)
{
    free(diff->rows);
    *diff = (struct gs_diff){.rows = NULL};
}

/* ---- --fail-on --------------------------------------------------------------------- */

static bool read_limit(const char *text, size_t length, uint64_t *out)
{
    const struct gs_option share = {.type = GS_OPTION_SHARE};
    char value[64];
    if (length >= sizeof(value)) {
        return false;
    }
    memcpy(value, text, length);
    value[length] = '\0';
    return gs_option_parse(&share, value, out) == GS_OK;
}

bool gs_diff_limits_read(const char *words, struct gs_diff_limits *out)
{
    static const char names[][8] = {[GS_DIFF_NEW] = "new", [GS_DIFF_GROWN] = "grown"};
    *out = (struct gs_diff_limits){.fails = {false}};
    for (const char *at = words;; at++) {
        size_t length = strcspn(at, ","), name = strcspn(at, ":,"), kind = 0;
        while (kind < GS_ARRAY_LEN(names) &&
               (strlen(names[kind]) != name || memcmp(at, names[kind], name) != 0)) {
            kind++;
        }
        if (kind == GS_ARRAY_LEN(names) ||
            (name < length &&
             !read_limit(at + name + 1, length - name - 1, &out->limits[kind]))) {
            return false;
        }
        out->fails[kind] = true;
        at += length;
        if (*at == '\0') {
            return true;
        }
    }
}

size_t gs_diff_failures(const struct gs_diff *diff, const struct gs_diff_limits *limits)
{
    size_t count = 0;
    for (size_t i = 0; i < diff->count; i++) {
        const struct gs_diff_row *row = &diff->rows[i];
        uint64_t limit = gs_share_bytes(limits->limits[row->kind], row->bytes[0]);
        count += limits->fails[row->kind] &&
                 (limit == 0 || distance(row->bytes[0], row->bytes[1]) > limit);
    }
    return count;
}
