/*
 * oracle_random.c - proves the oracle against the plain rules of oracle_reference.c:
 * random histories are told to both, and each step must find the same pairs, of a kind
 * that is right for them. What the oracle has let go because a later access stands for it
 * must be found through that one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle_helpers.h"
#include "oracle_reference.h"
#include "oracle_state.h"

#define UNIT_BYTES 64
#define STEPS      300

static struct {
    uint64_t seed, random;
    bool separate;
    bool cleans; /* drops now and then what all are behind */
    bool hosts_write;
    unsigned in_turn; /* of ten, how often the oldest of a stream runs first */

    struct oracle_line *hosts[REF_HOSTS], *streams[REF_STREAMS];
    int host_count, stream_count;
    bool host_gone[REF_HOSTS], stream_gone[REF_STREAMS];

    struct oracle_op *ops[REF_OPS];
    uint64_t heard[REF_OPS];
    int op_count;
    int stream_of[REF_OPS];
    bool own[REF_OPS], ran[REF_OPS];
    struct ref_access accesses[REF_OPS][2];
    int access_count[REF_OPS];

    struct oracle_allocation *allocations[REF_ALLOCATIONS];
    int allocation_count;
} h;

static struct ref_finding found[4096];
static int found_count;
static unsigned long long pairs_found, steps_told; /* of all histories */

/* ---- chance ----------------------------------------------------------------------- */

static unsigned any(unsigned below)
{
    h.random = h.random * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)((h.random >> 33) % below);
}

static bool chance(unsigned percent)
{
    return any(100) < percent;
}

static int any_host(void)
{
    int host;

    do
        host = (int)any((unsigned)h.host_count);
    while (h.host_gone[host]);
    return host;
}

static int any_stream(void)
{
    int stream;

    do
        stream = (int)any((unsigned)h.stream_count);
    while (h.stream_gone[stream]);
    return stream;
}

static int any_op(void)
{
    int op;

    if (h.op_count == 0)
        return REF_NONE;
    op = h.op_count - 1 - (int)any((unsigned)(h.op_count < 24 ? h.op_count : 24));
    return h.ops[op] ? op : REF_NONE; /* not an access of the host */
}

/* A point in a stream where a life may begin or end. What is dropped is chosen on the
 * ground that such a point is told of before it is done. */
static int any_point(void)
{
    int op = chance(40) ? any_op() : REF_NONE;

    return op != REF_NONE && h.cleans && h.ran[op] ? REF_NONE : op;
}

/* ---- what the oracle finds -------------------------------------------------------- */

static int number_of_op(const struct oracle_mark *mark)
{
    if (!mark)
        return REF_NONE;
    for (int i = h.op_count; i >= 0; i--) { /* one more: the access being made */
        if (h.heard[i] == mark->op->heard)
            return i;
    }
    cr_assert_fail("an operation that was never told of");
    return REF_NONE;
}

static int number_of_allocation(const struct oracle_allocation *allocation)
{
    for (int i = h.allocation_count - 1; i >= 0; i--) {
        if (h.allocations[i] == allocation)
            return i;
    }
    cr_assert_fail("a allocation that was never told of");
    return REF_NONE;
}

static void note_finding(const struct oracle_report *report)
{
    bool twice = report->kind == ORACLE_HANDED_TWICE;
    bool life = report->begins || report->ends || report->kind == ORACLE_EARLY_RETIRE;
    int allocation = life ? number_of_allocation(report->allocation) : REF_NONE;

    cr_assert_lt(found_count, (int)GS_ARRAY_LEN(found));
    found[found_count++] = (struct ref_finding){
        .kinds = 1u << report->kind,
        .first =
            twice ? number_of_allocation(report->before) : number_of_op(report->first),
        .second = number_of_op(report->second),
        .allocation = twice ? h.allocation_count : allocation, /* the one that begins */
    };
}

static const struct ref_finding *among(const struct ref_finding *all, int count,
                                       const struct ref_finding *one)
{
    for (int i = 0; i < count; i++) {
        if (all[i].first == one->first && all[i].second == one->second &&
            all[i].allocation == one->allocation)
            return &all[i];
    }
    return NULL;
}

/* May the oracle have missed it, and be right? What was dropped is not found any more by
 * a use beside its beginning, or by a late one that is behind a user of its memory after
 * it, which no program can be. */
static bool may_miss(const struct ref_finding *wanted)
{
    if (!h.cleans || wanted->first == REF_NONE || wanted->second == REF_NONE)
        return false;
    return h.separate || ref_step.beside_beginning ||
           ref_is_behind(wanted->second, wanted->first);
}

