/*
 * export_csv.c - a row for each call site: what it has now, leaked, had at the peak, and
 * allocated in all. Fields are quoted by RFC 4180; lines end with a line feed.
 *
 * The sums of a row come from the leaks, the peaks and the samples, which may know one
 * call site by different numbers. So a row is what reads the same, with the paths of its
 * owner and of each frame: these columns came later, and are the last ones.
 *
 * Owns: the rows while they are summed.   Lock: none.   Design: docs/outputs.md
 */
#include "gs_hash.h"
#include "tracker/report/export_internal.h"

#include "tracker/stacks/scopes.h"

#include <stdlib.h>

enum sum { LIVE, LEAKED, PEAK, TOTAL, SUMS };

static const char header[] =
    "device,kind,owner,call,function,file,line,stack,live_bytes,live_count,leaked_bytes,"
    "leaked_count,peak_bytes,peak_count,total_bytes,total_count,owner_path,places,"
    "scope\n";

struct row {
    UT_hash_handle hh; /* by text */
    uint64_t bytes[SUMS], count[SUMS];
    size_t sums_at; /* in the text: where the sums belong */
    bool has_peak;  /* what it had at the peak is known */
    char text[];    /* the other fields, each with a comma after it */
};

/* A text that is written through an export's buffer. */
struct text {
    struct gs_text bytes;
    struct gs_export_out out;
    struct gs_export_sink sink;
};

struct table {
    const struct gs_export *export;
    struct row *rows;
    struct text text, field; /* of the row that is looked up, and one of its fields */
    bool failed;             /* out of memory */
};

/* ---- one row ---------------------------------------------------------------------- */

static struct gs_export_out *begin(struct text *text)
{
    text->bytes.length = 0;
    text->sink = gs_export_text_sink(&text->bytes);
    gs_out_begin(&text->out, &text->sink);
    return &text->out;
}

static const char *end(struct table *table, struct text *text)
{
    table->failed |= gs_out_end(&text->out) != GS_OK;
    return text->bytes.length > 0 ? text->bytes.data : "";
}

static void put_field(struct gs_export_out *out, const char *text)
{
    bool quoted = strpbrk(text, ",\"") != NULL;

    if (quoted) {
        gs_out_char(out, '"');
    }
    while (*text) {
        struct gs_utf8 c = gs_utf8_take(&text);

        if (*c.bytes == '"') {
            gs_out_char(out, '"');
        }
        if (gs_is_control(c.bytes, c.length)) {
            gs_out_char(out, '?');
        } else {
            gs_out_bytes(out, c.bytes, c.length);
        }
    }
    gs_out_text(out, quoted ? "\"," : ",");
}

/* Writes function, file and line of the innermost frame, and the stack. */
static void put_frames(struct table *table, struct gs_export_out *out, uint32_t stack)
{
    const struct gs_symbol_request *frame =
        gs_export_frame(table->export, gs_export_stack(table->export, stack), 0);
    struct gs_export_out *field = begin(&table->field);

    if (frame) {
        gs_export_put_frame(field, frame);
    }
    put_field(out, end(table, &table->field));
    put_field(out, frame && frame->result.file ? frame->result.file : "");
    if (frame && frame->result.line != 0) {
        gs_out_number(out, frame->result.line);
    }
    gs_out_char(out, ',');
    gs_export_put_frames(table->export, begin(&table->field), stack);
    const char *frames = end(table, &table->field);
    put_field(out, *frames == ';' ? frames + 1 : frames);
}

/* Writes "main.c:10;leaky.c:30" with whole paths, as the stack has the functions. */
static void put_places(struct table *table, struct gs_export_out *out, uint32_t id)
{
    const struct gs_export *export = table->export;
    const struct gs_export_stack *stack = gs_export_stack(export, id);
    struct gs_export_out *field = begin(&table->field);
    const char *between = "";

    for (uint32_t i = stack ? stack->end : 0; stack && i-- > stack->begin;) {
        const struct gs_symbol_request *frame =
            &export->locations[export->frames[stack->first + i]];
        if (i != stack->begin && gs_report_frame_is_carrier(frame)) {
            continue;
        }
        gs_out_text(field, between);
        between = ";";
        gs_out_part(field,
                    frame->result.file ? frame->result.file
                    : frame->module    ? frame->module->path
                                       : "",
                    ";");
        if (frame->result.line != 0) {
            gs_out_char(field, ':');
            gs_out_number(field, frame->result.line);
        }
    }
    put_field(out, end(table, &table->field));
}

/* The number of the scope of a stack, which is the outermost frame; 0: none. */
static GS_NOINLINE uint32_t scope_of(const struct gs_stacks *stacks, uint32_t id)
{
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    unsigned count = gs_report_stack_frames(stacks, id, frames);

    return count > 0 && gs_frame_is_scope(frames[count - 1])
               ? (uint32_t)(frames[count - 1] - GS_SCOPE_FRAME_BASE)
               : 0;
}

static void put_scope(struct table *table, struct gs_export_out *out, uint32_t id)
{
    const struct gs_stacks *stacks = table->export->tracker->config.stacks;
    char path[GS_SCOPE_PATH_SIZE] = "";

    (void)gs_scopes_path(stacks, scope_of(stacks, id), path);
    put_field(out, path);
}

