/*
 * replay_binary.c - traces as the library records them (shim/trace/trace_format.h).
 *
 * A record is believed only if its seal fits its content and its slot. Others are passed
 * over and counted: damaged ones, and those never finished, as a killed process leaves
 * them. What is left is read in the order of its times.
 *
 * The operations are made of the records at each visit: a trace may be larger than
 * memory. Kept are the order of the slots, and the frees that were refused later.
 *
 * Owns: nothing.   Lock: none.
 */
#include "gs_compare.h"
#include "shim/tools/replay/replay_file.h"
#include "shim/tools/replay/replay_map.h"
#include "shim/tools/replay/replay_order.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_WORDS (offsetof(struct gs_trace_record, seal) / 8)
#define SEEN_ONCE    ((size_t)1 << 20) /* records between two signs of progress */

/* What is known of an address. */
struct place {
    uint64_t address;
    uint32_t id, stack; /* of the allocation that is or was last there */
    uint16_t context;
    uint8_t kind, device;
    bool live;
    uint64_t bytes;
    uint64_t freed_by; /* the number of the free among the operations + 1; 0: none */
};

/* One reading of a file. */
struct binary_reader {
    struct gs_replay_file *file;
    gs_replay_see *see;
    gs_replay_see_range *see_range; /* NULL: nobody does */
    void *self;
    bool first;                  /* it finds out which frees are refused */
    struct gs_replay_map places; /* address to index in `table` */
    struct place *table;
    size_t table_room;
    struct gs_replay_map streams, threads;
    uint32_t allocations;
    uint64_t operations; /* with refused frees */
    size_t refused;      /* of them, in file->refused */
    uint64_t damaged, strays, displaced;
};

static void GS_PRINTF(2, 3) say(struct gs_replay_note *note, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(note->text, sizeof(note->text), format, arguments);
    va_end(arguments);
}

bool gs_replay_is_binary(const unsigned char *data, size_t length)
{
    size_t magic = sizeof(GS_TRACE_MAGIC) - 1;

    return length >= magic && !memcmp(data, GS_TRACE_MAGIC, magic);
}

/* ---- records ---------------------------------------------------------------------- */

static struct place *place_of(struct binary_reader *reader, uint64_t address)
{
    size_t index = (size_t)gs_replay_map_number(&reader->places, address);

    if (index >= reader->table_room) {
        reader->table = gs_replay_grow(reader->table, reader->table_room,
                                       &reader->table_room, sizeof(*reader->table));
    }
    return &reader->table[index];
}

/* Hands on an operation, but for a free that is refused later. */
static void hand_on(struct binary_reader *reader, const struct gs_replay_op *op,
                    uint64_t address)
{
    const struct gs_replay_file *file = reader->file;
    uint64_t number = reader->operations++;

    if (!reader->first && reader->refused < file->refused_count &&
        file->refused[reader->refused] == number) {
        reader->refused++;
    } else {
        reader->see(reader->self, op, address);
    }
}

/* The place's allocation, which the operation begins or ends. */
static void hand_on_place(struct binary_reader *reader, const struct place *place,
                          struct gs_replay_op *op)
{
    op->id = place->id;
    op->stack = place->stack;
    op->bytes = place->bytes;
    op->kind = place->kind;
    op->device = place->device;
    hand_on(reader, op, place->address);
}

/* The place's allocation ends here. */
static void end_place(struct binary_reader *reader, struct place *place,
                      struct gs_replay_op *op)
{
    op->op = GS_TRACE_FREE;
    hand_on_place(reader, place, op);
    place->live = false;
    place->freed_by = reader->operations;
}

static void read_alloc(struct binary_reader *reader, const struct gs_trace_record *record,
                       struct gs_replay_op *op)
{
    struct place *place = place_of(reader, record->key);

    if (!reader->first && reader->allocations == reader->file->allocations) {
        return;
    }
    if (place->live) { /* the free is missing from the trace */
        struct gs_replay_op lost = *op;

        lost.how = GS_TRACE_HOW_NONE;
        end_place(reader, place, &lost);
        reader->displaced++;
    }
    *place = (struct place){.address = record->key,
                            .id = reader->allocations++,
                            .stack = gs_trace_record_stack(record),
                            .context = record->context,
                            .kind = record->kind,
                            .device = (uint8_t)record->device,
                            .live = true,
                            .bytes = record->bytes};
    hand_on_place(reader, place, op);
}

static void read_free(struct binary_reader *reader, const struct gs_trace_record *record,
                      struct gs_replay_op *op)
{
    struct place *place = place_of(reader, record->key);

    if (place->live) {
        end_place(reader, place, op);
    } else {
        reader->strays++;
    }
}

static void note_refused(struct gs_replay_file *file, uint64_t number)
{
    file->refused = gs_replay_grow(file->refused, file->refused_count,
                                   &file->refused_room, sizeof(*file->refused));
    file->refused[file->refused_count++] = number;
}

