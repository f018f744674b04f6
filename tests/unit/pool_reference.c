/*
 * pool_reference.c - the pool's policy by exhaustive search. See pool_reference.h.
 */
#include "pool_reference.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "pool/bins.h"

#define ALIGNED (64 * GS_KIB)
#define PAGE    ((size_t)GS_PAGE_UNITS * GS_BLOCK_BYTES)

void ref_init(struct reference *ref, size_t capacity, size_t segment_bytes, bool native)
{
    memset(ref, 0, sizeof(*ref));
    fake_init(&ref->device, capacity);
    ref->segment_bytes = segment_bytes;
    ref->native = native;
}

void ref_fini(struct reference *ref)
{
    for (size_t i = 0; i < ref->count; i++)
        free(ref->segments[i].blocks);
    free(ref->segments);
    fake_fini(&ref->device);
}

/* Make room for one more item of an array. */
static void *grown(void *items, size_t count, size_t *room, size_t item_bytes)
{
    if (count < *room)
        return items;
    *room = *room ? 2 * *room : 16;
    items = realloc(items, *room * item_bytes);
    cr_assert_not_null(items);
    return items;
}

static void insert_block(struct ref_segment *segment, size_t at, struct ref_block block)
{
    segment->blocks =
        grown(segment->blocks, segment->count, &segment->room, sizeof(block));
    memmove(&segment->blocks[at + 1], &segment->blocks[at],
            (segment->count - at) * sizeof(block));
    segment->blocks[at] = block;
    segment->count++;
}

static void remove_block(struct ref_segment *segment, size_t at)
{
    segment->count--;
    memmove(&segment->blocks[at], &segment->blocks[at + 1],
            (segment->count - at) * sizeof(*segment->blocks));
}

static size_t reserved(const struct reference *ref)
{
    size_t bytes = 0;

    for (size_t i = 0; i < ref->count; i++)
        bytes += ref->segments[i].bytes;
    return bytes;
}

/* Bytes of all fit tolerance, and of all that is idle. */
static size_t tolerance(const struct reference *ref)
{
    size_t bytes = 0;

    for (size_t i = 0; i < ref->count; i++)
        bytes += ref->segments[i].tolerance;
    return bytes;
}

static size_t idle(const struct reference *ref)
{
    size_t bytes = 0;

    for (size_t i = 0; i < ref->count; i++)
        bytes += ref->segments[i].idle_since ? ref->segments[i].bytes : 0;
    return bytes;
}

/* What the device has refused once, it is not asked for again soon. */
static size_t missing(struct reference *ref, size_t ask)
{
    size_t sum = reserved(ref) + ask;

    if (ref->native || !ref->refused || sum < ref->refused || sum <= ref->known)
        return 0;
    if (++ref->spared < 64)
        return sum - ref->known;
    ref->refused = 0;
    return 0;
}

static size_t missing_after_refusal(struct reference *ref, size_t ask)
{
    ref->refused = reserved(ref) + ask;
    ref->spared = 0;
    if (ref->known >= ref->refused)
        ref->known = reserved(ref);
    return missing(ref, ask);
}

static struct ref_segment *map_segment(struct reference *ref, size_t bytes, bool shared,
                                       bool single)
{
    struct ref_segment segment = {.bytes = bytes, .shared = shared, .single = single};
    int native;

    if (fake_map(&ref->device, bytes, &segment.addr, &native) != GS_OK)
        return NULL;
    insert_block(&segment, 0, (struct ref_block){.bytes = bytes});
    ref->segments = grown(ref->segments, ref->count, &ref->room, sizeof(segment));
    ref->segments[ref->count++] = segment;
    if (ref->known < reserved(ref))
        ref->known = reserved(ref);
    if (ref->known >= ref->refused)
        ref->refused = 0;
    return &ref->segments[ref->count - 1];
}

static void unmap_segment(struct reference *ref, struct ref_segment *segment)
{
    fake_unmap(&ref->device, segment->addr, segment->bytes);
    free(segment->blocks);
    ref->count--;
    memmove(segment, segment + 1,
            (size_t)(&ref->segments[ref->count] - segment) * sizeof(*segment));
}

