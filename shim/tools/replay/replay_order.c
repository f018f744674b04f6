/*
 * replay_order.c - which slots of a recorded trace have its records, and their order
 * (replay_order.h).
 *
 * Of a trace that has overwritten its beginning, each chunk's number follows from its
 * place and from how many were begun; what came before the first one is in the base.
 *
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/replay/replay_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gs_compare.h"

#define RECORD_WORDS (offsetof(struct gs_trace_record, seal) / 8)
#define TAKEN_ONCE   4096 /* slots */

/* Copies slots for the first reading. Returns how many there are. */
static size_t take_slots(const struct gs_replay_file *file, size_t slot, size_t count,
                         void *out)
{
    size_t at = slot * GS_TRACE_SLOT_BYTES, bytes = count * GS_TRACE_SLOT_BYTES, got = 0;

    if (file->fd < 0) {
        if (at > file->length) {
            return 0;
        }
        if (bytes > file->length - at) {
            bytes = file->length - at;
        }
        memcpy(out, file->data + at, bytes);
        return bytes / GS_TRACE_SLOT_BYTES;
    }
    while (got < bytes) {
        ssize_t more = pread(file->fd, (char *)out + got, bytes - got, (off_t)(at + got));

        if (more <= 0 && !(more < 0 && errno == EINTR)) {
            break;
        }
        got += more > 0 ? (size_t)more : 0;
    }
    return got / GS_TRACE_SLOT_BYTES;
}

void gs_replay_order_read(const struct gs_replay_file *file, uint32_t slot,
                          struct gs_trace_record *record)
{
    memcpy(record, file->data + (size_t)slot * GS_TRACE_SLOT_BYTES, GS_TRACE_SLOT_BYTES);
}

/* ---- header ----------------------------------------------------------------------- */

/* What is wrong with the header, NULL if nothing. */
static const char *header_problem(const struct gs_trace_header *header)
{
    uint64_t words[GS_TRACE_HEADER_WORDS];

    memcpy(words, header, sizeof(words));
    if (header->seal == 0) {
        return "its header was never finished";
    }
    if (header->seal != gs_trace_seal(words, GS_TRACE_HEADER_WORDS, 0)) {
        return "its header is damaged";
    }
    if (header->version < 1 || header->version > GS_TRACE_VERSION) {
        return "of a version that is not known here";
    }
    if (header->slot_bytes != GS_TRACE_SLOT_BYTES ||
        header->header_slots != GS_TRACE_HEADER_SLOTS ||
        header->chunk_slots != GS_TRACE_CHUNK_SLOTS ||
        (header->ring_chunks != 0 &&
         (header->ring_chunks < 2 ||
          header->ring_chunks > UINT32_MAX / GS_TRACE_CHUNK_SLOTS))) {
        return "of a form that is not known here";
    }
    return NULL;
}

const char *gs_replay_order_header(const struct gs_replay_file *file,
                                   struct gs_trace_header *header)
{
    if (file->length < sizeof(*header) ||
        take_slots(file, 0, GS_TRACE_HEADER_SLOTS, header) < GS_TRACE_HEADER_SLOTS) {
        return "shorter than its header";
    }
    return header_problem(header);
}

/* What the numbers of slots are found by. */
struct extent {
    uint64_t slots; /* places of slots that are read; the base is after them */
    uint64_t end;   /* the number after the last slot that was handed out */
    uint64_t first; /* the place of the first record */
    uint64_t ring_chunks, begun;
    struct gs_trace_base base; /* number 0: none */
};

static bool is_base(const struct gs_trace_base *base, const struct extent *extent,
                    uint64_t places)
{
    uint64_t words[GS_TRACE_BASE_WORDS];

    memcpy(words, base, sizeof(words));
    return base->number != 0 &&
           base->seal == gs_trace_seal(words, GS_TRACE_BASE_WORDS, 2) &&
           base->place >= extent->ring_chunks * GS_TRACE_CHUNK_SLOTS &&
           base->place <= places && base->records <= places - base->place;
}

/* Reads how far a ring has come. Returns what is wrong, or NULL. */
static const char *read_ring(const struct gs_replay_file *file, uint64_t places,
                             struct extent *extent)
{
    static unsigned char slots[GS_TRACE_BATCH_SLOTS * GS_TRACE_SLOT_BYTES];
    struct gs_trace_ring ring;
    uint64_t size = extent->ring_chunks * GS_TRACE_CHUNK_SLOTS;

    if (take_slots(file, 0, GS_TRACE_BATCH_SLOTS, slots) < GS_TRACE_BATCH_SLOTS) {
        return "cut short";
    }
    memcpy(&ring, slots + GS_TRACE_HEADER_SLOTS * GS_TRACE_SLOT_BYTES, sizeof(ring));
    extent->first = GS_TRACE_BATCH_SLOTS;
    extent->begun = ring.chunks;
    for (size_t i = 0; i < GS_ARRAY_LEN(ring.bases); i++) {
        if (is_base(&ring.bases[i], extent, places) &&
            ring.bases[i].number > extent->base.number) {
            extent->base = ring.bases[i];
        }
    }
    if (ring.chunks > extent->ring_chunks && extent->base.number == 0) {
        return "its beginning is damaged";
    }
    if (ring.chunks > UINT64_MAX / GS_TRACE_CHUNK_SLOTS / 2) {
        return "its header is damaged";
    }
    if (extent->slots > size) {
        extent->slots = size;
    }
    return NULL;
}

/* Slots that should be there: as the end mark says, else all of the file. Returns what
 * the file has lost, or NULL. */