/* The free did not take place: later visits pass over it. */
static void read_refused(struct binary_reader *reader,
                         const struct gs_trace_record *record)
{
    struct place *place = place_of(reader, record->key);

    if (place->live || place->freed_by == 0) {
        reader->strays -= reader->strays > 0; /* the free failed */
        return;
    }
    if (reader->first) {
        note_refused(reader->file, place->freed_by - 1);
    }
    place->freed_by = 0;
    place->live = true;
}

/* Everything of the context is gone but stream-ordered memory (cuCtxDestroy). */
static void read_context_end(struct binary_reader *reader,
                             const struct gs_trace_record *record,
                             const struct gs_replay_op *op)
{
    for (size_t i = 0; i < reader->places.count; i++) {
        struct place *place = &reader->table[i];
        struct gs_replay_op lost = *op;

        if (place->live && place->context == record->context &&
            record->context != GS_TRACE_UNNUMBERED &&
            place->kind != GS_TRACE_KIND_ASYNC) {
            end_place(reader, place, &lost);
        }
    }
}

static void read_range(struct binary_reader *reader, const struct gs_trace_record *record)
{
    const struct gs_replay_range range = {.time_ns = record->time_ns,
                                          .begin = record->key,
                                          .bytes = record->bytes,
                                          .context = record->context,
                                          .kind = record->kind,
                                          .device = (uint8_t)record->device,
                                          .op = record->op};

    if (reader->see_range) {
        reader->see_range(reader->self, &range);
    }
}

static bool plausible(const struct gs_trace_record *record)
{
    return record->op < GS_TRACE_OPS && record->kind < GS_TRACE_KINDS &&
           record->how < GS_TRACE_HOWS && record->device < 256 &&
           record->bytes <= (uint64_t)1 << 47;
}

/* The threads that allocated what was live at a late start, most of them gone by then,
 * take no more numbers than this; the rest counts as the first one's. */
#define THREADS_BEFORE (GS_REPLAY_THREADS / 2)

static uint64_t number_of_thread(struct binary_reader *reader,
                                 const struct gs_trace_record *record)
{
    return record->time_ns <= GS_TRACE_BEFORE_NS &&
                   reader->threads.count >= THREADS_BEFORE &&
                   !gs_replay_map_find(&reader->threads, record->thread)
               ? 0
               : gs_replay_map_number(&reader->threads, record->thread);
}

/* False if the record is inconsistent. */
static bool read_operation(struct binary_reader *reader,
                           const struct gs_trace_record *record)
{
    uint64_t stream = record->stream, thread = number_of_thread(reader, record);
    struct gs_replay_op op = {.time_ns = record->time_ns,
                              .op = GS_TRACE_SYNC,
                              .how = record->how,
                              .thread = (uint16_t)thread};

    if (record->stream == GS_TRACE_STREAM_PER_THREAD) {
        stream |= (uint64_t)record->thread << 32;
    }
    stream = gs_replay_map_number(&reader->streams, stream);
    if (thread >= GS_REPLAY_THREADS || stream > UINT16_MAX) {
        return false;
    }
    op.stream = (uint16_t)stream;
    switch (record->op) {
    case GS_TRACE_ALLOC:
        op.op = GS_TRACE_ALLOC;
        read_alloc(reader, record, &op);
        break;
    case GS_TRACE_FREE:
        read_free(reader, record, &op);
        break;
    case GS_TRACE_FREE_REFUSED:
        read_refused(reader, record);
        break;
    case GS_TRACE_SYNC:
        hand_on(reader, &op, 0);
        break;
    case GS_TRACE_CONTEXT_END:
        read_context_end(reader, record, &op);
        read_range(reader, record);
        break;
    default:
        return false;
    }
    return true;
}

static bool read_record(struct binary_reader *reader,
                        const struct gs_trace_record *record)
{
    if (!plausible(record)) {
        return false;
    }
    if (record->op == GS_TRACE_MAPPED || record->op == GS_TRACE_UNMAPPED) {
        read_range(reader, record);
        return true;
    }
    return read_operation(reader, record);
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return GS_RISING(*x, *y);
}

/* Reads all records. Returns what was found, but for the operations. */
static struct binary_reader read_records(struct gs_replay_file *file, gs_replay_see *see,
                                         gs_replay_see_range *see_range, void *self,
                                         bool first)
{
    struct binary_reader reader = {
        .file = file, .see = see, .see_range = see_range, .self = self, .first = first};
    struct gs_trace_record record;

    file->visits++;
    for (size_t i = 0; i < file->records; i++) {
        gs_replay_order_read(file, file->order[i], &record);
        reader.damaged += !read_record(&reader, &record);
        if ((i + 1) % SEEN_ONCE == 0) {
            gs_replay_progress(file->visits, i + 1, file->records);
        }
    }
    gs_replay_progress(file->visits, 0, 0);
    gs_replay_map_free(&reader.places);
    gs_replay_map_free(&reader.streams);
    gs_replay_map_free(&reader.threads);
    free(reader.table);
    return reader;
}

void gs_replay_visit_binary(struct gs_replay_file *file, gs_replay_see *see,
                            gs_replay_see_range *see_range, void *self)
{
    (void)read_records(file, see, see_range, self, false);
}

/* gs_replay_see */
static void count_operation(void *trace, const struct gs_replay_op *op, uint64_t address)
{
    (void)address;
    gs_replay_count(trace, op);
}