static void compare(const char *step)
{
    bool second_found = false;

    steps_told++;
    for (int i = 0; i < found_count; i++) {
        const struct ref_finding *right =
            among(ref_step.findings, ref_step.count, &found[i]);
        cr_assert(
            right && (right->kinds & found[i].kinds),
            "history %ju: %s found kinds %x of %d and %d, allocation %d; right is %x",
            (uintmax_t)h.seed, step, found[i].kinds, found[i].first, found[i].second,
            found[i].allocation, right ? right->kinds : 0);
        second_found |= found[i].second == ref_step.hidden;
        pairs_found++;
    }
    for (int i = 0; i < ref_step.count; i++) {
        const struct ref_finding *wanted = &ref_step.findings[i];
        cr_assert(among(found, found_count, wanted) || may_miss(wanted),
                  "history %ju: %s missed kinds %x of %d and %d, allocation %d",
                  (uintmax_t)h.seed, step, wanted->kinds, wanted->first, wanted->second,
                  wanted->allocation);
    }
    if (ref_step.hidden != REF_NONE && !h.cleans)
        cr_assert(second_found, "history %ju: %s found nothing for %d", (uintmax_t)h.seed,
                  step, ref_step.hidden);
    found_count = 0;
}

/* ---- steps ------------------------------------------------------------------------ */

static void new_stream(void)
{
    int host = any_host();

    if (h.stream_count == REF_STREAMS)
        return;
    h.streams[h.stream_count] =
        oracle_line_new(ORACLE_STREAM, (uint64_t)h.stream_count, h.hosts[host]);
    h.stream_count++;
    ref_stream_new(host);
}

static void end_stream(void)
{
    int stream = any_stream(), live = 0;

    for (int i = 0; i < h.stream_count; i++)
        live += !h.stream_gone[i];
    if (live < 2)
        return;
    oracle_line_end(h.streams[stream]);
    h.stream_gone[stream] = true;
}

static void change_hosts(void)
{
    int host = any_host(), live = 0, creator = chance(50) ? host : REF_NONE;

    for (int i = 0; i < h.host_count; i++)
        live += !h.host_gone[i];
    if (chance(50) && live > 1 && host > 0) {
        oracle_line_end(h.hosts[host]);
        ref_host_end(host);
        h.host_gone[host] = true;
    } else if (h.host_count < REF_HOSTS && live < 4) {
        h.hosts[h.host_count] =
            oracle_line_new(ORACLE_HOST, 1000u + (unsigned)h.host_count,
                            creator == REF_NONE ? NULL : h.hosts[creator]);
        h.host_count++;
        ref_host_new(creator);
    }
}

static struct ref_access any_access(void)
{
    struct ref_access access = {.from = (int)any(REF_UNITS)};

    access.to = access.from + 1 + (int)any((unsigned)(REF_UNITS - access.from));
    if (chance(50))
        access.to = access.from + 1;
    access.writes = chance(50);
    access.atomic = chance(20);
    access.awaits = !access.writes && chance(20);
    access.single = access.writes && chance(25);
    access.allocation = ref_allocation_find(access.from);
    /* A program does not reach from a segment into a block: whose the bytes were is not
     * known any more when such an access runs after they were handed on. */
    for (int i = access.from; i < access.to; i++) {
        int there = ref_allocation_find(i);
        if (there != access.allocation && there != REF_NONE &&
            access.allocation != REF_NONE &&
            oracle_allocation_inside(h.allocations[there],
                                     h.allocations[access.allocation]))
            access.to = i;
    }
    return access;
}

/* An access as the oracle is told of it; the allocation is the one found at submission.
 */
static struct oracle_access told(const struct ref_access *access)
{
    return (struct oracle_access){
        .range = {MEMORY + (uintptr_t)access->from * UNIT_BYTES,
                  (size_t)(access->to - access->from) * UNIT_BYTES},
        .allocation =
            access->allocation == REF_NONE ? NULL : h.allocations[access->allocation],
        .writes = access->writes,
        .atomic = access->atomic,
        .awaits = access->awaits,
        .single = access->single,
    };
}

