/*
 * allocations.c - lives of memory: from where in the order each may be used, what must be
 * in order before its end, and what is really over when its bytes are handed out again.
 *
 * A hand-out is in order behind the ends of those who had the bytes before: in N as it
 * is, since natively it is; in S as far as those were retired, with what the host had
 * really waited for when they ended. What was over before an earlier life began is over
 * before a later one begins, so each life takes that on from the one before. If another
 * host thread ended the earlier life, the thread that is given the bytes goes on behind
 * that end: the two calls met in the allocator.
 *
 * A life that begins in one that goes on (a block in a segment) has that around it: when
 * it ends the bytes are the outer one's again. A life that begins, not inside, where
 * another has not ended, ends that one.
 *
 * Owns:  allocations; who lodges where.   Lock: the oracle's; reference counts are
 * atomic.
 */
#include "oracle_state.h"

#include <string.h>

#include "oracle_callers.h"
#include "oracle_spans.h"

/* Bytes, who had them last, and who has them beneath that. */
struct lodging {
    struct oracle_span span;
    struct oracle_allocation *newest, *outer; /* with references; outer may be NULL */
};

struct oracle_allocation *oracle_allocations; /* the oracle's lock */

static struct oracle_allocation *idle_allocations; /* the oracle's lock */
static struct lodging *idle_lodgings;              /* the oracle's lock; by span.next */
static struct oracle_spans lodgings;               /* the oracle's lock */
static uint64_t allocation_count;                  /* the oracle's lock */

/* ---- allocations ----------------------------------------------------------------------
 */

void oracle_allocation_ref(struct oracle_allocation *allocation)
{
    if (allocation)
        atomic_fetch_add_explicit(&allocation->refs, 1, memory_order_relaxed);
}

static struct oracle_allocation *allocation_new(void)
{
    struct oracle_allocation *allocation = idle_allocations;

    if (allocation)
        idle_allocations = allocation->next;
    else
        allocation = oracle_allocate(NULL, sizeof(*allocation));
    if (!allocation) {
        oracle_lose();
        return NULL;
    }
    memset(allocation, 0, sizeof(*allocation));
    atomic_init(&allocation->refs, 1);
    allocation->number = ++allocation_count;
    allocation->next = oracle_allocations;
    if (allocation->next)
        allocation->next->prev = allocation;
    oracle_allocations = allocation;
    return allocation;
}

void oracle_allocation_drop(struct oracle_allocation *allocation)
{
    while (allocation &&
           atomic_fetch_sub_explicit(&allocation->refs, 1, memory_order_acq_rel) == 1) {
        struct oracle_allocation *outer = allocation->outer;

        oracle_pair_clear(&allocation->birth);
        oracle_pair_clear(&allocation->end);
        oracle_pair_clear(&allocation->end_host);
        oracle_clock_unref(allocation->free);
        if (allocation->next)
            allocation->next->prev = allocation->prev;
        if (allocation->prev)
            allocation->prev->next = allocation->next;
        else
            oracle_allocations = allocation->next;
        allocation->next = idle_allocations;
        idle_allocations = allocation;
        allocation = outer;
    }
}

void oracle_allocation_unref(struct oracle_allocation *allocation)
{
    if (!allocation)
        return;
    oracle_lock();
    oracle_allocation_drop(allocation);
    oracle_unlock();
}

/* ---- who lodges where ------------------------------------------------------------- */

static struct lodging *lodging_from(uintptr_t address)
{
    return (struct lodging *)oracle_spans_from(&lodgings, address);
}

static struct lodging *next_lodging(const struct lodging *lodging)
{
    return (struct lodging *)lodging->span.next;
}

static void add_lodging(uintptr_t start, uintptr_t end, struct oracle_allocation *newest,
                        struct oracle_allocation *outer)
{
    struct lodging *lodging = idle_lodgings;

