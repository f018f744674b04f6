/*
 * caches.h - part of gpushim_memory.h: caches of buffers, and read-back through
 * reused pinned memory.
 */
#ifndef GPUSHIM_MEMORY_CACHES_H
#define GPUSHIM_MEMORY_CACHES_H

#ifndef GPUSHIM_MEMORY_H
#error "include gpushim_memory.h"
#endif

/* ---- caches of buffers ----------------------------------------------------------- */

/* An idle buffer: internal. */
struct gpushim_idle_ {
    struct gpushim_key_ *key;
    struct gpushim_idle_ *next, *previous; /* of the key */
    struct gpushim_idle_ *newer, *older;   /* of all keys */
    struct gpushim_buffer buffer;
};

/* A key, while it has idle buffers: internal. */
struct gpushim_key_ {
    struct gpushim_key_ *next;  /* of the bucket */
    struct gpushim_idle_ *idle; /* the last given first */
    size_t count;               /* idle buffers, and those that are being freed */
    size_t hash, bytes;
    /* The key's bytes follow. */
};

/*
 * Buffers for reuse, by key: bytes that say what a buffer is for, such as type, slots and
 * operation of a reduction. Begin with gpushim_cache_create; do not move the struct. A
 * program may read the counters.
 */
struct gpushim_cache {
    gpushim_place place;
    size_t most;  /* idle buffers a key */
    size_t limit; /* bytes, taken and idle; 0: none */
    uint64_t hits, misses;
    size_t held_bytes, idle_count;
    /* Internal. */
    struct gpushim_key_ **buckets;
    size_t bucket_count, key_count;
    struct gpushim_idle_ *newest, *oldest; /* given last, and first */
    unsigned char lock;
};

/*
 * Begins a cache.
 * In:     most   idle buffers a key that it keeps, from 1
 *         limit  the most bytes of all its buffers, taken or idle; 0: no limit
 */
static inline gpushim_result gpushim_cache_create(struct gpushim_cache *out,
                                                  gpushim_place place, size_t most,
                                                  size_t limit)
{
    if (!out || !most || !gpushim_is_place_(place, 0, 0)) {
        return GPUSHIM_INVALID;
    }
    memset(out, 0, sizeof(*out));
    out->place = place;
    out->most = most;
    out->limit = limit;
    return GPUSHIM_OK;
}

static inline size_t gpushim_hash_(const void *key, size_t bytes)
{
    const unsigned char *next = (const unsigned char *)key, *end = next + bytes;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */

    while (next < end) {
        hash = (hash ^ *next++) * 0x100000001b3u;
    }
    return (size_t)(hash ^ hash >> 32);
}

/* The key's link in its bucket, or that bucket's end. The lock is held. */
static inline struct gpushim_key_ **
gpushim_find_key_(struct gpushim_cache *cache, size_t hash, const void *key, size_t bytes)
{
    struct gpushim_key_ **link = &cache->buckets[hash & (cache->bucket_count - 1)];

    while (*link && ((*link)->hash != hash || (*link)->bytes != bytes ||
                     memcmp(*link + 1, key, bytes) != 0)) {
        link = &(*link)->next;
    }
    return link;
}

/* As many buckets as keys, or as before without host memory. The lock is held. */
static inline void gpushim_grow_buckets_(struct gpushim_cache *cache)
{
    size_t count = cache->bucket_count ? 2 * cache->bucket_count : 8, i;
    struct gpushim_key_ **buckets, *key;

    if (cache->key_count < cache->bucket_count) {
        return;
    }
    buckets = (struct gpushim_key_ **)calloc(count, sizeof(*buckets));
    if (!buckets) {
        return;
    }
    for (i = 0; i < cache->bucket_count; i++) {
        while ((key = cache->buckets[i]) != NULL) {
            cache->buckets[i] = key->next;
            key->next = buckets[key->hash & (count - 1)];
            buckets[key->hash & (count - 1)] = key;
        }
    }
    free(cache->buckets);
    cache->buckets = buckets;
    cache->bucket_count = count;
}

