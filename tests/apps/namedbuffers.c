/*
 * namedbuffers.c - sets of named buffers (gpushim_buffers of gpushim_memory.h), with the
 * library and without it: the same output.
 *
 *   namedbuffers_WAY              growth by type, limits, clean-up, statistics; in place
 *   namedbuffers_WAY bad          wrong arguments change nothing
 *   namedbuffers_WAY random SEED  random requests, against a model in memory
 *   namedbuffers_WAY faults SEED  the same while calls of the driver fail
 *   namedbuffers_WAY full         a device of 64 MiB that is full
 *   namedbuffers_WAY streams SEED a clean-up while streams still write what it moves
 *   namedbuffers_WAY leak         a buffer that is not freed: its name in the report
 *
 * A result, a counter or data that is wrong ends it with 1.
 */
#include "gpushim_memory.h"
#include "gpu.h"

#define IS_OK(call) expect(#call, GPUSHIM_OK, call)

static void expect(const char *what, gpushim_result wanted, gpushim_result found)
{
    if (found != wanted)
        fprintf(stderr, "%s: %s\n", what, gpushim_result_text(found));
    app_expect(found == wanted, what);
}

static void show(const char *what, struct gpushim_buffers *set)
{
    struct gpushim_buffers_statistics now;

    IS_OK(gpushim_buffers_get_statistics(set, &now));
    printf("%s: %zu of %zu bytes (%.3f), peak %zu, %zu buffers, %zu empty, grown %d, "
           "refused %d, cleaned %d\n",
           what, now.used_bytes, now.held_bytes, now.utilization, now.peak_bytes,
           now.count, now.empty_count, (int)now.grown_count, (int)now.refused_count,
           (int)now.cleaned_bytes);
}

/* ---- growth, limits, clean-up -------------------------------------------------------- */

enum { NODES, EDGES, LABELS, KINDS };

/* Empty buffers: the memory stays for the next request of the name, or for others. */
static void show_empty(struct gpushim_buffers *set, struct gpushim_buffer *edges)
{
    struct gpushim_buffer *nodes = NULL, *found = NULL;

    IS_OK(gpushim_buffers_resize(set, "nodes", NODES, 0, NULL, &found));
    expect("an empty buffer", GPUSHIM_NOT_FOUND,
           gpushim_buffers_find(set, "nodes", &nodes));
    app_expect(!found, "an empty buffer");
    show("emptied", set);
    IS_OK(gpushim_buffers_clean(set, 0, NULL));
    IS_OK(gpushim_buffers_resize(set, "nodes", NODES, 5000, NULL, &nodes));
    IS_OK(gpushim_buffers_find(set, "nodes", &found));
    app_expect(found == nodes && nodes->capacity == 6001, "memory of before");
    IS_OK(gpushim_buffers_resize(set, "nodes", NODES, 0, NULL, NULL));
    IS_OK(gpushim_buffers_resize(set, "more labels", LABELS, 9000, NULL, NULL));
    show("taken", set);
    IS_OK(gpushim_buffers_drop(set, "more labels"));
    expect("dropped", GPUSHIM_NOT_FOUND, gpushim_buffers_drop(set, "more labels"));
    IS_OK(gpushim_buffer_free(edges));
    show("freed by its owner", set);
    IS_OK(gpushim_buffers_clean(set, 1, NULL));
    show("all cleaned", set);
}