/* Returns the fields without the sums, until the next call. */
static const char *describe(struct table *table, const struct gs_group *site,
                            size_t *sums_at)
{
    const struct gs_export *export = table->export;
    const struct gs_export_stack *stack = gs_export_stack(export, site->stack);
    const char *cached_by = gs_report_cached_by(site);
    const char *owner = cached_by ? cached_by : gs_export_owner(export, site->stack);
    struct gs_export_out *out = begin(&table->text);

    if (!gs_export_on_host(site->kind, site->device)) {
        gs_out_number(out, (uint64_t)site->device);
    }
    gs_out_char(out, ',');
    put_field(out, gs_export_kind(site->kind));
    put_field(out, gs_module_base_name(owner));
    put_field(out, gs_export_call_of(export, stack, site));
    put_frames(table, out, site->stack);
    *sums_at = strlen(end(table, &table->text));
    put_field(out, owner ? owner : "");
    put_places(table, out, site->stack);
    put_scope(table, out, site->stack);
    return end(table, &table->text);
}

/* Registered, imported and mapped memory has no peak, nor has that of a state file. */
static bool is_peak_known(const struct gs_report_data *data, const struct gs_group *site)
{
    const unsigned row = gs_totals_row(site->device, site->kind);

    return row < GS_PEAK_ROWS && data->peaks[row].known;
}

/* Adds to the sum of a call site: the key of `site`. */
static void add(struct table *table, const struct gs_group *site, enum sum sum,
                uint64_t bytes, uint64_t count)
{
    size_t sums_at;
    const char *text = describe(table, site, &sums_at);
    size_t length = strlen(text);
    struct row *row;

    HASH_FIND(hh, table->rows, text, length, row);
    if (!row && (row = calloc(1, sizeof(*row) + length + 1))) {
        memcpy(row->text, text, length);
        row->sums_at = sums_at;
        row->has_peak = is_peak_known(table->export->data, site);
        HASH_ADD_KEYPTR(hh, table->rows, row->text, length, row);
        if (!row->hh.tbl) {
            free(row);
            row = NULL;
        }
    }
    if (!row) {
        table->failed = true;
        return;
    }
    row->bytes[sum] += bytes;
    row->count[sum] += count;
}

/* ---- the whole table -------------------------------------------------------------- */

/* The first `leaks` groups leaked at the end, or with their context. */
static void add_groups(struct table *table, const struct gs_groups *groups, size_t leaks)
{
    bool running = table->export->config->running;

    for (size_t i = 0; i < groups->count; i++) {
        const struct gs_group *group = &groups->items[i];

        if (!group->lost) {
            add(table, group, LIVE, group->bytes, group->count);
        }
        if (i < leaks && (group->lost || !running)) {
            add(table, group, LEAKED, group->bytes, group->count);
        }
    }
}

static void add_peaks(struct table *table, const struct gs_peak *peak)
{
    for (size_t i = 0; peak->known && i < peak->count; i++) {
        const struct gs_group *held = &peak->places[i].held;
        add(table, held, PEAK, held->bytes, held->count);
    }
}

static void add_samples(struct table *table)
{
    for (size_t i = 0; i < table->export->sample_count; i++) {
        const struct gs_sample *sample = &table->export->samples[i];
        const struct gs_group site = {.stack = sample->stack,
                                      .api = sample->api,
                                      .device = sample->device,
                                      .kind = sample->kind};
        add(table, &site, TOTAL, sample->alloc_bytes, sample->alloc_count);
    }
}

/* `totals`: what was allocated in all is known. */
static void put_row(struct gs_export_out *out, const struct row *row, bool totals)
{
    gs_out_bytes(out, row->text, row->sums_at);
    for (unsigned i = 0; i < SUMS; i++) {
        bool known = i == TOTAL ? totals : i != PEAK || row->has_peak;

        if (i > 0) {
            gs_out_char(out, ',');
        }
        if (known) {
            gs_out_number(out, row->bytes[i]);
        }
        gs_out_char(out, ',');
        if (known) {
            gs_out_number(out, row->count[i]);
        }
    }
    gs_out_char(out, ',');
    size_t end = strlen(row->text) - 1; /* without the last comma */
    gs_out_bytes(out, row->text + row->sums_at, end - row->sums_at);
    gs_out_char(out, '\n');
}

static void fill(struct table *table)
{
    const struct gs_report_data *data = table->export->data;

    add_groups(table, &data->groups, data->leak_groups);
    add_groups(table, &data->registered, 0);
    add_groups(table, &data->unplaced, data->unplaced.count);
    for (unsigned i = 0; i < GS_PEAK_ROWS; i++) {
        add_peaks(table, &data->peaks[i]);
    }
    if (table->export->tracker->tally) {
        add_samples(table);
    }
}

enum gs_status gs_export_write_csv(const struct gs_export *export,
                                   const struct gs_export_sink *sink)
{
    struct table *table = calloc(1, sizeof(*table));
    struct gs_export_out out;

    if (!table) {
        return GS_ERR_HOST_NOMEM;
    }
    table->export = export;
    fill(table);
    gs_out_begin(&out, sink);
    gs_out_text(&out, header);
    for (const struct row *row = table->rows; row; row = row->hh.next) {
        put_row(&out, row, export->tracker->tally != NULL);
    }
    enum gs_status status = gs_out_end(&out);
    if (table->failed) {
        status = GS_ERR_HOST_NOMEM;
    }
    GS_HASH_FREE(table->rows);
    gs_text_free(&table->text.bytes);
    gs_text_free(&table->field.bytes);
    free(table);
    return status;
}