/* The key, made if it is new; NULL: no host memory. The lock is held. */
static inline struct gpushim_key_ *gpushim_make_key_(struct gpushim_cache *cache,
                                                     const void *key, size_t bytes)
{
    size_t hash = gpushim_hash_(key, bytes);
    struct gpushim_key_ **link, *made;

    gpushim_grow_buckets_(cache);
    if (!cache->buckets) {
        return NULL;
    }
    link = gpushim_find_key_(cache, hash, key, bytes);
    if (*link) {
        return *link;
    }
    made = (struct gpushim_key_ *)malloc(sizeof(*made) + bytes);
    if (made) {
        memset(made, 0, sizeof(*made));
        made->hash = hash;
        made->bytes = bytes;
        memcpy(made + 1, key, bytes);
        *link = made;
        cache->key_count++;
    }
    return made;
}

/* One idle buffer of the key less. The lock is held. */
static inline void gpushim_uncount_(struct gpushim_cache *cache, struct gpushim_key_ *key)
{
    struct gpushim_key_ **link;

    if (--key->count == 0) {
        link = gpushim_find_key_(cache, key->hash, key + 1, key->bytes);
        *link = key->next;
        cache->key_count--;
        free(key);
    }
}

/* Adds an idle buffer to its key and to all. The lock is held. */
static inline void gpushim_link_idle_(struct gpushim_cache *cache,
                                      struct gpushim_idle_ *idle)
{
    idle->previous = idle->newer = NULL;
    idle->next = idle->key->idle;
    idle->older = cache->newest;
    if (idle->next) {
        idle->next->previous = idle;
    }
    if (idle->older) {
        idle->older->newer = idle;
    } else {
        cache->oldest = idle;
    }
    idle->key->idle = cache->newest = idle;
    cache->idle_count++;
}

/* The key still counts it. The lock is held. */
static inline void gpushim_unlink_idle_(struct gpushim_cache *cache,
                                        struct gpushim_idle_ *idle)
{
    *(idle->previous ? &idle->previous->next : &idle->key->idle) = idle->next;
    *(idle->newer ? &idle->newer->older : &cache->newest) = idle->older;
    *(idle->older ? &idle->older->newer : &cache->oldest) = idle->newer;
    if (idle->next) {
        idle->next->previous = idle->previous;
    }
    cache->idle_count--;
}

/* An idle buffer of the key, memory of the context, that is large enough; NULL: none. The
 * lock is held. */
static inline struct gpushim_idle_ *gpushim_find_idle_(struct gpushim_cache *cache,
                                                       const void *key, size_t key_bytes,
                                                       const void *context, size_t bytes)
{
    struct gpushim_key_ *found =
        cache->key_count
            ? *gpushim_find_key_(cache, gpushim_hash_(key, key_bytes), key, key_bytes)
            : NULL;
    struct gpushim_idle_ *idle = found ? found->idle : NULL;

    while (idle && ((context && idle->buffer.context != context) ||
                    idle->buffer.capacity < bytes)) {
        idle = idle->next;
    }
    return idle;
}

/* Frees idle buffers not used for `seconds`, the oldest first, until `enough` bytes went.
 */