static int submit(void)
{
    static const enum oracle_overlap overlaps[] = {ORACLE_OVERLAPS,
                                                   ORACLE_OVERLAPS_WAITS};
    int host = any_host(), stream = any_stream(), afters[2], lines[1];
    int after_count = 0, line_count = 0, number = h.op_count;
    struct oracle_work work = {.call = "op",
                               .host = h.hosts[host],
                               .stream = h.streams[stream],
                               .own = chance(15)};

    h.ops[number] = oracle_op_new();
    if (chance(25))
        work.overlap = overlaps[any(2)];
    while (after_count < 2 && chance(30)) {
        int after = any_op();
        if (after == REF_NONE || after == number)
            continue;
        oracle_op_after(h.ops[number], h.ops[after]);
        afters[after_count++] = after;
    }
    if (chance(8)) {
        lines[line_count++] = any_stream();
        oracle_op_after_line(h.ops[number], h.streams[lines[0]]);
    }
    oracle_op_submit(h.ops[number], &work);
    h.heard[number] = h.ops[number]->heard;
    h.stream_of[number] = stream;
    h.own[number] = work.own;
    h.ran[number] = false;
    h.op_count++;
    h.access_count[number] = (int)any(3);
    for (int i = 0; i < h.access_count[number]; i++) {
        h.accesses[number][i] = any_access();
        struct oracle_allocation *seen = oracle_allocation_find(
            MEMORY + (uintptr_t)h.accesses[number][i].from * UNIT_BYTES);
        cr_assert_eq(seen, told(&h.accesses[number][i]).allocation);
        oracle_allocation_unref(seen);
    }
    cr_assert_eq(number, ref_submit(host, stream, work.overlap, work.own, afters,
                                    after_count, lines, line_count));
    return number;
}

/* One that has not run: the oldest of some stream, or just any. */
static int waiting_op(void)
{
    int op = REF_NONE, seen = 0, stream = any_stream();
    bool in_turn = any(10) < h.in_turn;

    for (int i = 0; i < h.op_count; i++) {
        if (!h.ops[i] || h.ran[i] || (in_turn && h.stream_of[i] != stream))
            continue;
        if (in_turn)
            return i;
        if (any((unsigned)++seen) == 0)
            op = i;
    }
    return op;
}

static void run_one(void)
{
    struct oracle_access accesses[2];
    int op = waiting_op();

    if (op == REF_NONE)
        return;
    if (chance(15)) {
        int unit = (int)any(REF_UNITS);
        bool host_may = h.hosts_write && chance(30);
        oracle_op_saw(h.ops[op], MEMORY + (uintptr_t)unit * UNIT_BYTES, UNIT_BYTES,
                      host_may);
        ref_saw_memory(op, unit, host_may);
    }
    if (chance(5)) {
        oracle_host_function(h.ops[op]);
        ref_host_function(op);
    }
    for (int i = 0; i < h.access_count[op]; i++)
        accesses[i] = told(&h.accesses[op][i]);
    oracle_op_runs(h.ops[op], accesses, (size_t)h.access_count[op]);
    ref_run(op, h.accesses[op], h.access_count[op]);
    compare("a run");
    h.ran[op] = true;
    oracle_op_done(h.ops[op]);
    ref_done(op);
}

static void see(void)
{
    int host = any_host(), op = any_op();
    bool own = chance(35), asked = chance(30);

    if (chance(15)) {
        int stream = any_stream();
        oracle_host_saw_line(h.hosts[host], h.streams[stream], own, asked);
        ref_host_saw_stream(host, stream, own, asked);
    } else if (h.hosts_write && chance(10)) {
        int unit = (int)any(REF_UNITS);
        struct oracle_op *writers = oracle_op_new();
        oracle_op_saw(writers, MEMORY + (uintptr_t)unit * UNIT_BYTES, UNIT_BYTES, false);
        oracle_host_saw(h.hosts[host], writers, false, false);
        oracle_op_unref(writers);
        ref_host_saw_memory(host, unit);
    } else if (op != REF_NONE) {
        oracle_host_saw(h.hosts[host], h.ops[op], own, asked);
        ref_host_saw(host, op, own, asked);
    }
}

static void host_access(void)
{
    int host = any_host();
    const struct ref_access access = any_access();
    const struct oracle_access same = told(&access);

    h.ops[h.op_count] = NULL;
    h.heard[h.op_count] = oracle_now + 1;
    oracle_host_access(h.hosts[host], &same);
    cr_assert_eq(ref_host_access(host, &access), h.op_count);
    compare("a host's access");
    h.op_count++;
}

static void give_some(void)
{
    int host = any_host(), from = (int)any(REF_UNITS);
    int to = from + 1 + (int)any((unsigned)(REF_UNITS - from));
    bool inner = chance(60);
    int op = any_point();
    const struct oracle_range range = {MEMORY + (uintptr_t)from * UNIT_BYTES,
                                       (size_t)(to - from) * UNIT_BYTES};

    if (h.allocation_count == REF_ALLOCATIONS)
        return;
    h.allocations[h.allocation_count] = oracle_allocation_begin(
        &range, "give", h.hosts[host], op == REF_NONE ? NULL : h.ops[op], inner);
    h.allocation_count++;
    ref_allocation_begin(host, op, from, to, inner);
    compare("a beginning");
}

