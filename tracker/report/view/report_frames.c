/*
 * report_frames.c - stacks in printed form: named, and only with the program's frames.
 *
 * At the inner end the frames of the CUDA runtime, the driver and this library are
 * dropped, and all frames down to the outermost runtime function by name: a statically
 * linked runtime is inside the program's own file. The frames of frameworks that follow
 * are kept apart, as `inner`: the stack begins with the program's own frame. At the outer
 * end the frames around main and around a thread's first function are dropped.
 * frame_kinds.def says whose a frame is. Inlined functions are frames of their own once
 * lines are known.
 *
 * Owns: a struct gs_frame_table.   Lock: none.
 * Design: docs/tracker.md
 */
#include "gs_compare.h"
#include "tracker/names/frame_kinds.h"
#include "tracker/report/report_internal.h"

#include <stdlib.h>

const char *gs_report_frame_module_path(const struct gs_symbol_request *request)
{
    return request->module && request->module->path && request->module->path[0]
               ? request->module->path
               : request->result.module;
}

const char *gs_report_frame_path(const struct gs_symbol_request *request)
{
    const char *file = request->result.file;

    return file && file[0] ? file : gs_report_frame_module_path(request);
}

const char *gs_report_frame_module(const struct gs_symbol_request *request)
{
    return gs_module_base_name(gs_report_frame_module_path(request));
}

static struct gs_frame_class class_of(const struct gs_symbol_request *frame)
{
    return gs_frame_class(frame, gs_report_frame_module(frame));
}

/* ---- sets of stacks ------------------------------------------------------------- */

void gs_stack_ids_add(struct gs_stack_ids *ids, uint32_t stack)
{
    if (ids->count == ids->capacity) {
        size_t capacity = ids->capacity ? ids->capacity * 2 : 64;
        uint32_t *items = realloc(ids->items, capacity * sizeof(*items));

        ids->failed = ids->failed || !items;
        if (!items) {
            return;
        }
        ids->items = items;
        ids->capacity = capacity;
    }
    ids->items[ids->count++] = stack;
}

void gs_stack_ids_add_groups(struct gs_stack_ids *ids, const struct gs_groups *groups,
                             size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        gs_stack_ids_add(ids, groups->items[i].stack);
    }
}

void gs_stack_ids_add_errors(struct gs_stack_ids *ids, const struct gs_report_data *data)
{
    for (size_t i = 0; i < data->errors_kept; i++) {
        gs_stack_ids_add(ids, data->errors[i].freed.stack);
        gs_stack_ids_add(ids, data->errors[i].first_freed.stack);
        gs_stack_ids_add(ids, data->errors[i].allocation.stack);
    }
}

void gs_stack_ids_add_slow(struct gs_stack_ids *ids, const struct gs_report_data *data,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gs_stack_ids_add(ids, data->slow.sites[i].stack);
    }
}

void gs_stack_ids_add_lifetimes(struct gs_stack_ids *ids,
                                const struct gs_report_data *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gs_stack_ids_add(ids, data->churn.sites[i].stack);
    }
}

void gs_stack_ids_add_hints(struct gs_stack_ids *ids, const struct gs_report_data *data)
{
    for (size_t i = 0; i < data->grown_parts; i++) {
        gs_stack_ids_add(ids, data->grown_part[i].stack);
    }
    for (size_t i = 0; i < data->grown_count; i++) {
        gs_stack_ids_add(ids, data->grown[i].stack);
    }
    gs_stack_ids_add_lifetimes(ids, data, data->churn_shown);
    for (size_t i = 0; i < data->pinned_shown; i++) {
        gs_stack_ids_add(ids, data->pinned.sites[i].stack);
    }
}

static int compare_ids(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return GS_RISING(a, b);
}

size_t gs_stack_ids_unique(uint32_t *ids, size_t count)
{
    size_t kept = 0;

    if (count > 0) {
        qsort(ids, count, sizeof(*ids), compare_ids);
    }
    for (size_t i = 0; i < count; i++) {
        if (ids[i] != 0 && (kept == 0 || ids[i] != ids[kept - 1])) {
            ids[kept++] = ids[i];
        }
    }
    return kept;
}

/* ---- frames --------------------------------------------------------------------- */