/* What makes one hole better than another for a small request; less is better. */
struct rank {
    size_t order[5];
    bool fits;
};

/* Does a request of so much start at a page? */
static bool is_aligned(size_t want)
{
    return want >= ALIGNED && want % PAGE == 0;
}

static struct rank rank_hole(const struct reference *ref,
                             const struct ref_segment *segment,
                             const struct ref_block *hole, size_t want)
{
    size_t start = gs_round_up(hole->offset, PAGE), end = hole->offset + hole->bytes;
    size_t capacity = end > start ? end - start : 0;
    bool loose = capacity < ALIGNED;
    struct rank rank = {
        {0}, is_aligned(want) && !ref->anywhere ? capacity >= want : hole->bytes >= want};

    rank.order[4] = segment->addr + hole->offset;
    if (ref->native)
        return rank;
    rank.order[0] = !loose;
    rank.order[1] =
        loose ? hole->bytes : (capacity > GS_LARGE_BYTES ? GS_LARGE_BYTES : capacity);
    rank.order[2] = hole->bytes == segment->bytes;
    rank.order[3] = hole->bytes;
    return rank;
}

static bool is_better(const struct rank *a, const struct rank *b)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(a->order); i++)
        if (a->order[i] != b->order[i])
            return a->order[i] < b->order[i];
    return false;
}

static uint64_t carve(struct ref_segment *segment, size_t at, size_t want)
{
    struct ref_block *hole = &segment->blocks[at];
    size_t start = hole->offset, end = hole->offset + hole->bytes, head, tail;

    if (is_aligned(want) && start % PAGE)
        start = end % PAGE ? gs_round_up(start, PAGE) : end - want;
    if (start + want > end) /* wherever there is room */
        start = hole->offset;
    head = start - hole->offset;
    tail = end - start - want;

    *hole = (struct ref_block){start, want, REF_LIVE, 0};
    if (tail)
        insert_block(segment, at + 1,
                     (struct ref_block){start + want, tail, REF_FREE, 0});
    if (head)
        insert_block(segment, at, (struct ref_block){start - head, head, REF_FREE, 0});
    segment->idle_since = 0;
    return segment->addr + start;
}

static uint64_t try_small(struct reference *ref, size_t want)
{
    struct ref_segment *found = NULL;
    struct rank best = {{0}, false};
    size_t at = 0;

    for (size_t i = 0; i < ref->count; i++) {
        struct ref_segment *segment = &ref->segments[i];

        for (size_t j = 0; segment->shared && j < segment->count; j++) {
            struct rank rank;

            if (segment->blocks[j].state != REF_FREE)
                continue;
            rank = rank_hole(ref, segment, &segment->blocks[j], want);
            if (!rank.fits || (found && !is_better(&rank, &best)))
                continue;
            best = rank;
            found = segment;
            at = j;
        }
    }
    return found ? carve(found, at, want) : 0;
}

static uint64_t take_whole(struct ref_segment *segment, size_t want)
{
    segment->tolerance = segment->bytes > want ? segment->bytes - want : 0;
    segment->blocks[0].state = REF_LIVE;
    segment->idle_since = 0;
    return segment->addr;
}

/* May a segment be so much larger than its allocation? */
static bool is_close(const struct reference *ref, size_t want, size_t more, size_t share)
{
    size_t kept = ref->peak + ref->refused / 8 / (2000 + ref->calm) * 2000;
    size_t margin = ref->refused > kept ? (ref->refused - kept) / 8 : 0;

    if (more == 0)
        return true;
    if (more > want / share)
        return false;
    if (!ref->refused)
        return share == 8;
    margin = margin > ref->refused / 512 ? margin : ref->refused / 512;
    return tolerance(ref) + more <= margin;
}

static uint64_t try_large(struct reference *ref, size_t want, size_t share)
{
    struct ref_segment *best = NULL;

    for (size_t i = 0; i < ref->count; i++) {
        struct ref_segment *segment = &ref->segments[i];

        if (segment->shared || segment->blocks[0].state != REF_FREE ||
            segment->bytes < want)
            continue;
        if (!best || segment->bytes < best->bytes ||
            (segment->bytes == best->bytes && segment->addr < best->addr))
            best = segment;
    }
    if (!best || !is_close(ref, want, best->bytes - want, share))
        return 0;
    return take_whole(best, want);
}