    if (lodging)
        idle_lodgings = (struct lodging *)lodging->span.next;
    else
        lodging = oracle_allocate(NULL, sizeof(*lodging));
    if (!lodging) {
        oracle_lose();
        return;
    }
    memset(lodging, 0, sizeof(*lodging));
    lodging->span.start = start;
    lodging->span.end = end;
    lodging->newest = newest;
    lodging->outer = outer;
    oracle_allocation_ref(newest);
    oracle_allocation_ref(outer);
    oracle_spans_insert(&lodgings, &lodging->span);
}

static void remove_lodging(struct lodging *lodging)
{
    oracle_spans_remove(&lodgings, &lodging->span);
    oracle_allocation_drop(lodging->newest);
    oracle_allocation_drop(lodging->outer);
    lodging->span.next = (struct oracle_span *)idle_lodgings;
    idle_lodgings = lodging;
}

/* Let one begin at the address, if it lies inside one. */
static void split_lodging(uintptr_t address)
{
    struct lodging *lodging = lodging_from(address);

    if (!lodging || lodging->span.start >= address)
        return;
    uintptr_t end = lodging->span.end;
    lodging->span.end = address;
    add_lodging(address, end, lodging->newest, lodging->outer);
}

void oracle_lodgings_forget(uintptr_t start, uintptr_t end)
{
    split_lodging(start);
    split_lodging(end);
    struct lodging *lodging = lodging_from(start);
    while (lodging && lodging->span.start < end) {
        struct lodging *next = next_lodging(lodging);
        remove_lodging(lodging);
        lodging = next;
    }
}

void oracle_lodging_at(uintptr_t address, struct oracle_lodging *out)
{
    const struct lodging *lodging = lodging_from(address);

    if (lodging && lodging->span.start <= address)
        *out =
            (struct oracle_lodging){lodging->span.end, lodging->newest, lodging->outer};
    else
        *out = (struct oracle_lodging){lodging ? lodging->span.start : UINTPTR_MAX, NULL,
                                       NULL};
}

/* Has the allocation any of these bytes? */
static bool reaches(const struct oracle_allocation *allocation, uintptr_t start,
                    uintptr_t end)
{
    return start < oracle_range_end(&allocation->range) &&
           end > allocation->range.address;
}

/* The next one around an allocation that has any of these bytes. One that spans several
 * is inside the first of them as far as it knows itself; the lodging knows better. */
static struct oracle_allocation *around(const struct lodging *lodging,
                                        const struct oracle_allocation *allocation,
                                        uintptr_t start, uintptr_t end)
{
    struct oracle_allocation *outer =
        allocation == lodging->newest ? lodging->outer : allocation->outer;

    while (outer && !reaches(outer, start, end))
        outer = outer->outer;
    return outer;
}

/* The innermost that lives at the address. */
static struct oracle_allocation *who_lives(const struct lodging *lodging,
                                           uintptr_t address)
{
    struct oracle_allocation *allocation = lodging->newest;

    while (allocation && allocation->ended)
        allocation = around(lodging, allocation, address, address + 1);
    return allocation;
}

struct oracle_allocation *oracle_allocation_find(uintptr_t address)
{
    oracle_lock();
    const struct lodging *lodging = lodging_from(address);
    struct oracle_allocation *allocation =
        lodging && lodging->span.start <= address ? who_lives(lodging, address) : NULL;
    oracle_allocation_ref(allocation);
    oracle_unlock();
    return allocation;
}

size_t oracle_allocation_bytes(const struct oracle_allocation *allocation)
{
    return allocation->range.bytes;
}

bool oracle_allocation_is_block(const struct oracle_allocation *allocation,
                                uintptr_t address)
{
    return allocation->inner && allocation->range.address == address;
}

/* ---- ends ------------------------------------------------------------------------- */

