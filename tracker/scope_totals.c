/*
 * scope_totals.c - counts allocations and frees by scope.
 *
 * A scope's counters change inside a shard alone, and under the scope's lock: several
 * threads may be in one scope, or free each other's memory, and the peak needs the sum of
 * all. Records, and the scopes they belong to, change together for whoever has closed all
 * gates.
 *
 * Owns, Locks: see scope_totals.h.   Design: docs/tracker.md
 */
#include "tracker/scope_totals.h"

#include "tracker/stacks/scopes.h"

#define IN_CHUNK  (1u << GS_SCOPE_CHUNK_BITS)
#define STACKS    (1u << GS_SCOPE_STACK_BITS)
#define ROWS_MOST GS_SCOPE_NUMBERS

static struct gs_scope_table *table_of(const struct gs_tracker *tracker)
{
    return __atomic_load_n(&tracker->scopes, __ATOMIC_ACQUIRE);
}

/* Returns the pages at *slot, mapped at their first use; NULL: no memory. */
static void *map_once(struct gs_state_memory *memory, void *slot, size_t bytes)
{
    void *none = NULL, *pages = __atomic_load_n((void **)slot, __ATOMIC_ACQUIRE);

    if (GS_LIKELY(pages != NULL)) {
        return pages;
    }
    pages = gs_pages_map(memory, bytes);
    if (pages && !__atomic_compare_exchange_n((void **)slot, &none, pages, false,
                                              __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        gs_state_unmap(memory, pages, bytes); /* another thread was first */
        pages = none;
    }
    return pages;
}

/* NULL: there is no such scope. */
static inline struct gs_scope *scope_at(struct gs_scope_table *table, uint32_t number)
{
    struct gs_scope *chunk;

    if (number == 0 || number >= GS_SCOPE_NUMBERS - 1) {
        return NULL;
    }
    chunk =
        __atomic_load_n(&table->scopes[number >> GS_SCOPE_CHUNK_BITS], __ATOMIC_ACQUIRE);
    return chunk ? &chunk[number % IN_CHUNK] : NULL;
}

static inline struct gs_scope_row *row_at(struct gs_scope_table *table, uint32_t number)
{
    struct gs_scope_row *chunk;

    if (number == 0 || number >= ROWS_MOST) {
        return NULL;
    }
    chunk =
        __atomic_load_n(&table->rows[number >> GS_SCOPE_CHUNK_BITS], __ATOMIC_ACQUIRE);
    return chunk ? &chunk[number % IN_CHUNK] : NULL;
}

/* The entry of a stack; NULL: it cannot have one, or none was made yet. It is the address
 * of a row, or a scope's number as NUMBERED has it; 0: the stack is in no scope. */
static inline uintptr_t *entry_of(struct gs_scope_table *table, uint32_t stack)
{
    uintptr_t *chunk = NULL;

    if (stack >> GS_SCOPE_STACK_BITS < GS_SCOPE_STACK_CHUNKS) {
        chunk = __atomic_load_n(&table->stacks[stack >> GS_SCOPE_STACK_BITS],
                                __ATOMIC_ACQUIRE);
    }
    return chunk ? &chunk[stack % STACKS] : NULL;
}

#define NUMBERED(scope) ((uintptr_t)(scope) << 1 | 1)

static inline bool is_numbered(uintptr_t entry)
{
    return entry & 1;
}

/* ---- scopes and their stacks ----------------------------------------------------- */

static void raise_limit(struct gs_scope_table *table, uint32_t limit)
{
    uint32_t was = __atomic_load_n(&table->limit, __ATOMIC_RELAXED);

    while (was < limit &&
           !__atomic_compare_exchange_n(&table->limit, &was, limit, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

/* Returns the scope, in the table from now on; NULL: no memory. */
static GS_NOINLINE struct gs_scope *make_scope(struct gs_tracker *tracker, uint32_t scope,
                                               uint32_t around)
{
    struct gs_state_memory *memory = tracker->config.memory;
    struct gs_scope_table *table =
        map_once(memory, &tracker->scopes, sizeof(struct gs_scope_table));

    if (!table || scope == 0 || scope >= GS_SCOPE_NUMBERS - 1 ||
        !map_once(memory, &table->scopes[scope >> GS_SCOPE_CHUNK_BITS],
                  IN_CHUNK * sizeof(struct gs_scope))) {
        return NULL;
    }
    struct gs_scope *at = scope_at(table, scope);
    __atomic_store_n(&at->around, around, __ATOMIC_RELEASE);
    raise_limit(table, scope + 1);
    return at;
}

void gs_tracker_scope_begun(struct gs_tracker *tracker, uint32_t scope, uint32_t around)
{
    struct gs_scope_table *table = table_of(tracker);
    struct gs_scope *at = table ? scope_at(table, scope) : NULL;

    if (GS_UNLIKELY(!at || __atomic_load_n(&at->begun, __ATOMIC_ACQUIRE) == 0)) {
        at = make_scope(tracker, scope, around);
    }
    if (at) {
        __atomic_fetch_add(&at->begun, 1, __ATOMIC_RELEASE);
    }
}

void gs_tracker_scope_missed(struct gs_tracker *tracker, uint32_t scope)
{
    struct gs_scope_table *table = table_of(tracker);
    struct gs_scope *at;

    for (uint32_t number = scope; table && (at = scope_at(table, number));
         number = __atomic_load_n(&at->around, __ATOMIC_RELAXED)) {
        __atomic_fetch_add(&at->missed, 1, __ATOMIC_RELAXED);
    }
}

/* Stores the scope of a stack. Returns the stack for the record. */
static GS_NOINLINE uint32_t add_stack(struct gs_scope_table *table, uint32_t stack,
                                      uint32_t scope)
{
    uintptr_t none = 0;

    if (!scope_at(table, scope)) {
        return stack;
    }
    if (gs_stack_left_out(stack)) {
        return gs_stack_with_scope(stack, scope);
    }
    if (stack >> GS_SCOPE_STACK_BITS < GS_SCOPE_STACK_CHUNKS &&
        map_once(NULL, &table->stacks[stack >> GS_SCOPE_STACK_BITS],
                 STACKS * sizeof(*table->stacks[0]))) {
        (void)__atomic_compare_exchange_n(entry_of(table, stack), &none, NUMBERED(scope),
                                          false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
    return stack;
}

uint32_t gs_tracker_scope_stack(struct gs_tracker *tracker, uint32_t stack,
                                uint32_t scope)
{
    struct gs_scope_table *table = table_of(tracker);
    const uintptr_t *entry = table ? entry_of(table, stack) : NULL;

    if (!table ||
        (GS_LIKELY(entry != NULL) && __atomic_load_n(entry, __ATOMIC_RELAXED) != 0)) {
        return stack;
    }
    return add_stack(table, stack, scope);
}

/* ---- counting -------------------------------------------------------------------- */

/* What an event adds to the counters. */
struct change {
    int64_t live_bytes;
    uint64_t alloc_bytes, lost_bytes;
    int allocs, frees, lost;
    bool ends; /* what was live until now may be the peak */
};

enum event { ALLOC, FREE, LOSS, UNDO, GROWTH, DIVISION };

static inline struct change change_of(enum event event, uint64_t bytes)
{
    const bool ends = event == FREE || event == LOSS;

    return (struct change){
        .live_bytes = ends || event == DIVISION ? -(int64_t)bytes : (int64_t)bytes,
        .alloc_bytes = event == ALLOC || event == GROWTH ? bytes
                       : event == DIVISION               ? 0 - bytes
                                                         : 0,
        .lost_bytes = event == LOSS ? bytes : 0,
        .allocs = event == ALLOC      ? 1
                  : event == DIVISION ? -1
                                      : 0,
        .frees = event == FREE   ? 1
                 : event == UNDO ? -1
                                 : 0,
        .lost = event == LOSS,
        .ends = ends,
    };
}

/* A peak is raised before live memory falls, and by readers: so no memory is part of it
 * that turns out to be divided. */
static inline void change_live(struct gs_scope_live *live, const struct change *change)
{
    if (change->ends && live->bytes > live->peak_bytes) {
        live->peak_bytes = live->bytes;
    }
    live->bytes += change->live_bytes;
}

static inline void apply(struct gs_scope_row *row, const struct change *change)
{
    change_live(&row->live, change);
    row->alloc_bytes += change->alloc_bytes;
    row->allocs += (uint64_t)change->allocs;
    row->frees += (uint64_t)change->frees;
    row->lost_bytes += change->lost_bytes;
    row->lost_count += (uint64_t)change->lost;
}

/* Adds a row to a scope, whose lock is held; NULL: no memory. */
static struct gs_scope_row *add_row(struct gs_tracker *tracker, struct gs_scope *scope,
                                    unsigned row, struct gs_scope_row *around)
{
    struct gs_scope_table *table = table_of(tracker);
    uint32_t number = __atomic_add_fetch(&table->row_count, 1, __ATOMIC_RELAXED);
    struct gs_scope_row *made = NULL;

    if (number < ROWS_MOST &&
        map_once(tracker->config.memory, &table->rows[number >> GS_SCOPE_CHUNK_BITS],
                 IN_CHUNK * sizeof(*made))) {
        made = row_at(table, number);
        made->row = row;
        made->scope = scope;
        made->around = around;
        made->next = scope->first_row;
        __atomic_store_n(&scope->first_row, number, __ATOMIC_RELEASE);
    }
    return made;
}

static struct gs_scope_row *find_row(struct gs_scope_table *table,
                                     const struct gs_scope *scope, unsigned row)
{
    struct gs_scope_row *at = row_at(table, scope->first_row);

    while (at && at->row != row) {
        at = row_at(table, at->next);
    }
    return at;
}

/* The live memory of a locked scope's rows but the views; NULL: it has none. */
static const struct gs_scope_live *live_of(struct gs_scope_table *table,
                                           const struct gs_scope *scope)
{
    const struct gs_scope_row *at = row_at(table, scope->first_row);

    if (scope->summed > 1) {
        return &scope->live;
    }
    while (at && at->row == GS_ROW_VIEWS) {
        at = row_at(table, at->next);
    }
    return at ? &at->live : NULL;
}

/* The scope's row, added if it is missing; NULL: no memory. The rows of the scopes around
 * come first: whoever finds the row counts in them. */
static struct gs_scope_row *row_in(struct gs_tracker *tracker, struct gs_scope *scope,
                                   unsigned row)
{
    struct gs_scope_table *table = table_of(tracker);
    struct gs_scope *outer =
        scope_at(table, __atomic_load_n(&scope->around, __ATOMIC_ACQUIRE));

    gs_tracker_lock_take(&scope->lock, GS_RANK_LOST);
    struct gs_scope_row *at = find_row(table, scope, row);
    gs_tracker_lock_give(&scope->lock, GS_RANK_LOST);
    if (at) {
        return at;
    }
    struct gs_scope_row *around = outer ? row_in(tracker, outer, row) : NULL;
    gs_tracker_lock_take(&scope->lock, GS_RANK_LOST);
    at = find_row(table, scope, row);
    if (!at && (at = add_row(tracker, scope, row, around)) && row != GS_ROW_VIEWS &&
        ++scope->summed == 2) {
        /* `at` is the first row of the list: the other one is behind it. */
        const struct gs_scope_row *other = row_at(table, at->next);
        while (other->row == GS_ROW_VIEWS) {
            other = row_at(table, other->next);
        }
        scope->live = other->live;
    }
    gs_tracker_lock_give(&scope->lock, GS_RANK_LOST);
    return at;
}

/* The scope of a stack by its entry; NULL: none. */
static struct gs_scope *scope_of(struct gs_scope_table *table, uintptr_t entry,
                                 uint32_t stack)
{
    if (entry == 0) { /* sampling may have left the stack out */
        return scope_at(table, gs_stack_scope(stack));
    }
    return is_numbered(entry) ? scope_at(table, (uint32_t)(entry >> 1))
                              : ((const struct gs_scope_row *)entry)->scope;
}

/* From now on each free of the row calls gs_peak_keep, for its scope. */
static void watch_frees(struct gs_tracker *tracker, unsigned row)
{
    gs_tracker_lock_take(&tracker->peak_lock, GS_RANK_PEAK);
    __atomic_store_n(&tracker->shared[row].scoped, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&tracker->peaks.order[row], UINT64_MAX, __ATOMIC_RELAXED);
    gs_tracker_lock_give(&tracker->peak_lock, GS_RANK_PEAK);
}

/* The row of an event that is the first of its stack, of another row than the last one,
 * or of a stack that sampling left out. NULL: it is in no scope, or no memory. */
static struct gs_scope_row *find_row_of(struct gs_tracker *tracker, unsigned row,
                                        uint32_t stack)
{
    struct gs_scope_table *table = table_of(tracker);
    if (!table) {
        return NULL;
    }
    uintptr_t *entry = entry_of(table, stack);
    uintptr_t known = entry ? __atomic_load_n(entry, __ATOMIC_ACQUIRE) : 0;
    struct gs_scope *scope = scope_of(table, known, stack);

    if (!scope) {
        return NULL;
    }
    /* Before anyone can count in the row: a free that nobody sees would stay live. */
    if (__atomic_load_n(&tracker->shared[row].scoped, __ATOMIC_RELAXED) == 0) {
        watch_frees(tracker, row);
    }
    struct gs_scope_row *at = row_in(tracker, scope, row);
    if (at && known != 0) {
        __atomic_store_n(entry, (uintptr_t)at, __ATOMIC_RELEASE);
    }
    return at;
}

/* Counts in a row and in those around it. */
static GS_NOINLINE void count_from(struct gs_scope_row *at, enum event event,
                                   uint64_t bytes)
{
    const struct change change = change_of(event, bytes);

    for (; at; at = at->around) {
        struct gs_scope *scope = at->scope;
        gs_tracker_lock_take(&scope->lock, GS_RANK_LOST);
        apply(at, &change);
        if (scope->summed > 1 && at->row != GS_ROW_VIEWS) {
            change_live(&scope->live, &change);
        }
        gs_tracker_lock_give(&scope->lock, GS_RANK_LOST);
    }
}

static GS_NOINLINE void count_slowly(struct gs_tracker *tracker, unsigned row,
                                     uint32_t stack, enum event event, uint64_t bytes)
{
    count_from(find_row_of(tracker, row, stack), event, bytes);
}

/* Counts in the scope of the stack, if it has one, and in those around it. Inlined, as
 * most members of a change are 0; all its calls are the last ones, so it saves no
 * registers. */
static inline __attribute__((always_inline)) void count(struct gs_tracker *tracker,
                                                        unsigned row, uint32_t stack,
                                                        enum event event, uint64_t bytes)
{
    const struct change change = change_of(event, bytes);
    struct gs_scope_table *table = table_of(tracker);
    const uintptr_t *entry = table ? entry_of(table, stack) : NULL;
    const uintptr_t known = entry ? __atomic_load_n(entry, __ATOMIC_ACQUIRE) : 0;
    struct gs_scope_row *at = (struct gs_scope_row *)known;

    if (GS_UNLIKELY(known == 0)) {
        if (table && gs_stack_is_scoped(stack)) {
            count_slowly(tracker, row, stack, event, bytes);
        }
        return;
    }
    if (GS_UNLIKELY(is_numbered(known)) || GS_UNLIKELY(at->row != row)) {
        count_slowly(tracker, row, stack, event, bytes);
        return;
    }
    for (; at; at = at->around) {
        struct gs_scope *scope = at->scope;
        if (GS_UNLIKELY(!gs_tracker_lock_try(&scope->lock, GS_RANK_LOST))) {
            count_from(at, event, bytes);
            return;
        }
        if (GS_UNLIKELY(scope->summed > 1)) {
            gs_tracker_lock_give(&scope->lock, GS_RANK_LOST);
            count_from(at, event, bytes);
            return;
        }
        apply(at, &change);
        gs_tracker_lock_give(&scope->lock, GS_RANK_LOST);
    }
}

void gs_scopes_count_alloc(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                           uint64_t bytes)
{
    count(tracker, row, stack, ALLOC, bytes);
}

void gs_scopes_count_free(struct gs_tracker *tracker, unsigned row,
                          const struct gs_record *words)
{
    count(tracker, row, (uint32_t)(words->who >> 32), FREE, words->size & GS_BYTES_MAX);
}

void gs_scopes_count_loss(struct gs_tracker *tracker, unsigned row,
                          const struct gs_record *words)
{
    count_slowly(tracker, row, (uint32_t)(words->who >> 32), LOSS,
                 words->size & GS_BYTES_MAX);
}

void gs_scopes_count_undo(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                          uint64_t bytes)
{
    count_slowly(tracker, row, stack, UNDO, bytes);
}

void gs_scopes_count_growth(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                            uint64_t bytes)
{
    count_slowly(tracker, row, stack, GROWTH, bytes);
}

void gs_scopes_count_part(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                          int64_t bytes)
{
    if (bytes < 0) {
        count(tracker, row, stack, FREE, (uint64_t)-bytes);
    } else {
        count(tracker, row, stack, ALLOC, (uint64_t)bytes);
    }
}

void gs_scopes_count_division(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                              uint64_t bytes)
{
    count_slowly(tracker, row, stack, DIVISION, bytes);
}

void gs_scopes_put(struct gs_tracker *tracker, uint32_t scope,
                   const struct gs_scope *from)
{
    struct gs_scope *at = make_scope(tracker, scope, 0);

    if (at) {
        at->begun = from->begun;
        at->missed = from->missed;
        at->live = from->live;
        at->summed = from->summed;
    }
}

void gs_scopes_put_row(struct gs_tracker *tracker, uint32_t scope,
                       const struct gs_scope_row *from)
{
    struct gs_scope_table *table = table_of(tracker);
    struct gs_scope *at = table ? scope_at(table, scope) : NULL;
    struct gs_scope_row *row = at ? add_row(tracker, at, from->row, NULL) : NULL;

    if (row) {
        const struct gs_scope_row made = *row;
        *row = *from;
        row->next = made.next;
        row->scope = made.scope;
        row->around = made.around;
    }
}

/* ---- reading --------------------------------------------------------------------- */

uint32_t gs_tracker_scope_limit(struct gs_tracker *tracker)
{
    struct gs_scope_table *table = tracker ? table_of(tracker) : NULL;
    uint32_t limit = table ? __atomic_load_n(&table->limit, __ATOMIC_ACQUIRE) : 1;

    return limit > 1 ? limit : 1;
}

static uint64_t at_least_zero(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0;
}

/* Adds a row, whose scope is locked, to the sums. */
static void add_row_to(struct gs_scope_totals *sum, const struct gs_scope_row *row)
{
    const uint64_t gone_bytes = row->alloc_bytes - (uint64_t)row->live.bytes;

    sum->allocs += row->allocs;
    sum->frees += row->frees;
    sum->lost_count += row->lost_count;
    sum->live_count +=
        at_least_zero((int64_t)(row->allocs - row->frees - row->lost_count));
    sum->alloc_bytes += row->alloc_bytes;
    sum->lost_bytes += row->lost_bytes;
    sum->free_bytes += at_least_zero((int64_t)(gone_bytes - row->lost_bytes));
}

/* Reads a locked scope. */
static void read_scope(struct gs_scope_table *table, const struct gs_scope *scope,
                       int device, struct gs_scope_totals *out)
{
    const unsigned wanted = device == GS_SCOPE_ALL ? 0 : gs_totals_row_of(device);
    const struct gs_scope_live *live =
        device == GS_SCOPE_ALL ? live_of(table, scope) : NULL;

    for (const struct gs_scope_row *row = row_at(table, scope->first_row); row;
         row = row_at(table, row->next)) {
        if (device == GS_SCOPE_ALL ? row->row != GS_ROW_VIEWS : row->row == wanted) {
            add_row_to(out, row);
            live = device == GS_SCOPE_ALL ? live : &row->live;
        }
    }
    out->live_bytes = live ? at_least_zero(live->bytes) : 0;
    if (live) {
        out->peak_bytes = at_least_zero(live->peak_bytes);
    }
    if (out->live_bytes > out->peak_bytes) {
        out->peak_bytes = out->live_bytes;
    }
}

bool gs_tracker_scope_totals(struct gs_tracker *tracker, uint32_t scope, int device,
                             struct gs_scope_totals *out)
{
    struct gs_scope_table *table = tracker ? table_of(tracker) : NULL;
    struct gs_scope *at = table ? scope_at(table, scope) : NULL;

    *out = (struct gs_scope_totals){0};
    if (!at || __atomic_load_n(&at->begun, __ATOMIC_RELAXED) == 0) {
        return false;
    }
    gs_tracker_lock_take(&at->lock, GS_RANK_LOST);
    read_scope(table, at, device, out);
    gs_tracker_lock_give(&at->lock, GS_RANK_LOST);
    out->begun = __atomic_load_n(&at->begun, __ATOMIC_RELAXED);
    out->missed = __atomic_load_n(&at->missed, __ATOMIC_RELAXED);
    return true;
}

uint32_t gs_tracker_scope_find(struct gs_tracker *tracker, const char *path)
{
    struct gs_scope_totals totals;
    uint32_t scope = tracker ? gs_scopes_find(tracker->config.stacks, path) : 0;

    return gs_tracker_scope_totals(tracker, scope, GS_SCOPE_ALL, &totals) ? scope : 0;
}

/* ---- the end --------------------------------------------------------------------- */

void gs_scopes_restart(struct gs_tracker *tracker)
{
    struct gs_scope_table *table = table_of(tracker);
    uint32_t limit = gs_tracker_scope_limit(tracker);

    for (uint32_t number = 1; number < limit; number++) {
        struct gs_scope *scope = scope_at(table, number);
        if (!scope) {
            continue;
        }
        scope->live = (struct gs_scope_live){0};
        scope->begun = scope->begun != 0; /* it exists, and may be open */
        scope->missed = 0;
        for (struct gs_scope_row *row = row_at(table, scope->first_row); row;
             row = row_at(table, row->next)) {
            *row = (struct gs_scope_row){.scope = row->scope,
                                         .around = row->around,
                                         .row = row->row,
                                         .next = row->next};
        }
    }
}

void gs_scopes_free(struct gs_tracker *tracker)
{
    struct gs_scope_table *table = table_of(tracker);
    struct gs_state_memory *memory = tracker->config.memory;

    if (!table) {
        return;
    }
    for (uint32_t i = 0; i < GS_SCOPE_CHUNKS; i++) {
        gs_state_unmap(memory, table->scopes[i], IN_CHUNK * sizeof(struct gs_scope));
        gs_state_unmap(memory, table->rows[i], IN_CHUNK * sizeof(struct gs_scope_row));
    }
    for (uint32_t i = 0; i < GS_SCOPE_STACK_CHUNKS; i++) {
        gs_host_unmap(table->stacks[i], STACKS * sizeof(*table->stacks[i]));
    }
    gs_state_unmap(memory, table, sizeof(*table));
}