static size_t preferred(const struct reference *ref)
{
    size_t used = 0;

    for (size_t i = 0; i < ref->count; i++)
        for (size_t j = 0; ref->segments[i].shared && j < ref->segments[i].count; j++)
            if (ref->segments[i].blocks[j].state != REF_FREE)
                used += ref->segments[i].blocks[j].bytes;
    used = gs_round_up(used / 16, GS_LARGE_BYTES);
    if (used < GS_LARGE_BYTES || ref->native)
        return GS_LARGE_BYTES;
    return used > ref->segment_bytes ? ref->segment_bytes : used;
}

/* From what is there, or 0. `share`: of the request, how much too large a segment may be.
 */
static uint64_t try_all(struct reference *ref, size_t want, size_t share)
{
    return ref->large ? try_large(ref, want, share) : try_small(ref, want);
}

/* A new segment's first allocation; NULL: 0. */
static uint64_t move_in(struct ref_segment *segment, size_t want)
{
    if (!segment)
        return 0;
    return segment->shared ? carve(segment, 0, want) : take_whole(segment, want);
}

static uint64_t alloc_rounded(struct reference *ref, size_t bytes, size_t want)
{
    size_t ask = ref->large ? want : preferred(ref), least, given;
    uint64_t addr = try_all(ref, want, 8);

    if (addr)
        return addr;
    least = missing(ref, ask);
    if (least) {
        addr = try_all(ref, want, 2);
        if (!addr && ref_trim(ref, least))
            addr = try_all(ref, want, 8);
        if (addr)
            return addr;
    }
    given = 1;
    for (size_t round = 0; given && !addr; round++) {
        addr = move_in(map_segment(ref, ask, !ref->large, false), want);
        if (addr || ref->native)
            return addr;
        least = missing_after_refusal(ref, ask);
        given = ref_trim(ref, round < 2 ? least : SIZE_MAX);
        if (given)
            addr = try_all(ref, want, 8);
    }
    if (!addr && !ref->large && ask > GS_LARGE_BYTES)
        addr = move_in(map_segment(ref, GS_LARGE_BYTES, true, false), want);
    if (!addr)
        addr = move_in(map_segment(ref, bytes, false, true), want);
    if (!addr && !ref->large) {
        ref->anywhere = true;
        addr = try_small(ref, want);
        ref->anywhere = false;
    }
    return addr;
}

uint64_t ref_alloc(struct reference *ref, size_t bytes)
{
    uint64_t addr;
    size_t needed, before = reserved(ref) - idle(ref);

    ref->large = bytes >= GS_LARGE_BYTES;
    addr = alloc_rounded(
        ref, bytes, gs_round_up(bytes, ref->large ? GS_LARGE_BYTES : GS_BLOCK_BYTES));
    needed = reserved(ref) - idle(ref) - tolerance(ref);
    if (addr && reserved(ref) - idle(ref) > before) /* one more segment is in use */
        ref->calm++;
    if (addr && needed > ref->peak) {
        ref->peak = needed;
        ref->calm = 0;
    }
    return addr;
}

/* Merge free neighbours; an empty segment rests, or goes back. May move segments. */
static void settle(struct reference *ref, struct ref_segment *segment)
{
    for (size_t j = 0; j + 1 < segment->count;) {
        struct ref_block *block = &segment->blocks[j];

        if (block[0].state != REF_FREE || block[1].state != REF_FREE) {
            j++;
            continue;
        }
        block[0].bytes += block[1].bytes;
        remove_block(segment, j + 1);
    }
    if (segment->count > 1 || segment->blocks[0].state != REF_FREE)
        return;
    segment->tolerance = 0;
    if (segment->single || ref->native)
        unmap_segment(ref, segment);
    else if (!segment->idle_since)
        segment->idle_since = ++ref->idle_turns;
}