static inline gpushim_result gpushim_cache_drop_(struct gpushim_cache *cache,
                                                 uint64_t seconds, size_t enough,
                                                 size_t *freed)
{
    struct gpushim_idle_ *idle;
    gpushim_result result = GPUSHIM_OK;
    size_t gone = 0;

    while (gone < enough && result == GPUSHIM_OK) {
        gpushim_lock_(&cache->lock);
        idle = cache->oldest;
        if (!idle || (seconds && !gpushim_is_old_(&idle->buffer, seconds))) {
            gpushim_unlock_(&cache->lock);
            break;
        }
        gpushim_unlink_idle_(cache, idle);
        gpushim_unlock_(&cache->lock);
        result = gpushim_release_(&idle->buffer);
        gpushim_lock_(&cache->lock);
        if (result == GPUSHIM_OK) {
            gone += idle->buffer.charged;
            cache->held_bytes -= idle->buffer.charged;
            gpushim_uncount_(cache, idle->key);
        } else {
            gpushim_link_idle_(cache, idle);
            idle = NULL;
        }
        gpushim_unlock_(&cache->lock);
        free(idle);
    }
    if (freed) {
        *freed = gone;
    }
    return result;
}

/*
 * Takes a buffer of `bytes`: an idle one of the key that is large enough (a hit), or a
 * new one. Its contents are undefined. Each buffer taken must be returned with
 * gpushim_cache_give.
 * Errors: as of gpushim_buffer_create. NO_MEMORY also at the cache's limit; idle buffers
 *         are freed first.
 */
static inline gpushim_result gpushim_cache_take(struct gpushim_cache *cache,
                                                const void *key, size_t key_bytes,
                                                size_t bytes, struct gpushim_buffer *out)
{
    const struct gpushim_calls_ *cuda;
    struct gpushim_idle_ *idle;
    void *context = NULL;
    size_t beyond;
    gpushim_result result;

    if (!cache || !cache->most || !key || !key_bytes || !bytes || !out) {
        return GPUSHIM_INVALID;
    }
    if (cache->place == GPUSHIM_DEVICE || cache->place == GPUSHIM_MANAGED) {
        result = gpushim_cuda_(&cuda);
        if (result == GPUSHIM_OK) {
            result = gpushim_from_cuda_(cuda->context_get(&context));
        }
        if (result != GPUSHIM_OK) {
            return result;
        }
    }
    if (bytes > SIZE_MAX / 2 || (cache->limit && bytes > cache->limit)) {
        return GPUSHIM_NO_MEMORY;
    }
    gpushim_lock_(&cache->lock);
    idle = gpushim_find_idle_(cache, key, key_bytes, context, bytes);
    if (idle) {
        gpushim_unlink_idle_(cache, idle);
        gpushim_uncount_(cache, idle->key);
        (void)__atomic_add_fetch(&cache->hits, 1,
                                 __ATOMIC_RELAXED); /* read without the lock */
        gpushim_unlock_(&cache->lock);
        *out = idle->buffer;
        out->bytes = bytes;
        gpushim_used_(out);
        free(idle);
        return GPUSHIM_OK;
    }
    (void)__atomic_add_fetch(&cache->misses, 1, __ATOMIC_RELAXED);
    cache->held_bytes += bytes; /* also keeps other threads below the limit */
    beyond = cache->limit && cache->held_bytes > cache->limit
                 ? cache->held_bytes - cache->limit
                 : 0;
    gpushim_unlock_(&cache->lock);
    result = GPUSHIM_OK;
    if (beyond) {
        size_t freed;
        result = gpushim_cache_drop_(cache, 0, beyond, &freed);
        if (result == GPUSHIM_OK && freed < beyond) {
            result = GPUSHIM_NO_MEMORY;
        }
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_buffer_create(out, cache->place, bytes, 0, 0);
        if (result == GPUSHIM_NO_MEMORY) {
            (void)gpushim_cache_drop_(cache, 0, SIZE_MAX, NULL);
            result = gpushim_buffer_create(out, cache->place, bytes, 0, 0);
        }
    }
    if (result == GPUSHIM_OK) {
        out->charged = bytes;
        out->cache = cache;
    } else {
        gpushim_lock_(&cache->lock);
        cache->held_bytes -= bytes;
        gpushim_unlock_(&cache->lock);
    }
    return result;
}

