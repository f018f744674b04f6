/*
 * pool_pager.c - virtual memory management over the counting device. See pool_pager.h.
 */
#include "pool_pager.h"

#include <criterion/criterion.h>

#include "pool/lock.h"

static void note(struct pager *pager, const char *what)
{
    if (!pager->fake->broken)
        pager->fake->broken = what;
}

/* Every entry. Returns whether the call is to fail. */
static bool enter(struct pager *pager)
{
    if (!gs_lock_none_held())
        note(pager, "a lock was held during a call that changes pages");
    pthread_mutex_lock(&pager->fake->lock);
    return ++pager->calls == pager->fail_at;
}

static bool leave(struct pager *pager, bool done)
{
    pthread_mutex_unlock(&pager->fake->lock);
    return done;
}

static bool meet(uint64_t addr, size_t bytes, uint64_t other, size_t other_bytes)
{
    return addr < other + other_bytes && other < addr + bytes;
}

static enum gs_status create(void *self, size_t bytes, uint64_t *handle, int *native)
{
    struct pager *pager = self;
    struct fake *fake = pager->fake;
    bool fits = !enter(pager) && bytes <= fake->capacity - fake->mapped_bytes;
    size_t at = 1;

    if (!bytes || bytes % GS_LARGE_BYTES)
        note(pager, "a piece is no multiple of 2 MiB");
    while (at < PAGER_PIECES && pager->pieces[at].bytes)
        at++;
    if (fits && at < PAGER_PIECES) {
        pager->pieces[at] = (struct pager_piece){.bytes = bytes};
        pager->top = at < pager->top ? pager->top : at + 1;
        *handle = at;
        pager->creates++;
        fake->mapped_bytes += bytes;
        if (fake->mapped_bytes > fake->mapped_peak)
            fake->mapped_peak = fake->mapped_bytes;
    }
    *native = FAKE_NATIVE;
    return leave(pager, fits) ? GS_OK : GS_ERR_NOMEM;
}

static void release(void *self, uint64_t handle, size_t bytes)
{
    struct pager *pager = self;

    (void)enter(pager);
    if (handle >= PAGER_PIECES || pager->pieces[handle].bytes != bytes || !bytes)
        note(pager, "a piece was released that is none");
    else if (pager->pieces[handle].addr)
        note(pager, "a piece was released while it was mapped");
    else
        pager->fake->mapped_bytes -= bytes;
    pager->pieces[handle % PAGER_PIECES] = (struct pager_piece){0};
    pager->releases++;
    (void)leave(pager, true);
}

static bool reserve(void *self, size_t bytes, uint64_t *addr)
{
    struct pager *pager = self;
    bool done = !enter(pager) && pager->reserved_count < GS_ARRAY_LEN(pager->reserved);

    *addr = pager->base;
    for (size_t i = 0; done && i < pager->reserved_count; i++) {
        if (!meet(*addr, bytes, pager->reserved[i].addr, pager->reserved[i].bytes))
            continue;
        *addr = pager->reserved[i].addr + pager->reserved[i].bytes;
        i = (size_t)-1;
    }
    done = done && (!pager->end || *addr + bytes <= pager->end);
    if (done)
        pager->reserved[pager->reserved_count++] = (struct pager_range){*addr, bytes};
    return leave(pager, done);
}

static void unreserve(void *self, uint64_t addr, size_t bytes)
{
    struct pager *pager = self;
    size_t at = 0;

    (void)enter(pager);
    for (size_t i = 1; i < pager->top; i++)
        if (pager->pieces[i].addr &&
            meet(addr, bytes, pager->pieces[i].addr, pager->pieces[i].bytes))
            note(pager, "addresses were given back that are mapped");
    while (at < pager->reserved_count && pager->reserved[at].addr != addr)
        at++;
    if (at == pager->reserved_count || pager->reserved[at].bytes != bytes)
        note(pager, "addresses were given back that were not reserved so");
    else
        pager->reserved[at] = pager->reserved[--pager->reserved_count];
    (void)leave(pager, true);
}