static struct ref_block *find_live(struct reference *ref, uint64_t addr,
                                   struct ref_segment **segment)
{
    for (size_t i = 0; i < ref->count; i++) {
        *segment = &ref->segments[i];
        if (addr < (*segment)->addr || addr - (*segment)->addr >= (*segment)->bytes)
            continue;
        for (size_t j = 0; j < (*segment)->count; j++) {
            struct ref_block *block = &(*segment)->blocks[j];

            if ((*segment)->addr + block->offset == addr && block->state == REF_LIVE)
                return block;
        }
    }
    cr_assert_fail("the reference knows no such block");
    return NULL;
}

void ref_free(struct reference *ref, uint64_t addr)
{
    struct ref_segment *segment;

    find_live(ref, addr, &segment)->state = REF_FREE;
    settle(ref, segment);
}

void ref_free_later(struct reference *ref, uint64_t addr)
{
    struct ref_segment *segment;
    struct ref_block *block = find_live(ref, addr, &segment);

    block->state = REF_PENDING;
    block->parked = ++ref->clock;
}

void ref_retire(struct reference *ref)
{
    for (;;) {
        struct ref_segment *segment = NULL;
        struct ref_block *oldest = NULL;

        for (size_t i = 0; i < ref->count; i++)
            for (size_t j = 0; j < ref->segments[i].count; j++) {
                struct ref_block *block = &ref->segments[i].blocks[j];

                if (block->state != REF_PENDING ||
                    (oldest && oldest->parked < block->parked))
                    continue;
                oldest = block;
                segment = &ref->segments[i];
            }
        if (!oldest)
            return;
        oldest->state = REF_FREE;
        settle(ref, segment);
    }
}

/* How little an idle segment is missed: idle ones of its size, its size (eight times what
 * is missing at most), the binary digits of its age. */
static uint64_t dispensable(const struct reference *ref,
                            const struct ref_segment *segment, size_t bytes)
{
    uint64_t same = 0, digits = 0, pages = segment->bytes / GS_LARGE_BYTES;
    uint64_t useful = 8 * (gs_round_up(bytes, GS_LARGE_BYTES) / GS_LARGE_BYTES);

    for (size_t i = 0; i < ref->count; i++)
        same += ref->segments[i].idle_since && ref->segments[i].bytes == segment->bytes &&
                ref->segments[i].shared == segment->shared;
    for (uint64_t age = ref->idle_turns - segment->idle_since + 1; age; age /= 2)
        digits++;
    return same * (pages < useful ? pages : useful) * digits;
}

/* Of equal ones the one that was idle longer. */
static bool goes_before(const struct reference *ref, const struct ref_segment *a,
                        const struct ref_segment *b, size_t bytes)
{
    uint64_t of_a = dispensable(ref, a, bytes), of_b = dispensable(ref, b, bytes);

    return of_a == of_b ? a->idle_since < b->idle_since : of_a > of_b;
}

size_t ref_trim(struct reference *ref, size_t bytes)
{
    size_t given = 0;

    while (given < bytes) {
        size_t parts[2] = {0}, before = given;
        bool shared;

        for (size_t i = 0; i < ref->count; i++)
            if (ref->segments[i].idle_since)
                parts[ref->segments[i].shared] += ref->segments[i].bytes;
        shared = parts[1] > parts[0];
        /* All that is needed of the larger part, then look again. */
        while (given < bytes) {
            struct ref_segment *best = NULL;

            for (size_t i = 0; i < ref->count; i++) {
                struct ref_segment *segment = &ref->segments[i];

                if (segment->idle_since && segment->shared == shared &&
                    (!best || goes_before(ref, segment, best, bytes - given)))
                    best = segment;
            }
            if (!best)
                break;
            given += best->bytes;
            unmap_segment(ref, best);
        }
        if (given == before)
            break;
    }
    return given;
}

void ref_held(const struct reference *ref, size_t *large, size_t *shared)
{
    *large = *shared = 0;
    for (size_t i = 0; i < ref->count; i++) {
        const struct ref_segment *segment = &ref->segments[i];
        bool used = segment->count > 1 || segment->blocks[0].state != REF_FREE;

        if (used && segment->shared)
            *shared += segment->bytes;
        else if (used)
            *large += segment->bytes;
    }
}
