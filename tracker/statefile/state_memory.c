/*
 * state_memory.c - allocates pages of a file, one after the other.
 *
 * Owns:  struct gs_state_memory, the header's counts.   Lock: memory->lock, the innermost
 *        of all.   Design: docs/state.md
 */
#include "tracker/statefile/state_memory.h"

#include <string.h>

#include "gs_locks.h"
#include "tracker/growth_copy.h"
#include "tracker/host_memory.h"
#include "tracker/python/python_internal.h"
#include "tracker/scope_totals.h"
#include "tracker/stacks/stacks_internal.h"
#include "tracker/tracker_internal.h"

#define PAGE_BYTES ((size_t)4096)
/* The file grows by at least this much. */
#define STEP_BYTES GS_MIB

struct gs_state_memory {
    struct gs_state_config config; /* immutable but for length */
    struct gs_mutex lock;
};

struct gs_state_memory *gs_state_memory_create(const struct gs_state_config *config)
{
    struct gs_state_memory *memory;
    struct gs_state_header *header = config->file;
    size_t head = gs_round_up(sizeof(*header), PAGE_BYTES);

    if (config->length < head || config->room < config->length) {
        return NULL;
    }
    memory = gs_host_map(sizeof(*memory));
    if (memory == NULL) {
        return NULL;
    }
    memory->config = *config;
    gs_mutex_init(&memory->lock, GS_RANK_STATE_MEMORY);
    header->layout = config->layout;
    strncpy(header->version, config->version, sizeof(header->version) - 1);
    header->base = (uintptr_t)config->file;
    header->used = head;
    memcpy(header->magic, GS_STATE_MAGIC, sizeof(header->magic));
    return memory;
}

struct gs_state_header *gs_state_memory_header(const struct gs_state_memory *memory)
{
    return memory->config.file;
}

/* Extends the file to `bytes`. The lock is held. */
static bool extend(struct gs_state_memory *memory, size_t bytes)
{
    struct gs_state_config *config = &memory->config;
    size_t more;

    if (bytes <= config->length) {
        return true;
    }
    more = gs_round_up(bytes - config->length, STEP_BYTES);
    if (more > config->room - config->length) {
        more = config->room - config->length;
    }
    if (bytes - config->length > more ||
        !config->grow(config->self, config->length, more)) {
        return false;
    }
    config->length += more;
    return true;
}

static void *take(struct gs_state_memory *memory, size_t bytes)
{
    struct gs_state_header *header = memory->config.file;
    size_t used = (size_t)header->used;

    /* The first allocation that does not fit ends the file's contents: they stay complete
     * up to there. */
    if (header->not_there != 0 || bytes > memory->config.room - used ||
        !extend(memory, used + bytes)) {
        __atomic_store_n(&header->not_there, header->not_there + bytes, __ATOMIC_RELAXED);
        return NULL;
    }
    __atomic_store_n(&header->used, used + bytes, __ATOMIC_RELEASE);
    return (char *)memory->config.file + used;
}

void *gs_state_map(struct gs_state_memory *memory, size_t bytes)
{
    void *pages;

    if (GS_LIKELY(memory == NULL)) {
        return gs_host_map(bytes);
    }
    gs_mutex_lock(&memory->lock);
    pages = take(memory, gs_round_up(bytes, PAGE_BYTES));
    gs_mutex_unlock(&memory->lock);
    return pages != NULL ? pages : gs_host_map(bytes);
}

bool gs_state_holds(const struct gs_state_memory *memory, const void *pages)
{
    return memory != NULL &&
           (uintptr_t)pages - (uintptr_t)memory->config.file < memory->config.room;
}

void *gs_state_annex(struct gs_state_memory *memory, size_t bytes)
{
    void *pages = memory != NULL ? gs_state_map(memory, bytes) : NULL;

    if (pages == NULL) {
        return NULL;
    }
    if (!gs_state_holds(memory, pages)) {
        gs_host_unmap(pages, bytes);
        return NULL;
    }
    __atomic_store_n(&gs_state_memory_header(memory)->annex, (uintptr_t)pages,
                     __ATOMIC_RELEASE);
    return pages;
}

void gs_state_unmap(struct gs_state_memory *memory, void *pages, size_t bytes)
{
    if (!gs_state_holds(memory, pages)) {
        gs_host_unmap(pages, bytes);
    } else if (gs_state_memory_header(memory)->not_there == 0) {
        /* What replaces them is in the file, too; the addresses are not used again. */
        (void)madvise(pages, gs_round_up(bytes, PAGE_BYTES), MADV_DONTNEED);
    }
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x9e3779b97f4a7c15u;
}

uint64_t gs_state_layout(const char *version, const char *const *names, size_t count,
                         uint64_t annex)
{
    const size_t forms[] = {
        sizeof(struct gs_state_header),
        sizeof(struct gs_tracker),
        offsetof(struct gs_tracker, lost_copy),
        offsetof(struct gs_tracker, shared),
        offsetof(struct gs_tracker, shards),
        offsetof(struct gs_tracker, origins),
        offsetof(struct gs_tracker, chunks),
        sizeof(struct gs_shard),
        sizeof(struct gs_error),
        sizeof(struct gs_group),
        sizeof(struct gs_growth_copy),
        sizeof(struct gs_cached_parts),
        sizeof(struct gs_part),
        sizeof(struct gs_record),
        sizeof(struct gs_scope_table),
        sizeof(struct gs_scope),
        sizeof(struct gs_scope_row),
        GS_SCOPE_CHUNK_BITS,
        sizeof(struct gs_stacks),
        offsetof(struct gs_stacks, modules),
        sizeof(struct gs_module_record),
        sizeof(struct gs_python),
        offsetof(struct gs_python, nodes),
        GS_CHUNK_SHIFT,
        GS_STACK_CHUNK_BITS,
        GS_MEMORY_KINDS,
    };
    uint64_t hash = mix(0, annex);

    for (size_t i = 0; i < GS_ARRAY_LEN(forms); i++) {
        hash = mix(hash, forms[i]);
    }
    for (; *version != '\0'; version++) {
        hash = mix(hash, (unsigned char)*version);
    }
    for (size_t i = 0; i < count; i++) {
        for (const char *name = names[i] ? names[i] : "?"; *name != '\0'; name++) {
            hash = mix(hash, (unsigned char)*name);
        }
    }
    return hash;
}
