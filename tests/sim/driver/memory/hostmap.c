/*
 * hostmap.c - pinned, registered and managed memory: pages of the process with an entry
 * in a map sorted by address. Pages of less than 2 MiB are kept for the next memory of
 * their kind and size, which finds the old bytes in them, as a driver's does (H200,
 * 580.159.04).
 *
 * Owns:  the map, the kept pages, and the pages of pinned and managed memory, which go
 * with the last reference so that an operation under way never loses them.
 * Lock:  host_lock; kept_lock inside.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "advice.h"
#include "memory.h"
#include "order.h"
#include "vmm_range.h"

static struct sim_alloc **entries; /* host_lock; sorted by base */
static size_t entry_count;         /* host_lock */
static size_t entry_room;          /* host_lock */
static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;

/* Pages that nobody has. */
struct kept {
    struct kept *next;
    void *pages;
    size_t bytes;
    enum sim_memory_kind kind;
};

#define KEPT_BYTES_MAX ((size_t)32 << 20)

static struct kept *kept_first; /* kept_lock; the last one freed first */
static size_t kept_bytes;       /* kept_lock */
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static void give_pages(enum sim_memory_kind kind, void *pages, size_t bytes)
{
    struct kept *entry = bytes < SIM_UNIT_BYTES ? malloc(sizeof(*entry)) : NULL;

    pthread_mutex_lock(&kept_lock);
    bool keep = entry && bytes <= KEPT_BYTES_MAX - kept_bytes;
    if (keep) {
        *entry = (struct kept){kept_first, pages, bytes, kind};
        kept_first = entry;
        kept_bytes += bytes;
    }
    pthread_mutex_unlock(&kept_lock);
    if (keep)
        return;
    munmap(pages, bytes);
    free(entry);
}

/* Kept pages of that kind and size; NULL if there are none. */
static void *take_pages(enum sim_memory_kind kind, size_t bytes)
{
    struct kept **link = &kept_first, *entry;
    void *pages = NULL;

    pthread_mutex_lock(&kept_lock);
    while (*link && ((*link)->kind != kind || (*link)->bytes != bytes))
        link = &(*link)->next;
    entry = *link;
    if (entry) {
        pages = entry->pages;
        kept_bytes -= bytes;
        *link = entry->next;
    }
    pthread_mutex_unlock(&kept_lock);
    free(entry);
    return pages;
}

void sim_memory_ref(struct sim_alloc *alloc)
{
    atomic_fetch_add_explicit(&alloc->refs, 1, memory_order_relaxed);
}

