/*
 * python_locations.c - functions, files and lines of Python frames, each stored once.
 * Owns: their memory, mapped from the kernel.
 * Lock: the owner's for adding; none for reading.   Design: docs/python.md
 */
#include "tracker/host_memory.h"
#include "tracker/python/python_internal.h"
#include "tracker/statefile/state_memory.h"

#include <string.h>

#define CHUNK_LENGTH ((uint32_t)1 << GS_PYTHON_CHUNK_BITS)
#define ARENA_BYTES  ((size_t)64 << 10)

#define FIRST_BUCKET_BITS 12u

/* Strings are stored one after another. */
struct gs_python_arena {
    struct gs_python_arena *older;
    size_t used;
};

static uint64_t text_hash(const char *text, size_t length)
{
    uint64_t hash = length;

    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    }
    return gs_python_mix(hash, length);
}

static void *arena_take(struct gs_python *python, size_t bytes)
{
    struct gs_python_arena *arena = python->arena;

    bytes = (bytes + 7) & ~(size_t)7;
    if (arena == NULL || ARENA_BYTES - arena->used < bytes) {
        if (bytes > ARENA_BYTES - sizeof(*arena)) {
            return NULL;
        }
        arena = gs_state_map(python->memory, ARENA_BYTES);
        if (arena == NULL) {
            return NULL;
        }
        arena->older = python->arena;
        arena->used = sizeof(*arena);
        python->arena = arena;
        atomic_fetch_add_explicit(&python->bytes, ARENA_BYTES, memory_order_relaxed);
    }
    arena->used += bytes;
    return (char *)arena + arena->used - bytes;
}

static inline bool is_full(const struct gs_python_buckets *buckets)
{
    return buckets->first == NULL || buckets->held >= (uint32_t)1 << buckets->bits;
}

/* An array for twice as many; NULL: there are as many as there may be, or no memory. */
static void *more_buckets(struct gs_python *python, struct gs_python_buckets *buckets,
                          size_t bytes_each)
{
    unsigned bits = buckets->first == NULL ? FIRST_BUCKET_BITS : buckets->bits + 1;
    void *larger = bits > 31 ? NULL : gs_host_map(bytes_each << bits);

    if (larger != NULL) {
        atomic_fetch_add_explicit(&python->bytes, bytes_each << bits,
                                  memory_order_relaxed);
    }
    return larger;
}

static void use_buckets(struct gs_python *python, struct gs_python_buckets *buckets,
                        size_t bytes_each, void *larger)
{
    size_t old_bytes = bytes_each << buckets->bits;

    if (buckets->first != NULL) {
        gs_host_unmap(buckets->first, old_bytes);
        atomic_fetch_sub_explicit(&python->bytes, old_bytes, memory_order_relaxed);
        buckets->bits++;
    } else {
        buckets->bits = FIRST_BUCKET_BITS;
    }
    buckets->first = larger;
}

static void add_string_buckets(struct gs_python *python)
{
    struct gs_python_buckets *buckets = &python->string_buckets;
    struct gs_python_string **old = buckets->first;
    struct gs_python_string **larger = more_buckets(python, buckets, sizeof(*larger));

    if (larger == NULL) {
        return;
    }
    for (size_t i = 0; old != NULL && i < (size_t)1 << buckets->bits; i++) {
        for (struct gs_python_string *string = old[i], *next; string != NULL;
             string = next) {
            size_t to = string->hash >> (64 - buckets->bits - 1);

            next = string->next;
            string->next = larger[to];
            larger[to] = string;
        }
    }
    use_buckets(python, buckets, sizeof(*larger), larger);
}

/* Returns the bucket of a hash; NULL: no memory. */
static inline struct gs_python_string **string_bucket(struct gs_python *python,
                                                      uint64_t hash)
{
    struct gs_python_buckets *buckets = &python->string_buckets;

    if (is_full(buckets)) {
        add_string_buckets(python);
    }
    return buckets->first == NULL ? NULL
                                  : (struct gs_python_string **)buckets->first +
                                        (hash >> (64 - buckets->bits));
}

/* Returns the text's entry from `string` on; NULL: there is none. */
static struct gs_python_string *find_string(struct gs_python_string *string,
                                            uint64_t hash, const char *text,
                                            size_t length)
{
    while (string != NULL && (string->hash != hash || string->length != length ||
                              memcmp(string->text, text, length) != 0)) {
        string = string->next;
    }
    return string;
}

/* Returns the stored copy of a text, added if it is new; NULL: no memory. */
static const char *keep(struct gs_python *python, const char *text)
{
    size_t length = strlen(text);
    uint64_t hash = text_hash(text, length);
    struct gs_python_string **bucket = string_bucket(python, hash), *string;

    if (bucket == NULL) {
        return NULL;
    }
    string = find_string(*bucket, hash, text, length);
    if (string == NULL) {
        string = arena_take(python, sizeof(*string) + length + 1);
        if (string == NULL) {
            return NULL;
        }
        memcpy(string->text, text, length + 1);
        string->hash = hash;
        string->length = length;
        string->next = *bucket;
        *bucket = string;
        python->string_buckets.held++;
    }
    return string->text;
}

/* Returns the stored copy of a text; NULL: there is none. */
static const char *kept(const struct gs_python *python, const char *text)
{
    const struct gs_python_buckets *buckets = &python->string_buckets;
    size_t length = strlen(text);
    uint64_t hash = text_hash(text, length);
    struct gs_python_string **first = buckets->first, *string = NULL;

    if (first != NULL) {
        string = find_string(first[hash >> (64 - buckets->bits)], hash, text, length);
    }
    return string != NULL ? string->text : NULL;
}

