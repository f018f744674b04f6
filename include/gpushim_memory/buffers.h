/*
 * buffers.h - part of gpushim_memory.h: named buffers that grow, by type, under one limit.
 */
#ifndef GPUSHIM_MEMORY_BUFFERS_H
#define GPUSHIM_MEMORY_BUFFERS_H

#ifndef GPUSHIM_MEMORY_H
#error "include gpushim_memory.h"
#endif

/* How the buffers of one type are allocated, grow and are cleaned up. All 0: device
 * memory that grows by 1.5 without a limit; a clean-up may take it at once. */
struct gpushim_buffer_type {
    gpushim_place place;
    unsigned flags;        /* of gpushim_buffer_create */
    size_t alignment;      /* of gpushim_buffer_create */
    double growth;         /* a resize beyond the capacity multiplies it; 0: 1.5 */
    size_t limit;          /* maximum of one buffer; 0: none */
    uint64_t idle_seconds; /* a clean-up takes buffers that are unused for so long */
};

/* A buffer with its name: internal. */
struct gpushim_named_ {
    struct gpushim_named_ *next; /* of the bucket */
    size_t hash, type;
    size_t charged; /* its part of held_bytes */
    struct gpushim_buffer buffer;
    char name[128];
};

/*
 * Named buffers of several types with one limit over all. Begin with
 * gpushim_buffers_create; do not copy the struct. One thread at a time: a clean-up may
 * move any buffer. A program may read the counters, and set `limit`.
 */
struct gpushim_buffers {
    size_t limit;                  /* of held_bytes; 0: none */
    size_t held_bytes, peak_bytes; /* sum of the capacities: now, maximum */
    size_t count;                  /* buffers, with empty ones */
    uint64_t grown_count;          /* resizes of a buffer beyond its capacity */
    uint64_t refused_count;        /* requests with NO_MEMORY */
    uint64_t cleaned_bytes;        /* that clean-ups have freed */
    /* Internal. */
    struct gpushim_named_ **buckets;
    size_t bucket_count, type_count;
    struct gpushim_buffer_type *types;
};

struct gpushim_buffers_statistics {
    size_t held_bytes, peak_bytes; /* sum of the capacities: now, maximum */
    size_t used_bytes;             /* sum of the lengths */
    size_t count, empty_count;
    uint64_t grown_count, refused_count, cleaned_bytes; /* as of gpushim_buffers */
    double utilization; /* used_bytes / held_bytes; 1 if nothing is held */
};

static inline int gpushim_is_type_(const struct gpushim_buffer_type *type)
{
    return gpushim_is_place_(type->place, type->alignment,
                             type->flags & ~(unsigned)GPUSHIM_IN_PLACE) &&
           (!(type->flags & GPUSHIM_IN_PLACE) || type->place == GPUSHIM_DEVICE) &&
           (type->growth == 0 || (type->growth >= 1 && type->growth <= 16));
}

/*
 * Begins a set of named buffers.
 * In:     limit  maximum of the sum of the capacities; 0: none. A resize that moves data
 *                holds the old memory, too, until the data is copied.
 *         types, count  copied; the number of a type is its index. NULL, 0: one type,
 *                number 0, that is all 0
 * Errors: INVALID (a type's place, flags, alignment or growth, too), NO_MEMORY (host)
 */
static inline gpushim_result
gpushim_buffers_create(struct gpushim_buffers *out, size_t limit,
                       const struct gpushim_buffer_type *types, size_t count)
{
    size_t i, kept = count ? count : 1;
    struct gpushim_buffer_type *copy;

    if (!out || (!types && count) || kept > SIZE_MAX / sizeof(*copy)) {
        return GPUSHIM_INVALID;
    }
    for (i = 0; i < count; i++) {
        if (!gpushim_is_type_(&types[i])) {
            return GPUSHIM_INVALID;
        }
    }
    copy = (struct gpushim_buffer_type *)calloc(kept, sizeof(*copy));
    if (!copy) {
        return GPUSHIM_NO_MEMORY;
    }
    for (i = 0; i < count; i++) {
        copy[i] = types[i];
    }
    memset(out, 0, sizeof(*out));
    out->limit = limit;
    out->types = copy;
    out->type_count = kept;
    return GPUSHIM_OK;
}

/* ---- names: internal ---- */

/* Is it a set, and a name of 1 to 127 bytes? */
static inline int gpushim_is_named_(const struct gpushim_buffers *set, const char *name)
{
    return set && set->types && name && name[0] &&
           strlen(name) < sizeof(((struct gpushim_named_ *)0)->name);
}