unsigned gs_report_stack_frames(const struct gs_stacks *stacks, uint32_t id,
                                uintptr_t frames[GS_STACK_MAX_DEPTH])
{
    unsigned count =
        stacks && id ? gs_stacks_frames(stacks, id, frames, GS_STACK_MAX_DEPTH) : 0;

    return count < GS_STACK_MAX_DEPTH ? count : GS_STACK_MAX_DEPTH;
}

static GS_NOINLINE void request_stack(struct gs_frame_table *table,
                                      const struct gs_stacks *stacks,
                                      const struct gs_report_source *source,
                                      size_t number)
{
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    unsigned count = gs_report_stack_frames(stacks, table->stacks[number], frames);

    for (unsigned i = 0; i < count; i++) {
        size_t at = table->first[number] + i;
        struct gs_symbol_request *request = &table->requests[at];
        request->frame = frames[i];
        if (source->module(source->self, table->stacks[number], frames[i],
                           &table->modules[at]) == GS_OK) {
            request->module = &table->modules[at];
        }
    }
    table->first[number + 1] = table->first[number] + count;
}

void gs_report_resolve(const struct gs_report_source *source,
                       const struct gs_stacks *stacks, struct gs_symbol_request *requests,
                       size_t count)
{
    struct gs_python_location place;

    if (source->resolve && count > 0) {
        source->resolve(source->self, requests, count);
    }
    /* No symbol file has the names of Python's frames. */
    for (size_t i = 0; i < count; i++) {
        struct gs_symbol *symbol = &requests[i].result;

        if (!gs_frame_is_python(requests[i].frame) ||
            gs_stacks_python(stacks, requests[i].frame, &place) != GS_OK) {
            continue;
        }
        symbol->function = place.function;
        symbol->file = place.file;
        symbol->line = place.line;
    }
}

static struct gs_shown_stack show_number(const struct gs_frame_table *table,
                                         const struct gs_report_config *config,
                                         size_t number, enum gs_inlined inlined)
{
    return gs_report_show_frames(
        &table->requests[table->first[number]],
        (unsigned)(table->first[number + 1] - table->first[number]),
        gs_stacks_truncated(table->source, table->stacks[number]), inlined, config);
}

/* What is shown of a stack depends on names and modules alone. Debug files of the
 * others, such as libc's, may take longer to read than the program's own. */
static void find_shown_lines(const struct gs_frame_table *table,
                             const struct gs_report_config *config,
                             const struct gs_report_source *source)
{
    size_t count = table->first[table->stack_count];

    for (size_t i = 0; i < table->stack_count; i++) {
        struct gs_shown_stack shown = show_number(table, config, i, GS_INLINED_UNKNOWN);
        size_t begin = (size_t)(shown.frames - table->requests);
        size_t inner = config->all_frames ? shown.inner : 0;
        for (size_t at = begin - inner; at < begin + shown.count; at++) {
            table->requests[at].line_wanted = true;
        }
    }
    source->find_lines(source->self, table->requests, count);
}

unsigned gs_report_put_inlined(const struct gs_symbol_request *frame,
                               struct gs_symbol_request *out)
{
    const struct gs_symbol *symbol = &frame->result;

    for (unsigned i = 0; i < symbol->inlined_count; i++) {
        *out = *frame;
        out->result = symbol->inlined[i];
        out++->inlined = true;
    }
    *out = *frame;
    return symbol->inlined_count + 1;
}

void gs_report_keep_class(struct gs_symbol_request *frame)
{
    frame->class.known = frame->class.known && !frame->result.file && !frame->inlined;
    frame->class = class_of(frame);
}

static void keep_classes(const struct gs_frame_table *table)
{
    for (size_t i = 0; i < table->first[table->stack_count]; i++) {
        gs_report_keep_class(&table->requests[i]);
    }
}

/* Makes inlined functions requests of their own. Without memory they are missing. */
static void add_inlined(struct gs_frame_table *table)
{
    size_t count = table->first[table->stack_count], more = 0, used = 0;
    struct gs_symbol_request *requests;

    for (size_t i = 0; i < count; i++) {
        more += table->requests[i].result.inlined_count;
    }
    if (more == 0 || !(requests = calloc(count + more, sizeof(*requests)))) {
        return;
    }
    for (size_t i = 0; i < table->stack_count; i++) {
        size_t at = table->first[i];
        table->first[i] = used;
        for (; at < (i + 1 < table->stack_count ? table->first[i + 1] : count); at++) {
            used += gs_report_put_inlined(&table->requests[at], &requests[used]);
        }
    }
    table->first[table->stack_count] = used;
    free(table->requests);
    table->requests = requests;
}

