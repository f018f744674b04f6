/*
 * state_read.c - rebuilds a tracker from the memory of one that has ended.
 *
 * Addresses in the file are those of the process that wrote it. Each is converted to a
 * position in the file, with as many bytes as needed, or to NULL. The data enters a
 * tracker of this process through the tracker's ordinary functions.
 *
 * Owns:  struct gs_state_found.   Lock: none.   Design: docs/state.md
 */
#include "gs_printable.h"
#include "tracker/statefile/state_read.h"

#include <stdlib.h>
#include <string.h>

#include "tracker/python/python_internal.h"
#include "tracker/statefile/state_read_internal.h"

const void *gs_image_at(const struct gs_image *image, uint64_t address, uint64_t bytes,
                        size_t alignment)
{
    uint64_t offset = address - image->base;

    return address != 0 && offset % alignment == 0 && offset < image->bytes &&
                   bytes <= image->bytes - offset
               ? image->data + offset
               : NULL;
}

/* Returns a text that is in the file with its NUL; NULL: it is not. */
static const char *text_at(const struct gs_image *image, const char *address)
{
    uint64_t offset = (uintptr_t)address - image->base;

    return address && offset < image->bytes &&
                   memchr(image->data + offset, '\0', image->bytes - offset)
               ? image->data + offset
               : NULL;
}

const char gs_state_cut_short[] = "cut short";
const char gs_state_is_none[] = "not a state file of gpushim";

/* ---- the header ------------------------------------------------------------------- */

void gs_image_end_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    gs_make_printable(text, false);
}

enum gs_status gs_state_read_header(const void *data, size_t bytes,
                                    const struct gs_state_read_config *config,
                                    struct gs_state_header *header, const char **problem)
{
    *problem = NULL;
    if (bytes < sizeof(header->magic) ||
        memcmp(data, GS_STATE_MAGIC, sizeof(header->magic)) != 0) {
        *problem = gs_state_is_none;
    } else if (bytes < sizeof(*header)) {
        *problem = gs_state_cut_short;
    }
    if (*problem) {
        return GS_ERR_INVALID;
    }
    memcpy(header, data, sizeof(*header));
    gs_image_end_text(header->version, sizeof(header->version));
    gs_image_end_text(header->process.boot, sizeof(header->process.boot));
    gs_image_end_text(header->process.hostname, sizeof(header->process.hostname));
    gs_image_end_text(header->process.command, sizeof(header->process.command));
    header->process.program[sizeof(header->process.program) - 1] =
        '\0'; /* to be opened */
    gs_image_end_text(header->process.ending, sizeof(header->process.ending));
    gs_image_end_text(header->process.seen_ending, sizeof(header->process.seen_ending));
    if (header->device_count > GS_MAX_DEVICES) {
        header->device_count = GS_MAX_DEVICES;
    }
    for (uint32_t i = 0; i < header->device_count; i++) {
        gs_image_end_text(header->devices[i], sizeof(header->devices[i]));
        gs_image_end_text(header->buses[i], sizeof(header->buses[i]));
        gs_image_end_text(header->uuids[i], sizeof(header->uuids[i]));
    }
    if (header->layout != config->layout) {
        *problem = strcmp(header->version, config->version) != 0
                       ? "of another version of gpushim"
                       : "of another build of gpushim";
    }
    return *problem ? GS_ERR_INVALID : GS_OK;
}

/* ---- stacks ----------------------------------------------------------------------- */

uintptr_t gs_image_frame(const struct gs_image *image, uintptr_t frame)
{
    bool scope = gs_frame_is_scope(frame);
    uintptr_t base = scope ? GS_SCOPE_FRAME_BASE : GS_PYTHON_FRAME_BASE;
    uintptr_t number = frame - base;
    const struct gs_python *from = scope ? image->scopes : image->python;
    const struct gs_python_node *nodes;
    const struct gs_stacks *stacks = image->out->stacks;
    struct gs_python *python = atomic_load_explicit(
        scope ? &stacks->scopes : &stacks->python, memory_order_relaxed);

    if (!gs_frame_is_python(frame)) {
        return frame;
    }
    if (!from || !python || number >> GS_PYTHON_CHUNK_BITS >= GS_PYTHON_CHUNKS) {
        return 0;
    }
    nodes = atomic_load_explicit(&from->nodes[number >> GS_PYTHON_CHUNK_BITS],
                                 memory_order_relaxed);
    nodes = AT(image, nodes, (size_t)1 << GS_PYTHON_CHUNK_BITS);
    if (!nodes) {
        return 0;
    }
    nodes += number % ((uintptr_t)1 << GS_PYTHON_CHUNK_BITS);
    const char *function = text_at(image, nodes->function);
    const char *file = text_at(image, nodes->file);
    uintptr_t read = function && file
                         ? gs_python_location_add(python, function, file, nodes->line)
                         : 0;
    return read == 0 ? 0 : read - GS_PYTHON_FRAME_BASE + base;
}