/* The link to a name's buffer, or to its bucket's end; NULL: there are no buckets. */
static inline struct gpushim_named_ **gpushim_find_named_(struct gpushim_buffers *set,
                                                          const char *name)
{
    size_t hash = gpushim_hash_(name, strlen(name));
    struct gpushim_named_ **link;

    if (!set->buckets) {
        return NULL;
    }
    link = &set->buckets[hash & (set->bucket_count - 1)];
    while (*link && ((*link)->hash != hash || strcmp((*link)->name, name) != 0)) {
        link = &(*link)->next;
    }
    return link;
}

/* As many buckets as buffers, or as before without host memory; 0: there are none. */
static inline int gpushim_grow_names_(struct gpushim_buffers *set)
{
    size_t count = set->bucket_count ? 2 * set->bucket_count : 8, i;
    struct gpushim_named_ **buckets, *named;

    if (set->count < set->bucket_count) {
        return 1;
    }
    buckets = (struct gpushim_named_ **)calloc(count, sizeof(*buckets));
    if (!buckets) {
        return set->buckets != NULL;
    }
    for (i = 0; i < set->bucket_count; i++) {
        while ((named = set->buckets[i]) != NULL) {
            set->buckets[i] = named->next;
            named->next = buckets[named->hash & (count - 1)];
            buckets[named->hash & (count - 1)] = named;
        }
    }
    free(set->buckets);
    set->buckets = buckets;
    set->bucket_count = count;
    return 1;
}

/* Adds a name whose buffer has no memory yet; NULL: no host memory. */
static inline struct gpushim_named_ *gpushim_add_named_(struct gpushim_buffers *set,
                                                        const char *name, size_t type)
{
    struct gpushim_named_ *named = NULL, **link;

    if (gpushim_grow_names_(set)) {
        named = (struct gpushim_named_ *)malloc(sizeof(*named));
    }
    if (named) {
        memset(named, 0, sizeof(*named));
        memcpy(named->name, name, strlen(name) + 1);
        named->hash = gpushim_hash_(name, strlen(name));
        named->type = type;
        link = &set->buckets[named->hash & (set->bucket_count - 1)];
        named->next = *link;
        *link = named;
        set->count++;
    }
    return named;
}

/* Removes a name whose buffer has no memory. */
static inline void gpushim_remove_named_(struct gpushim_buffers *set,
                                         struct gpushim_named_ **link)
{
    struct gpushim_named_ *named = *link;

    *link = named->next;
    set->count--;
    free(named);
}

/* ---- bytes held: internal ---- */

/* Counts what a buffer holds now: its owner may have shrunk or freed it. Its own resize
 * stays within its capacity, so that it never exceeds the limit of the set. */
static inline void gpushim_charge_(struct gpushim_buffers *set,
                                   struct gpushim_named_ *named)
{
    struct gpushim_buffer *buffer = &named->buffer;
    size_t held = buffer->pages ? gpushim_mapped_(buffer->pages) : buffer->capacity;

    set->held_bytes = set->held_bytes - named->charged + held;
    named->charged = held;
    buffer->limit = buffer->capacity;
    if (set->held_bytes > set->peak_bytes) {
        set->peak_bytes = set->held_bytes;
    }
}

/* The most bytes that a buffer may hold next to the others. */
static inline size_t gpushim_room_(const struct gpushim_buffers *set,
                                   const struct gpushim_named_ *named)
{
    size_t others = set->held_bytes - named->charged;

    return !set->limit ? SIZE_MAX : others < set->limit ? set->limit - others : 0;
}

/* ---- clean-up ---- */

/* Which buffers a clean-up takes. A request that does not fit takes empty ones at once,
 * others when their type says. */
enum { GPUSHIM_CLEAN_IDLE_, GPUSHIM_CLEAN_ALL_, GPUSHIM_CLEAN_NEEDED_ };

/* Waits for the work of a buffer's context, which may still write what is to move. */
static inline gpushim_result gpushim_settle_(const struct gpushim_buffer *buffer)
{
    const struct gpushim_calls_ *cuda;
    void *before = NULL;
    gpushim_result result = gpushim_cuda_(&cuda);

    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(gpushim_enter_(cuda, buffer->context, &before));
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(cuda->context_sync());
        gpushim_leave_(cuda, buffer->context, before);
    }
    return result;
}

/* Frees an empty buffer, or memory beyond a length, where there is room to move. */
static inline gpushim_result gpushim_clean_one_(struct gpushim_buffer *buffer)
{
    gpushim_result result = GPUSHIM_OK;

    if (!buffer->bytes) {
        return gpushim_buffer_free(buffer);
    }
    if (buffer->capacity > buffer->bytes && !buffer->pages &&
        buffer->place != GPUSHIM_HOST) {
        result = gpushim_settle_(buffer);
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_buffer_shrink(buffer, 0, GPUSHIM_SYNC);
    }
    return result == GPUSHIM_NO_MEMORY ? GPUSHIM_OK : result;
}

