/*
 * loaded.c - reads the end of the loader's list, and single modules of it.
 *
 * Owns:  the address of _dl_find_object.
 * Lock:  the loader's, which dl_iterate_phdr holds during its callbacks: no module joins
 *        or leaves the list during them.   Design: docs/stacks.md
 *
 * The list itself (struct link_map) has no program headers. They are read where the
 * linker has put them, in the first page of the module's file, and are taken only if they
 * describe the dynamic section that the loader knows.
 */
#include "tracker/names/loaded.h"

#include <stdatomic.h>

#define HEADER_BYTES 4096u /* the smallest page: mapped if the module's first byte is */

/* struct dl_find_object of glibc 2.35, which older headers lack. */
struct find_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *map;
    void *eh_frame;
    unsigned long long reserved[12];
};

typedef int find_object_fn(void *address, struct find_object *out);

static _Atomic(find_object_fn *) finder; /* written with one value only */

void gs_loaded_learn(void *find_object)
{
    atomic_store_explicit(&finder, (find_object_fn *)find_object, memory_order_release);
}

bool gs_loaded_object(uintptr_t address, struct gs_loaded_object *out)
{
    find_object_fn *find = atomic_load_explicit(&finder, memory_order_acquire);
    struct find_object found;

    if (find == NULL || find((void *)address, &found) != 0 || found.map == NULL) {
        return false;
    }
    *out = (struct gs_loaded_object){.map = found.map,
                                     .begin = (uintptr_t)found.map_start,
                                     .end = (uintptr_t)found.map_end};
    return address >= out->begin && address < out->end;
}

static bool is_elf(const ElfW(Ehdr) * head)
{
    return head->e_ident[EI_MAG0] == ELFMAG0 && head->e_ident[EI_MAG1] == ELFMAG1 &&
           head->e_ident[EI_MAG2] == ELFMAG2 && head->e_ident[EI_MAG3] == ELFMAG3 &&
           head->e_phentsize == sizeof(ElfW(Phdr)) && head->e_phoff < HEADER_BYTES &&
           head->e_phnum <= (HEADER_BYTES - head->e_phoff) / sizeof(ElfW(Phdr));
}

bool gs_loaded_describe(const struct link_map *map, struct dl_phdr_info *out)
{
    struct gs_loaded_object object;
    const ElfW(Ehdr) * head;
    const ElfW(Phdr) * headers;
    bool first = false, dynamic = false;

    if (!gs_loaded_object((uintptr_t)map->l_ld, &object) || object.map != map ||
        object.end - object.begin < HEADER_BYTES || object.begin % HEADER_BYTES != 0) {
        return false;
    }
    head = (const ElfW(Ehdr) *)object.begin;
    if (!is_elf(head)) {
        return false;
    }
    headers = (const ElfW(Phdr) *)(object.begin + head->e_phoff);
    for (unsigned i = 0; i < head->e_phnum; i++) {
        uintptr_t begin = map->l_addr + headers[i].p_vaddr;

        dynamic |= headers[i].p_type == PT_DYNAMIC && begin == (uintptr_t)map->l_ld;
        first |= headers[i].p_type == PT_LOAD && begin == object.begin &&
                 headers[i].p_offset == 0;
    }
    *out = (struct dl_phdr_info){.dlpi_addr = map->l_addr,
                                 .dlpi_name = map->l_name,
                                 .dlpi_phdr = headers,
                                 .dlpi_phnum = head->e_phnum};
    return first && dynamic;
}

/* One reading. */
struct reading {
    const struct gs_loaded *seen;
    gs_loaded_visit *visit;
    void *data;
    struct gs_loaded now;
    struct gs_loaded counted; /* without _dl_find_object: from an earlier pass */
    size_t skip;              /* modules that were seen, and come next */
    bool every;               /* after an unload, too */
    bool begun, all, ended;
};

/* The first module of the list, from its description. NULL: not known. */
static const struct link_map *first_of_list(const struct dl_phdr_info *first)
{
    struct gs_loaded_object object;

    return gs_loaded_object((uintptr_t)first->dlpi_phdr, &object) &&
                   object.map->l_addr == first->dlpi_addr &&
                   object.map->l_name == first->dlpi_name && object.map->l_prev == NULL
               ? object.map
               : NULL;
}

/* The module at this place of the list, 1 for the first; the last one if the list is
 * shorter. `count`: the place of the module returned. */