/*
 * Returns a buffer to the cache it came from, under any key. The cache keeps it for the
 * next take, or frees it if the key has its maximum. *buffer becomes a freed buffer. Work
 * that uses the memory must be complete, or ordered before the work of the next take.
 * Errors: as above. INVALID also of a buffer that did not come from this cache. CUDA: the
 *         buffer is still the caller's.
 */
static inline gpushim_result gpushim_cache_give(struct gpushim_cache *cache,
                                                const void *key, size_t key_bytes,
                                                struct gpushim_buffer *buffer)
{
    struct gpushim_key_ *kept = NULL;
    struct gpushim_idle_ *idle;
    size_t charged;
    gpushim_result result = GPUSHIM_OK;

    if (!cache || !key || !key_bytes || !buffer || !buffer->data ||
        buffer->cache != cache || (buffer->flags & GPUSHIM_VIEW) ||
        key_bytes > SIZE_MAX - sizeof(*kept)) {
        return GPUSHIM_INVALID;
    }
    idle = (struct gpushim_idle_ *)malloc(sizeof(*idle));
    if (idle) {
        idle->buffer = *buffer;
        gpushim_used_(&idle->buffer);
    }
    gpushim_lock_(&cache->lock);
    if (idle && cache->most) {
        kept = gpushim_make_key_(cache, key, key_bytes);
    }
    if (kept && kept->count < cache->most) {
        kept->count++;
        idle->key = kept;
        gpushim_link_idle_(cache, idle);
        idle = NULL;
        memset(buffer, 0, sizeof(*buffer));
    }
    gpushim_unlock_(&cache->lock);
    if (buffer->data) {
        charged = buffer->charged;
        result = gpushim_buffer_free(buffer);
        if (result == GPUSHIM_OK) {
            gpushim_lock_(&cache->lock);
            cache->held_bytes -= charged;
            gpushim_unlock_(&cache->lock);
        }
        free(idle);
    }
    return result;
}

/* Frees the buffers that have been idle for `seconds`. Out: *freed, their bytes; may be
 * NULL. */
static inline gpushim_result gpushim_cache_trim(struct gpushim_cache *cache,
                                                uint64_t seconds, size_t *freed)
{
    return cache ? gpushim_cache_drop_(cache, seconds, SIZE_MAX, freed) : GPUSHIM_INVALID;
}

/* Destroys the cache and its idle buffers. gpushim_cache_take then returns INVALID, and
 * gpushim_cache_give frees. Idempotent. */
static inline gpushim_result gpushim_cache_free(struct gpushim_cache *cache)
{
    gpushim_result result;

    if (!cache) {
        return GPUSHIM_INVALID;
    }
    gpushim_lock_(&cache->lock);
    cache->most = 0;
    gpushim_unlock_(&cache->lock);
    result = gpushim_cache_drop_(cache, 0, SIZE_MAX, NULL);
    gpushim_lock_(&cache->lock);
    if (!cache->key_count) {
        free(cache->buckets);
        cache->buckets = NULL;
        cache->bucket_count = 0;
    }
    gpushim_unlock_(&cache->lock);
    return result;
}

/* The share of takes that reused a buffer, 0 to 1; 1 without any take, or cache (NULL).
 */
static inline double gpushim_cache_hit_rate(const struct gpushim_cache *cache)
{
    uint64_t hits = cache ? __atomic_load_n(&cache->hits, __ATOMIC_RELAXED) : 0;
    uint64_t takes = cache ? hits + __atomic_load_n(&cache->misses, __ATOMIC_RELAXED) : 0;
    return takes ? (double)hits / (double)takes : 1.0;
}

/* ---- read-back through reused pinned memory -------------------------------------- */

/* A read-back under way. Begin with gpushim_readback_start. */
struct gpushim_readback {
    struct gpushim_buffer data; /* pinned; internal until the read-back is complete */
    struct gpushim_cache *cache;
    void *event;
    size_t class_bytes;
    int complete;
};

/* Waits, and returns the pinned buffer to the cache. Idempotent. After CUDA the read-back
 * has ended, too: its buffer is freed, since its copy may still run. */
