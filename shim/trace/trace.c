/*
 * trace.c - records calls: fills in time and thread, and stream and context as small
 * numbers.
 *
 * Handles are recycled and differ from run to run. In the file streams and contexts are
 * numbered in the order in which they first appear; a handle whose object has ended gets
 * a new number when it appears again.
 *
 * Owns:  the numbers.
 * Lock:  numbers_lock to assign a number; look-ups take no lock.
 */
#include "shim/trace/trace.h"

#include <string.h>

#include "gs_clock.h"
#include "gs_locks.h"
#include "shim/settings/log.h"
#include "shim/settings/output.h"
#include "shim/settings/thread.h"
#include "shim/trace/trace_file.h"

bool gs_trace_on;     /* atomic */
static bool has_file; /* atomic */
static bool stays_on; /* immutable after start: gs_tracing() holds without a file */

/* Twice the largest number, so that a search soon reaches an empty row. */
#define NUMBER_ROWS 8192

struct numbered {
    uint64_t handle; /* atomic: 0 = empty; immutable once set */
    uint32_t number; /* atomic: 0 = none now */
};

struct numbers {
    struct numbered rows[NUMBER_ROWS];
    uint32_t used; /* rows with a handle; under numbers_lock */
    uint32_t next; /* likewise: the last number given */
};

static struct numbers stream_numbers, context_numbers;
static struct gs_mutex numbers_lock = GS_MUTEX(GS_RANK_TRACE_NUMBERS);

static uint32_t generation; /* atomic: counts recordings */
/* A thread's part of the current recording. */
static _Thread_local struct own {
    uint32_t generation;                /* number of the recording; 0: none */
    uint32_t thread;                    /* gs_thread_id */
    struct gs_trace_record *slot, *end; /* the unused rest of its batch */
    struct gs_trace_slots *slots;       /* of its file */
    uint64_t slot_number;
} own;

/* ---- numbers ---------------------------------------------------------------------- */

static size_t first_row(uint64_t handle)
{
    return (size_t)(handle * 0x9e3779b97f4a7c15ull >> 51) % NUMBER_ROWS;
}

/* The handle's row, or the empty one for it. An empty row always exists. */
static struct numbered *find_row(struct numbers *numbers, uint64_t handle)
{
    size_t i = first_row(handle);

    for (;;) {
        struct numbered *row = &numbers->rows[i];
        uint64_t there = __atomic_load_n(&row->handle, __ATOMIC_ACQUIRE);

        if (there == handle || there == 0) {
            return row;
        }
        i = (i + 1) % NUMBER_ROWS;
    }
}

static GS_TRACE_COLD uint16_t give_number(struct numbers *numbers, uint64_t handle)
{
    uint32_t number = GS_TRACE_UNNUMBERED;
    struct numbered *row;

    gs_mutex_lock(&numbers_lock);
    row = find_row(numbers, handle);
    if (row->number != 0) {
        number = row->number;
    } else if (numbers->next + 1 < GS_TRACE_UNNUMBERED &&
               (row->handle != 0 || numbers->used < NUMBER_ROWS / 2)) {
        number = ++numbers->next;
        __atomic_store_n(&row->number, number, __ATOMIC_RELEASE);
        numbers->used += row->handle == 0;
        __atomic_store_n(&row->handle, handle, __ATOMIC_RELEASE);
    }
    gs_mutex_unlock(&numbers_lock);
    return (uint16_t)number;
}

/* A number from `first` on; 0 for no handle. */
static uint16_t number_of(struct numbers *numbers, const void *handle, uint32_t first)
{
    uint64_t key = (uint64_t)(uintptr_t)handle;
    struct numbered *row;
    uint32_t number;

    if (key == 0) {
        return 0;
    }
    row = find_row(numbers, key);
    number = __atomic_load_n(&row->number, __ATOMIC_ACQUIRE);
    if (GS_UNLIKELY(number == 0 ||
                    __atomic_load_n(&row->handle, __ATOMIC_ACQUIRE) != key)) {
        number = give_number(numbers, key);
    }
    if (number >= GS_TRACE_UNNUMBERED - first) {
        return GS_TRACE_UNNUMBERED;
    }
    return (uint16_t)(number + first - 1);
}

