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

/* The scope of a record's stack; 0: none. */
static inline uint32_t scope_of(struct gs_scope_table *table, uint32_t stack)
{
    uint32_t *chunk;

    if (stack >= GS_STACK_SCOPED) {
        return gs_stack_scope(stack);
    }
    if (stack >> GS_SCOPE_STACK_BITS >= GS_SCOPE_STACK_CHUNKS) {
        return 0;
    }
    chunk =
        __atomic_load_n(&table->stacks[stack >> GS_SCOPE_STACK_BITS], __ATOMIC_ACQUIRE);
    return chunk ? __atomic_load_n(&chunk[stack % STACKS], __ATOMIC_RELAXED) : 0;
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
    uint32_t *chunk;

    if (!scope_at(table, scope)) {
        return stack;
    }
    if (gs_stack_left_out(stack)) {
        return gs_stack_with_scope(stack, scope);
    }
    if (stack >> GS_SCOPE_STACK_BITS < GS_SCOPE_STACK_CHUNKS &&
        (chunk = map_once(NULL, &table->stacks[stack >> GS_SCOPE_STACK_BITS],
                          STACKS * sizeof(*chunk)))) {
        __atomic_store_n(&chunk[stack % STACKS], scope, __ATOMIC_RELAXED);
    }
    return stack;
}

uint32_t gs_tracker_scope_stack(struct gs_tracker *tracker, uint32_t stack,
                                uint32_t scope)
{
    struct gs_scope_table *table = table_of(tracker);

    if (!table || GS_LIKELY(scope_of(table, stack) == scope)) {
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
};

static inline void move_live(struct gs_scope_live *live, int64_t bytes)
{
    live->bytes += bytes;
    if (live->bytes > live->peak_bytes) {
        live->peak_bytes = live->bytes;
    }
}

static inline void apply(struct gs_scope_row *row, const struct change *change)
{
    move_live(&row->live, change->live_bytes);
    row->alloc_bytes += change->alloc_bytes;
    row->allocs += (uint64_t)change->allocs;
    row->frees += (uint64_t)change->frees;
    row->lost_bytes += change->lost_bytes;
    row->lost_count += (uint64_t)change->lost;
}

/* Adds a row to a scope, whose lock is held; NULL: no memory. */
static GS_NOINLINE struct gs_scope_row *add_row(struct gs_tracker *tracker,
                                                struct gs_scope_table *table,
                                                struct gs_scope *scope, unsigned row)
{
    uint32_t number = __atomic_add_fetch(&table->row_count, 1, __ATOMIC_RELAXED);
    struct gs_scope_row *made = NULL;

    if (number < ROWS_MOST &&
        map_once(tracker->config.memory, &table->rows[number >> GS_SCOPE_CHUNK_BITS],
                 IN_CHUNK * sizeof(*made))) {
        made = row_at(table, number);
        made->row = row;
        made->next = scope->first_row;
        __atomic_store_n(&scope->first_row, number, __ATOMIC_RELEASE);
    }
    return made;
}

static inline struct gs_scope_row *find_row(struct gs_scope_table *table,
                                            const struct gs_scope *scope, unsigned row)
{
    struct gs_scope_row *at = row_at(table, scope->first_row);

    while (at && at->row != row) {
        at = row_at(table, at->next);
    }
    return at;
}

/* Counts in the scope of the stack, and in those around it. Returns false if it has none.
 * Inlined, as most members of a change are 0. */
static inline __attribute__((always_inline)) bool count(struct gs_tracker *tracker,
                                                        unsigned row, uint32_t stack,
                                                        const struct change *change)
{
    struct gs_scope_table *table = table_of(tracker);
    const uint32_t first = table ? scope_of(table, stack) : 0;
    struct gs_scope *scope;

    for (uint32_t number = first; number != 0 && (scope = scope_at(table, number));
         number = scope->around) {
        gs_tracker_lock_take(&scope->lock, GS_RANK_LOST);
        struct gs_scope_row *at = find_row(table, scope, row);
        if (GS_UNLIKELY(!at)) {
            at = add_row(tracker, table, scope, row);
        }
        if (GS_LIKELY(at != NULL)) {
            apply(at, change);
        }
        if (row != GS_ROW_VIEWS) {
            move_live(&scope->live, change->live_bytes);
        }
        gs_tracker_lock_give(&scope->lock, GS_RANK_LOST);
    }
    return first != 0;
}

bool gs_scopes_count_alloc(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                           uint64_t bytes)
{
    const struct change change = {
        .live_bytes = (int64_t)bytes, .alloc_bytes = bytes, .allocs = 1};

    return count(tracker, row, stack, &change);
}

void gs_scopes_count_free(struct gs_tracker *tracker, unsigned row,
                          const struct gs_record *words, bool lost)
{
    const uint64_t bytes = words->size & GS_BYTES_MAX;
    const struct change change = {.live_bytes = -(int64_t)bytes,
                                  .lost_bytes = lost ? bytes : 0,
                                  .frees = !lost,
                                  .lost = lost};

    (void)count(tracker, row, (uint32_t)(words->who >> 32), &change);
}

void gs_scopes_count_undo(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                          uint64_t bytes)
{
    const struct change change = {.live_bytes = (int64_t)bytes, .frees = -1};

    (void)count(tracker, row, stack, &change);
}

void gs_scopes_count_growth(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                            uint64_t bytes)
{
    const struct change change = {.live_bytes = (int64_t)bytes, .alloc_bytes = bytes};

    (void)count(tracker, row, stack, &change);
}

void gs_scopes_put(struct gs_tracker *tracker, uint32_t scope,
                   const struct gs_scope *from)
{
    struct gs_scope *at = make_scope(tracker, scope, 0);

    if (at) {
        at->begun = from->begun;
        at->missed = from->missed;
        at->live = from->live;
    }
}

void gs_scopes_put_row(struct gs_tracker *tracker, uint32_t scope,
                       const struct gs_scope_row *from)
{
    struct gs_scope_table *table = table_of(tracker);
    struct gs_scope *at = table ? scope_at(table, scope) : NULL;
    struct gs_scope_row *row = at ? add_row(tracker, table, at, from->row) : NULL;

    if (row) {
        const uint32_t next = row->next;
        *row = *from;
        row->next = next;
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
    const struct gs_scope_live *live = device == GS_SCOPE_ALL ? &scope->live : NULL;

    for (const struct gs_scope_row *row = row_at(table, scope->first_row); row;
         row = row_at(table, row->next)) {
        if (device == GS_SCOPE_ALL ? row->row != GS_ROW_VIEWS : row->row == wanted) {
            add_row_to(out, row);
            live = device == GS_SCOPE_ALL ? live : &row->live;
        }
    }
    out->live_bytes = live ? at_least_zero(live->bytes) : 0;
    out->peak_bytes = live ? at_least_zero(live->peak_bytes) : 0;
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
    const uint32_t limit = gs_tracker_scope_limit(tracker);
    char found[GS_SCOPE_PATH_SIZE];
    struct gs_scope_totals totals;

    for (uint32_t scope = 1; scope < limit; scope++) {
        if (gs_tracker_scope_totals(tracker, scope, GS_SCOPE_ALL, &totals) &&
            gs_scopes_path(tracker->config.stacks, scope, found) != 0 &&
            strcmp(found, path) == 0) {
            return scope;
        }
    }
    return 0;
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
            *row = (struct gs_scope_row){.row = row->row, .next = row->next};
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
        gs_host_unmap(table->stacks[i], STACKS * sizeof(uint32_t));
    }
    gs_state_unmap(memory, table, sizeof(*table));
}