static void end_allocation(struct oracle_allocation *allocation, const char *call,
                           struct oracle_past *past, const struct oracle_op *op)
{
    allocation->ended = true;
    allocation->over = ++oracle_now;
    allocation->end_call = call;
    allocation->end_here = (struct oracle_point){ORACLE_NO_SLOT, 0};
    if (past && !op)
        allocation->end_here = oracle_past_event(past);
    if (past)
        oracle_pair_set(&allocation->end_host, &past->knows);
    if (op) {
        allocation->end_here = op->here;
        oracle_pair_set(&allocation->end, &op->knows);
        oracle_pair_raise(&allocation->end, op->here);
    } else {
        oracle_pair_set(&allocation->end, &allocation->end_host);
    }
    oracle_clock_join(&allocation->free, allocation->birth.s);
    oracle_clock_join(&allocation->free, allocation->end_host.s);
}

void oracle_allocation_end(struct oracle_allocation *allocation, const char *call,
                           struct oracle_line *host, const struct oracle_op *op,
                           struct oracle_line *const *waited, size_t waited_count)
{
    uint32_t stack = oracle_callers_take();

    oracle_lock();
    struct oracle_past *past = oracle_past_of(host);
    if (!allocation || allocation->ended) {
        oracle_unknown();
        oracle_unlock();
        return;
    }
    for (size_t i = 0; past && i < waited_count; i++) {
        if (waited[i])
            oracle_past_ought(past, waited[i]);
    }
    end_allocation(allocation, call, past, op && op->submitted ? op : NULL);
    for (size_t i = 0; i < waited_count; i++) {
        if (waited[i]) {
            oracle_clock_join(&allocation->end.n, waited[i]->knows.n);
            oracle_clock_raise(&allocation->end.n, waited[i]->here);
        }
    }
    allocation->end_stack = stack;
    oracle_judge_end(allocation);
    oracle_unlock();
}

void oracle_allocation_retire(struct oracle_allocation *allocation,
                              struct oracle_line *host, const struct oracle_op *op)
{
    if (!allocation)
        return;
    oracle_lock();
    const struct oracle_past *past = oracle_past_of(host);
    allocation->retired = ++oracle_now;
    if (op && op->done) {
        oracle_clock_join(&allocation->free, op->knows.s);
        oracle_clock_raise(&allocation->free, op->here);
    } else if (op && allocation->retired > oracle_lost) {
        const struct oracle_mark proof = {.op = (struct oracle_op *)op};
        oracle_found(&(struct oracle_report){
            .kind = ORACLE_EARLY_RETIRE,
            .start = allocation->range.address,
            .end = oracle_range_end(&allocation->range),
            .first = &proof,
            .allocation = allocation,
        });
    } else if (!op && past) {
        oracle_clock_join(&allocation->free, past->knows.s);
    }
    oracle_unlock();
}

void oracle_allocation_gone(struct oracle_allocation *allocation)
{
    oracle_lock();
    if (allocation && allocation->ended) {
        allocation->gone = true;
        oracle_judge_gone(allocation);
    }
    oracle_unlock();
}

/* ---- beginnings ------------------------------------------------------------------- */

/* Go behind the end of one that had some of the bytes. */
static void follow(struct oracle_allocation *allocation, struct oracle_past *past,
                   const struct oracle_allocation *earlier)
{
    const struct oracle_point none = {ORACLE_NO_SLOT, 0};

    allocation->follows = true;
    oracle_clock_join(&allocation->birth.s, earlier->free);
    if (past && oracle_options.separate_hosts)
        oracle_past_learns(past, &earlier->end_host, none, true);
}

/* Its bytes are those of a block that its layer has not taken back. */
static void handed_twice(const struct oracle_allocation *allocation,
                         const struct oracle_allocation *earlier)
{
    oracle_found(&(struct oracle_report){
        .kind = ORACLE_HANDED_TWICE,
        .start = allocation->range.address,
        .end = oracle_range_end(&allocation->range),
        .allocation = allocation,
        .before = earlier,
    });
}

