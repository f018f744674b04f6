/*
 * space.c - address ranges in 2 MiB units: one of each device, one of the host.
 *
 * The range a program sees is a PROT_NONE reservation; the pages live in a memfd that is
 * mapped once more, privately, for the device's own accesses. The range is four times the
 * device's memory, so that a fragmented range does not run out before the memory does.
 *
 * The host's range is for memory pools that are not a device's. Its units can be touched
 * by the host while they are held; the devices, which may be at work there a little
 * longer, use the alias all the same.
 *
 * Owns:  the spaces of all devices, the host's.
 * Lock:  space->lock; spaces[] and the host's are written before cuInit returns, read
 * without a lock.
 */
#include "space.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "log.h"
#include "shared.h"
#include "vmm.h"

#define RANGE_FACTOR 4

static struct sim_space *spaces[SIM_MAX_DEVICES]; /* immutable after cuInit */
static struct sim_space *host_space;              /* immutable after cuInit */

static size_t next_bit(const uint64_t *bits, size_t start, size_t limit, uint64_t flip)
{
    while (start < limit) {
        uint64_t word = (bits[start / SIM_WORD_BITS] ^ flip) >> (start % SIM_WORD_BITS);
        if (word) {
            start += (size_t)__builtin_ctzll(word);
            return start < limit ? start : limit;
        }
        start = (start / SIM_WORD_BITS + 1) * SIM_WORD_BITS;
    }
    return limit;
}

size_t sim_bits_find_clear(const uint64_t *bits, size_t start, size_t limit, size_t count)
{
    while (start < limit) {
        size_t clear = next_bit(bits, start, limit, ~(uint64_t)0);
        size_t end =
            next_bit(bits, clear, clear + count < limit ? clear + count : limit, 0);
        if (end - clear >= count)
            return clear;
        start = end > clear ? end : limit;
    }
    return limit;
}

void sim_bits_set(uint64_t *bits, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        bits[i / SIM_WORD_BITS] |= (uint64_t)1 << (i % SIM_WORD_BITS);
}

void sim_bits_clear(uint64_t *bits, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        bits[i / SIM_WORD_BITS] &= ~((uint64_t)1 << (i % SIM_WORD_BITS));
}

static enum gs_status create(int device, size_t bytes, size_t factor,
                             struct sim_space **out)
{
    struct sim_space *space = calloc(1, sizeof(*space));

    if (!space)
        return GS_ERR_NOMEM;
    pthread_mutex_init(&space->lock, NULL);
    space->device = device;
    space->capacity_units = bytes / SIM_UNIT_BYTES;
    space->range_units = space->capacity_units * factor;
    space->fd = -1;
    size_t words = (space->range_units + SIM_WORD_BITS - 1) / SIM_WORD_BITS;
    space->bits = calloc(words, sizeof(*space->bits));
    space->units = calloc(space->range_units, sizeof(*space->units));
    if (!space->bits || !space->units) {
        free(space->bits);
        free(space->units);
        free(space);
        return GS_ERR_NOMEM;
    }
    *out = space;
    return GS_OK;
}

enum gs_status sim_space_create(int device, size_t bytes, struct sim_space **out)
{
    enum gs_status status = create(device, bytes, RANGE_FACTOR, out);

    if (status == GS_OK)
        spaces[device] = *out;
    return status;
}

enum gs_status sim_space_create_host(void)
{
    size_t pages = (size_t)sysconf(_SC_PHYS_PAGES), page = (size_t)sysconf(_SC_PAGESIZE);

    return host_space ? GS_OK : create(SIM_NO_DEVICE, pages * page, 1, &host_space);
}

struct sim_space *sim_host_space(void)
{
    return host_space;
}

/* The same pages at the range's own addresses; nobody may touch them yet. */
static bool show_to_host(struct sim_space *space, size_t bytes)
{
    return mmap((void *)space->va, bytes, PROT_NONE,
                MAP_SHARED | MAP_FIXED | MAP_NORESERVE, space->fd, 0) != MAP_FAILED;
}

