/*
 * replay_binary.c - traces as the library records them (shim/trace/trace_format.h).
 *
 * A record is believed only if its seal fits its content and its slot. Others are passed
 * over and counted: damaged ones, and those never finished, as a killed process leaves
 * them. What is left is read in the order of its times.
 *
 * Owns: nothing.   Lock: none.
 */
#include "replay_map.h"
#include "replay_trace.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_WORDS (offsetof(struct gs_trace_record, seal) / 8)

/* What is known of an address. */
struct place {
    uint32_t id; /* of the allocation that is or was last there */
    uint16_t context;
    uint8_t kind, device;
    bool live;
    uint64_t bytes;
    size_t freed_by; /* index of the free among the operations + 1; 0: none */
};

struct binary_reader {
    struct gs_replay_trace *trace;
    struct gs_replay_map places; /* address to index in `table` */
    struct place *table;
    size_t table_room;
    struct gs_replay_map streams, threads;
    uint64_t damaged, unfinished, strays, displaced;
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

/* ---- header ----------------------------------------------------------------------- */

/* What is wrong with the header, NULL if nothing. */
static const char *header_problem(const struct gs_trace_header *header)
{
    uint64_t words[GS_TRACE_HEADER_WORDS];

    memcpy(words, header, sizeof(words));
    if (header->seal == 0)
        return "its header was never finished";
    if (header->seal != gs_trace_seal(words, GS_TRACE_HEADER_WORDS, 0))
        return "its header is damaged";
    if (header->version != GS_TRACE_VERSION)
        return "of a version that is not known here";
    if (header->slot_bytes != GS_TRACE_SLOT_BYTES ||
        header->header_slots != GS_TRACE_HEADER_SLOTS ||
        header->chunk_slots != GS_TRACE_CHUNK_SLOTS)
        return "of a form that is not known here";
    return NULL;
}

/*
 * Slots that should be there: as the end mark says, else all of the file.
 * *problem is set if the file has lost something.
 */
static size_t slots_expected(const struct gs_trace_header *header, size_t length,
                             const char **problem)
{
    uint64_t words[2] = {header->end_slots, header->end_reason};
    size_t there = length / GS_TRACE_SLOT_BYTES;
    bool ended = header->end_seal != 0;

    *problem = NULL;
    if (ended && header->end_seal == gs_trace_seal(words, 2, 1)) {
        if (header->end_slots > there)
            *problem = "cut short";
        return header->end_slots < there ? (size_t)header->end_slots : there;
    }
    if (ended || header->end_slots != 0 || header->end_reason != 0)
        *problem = "its end mark is damaged";
    else if (length % GS_TRACE_CHUNK_BYTES != 0)
        *problem = "cut short";
    return there;
}

/* ---- records ---------------------------------------------------------------------- */

/* A table of twice the room, with what the old one has, which is freed. */
static void *grow_table(void *old, size_t *room, size_t bytes)
{
    size_t more = *room ? 2 * *room : 1024;
    void *table = gs_replay_alloc(more, bytes);

    if (old)
        memcpy(table, old, *room * bytes);
    free(old);
    *room = more;
    return table;
}

static struct place *place_of(struct binary_reader *reader, uint64_t key)
{
    size_t index = (size_t)gs_replay_map_number(&reader->places, key);

    if (index >= reader->table_room)
        reader->table =
            grow_table(reader->table, &reader->table_room, sizeof(*reader->table));
    return &reader->table[index];
}

/* The place's allocation ends here. */
static void end_place(struct binary_reader *reader, struct place *place,
                      struct gs_replay_op *op)
{
    op->op = GS_TRACE_FREE;
    op->id = place->id;
    op->bytes = place->bytes;
    op->kind = place->kind;
    op->device = place->device;
    gs_replay_add(reader->trace, op);
    place->live = false;
    place->freed_by = reader->trace->count;
}

static void note_made(struct gs_replay_trace *trace, uint32_t id,
                      const struct gs_trace_record *record)
{
    if (id >= trace->made_room)
        trace->made = grow_table(trace->made, &trace->made_room, sizeof(*trace->made));
    trace->made[id] = (struct gs_replay_made){.key = record->key,
                                              .stack = gs_trace_record_stack(record)};
}

static void read_alloc(struct binary_reader *reader, const struct gs_trace_record *record,
                       struct gs_replay_op *op)
{
    struct place *place = place_of(reader, record->key);

    if (place->live) { /* its free went by unseen */
        struct gs_replay_op lost = *op;

        lost.how = GS_TRACE_HOW_NONE;
        end_place(reader, place, &lost);
        reader->displaced++;
    }
    op->id = reader->trace->allocations;
    op->bytes = record->bytes;
    op->kind = record->kind;
    op->device = (uint8_t)record->device;
    note_made(reader->trace, op->id, record);
    *place = (struct place){.id = op->id,
                            .context = record->context,
                            .kind = record->kind,
                            .device = op->device,
                            .live = true,
                            .bytes = record->bytes};
    gs_replay_add(reader->trace, op);
}

static void read_free(struct binary_reader *reader, const struct gs_trace_record *record,
                      struct gs_replay_op *op)
{
    struct place *place = place_of(reader, record->key);

    if (place->live)
        end_place(reader, place, op);
    else
        reader->strays++;
}

/* The free did not take place: it leaves the trace again. */
static void read_refused(struct binary_reader *reader,
                         const struct gs_trace_record *record)
{
    struct place *place = place_of(reader, record->key);

    if (place->live || place->freed_by == 0) {
        reader->strays -= reader->strays > 0; /* it was no free at all */
        return;
    }
    reader->trace->ops[place->freed_by - 1].op = GS_TRACE_NONE;
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
            record->context != GS_TRACE_UNNUMBERED && place->kind != GS_TRACE_KIND_ASYNC)
            end_place(reader, place, &lost);
    }
}