static const struct link_map *module_at(const struct link_map *map, size_t place,
                                        size_t *count)
{
    for (*count = 1; *count < place && map->l_next != NULL; ++*count) {
        map = map->l_next;
    }
    return map;
}

/* The modules that were there at the last reading, of `count` now: at least as many as
 * this come first, since new ones are added at the end. */
static size_t older_of(const struct reading *reading, size_t count)
{
    uint64_t newer = reading->now.adds - reading->seen->adds;

    return newer < count ? count - (size_t)newer : 0;
}

/* Finds the last module that was seen; its place is how many come before the new ones. */
static void find_last_seen(struct reading *reading, const struct link_map *first)
{
    if (reading->seen->unloads == reading->now.unloads) {
        reading->now.last = reading->seen->last;
        reading->now.count = reading->seen->count;
    } else if (first != NULL) {
        size_t count;

        (void)module_at(first, SIZE_MAX, &count);
        count = older_of(reading, count);
        reading->now.last =
            count == 0 ? NULL : module_at(first, count, &reading->now.count);
    } else if (reading->counted.adds == reading->now.adds &&
               reading->counted.unloads == reading->now.unloads) {
        reading->now.count = older_of(reading, reading->counted.count);
    }
}

/* Visits what follows the last seen module. False: a module there is one that only
 * dl_iterate_phdr can describe. */
static bool read_end(struct reading *reading)
{
    struct dl_phdr_info info;

    if (reading->now.last == NULL) {
        return false;
    }
    while (!reading->ended && reading->now.last->l_next != NULL) {
        if (!gs_loaded_describe(reading->now.last->l_next, &info)) {
            return false;
        }
        info.dlpi_adds = reading->now.adds;
        info.dlpi_subs = reading->now.unloads;
        reading->ended = reading->visit(&info, false, reading->data);
        reading->now.last = reading->now.last->l_next;
        reading->now.count++;
    }
    return true;
}

/* Returns true if the reading is complete. */
static bool begin(struct reading *reading, const struct dl_phdr_info *info)
{
    const struct gs_loaded *seen = reading->seen;
    const struct link_map *first;
    size_t count;

    reading->begun = true;
    reading->now.adds = info->dlpi_adds;
    reading->now.unloads = info->dlpi_subs;
    reading->all =
        seen->count == 0 || (reading->every && seen->unloads != reading->now.unloads);
    first = !reading->all && seen->unloads == reading->now.unloads && seen->last != NULL
                ? NULL /* not needed */
                : first_of_list(info);
    if (!reading->all) {
        find_last_seen(reading, first);
        if (read_end(reading)) {
            return true;
        }
    }
    reading->skip = reading->now.count;
    reading->now.count = 0;
    reading->now.last = first != NULL ? module_at(first, SIZE_MAX, &count) : NULL;
    return false;
}

/* dl_iterate_phdr callback. */
static int read_module(struct dl_phdr_info *info, size_t size, void *data)
{
    struct reading *reading = data;

    (void)size;
    if (!reading->begun && begin(reading, info)) {
        return 1;
    }
    reading->now.count++;
    if (reading->skip > 0) {
        reading->skip--;
        return 0;
    }
    reading->ended = reading->visit(info, reading->all, reading->data);
    return reading->ended;
}

/* dl_iterate_phdr callback. */
static int count_module(struct dl_phdr_info *info, size_t size, void *data)
{
    struct gs_loaded *counted = data;

    (void)size;
    counted->adds = info->dlpi_adds;
    counted->unloads = info->dlpi_subs;
    counted->count++;
    return 0;
}

static bool read_list(struct reading *reading, struct gs_loaded *seen)
{
    if (seen->count != 0 && seen->last == NULL && !reading->every) {
        dl_iterate_phdr(count_module, &reading->counted);
    }
    dl_iterate_phdr(read_module, reading);
    if (!reading->ended && reading->begun) {
        *seen = reading->now;
    }
    return reading->ended;
}

bool gs_loaded_visit_new(struct gs_loaded *seen, gs_loaded_visit *visit, void *data)
{
    struct reading reading = {.seen = seen, .visit = visit, .data = data};

    return read_list(&reading, seen);
}

bool gs_loaded_visit_changes(struct gs_loaded *seen, gs_loaded_visit *visit, void *data)
{
    struct reading reading = {.seen = seen, .visit = visit, .data = data, .every = true};

    return read_list(&reading, seen);
}