static void forget_number(struct numbers *numbers, const void *handle)
{
    uint64_t key = (uint64_t)(uintptr_t)handle;
    struct numbered *row;

    if (key == 0) {
        return;
    }
    gs_mutex_lock(&numbers_lock);
    row = find_row(numbers, key);
    if (row->handle == key) {
        __atomic_store_n(&row->number, 0, __ATOMIC_RELEASE);
    }
    gs_mutex_unlock(&numbers_lock);
}

static uint16_t stream_number(CUstream stream, enum gs_trace_order order)
{
    if (order == GS_TRACE_UNORDERED) {
        return GS_TRACE_STREAM_NONE;
    }
    if (stream == CU_STREAM_PER_THREAD ||
        (!stream && order == GS_TRACE_ORDERED_PER_THREAD)) {
        return GS_TRACE_STREAM_PER_THREAD;
    }
    if (!stream || stream == CU_STREAM_LEGACY) {
        return GS_TRACE_STREAM_LEGACY;
    }
    return number_of(&stream_numbers, stream, GS_TRACE_STREAM_FIRST);
}

/* The file ends. */
static void stop(void)
{
    __atomic_store_n(&has_file, false, __ATOMIC_RELAXED);
    __atomic_store_n(&gs_trace_on, stays_on, __ATOMIC_RELAXED);
}

/* Called for the thread's first record of this recording, or when its batch is used up.
 * False once recording has ended. */
static GS_TRACE_COLD bool next_batch(uint32_t now)
{
    if (own.generation != now) {
        own = (struct own){.generation = now, .thread = gs_thread_id()};
    }
    do { /* this thread may have slept while other threads filled the file */
        own.slot = gs_trace_file_batch(&own.slots, &own.slot_number);
    } while (own.slot && !gs_trace_file_is_fresh(own.slots, own.slot_number));
    own.end = own.slot ? own.slot + GS_TRACE_BATCH_SLOTS : NULL;
    if (!own.slot && now == __atomic_load_n(&generation, __ATOMIC_RELAXED)) {
        stop();
    }
    return own.slot != NULL;
}

/* ---- records ---------------------------------------------------------------------- */

#define RECORD_WORDS (offsetof(struct gs_trace_record, seal) / 8)

static_assert(offsetof(struct gs_trace_record, thread) == 24 &&
                  offsetof(struct gs_trace_record, stream) == 28 &&
                  offsetof(struct gs_trace_record, context) == 30 &&
                  offsetof(struct gs_trace_record, device) == 32 &&
                  offsetof(struct gs_trace_record, op) == 34 &&
                  offsetof(struct gs_trace_record, kind) == 35 &&
                  offsetof(struct gs_trace_record, how) == 36 &&
                  offsetof(struct gs_trace_record, stack) == 37,
              "write_record puts whole words together");

/* The record's last word, which encodes the operation. */
static uint64_t operation_word(enum gs_trace_op op, unsigned kind, unsigned how,
                               int device)
{
    return (uint16_t)device | (uint64_t)op << 16 | (uint64_t)kind << 24 |
           (uint64_t)how << 32;
}

/*
 * Writes a record to the file, in whole words: writing it byte by byte, and reading it
 * back for the seal, would cost three times as much. If this thread was not run while
 * other threads filled the file, the slot may have been overwritten: it is written once
 * more. time_ns 0: now. thread 0: this one.
 */