static void use(gpushim_place place)
{
    const struct gpushim_buffer_type types[KINDS] = {
        {.place = place, .growth = 2, .limit = 9000, .idle_seconds = 3600},
        {.place = place, .alignment = 1024},
        {.place = place, .flags = GPUSHIM_ZEROED, .growth = 1},
    };
    struct gpushim_buffers set;
    struct gpushim_buffer *nodes = NULL, *edges = NULL, *labels = NULL, *found = NULL;
    unsigned char data[4000];
    size_t freed = 1;

    IS_OK(gpushim_buffers_create(&set, 20000, types, KINDS));
    show("begun", &set);
    IS_OK(gpushim_buffers_resize(&set, "nodes", NODES, 3000, GPUSHIM_SYNC, &nodes));
    IS_OK(gpushim_buffers_resize(&set, "edges", EDGES, 4000, GPUSHIM_SYNC, &edges));
    IS_OK(gpushim_buffers_resize(&set, "labels", LABELS, 10, GPUSHIM_SYNC, &labels));
    app_expect(nodes->place == place && (uintptr_t)edges->data % 1024 == 0, "types");
    app_bytes_fill(data, 3000, 5);
    IS_OK(gpushim_buffer_put(nodes, 0, data, 3000, GPUSHIM_SYNC));
    IS_OK(gpushim_buffers_resize(&set, "nodes", NODES, 3001, NULL, &found));
    app_expect(found == nodes && nodes->capacity == 6000, "growth of a type");
    IS_OK(gpushim_buffers_resize(&set, "nodes", NODES, 6001, NULL, NULL));
    app_expect(nodes->capacity == 9000 && nodes->bytes == 6001, "limit of a type");
    expect("beyond its type", GPUSHIM_NO_MEMORY,
           gpushim_buffers_resize(&set, "nodes", NODES, 9001, NULL, &found));
    IS_OK(gpushim_buffers_resize(&set, "edges", EDGES, 4001, NULL, NULL));
    app_expect(edges->capacity == 6000, "growth by default");
    show("grown", &set);
    IS_OK(gpushim_buffers_resize(&set, "edges", EDGES, 6100, NULL, NULL));
    app_expect(edges->capacity == 9000, "growth within the limit");
    /* 13,500 are too many next to the others: it becomes as large as it must. */
    IS_OK(gpushim_buffers_resize(&set, "edges", EDGES, 10000, NULL, NULL));
    app_expect(edges->capacity == 10000, "an exact size");
    expect("its own growth", GPUSHIM_NO_MEMORY,
           gpushim_buffer_resize(edges, 10001, GPUSHIM_SYNC));
    /* The nodes are used too short a time ago to be cleaned up. */
    expect("beyond all", GPUSHIM_NO_MEMORY,
           gpushim_buffers_resize(&set, "labels", LABELS, 2000, NULL, NULL));
    IS_OK(gpushim_buffers_resize(&set, "edges", EDGES, 9000, NULL, NULL));
    IS_OK(gpushim_buffers_resize(&set, "labels", LABELS, 1500, NULL, NULL));
    app_expect(edges->capacity == 9000 && nodes->capacity == 9000, "a clean-up");
    show("full", &set);
    IS_OK(gpushim_buffers_clean(&set, 0, &freed));
    app_expect(freed == 0 && nodes->capacity == 9000, "used just now");
    nodes->used_at -= 3600;
    IS_OK(gpushim_buffers_clean(&set, 0, &freed));
    app_expect(freed == 2999 && nodes->capacity == 6001, "used an hour ago");
    memset(data, 0, sizeof(data));
    IS_OK(gpushim_buffer_get(nodes, 0, data, 3000, GPUSHIM_SYNC));
    app_expect(app_bytes_match(data, 3000, 5), "data after moves");
    IS_OK(gpushim_buffer_get(labels, 10, data, 1490, GPUSHIM_SYNC));
    for (int i = 0; i < 1490; i++)
        app_expect(data[i] == 0, "zeros of a type");
    show_empty(&set, edges);
    IS_OK(gpushim_buffers_free(&set));
    IS_OK(gpushim_buffers_free(&set));
}

/* Whole pages count, and what grows keeps its address. */
static void use_in_place(void)
{
    const struct gpushim_buffer_type type = {.flags = GPUSHIM_IN_PLACE, .growth = 2};
    struct gpushim_buffers set;
    struct gpushim_buffer *grows = NULL, *other = NULL;
    size_t page;
    void *at;

    IS_OK(gpushim_buffers_create(&set, 0, &type, 1));
    IS_OK(gpushim_buffers_resize(&set, "grows", 0, 10, NULL, &grows));
    app_expect(grows->flags & GPUSHIM_IN_PLACE, "a device that can map pages");
    page = set.held_bytes;
    set.limit = 4 * page + page / 2;
    at = grows->data;
    IS_OK(gpushim_buffer_fill(grows, 0, 10, 3, GPUSHIM_SYNC));
    IS_OK(gpushim_buffers_resize(&set, "other", 0, 10, NULL, &other));
    IS_OK(gpushim_buffers_resize(&set, "grows", 0, page + 1, NULL, NULL));
    app_expect(set.held_bytes == 3 * page && grows->capacity == 2 * page, "two pages");
    IS_OK(gpushim_buffers_resize(&set, "grows", 0, 2 * page + 1, NULL, NULL));
    app_expect(set.held_bytes == 4 * page && grows->bytes == 2 * page + 1,
               "pages within the limit");
    expect("half a page", GPUSHIM_NO_MEMORY,
           gpushim_buffers_resize(&set, "grows", 0, 3 * page + 1, NULL, NULL));
    expect("half a page of its own", GPUSHIM_NO_MEMORY,
           gpushim_buffers_resize(&set, "new", 0, 1, NULL, NULL));
    app_expect(set.held_bytes == 4 * page && set.count == 2, "a refused buffer");
    IS_OK(gpushim_buffers_resize(&set, "other", 0, 0, NULL, NULL));
    IS_OK(gpushim_buffers_resize(&set, "grows", 0, 3 * page + 1, NULL, NULL));
    app_expect(set.held_bytes == 4 * page && set.count == 1, "pages of an empty buffer");
    IS_OK(gpushim_buffers_resize(&set, "grows", 0, 10, NULL, NULL));
    IS_OK(gpushim_buffers_clean(&set, 1, NULL));
    printf("in place: %d, %zu pages, peak %zu\n", grows->data == at,
           set.held_bytes / page, set.peak_bytes / page);
    IS_OK(gpushim_buffers_free(&set));
}

