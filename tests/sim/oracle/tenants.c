/*
 * tenants.c - lives of memory: from where in the order each may be used, what must be in
 * order before its end, and what is really over when its bytes are handed out again.
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
 * Owns:  tenants; who lodges where.   Lock: the oracle's; reference counts are atomic.
 */
#include "oracle_state.h"

#include <string.h>

#include "oracle_callers.h"
#include "oracle_spans.h"

/* Bytes, who had them last, and who has them beneath that. */
struct lodging {
    struct oracle_span span;
    struct oracle_tenant *newest, *outer; /* with references; outer may be NULL */
};

struct oracle_tenant *oracle_tenants; /* the oracle's lock */

static struct oracle_tenant *idle_tenants; /* the oracle's lock */
static struct lodging *idle_lodgings;      /* the oracle's lock; by span.next */
static struct oracle_spans lodgings;       /* the oracle's lock */
static uint64_t tenant_count;              /* the oracle's lock */

/* ---- tenants ---------------------------------------------------------------------- */

void oracle_tenant_ref(struct oracle_tenant *tenant)
{
    if (tenant)
        atomic_fetch_add_explicit(&tenant->refs, 1, memory_order_relaxed);
}

static struct oracle_tenant *tenant_new(void)
{
    struct oracle_tenant *tenant = idle_tenants;

    if (tenant)
        idle_tenants = tenant->next;
    else
        tenant = oracle_allocate(NULL, sizeof(*tenant));
    if (!tenant) {
        oracle_lose();
        return NULL;
    }
    memset(tenant, 0, sizeof(*tenant));
    atomic_init(&tenant->refs, 1);
    tenant->number = ++tenant_count;
    tenant->next = oracle_tenants;
    if (tenant->next)
        tenant->next->prev = tenant;
    oracle_tenants = tenant;
    return tenant;
}

void oracle_tenant_drop(struct oracle_tenant *tenant)
{
    while (tenant &&
           atomic_fetch_sub_explicit(&tenant->refs, 1, memory_order_acq_rel) == 1) {
        struct oracle_tenant *outer = tenant->outer;

        oracle_pair_clear(&tenant->birth);
        oracle_pair_clear(&tenant->end);
        oracle_pair_clear(&tenant->end_host);
        oracle_clock_unref(tenant->free);
        if (tenant->next)
            tenant->next->prev = tenant->prev;
        if (tenant->prev)
            tenant->prev->next = tenant->next;
        else
            oracle_tenants = tenant->next;
        tenant->next = idle_tenants;
        idle_tenants = tenant;
        tenant = outer;
    }
}

void oracle_tenant_unref(struct oracle_tenant *tenant)
{
    if (!tenant)
        return;
    oracle_lock();
    oracle_tenant_drop(tenant);
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

static void add_lodging(uintptr_t start, uintptr_t end, struct oracle_tenant *newest,
                        struct oracle_tenant *outer)
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
    oracle_tenant_ref(newest);
    oracle_tenant_ref(outer);
    oracle_spans_insert(&lodgings, &lodging->span);
}