static void write_at(uint64_t time_ns, uint32_t thread, uint64_t last_word, uint64_t key,
                     uint64_t bytes, uint16_t stream, uint16_t context)
{
    uint64_t words[RECORD_WORDS] = {time_ns, key, bytes, 0, last_word};
    uint32_t recording = __atomic_load_n(&generation, __ATOMIC_RELAXED);
    uint64_t number;

    if (!__atomic_load_n(&has_file, __ATOMIC_RELAXED)) {
        return;
    }
    do {
        if (GS_UNLIKELY(own.generation != recording || own.slot == own.end ||
                        !gs_trace_file_is_fresh(own.slots, own.slot_number)) &&
            !next_batch(recording)) {
            return;
        }
        struct gs_trace_record *slot = own.slot++;

        if (words[0] == 0) {
            words[0] =
                gs_now_ns() - __atomic_load_n(&own.slots->start_ns, __ATOMIC_RELAXED);
        }
        words[3] = (thread ? thread : own.thread) | (uint64_t)stream << 32 |
                   (uint64_t)context << 48;
        memcpy(slot, words, sizeof(words));
        number = own.slot_number++;
        __atomic_store_n(&slot->seal, gs_trace_seal(words, RECORD_WORDS, number),
                         __ATOMIC_RELEASE);
    } while (GS_UNLIKELY(!gs_trace_file_is_fresh(own.slots, number) &&
                         recording == __atomic_load_n(&generation, __ATOMIC_RELAXED)));
}

static void write_record(uint64_t last_word, uint64_t key, uint64_t bytes,
                         uint16_t stream, uint16_t context)
{
    write_at(0, 0, last_word, key, bytes, stream, context);
}

static const uint8_t kinds[GS_MEMORY_KINDS] = {
    [GS_MEMORY_DEVICE] = GS_TRACE_KIND_DEVICE,
    [GS_MEMORY_ASYNC] = GS_TRACE_KIND_ASYNC,
    [GS_MEMORY_MANAGED] = GS_TRACE_KIND_MANAGED,
    [GS_MEMORY_PINNED] = GS_TRACE_KIND_PINNED,
    [GS_MEMORY_GRAPH] = GS_TRACE_KIND_NONE,
};

void gs_trace_write_alloc(enum gs_memory_kind kind, uint64_t addr, size_t bytes,
                          CUcontext context, int device, CUstream stream,
                          enum gs_trace_order order, uint32_t stack)
{
    unsigned known = (unsigned)kind < GS_MEMORY_KINDS ? kinds[kind] : GS_TRACE_KIND_NONE;
    uint64_t named = stack <= GS_TRACE_STACK_MOST ? stack : 0;

    write_record(operation_word(GS_TRACE_ALLOC, known, GS_TRACE_HOW_NONE, device) |
                     named << 40,
                 addr, bytes, stream_number(stream, order),
                 number_of(&context_numbers, context, 1));
}

void gs_trace_write_live(const struct gs_allocation *allocation, uint64_t time_ns)
{
    unsigned kind =
        allocation->kind < GS_MEMORY_KINDS ? kinds[allocation->kind] : GS_TRACE_KIND_NONE;
    uint64_t named = allocation->stack <= GS_TRACE_STACK_MOST ? allocation->stack : 0;
    enum gs_trace_order order =
        allocation->kind == GS_MEMORY_ASYNC ? GS_TRACE_ORDERED : GS_TRACE_UNORDERED;

    if (kind == GS_TRACE_KIND_NONE) {
        return;
    }
    write_at(
        time_ns > GS_TRACE_BEFORE_NS ? time_ns : GS_TRACE_BEFORE_NS, allocation->thread,
        operation_word(GS_TRACE_ALLOC, kind, GS_TRACE_HOW_NONE, allocation->device) |
            named << 40,
        allocation->addr, allocation->bytes,
        stream_number((CUstream)(uintptr_t)allocation->stream, order),
        number_of(&context_numbers, (const void *)(uintptr_t)allocation->context, 1));
}

void gs_trace_write_mapped(enum gs_memory_kind kind, uint64_t addr, size_t bytes,
                           CUcontext context, int device)
{
    write_at(GS_TRACE_BEFORE_NS, 0,
             operation_word(GS_TRACE_MAPPED, kinds[kind], GS_TRACE_HOW_NONE, device),
             addr, bytes, GS_TRACE_STREAM_NONE, number_of(&context_numbers, context, 1));
}