/* A request takes no more than it needs. */
static void use_enough(void)
{
    struct gpushim_buffers set;

    IS_OK(gpushim_buffers_create(&set, 10000, NULL, 0));
    IS_OK(gpushim_buffers_resize(&set, "first", 0, 4000, NULL, NULL));
    IS_OK(gpushim_buffers_resize(&set, "second", 0, 4000, NULL, NULL));
    IS_OK(gpushim_buffers_resize(&set, "first", 0, 0, NULL, NULL));
    IS_OK(gpushim_buffers_resize(&set, "second", 0, 0, NULL, NULL));
    IS_OK(gpushim_buffers_resize(&set, "third", 0, 5000, NULL, NULL));
    app_expect(set.count == 2 && set.held_bytes == 9000 && set.cleaned_bytes == 4000,
               "one of two empty ones");
    IS_OK(gpushim_buffers_free(&set));
}

/* A device that is full: empty buffers go, and an exact size may fit where growth does
 * not. */
static void use_full(void)
{
    const struct gpushim_buffer_type type = {.growth = 2};
    struct gpushim_buffers set;
    struct gpushim_buffer *second = NULL, *third = NULL;
    unsigned char data[1000], found[1000];

    IS_OK(gpushim_buffers_create(&set, 0, &type, 1));
    IS_OK(gpushim_buffers_resize(&set, "first", 0, 20 * APP_MIB, NULL, NULL));
    IS_OK(gpushim_buffers_resize(&set, "second", 0, 10 * APP_MIB, NULL, &second));
    app_bytes_fill(data, sizeof(data), 8);
    IS_OK(gpushim_buffer_put(second, 5000, data, sizeof(data), NULL));
    expect("beyond the device", GPUSHIM_NO_MEMORY,
           gpushim_buffers_resize(&set, "third", 0, 44 * APP_MIB, NULL, NULL));
    IS_OK(gpushim_buffers_resize(&set, "first", 0, 0, NULL, NULL));
    IS_OK(gpushim_buffers_resize(&set, "third", 0, 44 * APP_MIB, NULL, &third));
    app_expect(set.count == 2 && set.cleaned_bytes == 20 * APP_MIB, "an empty buffer");
    IS_OK(gpushim_buffers_resize(&set, "third", 0, 15 * APP_MIB, NULL, NULL));
    IS_OK(gpushim_buffers_clean(&set, 1, NULL));
    app_expect(third->capacity == 44 * APP_MIB, "a buffer without room to move");
    /* Another's memory beyond its length, which moves into the 10 MiB that are free. */
    IS_OK(gpushim_buffers_resize(&set, "third", 0, 5 * APP_MIB, NULL, NULL));
    IS_OK(gpushim_buffers_resize(&set, "second", 0, 12 * APP_MIB, NULL, NULL));
    app_expect(third->capacity == 5 * APP_MIB && second->capacity == 20 * APP_MIB,
               "a buffer that moved");
    IS_OK(gpushim_buffers_resize(&set, "second", 0, 21 * APP_MIB, NULL, NULL));
    app_expect(second->capacity == 21 * APP_MIB, "an exact size");
    IS_OK(gpushim_buffer_get(second, 5000, found, sizeof(found), GPUSHIM_SYNC));
    app_expect(memcmp(data, found, sizeof(data)) == 0, "data");
    show("a full device", &set);
    IS_OK(gpushim_buffers_free(&set));
}