void sim_memory_unref(struct sim_alloc *alloc)
{
    if (atomic_fetch_sub_explicit(&alloc->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (alloc->kind == SIM_MEMORY_PINNED || alloc->kind == SIM_MEMORY_MANAGED)
        give_pages(alloc->kind, (void *)alloc->base, alloc->block_bytes);
    sim_order_forget(alloc);
    if (alloc->range)
        sim_range_destroy(alloc);
    sim_advice_destroy(alloc);
    free(alloc->graph);
    free(alloc->import);
    free(alloc);
}

/* Index of the first entry that ends behind the address. Needs host_lock. */
static size_t lower_bound(uintptr_t address)
{
    size_t low = 0;
    size_t high = entry_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (entries[middle]->base + entries[middle]->bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool make_room(void)
{
    if (entry_count < entry_room)
        return true;
    size_t room = entry_room ? entry_room * 2 : 64;
    struct sim_alloc **grown = realloc(entries, room * sizeof(struct sim_alloc *));
    if (!grown)
        return false;
    entries = grown;
    entry_room = room;
    return true;
}

static CUresult insert(struct sim_alloc *alloc)
{
    CUresult res = CUDA_ERROR_OUT_OF_MEMORY;

    pthread_mutex_lock(&host_lock);
    size_t at = lower_bound(alloc->base);
    if (at < entry_count && entries[at]->base < alloc->base + alloc->bytes) {
        res = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    } else if (make_room()) {
        memmove(&entries[at + 1], &entries[at],
                (entry_count - at) * sizeof(struct sim_alloc *));
        entries[at] = alloc;
        entry_count++;
        res = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&host_lock);
    return res;
}

/* Fresh zeroed pages, 2 MiB aligned from 2 MiB on. NULL if there are none. */
static void *map_pages(size_t bytes)
{
    size_t align = bytes >= SIM_UNIT_BYTES ? SIM_UNIT_BYTES : 0;
    unsigned char *area = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (area == MAP_FAILED)
        return NULL;
    if (!align)
        return area;
    size_t head = gs_round_up((uintptr_t)area, align) - (uintptr_t)area;
    if (head)
        munmap(area, head);
    if (align - head)
        munmap(area + head + bytes, align - head);
    return area + head;
}

static bool more_than_host(size_t bytes)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);

    return pages > 0 && page > 0 && bytes / (size_t)page >= (size_t)pages;
}

CUresult sim_host_create(enum sim_memory_kind kind, void *pages, size_t bytes,
                         unsigned flags, int device, struct sim_context *context,
                         uint64_t context_id, struct sim_alloc **out)
{
    bool own = kind != SIM_MEMORY_REGISTERED;

    if (own && more_than_host(bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_alloc *alloc = calloc(1, sizeof(*alloc));
    if (!alloc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_init(&alloc->refs, 2); /* the map's and the caller's */
    atomic_init(&alloc->state, SIM_MEMORY_LIVE);
    alloc->kind = kind;
    alloc->bytes = bytes;
    alloc->block_bytes = own ? gs_round_up(bytes, (size_t)sysconf(_SC_PAGESIZE)) : bytes;
    alloc->id = sim_memory_next_id();
    alloc->flags = flags;
    alloc->device = device;
    alloc->context = context;
    alloc->context_id = context_id;
    if (own)
        pages = take_pages(kind, alloc->block_bytes);
    if (!pages)
        pages = map_pages(alloc->block_bytes);
    if (!pages) {
        free(alloc);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    alloc->base = (uintptr_t)pages;
    CUresult res = insert(alloc);
    if (res != CUDA_SUCCESS) {
        sim_memory_unref(alloc);
        sim_memory_unref(alloc);
        return res;
    }
    sim_order_handed_out(alloc, NULL);
    *out = alloc;
    return CUDA_SUCCESS;
}

/* Take the entry at an index out. Needs host_lock. */
static void take_out(size_t at)
{
    sim_order_ended(entries[at]);
    atomic_store_explicit(&entries[at]->state, SIM_MEMORY_DEAD, memory_order_release);
    entry_count--;
    memmove(&entries[at], &entries[at + 1],
            (entry_count - at) * sizeof(struct sim_alloc *));
}

bool sim_host_remove(struct sim_alloc *alloc)
{
    pthread_mutex_lock(&host_lock);
    size_t at = lower_bound(alloc->base);
    bool found = at < entry_count && entries[at] == alloc;
    if (found)
        take_out(at);
    pthread_mutex_unlock(&host_lock);
    if (found)
        sim_memory_unref(alloc);
    return found;
}

void sim_host_remove_context(const struct sim_context *context, uint64_t context_id)
{
    size_t at = 0;

    pthread_mutex_lock(&host_lock);
    while (at < entry_count) {
        struct sim_alloc *alloc = entries[at];
        if (alloc->context != context || alloc->context_id != context_id) {
            at++;
            continue;
        }
        take_out(at);
        sim_memory_unref(alloc);
    }
    pthread_mutex_unlock(&host_lock);
}

struct sim_alloc *sim_host_find(uintptr_t address)
{
    struct sim_alloc *alloc = NULL;

    pthread_mutex_lock(&host_lock);
    size_t at = lower_bound(address);
    if (at < entry_count && entries[at]->base <= address) {
        alloc = entries[at];
        sim_memory_ref(alloc);
    }
    pthread_mutex_unlock(&host_lock);
    return alloc;
}