unsigned gs_report_place_scope(struct gs_symbol_request *frames, unsigned count,
                               bool goes_on, const struct gs_report_config *config)
{
    unsigned last = count - 1;

    if (count == 0 || !gs_frame_is_scope(frames[last].frame)) {
        return count;
    }
    const struct gs_symbol_request scope = frames[last];
    struct gs_shown_stack shown =
        gs_report_show_frames(frames, last, goes_on, GS_INLINED_ADDED, config);
    unsigned place = (unsigned)(shown.frames - frames) + shown.count;
    memmove(&frames[place + 1], &frames[place], (last - place) * sizeof(*frames));
    frames[place] = scope;
    return place;
}

static void place_scopes(const struct gs_frame_table *table,
                         const struct gs_report_config *config)
{
    for (size_t i = 0; i < table->stack_count; i++) {
        (void)gs_report_place_scope(&table->requests[table->first[i]],
                                    (unsigned)(table->first[i + 1] - table->first[i]),
                                    gs_stacks_truncated(table->source, table->stacks[i]),
                                    config);
    }
}

void gs_frame_table_fill(struct gs_frame_table *table,
                         const struct gs_report_config *config,
                         const struct gs_stacks *stacks,
                         const struct gs_report_source *source, uint32_t *ids,
                         size_t id_count)
{
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    size_t count = gs_stack_ids_unique(ids, id_count);
    size_t total = 0;

    memset(table, 0, sizeof(*table));
    table->source = stacks;
    if (!stacks || count == 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        total += gs_report_stack_frames(stacks, ids[i], frames);
    }
    table->stacks = malloc(count * sizeof(*table->stacks));
    table->first = calloc(count + 1, sizeof(*table->first));
    table->requests = calloc(total + 1, sizeof(*table->requests));
    table->modules = calloc(total + 1, sizeof(*table->modules));
    if (!table->stacks || !table->first || !table->requests || !table->modules) {
        gs_frame_table_free(table);
        return;
    }
    memcpy(table->stacks, ids, count * sizeof(*ids));
    table->stack_count = count;
    for (size_t i = 0; i < count; i++) {
        request_stack(table, stacks, source, i);
    }
    gs_report_resolve(source, stacks, table->requests, table->first[count]);
    keep_classes(table);
    if (source->find_lines) {
        find_shown_lines(table, config, source);
    }
    add_inlined(table);
    keep_classes(table);
    place_scopes(table, config);
}

void gs_frame_table_take(struct gs_frame_table *table,
                         const struct gs_report_config *config,
                         const struct gs_stacks *stacks,
                         const struct gs_report_source *source, struct gs_stack_ids *ids)
{
    gs_frame_table_fill(table, config, stacks, source, ids->items,
                        ids->failed ? 0 : ids->count);
    free(ids->items);
}

void gs_frame_table_free(struct gs_frame_table *table)
{
    free(table->stacks);
    free(table->first);
    free(table->requests);
    free(table->modules);
    memset(table, 0, sizeof(*table));
}

static bool is_named(const struct gs_symbol_request *frame, const char *name)
{
    const struct gs_symbol *symbol = &frame->result;

    if (gs_frame_is_python(frame->frame)) { /* another function of that name */
        return false;
    }
    return (symbol->linkage && strcmp(symbol->linkage, name) == 0) ||
           (symbol->function && strcmp(symbol->function, name) == 0);
}

/* Returns true for a call, or its variant for the per-thread default stream: the
 * program's source has one name for both. */
static bool is_call(const char *symbol, const char *name)
{
    size_t length;

    if (!symbol || symbol[0] != name[0]) { /* most are decided here */
        return false;
    }
    length = strlen(name);
    return strncmp(symbol, name, length) == 0 &&
           (symbol[length] == '\0' || strcmp(symbol + length, "_ptsz") == 0);
}

bool gs_report_is_runtime_call(const char *symbol, const struct gs_report_config *config)
{
    for (size_t i = 0; i < config->runtime_name_count; i++) {
        if (config->runtime_names[i] && is_call(symbol, config->runtime_names[i])) {
            return true;
        }
    }
    return false;
}