static void remove_lodging(struct lodging *lodging)
{
    oracle_spans_remove(&lodgings, &lodging->span);
    oracle_tenant_drop(lodging->newest);
    oracle_tenant_drop(lodging->outer);
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

/* Has the tenant any of these bytes? */
static bool reaches(const struct oracle_tenant *tenant, uintptr_t start, uintptr_t end)
{
    return start < oracle_range_end(&tenant->range) && end > tenant->range.address;
}

/* The next one around a tenant that has any of these bytes. One that spans several is
 * inside the first of them as far as it knows itself; the lodging knows better. */
static struct oracle_tenant *around(const struct lodging *lodging,
                                    const struct oracle_tenant *tenant, uintptr_t start,
                                    uintptr_t end)
{
    struct oracle_tenant *outer =
        tenant == lodging->newest ? lodging->outer : tenant->outer;

    while (outer && !reaches(outer, start, end))
        outer = outer->outer;
    return outer;
}

/* The innermost that lives at the address. */
static struct oracle_tenant *who_lives(const struct lodging *lodging, uintptr_t address)
{
    struct oracle_tenant *tenant = lodging->newest;

    while (tenant && tenant->ended)
        tenant = around(lodging, tenant, address, address + 1);
    return tenant;
}

struct oracle_tenant *oracle_tenant_find(uintptr_t address)
{
    oracle_lock();
    const struct lodging *lodging = lodging_from(address);
    struct oracle_tenant *tenant =
        lodging && lodging->span.start <= address ? who_lives(lodging, address) : NULL;
    oracle_tenant_ref(tenant);
    oracle_unlock();
    return tenant;
}

size_t oracle_tenant_bytes(const struct oracle_tenant *tenant)
{
    return tenant->range.bytes;
}

bool oracle_tenant_is_block(const struct oracle_tenant *tenant, uintptr_t address)
{
    return tenant->inner && tenant->range.address == address;
}

/* ---- ends ------------------------------------------------------------------------- */

static void end_tenant(struct oracle_tenant *tenant, const char *call,
                       struct oracle_past *past, const struct oracle_op *op)
{
    tenant->ended = true;
    tenant->over = ++oracle_now;
    tenant->end_call = call;
    tenant->end_here = (struct oracle_point){ORACLE_NO_SLOT, 0};
    if (past && !op)
        tenant->end_here = oracle_past_event(past);
    if (past)
        oracle_pair_set(&tenant->end_host, &past->knows);
    if (op) {
        tenant->end_here = op->here;
        oracle_pair_set(&tenant->end, &op->knows);
        oracle_pair_raise(&tenant->end, op->here);
    } else {
        oracle_pair_set(&tenant->end, &tenant->end_host);
    }
    oracle_clock_join(&tenant->free, tenant->birth.s);
    oracle_clock_join(&tenant->free, tenant->end_host.s);
}

void oracle_tenant_end(struct oracle_tenant *tenant, const char *call,
                       struct oracle_line *host, const struct oracle_op *op,
                       struct oracle_line *const *waited, size_t waited_count)
{
    uint32_t stack = oracle_callers_take();

    oracle_lock();
    struct oracle_past *past = oracle_past_of(host);
    if (!tenant || tenant->ended) {
        oracle_unknown();
        oracle_unlock();
        return;
    }
    for (size_t i = 0; past && i < waited_count; i++) {
        if (waited[i])
            oracle_past_ought(past, waited[i]);
    }
    end_tenant(tenant, call, past, op && op->submitted ? op : NULL);
    for (size_t i = 0; i < waited_count; i++) {
        if (waited[i]) {
            oracle_clock_join(&tenant->end.n, waited[i]->knows.n);
            oracle_clock_raise(&tenant->end.n, waited[i]->here);
        }
    }
    tenant->end_stack = stack;
    oracle_judge_end(tenant);
    oracle_unlock();
}

void oracle_tenant_retire(struct oracle_tenant *tenant, struct oracle_line *host,
                          const struct oracle_op *op)
{
    if (!tenant)
        return;
    oracle_lock();
    const struct oracle_past *past = oracle_past_of(host);
    tenant->retired = ++oracle_now;
    if (op && op->done) {
        oracle_clock_join(&tenant->free, op->knows.s);
        oracle_clock_raise(&tenant->free, op->here);
    } else if (op && tenant->retired > oracle_lost) {
        const struct oracle_mark proof = {.op = (struct oracle_op *)op};
        oracle_found(&(struct oracle_report){
            .kind = ORACLE_EARLY_RETIRE,
            .start = tenant->range.address,
            .end = oracle_range_end(&tenant->range),
            .first = &proof,
            .tenant = tenant,
        });
    } else if (!op && past) {
        oracle_clock_join(&tenant->free, past->knows.s);
    }
    oracle_unlock();
}

void oracle_tenant_gone(struct oracle_tenant *tenant)
{
    oracle_lock();
    if (tenant && tenant->ended) {
        tenant->gone = true;
        oracle_judge_gone(tenant);
    }
    oracle_unlock();
}

/* ---- beginnings ------------------------------------------------------------------- */

/* Go behind the end of one that had some of the bytes. */
static void follow(struct oracle_tenant *tenant, struct oracle_past *past,
                   const struct oracle_tenant *earlier)
{
    const struct oracle_point none = {ORACLE_NO_SLOT, 0};

    tenant->follows = true;
    oracle_clock_join(&tenant->birth.s, earlier->free);
    if (past && oracle_options.separate_hosts)
        oracle_past_learns(past, &earlier->end_host, none, true);
}

/* Its bytes are those of a block that its layer has not taken back. */
static void handed_twice(const struct oracle_tenant *tenant,
                         const struct oracle_tenant *earlier)
{
    oracle_found(&(struct oracle_report){
        .kind = ORACLE_HANDED_TWICE,
        .start = tenant->range.address,
        .end = oracle_range_end(&tenant->range),
        .tenant = tenant,
        .before = earlier,
    });
}

/*
 * Go behind all that had the bytes of a lodging.
 *
 * Out:  the one that lives on around the new one there, or NULL
 */
static struct oracle_tenant *follow_all(struct oracle_tenant *tenant,
                                        struct oracle_past *past,
                                        const struct lodging *lodging)
{
    struct oracle_tenant *earlier = lodging->newest;

    while (earlier) {
        if (!earlier->ended && tenant->inner) {
            if (earlier->inner)
                handed_twice(tenant, earlier);
            oracle_clock_join(&tenant->birth.s, earlier->birth.s);
            earlier->has_inner = true;
            return earlier;
        }
        if (!earlier->ended)
            end_tenant(earlier, tenant->call, past, NULL);
        follow(tenant, past, earlier);
        earlier = around(lodging, earlier, tenant->range.address,
                         oracle_range_end(&tenant->range));
    }
    return NULL;
}

/* Follow those that had the bytes, and move in. */
static void move_in(struct oracle_tenant *tenant, struct oracle_past *past)
{
    uintptr_t at = tenant->range.address, end = oracle_range_end(&tenant->range);
    uintptr_t from = at; /* pieces from here on have the same outer one */
    struct oracle_tenant *around = NULL;

    split_lodging(at);
    split_lodging(end);
    struct lodging *lodging = lodging_from(at);
    while (at < end) {
        struct oracle_tenant *outer = NULL;
        uintptr_t piece_end = end;
        if (lodging && lodging->span.start <= at) {
            struct lodging *next = next_lodging(lodging);
            piece_end = lodging->span.end;
            outer = follow_all(tenant, past, lodging);
            oracle_tenant_ref(outer);
            remove_lodging(lodging);
            lodging = next;
        } else if (lodging && lodging->span.start < end) {
            piece_end = lodging->span.start;
        }
        if (outer != around && at > from) {
            add_lodging(from, at, tenant, around);
            from = at;
        }
        if (!tenant->outer) {
            oracle_tenant_ref(outer);
            tenant->outer = outer;
        }
        oracle_tenant_drop(around);
        around = outer;
        at = piece_end;
    }
    add_lodging(from, end, tenant, around);
    oracle_tenant_drop(around);
}

struct oracle_tenant *oracle_tenant_begin(const struct oracle_range *range,
                                          const char *call, struct oracle_line *host,
                                          const struct oracle_op *op, bool inner)
{
    oracle_lock();
    struct oracle_past *past = oracle_past_of(host);
    struct oracle_tenant *tenant = tenant_new();
    if (!tenant) { /* let nobody take it for the one before */
        oracle_lodgings_forget(range->address, oracle_range_end(range));
        oracle_unlock();
        return NULL;
    }
    tenant->range = *range;
    tenant->call = call;
    tenant->inner = inner;
    tenant->born = ++oracle_now;
    tenant->birth_here.slot = ORACLE_NO_SLOT;
    if (range->bytes > 0)
        move_in(tenant, past);
    if (op && op->submitted) {
        tenant->birth_in_stream = true;
        tenant->birth_here = op->here;
        oracle_pair_join(&tenant->birth, &op->knows);
        oracle_pair_raise(&tenant->birth, op->here);
    } else if (past) {
        tenant->birth_here = oracle_past_event(past);
        oracle_pair_join(&tenant->birth, &past->knows);
    }
    oracle_unlock();
    return tenant;
}

void oracle_tenant_for_host(struct oracle_tenant *tenant)
{
    oracle_lock();
    if (tenant) {
        tenant->for_host = true;
        oracle_judge_handed_to_host(tenant);
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