/* A request in one stream moves a buffer that another stream still writes. */
static void use_streams(uint64_t state)
{
    enum { BYTES = 4000, LEFT = 1000 };
    struct gpushim_buffers set;
    struct gpushim_streams streams;
    struct gpushim_buffer *moves = NULL, *other = NULL, host;
    unsigned char found[LEFT];

    IS_OK(gpushim_buffers_create(&set, 5000, NULL, 0));
    IS_OK(gpushim_streams_create(&streams));
    IS_OK(gpushim_buffer_create(&host, GPUSHIM_PINNED_HOST, BYTES, 0, 0));
    for (int i = 0; i < 20; i++) {
        IS_OK(gpushim_buffers_resize(&set, "other", 0, 0, NULL, NULL));
        IS_OK(gpushim_buffers_resize(&set, "moves", 0, BYTES, GPUSHIM_SYNC, &moves));
        IS_OK(gpushim_buffer_zero(moves, GPUSHIM_SYNC));
        app_bytes_fill(host.data, BYTES, (uint32_t)app_random(&state));
        IS_OK(gpushim_buffer_copy(moves, 0, &host, 0, BYTES, streams.upload));
        IS_OK(gpushim_buffers_resize(&set, "moves", 0, LEFT, GPUSHIM_SYNC, NULL));
        IS_OK(gpushim_buffers_resize(&set, "other", 0, BYTES, streams.compute, &other));
        IS_OK(gpushim_buffer_fill(other, 0, BYTES, 9, streams.compute));
        app_expect(moves->capacity == LEFT, "it did not move");
        IS_OK(gpushim_buffer_get(moves, 0, found, LEFT, GPUSHIM_SYNC));
        app_expect(memcmp(found, host.data, LEFT) == 0, "what a stream wrote");
        IS_OK(gpushim_stream_wait(streams.compute));
    }
    IS_OK(gpushim_buffer_free(&host));
    IS_OK(gpushim_streams_free(&streams));
    IS_OK(gpushim_buffers_free(&set));
    printf("streams: ok\n");
}

/* ---- wrong arguments ------------------------------------------------------------------
 */

#define IS_BAD(call) expect(#call, GPUSHIM_INVALID, call)

