/*
 * trace_format.h - the format of a recorded allocation trace, for writers and readers.
 *
 * A file is a row of slots of 48 bytes. The first batch contains the header and the
 * ring's words, each other slot a record or zeros. A slot is filled first and sealed
 * last. So a process that dies at any time leaves sealed records, zeros where none was
 * begun, and at most one unsealed slot a thread. All numbers are little endian, like the
 * machines that CUDA runs on.
 *
 * A thread takes GS_TRACE_BATCH_SLOTS slots at a time, so that threads do not write to
 * the same cache lines; records are ordered by their times, and by slots at equal times.
 *
 * The key of an allocation is its address, which is unique among live allocations. Frees
 * are recorded before they are made and allocations after, so this order determines the
 * allocation of a free. The number of an allocation's slot is its permanent name.
 *
 * Owns: nothing.   Lock: none. Knows no CUDA.   Design: docs/traces.md
 */
#ifndef GS_TRACE_FORMAT_H
#define GS_TRACE_FORMAT_H

#include "gs_base.h"

#define GS_TRACE_MAGIC        "gpushtr\n"
#define GS_TRACE_VERSION      2 /* 1: without a ring */
#define GS_TRACE_SLOT_BYTES   48
#define GS_TRACE_HEADER_SLOTS 4
/* Batches begin at multiples of this number; the first contains only the header. */
#define GS_TRACE_BATCH_SLOTS 32
/* A file grows by this many slots at a time: a multiple of every page size in use. */
#define GS_TRACE_CHUNK_SLOTS 16384
#define GS_TRACE_CHUNK_BYTES ((size_t)GS_TRACE_CHUNK_SLOTS * GS_TRACE_SLOT_BYTES)

/* The operations. Values are part of the format: new ones are added at the end. */
enum gs_trace_op {
    GS_TRACE_NONE,
    GS_TRACE_ALLOC,
    GS_TRACE_FREE,
    GS_TRACE_FREE_REFUSED, /* this thread's last free of `key` was refused */
    GS_TRACE_SYNC,         /* a wait has ended; `how`: its scope */
    GS_TRACE_CONTEXT_END,  /* a context and all memory that belongs to it have ended */
    GS_TRACE_MAPPED,       /* the pool got memory: `key` its address, `bytes`, `kind` */
    GS_TRACE_UNMAPPED,     /* the pool has it no more: a whole range, or a part of one */
    GS_TRACE_OPS
};

/* The kinds of memory. */
enum gs_trace_kind {
    GS_TRACE_KIND_NONE,
    GS_TRACE_KIND_DEVICE,
    GS_TRACE_KIND_ASYNC, /* stream-ordered */
    GS_TRACE_KIND_MANAGED,
    GS_TRACE_KIND_PINNED,
    GS_TRACE_KIND_VIRTUAL, /* physical memory of virtual memory management */
    GS_TRACE_KIND_ARRAY,
    GS_TRACE_KINDS
};

/* The way of a free, or the scope of a wait. */
enum gs_trace_how {
    GS_TRACE_HOW_NONE,
    GS_TRACE_WAITED, /* free: after a wait for the context's work */
    GS_TRACE_READY,  /* free: nothing to wait for */
    GS_TRACE_FENCED, /* free: in the order of a stream, reusable after an event */
    GS_TRACE_HELD,   /* free: during a capture, reusable after a later wait */
    GS_TRACE_DRIVER, /* free: the driver's own memory, by the driver */
    GS_TRACE_SYNC_CONTEXT,
    GS_TRACE_SYNC_STREAM,
    GS_TRACE_SYNC_EVENT,
    GS_TRACE_HOWS
};

/* Stream numbers other than those of created streams, which begin at
 * GS_TRACE_STREAM_FIRST. */
enum {
    GS_TRACE_STREAM_NONE,       /* a call without a stream */
    GS_TRACE_STREAM_LEGACY,     /* the legacy default stream */
    GS_TRACE_STREAM_PER_THREAD, /* the per-thread default stream of the record's thread */
    GS_TRACE_STREAM_FIRST
};
/* The time of what began before a recording that began late. */
#define GS_TRACE_BEFORE_NS 1
/* A stream or context without a number: more than 4,096 were in use. */
#define GS_TRACE_UNNUMBERED 0xffff

struct gs_trace_record {
    uint64_t time_ns; /* since the header's start_ns */
    uint64_t key;     /* the allocation's address; 0 if there is none */
    uint64_t bytes;   /* an allocation's requested size, a range's size, else 0 */
    uint32_t thread;  /* the kernel's id; `replay --to-binary` counts from 0 */
    uint16_t stream;  /* see above */
    uint16_t context; /* from 1; 0: none, or that of the allocation */
    uint16_t device;  /* ordinal, of an allocation or a range */
    uint8_t op;       /* enum gs_trace_op */
    uint8_t kind;     /* enum gs_trace_kind, likewise */
    uint8_t how;      /* enum gs_trace_how */
    /* Of an allocation: the id of its stack in the process's state file, little endian.
     * 0: none, or a file of before. */
    uint8_t stack[3];
    uint64_t seal; /* gs_trace_seal of the above; 0: not finished */
};

