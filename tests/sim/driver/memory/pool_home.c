/*
 * pool_home.c - which pool of a location is current, and which is its default one.
 *
 * A device has both from the start. Of the host, its NUMA nodes and managed memory there
 * is an entry once somebody has asked for it.
 *
 * Owns:  the entries; a device's choice of current pool.
 * Lock:  homes_lock; device->lock for a device's choice.
 * Source: Driver API, cuMemGetDefaultMemPool, cuMemSetMemPool, cuMemPoolDestroy.
 */
#include <stdlib.h>

#include "device.h"
#include "pool.h"

struct entry {
    struct sim_pool_home home;     /* immutable */
    struct sim_pool *default_pool; /* immutable; with a reference */
    struct sim_pool *current;      /* homes_lock; with a reference */
    struct entry *next;            /* homes_lock */
};

static struct entry *entries; /* homes_lock; never freed */
static pthread_mutex_t homes_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_device(const struct sim_pool_home *home)
{
    return home->type == CU_MEM_LOCATION_TYPE_DEVICE && !home->managed;
}

/* Put a pool in another one's place. Needs the place's lock.
 * Out: what was there, to be dropped without locks */
static struct sim_pool *exchange(struct sim_pool **place, struct sim_pool *pool)
{
    struct sim_pool *before = *place;

    sim_object_ref(&pool->object);
    *place = pool;
    return before;
}

static struct entry *new_entry(const struct sim_pool_home *home)
{
    struct entry *entry = calloc(1, sizeof(*entry));

    if (!entry ||
        sim_pool_create_at(home, true, 0, &entry->default_pool) != CUDA_SUCCESS) {
        free(entry);
        return NULL;
    }
    entry->home = *home;
    sim_object_ref(&entry->default_pool->object);
    entry->current = entry->default_pool;
    entry->next = entries;
    entries = entry;
    return entry;
}

/* The entry of a location, made if there is none; NULL without memory. Needs homes_lock.
 */
static struct entry *entry_of(const struct sim_pool_home *home)
{
    struct entry *entry = entries;

    while (entry && !sim_pool_home_is_same(&entry->home, home))
        entry = entry->next;
    return entry ? entry : new_entry(home);
}

struct sim_pool *sim_pool_current(int ordinal)
{
    struct sim_device *device = sim_device_get(ordinal);

    pthread_mutex_lock(&device->lock);
    struct sim_pool *pool = device->current_pool;
    sim_object_ref(&pool->object);
    pthread_mutex_unlock(&device->lock);
    return pool;
}

CUresult sim_pool_find(const struct sim_pool_home *home, bool want_default,
                       struct sim_pool **out)
{
    if (is_device(home)) {
        *out = want_default ? sim_device_get(home->id)->default_pool
                            : sim_pool_current(home->id);
        if (want_default)
            sim_object_ref(&(*out)->object);
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&homes_lock);
    struct entry *entry = entry_of(home);
    if (entry) {
        *out = want_default ? entry->default_pool : entry->current;
        sim_object_ref(&(*out)->object);
    }
    pthread_mutex_unlock(&homes_lock);
    return entry ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void set_device(struct sim_device *device, struct sim_pool *pool)
{
    pthread_mutex_lock(&device->lock);
    struct sim_pool *before = exchange(&device->current_pool, pool);
    pthread_mutex_unlock(&device->lock);
    sim_pool_put(before);
}

CUresult sim_pool_make_current(const struct sim_pool_home *home, struct sim_pool *pool)
{
    if (is_device(home)) {
        set_device(sim_device_get(home->id), pool);
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&homes_lock);
    struct entry *entry = entry_of(home);
    struct sim_pool *before = entry ? exchange(&entry->current, pool) : NULL;
    pthread_mutex_unlock(&homes_lock);
    if (!entry)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_pool_put(before);
    return CUDA_SUCCESS;
}

static void unset_device(struct sim_device *device, const struct sim_pool *pool)
{
    struct sim_pool *before = NULL;

    pthread_mutex_lock(&device->lock);
    if (device->current_pool == pool)
        before = exchange(&device->current_pool, device->default_pool);
    pthread_mutex_unlock(&device->lock);
    if (before)
        sim_pool_put(before);
}

void sim_pool_unset_current(const struct sim_pool *pool)
{
    struct sim_pool *before = NULL;

    for (int i = 0; i < sim_device_count(); i++)
        unset_device(sim_device_get(i), pool);
    pthread_mutex_lock(&homes_lock);
    for (struct entry *entry = entries; entry; entry = entry->next) {
        if (entry->current == pool) /* in one entry at most: that of its own location */
            before = exchange(&entry->current, entry->default_pool);
    }
    pthread_mutex_unlock(&homes_lock);
    if (before)
        sim_pool_put(before);
}