static inline gpushim_result gpushim_readback_end(struct gpushim_readback *readback)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;

    if (!readback) {
        return GPUSHIM_INVALID;
    }
    if (!readback->event) {
        return GPUSHIM_OK;
    }
    result = gpushim_cuda_(&cuda);
    if (result == GPUSHIM_OK) {
        if (!readback->complete) {
            result = gpushim_from_cuda_(cuda->event_sync(readback->event));
        }
        (void)cuda->event_destroy(readback->event);
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_cache_give(readback->cache, &readback->class_bytes,
                                    sizeof(readback->class_bytes), &readback->data);
    } else {
        size_t charged = readback->data.charged;
        (void)gpushim_buffer_free(&readback->data);
        gpushim_lock_(&readback->cache->lock);
        readback->cache->held_bytes -= charged;
        gpushim_unlock_(&readback->cache->lock);
    }
    memset(readback, 0, sizeof(*readback));
    return result;
}

/*
 * Starts to read a part of a buffer, after the stream's work. The thread does not wait.
 * In:     cache  of GPUSHIM_PINNED_HOST; its limit caps the pinned memory, and its hit
 *                rate is the reuse rate
 * Out:    *out  end it with gpushim_readback_end, before the cache ends
 * Errors: as of gpushim_cache_take; nothing is under way then
 */
static inline gpushim_result gpushim_readback_start(struct gpushim_readback *out,
                                                    struct gpushim_cache *cache,
                                                    struct gpushim_buffer *src,
                                                    size_t offset, size_t bytes,
                                                    void *stream)
{
    const struct gpushim_calls_ *cuda;
    struct gpushim_readback readback;
    void *queue = stream == GPUSHIM_SYNC ? NULL : stream;
    gpushim_result result;
    int code;

    if (!out || !cache || cache->place != GPUSHIM_PINNED_HOST || !cache->most ||
        !gpushim_has_(src, offset, bytes) || bytes > SIZE_MAX / 2) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    memset(&readback, 0, sizeof(readback));
    readback.cache = cache;
    /* Powers of two, so that reads of similar sizes reuse each other's buffers. */
    for (readback.class_bytes = 4096; readback.class_bytes < bytes;) {
        readback.class_bytes *= 2;
    }
    code = cuda->event_create(&readback.event, GPUSHIM_CU_NO_TIMING_);
    if (code) {
        return gpushim_from_cuda_(code);
    }
    result =
        gpushim_cache_take(cache, &readback.class_bytes, sizeof(readback.class_bytes),
                           readback.class_bytes, &readback.data);
    if (result != GPUSHIM_OK) {
        (void)cuda->event_destroy(readback.event);
        return result;
    }
    readback.data.bytes = bytes;
    result = gpushim_buffer_copy(&readback.data, 0, src, offset, bytes, queue);
    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(cuda->event_record(readback.event, queue));
        if (result == GPUSHIM_OK && stream == GPUSHIM_SYNC) {
            result = gpushim_from_cuda_(cuda->event_sync(readback.event));
            readback.complete = result == GPUSHIM_OK;
        }
        if (result != GPUSHIM_OK) {
            (void)cuda->stream_sync(queue); /* the copy uses the buffer */
        }
    }
    if (result != GPUSHIM_OK) {
        readback.complete = 1;
        (void)gpushim_readback_end(&readback);
        return result;
    }
    *out = readback;
    return GPUSHIM_OK;
}

/* Is it complete? Does not wait. Out: *ready, 0 or 1. */
static inline gpushim_result gpushim_readback_poll(struct gpushim_readback *readback,
                                                   int *ready)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;
    int code = 0;

    if (!readback || !readback->event || !ready) {
        return GPUSHIM_INVALID;
    }
    if (!readback->complete) {
        result = gpushim_cuda_(&cuda);
        if (result != GPUSHIM_OK) {
            return result;
        }
        code = cuda->event_query(readback->event);
        readback->complete = code == 0;
    }
    *ready = readback->complete;
    return code == GPUSHIM_CU_NOT_READY_ ? GPUSHIM_OK : gpushim_from_cuda_(code);
}

