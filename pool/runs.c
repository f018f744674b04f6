/*
 * runs.c - see runs.h.
 * Owns: nothing; the trees are the heap's, the nodes those of each run's first segment.
 * Lock: heap->lock.   Design: docs/pool.md, "Pages that move"
 */
#include "pool/runs.h"

static struct gs_segment *of_addr(struct gs_sorted_node *node)
{
    return node ? GS_LINK_OWNER(node, struct gs_segment, run.of_addr) : NULL;
}

static struct gs_segment *of_size(struct gs_sorted_node *node)
{
    return node ? GS_LINK_OWNER(node, struct gs_segment, run.of_size) : NULL;
}

static struct gs_sorted_key key_of_addr(const struct gs_sorted_node *node)
{
    const struct gs_segment *first =
        GS_LINK_OWNER((uintptr_t)node, struct gs_segment, run.of_addr);

    return (struct gs_sorted_key){first->addr, 0};
}

static struct gs_sorted_key key_of_size(const struct gs_sorted_node *node)
{
    const struct gs_segment *first =
        GS_LINK_OWNER((uintptr_t)node, struct gs_segment, run.of_size);

    return (struct gs_sorted_key){first->run.bytes, first->addr};
}

void gs_runs_init(struct gs_heap *heap)
{
    heap->runs_by_addr.key_of = key_of_addr;
    heap->runs_by_size.key_of = key_of_size;
}

/* The last run that begins below an address; the first that begins there or above. */
static struct gs_segment *run_below(const struct gs_heap *heap, uint64_t addr)
{
    return of_addr(gs_sorted_below(&heap->runs_by_addr, (struct gs_sorted_key){addr, 0}));
}

static struct gs_segment *run_from(const struct gs_heap *heap, uint64_t addr)
{
    return of_addr(gs_sorted_from(&heap->runs_by_addr, (struct gs_sorted_key){addr, 0}));
}

/* The first run of this size, not below this address, or of a larger size. */
static struct gs_segment *sized_from(const struct gs_heap *heap, size_t bytes,
                                     uint64_t addr)
{
    return of_size(
        gs_sorted_from(&heap->runs_by_size, (struct gs_sorted_key){bytes, addr}));
}

static uint64_t end_of(const struct gs_segment *first)
{
    return first->addr + first->run.bytes;
}

static void set_bytes(struct gs_heap *heap, struct gs_segment *first, size_t bytes)
{
    first->run.bytes = bytes;
    gs_sorted_insert(&heap->runs_by_size, &first->run.of_size);
}

static void begin_run(struct gs_heap *heap, struct gs_segment *first, size_t bytes)
{
    gs_sorted_insert(&heap->runs_by_addr, &first->run.of_addr);
    set_bytes(heap, first, bytes);
}

static void end_run(struct gs_heap *heap, struct gs_segment *first)
{
    gs_sorted_remove(&heap->runs_by_addr, &first->run.of_addr);
    gs_sorted_remove(&heap->runs_by_size, &first->run.of_size);
}

void gs_runs_add(struct gs_heap *heap, struct gs_segment *segment)
{
    struct gs_segment *below = run_below(heap, segment->addr);
    struct gs_segment *above = run_from(heap, segment->addr);
    size_t bytes = segment->bytes;

    if (above && above->addr == segment->addr + segment->bytes) {
        bytes += above->run.bytes;
        end_run(heap, above);
    }
    if (!below || end_of(below) != segment->addr) {
        begin_run(heap, segment, bytes);
        return;
    }
    bytes += below->run.bytes;
    gs_sorted_remove(&heap->runs_by_size, &below->run.of_size);
    set_bytes(heap, below, bytes);
}

void gs_runs_drop(struct gs_heap *heap, struct gs_segment *segment)
{
    struct gs_segment *first = run_below(heap, segment->addr + 1);
    uint64_t end = end_of(first), behind = segment->addr + segment->bytes;

    if (first == segment) {
        end_run(heap, first);
    } else {
        gs_sorted_remove(&heap->runs_by_size, &first->run.of_size);
        set_bytes(heap, first, segment->addr - first->addr);
    }
    if (behind < end) {
        begin_run(heap, gs_pages_find(&heap->pool->pages, behind), end - behind);
    }
}

size_t gs_runs_largest(const struct gs_heap *heap)
{
    const struct gs_segment *last = of_size(gs_sorted_last(&heap->runs_by_size));

    return last ? last->run.bytes : 0;
}

struct gs_segment *gs_runs_best(const struct gs_heap *heap, size_t bytes)
{
    struct gs_segment *found = sized_from(heap, bytes, 0);

    return found ? found : sized_from(heap, gs_runs_largest(heap), 0);
}

const char *gs_runs_check(const struct gs_heap *heap)
{
    const struct gs_link *idle = &heap->idle[GS_IDLE_LARGE];
    size_t of_segments = 0, of_runs = 0;
    uint64_t end = 0;

    for (const struct gs_link *link = idle->next; link != idle; link = link->next) {
        const struct gs_segment *segment =
            GS_LINK_OWNER((uintptr_t)link, struct gs_segment, idle);
        of_segments += segment->paged ? segment->bytes : 0;
    }
    for (struct gs_segment *run = run_from(heap, 0); run;
         run = run_from(heap, run->addr + 1)) {
        if (of_runs && run->addr <= end) {
            return run->addr == end ? "two runs are neighbours" : "two runs overlap";
        }
        if (sized_from(heap, run->run.bytes, run->addr) != run) {
            return "a run is not found by its size";
        }
        for (uint64_t at = run->addr; at < end_of(run);) {
            const struct gs_segment *segment = gs_pages_find(&heap->pool->pages, at);

            if (!segment || segment->addr != at || !segment->paged ||
                gs_list_empty(&segment->idle)) {
                return "a run has a segment that is not idle";
            }
            at += segment->bytes;
        }
        end = end_of(run);
        of_runs += run->run.bytes;
    }
    return of_runs == of_segments ? NULL : "an idle segment of pages is in no run";
}
