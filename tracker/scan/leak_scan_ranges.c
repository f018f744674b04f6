/*
 * leak_scan_ranges.c - sorted ranges of addresses, and those of the loaded modules' data.
 * Owns: nothing; the caller has the arrays.   Lock: none; dl_iterate_phdr takes the
 * loader's.
 */
#include "tracker/scan/leak_scan_internal.h"

#include <link.h>
#include <string.h>

#include "tracker/names/loader_gate.h"
#include "tracker/names/runtime_modules.h"

void gs_scan_range_add(struct gs_scan_ranges *ranges, uintptr_t begin, uintptr_t end)
{
    if (begin >= end) {
        return;
    }
    if (ranges->count == ranges->capacity) {
        ranges->overflow = true;
        return;
    }
    ranges->items[ranges->count++] = (struct gs_scan_range){begin, end};
}

/* ---- sorting: by heapsort, in place ----------------------------------------------- */

static uint64_t key_of(const char *item)
{
    uint64_t key;

    memcpy(&key, item, sizeof(key));
    return key;
}

static void swap(char *a, char *b, size_t size)
{
    char kept[GS_SCAN_ITEM_MAX];

    memcpy(kept, a, size);
    memcpy(a, b, size);
    memcpy(b, kept, size);
}

/* Moves the item at `root` down until the items from `root` on form a heap. Those below
 * it already do. */
static void sift_down(char *items, size_t root, size_t count, size_t size)
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count &&
            key_of(items + child * size) < key_of(items + (child + 1) * size)) {
            child++;
        }
        if (key_of(items + root * size) >= key_of(items + child * size)) {
            return;
        }
        swap(items + root * size, items + child * size, size);
    }
}

void gs_scan_sort(void *items, size_t count, size_t size)
{
    for (size_t i = count / 2; i-- > 0;) {
        sift_down(items, i, count, size);
    }
    for (size_t left = count; left > 1; left--) {
        swap(items, (char *)items + (left - 1) * size, size);
        sift_down(items, 0, left - 1, size);
    }
}

/* ---- ranges ----------------------------------------------------------------------- */

void gs_scan_ranges_merge(struct gs_scan_ranges *ranges)
{
    size_t kept = 0;

    if (ranges->count == 0) {
        return;
    }
    gs_scan_sort(ranges->items, ranges->count, sizeof(*ranges->items));
    for (size_t i = 1; i < ranges->count; i++) {
        struct gs_scan_range *last = &ranges->items[kept];
        if (ranges->items[i].begin > last->end) {
            ranges->items[++kept] = ranges->items[i];
        } else if (ranges->items[i].end > last->end) {
            last->end = ranges->items[i].end;
        }
    }
    ranges->count = kept + 1;
}

const struct gs_scan_range *gs_scan_range_from(const struct gs_scan_ranges *ranges,
                                               uintptr_t address)
{
    size_t low = 0, high = ranges->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->items[middle].end <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < ranges->count ? &ranges->items[low] : NULL;
}

struct modules {
    uintptr_t own_code;
    struct gs_scan_ranges *skips, *roots;
};

static bool contains_address(const struct dl_phdr_info *info, uintptr_t address)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD &&
            address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz) {
            return true;
        }
    }
    return false;
}

static int add_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    const struct modules *modules = arg;
    const char *name = gs_module_base_name(info->dlpi_name);
    bool skipped = gs_module_is_runtime(name) ||
                   strncmp(name, "libnvidia-", strlen("libnvidia-")) == 0 ||
                   (modules->own_code != 0 && contains_address(info, modules->own_code));

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_W) != 0) {
            gs_scan_range_add(skipped ? modules->skips : modules->roots, begin,
                              begin + p->p_memsz);
        }
    }
    return 0;
}

bool gs_scan_add_modules(const void *own_code, struct gs_scan_ranges *skips,
                         struct gs_scan_ranges *roots)
{
    struct modules modules = {
        .own_code = (uintptr_t)own_code, .skips = skips, .roots = roots};

    if (!gs_loader_enter()) {
        return false;
    }
    dl_iterate_phdr(add_module, &modules);
    gs_loader_leave();
    return true;
}
