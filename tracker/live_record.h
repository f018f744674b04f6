/*
 * live_record.h - the form of a record: four words, two records a cache line.
 *
 *   addr   the address
 *   size   bytes, and above them the number of its call site
 *   who    thread, and above it the stack
 *   stamp  state of the slot, time, sequence number
 * Values that few allocations differ in are stored once: a struct gs_origin is a context,
 * device, call, kind of memory, and whether there is a stream. The stream itself, and the
 * link of the look-up by address, are in separate tables, mapped where needed.
 *
 * Owns: nothing.   Lock: the words are atomic; the tracker defines the writers.
 * Design: docs/tracker.md
 */
#ifndef GS_LIVE_RECORD_H
#define GS_LIVE_RECORD_H

#include "tracker/tracker.h"

/* The state of a record's slot: the low bits of its stamp. */
enum gs_slot {
    GS_SLOT_FREE,
    GS_SLOT_INDEXED, /* live, removed by id */
    GS_SLOT_ADDRESS, /* live, removed by address */
    GS_SLOT_RETIRED  /* lost with its context; its owner may still hold the id */
};
#define GS_SLOT_MASK UINT64_C(3)

#define GS_BYTES_BITS 48 /* GS_TRACKED_BYTES_MAX, more than any address */
#define GS_BYTES_MAX  GS_TRACKED_BYTES_MAX
#define GS_ORIGINS    65536u /* the rest of the word; 0: none */

/* The stamp: slot, time, sequence. */
#define GS_STAMP_TIME     2
#define GS_TIME_UNIT_NS   128u
#define GS_TIME_MAX       ((UINT64_C(1) << 47) - 1) /* 208 days */
#define GS_STAMP_SEQUENCE (UINT64_C(1) << 49)       /* one step; it wraps */

struct gs_record {
    uint64_t addr, size, who, stamp;
};
static_assert(sizeof(struct gs_record) == 32, "docs/tracker.md states the size");

/* The tag of an origin: device, api << 16, kind << 32, GS_TAG_STREAM, GS_TAG_USED. In a
 * history entry the freeing call is above them, and GS_TAG_LOST may be set. */
#define GS_TAG_STREAM (UINT64_C(1) << 40)
#define GS_TAG_USED   (UINT64_C(1) << 41)
#define GS_TAG_LOST   (UINT64_C(1) << 42)
/* Parts of the memory were handed out, which scopes count instead: gs_tracker_divide. */
#define GS_TAG_DIVIDED (UINT64_C(1) << 43)
#define GS_TAG_BITS    48

struct gs_origin {
    uint64_t context;
    uint64_t tag; /* 0: no origin */
};

/* Makes the compiler keep the value in a register: it neither recomputes the value at
 * each use, nor merges two loads. */
#define GS_KEEP(value) __asm__("" : "+r"(value))

/* Reads field by field: the caller has just stored the fields, and one load over two of
 * them would wait until both stores have left the processor. */
static inline uint64_t gs_origin_tag(const struct gs_allocation *allocation)
{
    uint64_t api = allocation->api;

    GS_KEEP(api);
    return (uint16_t)allocation->device | api << 16 | (uint64_t)allocation->kind << 32 |
           (allocation->stream != 0 ? GS_TAG_STREAM : 0) | GS_TAG_USED;
}

/* The tag of memory that has a record already. */
static inline uint64_t gs_origin_tag_of_record(const struct gs_allocation *was)
{
    return gs_origin_tag(was) | (was->divided ? GS_TAG_DIVIDED : 0);
}

static inline enum gs_slot gs_record_slot(const struct gs_record *record)
{
    return (enum gs_slot)(__atomic_load_n(&record->stamp, __ATOMIC_ACQUIRE) &
                          GS_SLOT_MASK);
}

/* Changes the state of a live record's slot. */
static inline void gs_record_set_slot(struct gs_record *record, enum gs_slot slot)
{
    uint64_t stamp = __atomic_load_n(&record->stamp, __ATOMIC_RELAXED);

    stamp = ((stamp + GS_STAMP_SEQUENCE) & ~GS_SLOT_MASK) | (uint64_t)slot;
    __atomic_store_n(&record->stamp, stamp, __ATOMIC_RELEASE);
}