static void take_one(void)
{
    int host = any_host(), allocation = ref_allocation_find((int)any(REF_UNITS)),
        waited[3];
    int op = any_point(), count = 0;
    struct oracle_line *lines[3];

    if (allocation == REF_NONE)
        return;
    while (count < 3 && chance(60)) {
        waited[count] = any_stream();
        lines[count] = h.streams[waited[count]];
        count++;
    }
    oracle_allocation_end(h.allocations[allocation], "take", h.hosts[host],
                          op == REF_NONE ? NULL : h.ops[op], lines, (size_t)count);
    ref_allocation_end(allocation, host, op, waited, count);
    compare("an end");
}

static void retire_one(void)
{
    int host = any_host(), op = chance(60) ? any_op() : REF_NONE, allocation;

    if (h.allocation_count == 0)
        return;
    allocation = h.allocation_count - 1 -
                 (int)any((unsigned)(h.allocation_count < 8 ? h.allocation_count : 8));
    oracle_allocation_retire(h.allocations[allocation], h.hosts[host],
                             op == REF_NONE ? NULL : h.ops[op]);
    ref_allocation_retire(allocation, host, op);
    compare("a retirement");
}

/* ---- histories -------------------------------------------------------------------- */

static void step(void)
{
    unsigned what = any(100);

    if (h.cleans && chance(10))
        oracle_shadow_clean();
    if (what < 30 && h.op_count < REF_OPS - 1)
        submit();
    else if (what < 60)
        run_one();
    else if (what < 72)
        see();
    else if (what < 78)
        give_some();
    else if (what < 84)
        take_one();
    else if (what < 90)
        retire_one();
    else if (what < 93 && h.hosts_write && h.op_count < REF_OPS - 1)
        host_access();
    else if (what < 96)
        new_stream();
    else if (what < 98)
        end_stream();
    else
        change_hosts();
}

/* Let go of all, so that the next history starts with nothing in memory. */
static void forget_all(void)
{
    const struct oracle_range all = {MEMORY, REF_UNITS * UNIT_BYTES};

    for (int i = 0; i < h.op_count; i++)
        oracle_op_unref(h.ops[i]);
    for (int i = 0; i < h.allocation_count; i++)
        oracle_allocation_unref(h.allocations[i]);
    for (int i = 0; i < h.stream_count; i++) {
        if (!h.stream_gone[i])
            oracle_line_end(h.streams[i]);
    }
    for (int i = 1; i < h.host_count; i++) {
        if (!h.host_gone[i])
            oracle_line_end(h.hosts[i]);
    }
    oracle_forget(&all);
    cr_assert_eq(oracle_shadow_marks(), 0);
}

static void history(uint64_t seed, bool separate)
{
    struct oracle_line *first = host();

    memset(&h, 0, sizeof(h));
    h.seed = h.random = seed;
    h.separate = separate;
    h.cleans = chance(30);
    h.hosts_write = !h.cleans;
    h.in_turn = chance(50) ? 10 : any(11);
    h.hosts[0] = first;
    h.host_count = 1;
    ref_begin(separate);
    for (int i = 0; i < 3; i++)
        new_stream();
    for (int i = 0; i < STEPS; i++)
        step();
    for (int i = 0; i < REF_OPS; i++)
        run_one();
    forget_all();
}

static void histories(bool separate, uint64_t first, unsigned count)
{
    const char *seed = getenv("ORACLE_HISTORY"), *more = getenv("ORACLE_HISTORIES");

    oracle_on_finding = note_finding;
    if (separate)
        begin_with((struct oracle_options){.separate_hosts = true});
    else
        begin_with((struct oracle_options){.seed = 1});
    if (seed) {
        first = strtoull(seed, NULL, 10);
        count = 1;
    } else if (more) {
        count = (unsigned)strtoul(more, NULL, 10);
    }
    for (unsigned i = 0; i < count; i++) {
        fflush(stderr);
        history(first + i, separate);
    }
    fprintf(stderr, "%u histories, %llu steps, %llu pairs found\n", count, steps_told,
            pairs_found);
    cr_assert(pairs_found > count, "histories that say nothing");
}

Test(oracle_random, agrees_with_plain_rules)
{
    histories(false, 1, 1000);
}

Test(oracle_random, agrees_with_plain_rules_for_separate_hosts)
{
    histories(true, 1000001, 1000);
}