static bool plausible(const struct gs_trace_record *record)
{
    return record->op < GS_TRACE_OPS && record->kind < GS_TRACE_KINDS &&
           record->how < GS_TRACE_HOWS && record->device < 256 &&
           record->bytes <= (uint64_t)1 << 47;
}

/* False if the record cannot be meant so. */
static bool read_record(struct binary_reader *reader,
                        const struct gs_trace_record *record)
{
    uint64_t stream = record->stream,
             thread = gs_replay_map_number(&reader->threads, record->thread);
    struct gs_replay_op op = {.time_ns = record->time_ns,
                              .op = GS_TRACE_SYNC,
                              .how = record->how,
                              .thread = (uint32_t)thread};

    if (record->stream == GS_TRACE_STREAM_PER_THREAD)
        stream |= (uint64_t)record->thread << 32;
    stream = gs_replay_map_number(&reader->streams, stream);
    if (!plausible(record) || thread >= GS_REPLAY_THREADS || stream > UINT16_MAX)
        return false;
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
        gs_replay_add(reader->trace, &op);
        break;
    case GS_TRACE_CONTEXT_END:
        read_context_end(reader, record, &op);
        break;
    default:
        return false;
    }
    return true;
}

/* A sealed record and where it was. */
struct sealed {
    struct gs_trace_record record;
    size_t slot;
};

static int by_time(const void *a, const void *b)
{
    const struct sealed *x = a, *y = b;

    if (x->record.time_ns != y->record.time_ns)
        return x->record.time_ns < y->record.time_ns ? -1 : 1;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

/* The sealed records of the file; the others are counted. */
static size_t collect(struct binary_reader *reader, const unsigned char *data,
                      size_t slots, struct sealed *found)
{
    static const unsigned char zeros[GS_TRACE_SLOT_BYTES];
    size_t count = 0;

    for (size_t i = GS_TRACE_HEADER_SLOTS; i < slots; i++) {
        struct sealed *sealed = &found[count];
        uint64_t words[RECORD_WORDS];

        memcpy(&sealed->record, data + i * GS_TRACE_SLOT_BYTES, GS_TRACE_SLOT_BYTES);
        memcpy(words, &sealed->record, sizeof(words));
        sealed->slot = i;
        if (sealed->record.seal == gs_trace_seal(words, RECORD_WORDS, i))
            count++;
        else if (sealed->record.seal != 0)
            reader->damaged++;
        else if (memcmp(&sealed->record, zeros, sizeof(zeros)) != 0)
            reader->unfinished++;
    }
    return count;
}

static void read_slots(struct binary_reader *reader, const unsigned char *data,
                       size_t slots)
{
    struct sealed *found = gs_replay_alloc(slots, sizeof(*found));
    size_t count = collect(reader, data, slots, found);

    qsort(found, count, sizeof(*found), by_time);
    for (size_t i = 0; i < count; i++)
        reader->damaged += !read_record(reader, &found[i].record);
    free(found);
}

/* Refused frees leave gaps. */
static void close_gaps(struct gs_replay_trace *trace)
{
    size_t kept = 0;

    for (size_t i = 0; i < trace->count; i++)
        if (trace->ops[i].op != GS_TRACE_NONE)
            trace->ops[kept++] = trace->ops[i];
    trace->count = kept;
}

bool gs_replay_parse_binary(const unsigned char *data, size_t length,
                            struct gs_replay_trace *out, struct gs_replay_note *note)
{
    struct binary_reader reader = {.trace = out};
    struct gs_trace_header header;
    const char *problem, *lost;
    size_t slots;

    if (length < sizeof(header)) {
        say(note, "no trace: shorter than its header");
        return false;
    }
    memcpy(&header, data, sizeof(header));
    problem = header_problem(&header);
    if (problem) {
        say(note, "no trace: %s", problem);
        return false;
    }
    out->pid = header.pid;
    out->pid_start = header.pid_start;
    out->start_real_ns = header.start_real_ns;
    memcpy(out->program, header.program, sizeof(out->program));
    out->program[sizeof(out->program) - 1] = '\0';
    slots = slots_expected(&header, length, &lost);
    read_slots(&reader, data, slots);
    close_gaps(out);
    if (reader.damaged)
        say(note, "%llu records are damaged and are left out; %zu operations were read",
            (unsigned long long)reader.damaged, out->count);
    else if (lost)
        say(note, "%s; %zu operations were read", lost, out->count);
    else if (reader.unfinished)
        say(note, "%llu records were never finished and are left out",
            (unsigned long long)reader.unfinished);
    else if (reader.displaced || reader.strays)
        say(note, "%llu frees are not in the trace, %llu are of what is not",
            (unsigned long long)reader.displaced, (unsigned long long)reader.strays);
    gs_replay_map_free(&reader.places);
    gs_replay_map_free(&reader.streams);
    gs_replay_map_free(&reader.threads);
    free(reader.table);
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

bool gs_replay_write_binary(const struct gs_replay_trace *trace, FILE *file)
{
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

        if (op->op != GS_TRACE_SYNC) /* an address of its own for each allocation */
            record.key = ((uint64_t)op->id + 1) << 9;
        if (op->op == GS_TRACE_ALLOC) {
            record.bytes = op->bytes;
            record.kind = op->kind;
            record.context = 1;
            if (trace->made)
                gs_trace_record_set_stack(&record, trace->made[op->id].stack);
        }
        write_slot(file, &record, GS_TRACE_HEADER_SLOTS + i);
    }
    return fflush(file) == 0 && !ferror(file);
}
