/*
 * cached_parts.c - a table of the parts of cached memory, open-addressed by address.
 *
 * In a state file the table may be read after any store: a part's address is stored last,
 * and removed first. A part that was being moved may be there twice.
 *
 * Owns: struct gs_cached_parts.   Lock: its own.
 */
#include "tracker/cached_parts.h"

#include "gs_compare.h"
#include "tracker/tracker_internal.h"

#include <stdlib.h>

#define FIRST_ROOM ((size_t)4096)
/* Call sites of past moments are dropped from this number on. */
#define GONE_MOST ((size_t)1024)

static size_t table_bytes(uint64_t room)
{
    return sizeof(struct gs_part_table) + (size_t)room * sizeof(struct gs_part);
}

static struct gs_part_table *map_table(struct gs_state_memory *memory, uint64_t room)
{
    struct gs_part_table *table = gs_pages_map(memory, table_bytes(room));

    if (table) {
        table->room = room;
    }
    return table;
}

struct gs_cached_parts *gs_cached_parts_create(struct gs_state_memory *memory)
{
    struct gs_cached_parts *parts = gs_pages_map(memory, sizeof(*parts));

    if (!parts) {
        return NULL;
    }
    parts->memory = memory;
    parts->table = map_table(memory, FIRST_ROOM);
    if (!parts->table) {
        gs_state_unmap(memory, parts, sizeof(*parts));
        return NULL;
    }
    return parts;
}

void gs_cached_parts_destroy(struct gs_cached_parts *parts)
{
    if (!parts) {
        return;
    }
    for (unsigned i = 0; i < GS_MAX_DEVICES; i++) {
        gs_samples_free(&parts->peaks[i].gone);
    }
    gs_state_unmap(parts->memory, parts->table, table_bytes(parts->table->room));
    gs_state_unmap(parts->memory, parts, sizeof(*parts));
}

static size_t home_of(const struct gs_part_table *table, uint64_t addr)
{
    return (size_t)(addr * UINT64_C(0x9e3779b97f4a7c15) >> 20) &
           (size_t)(table->room - 1);
}

/* Returns the part's slot, or the empty slot where it belongs. */
static size_t slot_of(const struct gs_part_table *table, uint64_t addr)
{
    size_t slot = home_of(table, addr);

    while (table->slots[slot].addr != 0 && table->slots[slot].addr != addr) {
        slot = (slot + 1) & (size_t)(table->room - 1);
    }
    return slot;
}