static inline int gpushim_is_due_(const struct gpushim_buffers *set,
                                  struct gpushim_named_ *named, int which)
{
    return which == GPUSHIM_CLEAN_ALL_ ||
           (which == GPUSHIM_CLEAN_NEEDED_ && !named->buffer.bytes) ||
           gpushim_is_old_(&named->buffer, set->types[named->type].idle_seconds);
}

/* Cleans up until `enough` bytes are free: first empty buffers, then others. `kept`
 * stays as it is. */
static inline gpushim_result gpushim_clean_(struct gpushim_buffers *set,
                                            const struct gpushim_named_ *kept, int which,
                                            size_t enough, size_t *freed)
{
    size_t begin = set->held_bytes, left = enough < begin ? begin - enough : 0, i;
    struct gpushim_named_ **link;
    gpushim_result result = GPUSHIM_OK;
    int empty;

    for (empty = 1; empty >= 0; empty--) {
        for (i = 0; i < set->bucket_count; i++) {
            link = &set->buckets[i];
            while (*link && result == GPUSHIM_OK && set->held_bytes > left) {
                struct gpushim_named_ *named = *link;

                if (named != kept && (named->buffer.bytes == 0) == empty &&
                    gpushim_is_due_(set, named, which)) {
                    result = gpushim_clean_one_(&named->buffer);
                    gpushim_charge_(set, named);
                }
                if (named != kept && !named->buffer.data) {
                    gpushim_remove_named_(set, link);
                } else {
                    link = &named->next;
                }
            }
        }
    }
    *freed = begin - set->held_bytes;
    set->cleaned_bytes += *freed;
    return result;
}

/* Counts every buffer anew, and forgets those that the program has freed, but for
 * `kept`. */
static inline void gpushim_count_all_(struct gpushim_buffers *set,
                                      const struct gpushim_named_ *kept)
{
    struct gpushim_named_ **link;
    size_t i;

    for (i = 0; i < set->bucket_count; i++) {
        link = &set->buckets[i];
        while (*link) {
            gpushim_charge_(set, *link);
            if ((*link)->buffer.data || *link == kept) {
                link = &(*link)->next;
            } else {
                gpushim_remove_named_(set, link);
            }
        }
    }
}

/*
 * Cleans up all buffers that no function of this file has used for the idle_seconds of
 * their type: frees empty ones, and the memory of the others beyond their length. Kernels
 * are not seen. `data` of a buffer that is not GPUSHIM_IN_PLACE may change, and its views
 * end. Synchronizes the contexts of these buffers, in which no stream may capture.
 * In:     all     not 0: those used just now, too
 * Out:    *freed  bytes; may be NULL
 * Errors: INVALID; CUDA  all buffers are valid. A buffer without room to move stays.
 */
static inline gpushim_result gpushim_buffers_clean(struct gpushim_buffers *set, int all,
                                                   size_t *freed)
{
    gpushim_result result;
    size_t gone = 0;

    if (!set || !set->types) {
        return GPUSHIM_INVALID;
    }
    gpushim_count_all_(set, NULL);
    result = gpushim_clean_(set, NULL, all ? GPUSHIM_CLEAN_ALL_ : GPUSHIM_CLEAN_IDLE_,
                            SIZE_MAX, &gone);
    if (freed) {
        *freed = gone;
    }
    return result;
}

/* ---- requests ---- */

/* Allocates the memory of a name, in pages of the device as a rule with GPUSHIM_IN_PLACE.
 */
static inline gpushim_result gpushim_named_alloc_(struct gpushim_buffers *set,
                                                  struct gpushim_named_ *named,
                                                  size_t bytes)
{
    const struct gpushim_buffer_type *type = &set->types[named->type];
    struct gpushim_buffer *buffer = &named->buffer;
    gpushim_result result =
        GPUSHIM_NAMED(named->name, gpushim_buffer_create(buffer, type->place, bytes,
                                                         type->alignment, type->flags));

    if (result == GPUSHIM_OK && buffer->pages &&
        gpushim_mapped_(buffer->pages) > gpushim_room_(set, named)) {
        result = gpushim_buffer_free(buffer);
        result = result == GPUSHIM_OK ? GPUSHIM_NO_MEMORY : result;
    }
    if (type->growth > 0) {
        buffer->growth = type->growth;
    }
    gpushim_charge_(set, named);
    return result;
}