void gs_trace_write_range(bool mapped, enum gs_memory_kind kind, uint64_t addr,
                          size_t bytes, CUcontext context, int device)
{
    write_record(operation_word(mapped ? GS_TRACE_MAPPED : GS_TRACE_UNMAPPED, kinds[kind],
                                GS_TRACE_HOW_NONE, device),
                 addr, bytes, GS_TRACE_STREAM_NONE,
                 number_of(&context_numbers, context, 1));
}

void gs_trace_write_free(uint64_t addr, enum gs_trace_how how, CUstream stream,
                         enum gs_trace_order order)
{
    write_record(operation_word(GS_TRACE_FREE, GS_TRACE_KIND_NONE, how, 0), addr, 0,
                 stream_number(stream, order), 0);
}

void gs_trace_write_refused(uint64_t addr)
{
    write_record(
        operation_word(GS_TRACE_FREE_REFUSED, GS_TRACE_KIND_NONE, GS_TRACE_HOW_NONE, 0),
        addr, 0, GS_TRACE_STREAM_NONE, 0);
}

void gs_trace_write_sync(enum gs_trace_how how, CUcontext context, CUstream stream,
                         enum gs_trace_order order)
{
    write_record(operation_word(GS_TRACE_SYNC, GS_TRACE_KIND_NONE, how, 0), 0, 0,
                 stream_number(stream, order), number_of(&context_numbers, context, 1));
}

void gs_trace_write_context_end(CUcontext context)
{
    write_record(
        operation_word(GS_TRACE_CONTEXT_END, GS_TRACE_KIND_NONE, GS_TRACE_HOW_NONE, 0), 0,
        0, GS_TRACE_STREAM_NONE, number_of(&context_numbers, context, 1));
    forget_number(&context_numbers, context);
}

void gs_trace_forget_stream(CUstream stream)
{
    if (stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD) {
        forget_number(&stream_numbers, stream);
    }
}

/* ---- begin and end ---------------------------------------------------------------- */

static void begin(void)
{
    __atomic_add_fetch(&generation, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&has_file, true, __ATOMIC_RELEASE);
    __atomic_store_n(&gs_trace_on, true, __ATOMIC_RELEASE);
}

void gs_trace_open(const char *pattern, uint64_t limit_bytes, uint64_t pid_start)
{
    enum gs_status status;

    if (!pattern || !*pattern || gs_log_pattern_problem(pattern)) {
        return;
    }
    status = gs_trace_file_open(pattern, limit_bytes, pid_start);
    if (status != GS_OK) {
        gs_log_line(GS_LOG_WARN, "GPUSHIM_TRACE_FILE=%.600s: %s; nothing is recorded",
                    pattern, gs_status_text(status));
        return;
    }
    begin();
}

const char *gs_trace_begin(const char *pattern, uint64_t limit_bytes, uint64_t pid_start)
{
    enum gs_status status = gs_trace_file_open(pattern, limit_bytes, pid_start);
    int error = status == GS_OK ? gs_trace_file_create() : 0;

    if (status != GS_OK) {
        return gs_status_text(status);
    }
    if (error) {
        return gs_output_error_text(error);
    }
    begin();
    return NULL;
}

uint64_t gs_trace_now(void)
{
    return gs_now_ns() - gs_trace_file_start_ns();
}

bool gs_trace_records(void)
{
    return __atomic_load_n(&has_file, __ATOMIC_ACQUIRE);
}

void gs_trace_end(void)
{
    gs_trace_close();
    gs_trace_file_rest();
}

void gs_trace_stay_on(void)
{
    stays_on = true;
    __atomic_store_n(&gs_trace_on, true, __ATOMIC_RELEASE);
}

void gs_trace_close(void)
{
    if (gs_trace_file_close()) {
        stop();
    }
}

void gs_trace_reset(void)
{
    if (__atomic_load_n(&generation, __ATOMIC_RELAXED) == 0) {
        return; /* nothing was ever recorded */
    }
    stop();
    gs_trace_file_reset();
    memset(&stream_numbers, 0, sizeof(stream_numbers));
    memset(&context_numbers, 0, sizeof(context_numbers));
    gs_mutex_init(&numbers_lock, GS_RANK_TRACE_NUMBERS);
}