static void expect_refusals(void)
{
    static const struct gpushim_buffer_type wrong[] = {
        {.place = (gpushim_place)4},
        {.flags = 8},
        {.flags = GPUSHIM_VIEW},
        {.alignment = 3},
        {.growth = 0.5},
        {.growth = 17},
        {.growth = -1},
        {.place = GPUSHIM_HOST, .flags = GPUSHIM_IN_PLACE},
    };
    struct gpushim_buffers set, none = {.limit = 0};
    struct gpushim_buffers_statistics now;
    struct gpushim_buffer *buffer = NULL, *other = NULL;
    char name[129];

    memset(name, 'n', 128);
    name[128] = '\0';
    IS_BAD(gpushim_buffers_create(NULL, 0, NULL, 0));
    IS_BAD(gpushim_buffers_create(&set, 0, NULL, 1));
    IS_BAD(gpushim_buffers_create(&set, 0, wrong, SIZE_MAX));
    for (size_t i = 0; i < APP_COUNT(wrong); i++)
        IS_BAD(gpushim_buffers_create(&set, 0, &wrong[i], 1));
    IS_OK(gpushim_buffers_create(&set, 1000, NULL, 0));
    IS_BAD(gpushim_buffers_resize(NULL, "a", 0, 1, NULL, &buffer));
    IS_BAD(gpushim_buffers_resize(&none, "a", 0, 1, NULL, &buffer));
    IS_BAD(gpushim_buffers_resize(&set, NULL, 0, 1, NULL, &buffer));
    IS_BAD(gpushim_buffers_resize(&set, "", 0, 1, NULL, &buffer));
    IS_BAD(gpushim_buffers_resize(&set, name, 0, 1, NULL, &buffer));
    IS_BAD(gpushim_buffers_resize(&set, "a", 1, 1, NULL, &buffer));
    IS_BAD(gpushim_buffers_find(&set, "a", NULL));
    IS_BAD(gpushim_buffers_find(&set, "", &buffer));
    IS_BAD(gpushim_buffers_find(NULL, "a", &buffer));
    IS_BAD(gpushim_buffers_drop(&set, NULL));
    IS_BAD(gpushim_buffers_drop(&none, "a"));
    IS_BAD(gpushim_buffers_clean(NULL, 0, NULL));
    IS_BAD(gpushim_buffers_clean(&none, 0, NULL));
    IS_BAD(gpushim_buffers_get_statistics(&set, NULL));
    memset(&now, 1, sizeof(now));
    IS_BAD(gpushim_buffers_get_statistics(&none, &now));
    app_expect(now.held_bytes == 0 && now.cleaned_bytes == 0, "statistics of none");
    expect("not there", GPUSHIM_NOT_FOUND, gpushim_buffers_find(&set, "a", &buffer));
    expect("not there", GPUSHIM_NOT_FOUND, gpushim_buffers_drop(&set, "a"));
    IS_OK(gpushim_buffers_resize(&set, "a", 0, 0, NULL, NULL));
    expect("too much", GPUSHIM_NO_MEMORY,
           gpushim_buffers_resize(&set, "a", 0, 1001, NULL, &buffer));
    set.limit = 0;
    expect("more than there is", GPUSHIM_NO_MEMORY,
           gpushim_buffers_resize(&set, "a", 0, (size_t)1 << 60, NULL, &buffer));
    app_expect(!buffer && set.count == 0 && set.held_bytes == 0 && set.peak_bytes == 0,
               "a refused call changed something");
    IS_OK(gpushim_buffers_resize(&set, name + 1, 0, 7, NULL, &buffer));
    IS_OK(gpushim_buffers_find(&set, name + 1, &other));
    app_expect(other == buffer && set.refused_count == 2, "a name of 127 bytes");
    IS_OK(gpushim_buffers_free(&set));
    IS_OK(gpushim_buffers_free(NULL));
    printf("bad: ok\n");
}

/* ---- random requests against a model --------------------------------------------------
 */

enum { NAMES = 60, MOST = 4000, LIMIT = 60000 };

static const struct gpushim_buffer_type kinds[] = {
    {.growth = 2, .limit = 3000},
    {.place = GPUSHIM_PINNED_HOST, .flags = GPUSHIM_ZEROED},
    {.place = GPUSHIM_HOST, .growth = 1, .alignment = 64, .idle_seconds = UINT64_MAX},
    {.place = GPUSHIM_MANAGED, .growth = 16},
};

static struct {
    bool is_there;
    size_t bytes, capacity; /* bytes 0: empty */
    unsigned char data[MOST];
} model[NAMES];
static struct gpushim_buffers random_set;
static size_t model_peak;
static uint64_t model_grown, model_refused, failed, cleaned_before;
static bool faulty;

static size_t type_of(size_t i)
{
    return i % APP_COUNT(kinds);
}

/* Bytes that the others hold, and that they must hold after a clean-up. */
static void sum_others(size_t but, size_t *now, size_t *least)
{
    *now = *least = 0;
    for (size_t i = 0; i < NAMES; i++) {
        if (i == but || !model[i].is_there)
            continue;
        *now += model[i].capacity;
        *least += !model[i].bytes                                ? 0
                  : kinds[type_of(i)].idle_seconds == UINT64_MAX ? model[i].capacity
                                                                 : model[i].bytes;
    }
}

/* What the set has is what the model has; capacities are the set's, between a length and
 * what was there before, where a clean-up may have been. */