/* Gives a buffer `bytes`, and more as its type grows if the set has the room. */
static inline gpushim_result gpushim_named_grow_(struct gpushim_buffers *set,
                                                 struct gpushim_named_ *named,
                                                 size_t bytes, void *stream)
{
    const struct gpushim_buffer_type *type = &set->types[named->type];
    struct gpushim_buffer *buffer = &named->buffer;
    size_t room = gpushim_room_(set, named), most = type->limit ? type->limit : SIZE_MAX;
    double grown;
    gpushim_result result;

    if (buffer->pages) {
        room = room / buffer->pages->page * buffer->pages->page;
    }
    if (bytes > room) {
        return GPUSHIM_NO_MEMORY;
    }
    if (!buffer->data) {
        return gpushim_named_alloc_(set, named, bytes);
    }
    grown = (double)buffer->capacity * buffer->growth;
    grown = grown > (double)most ? (double)most : grown;
    buffer->limit = grown > (double)room ? bytes : most < room ? most : room;
    result = GPUSHIM_NAMED(named->name, gpushim_buffer_resize(buffer, bytes, stream));
    set->grown_count += result == GPUSHIM_OK;
    gpushim_charge_(set, named);
    return result;
}

/* The same, after a clean-up where the first try finds no room. */
static inline gpushim_result gpushim_named_fit_(struct gpushim_buffers *set,
                                                struct gpushim_named_ *named,
                                                size_t bytes, void *stream)
{
    gpushim_result result = gpushim_named_grow_(set, named, bytes, stream), cleaned;
    size_t held = set->held_bytes, room, freed;

    if (result != GPUSHIM_NO_MEMORY) {
        return result;
    }
    gpushim_count_all_(set, named);
    room = gpushim_room_(set, named);
    if (bytes <= room || set->types[named->type].flags & GPUSHIM_IN_PLACE) {
        /* The device is full, or whole pages do not fit. */
        cleaned = gpushim_clean_(set, named, GPUSHIM_CLEAN_NEEDED_, SIZE_MAX, &freed);
    } else {
        cleaned = gpushim_clean_(set, named, GPUSHIM_CLEAN_NEEDED_, bytes - room, &freed);
    }
    if (cleaned != GPUSHIM_OK) {
        return cleaned;
    }
    return set->held_bytes < held ? gpushim_named_grow_(set, named, bytes, stream)
                                  : result;
}

/* Makes a buffer `bytes` long, from 1. */
static inline gpushim_result gpushim_named_resize_(struct gpushim_buffers *set,
                                                   struct gpushim_named_ *named,
                                                   size_t bytes, void *stream)
{
    struct gpushim_buffer *buffer = &named->buffer;
    gpushim_result result = GPUSHIM_OK;

    gpushim_charge_(set, named);
    if (set->types[named->type].limit && bytes > set->types[named->type].limit) {
        return GPUSHIM_NO_MEMORY;
    }
    if (buffer->data && bytes <= buffer->capacity) {
        return gpushim_buffer_resize(buffer, bytes, stream);
    }
    if (!buffer->bytes) { /* it has nothing to keep */
        result = gpushim_buffer_free(buffer);
        gpushim_charge_(set, named);
    }
    return result == GPUSHIM_OK ? gpushim_named_fit_(set, named, bytes, stream) : result;
}

/*
 * Makes the buffer of a name `bytes` long, as gpushim_buffer_resize, or creates it. Of 0
 * bytes the buffer is empty: its memory stays for the next request of this name, until a
 * clean-up frees it. Beyond the capacity it grows as its type says, or to `bytes` where
 * the set has no room for more. A request that does not fit cleans up, as
 * gpushim_buffers_clean, until it fits; empty buffers are not kept for their idle_seconds
 * then.
 * In:     name    1 to 127 bytes; a scope of the allocations in reports
 *         type    number of the type, the same in all requests of a name
 *         stream  whose work wrote the buffer's data
 * Out:    *out    the buffer, which the set owns; may be NULL. Valid until it is empty,
 *                 dropped, or the set is freed; NULL for 0 bytes. Its own resize stays
 *                 within its capacity.
 * Errors: as of gpushim_buffer_create and gpushim_buffer_resize. INVALID also of another
 *         type. NO_MEMORY also beyond the limit of the type or of the set: all buffers
 *         keep their data.
 */
static inline gpushim_result gpushim_buffers_resize(struct gpushim_buffers *set,
                                                    const char *name, size_t type,
                                                    size_t bytes, void *stream,
                                                    struct gpushim_buffer **out)
{
    struct gpushim_named_ **link, *named;
    gpushim_result result = GPUSHIM_OK;

