/*
 * leak_scan_words.c - compares words of memory with the target addresses.
 *
 * Nearly all words are no pointer to device memory. So three tests follow each other: the
 * word is between the lowest and the highest address; its page of 2 MiB contains a
 * target; and only then a search in the sorted targets.
 *
 * A Python int has an address in two digits of 30 bits, each in 32, and so in a word of
 * its own form after the object's header. The header tells an int from the digits that a
 * freed one leaves behind: the allocator has overwritten its reference count.
 *
 * Owns: nothing.   Lock: none.
 * Source: CPython 3.8 to 3.14, Include/cpython/longintrepr.h (before 3.12
 *         Include/longintrepr.h), Include/object.h, Objects/obmalloc.c
 */
#include "tracker/scan/leak_scan_internal.h"

#include <string.h>

static uint64_t filter_bit(uint64_t page)
{
    return (page * UINT64_C(0x9e3779b97f4a7c15)) >> 46;
}
static_assert(GS_SCAN_FILTER_BITS == UINT64_C(1) << (64 - 46), "a hash names a bit");

void gs_scan_prepare(struct gs_scan *scan, struct gs_scan_filter *filter)
{
    uint64_t high = 0;

    memset(filter, 0, sizeof(*filter));
    filter->low = UINT64_MAX;
    gs_scan_sort(scan->targets, scan->count, sizeof(*scan->targets));
    for (size_t i = 0; i < scan->count; i++) {
        const struct gs_scan_target *target = &scan->targets[i];
        uint64_t last = target->addr + (target->bytes ? target->bytes - 1 : 0);
        uint64_t page = target->addr >> GS_SCAN_PAGE_SHIFT;
        if (target->addr < filter->low) {
            filter->low = target->addr;
        }
        if (last > high) {
            high = last;
        }
        for (uint64_t end = (last >> GS_SCAN_PAGE_SHIFT) + 1;
             page < end && end - page <= GS_SCAN_FILTER_BITS; page++) {
            uint64_t bit = filter_bit(page);
            filter->bits[bit / 64] |= UINT64_C(1) << bit % 64;
        }
        if (page <= last >> GS_SCAN_PAGE_SHIFT) { /* larger than the filter: useless */
            memset(filter->bits, 0xff, sizeof(filter->bits));
        }
    }
    filter->span = scan->count > 0 ? high - filter->low + 1 : 0;
}

/* Returns the last target that begins at or below the word; several may begin there. */
static struct gs_scan_target *find_target(const struct gs_scan *scan, uint64_t word)
{
    size_t low = 0, high = scan->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scan->targets[middle].addr <= word) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? &scan->targets[low - 1] : NULL;
}

static void look_up(struct gs_scan *scan, const struct gs_scan_filter *filter,
                    uint64_t word, bool root)
{
    uint64_t bit = filter_bit(word >> GS_SCAN_PAGE_SHIFT);

    if ((filter->bits[bit / 64] >> bit % 64 & 1) == 0) {
        return;
    }
    struct gs_scan_target *target = find_target(scan, word);
    if (!target) {
        return;
    }
    if (target->addr == word) {
        for (; target >= scan->targets && target->addr == word; target--) {
            target->seen |= root ? GS_SEEN_START_ROOT : GS_SEEN_START_HEAP;
        }
    } else if (word - target->addr < target->bytes) {
        target->seen |= GS_SEEN_INSIDE;
    }
}

/* ---- Python ints ------------------------------------------------------------------ */

#define DIGIT_BITS   30u
#define DIGIT_BEYOND UINT64_C(0xc0000000c0000000) /* bits that no digit has */

/* The number of two digits; one above all addresses if these are none. */
static inline uint64_t number_of(uint64_t digits)
{
    return (digits & DIGIT_BEYOND) != 0
               ? UINT64_MAX
               : (digits & 0xffffffff) | digits >> 32 << DIGIT_BITS;
}

/* Returns true if these words are the header of a live int of two digits: reference
 * count, type, and size. The count is 32 bits, below flags from 3.14 on. A free block
 * begins with the address of the next one, or with 0. The size is the number of digits;
 * from 3.12 on 8 times that, with the sign (0) below. */
static bool is_int_header(const uint64_t header[GS_SCAN_INT_HEADER])
{
    return (header[0] & 0xffffffff) != 0 && (header[0] >> 32 & 0xffff) == 0 &&
           header[1] > 0xffff && header[1] % sizeof(uint64_t) == 0 &&
           (header[2] == 2 || header[2] == 2 * 8);
}

void gs_scan_ints(struct gs_scan *scan, const struct gs_scan_filter *filter,
                  const uint64_t *words, size_t count)
{
    const uint64_t low = filter->low, span = filter->span;

    for (size_t i = GS_SCAN_INT_HEADER; i < count; i++) {
        uint64_t number = number_of(words[i]);

        /* As one of a root: the driver, which may have copies, has no ints. */
        if (GS_UNLIKELY(number - low < span) &&
            is_int_header(words + i - GS_SCAN_INT_HEADER)) {
            look_up(scan, filter, number, true);
        }
    }
}

/* ---- words ------------------------------------------------------------------------ */

void gs_scan_words(struct gs_scan *scan, const struct gs_scan_filter *filter,
                   const uint64_t *words, size_t count, bool root)
{
    const uint64_t low = filter->low, span = filter->span;
    size_t i = 0;

    for (; i + 8 <= count; i += 8) { /* one branch for a cache line */
        const uint64_t *w = words + i;
        unsigned any = (w[0] - low < span) | (w[1] - low < span) | (w[2] - low < span) |
                       (w[3] - low < span) | (w[4] - low < span) | (w[5] - low < span) |
                       (w[6] - low < span) | (w[7] - low < span);
        if (GS_LIKELY(!any)) {
            continue;
        }
        for (unsigned k = 0; k < 8; k++) {
            if (w[k] - low < span) {
                look_up(scan, filter, w[k], root);
            }
        }
    }
    for (; i < count; i++) {
        if (words[i] - low < span) {
            look_up(scan, filter, words[i], root);
        }
    }
}