static void compare_all(size_t but, bool may_clean)
{
    struct gpushim_buffers_statistics now;
    size_t held = 0, used = 0, count = 0, empty = 0;
    char name[16];

    for (size_t i = 0; i < NAMES; i++) {
        struct gpushim_named_ **link, *named;

        snprintf(name, sizeof(name), "buffer %zu", i);
        link = gpushim_find_named_(&random_set, name);
        named = link ? *link : NULL;
        if (i != but && model[i].is_there && !named)
            app_expect(may_clean && !model[i].bytes, "a buffer that went");
        else
            app_expect(i == but || model[i].is_there == (named != NULL), "a buffer");
        model[i].is_there = named != NULL;
        if (!named)
            continue;
        app_expect(named->buffer.bytes == model[i].bytes &&
                       named->buffer.capacity >= model[i].bytes,
                   "a length");
        if (i != but)
            app_expect(may_clean ? named->buffer.capacity <= model[i].capacity
                                 : named->buffer.capacity == model[i].capacity,
                       "a capacity");
        model[i].capacity = named->buffer.capacity;
        held += model[i].capacity;
        used += model[i].bytes;
        count++;
        empty += !model[i].bytes;
    }
    model_peak = held > model_peak ? held : model_peak;
    IS_OK(gpushim_buffers_get_statistics(&random_set, &now));
    app_expect(now.held_bytes == held && now.used_bytes == used && held <= LIMIT,
               "bytes");
    app_expect(now.peak_bytes == model_peak || faulty, "a peak");
    app_expect(now.count == count && now.empty_count == empty, "counts");
    app_expect(now.grown_count == model_grown && now.refused_count == model_refused,
               "requests");
    app_expect(may_clean || now.cleaned_bytes == cleaned_before, "a clean-up");
    cleaned_before = now.cleaned_bytes;
}

/* Reads a buffer, of which a call may fail, and compares [0, bytes) with the model. */
static void compare_data(size_t i, size_t bytes)
{
    unsigned char found[MOST];
    struct gpushim_buffer *buffer = NULL;
    char name[16];

    snprintf(name, sizeof(name), "buffer %zu", i);
    if (!bytes)
        return;
    IS_OK(gpushim_buffers_find(&random_set, name, &buffer));
    while (gpushim_buffer_get(buffer, 0, found, bytes, GPUSHIM_SYNC) != GPUSHIM_OK)
        app_expect(faulty, "a copy");
    app_expect(memcmp(found, model[i].data, bytes) == 0, "data");
}

static void model_resize(size_t i, size_t bytes, uint64_t *state)
{
    const struct gpushim_buffer_type *type = &kinds[type_of(i)];
    size_t now, least, before = model[i].is_there ? model[i].capacity : 0, grown;
    size_t limit = type->limit ? type->limit : SIZE_MAX, had = model[i].bytes;
    bool grows = bytes > before, fits, may_clean;
    struct gpushim_buffer *buffer = NULL;
    gpushim_result result;
    char name[16];

    snprintf(name, sizeof(name), "buffer %zu", i);
    sum_others(i, &now, &least);
    fits = bytes <= limit && (!grows || least + bytes <= LIMIT);
    may_clean = grows && bytes <= limit && (now + bytes > LIMIT || faulty);
    result = gpushim_buffers_resize(&random_set, name, type_of(i), bytes,
                                    app_random(state) % 2 ? NULL : GPUSHIM_SYNC, &buffer);
    model_refused += result == GPUSHIM_NO_MEMORY;
    failed += result != GPUSHIM_OK && fits;
    app_expect(fits ? result == GPUSHIM_OK || faulty
                    : result == GPUSHIM_NO_MEMORY || faulty,
               "a result");
    if (result != GPUSHIM_OK) {
        app_expect(!buffer, "a refused call wrote");
        compare_all(!had ? i : NAMES, may_clean);
        compare_data(i, had);
        return;
    }
    model_grown += grows && had > 0;
    model[i].is_there = model[i].is_there || bytes;
    model[i].bytes = bytes;
    compare_all(i, may_clean);
    if (grows && !may_clean) {
        grown = had ? (size_t)((double)before * (type->growth > 0 ? type->growth : 1.5))
                    : bytes;
        grown = grown > limit ? limit : grown;
        grown = now + grown > LIMIT || grown < bytes ? bytes : grown;
        app_expect(model[i].capacity == grown, "growth");
    }
    if (!grows && bytes)
        app_expect(model[i].capacity == before, "a capacity of its own");
    if (type->flags & GPUSHIM_ZEROED && bytes > had)
        memset(model[i].data + had, 0, bytes - had);
    compare_data(i, type->flags & GPUSHIM_ZEROED || bytes < had ? bytes : had);
    app_bytes_fill(model[i].data, bytes, (uint32_t)app_random(state));
    while (bytes && gpushim_buffer_put(buffer, 0, model[i].data, bytes, GPUSHIM_SYNC) !=
                        GPUSHIM_OK)
        app_expect(faulty, "a copy");
}

