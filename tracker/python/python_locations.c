/*
 * python_locations.c - functions, files and lines of Python frames, each stored once.
 * Owns: their memory, mapped from the kernel.
 * Lock: the owner's for adding; none for reading.   Design: docs/python.md
 */
#include "tracker/python/python_internal.h"
#include "tracker/state/state_memory.h"

#include <string.h>

#define CHUNK_LENGTH ((uint32_t)1 << GS_PYTHON_CHUNK_BITS)
#define ARENA_BYTES  ((size_t)64 << 10)

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

/* Returns the stored copy of a text, added if it is new; NULL: no memory. */
static const char *keep(struct gs_python *python, const char *text)
{
    size_t length = strlen(text);
    struct gs_python_string **bucket =
        &python->string_buckets[text_hash(text, length) >> (64 - GS_PYTHON_BUCKET_BITS)];
    struct gs_python_string *string = *bucket;

    while (string != NULL &&
           (string->length != length || memcmp(string->text, text, length) != 0)) {
        string = string->next;
    }
    if (string == NULL) {
        string = arena_take(python, sizeof(*string) + length + 1);
        if (string == NULL) {
            return NULL;
        }
        memcpy(string->text, text, length + 1);
        string->length = length;
        string->next = *bucket;
        *bucket = string;
    }
    return string->text;
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

uintptr_t gs_python_location_add(struct gs_python *python, const char *function,
                                 const char *file, unsigned line)
{
    struct gs_python_node *node;
    uint32_t *bucket, number;

    function = keep(python, function);
    file = keep(python, file);
    if (function == NULL || file == NULL) {
        return 0;
    }
    bucket = &python->node_buckets[gs_python_mix(gs_python_mix((uintptr_t)function, line),
                                                 (uintptr_t)file) >>
                                   (64 - GS_PYTHON_BUCKET_BITS)];
    for (number = *bucket; number != 0; number = node->next) {
        node = node_at(python, number);
        if (node->function == function && node->file == file && node->line == line) {
            return GS_PYTHON_FRAME_BASE + number;
        }
    }
    number = atomic_load_explicit(&python->count, memory_order_relaxed) + 1;
    node = make_node(python, number);
    if (node == NULL) {
        return 0;
    }
    *node = (struct gs_python_node){function, file, line, *bucket};
    *bucket = number;
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