static void fill(struct gs_part *slot, const struct gs_part *part)
{
    __atomic_store_n(&slot->addr, 0, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the process may end after any store */
    slot->bytes = part->bytes;
    slot->kept = part->kept;
    slot->grown = part->grown;
    slot->device = part->device;
    slot->time_ns = part->time_ns;
    slot->stack = part->stack;
    slot->moment = part->moment;
    slot->number = part->number;
    __atomic_store_n(&slot->addr, part->addr, __ATOMIC_RELEASE);
}

static bool grow(struct gs_cached_parts *parts)
{
    struct gs_part_table *old = parts->table;
    struct gs_part_table *table = map_table(parts->memory, old->room * 2);

    if (!table) {
        return false;
    }
    for (size_t i = 0; i < old->room; i++) {
        if (old->slots[i].addr != 0) {
            fill(&table->slots[slot_of(table, old->slots[i].addr)], &old->slots[i]);
        }
    }
    __atomic_store_n(&parts->table, table, __ATOMIC_RELEASE);
    gs_state_unmap(parts->memory, old, table_bytes(old->room));
    return true;
}

/* Empties a slot, and moves those after it that belong further to the front. */
static void empty(struct gs_cached_parts *parts, size_t slot)
{
    struct gs_part_table *table = parts->table;
    size_t mask = (size_t)table->room - 1, at = slot;

    parts->count--;
    __atomic_store_n(&table->slots[slot].addr, 0, __ATOMIC_RELEASE);
    for (at = (at + 1) & mask; table->slots[at].addr != 0; at = (at + 1) & mask) {
        size_t home = home_of(table, table->slots[at].addr);
        if (((at - home) & mask) < ((at - slot) & mask)) {
            continue;
        }
        fill(&table->slots[slot], &table->slots[at]);
        __atomic_store_n(&table->slots[at].addr, 0, __ATOMIC_RELEASE);
        slot = at;
    }
}

/* Adds a part. The lock is held. */
static void add(struct gs_cached_parts *parts, const struct gs_part *part)
{
    if (parts->count * 2 >= parts->table->room && !grow(parts)) {
        parts->lost = 1;
        return;
    }
    struct gs_part *slot = &parts->table->slots[slot_of(parts->table, part->addr)];
    parts->count += slot->addr == 0;
    fill(slot, part);
}

void gs_cached_parts_add(struct gs_cached_parts *parts, const struct gs_part *part)
{
    if (part->addr == 0 || part->bytes == 0) {
        return;
    }
    gs_tracker_lock_take(&parts->lock, GS_RANK_PARTS);
    add(parts, part);
    gs_tracker_lock_give(&parts->lock, GS_RANK_PARTS);
}

/* ---- peaks ------------------------------------------------------------------------ */

static void set_moment(struct gs_parts_peak *device)
{
    device->moment++;
    device->most_bytes = device->live_bytes;
}

/* Stores the device's present values. A new peak of the device is a new moment. */
static struct gs_parts_peak *update_device(struct gs_cached_parts *parts,
                                           const struct gs_parts_now *now)
{
    struct gs_parts_peak *device = &parts->peaks[now->device];

    if (now->peak != device->seen) {
        set_moment(device);
    }
    device->seen = now->peak;
    device->reserved_bytes = now->reserved_bytes;
    return device;
}

uint64_t gs_cached_parts_hand_out(struct gs_cached_parts *parts, struct gs_part part,
                                  const struct gs_parts_now *now)
{
    if (part.addr == 0 || part.bytes == 0) {
        return 0;
    }
    gs_tracker_lock_take(&parts->lock, GS_RANK_PARTS);
    const struct gs_parts_peak before = parts->peaks[now->device];
    struct gs_parts_peak *device = update_device(parts, now);
    part.device = now->device;
    part.number = ++parts->handed_out;
    part.moment = device->moment;
    device->live_bytes += part.bytes;
    if ((now->reserved_bytes > before.reserved_bytes && now->peak != before.seen) ||
        (device->live_bytes > device->most_bytes &&
         now->is_at_peak(now->tracker, now->device))) {
        set_moment(device); /* which has this part */
    }
    if (device->live_bytes > device->peak_bytes) {
        device->peak_bytes = device->live_bytes;
    }
    add(parts, &part);
    const uint64_t live_bytes = device->live_bytes;
    gs_tracker_lock_give(&parts->lock, GS_RANK_PARTS);
    return live_bytes;
}

struct gs_parts_bytes gs_cached_parts_bytes(struct gs_cached_parts *parts,
                                            unsigned device)
{
    struct gs_parts_bytes bytes = {0};

    if (!parts) {
        return bytes;
    }
    gs_tracker_lock_take(&parts->lock, GS_RANK_PARTS);
    bytes.live_bytes = parts->peaks[device].live_bytes;
    bytes.peak_bytes = parts->peaks[device].peak_bytes;
    gs_tracker_lock_give(&parts->lock, GS_RANK_PARTS);
    return bytes;
}

/* The part's stack without what stands for its scope. */
static uint32_t stack_of(const struct gs_part *part)
{
    return gs_stack_is_scoped(part->stack) ? 0 : part->stack;
}

/* Counts a part that was live at the device's moment. Without memory it is missing there.
 */
static void keep_gone(struct gs_parts_peak *device, const struct gs_part *part)
{
    const struct gs_sample sample = {.stream = device->moment,
                                     .stack = stack_of(part),
                                     .alloc_count = 1,
                                     .alloc_bytes = part->bytes};

    if (device->newest != device->moment && device->gone.count >= GONE_MOST) {
        gs_samples_free(&device->gone);
    }
    device->newest = device->moment;
    (void)!gs_samples_add(&device->gone, &sample);
}

/* Counts a part that grew until Python ended. */
static void keep_grown(struct gs_cached_parts *parts, const struct gs_part *part)
{
    struct gs_grown_site *site = parts->grown;

    while (site < &parts->grown[GS_GROWN_SITES] && site->count != 0 &&
           site->stack != part->stack) {
        site++;
    }
    if (site < &parts->grown[GS_GROWN_SITES]) {
        site->stack = part->stack;
        site->device = (int16_t)part->device;
    }
    site->count++;
    site->bytes += part->bytes;
}

struct gs_part gs_cached_parts_remove(struct gs_cached_parts *parts, uint64_t addr,
                                      const struct gs_parts_now *now)
{
    struct gs_part was = {0};

    if (addr == 0) {
        return was;
    }
    gs_tracker_lock_take(&parts->lock, GS_RANK_PARTS);
    struct gs_parts_peak *device = update_device(parts, now);
    size_t slot = slot_of(parts->table, addr);
    const struct gs_part *part = &parts->table->slots[slot];
    if (part->addr != 0) {
        if (part->moment != device->moment) {
            keep_gone(device, part);
        }
        if (part->grown) {
            keep_grown(parts, part);
        }
        device->live_bytes -= part->bytes;
        was = *part;
        empty(parts, slot);
    }
    gs_tracker_lock_give(&parts->lock, GS_RANK_PARTS);
    return was;
}

void gs_cached_parts_keep(struct gs_cached_parts *parts, uint64_t addr)
{
    if (addr == 0) {
        return;
    }
    gs_tracker_lock_take(&parts->lock, GS_RANK_PARTS);
    struct gs_part *part = &parts->table->slots[slot_of(parts->table, addr)];
    if (part->addr != 0) {
        part->kept = 1;
    } else {
        add(parts, &(struct gs_part){.addr = addr, .kept = 1});
    }
    gs_tracker_lock_give(&parts->lock, GS_RANK_PARTS);
}

/* Copies the samples of a peak. A group may need the program's malloc, which must not run
 * under a lock that an allocation waits for. */
static size_t copy_gone(struct gs_cached_parts *parts, const struct gs_parts_peak *device,
                        uint32_t peak, struct gs_sample *samples, size_t room)
{
    size_t count = 0;

    gs_tracker_lock_take(&parts->lock, GS_RANK_PARTS);
    for (size_t i = 0; device->seen == peak && i < device->gone.capacity; i++) {
        const struct gs_sample *sample = &device->gone.slots[i];
        if (sample->used && sample->stream == device->moment && count++ < room) {
            samples[count - 1] = *sample;
        }
    }
    gs_tracker_lock_give(&parts->lock, GS_RANK_PARTS);
    return count;
}

enum gs_status gs_cached_parts_gone(struct gs_cached_parts *parts, unsigned device,
                                    uint32_t peak, struct gs_groups *out)
{
    const struct gs_parts_peak *gone = &parts->peaks[device];
    size_t room = 2 * copy_gone(parts, gone, peak, NULL, 0) + 1;
    struct gs_sample *samples = gs_host_map(room * sizeof(*samples));
    enum gs_status status = samples ? GS_OK : GS_ERR_HOST_NOMEM;
    size_t count = samples ? copy_gone(parts, gone, peak, samples, room) : 0;

    for (size_t i = 0; i < count && status == GS_OK; i++) {
        const struct gs_sample *sample = &samples[i];
        const struct gs_group part = {.stack = sample->stack,
                                      .device = (int16_t)device,
                                      .holds = GS_HOLDS_ITSELF,
                                      .bytes = sample->alloc_bytes,
                                      .count = sample->alloc_count,
                                      .likely_bytes = (double)sample->alloc_bytes,
                                      .likely_count = (double)sample->alloc_count};
        status = i < room ? gs_groups_add(out, &part) : GS_ERR_HOST_NOMEM;
    }
    gs_host_unmap(samples, room * sizeof(*samples));
    return status;
}

/* ---- Python's end ----------------------------------------------------------------- */

/* Marks the parts of the list that are not kept, and whose call site is known. */
static void mark_grown(struct gs_cached_parts *parts, const struct gs_part_list *list)
{
    gs_tracker_lock_take(&parts->lock, GS_RANK_PARTS);
    for (size_t i = 0; i < list->count; i++) {
        const struct gs_part *part = &list->items[i];
        struct gs_part *slot = &parts->table->slots[slot_of(parts->table, part->addr)];
        if (!part->kept && part->stack != 0 && slot->number == part->number) {
            slot->grown = slot->addr != 0;
        }
    }
    gs_tracker_lock_give(&parts->lock, GS_RANK_PARTS);
}

void gs_cached_parts_end(struct gs_cached_parts *parts)
{
    if (__atomic_load_n(&parts->ended, __ATOMIC_RELAXED) != 0 ||
        __atomic_exchange_n(&parts->ended, 1, __ATOMIC_RELAXED) != 0) {
        return;
    }
    struct gs_part_list list = gs_cached_parts_copy(parts);
    for (size_t i = 0; i < list.count; i++) {
        list.items[i].kept = 1;
    }
    gs_part_list_judge_kept(&list, false);
    mark_grown(parts, &list);
    gs_part_list_free(&list);
}

size_t gs_cached_parts_grown(struct gs_cached_parts *parts,
                             struct gs_grown_site out[GS_GROWN_SITES + 1])
{
    size_t count = 0;

    if (!parts) {
        return 0;
    }
    gs_tracker_lock_take(&parts->lock, GS_RANK_PARTS);
    for (size_t i = 0; i < GS_ARRAY_LEN(parts->grown); i++) {
        if (parts->grown[i].count >= GS_GREW_PARTS) {
            out[count++] = parts->grown[i];
        }
    }
    gs_tracker_lock_give(&parts->lock, GS_RANK_PARTS);
    return count;
}

/* ---- a list ----------------------------------------------------------------------- */

static int compare_parts(const void *left, const void *right)
{
    const struct gs_part *a = left, *b = right;

    return GS_RISING(a->addr, b->addr);
}

/* Copies the parts into a list, without more than it has room for. Returns their
 * number. */
static size_t copy_parts(struct gs_cached_parts *parts, struct gs_part_list *list)
{
    gs_tracker_lock_take(&parts->lock, GS_RANK_PARTS);
    const struct gs_part_table *table = parts->table;
    size_t count = parts->count;
    list->known = parts->lost == 0 && count <= list->room;
    list->handed_out = parts->handed_out;
    for (unsigned i = 0; i < GS_MAX_DEVICES; i++) {
        list->devices[i].peak = parts->peaks[i].seen;
        list->devices[i].moment = parts->peaks[i].moment;
    }
    for (size_t i = 0; list->known && list->items && i < table->room; i++) {
        if (table->slots[i].addr != 0) {
            list->items[list->count] = table->slots[i];
            list->items[list->count++].stack = stack_of(&table->slots[i]);
        }
    }
    gs_tracker_lock_give(&parts->lock, GS_RANK_PARTS);
    return count;
}

struct gs_part_list gs_cached_parts_copy(struct gs_cached_parts *parts)
{
    struct gs_part_list list = {0};

    if (!parts) {
        return list;
    }
    list.room = 2 * copy_parts(parts, &list) + 64; /* more may be added in the meantime */
    list.items = gs_host_map(list.room * sizeof(*list.items));
    if (!list.items) {
        return (struct gs_part_list){0};
    }
    list.count = 0;
    (void)copy_parts(parts, &list);
    if (list.count > 0) {
        qsort(list.items, list.count, sizeof(*list.items), compare_parts);
    }
    return list;
}

void gs_part_list_free(struct gs_part_list *list)
{
    gs_host_unmap(list->items, list->room * sizeof(*list->items));
    *list = (struct gs_part_list){0};
}

bool gs_part_list_at_peak(const struct gs_part_list *list, const struct gs_part *part,
                          unsigned device, uint32_t peak)
{
    return part->device == device && (list->devices[device].peak != peak ||
                                      list->devices[device].moment != part->moment);
}

size_t gs_part_list_within(const struct gs_part_list *list, uint64_t addr, uint64_t bytes,
                           size_t *first)
{
    size_t low = 0, high = list->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->items[middle].addr < addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (high = low; high < list->count && list->items[high].addr - addr < bytes;) {
        high++;
    }
    *first = low;
    return high - low;
}

bool gs_part_list_split(const struct gs_part_list *list, uint64_t addr,
                        const struct gs_group *whole,
                        void (*add_piece)(void *self, struct gs_group *piece), void *self)
{
    struct gs_group piece;
    uint64_t left = whole->bytes;
    size_t first, count = gs_part_list_within(list, addr, whole->bytes, &first);

    if (count == 1 && list->items[first].bytes == 0 && list->items[first].kept) {
        piece = *whole;
        piece.holds = list->items[first].addr == addr ? GS_HOLDS_OWNER : GS_HOLDS_NOTHING;
        add_piece(self, &piece);
        return true;
    }
    for (size_t i = first; i < first + count; i++) {
        if (list->items[i].bytes == 0) {
            continue; /* another owner's mark: gs_cached_parts_keep */
        }
        if (list->items[i].stack == 0 || list->items[i].bytes > left) {
            return false;
        }
        left -= list->items[i].bytes;
    }
    for (size_t i = first; i < first + count; i++) {
        const struct gs_part *part = &list->items[i];
        if (part->bytes == 0) {
            continue;
        }
        piece = *whole;
        piece.holds = part->kept ? GS_HOLDS_KEPT : GS_HOLDS_ITSELF;
        piece.stack = part->stack;
        piece.bytes = part->bytes;
        piece.likely_bytes = (double)part->bytes;
        piece.oldest_ns = piece.newest_ns = part->time_ns;
        add_piece(self, &piece);
    }
    if (count > 0 && left > 0) {
        piece = *whole;
        piece.holds = GS_HOLDS_NOTHING;
        piece.bytes = left;
        piece.likely_bytes = (double)left;
        add_piece(self, &piece);
    }
    return count > 0;
}