/* Waits until it is complete. */
static inline gpushim_result gpushim_readback_wait(struct gpushim_readback *readback)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;

    if (!readback || !readback->event) {
        return GPUSHIM_INVALID;
    }
    result = readback->complete ? GPUSHIM_OK : gpushim_cuda_(&cuda);
    if (result == GPUSHIM_OK && !readback->complete) {
        result = gpushim_from_cuda_(cuda->event_sync(readback->event));
        readback->complete = result == GPUSHIM_OK;
    }
    return result;
}

/* A range of the data, until gpushim_readback_end. INVALID also until a poll or a
 * wait has found the read-back complete. */
static inline gpushim_result
gpushim_readback_range(const struct gpushim_readback *readback, size_t offset,
                       size_t bytes, const void **out)
{
    if (!readback || !readback->complete || !out ||
        !gpushim_has_(&readback->data, offset, bytes)) {
        return GPUSHIM_INVALID;
    }
    *out = gpushim_at_(&readback->data, offset);
    return GPUSHIM_OK;
}

/*
 * Called for each chunk, in order, on the thread that began. `chunk` is valid until the
 * callback returns, or, of gpushim_read_file, for the work that it queues in `stream`.
 * In:     offset  of the chunk in the source
 * Returns: GPUSHIM_OK to go on; anything else ends the transfer, and is its result
 */
typedef gpushim_result (*gpushim_each_chunk)(void *user, struct gpushim_buffer *chunk,
                                             uint64_t offset, void *stream);

/*
 * Reads a part of a buffer in chunks: while the callback has one in pinned memory, the
 * next is copied. Use a stream of its own, ordered after the work that writes the buffer.
 * In:     cache  as of gpushim_readback_start; it must have room for two chunks, rounded
 *                up to powers of 2
 * Errors: as of gpushim_readback_start, and what the callback returned
 */
static inline gpushim_result gpushim_read_back(struct gpushim_cache *cache,
                                               struct gpushim_buffer *src, size_t offset,
                                               size_t bytes, size_t chunk_bytes,
                                               void *stream, gpushim_each_chunk each,
                                               void *user)
{
    struct gpushim_readback turns[2];
    void *queue = stream == GPUSHIM_SYNC ? NULL : stream;
    size_t started = 0, given = 0, now, i;
    gpushim_result result = GPUSHIM_OK;

    if (!cache || !each || !chunk_bytes || !gpushim_has_(src, offset, bytes)) {
        return GPUSHIM_INVALID;
    }
    memset(turns, 0, sizeof(turns));
    for (i = 0; given < bytes && result == GPUSHIM_OK; i++) {
        while (started < bytes && result == GPUSHIM_OK &&
               !turns[started / chunk_bytes % 2].event) {
            now = bytes - started < chunk_bytes ? bytes - started : chunk_bytes;
            result = gpushim_readback_start(&turns[started / chunk_bytes % 2], cache, src,
                                            offset + started, now, queue);
            started += result == GPUSHIM_OK ? now : 0;
        }
        if (result == GPUSHIM_OK) {
            result = gpushim_readback_wait(&turns[i % 2]);
        }
        if (result == GPUSHIM_OK) {
            now = turns[i % 2].data.bytes;
            result = each(user, &turns[i % 2].data, offset + given, queue);
            given += now;
        }
        if (result == GPUSHIM_OK) {
            result = gpushim_readback_end(&turns[i % 2]);
        }
    }
    for (i = 0; i < 2; i++) {
        gpushim_result ended = gpushim_readback_end(&turns[i]);
        result = result == GPUSHIM_OK ? ended : result;
    }
    return result;
}

#endif