/* Returns the runtime function that contains this frame; NULL: none. */
static const char *runtime_name(const struct gs_symbol_request *frame,
                                const struct gs_report_config *config)
{
    if (gs_frame_is_python(frame->frame)) { /* another function of that name */
        return NULL;
    }
    for (size_t i = 0; i < config->runtime_name_count; i++) {
        const char *name = config->runtime_names[i];
        if (name && (is_call(frame->result.linkage, name) ||
                     is_call(frame->result.function, name))) {
            return name;
        }
    }
    return NULL;
}

static enum gs_frame_kind kind_of(const struct gs_symbol_request *frame)
{
    return (enum gs_frame_kind)class_of(frame).kind;
}

bool gs_report_frame_is_carrier(const struct gs_symbol_request *frame)
{
    return gs_frame_is_carrier(class_of(frame));
}

const char *gs_report_frame_family(const struct gs_symbol_request *frame)
{
    struct gs_frame_class class = class_of(frame);

    return gs_frame_is_carrier(class) ? gs_frame_family_name(class.family) : NULL;
}

static bool is_runtime(const struct gs_symbol_request *frame)
{
    enum gs_frame_kind kind = kind_of(frame);

    return gs_module_is_runtime(gs_report_frame_module(frame)) ||
           kind == GS_FRAME_RUNTIME || kind == GS_FRAME_BRIDGE;
}

/* Returns the first frame outside of the runtime and the driver, or `count`. */
static unsigned inner_end(const struct gs_symbol_request *frames, unsigned count,
                          const struct gs_report_config *config, const char **call)
{
    unsigned begin = 0;

    *call = NULL;
    for (unsigned i = count; i-- > 0 && !*call;) {
        *call = runtime_name(&frames[i], config);
        if (*call) {
            begin = i + 1;
        }
    }
    while (begin < count && is_runtime(&frames[begin])) {
        begin++;
    }
    return begin;
}

/* The frames in which the program's own is looked for. */
struct own_search {
    const struct gs_symbol_request *frames;
    enum gs_inlined inlined;
};

static struct gs_frame_class own_class(void *self, unsigned i)
{
    const struct own_search *search = self;
    struct gs_frame_class class = class_of(&search->frames[i]);

    /* A function of the program's may be inlined in it. */
    if (search->inlined == GS_INLINED_UNKNOWN && class.kind == GS_FRAME_LIBRARY) {
        class.kind = GS_FRAME_SYSTEM;
    }
    return class;
}

/* Returns true if the outermost of `count` frames is start-up code of libc or the
 * linker. Of a stripped file, _start is known by its neighbour. */
static bool is_start_frame(const struct gs_symbol_request *frames, unsigned count)
{
    return kind_of(&frames[count - 1]) == GS_FRAME_START ||
           (!frames[count - 1].result.function && count > 1 &&
            kind_of(&frames[count - 2]) == GS_FRAME_START);
}

/* Returns the frames that were recorded: inlined ones are none. */
static unsigned count_recorded(const struct gs_symbol_request *frames, unsigned count)
{
    unsigned found = 0;

    for (unsigned i = 0; i < count; i++) {
        found += !frames[i].inlined && !gs_frame_is_scope(frames[i].frame);
    }
    return found;
}

/*
 * Returns the end of the program's own frames. `goes_on`: the walk saw more frames than
 * are kept. *cut: frames beyond the kept ones exist, so the outer end is not the
 * program's. Python's outermost frame has no name of its own, and many frames precede it
 * if native ones were left out: then only `goes_on` is reliable.
 */
static unsigned outer_end(const struct gs_symbol_request *frames, unsigned begin,
                          unsigned count, unsigned depth, bool goes_on, bool *cut)
{
    unsigned end = count;

    *cut = false;
    for (unsigned i = count; i-- > begin;) {
        if (is_named(&frames[i], "main")) {
            return i + 1;
        }
    }
    if (end > begin && !is_start_frame(frames, count) && depth > 0 &&
        count_recorded(frames, count) >= depth &&
        (goes_on || !gs_frame_is_python(frames[count - 1].frame))) {
        *cut = true;
        return end;
    }
    while (end > begin && is_start_frame(frames, end)) {
        end--;
    }
    return end;
}

/* Returns true for the main that a compiler writes around the program's own, as those of
 * Rust and D do: it has no line, and calls the language's library. */
static bool is_made_main(const struct gs_symbol_request *frames, unsigned i)
{
    return i > 0 && is_named(&frames[i], "main") && !frames[i].result.file &&
           kind_of(&frames[i - 1]) == GS_FRAME_LIBRARY;
}