/* Reads the frames of an entry, innermost first. Returns 0 if they cannot be read. */
static unsigned read_frames(const struct gs_image *image,
                            const struct gs_stack_entry *entry,
                            uintptr_t frames[GS_STACK_MAX_DEPTH])
{
    const struct gs_stack_table *table = &image->stacks->table;
    uint32_t node = entry->leaf;

    if (entry->depth > GS_STACK_MAX_DEPTH) {
        return 0;
    }
    for (unsigned i = 0; i < entry->depth; i++) {
        const struct gs_stack_node *nodes = NULL;

        if (node != 0 && node >> GS_STACK_CHUNK_BITS < GS_STACK_CHUNKS) {
            nodes = atomic_load_explicit(&table->nodes[node >> GS_STACK_CHUNK_BITS],
                                         memory_order_relaxed);
            nodes = AT(image, nodes, (size_t)1 << GS_STACK_CHUNK_BITS);
        }
        if (!nodes) {
            return 0;
        }
        nodes += node % (1u << GS_STACK_CHUNK_BITS);
        frames[i] = gs_image_frame(image, nodes->frame);
        if (frames[i] == 0) {
            return 0;
        }
        node = nodes->parent;
    }
    return entry->depth;
}

uint32_t gs_image_stack(const struct gs_image *image, uint32_t id)
{
    struct gs_stacks *stacks = image->out->stacks;
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    const struct gs_stack_entry *entries;
    unsigned count;

    if (gs_stack_left_out(id)) {
        return id;
    }
    if (id == 0 || id >= image->id_count ||
        id >> GS_STACK_CHUNK_BITS >= GS_STACK_CHUNKS) {
        return 0;
    }
    if (image->ids[id] != 0) {
        return image->ids[id];
    }
    entries = atomic_load_explicit(
        &image->stacks->table.entries[id >> GS_STACK_CHUNK_BITS], memory_order_relaxed);
    entries = AT(image, entries, (size_t)1 << GS_STACK_CHUNK_BITS);
    if (!entries) {
        return 0;
    }
    entries += id % (1u << GS_STACK_CHUNK_BITS);
    count = read_frames(image, entries, frames);
    if (count == 0) {
        return 0;
    }
    bool truncated = entries->truncated != 0;
    image->ids[id] =
        gs_stack_table_add(&stacks->table, gs_stack_hash(frames, count, truncated),
                           frames, count, truncated, entries->epoch);
    return image->ids[id];
}

static void add_modules(const struct gs_image *image,
                        const struct gs_module_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct gs_module_record record = records[i];

        record.module.path = text_at(image, record.module.path);
        if (record.module.build_id_len > sizeof(record.module.build_id)) {
            record.module.build_id_len = 0;
        }
        if (record.module.path && record.module.begin < record.module.end) {
            gs_module_table_add(&image->out->stacks->modules, &record);
        }
    }
}

static void read_modules(const struct gs_image *image)
{
    const struct gs_module_table *table = &image->stacks->modules;
    size_t count = table->count < table->capacity ? table->count : table->capacity;
    const struct gs_module_record *records =
        count < image->bytes ? AT(image, table->records, count) : NULL;

    if (!records) { /* the file could not grow */
        count = table->kept_count;
        records = count < image->bytes ? AT(image, table->kept, count) : NULL;
    }
    if (records) {
        add_modules(image, records, count);
    }
}