bool gs_replay_scan_binary(struct gs_replay_file *file, struct gs_replay_trace *out,
                           struct gs_replay_note *note)
{
    struct binary_reader reader;
    struct gs_trace_header header;
    struct gs_replay_ordered found;
    const char *problem = gs_replay_order_header(file, &header);
    uint64_t damaged;

    if (problem) {
        say(note, "no trace: %s", problem);
        return false;
    }
    out->pid = header.pid;
    out->pid_start = header.pid_start;
    out->start_real_ns = header.start_real_ns;
    memcpy(out->program, header.program, sizeof(out->program));
    out->program[sizeof(out->program) - 1] = '\0';
    gs_replay_order(file, &header, &found);
    reader = read_records(file, count_operation, NULL, out, true);
    file->allocations = reader.allocations;
    if (file->refused_count) { /* once more, without them */
        qsort(file->refused, file->refused_count, sizeof(*file->refused), by_number);
        out->count = 0;
        gs_replay_visit_binary(file, count_operation, NULL, out);
    }
    damaged = found.damaged + reader.damaged;
    if (damaged) {
        say(note, "%llu record%s left out: damaged; %zu operations were read",
            (unsigned long long)damaged, damaged == 1 ? "" : "s", out->count);
    } else if (found.lost) {
        say(note, "%s; %zu operations were read", found.lost, out->count);
    } else if (found.unfinished) {
        say(note, "%llu record%s left out: never finished",
            (unsigned long long)found.unfinished, found.unfinished == 1 ? "" : "s");
    } else if (!header.began_late && (reader.displaced || reader.strays)) {
        say(note, "%llu frees are missing from the trace, %llu have no allocation in it",
            (unsigned long long)reader.displaced, (unsigned long long)reader.strays);
    }
    return true;
}

/* ---- writing ---------------------------------------------------------------------- */

static void write_slot(FILE *file, struct gs_trace_record *record, uint64_t slot)
{
    uint64_t words[RECORD_WORDS];

    memcpy(words, record, sizeof(words));
    record->seal = gs_trace_seal(words, RECORD_WORDS, slot);
    fwrite(record, sizeof(*record), 1, file);
}

struct made_up {
    uint64_t *addresses, end;
};

/* gs_replay_see */
static void make_up_address(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct made_up *made_up = self;

    (void)address;
    if (op->op != GS_TRACE_ALLOC) {
        return;
    }
    made_up->addresses[op->id] = made_up->end;
    made_up->end += ((op->bytes + 511) & ~(uint64_t)511) + 512; /* also of 0 bytes */
}

uint64_t *gs_replay_make_up_addresses(const struct gs_replay_trace *trace)
{
    struct made_up made_up = {
        .addresses = gs_replay_alloc(trace->allocations, sizeof(uint64_t)), .end = 512};

    gs_replay_visit(trace, make_up_address, &made_up);
    return made_up.addresses;
}

bool gs_replay_write_binary(const struct gs_replay_trace *trace, FILE *file)
{
    uint64_t *addresses = gs_replay_make_up_addresses(trace);
    struct gs_trace_header header = {.magic = GS_TRACE_MAGIC,
                                     .version = GS_TRACE_VERSION,
                                     .slot_bytes = GS_TRACE_SLOT_BYTES,
                                     .header_slots = GS_TRACE_HEADER_SLOTS,
                                     .chunk_slots = GS_TRACE_CHUNK_SLOTS,
                                     .pid = trace->pid,
                                     .pid_start = trace->pid_start,
                                     .start_real_ns = trace->start_real_ns,
                                     .end_slots = GS_TRACE_HEADER_SLOTS + trace->count,
                                     .end_reason = GS_TRACE_END_EXIT};
    uint64_t words[GS_TRACE_HEADER_WORDS], end[2];

    snprintf(header.program, sizeof(header.program), "%s",
             trace->program[0] ? trace->program : "generate");
    memcpy(words, &header, sizeof(words));
    header.seal = gs_trace_seal(words, GS_TRACE_HEADER_WORDS, 0);
    end[0] = header.end_slots;
    end[1] = header.end_reason;
    header.end_seal = gs_trace_seal(end, 2, 1);
    fwrite(&header, sizeof(header), 1, file);
    for (size_t i = 0; i < trace->count; i++) {
        const struct gs_replay_op *op = &trace->ops[i];
        struct gs_trace_record record = {
            .time_ns = op->time_ns,
            .thread = op->thread,
            .stream = (uint16_t)(op->stream + GS_TRACE_STREAM_FIRST),
            .op = op->op,
            .how = op->how,
            .device = op->device};

        if (op->op != GS_TRACE_SYNC) {
            record.key = addresses[op->id];
        }
        if (op->op == GS_TRACE_ALLOC) {
            record.bytes = op->bytes;
            record.kind = op->kind;
            record.context = 1;
            gs_trace_record_set_stack(&record, op->stack);
        }
        write_slot(file, &record, GS_TRACE_HEADER_SLOTS + i);
    }
    free(addresses);
    return fflush(file) == 0 && !ferror(file);
}