/* Returns the end without the frames outside of the program's first, which a language's
 * library has to start a program or a thread. */
static unsigned library_end(const struct gs_symbol_request *frames, unsigned begin,
                            unsigned end)
{
    unsigned last = end;

    while (last > begin && (kind_of(&frames[last - 1]) == GS_FRAME_LIBRARY ||
                            kind_of(&frames[last - 1]) == GS_FRAME_START ||
                            is_made_main(frames, last - 1))) {
        last--;
    }
    return last > begin ? last : end;
}

struct gs_shown_stack gs_report_show_frames(const struct gs_symbol_request *frames,
                                            unsigned count, bool goes_on,
                                            enum gs_inlined inlined,
                                            const struct gs_report_config *config)
{
    struct gs_shown_stack shown = {0};
    unsigned begin = inner_end(frames, count, config, &shown.call);
    unsigned end =
        outer_end(frames, begin, count, config->stack_depth, goes_on, &shown.cut);

    if (inlined == GS_INLINED_ADDED && !shown.cut && !config->all_frames) {
        end = library_end(frames, begin, end);
    }
    if (begin >= end) { /* only runtime frames: show all of them rather than none */
        begin = 0;
        end = count;
    } else {
        struct own_search search = {frames + begin, inlined};
        shown.inner = gs_frame_own(own_class, &search, end - begin);
        begin += shown.inner;
    }
    if (end < count && gs_frame_is_scope(frames[end].frame)) {
        end++;
    }
    shown.frames = frames + begin;
    shown.count = end - begin;
    return shown;
}

struct gs_shown_stack gs_frame_table_show(const struct gs_frame_table *table,
                                          const struct gs_report_config *config,
                                          uint32_t stack)
{
    struct gs_shown_stack shown = {.id = stack};
    const uint32_t *found = table->stack_count
                                ? bsearch(&stack, table->stacks, table->stack_count,
                                          sizeof(stack), compare_ids)
                                : NULL;

    if (!found && table->rest) {
        return gs_frame_table_show(table->rest, config, stack);
    }
    return found ? show_number(table, config, (size_t)(found - table->stacks),
                               GS_INLINED_ADDED)
                 : shown;
}

/* NULL precedes all texts. */
static int compare_texts(const char *a, const char *b)
{
    if (a == b) {
        return 0;
    }
    if (!a || !b) {
        return a ? 1 : -1;
    }
    return strcmp(a, b);
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return GS_RISING(a, b);
}

/* The printed position of a frame without a line. */
static uint64_t offset_of(const struct gs_symbol_request *frame)
{
    if (frame->result.offset != 0 || !frame->module) {
        return frame->result.offset ? frame->result.offset : frame->frame;
    }
    return frame->frame - frame->module->bias;
}

int gs_report_compare_frames(const struct gs_symbol_request *a,
                             const struct gs_symbol_request *b)
{
    const struct gs_symbol *left = &a->result, *right = &b->result;
    int order = compare_texts(left->function, right->function);

    if (order == 0) {
        order = gs_path_compare(gs_report_frame_module_path(a),
                                gs_report_frame_module_path(b));
    }
    if (order == 0) {
        order = gs_path_compare(left->file, right->file);
    }
    if (order != 0) {
        return order;
    }
    return left->file ? compare_numbers(left->line, right->line)
                      : compare_numbers(offset_of(a), offset_of(b));
}

/* Returns the next frame that a comparison of stacks reads: `at`, or one further out. */
static unsigned next_own(const struct gs_shown_stack *stack, unsigned at)
{
    while (at > 0 && at < stack->count &&
           gs_report_frame_is_carrier(&stack->frames[at])) {
        at++;
    }
    return at;
}

int gs_report_compare_stacks(const struct gs_shown_stack *a,
                             const struct gs_shown_stack *b)
{
    int order = compare_texts(a->call, b->call);
    unsigned i = 0, k = 0;

    if (order == 0) {
        order = compare_numbers(a->cut, b->cut);
    }
    for (; order == 0 && i < a->count && k < b->count;
         i = next_own(a, i + 1), k = next_own(b, k + 1)) {
        order = gs_report_compare_frames(&a->frames[i], &b->frames[k]);
    }
    return order ? order : compare_numbers(i < a->count, k < b->count);
}