static bool map(void *self, uint64_t addr, size_t bytes, uint64_t handle)
{
    struct pager *pager = self;
    bool done = !enter(pager), inside = false;

    for (size_t i = 0; i < pager->reserved_count; i++)
        inside |= addr >= pager->reserved[i].addr &&
                  addr + bytes <= pager->reserved[i].addr + pager->reserved[i].bytes;
    if (!inside)
        note(pager, "memory was mapped outside what is reserved");
    for (size_t i = 1; i < pager->top; i++)
        if (pager->pieces[i].addr &&
            meet(addr, bytes, pager->pieces[i].addr, pager->pieces[i].bytes))
            note(pager, "memory was mapped over other memory");
    if (pager->pieces[handle].bytes != bytes || pager->pieces[handle].addr)
        note(pager, "a piece was mapped in part, or twice");
    if (done) {
        pager->pieces[handle].addr = addr;
        pager->pieces[handle].allowed = false;
        pager->maps++;
    }
    return leave(pager, done);
}

static bool unmap(void *self, uint64_t addr, size_t bytes)
{
    struct pager *pager = self;
    bool done = !enter(pager);
    size_t found = 0;

    for (size_t i = 1; i < pager->top; i++) {
        struct pager_piece *piece = &pager->pieces[i];

        if (!piece->addr || !meet(addr, bytes, piece->addr, piece->bytes))
            continue;
        if (piece->addr < addr || piece->addr + piece->bytes > addr + bytes)
            note(pager, "a part of a piece was unmapped");
        found += piece->bytes;
        if (done)
            piece->addr = 0;
    }
    if (found != bytes)
        note(pager, "addresses were unmapped that hold no memory");
    pager->unmaps += done;
    return leave(pager, done);
}

static bool allow(void *self, uint64_t addr, size_t bytes)
{
    struct pager *pager = self;
    bool done = !enter(pager);
    size_t found = 0;

    for (size_t i = 1; i < pager->top; i++) {
        struct pager_piece *piece = &pager->pieces[i];

        if (!piece->addr || piece->addr < addr || piece->addr >= addr + bytes)
            continue;
        found += piece->bytes;
        piece->allowed |= done;
    }
    if (found != bytes)
        note(pager, "access was allowed to what holds no memory");
    pager->allows += done;
    return leave(pager, done);
}

static bool quiet(void *self)
{
    const struct pager *pager = self;

    return !pager->fake->busy;
}

const struct gs_page_ops pager_ops = {.create = create,
                                      .release = release,
                                      .reserve = reserve,
                                      .unreserve = unreserve,
                                      .map = map,
                                      .unmap = unmap,
                                      .allow = allow,
                                      .quiet = quiet};

void pager_init(struct pager *pager, struct fake *fake, uint64_t base, size_t arena_bytes)
{
    *pager = (struct pager){.fake = fake, .base = base};
    if (gs_page_store_create(&pager_ops, pager, arena_bytes, &pager->store) != GS_OK)
        note(pager, "no page store");
}

void pager_fini(struct pager *pager)
{
    gs_page_store_destroy(pager->store);
}

void pager_end(struct pager *pager, struct bed *bed)
{
    gs_pool_trim(bed->pool, -1, SIZE_MAX);
    cr_assert_eq(bed->fake.mapped_bytes, 0);
    gs_page_store_give_all(pager->store);
    bed_fini(bed);
    pager_fini(pager);
}

bool pager_is_mapped(struct pager *pager, uint64_t addr, size_t bytes)
{
    size_t found = 0;

    pthread_mutex_lock(&pager->fake->lock);
    for (size_t i = 1; i < pager->top; i++) {
        const struct pager_piece *piece = &pager->pieces[i];

        if (piece->addr && piece->allowed && piece->addr >= addr &&
            piece->addr + piece->bytes <= addr + bytes)
            found += piece->bytes;
    }
    pthread_mutex_unlock(&pager->fake->lock);
    return found == bytes;
}

size_t pager_count(const struct pager *pager)
{
    size_t count = 0;

    for (size_t i = 1; i < pager->top; i++)
        count += pager->pieces[i].bytes != 0;
    return count;
}