/* Map the range and its alias. Needs space->lock. */
static bool reserve(struct sim_space *space)
{
    size_t bytes = space->range_units * SIM_UNIT_BYTES;
    int fd = memfd_create(
        space->device == SIM_NO_DEVICE ? "cudasim-host" : "cudasim-device", MFD_CLOEXEC);

    if (fd < 0)
        return false;
    if (ftruncate(fd, (off_t)bytes) != 0)
        goto close_fd;
    unsigned char *range = mmap(NULL, bytes + SIM_UNIT_BYTES, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        goto close_fd;
    unsigned char *alias =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (alias == MAP_FAILED)
        goto unmap_range;
    madvise(alias, bytes, MADV_DONTDUMP);
    space->fd = fd;
    space->alias = alias;
    space->va = gs_round_up((uintptr_t)range, SIM_UNIT_BYTES);
    if (space->device == SIM_NO_DEVICE && !show_to_host(space, bytes))
        goto unmap_alias;
    atomic_store_explicit(&space->reserved, true, memory_order_release);
    return true;
unmap_alias:
    munmap(alias, bytes);
unmap_range:
    munmap(range, bytes + SIM_UNIT_BYTES);
close_fd:
    close(fd);
    return false;
}

/* Needs space->lock. */
static bool make_reserved(struct sim_space *space)
{
    if (atomic_load_explicit(&space->reserved, memory_order_relaxed) || reserve(space))
        return true;
    sim_log_always("device %d: cannot reserve %zu MiB of addresses", space->device,
                   space->range_units * SIM_UNIT_BYTES / GS_MIB);
    return false;
}

/* Units of the host's can be touched by the host while they are held. */
static bool open_units(struct sim_space *space, size_t first, size_t count, bool held)
{
    return space->device != SIM_NO_DEVICE ||
           mprotect((void *)sim_space_address(space, first), count * SIM_UNIT_BYTES,
                    held ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
}

bool sim_space_take(struct sim_space *space, size_t count, size_t *first)
{
    if (count > space->capacity_units - space->used_units || !make_reserved(space))
        return false;
    size_t found =
        sim_bits_find_clear(space->bits, space->hint, space->range_units, count);
    if (found == space->range_units ||
        !sim_shared_take(space->device, count, space->capacity_units))
        return false;
    if (!open_units(space, found, count, true)) {
        sim_shared_give(space->device, count);
        return false;
    }
    sim_bits_set(space->bits, found, count);
    if (found == space->hint)
        space->hint = found + count;
    space->used_units += count;
    *first = found;
    return true;
}

bool sim_space_take_addresses(struct sim_space *space, size_t count, size_t *first)
{
    if (count == 0 || count > space->range_units || !make_reserved(space))
        return false;
    for (size_t end = space->range_units; end >= count; end--) {
        size_t start = end - count;
        if (sim_bits_find_clear(space->bits, start, end, count) == start) {
            sim_bits_set(space->bits, start, count);
            *first = start;
            return true;
        }
    }
    return false;
}

void sim_space_give_addresses(struct sim_space *space, size_t first, size_t count)
{
    pthread_mutex_lock(&space->lock);
    sim_bits_clear(space->bits, first, count);
    if (first < space->hint)
        space->hint = first;
    pthread_mutex_unlock(&space->lock);
}

bool sim_space_show(struct sim_space *space, size_t first, size_t count, int fd,
                    size_t offset)
{
    unsigned char *alias = space->alias + first * SIM_UNIT_BYTES;
    size_t bytes = count * SIM_UNIT_BYTES;

    if (fd < 0) {
        fd = space->fd;
        offset = first * SIM_UNIT_BYTES;
    }
    if (mmap(alias, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
             fd, (off_t)offset) == MAP_FAILED)
        return false;
    madvise(alias, bytes, MADV_DONTDUMP);
    return true;
}

static void punch(struct sim_space *space, size_t first, size_t count)
{
    size_t offset = first * SIM_UNIT_BYTES;
    size_t bytes = count * SIM_UNIT_BYTES;

    if (fallocate(space->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                  (off_t)bytes) != 0)
        madvise(space->alias + offset, bytes, MADV_REMOVE);
}

void sim_space_release(struct sim_space *space, struct sim_extent *extents)
{
    while (extents) {
        struct sim_extent *extent = extents;
        extents = extent->next;
        open_units(space, extent->first, extent->count, false);
        punch(space, extent->first, extent->count);
        pthread_mutex_lock(&space->lock);
        sim_bits_clear(space->bits, extent->first, extent->count);
        space->used_units -= extent->count;
        sim_shared_give(space->device, extent->count);
        if (extent->first < space->hint)
            space->hint = extent->first;
        pthread_mutex_unlock(&space->lock);
        free(extent);
    }
}

void sim_space_info(struct sim_space *space, size_t *free_bytes, size_t *total_bytes)
{
    size_t others = sim_shared_others(space->device), left;

    pthread_mutex_lock(&space->lock);
    left = space->capacity_units - space->used_units;
    pthread_mutex_unlock(&space->lock);
    *free_bytes = (left > others ? left - others : 0) * SIM_UNIT_BYTES;
    *total_bytes = space->capacity_units * SIM_UNIT_BYTES;
}

static bool is_in(const struct sim_space *space, uintptr_t address)
{
    return atomic_load_explicit(&space->reserved, memory_order_acquire) &&
           address - space->va < space->range_units * SIM_UNIT_BYTES;
}

static struct sim_space *device_space_of(uintptr_t address)
{
    for (int i = 0; i < SIM_MAX_DEVICES && spaces[i]; i++) {
        if (is_in(spaces[i], address))
            return spaces[i];
    }
    return NULL;
}

bool sim_memory_is_host_pool_address(uintptr_t address)
{
    return host_space && is_in(host_space, address);
}

struct sim_space *sim_space_of(uintptr_t address)
{
    struct sim_space *space = device_space_of(address);

    return !space && sim_memory_is_host_pool_address(address) ? host_space : space;
}

bool sim_memory_is_device_address(uintptr_t address)
{
    return device_space_of(address) != NULL || sim_vmm_keeps_from_host(address);
}