    if (!gpushim_is_named_(set, name) || type >= set->type_count) {
        return GPUSHIM_INVALID;
    }
    link = gpushim_find_named_(set, name);
    named = link ? *link : NULL;
    if (named && named->type != type) {
        return GPUSHIM_INVALID;
    }
    if (!named && bytes) {
        named = gpushim_add_named_(set, name, type);
        if (!named) {
            return GPUSHIM_NO_MEMORY;
        }
    }
    if (bytes) {
        result = gpushim_named_resize_(set, named, bytes, stream);
        set->refused_count += result == GPUSHIM_NO_MEMORY;
    } else if (named) {
        named->buffer.bytes = 0;
        gpushim_used_(&named->buffer);
    }
    if (named && !named->buffer.data) {
        gpushim_charge_(set, named);
        gpushim_remove_named_(set, gpushim_find_named_(set, name));
    }
    if (result == GPUSHIM_OK && out) {
        *out = bytes ? &named->buffer : NULL;
    }
    return result;
}

/* The buffer of a name. Errors: INVALID; NOT_FOUND: there is none, or it is empty. */
static inline gpushim_result gpushim_buffers_find(struct gpushim_buffers *set,
                                                  const char *name,
                                                  struct gpushim_buffer **out)
{
    struct gpushim_named_ **link;

    if (!gpushim_is_named_(set, name) || !out) {
        return GPUSHIM_INVALID;
    }
    link = gpushim_find_named_(set, name);
    if (!link || !*link || !(*link)->buffer.bytes) {
        return GPUSHIM_NOT_FOUND;
    }
    *out = &(*link)->buffer;
    return GPUSHIM_OK;
}

/* Frees the buffer of a name. Waits as gpushim_buffer_free. Errors: INVALID; NOT_FOUND:
 * there is none; CUDA: it stays. */
static inline gpushim_result gpushim_buffers_drop(struct gpushim_buffers *set,
                                                  const char *name)
{
    struct gpushim_named_ **link;
    gpushim_result result;

    if (!gpushim_is_named_(set, name)) {
        return GPUSHIM_INVALID;
    }
    link = gpushim_find_named_(set, name);
    if (!link || !*link) {
        return GPUSHIM_NOT_FOUND;
    }
    result = gpushim_buffer_free(&(*link)->buffer);
    gpushim_charge_(set, *link);
    if (result == GPUSHIM_OK) {
        gpushim_remove_named_(set, link);
    }
    return result;
}

/* All 0 after an error. Errors: INVALID. */
static inline gpushim_result
gpushim_buffers_get_statistics(struct gpushim_buffers *set,
                               struct gpushim_buffers_statistics *out)
{
    const struct gpushim_named_ *named;
    size_t i;

    if (!out) {
        return GPUSHIM_INVALID;
    }
    memset(out, 0, sizeof(*out));
    if (!set || !set->types) {
        return GPUSHIM_INVALID;
    }
    gpushim_count_all_(set, NULL);
    for (i = 0; i < set->bucket_count; i++) {
        for (named = set->buckets[i]; named; named = named->next) {
            out->used_bytes += named->buffer.bytes;
            out->empty_count += !named->buffer.bytes;
        }
    }
    out->held_bytes = set->held_bytes;
    out->peak_bytes = set->peak_bytes;
    out->count = set->count;
    out->grown_count = set->grown_count;
    out->refused_count = set->refused_count;
    out->cleaned_bytes = set->cleaned_bytes;
    out->utilization =
        out->held_bytes ? (double)out->used_bytes / (double)out->held_bytes : 1.0;
    return GPUSHIM_OK;
}

/* Frees a set and all its buffers. No effect on a freed one and NULL: OK. Errors: CUDA;
 * the set goes on, with what could not be freed. */
static inline gpushim_result gpushim_buffers_free(struct gpushim_buffers *set)
{
    gpushim_result result = GPUSHIM_OK, freed;
    struct gpushim_named_ **link;
    size_t i;

    if (!set || !set->types) {
        return GPUSHIM_OK;
    }
    for (i = 0; i < set->bucket_count; i++) {
        link = &set->buckets[i];
        while (*link) {
            freed = gpushim_buffer_free(&(*link)->buffer);
            gpushim_charge_(set, *link);
            if (freed == GPUSHIM_OK) {
                gpushim_remove_named_(set, link);
            } else {
                result = freed;
                link = &(*link)->next;
            }
        }
    }
    if (result == GPUSHIM_OK) {
        free(set->buckets);
        free(set->types);
        memset(set, 0, sizeof(*set));
    }
    return result;
}

#endif