static void model_drop(size_t i)
{
    char name[16];
    gpushim_result result;

    snprintf(name, sizeof(name), "buffer %zu", i);
    result = gpushim_buffers_drop(&random_set, name);
    if (faulty && (result == GPUSHIM_CUDA || result == GPUSHIM_NO_MEMORY)) {
        failed++;
        compare_all(NAMES, false);
        return;
    }
    expect(name, model[i].is_there ? GPUSHIM_OK : GPUSHIM_NOT_FOUND, result);
    model[i].is_there = false;
    model[i].bytes = 0;
    compare_all(NAMES, false);
}

static void model_clean(int all)
{
    struct gpushim_buffers_statistics now;
    size_t freed = 0, before = random_set.held_bytes;
    gpushim_result result = gpushim_buffers_clean(&random_set, all, &freed);

    failed += result != GPUSHIM_OK;
    app_expect(result == GPUSHIM_OK || faulty, "a clean-up");
    compare_all(NAMES, true);
    IS_OK(gpushim_buffers_get_statistics(&random_set, &now));
    app_expect(now.held_bytes + freed == before, "what it freed");
    for (size_t i = 0; i < NAMES; i++)
        app_expect(faulty || !model[i].is_there ||
                       (!all && kinds[type_of(i)].idle_seconds) ||
                       (model[i].bytes && model[i].capacity == model[i].bytes),
                   "what it left");
}

/* Its owner shrinks or frees a buffer past the set. */
static void model_own(size_t i, bool shrinks)
{
    struct gpushim_buffer *buffer = NULL;
    char name[16];

    snprintf(name, sizeof(name), "buffer %zu", i);
    if (gpushim_buffers_find(&random_set, name, &buffer) != GPUSHIM_OK)
        return;
    if (shrinks && gpushim_buffer_shrink(buffer, 0, GPUSHIM_SYNC) == GPUSHIM_OK) {
        model[i].capacity = buffer->capacity;
    } else if (!shrinks && gpushim_buffer_free(buffer) == GPUSHIM_OK) {
        model[i].is_there = false;
        model[i].bytes = 0;
        IS_OK(gpushim_buffers_get_statistics(&random_set,
                                             &(struct gpushim_buffers_statistics){0}));
    } else {
        app_expect(faulty, "its owner");
        failed++;
    }
    compare_all(NAMES, false);
}

static void at_random(uint64_t state)
{
    IS_OK(gpushim_buffers_create(&random_set, LIMIT, kinds, APP_COUNT(kinds)));
    for (int i = 0; i < 3000; i++) {
        size_t which = (size_t)(app_random(&state) % NAMES);
        size_t action = (size_t)(app_random(&state) % 40);
        size_t bytes = (size_t)(app_random(&state) % (action < 8 ? 300 : MOST));

        if (action == 39)
            model_clean(i % 3 == 0);
        else if (action > 34)
            model_drop(which);
        else if (action > 32)
            model_own(which, i % 2);
        else
            model_resize(which, action > 29 ? 0 : bytes, &state);
        if (i % 50 == 0)
            for (size_t j = 0; j < NAMES; j++)
                compare_data(j, model[j].is_there ? model[j].bytes : 0);
    }
    app_expect(model_refused > 10 && model_grown > 100 && cleaned_before > 0,
               "too few of each");
    while (gpushim_buffers_free(&random_set) != GPUSHIM_OK)
        app_expect(faulty, "its end");
    if (faulty)
        printf("faults: %s\n", failed ? "met" : "none");
    else
        printf("random: grown %d, refused %d\n", (int)model_grown, (int)model_refused);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) + 1 : 1;
    static struct gpushim_buffers lost;

    app_gpu_start();
    if (strcmp(mode, "bad") == 0) {
        expect_refusals();
    } else if (strcmp(mode, "random") == 0 || strcmp(mode, "faults") == 0) {
        faulty = strcmp(mode, "faults") == 0;
        at_random(seed);
    } else if (strcmp(mode, "full") == 0) {
        use_full();
    } else if (strcmp(mode, "streams") == 0) {
        use_streams(seed);
    } else if (strcmp(mode, "leak") == 0) {
        IS_OK(gpushim_buffers_create(&lost, 0, NULL, 0));
        IS_OK(gpushim_buffers_resize(&lost, "positions", 0, 1000, NULL, NULL));
        IS_OK(gpushim_buffers_resize(&lost, "positions", 0, 12345, NULL, NULL));
    } else {
        for (int place = 0; place < 4; place++)
            use((gpushim_place)place);
        use_in_place();
        use_enough();
    }
    return 0;
}
