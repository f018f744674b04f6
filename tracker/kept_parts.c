/*
 * kept_parts.c - tensors that Python's objects held until the interpreter ended: which of
 * them are a leak.
 *
 * A program's last graph and its gradients stay by design. A call site whose kept tensors
 * came over nearly the whole run, counted in tensors handed out, has kept one after the
 * other. Time would depend on the machine.
 *
 * Owns: nothing.   Lock: none.   Design: docs/suppressions.md
 */
#include "gs_compare.h"
#include "tracker/cached_parts.h"

#include <stdlib.h>

#include "tracker/tracker_internal.h"

struct kept {
    uint32_t stack;
    bool grown; /* of the first of its stack alone */
    uint64_t number;
};

static int compare_kept(const void *left, const void *right)
{
    const struct kept *a = left, *b = right;

    return GS_RISING(a->stack, b->stack) ?: GS_RISING(a->number, b->number);
}

/* Takes the first kept part of each stack, and whether the stack grew. Returns how many
 * there are. */
static size_t take_stacks(struct kept *kept, size_t count, uint64_t handed_out)
{
    size_t stacks = 0;

    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && kept[end].stack == kept[first].stack;) {
            end++;
        }
        uint64_t spread = kept[end - 1].number - kept[first].number;
        kept[first].grown =
            end - first >= GS_GREW_PARTS && spread * 8 >= handed_out * GS_GREW_EIGHTHS;
        kept[stacks++] = kept[first];
    }
    return stacks;
}

static bool has_grown(const struct kept *stacks, size_t count, uint32_t stack)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (stacks[middle].stack < stack) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && stacks[low].stack == stack && stacks[low].grown;
}

void gs_part_list_judge_kept(struct gs_part_list *list, bool all)
{
    struct kept *kept;
    size_t count = 0;

    for (size_t i = 0; i < list->count; i++) {
        count += list->items[i].kept;
    }
    if (count == 0) {
        return;
    }
    const size_t bytes = count * sizeof(*kept);
    kept = all ? NULL : gs_host_map(bytes);
    count = 0;
    for (size_t i = 0; kept && i < list->count; i++) {
        const struct gs_part *part = &list->items[i];
        if (part->kept && part->bytes != 0) {
            kept[count++] = (struct kept){.stack = part->stack, .number = part->number};
        }
    }
    if (kept) {
        qsort(kept, count, sizeof(*kept), compare_kept);
        count = take_stacks(kept, count, list->handed_out);
    }
    for (size_t i = 0; i < list->count; i++) {
        struct gs_part *part = &list->items[i];
        if (!kept || (part->bytes != 0 && has_grown(kept, count, part->stack))) {
            part->kept = 0;
        }
    }
    gs_host_unmap(kept, bytes);
}

bool gs_part_list_all_kept(const struct gs_part_list *list, uint64_t addr, uint64_t bytes)
{
    size_t first, count = gs_part_list_within(list, addr, bytes, &first);
    bool all = true;

    for (size_t i = first; i < first + count; i++) {
        all = all && list->items[i].kept;
    }
    return all;
}