/* Thread, and above it the stack. */
static inline uint64_t gs_who(uint32_t thread, uint32_t stack)
{
    uint64_t high = stack;

    GS_KEEP(high);
    return thread | high << 32;
}

/*
 * Makes a free record live; `size` has the origin's number above GS_BYTES_BITS. The
 * contents are stored with release and loaded with acquire, which is free on x86: a
 * reader that sees a new word also sees that the stamp changed before it.
 */
static inline void gs_record_fill(struct gs_record *record, uint64_t addr, uint64_t size,
                                  uint64_t who, uint64_t time_ns, enum gs_slot slot)
{
    uint64_t time = time_ns / GS_TIME_UNIT_NS;
    uint64_t stamp = __atomic_load_n(&record->stamp, __ATOMIC_RELAXED);

    if (GS_UNLIKELY(time > GS_TIME_MAX)) {
        time = GS_TIME_MAX;
    }
    stamp = (stamp & -GS_STAMP_SEQUENCE) + GS_STAMP_SEQUENCE;
    __atomic_store_n(&record->addr, addr, __ATOMIC_RELEASE);
    __atomic_store_n(&record->size, size, __ATOMIC_RELEASE);
    __atomic_store_n(&record->who, who, __ATOMIC_RELEASE);
    __atomic_store_n(&record->stamp, stamp | time << GS_STAMP_TIME | (uint64_t)slot,
                     __ATOMIC_RELEASE);
}

static inline struct gs_record gs_record_read(const struct gs_record *record)
{
    struct gs_record words;

    words.addr = __atomic_load_n(&record->addr, __ATOMIC_ACQUIRE);
    words.size = __atomic_load_n(&record->size, __ATOMIC_ACQUIRE);
    words.who = __atomic_load_n(&record->who, __ATOMIC_ACQUIRE);
    words.stamp = __atomic_load_n(&record->stamp, __ATOMIC_ACQUIRE);
    return words;
}

/* In a stack's place, where sampling left the stack out of an allocation in a scope: the
 * scope's number, below 2^20 - 1, and in the lowest bit which of the two values it is. No
 * table has as many stacks. */
#define GS_STACK_SCOPED UINT32_C(0xffe00000)

static inline bool gs_stack_is_scoped(uint32_t stack)
{
    return stack >= GS_STACK_SCOPED && !gs_stack_left_out(stack);
}

static inline uint32_t gs_stack_with_scope(uint32_t left_out, uint32_t scope)
{
    return GS_STACK_SCOPED | scope << 1 | (left_out == GS_STACK_TOO_SMALL);
}

/* The stack, or what is in its place, without the scope; and the scope alone. */
static inline uint32_t gs_stack_plain(uint32_t stack)
{
    return !gs_stack_is_scoped(stack) ? stack
           : (stack & 1) != 0         ? GS_STACK_TOO_SMALL
                                      : GS_STACK_NOT_SAMPLED;
}

static inline uint32_t gs_stack_scope(uint32_t stack)
{
    return gs_stack_is_scoped(stack) ? (stack & ~GS_STACK_SCOPED) >> 1 : 0;
}

/* Builds an allocation from the words, without its `stream`. Its stack is the record's:
 * whoever reads it takes gs_stack_plain. */
static inline struct gs_allocation gs_words_unpack(const struct gs_record *words,
                                                   const struct gs_origin *origin)
{
    return (struct gs_allocation){
        .addr = words->addr,
        .bytes = words->size & GS_BYTES_MAX,
        .context = origin->context,
        .time_ns = (words->stamp >> GS_STAMP_TIME & GS_TIME_MAX) * GS_TIME_UNIT_NS,
        .thread = (uint32_t)words->who,
        .stack = (uint32_t)(words->who >> 32),
        .device = (int16_t)origin->tag,
        .api = (uint16_t)(origin->tag >> 16),
        .kind = (uint8_t)(origin->tag >> 32),
        .divided = (origin->tag & GS_TAG_DIVIDED) != 0,
    };
}

#endif