static struct gs_python_node *node_at(const struct gs_python *python, uint32_t number)
{
    return atomic_load_explicit(&python->nodes[number >> GS_PYTHON_CHUNK_BITS],
                                memory_order_acquire) +
           number % CHUNK_LENGTH;
}

/* Returns the space for node `number`; NULL: no memory. */
static struct gs_python_node *make_node(struct gs_python *python, uint32_t number)
{
    uint32_t chunk = number >> GS_PYTHON_CHUNK_BITS;
    size_t bytes = CHUNK_LENGTH * sizeof(struct gs_python_node);
    struct gs_python_node *nodes;

    if (chunk >= GS_PYTHON_CHUNKS) {
        return NULL;
    }
    if (atomic_load_explicit(&python->nodes[chunk], memory_order_relaxed) == NULL) {
        nodes = gs_state_map(python->memory, bytes);
        if (nodes == NULL) {
            return NULL;
        }
        atomic_store_explicit(&python->nodes[chunk], nodes, memory_order_release);
        atomic_fetch_add_explicit(&python->bytes, bytes, memory_order_relaxed);
    }
    return node_at(python, number);
}

static uint64_t node_hash(const char *function, const char *file, unsigned line)
{
    return gs_python_mix(gs_python_mix((uintptr_t)function, line), (uintptr_t)file);
}

static void add_node_buckets(struct gs_python *python)
{
    struct gs_python_buckets *buckets = &python->node_buckets;
    unsigned bits = buckets->first != NULL ? buckets->bits + 1 : FIRST_BUCKET_BITS;
    uint32_t *larger = more_buckets(python, buckets, sizeof(*larger));

    if (larger == NULL) {
        return;
    }
    for (uint32_t number = 1; number <= buckets->held; number++) {
        struct gs_python_node *node = node_at(python, number);
        uint32_t *to =
            &larger[node_hash(node->function, node->file, node->line) >> (64 - bits)];

        node->next = *to;
        *to = number;
    }
    use_buckets(python, buckets, sizeof(*larger), larger);
}

/* Returns the bucket of a hash; NULL: no memory. */
static inline uint32_t *node_bucket(struct gs_python *python, uint64_t hash)
{
    struct gs_python_buckets *buckets = &python->node_buckets;

    if (is_full(buckets)) {
        add_node_buckets(python);
    }
    return buckets->first == NULL
               ? NULL
               : (uint32_t *)buckets->first + (hash >> (64 - buckets->bits));
}

/* Returns the frame of a location whose texts are stored, from node `number` on; 0: there
 * is none. */
static uintptr_t find_node(const struct gs_python *python, uint32_t number,
                           const char *function, const char *file, unsigned line)
{
    const struct gs_python_node *node;

    for (; number != 0; number = node->next) {
        node = node_at(python, number);
        if (node->function == function && node->file == file && node->line == line) {
            return GS_PYTHON_FRAME_BASE + number;
        }
    }
    return 0;
}

uintptr_t gs_python_location_find(const struct gs_python *python, const char *function,
                                  const char *file, unsigned line)
{
    const struct gs_python_buckets *buckets = &python->node_buckets;
    const uint32_t *first = buckets->first;

    function = kept(python, function);
    file = kept(python, file);
    if (function == NULL || file == NULL || first == NULL) {
        return 0;
    }
    return find_node(python,
                     first[node_hash(function, file, line) >> (64 - buckets->bits)],
                     function, file, line);
}

uintptr_t gs_python_location_add(struct gs_python *python, const char *function,
                                 const char *file, unsigned line)
{
    struct gs_python_node *node;
    uint32_t *bucket, number;
    uintptr_t found;

    function = keep(python, function);
    file = keep(python, file);
    if (function == NULL || file == NULL) {
        return 0;
    }
    bucket = node_bucket(python, node_hash(function, file, line));
    if (bucket == NULL) {
        return 0;
    }
    found = find_node(python, *bucket, function, file, line);
    if (found != 0) {
        return found;
    }
    number = atomic_load_explicit(&python->count, memory_order_relaxed) + 1;
    node = make_node(python, number);
    if (node == NULL) {
        return 0;
    }
    *node = (struct gs_python_node){function, file, line, *bucket};
    *bucket = number;
    python->node_buckets.held = number;
    atomic_store_explicit(&python->count, number, memory_order_release);
    return GS_PYTHON_FRAME_BASE + number;
}

enum gs_status gs_python_location(const struct gs_python *python, uintptr_t frame,
                                  struct gs_python_location *out)
{
    uintptr_t number = frame - GS_PYTHON_FRAME_BASE;
    const struct gs_python_node *node;

    if (python == NULL || number == 0 ||
        number > atomic_load_explicit(&python->count, memory_order_acquire)) {
        return GS_ERR_NOT_FOUND;
    }
    node = node_at(python, (uint32_t)number);
    *out = (struct gs_python_location){node->function, node->file, node->line};
    return GS_OK;
}

void gs_python_locations_clear(struct gs_python *python)
{
    gs_host_unmap(python->string_buckets.first, sizeof(struct gs_python_string *)
                                                    << python->string_buckets.bits);
    gs_host_unmap(python->node_buckets.first, sizeof(uint32_t)
                                                  << python->node_buckets.bits);
    while (python->arena != NULL) {
        struct gs_python_arena *arena = python->arena;

        python->arena = arena->older;
        gs_state_unmap(python->memory, arena, ARENA_BYTES);
    }
    for (size_t i = 0; i < GS_PYTHON_CHUNKS; i++) {
        gs_state_unmap(python->memory, atomic_load(&python->nodes[i]),
                       CHUNK_LENGTH * sizeof(struct gs_python_node));
    }
}