#define GS_TRACE_STACK_MOST 0xffffffu

static inline uint32_t gs_trace_record_stack(const struct gs_trace_record *record)
{
    return record->stack[0] | (uint32_t)record->stack[1] << 8 |
           (uint32_t)record->stack[2] << 16;
}

static inline void gs_trace_record_set_stack(struct gs_trace_record *record,
                                             uint32_t stack)
{
    record->stack[0] = (uint8_t)stack;
    record->stack[1] = (uint8_t)(stack >> 8);
    record->stack[2] = (uint8_t)(stack >> 16);
}

/* The reason for the end of recording. */
enum gs_trace_end {
    GS_TRACE_END_NONE, /* the process is running, or died */
    GS_TRACE_END_EXIT,
    GS_TRACE_END_LIMIT,
    GS_TRACE_END_NO_SPACE,
    GS_TRACE_ENDS
};

struct gs_trace_header {
    char magic[8];
    uint32_t version;
    uint32_t slot_bytes;
    uint32_t header_slots;
    uint32_t chunk_slots;
    uint64_t start_ns;      /* CLOCK_MONOTONIC when the file was created */
    uint64_t start_real_ns; /* CLOCK_REALTIME at the same time */
    uint32_t pid;
    uint32_t zero;
    char program[64];   /* NUL-terminated */
    uint64_t pid_start; /* that of the state file that has the stacks; 0: none has them */
    uint64_t ring_chunks; /* the file keeps this many; 0: all (version 1) */
    uint64_t began_late;  /* 1: while the program ran; what was freed just then may be
                           * missing, but for its free */
    uint64_t rest[3];     /* 0 */
    uint64_t seal;        /* gs_trace_seal of the above, as of slot 0 */
    /* Written once, when recording ends. */
    uint64_t end_slots;  /* slots handed out, header included */
    uint64_t end_reason; /* enum gs_trace_end */
    uint64_t end_seal;   /* gs_trace_seal of the two, as of slot 1; 0: not written */
};

/*
 * A file that has reached its size goes on at its second chunk: chunk N >= 1 is at
 * gs_trace_chunk_place. Slots keep counting, and so do their seals. What the overwritten
 * records have left is in a base: records of the allocations and ranges that were live,
 * and of frees whose allocations come later, after the last chunk. They are sealed as of
 * the slots' places in the file, but for GS_TRACE_BASE_SALT. Records of slots before
 * first_slot are in the base already.
 */
struct gs_trace_base {
    uint64_t number;     /* of the bases so far; the highest counts */
    uint64_t first_slot; /* a chunk's first */
    uint64_t place;      /* of its first record: a slot's place in the file */
    uint64_t records;
    uint64_t seal; /* gs_trace_seal of the above, as of slot 2 */
};
#define GS_TRACE_BASE_WORDS 4
#define GS_TRACE_BASE_SALT  ((uint64_t)1 << 63)

/* After the header, in the rest of the first batch. The bases take turns. */
struct gs_trace_ring {
    uint64_t chunks; /* begun so far; atomic */
    struct gs_trace_base bases[2];
};

/* The place of a chunk in the file, in chunks. */
static inline uint64_t gs_trace_chunk_place(uint64_t chunk, uint64_t ring_chunks)
{
    return chunk < 1 || ring_chunks < 2 ? chunk : 1 + (chunk - 1) % (ring_chunks - 1);
}

static_assert(sizeof(struct gs_trace_record) == GS_TRACE_SLOT_BYTES, "one slot");
static_assert(sizeof(struct gs_trace_ring) <=
                  (GS_TRACE_BATCH_SLOTS - GS_TRACE_HEADER_SLOTS) * GS_TRACE_SLOT_BYTES,
              "the first batch has room for it");
static_assert(sizeof(struct gs_trace_header) ==
                  GS_TRACE_HEADER_SLOTS * GS_TRACE_SLOT_BYTES,
              "the header's slots");
static_assert(GS_TRACE_CHUNK_BYTES % 65536 == 0, "chunks are mapped one by one");
static_assert(GS_TRACE_CHUNK_SLOTS % GS_TRACE_BATCH_SLOTS == 0,
              "a batch is in one chunk");

/* Words of the header that its seal covers. */
#define GS_TRACE_HEADER_WORDS (offsetof(struct gs_trace_header, seal) / 8)

/*
 * A seal that no other content of the slot, nor the same content in another slot, is
 * likely to have: a sum of products with odd factors, so that a change of any single word
 * always changes it. Never 0. `words` are complete, `count` of them.
 */
static inline uint64_t gs_trace_seal(const uint64_t *words, size_t count, uint64_t slot)
{
    uint64_t sum = (slot + 1) * 0x9e3779b97f4a7c15ull;
    uint64_t factor = 0xd6e8feb86659fd93ull;

    for (size_t i = 0; i < count; i++) {
        sum += words[i] * factor;
        factor += 0xa0761d6478bd642eull; /* odd and even is odd */
    }
    sum = (sum ^ sum >> 32) * 0xe7037ed1a0b428dbull;
    sum ^= sum >> 29;
    return sum ? sum : 1;
}

#endif