static const char *find_extent(const struct gs_replay_file *file,
                               const struct gs_trace_header *header,
                               struct extent *extent)
{
    uint64_t words[2] = {header->end_slots, header->end_reason};
    uint64_t there = file->length / GS_TRACE_SLOT_BYTES, size;
    bool ended = header->end_seal != 0;
    const char *problem = NULL;

    *extent = (struct extent){.slots = there,
                              .end = UINT64_MAX,
                              .first = GS_TRACE_HEADER_SLOTS,
                              .ring_chunks = header->ring_chunks};
    if (header->ring_chunks != 0) {
        problem = read_ring(file, there, extent);
    }
    if (problem) {
        return problem;
    }
    size = header->ring_chunks ? header->ring_chunks * GS_TRACE_CHUNK_SLOTS : UINT64_MAX;
    if (ended && header->end_seal == gs_trace_seal(words, 2, 1)) {
        uint64_t wanted = header->end_slots < size ? header->end_slots : size;

        extent->end = header->end_slots;
        if (wanted > there) {
            return "cut short";
        }
        if (extent->slots > wanted) {
            extent->slots = wanted;
        }
        return NULL;
    }
    if (ended || header->end_slots != 0 || header->end_reason != 0) {
        return "its end mark is damaged";
    }
    if (extent->slots * GS_TRACE_SLOT_BYTES % GS_TRACE_CHUNK_BYTES != 0 ||
        (header->ring_chunks == 0 && file->length % GS_TRACE_CHUNK_BYTES != 0)) {
        return "cut short";
    }
    return NULL;
}

/* ---- records ---------------------------------------------------------------------- */

/* The number of the slot that is at a place now. False: it is none of those read. */
static bool number_of(const struct extent *extent, uint64_t place, uint64_t *number)
{
    uint64_t chunk = place / GS_TRACE_CHUNK_SLOTS;

    if (extent->ring_chunks != 0 && chunk != 0 && extent->begun > chunk) {
        chunk += (extent->begun - 1 - chunk) / (extent->ring_chunks - 1) *
                 (extent->ring_chunks - 1);
    }
    *number = chunk * GS_TRACE_CHUNK_SLOTS + place % GS_TRACE_CHUNK_SLOTS;
    return *number >= extent->base.first_slot && *number < extent->end;
}

static uint64_t time_of(const struct gs_replay_file *file, uint32_t slot)
{
    struct gs_trace_record record;

    gs_replay_order_read(file, slot, &record);
    return record.time_ns;
}

static int by_time(const void *a, const void *b, void *file)
{
    const uint32_t *x = a, *y = b;
    uint64_t time_x = time_of(file, *x), time_y = time_of(file, *y);

    return GS_RISING(time_x, time_y) ?: GS_RISING(*x, *y);
}

/* Judges a record, which is sealed as of `number`. */
static void take_record(struct gs_replay_file *file, const struct extent *extent,
                        const struct gs_trace_record *record, uint64_t place,
                        uint64_t number, struct gs_replay_ordered *out)
{
    static const unsigned char zeros[GS_TRACE_SLOT_BYTES];
    uint64_t words[RECORD_WORDS];
    uint64_t lap = (extent->ring_chunks - 1) * GS_TRACE_CHUNK_SLOTS;

    memcpy(words, record, sizeof(words));
    if (record->seal == gs_trace_seal(words, RECORD_WORDS, number)) {
        file->order[file->records++] = (uint32_t)place;
        out->ordered &= record->time_ns >= out->last_ns;
        out->last_ns = record->time_ns;
    } else if (record->seal != 0) {
        /* A program that runs has overwritten it by now. */
        out->damaged += extent->ring_chunks == 0 ||
                        record->seal != gs_trace_seal(words, RECORD_WORDS, number + lap);
    } else {
        out->unfinished += memcmp(record, zeros, sizeof(zeros)) != 0;
    }
}

/* Judges the records at these places; of the base, or of chunks. */
static void take_places(struct gs_replay_file *file, const struct extent *extent,
                        uint64_t begin, uint64_t end, bool is_base,
                        struct gs_replay_ordered *out)
{
    static struct gs_trace_record taken[TAKEN_ONCE]; /* one thread */
    size_t count = 0, at = 0;

    for (uint64_t place = begin; place < end; place++, at++) {
        uint64_t number = place | GS_TRACE_BASE_SALT;

        if (at == count) {
            count = end - place < TAKEN_ONCE ? (size_t)(end - place) : TAKEN_ONCE;
            count = take_slots(file, place, count, taken);
            at = 0;
        }
        if (count == 0) {
            break; /* the program has ended by now */
        }
        if (is_base || number_of(extent, place, &number)) {
            take_record(file, extent, &taken[at], place, number, out);
        }
    }
}

void gs_replay_order(struct gs_replay_file *file, const struct gs_trace_header *header,
                     struct gs_replay_ordered *out)
{
    struct extent extent;

    *out = (struct gs_replay_ordered){.ordered = true};
    out->lost = find_extent(file, header, &extent);
    if (extent.slots > UINT32_MAX) {
        out->lost = "only its first 2^32 records can be read";
        extent.slots = UINT32_MAX;
    }
    if (extent.base.place + extent.base.records > UINT32_MAX) {
        extent.base = (struct gs_trace_base){.first_slot = extent.base.first_slot};
    }
    file->order =
        gs_replay_alloc(extent.slots + extent.base.records, sizeof(*file->order));
    take_places(file, &extent, extent.base.place, extent.base.place + extent.base.records,
                true, out);
    take_places(file, &extent, extent.first, extent.slots, false, out);
    if (!out->ordered) {
        qsort_r(file->order, file->records, sizeof(*file->order), by_time, file);
    }
}