/* A table of the file, for which an empty one is created; NULL: the file has none. */
static const struct gs_python *read_names(const struct gs_image *image,
                                          const _Atomic(struct gs_python *) *from,
                                          _Atomic(struct gs_python *) *to)
{
    const struct gs_python *table = atomic_load_explicit(from, memory_order_relaxed);

    table = AT(image, table, 1);
    if (table) {
        atomic_store(to, gs_python_create_bare(&image->out->stacks->lock, NULL));
    }
    return table;
}

static enum gs_status read_stacks(struct gs_image *image)
{
    const struct gs_stacks_config config = {.unwinder = GS_UNWIND_OFF,
                                            .depth = GS_STACK_MAX_DEPTH};
    struct gs_state_found *out = image->out;

    if (gs_stacks_create(&config, &out->stacks) != GS_OK) {
        return GS_ERR_HOST_NOMEM;
    }
    image->stacks = AT(image, (const struct gs_stacks *)image->tracker->config.stacks, 1);
    if (!image->stacks) {
        return GS_OK;
    }
    image->python = read_names(image, &image->stacks->python, &out->stacks->python);
    image->scopes = read_names(image, &image->stacks->scopes, &out->stacks->scopes);
    image->id_count =
        atomic_load_explicit(&image->stacks->table.count, memory_order_relaxed) + 1;
    if (image->id_count > (uint64_t)GS_STACK_CHUNKS << GS_STACK_CHUNK_BITS) {
        image->id_count = GS_STACK_CHUNKS << GS_STACK_CHUNK_BITS;
    }
    image->ids = calloc(image->id_count + 1, sizeof(*image->ids));
    if (!image->ids) {
        return GS_ERR_HOST_NOMEM;
    }
    read_modules(image);
    return GS_OK;
}

/* ---- records ---------------------------------------------------------------------- */

void gs_image_record_time(const struct gs_image *image, uint64_t time_ns)
{
    if (time_ns > image->out->last_ns && time_ns <= GS_TIME_MAX * GS_TIME_UNIT_NS) {
        image->out->last_ns = time_ns;
    }
}

bool gs_image_allocation(const struct gs_image *image, struct gs_allocation *allocation)
{
    if (allocation->kind >= GS_MEMORY_KINDS || allocation->device < 0) {
        return false;
    }
    if (allocation->api >= image->api_count) {
        allocation->api = 0;
    }
    allocation->stack = gs_image_stack(image, allocation->stack);
    gs_image_record_time(image, allocation->time_ns);
    return true;
}

/* Reads the record of an id. False: it is not live, or cannot be read. */
static bool read_record(const struct gs_image *image, uint32_t id,
                        const struct gs_record *words, struct gs_allocation *out)
{
    const struct gs_origin *place =
        &image->tracker->origins[words->size >> GS_BYTES_BITS];
    const uint64_t *streams;

    if (place->tag == 0) {
        return false;
    }
    *out = gs_words_unpack(words, place);
    out->stack = gs_stack_plain(out->stack);
    streams = AT(image, (const uint64_t *)image->tracker->streams[id >> GS_CHUNK_SHIFT],
                 (size_t)1 << GS_CHUNK_SHIFT);
    if ((place->tag & GS_TAG_STREAM) != 0 && streams) {
        out->stream = streams[id % (1u << GS_CHUNK_SHIFT)];
    }
    if (out->time_ns == 0) {
        out->time_ns = 1; /* 0 would mean now */
    }
    return gs_image_allocation(image, out);
}

static bool is_live(const struct gs_record *words)
{
    enum gs_slot slot = (enum gs_slot)(words->stamp & GS_SLOT_MASK);

    return slot == GS_SLOT_INDEXED || slot == GS_SLOT_ADDRESS;
}

static void read_chunk(const struct gs_image *image, uint32_t first, uint32_t end)
{
    struct gs_state_found *out = image->out;
    const struct gs_record *records = AT(
        image, (const struct gs_record *)image->tracker->chunks[first >> GS_CHUNK_SHIFT],
        (size_t)1 << GS_CHUNK_SHIFT);

    if (!records) { /* the file could not grow: the number of live allocations is
                     * unknown */
        out->header->not_there += sizeof(*records);
        return;
    }
    for (uint32_t id = first; id < end; id++) {
        const struct gs_record *words = &records[id - first];
        struct gs_allocation allocation;
        uint32_t made;

        if (is_live(words) && (!read_record(image, id, words, &allocation) ||
                               gs_tracker_add(out->tracker, &allocation, true, &made))) {
            out->left_out++;
        }
    }
}