/*
 * Go behind all that had the bytes of a lodging.
 *
 * Out:  the one that lives on around the new one there, or NULL
 */
static struct oracle_allocation *follow_all(struct oracle_allocation *allocation,
                                            struct oracle_past *past,
                                            const struct lodging *lodging)
{
    struct oracle_allocation *earlier = lodging->newest;

    while (earlier) {
        if (!earlier->ended && allocation->inner) {
            if (earlier->inner)
                handed_twice(allocation, earlier);
            oracle_clock_join(&allocation->birth.s, earlier->birth.s);
            earlier->has_inner = true;
            return earlier;
        }
        if (!earlier->ended)
            end_allocation(earlier, allocation->call, past, NULL);
        follow(allocation, past, earlier);
        earlier = around(lodging, earlier, allocation->range.address,
                         oracle_range_end(&allocation->range));
    }
    return NULL;
}

/* Follow those that had the bytes, and move in. */
static void move_in(struct oracle_allocation *allocation, struct oracle_past *past)
{
    uintptr_t at = allocation->range.address, end = oracle_range_end(&allocation->range);
    uintptr_t from = at; /* pieces from here on have the same outer one */
    struct oracle_allocation *around = NULL;

    split_lodging(at);
    split_lodging(end);
    struct lodging *lodging = lodging_from(at);
    while (at < end) {
        struct oracle_allocation *outer = NULL;
        uintptr_t piece_end = end;
        if (lodging && lodging->span.start <= at) {
            struct lodging *next = next_lodging(lodging);
            piece_end = lodging->span.end;
            outer = follow_all(allocation, past, lodging);
            oracle_allocation_ref(outer);
            remove_lodging(lodging);
            lodging = next;
        } else if (lodging && lodging->span.start < end) {
            piece_end = lodging->span.start;
        }
        if (outer != around && at > from) {
            add_lodging(from, at, allocation, around);
            from = at;
        }
        if (!allocation->outer) {
            oracle_allocation_ref(outer);
            allocation->outer = outer;
        }
        oracle_allocation_drop(around);
        around = outer;
        at = piece_end;
    }
    add_lodging(from, end, allocation, around);
    oracle_allocation_drop(around);
}

struct oracle_allocation *oracle_allocation_begin(const struct oracle_range *range,
                                                  const char *call,
                                                  struct oracle_line *host,
                                                  const struct oracle_op *op, bool inner)
{
    oracle_lock();
    struct oracle_past *past = oracle_past_of(host);
    struct oracle_allocation *allocation = allocation_new();
    if (!allocation) { /* let nobody take it for the one before */
        oracle_lodgings_forget(range->address, oracle_range_end(range));
        oracle_unlock();
        return NULL;
    }
    allocation->range = *range;
    allocation->call = call;
    allocation->inner = inner;
    allocation->born = ++oracle_now;
    allocation->birth_here.slot = ORACLE_NO_SLOT;
    if (range->bytes > 0)
        move_in(allocation, past);
    if (op && op->submitted) {
        allocation->birth_in_stream = true;
        allocation->birth_here = op->here;
        oracle_pair_join(&allocation->birth, &op->knows);
        oracle_pair_raise(&allocation->birth, op->here);
    } else if (past) {
        allocation->birth_here = oracle_past_event(past);
        oracle_pair_join(&allocation->birth, &past->knows);
    }
    oracle_unlock();
    return allocation;
}

void oracle_allocation_for_host(struct oracle_allocation *allocation)
{
    oracle_lock();
    if (allocation) {
        allocation->for_host = true;
        oracle_judge_handed_to_host(allocation);
    }
    oracle_unlock();
}

void oracle_forget(const struct oracle_range *range)
{
    if (range->bytes == 0)
        return;
    oracle_lock();
    oracle_lodgings_forget(range->address, oracle_range_end(range));
    oracle_shadow_forget(range->address, oracle_range_end(range));
    oracle_unlock();
}