static void read_records(const struct gs_image *image)
{
    uint64_t limit = image->tracker->record_limit;

    if (limit > (uint64_t)GS_CHUNKS << GS_CHUNK_SHIFT) {
        limit = (uint64_t)GS_CHUNKS << GS_CHUNK_SHIFT;
    }
    for (uint64_t first = 0; first < limit; first += (uint64_t)1 << GS_CHUNK_SHIFT) {
        uint64_t end = first + ((uint64_t)1 << GS_CHUNK_SHIFT);

        read_chunk(image, (uint32_t)first, (uint32_t)(end < limit ? end : limit));
    }
}

/* ---- the whole file --------------------------------------------------------------- */

/* The clock of a tracker whose process has ended. */
#define STOPPED_S 4000000000

static int stopped_clock(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = STOPPED_S};
    return 0;
}

/* Reads a bool of the file: bytes other than 0 and 1 are undefined as a bool. */
static bool was_set(const bool *at)
{
    unsigned char byte;

    memcpy(&byte, at, 1);
    return byte != 0;
}

static enum gs_status read_all(struct gs_image *image,
                               const struct gs_state_read_config *config)
{
    struct gs_state_found *out = image->out;
    const struct gs_tracker_config *was = &image->tracker->config;
    enum gs_status status = read_stacks(image);
    const struct gs_tracker_config tracker = {.api_names = config->api_names,
                                              .api_count = config->api_count,
                                              .stacks = out->stacks,
                                              .clock = stopped_clock,
                                              .sampling = was->sampling,
                                              .stopped = was_set(&was->stopped),
                                              .attached = was_set(&was->attached)};

    if (status == GS_OK) {
        status = gs_tracker_create(&tracker, &out->tracker);
    }
    if (status != GS_OK) {
        return status;
    }
    out->annex = gs_image_at(image, out->header->annex, config->annex_bytes,
                             _Alignof(max_align_t));
    read_records(image);
    out->tracker->peaks_past = true;
    gs_image_past(image);
    const uint64_t copied_ns = out->header->process.copied_ns;
    const uint64_t now_ns = copied_ns != 0 ? copied_ns : config->now_ns;
    if (now_ns > image->tracker->start_ns) {
        gs_image_record_time(image, now_ns - image->tracker->start_ns);
    }
    out->tracker->start_ns = (uint64_t)STOPPED_S * 1000000000u - out->last_ns;
    return GS_OK;
}

enum gs_status gs_state_read(const void *data, size_t bytes,
                             const struct gs_state_read_config *config,
                             struct gs_state_found *out, const char **problem)
{
    struct gs_image image = {.data = data, .bytes = bytes, .out = out};
    enum gs_status status = GS_ERR_HOST_NOMEM;

    *out = (struct gs_state_found){.header = calloc(1, sizeof(*out->header))};
    *problem = gs_status_text(status);
    if (out->header) {
        status = gs_state_read_header(data, bytes, config, out->header, problem);
    }
    if (status == GS_OK) {
        image.base = out->header->base;
        image.api_count = config->api_count;
        image.tracker =
            AT(&image, (const struct gs_tracker *)(uintptr_t)out->header->tracker, 1);
        if (!image.tracker) {
            *problem = out->header->tracker ? gs_state_cut_short
                                            : "of a process that had just started";
            status = GS_ERR_INVALID;
        }
    }
    if (status == GS_OK) {
        status = read_all(&image, config);
        if (status != GS_OK) {
            *problem = gs_status_text(status);
        }
    }
    for (size_t i = 0; status == GS_OK && i < config->stacks.count; i++) {
        config->stacks.ids[i] =
            image.ids ? gs_image_stack(&image, config->stacks.ids[i]) : 0;
    }
    free(image.ids);
    if (status != GS_OK) {
        gs_state_found_free(out);
    }
    return status;
}

void gs_state_found_free(struct gs_state_found *found)
{
    gs_growth_destroy(found->growth);
    gs_tracker_destroy(found->tracker);
    gs_stacks_destroy(found->stacks);
    free(found->header);
    *found = (struct gs_state_found){0};
}
