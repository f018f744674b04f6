/*
 * apirandom.c - calls gpushim.h and gpushim_memory.h with arguments drawn at random,
 * right ones and wrong ones, from four threads that share two caches.
 *
 *   apirandom_WAY SEED CALLS [nocapture]
 *
 * For each call the program decides by the headers' words whether an argument is wrong:
 * a wrong one has to give GPUSHIM_INVALID and change nothing, and a call without any one
 * of the other codes that its comment lists. From 40,000 calls on every function has to
 * have met both, in up to 10 times as many calls. Memory, scopes and captures are given
 * back: there is no leak. Ends with 1 where a code differs.
 */
#include <limits.h>
#include <pthread.h>

#include "gpushim_memory.h"
#include "launch.h"

enum { THREADS = 4, BUFFERS = 6, BATCH = 3, MOST = 6000, TAKEN = 3, RETAINED = 4 };

/* Sets of results. */
#define ONE(result) (1u << (result))
#define FINE        ONE(GPUSHIM_OK)
#define NO_ROOM     ONE(GPUSHIM_NO_MEMORY)
#define FAILED      ONE(GPUSHIM_CUDA)
#define ABSENT      ONE(GPUSHIM_NOT_FOUND)
#define REFUSED     ONE(GPUSHIM_INVALID)

/* Every function of the two headers (tests/e2e/cases/api.sh compares): those that return
 * a result, and what each has returned so far; then the others. Those that need the
 * library stand from get_statistics on. */
/* clang-format off */
#define FUNCTIONS(row)                                                                   \
    row(buffer_create) row(buffer_free) row(buffer_view) row(buffer_around)              \
    row(buffer_device_address) row(buffer_copy) row(buffer_put) row(buffer_get)          \
    row(buffer_get_slot) row(buffer_copy_rows) row(buffer_fill) row(buffer_zero)         \
    row(buffer_prefetch) row(buffer_advise) row(buffer_resize) row(buffer_shrink)        \
    row(copy_batch) row(batch_create)                                                    \
    row(group_create) row(group_preallocate) row(group_alloc) row(group_alloc_typed)     \
    row(group_get) row(group_clear) row(group_free)                                      \
    row(buffers_create) row(buffers_resize) row(buffers_find) row(buffers_drop)          \
    row(buffers_clean) row(buffers_get_statistics) row(buffers_free)                     \
    row(cache_create) row(cache_take) row(cache_give) row(cache_trim) row(cache_free)    \
    row(readback_start) row(readback_poll) row(readback_wait) row(readback_range)        \
    row(readback_end) row(read_back) row(read_file)                                      \
    row(ring_create) row(ring_space) row(ring_next) row(ring_push) row(ring_pop)         \
    row(ring_device_address) row(ring_free)                                              \
    row(streams_create) row(streams_free) row(stream_after) row(stream_wait)             \
    row(get_visibility) row(get_memory) row(enable_peers) row(get_difference)            \
    row(get_statistics) row(get_classes) row(trim) row(warm_up)                          \
    row(warming_start) row(warming_poll) row(warming_wait)                               \
    row(get_option) row(set_option) row(report) row(record)                              \
    row(get_pressure) row(on_pressure) row(off_pressure) row(release) row(resume)        \
    row(stretch_begin) row(stretch_get) row(stretch_end)                                 \
    row(find_allocation) row(visit_allocations) row(get_stack)                           \
    row(snapshot_take) row(snapshot_difference) row(snapshot_free)                       \
    row(scope_begin) row(scope_end) row(scope_statistics) row(scope_path)                \
    row(defragment)                                                                      \
    row(stream_alloc) row(stream_free) row(stream_uses)
#define OTHERS(row)                                                                      \
    row(library) row(library_version) row(result_text) row(pressure_text)                \
    row(class_of) row(hit_rate) row(fragmentation) row(cache_hit_rate)               \
    row(left_text)
/* clang-format on */
enum function {
#define ROW(name) F_##name,
    FUNCTIONS(ROW)
#undef ROW
        F_COUNT
};
static const char *const names[] = {
#define ROW(name) #name,
    FUNCTIONS(ROW)
#undef ROW
};
static unsigned seen[F_COUNT]; /* atomic */

static struct gpushim_cache shared[2]; /* of device and of pinned memory */
static struct gpushim_cache strange;   /* hands out nothing */
static bool capture_too = true, inactive;

/* What one thread has. */
struct world {
    uint64_t random;
    struct gpushim_buffer buffers[BUFFERS], block, parts[BATCH], taken[TAKEN];
    struct gpushim_ring ring;
    struct gpushim_group group;
    struct gpushim_buffers set;
    struct gpushim_readback readback;
    unsigned readback_others; /* FAILED: its event may be a capture's */
    struct gpushim_streams streams;
    gpu_stream captured;
    bool capturing;
    unsigned depth;                  /* scopes whose end is owed */
    struct gpushim_stretch *stretch; /* open; NULL: none */
    struct gpushim_snapshot *snapshot;
    void *blocks[RETAINED];
    char host[MOST];
    struct gpushim_buffer before[BUFFERS];
    uint64_t calls;
};

static size_t below(struct world *world, size_t count)
{
    return (size_t)(app_random(&world->random) >> 11) % count;
}

static bool once_in(struct world *world, size_t count)
{
    return below(world, count) == 0;
}

static void note_before(struct world *world)
{
    memcpy(world->before, world->buffers, sizeof(world->buffers));
}

static bool same_as_before(const struct world *world)
{
    for (size_t i = 0; i < BUFFERS; i++) {
        struct gpushim_buffer now = world->buffers[i];
        now.used_at = world->before[i].used_at;
        if (memcmp(&now, &world->before[i], sizeof(now)) != 0)
            return false;
    }
    return true;
}

/* The function returned `got`. `wrong`: an argument was; `others`: what else it may
 * return. What a capture forbids fails in the driver, in this thread's calls alone. */
static void judge(struct world *world, enum function function, gpushim_result got,
                  bool wrong, unsigned others)
{
    bool known = got == GPUSHIM_INVALID ? wrong || (others & REFUSED)
                 : wrong                ? false
                                        : (others & ONE(got)) != 0;

    world->calls++;
    if (inactive && function >= F_get_statistics)
        known = got == GPUSHIM_INACTIVE || (wrong && got == GPUSHIM_INVALID);
    if (!known && !wrong && world->capturing)
        known = got == GPUSHIM_OK || got == GPUSHIM_CUDA;
    if (!known) {
        fprintf(stderr, "apirandom: %s %s: %s\n", names[function],
                wrong ? "with a wrong argument" : "with right arguments",
                gpushim_result_text(got));
        app_expect(false, "a code");
    }
    if (wrong && !same_as_before(world)) {
        fprintf(stderr, "apirandom: %s\n", names[function]);
        app_expect(false, "a refused call wrote");
    }
    (void)__atomic_or_fetch(&seen[function], ONE(got), __ATOMIC_RELAXED);
}

/* ---- arguments --------------------------------------------------------------------- */

static struct gpushim_buffer *any_buffer(struct world *world)
{
    return once_in(world, 40) ? NULL : &world->buffers[below(world, BUFFERS)];
}

/* One that is not live. */
static struct gpushim_buffer *free_slot(struct world *world)
{
    struct gpushim_buffer *buffer = &world->buffers[below(world, BUFFERS)];

    app_expect(gpushim_buffer_free(buffer) == GPUSHIM_OK, "a free");
    return buffer;
}

/* [*offset, *offset + *bytes), mostly within a buffer, and at its edges. */
static void any_range(struct world *world, const struct gpushim_buffer *buffer,
                      size_t *offset, size_t *bytes)
{
    size_t has = buffer && buffer->bytes ? buffer->bytes : 100;

    *offset = below(world, has);
    *bytes = 1 + below(world, has - *offset);
    if (once_in(world, 12))
        *bytes = has - *offset + below(world, 2);
    if (once_in(world, 30))
        *bytes = 0;
    if (once_in(world, 60))
        *offset = SIZE_MAX - below(world, 200);
    if (once_in(world, 60))
        *bytes = SIZE_MAX - below(world, 200);
}

/* By numbers that no length of a buffer overflows. */
static bool is_within(const struct gpushim_buffer *buffer, size_t offset, size_t bytes)
{
    return buffer && buffer->data && bytes > 0 && bytes <= buffer->bytes &&
           offset <= buffer->bytes - bytes;
}

static void *any_stream(struct world *world)
{
    switch (below(world, world->capturing ? 5 : 4)) {
    case 0:
        return NULL;
    case 1:
        return world->streams.compute;
    case 2:
        return world->streams.upload;
    case 3:
        return GPUSHIM_SYNC;
    default:
        return world->captured;
    }
}

static size_t any_bytes(struct world *world, bool on_host)
{
    return once_in(world, 20)               ? 0
           : once_in(world, 50) && !on_host ? (size_t)1 << 60
                                            : 1 + below(world, MOST);
}

/* ---- buffers ----------------------------------------------------------------------- */

static void do_create(struct world *world)
{
    static const size_t alignments[] = {0, 0, 1, 16, 256, 512, 4096, 3, 24, 1000};
    struct gpushim_buffer *out = once_in(world, 40) ? NULL : free_slot(world);
    int place = (int)below(world, 10) % 4;
    size_t bytes = any_bytes(world, place == GPUSHIM_HOST);
    size_t alignment = alignments[below(world, APP_COUNT(alignments))];
    unsigned flags = once_in(world, 20) ? (unsigned)below(world, capture_too ? 4 : 8)
                     : once_in(world, 20) && !capture_too ? GPUSHIM_IN_PLACE
                                                          : 0;
    bool huge = bytes > MOST, wrong;

    place = once_in(world, 40) ? (once_in(world, 2) ? 4 : -1) : place;
    wrong = !out || !bytes || (unsigned)place > 3 || alignment == 3 || alignment == 24 ||
            alignment == 1000 || flags & GPUSHIM_VIEW ||
            (flags & GPUSHIM_IN_PLACE && place != GPUSHIM_DEVICE);
    note_before(world);
    judge(world, F_buffer_create,
          gpushim_buffer_create(out, (gpushim_place)place, bytes, alignment, flags),
          wrong, huge ? NO_ROOM : FINE | NO_ROOM);
    if (out && out->data && once_in(world, 3))
        out->limit = 1 + below(world, 2 * MOST);
}

static void do_free(struct world *world)
{
    struct gpushim_buffer *buffer = any_buffer(world);

    judge(world, F_buffer_free, gpushim_buffer_free(buffer), false, FINE);
    app_expect(!buffer || !buffer->data, "a freed buffer");
}

static void do_view(struct world *world)
{
    struct gpushim_buffer *of = any_buffer(world), view = GPUSHIM_BUFFER_INIT;
    struct gpushim_buffer *out = once_in(world, 40) ? NULL : &view;
    size_t offset, bytes;
    bool whole = once_in(world, 2);

    any_range(world, of, &offset, &bytes);
    judge(world, F_buffer_view, gpushim_buffer_view(out, of, offset, bytes),
          !out || !is_within(of, offset, bytes), FINE);
    if (!view.data)
        return;
    /* A view stays within itself, and owns nothing. */
    judge(world, F_buffer_resize,
          gpushim_buffer_resize(&view, bytes + !whole, GPUSHIM_SYNC), !whole, FINE);
    judge(world, F_buffer_shrink, gpushim_buffer_shrink(&view, 0, NULL), true, 0);
    judge(world, F_cache_give, gpushim_cache_give(&shared[0], "k", 1, &view), true, 0);
    judge(world, F_buffer_free, gpushim_buffer_free(&view), false, FINE);
}

static void do_around(struct world *world)
{
    struct gpushim_buffer around = GPUSHIM_BUFFER_INIT;
    void *memory = once_in(world, 10) ? NULL : world->host;
    size_t bytes = once_in(world, 10) ? SIZE_MAX : below(world, MOST);
    int place = (int)below(world, 5);

    judge(world, F_buffer_around,
          gpushim_buffer_around(&around, memory, bytes, (gpushim_place)place),
          !memory || !bytes || bytes == SIZE_MAX || place > 3, FINE);
}

static void do_address(struct world *world)
{
    struct gpushim_buffer *buffer = any_buffer(world);
    void *address;

    judge(world, F_buffer_device_address, gpushim_buffer_device_address(buffer, &address),
          !buffer || !buffer->data || buffer->place == GPUSHIM_HOST, FINE);
}

static void do_copy(struct world *world)
{
    struct gpushim_buffer *dst = any_buffer(world), *src = any_buffer(world);
    size_t to, from, bytes, other;
    bool wrong;

    any_range(world, dst, &to, &bytes);
    any_range(world, src, &from, &other);
    bytes = once_in(world, 4) || bytes < other ? bytes : other;
    wrong = !is_within(dst, to, bytes) || !is_within(src, from, bytes) ||
            (dst == src && to < from + bytes && from < to + bytes);
    judge(world, F_buffer_copy,
          gpushim_buffer_copy(dst, to, src, from, bytes, any_stream(world)), wrong, FINE);
}

/* All of a batch is checked before its first copy. */
static void do_copy_batch(struct world *world)
{
    struct gpushim_copy copies[3];
    size_t count = below(world, 4), done = 42, bytes;
    bool wrong = !count;

    for (size_t i = 0; i < APP_COUNT(copies); i++) {
        struct gpushim_copy *copy = &copies[i];

        copy->dst = any_buffer(world);
        copy->src = any_buffer(world);
        any_range(world, copy->dst, &copy->dst_offset, &copy->bytes);
        any_range(world, copy->src, &copy->src_offset, &bytes);
        copy->bytes = copy->bytes < bytes ? copy->bytes : bytes;
        wrong = wrong ||
                (i < count && (!is_within(copy->dst, copy->dst_offset, copy->bytes) ||
                               !is_within(copy->src, copy->src_offset, copy->bytes) ||
                               (copy->dst == copy->src &&
                                copy->dst_offset < copy->src_offset + copy->bytes &&
                                copy->src_offset < copy->dst_offset + copy->bytes)));
    }
    judge(world, F_copy_batch,
          gpushim_copy_batch(copies, count, any_stream(world), &done), wrong, FINE);
    app_expect(wrong ? done == 42 : done <= count, "copies done");
}

static void do_put_get(struct world *world)
{
    struct gpushim_buffer *buffer = any_buffer(world);
    void *host = once_in(world, 40) ? NULL : world->host;
    size_t offset, bytes, slot;
    bool wrong;

    any_range(world, buffer, &offset, &bytes);
    wrong = !host || !is_within(buffer, offset, bytes);
    bytes = wrong || bytes <= MOST ? bytes : MOST;
    if (once_in(world, 2)) {
        judge(world, F_buffer_put,
              gpushim_buffer_put(buffer, offset, host, bytes, any_stream(world)), wrong,
              FINE);
    } else if (once_in(world, 2)) {
        judge(world, F_buffer_get,
              gpushim_buffer_get(buffer, offset, host, bytes, any_stream(world)), wrong,
              FINE);
    } else {
        slot = once_in(world, 30) ? SIZE_MAX / 3 : below(world, 4);
        bytes = bytes > MOST ? bytes : bytes / 4;
        wrong = !host || (bytes && slot > SIZE_MAX / bytes) ||
                !is_within(buffer, slot * bytes, bytes);
        judge(world, F_buffer_get_slot,
              gpushim_buffer_get_slot(buffer, slot, bytes, host, any_stream(world)),
              wrong, FINE);
    }
}

/* Row by row: what the columns of one matrix share is nothing. */
static bool rows_overlap(size_t to, size_t from, size_t pitch, size_t width, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < rows; k++)
            if (to + i * pitch < from + k * pitch + width &&
                from + k * pitch < to + i * pitch + width)
                return true;
    return false;
}

static void do_copy_rows(struct world *world)
{
    struct gpushim_buffer *dst = any_buffer(world), *src = any_buffer(world);
    size_t to = below(world, 200), from = below(world, 200), rows = below(world, 9);
    size_t width = below(world, 40), pitch = 20 + below(world, 60);
    size_t extent = rows ? (rows - 1) * pitch + width : 0;
    bool wrong;

    if (once_in(world, 40))
        pitch = SIZE_MAX / (1 + below(world, 8));
    wrong = !width || !rows || width > pitch;
    wrong = wrong || (pitch > MOST && rows > 1) || !is_within(dst, to, extent) ||
            !is_within(src, from, extent) ||
            (dst == src && rows_overlap(to, from, pitch, width, rows));
    /* A pitch beyond the device's limit is the driver's to refuse. */
    judge(world, F_buffer_copy_rows,
          gpushim_buffer_copy_rows(dst, to, pitch, src, from, pitch, width, rows,
                                   any_stream(world)),
          wrong, pitch > MOST ? FINE | FAILED : FINE);
}

static void do_fill(struct world *world)
{
    struct gpushim_buffer *buffer = any_buffer(world);
    size_t offset, bytes;

    any_range(world, buffer, &offset, &bytes);
    judge(world, F_buffer_fill,
          gpushim_buffer_fill(buffer, offset, bytes, 7, any_stream(world)),
          !is_within(buffer, offset, bytes), FINE);
    judge(world, F_buffer_zero, gpushim_buffer_zero(buffer, any_stream(world)),
          !buffer || !buffer->data, FINE);
}

static void do_managed(struct world *world)
{
    struct gpushim_buffer *buffer = any_buffer(world);
    int device = (int)below(world, 4) - 2, advice = (int)below(world, 9) - 1;
    bool managed = buffer && buffer->data && buffer->place == GPUSHIM_MANAGED;
    size_t offset, bytes;

    any_range(world, buffer, &offset, &bytes);
    judge(world, F_buffer_prefetch,
          gpushim_buffer_prefetch(buffer, offset, bytes, device, any_stream(world)),
          !managed || !is_within(buffer, offset, bytes) || device < -1, FINE | FAILED);
    judge(world, F_buffer_advise,
          gpushim_buffer_advise(buffer, (gpushim_advice)advice, device),
          !managed || device < -1 || advice < 1 || advice > 6, FINE | FAILED);
}

static void do_visibility(struct world *world)
{
    gpushim_visibility found, *out = once_in(world, 5) ? NULL : &found;
    int device = (int)below(world, 4) - 1;

    judge(world, F_get_visibility, gpushim_get_visibility(device, out),
          !out || device < 0, device == 0 ? FINE : FINE | FAILED);
}

static void do_devices(struct world *world)
{
    int device = (int)below(world, 3) - 1, pairs = -1;
    size_t free_bytes = 1, total_bytes = 0;
    gpushim_result result;

    if (!once_in(world, 20))
        return;
    result =
        gpushim_get_memory(device, &free_bytes, once_in(world, 4) ? NULL : &total_bytes);
    judge(world, F_get_memory, result, device < 0, device == 0 ? FINE : FINE | FAILED);
    app_expect(result == GPUSHIM_OK ? !total_bytes || free_bytes <= total_bytes
                                    : free_bytes == 1 && !total_bytes,
               "a device's memory");
    judge(world, F_enable_peers, gpushim_enable_peers(once_in(world, 3) ? NULL : &pairs),
          false, FINE);
}

static void do_resize(struct world *world)
{
    struct gpushim_buffer *buffer = any_buffer(world);
    bool live = buffer && buffer->data;
    bool on_host = live && buffer->place == GPUSHIM_HOST;
    size_t bytes = any_bytes(world, on_host);
    double growth = once_in(world, 20) ? 0.5 : 1 + (double)below(world, 3);
    bool longer = live && bytes > buffer->capacity;
    unsigned others = FINE | NO_ROOM;

    if (live)
        buffer->growth = growth;
    note_before(world);
    if (longer && buffer->limit && bytes > buffer->limit)
        others = NO_ROOM;
    judge(world, F_buffer_resize, gpushim_buffer_resize(buffer, bytes, any_stream(world)),
          !live || !bytes || (longer && growth < 1), others);
    app_expect(!live || buffer->bytes <= buffer->capacity, "a length");
    judge(world, F_buffer_shrink,
          gpushim_buffer_shrink(buffer, below(world, 2) * 1000, any_stream(world)), !live,
          FINE | NO_ROOM);
}

static void do_batch(struct world *world)
{
    size_t bytes[BATCH], count = once_in(world, 20) ? 0 : 1 + below(world, BATCH);
    bool wrong = !count;

    for (size_t i = 0; i < BATCH; i++) {
        bytes[i] = once_in(world, 60) ? SIZE_MAX - below(world, 100) : below(world, 900);
        wrong = wrong || (i < count && (!bytes[i] || bytes[i] > MOST));
    }
    app_expect(gpushim_buffer_free(&world->block) == GPUSHIM_OK, "a block");
    judge(world, F_batch_create,
          gpushim_batch_create(&world->block, world->parts, bytes, count,
                               (gpushim_place)below(world, 4), 0, 0),
          wrong, FINE | NO_ROOM);
    for (size_t i = 0; world->block.data && i < count; i++)
        app_expect(
            is_within(&world->block,
                      (size_t)((char *)world->parts[i].data - (char *)world->block.data),
                      bytes[i]),
            "a part");
}

static void do_group(struct world *world)
{
    static const char *const names_of[] = {NULL, "work", "", "a/b", "more work"};
    const size_t which = below(world, APP_COUNT(names_of));
    struct gpushim_group *group = &world->group, now;
    struct gpushim_buffer view, *out = once_in(world, 30) ? NULL : &view;
    gpushim_place place = (gpushim_place)below(world, 6);
    bool on_host = (group->begun ? group->place : place) == GPUSHIM_HOST;
    size_t bytes = any_bytes(world, on_host), left = group->member_count;
    unsigned flags = once_in(world, 30) ? 8 : (unsigned)below(world, 2);
    bool huge = bytes > MOST, none = !group->begun;

    if (none)
        judge(world, F_group_create,
              gpushim_group_create(out ? group : NULL, names_of[which], place,
                                   below(world, 4)),
              !out || place > GPUSHIM_MANAGED || which == 2, FINE);
    none = !group->begun;
    if (left > 100 || once_in(world, 20))
        judge(world, F_group_clear, gpushim_group_clear(group), none, FINE);
    judge(world, F_group_preallocate, gpushim_group_preallocate(group, bytes),
          none || !bytes, huge ? NO_ROOM : FINE);
    judge(world, F_group_alloc, gpushim_group_alloc(group, bytes, flags, out),
          none || !bytes || !out || flags > 1, huge ? NO_ROOM : FINE);
    judge(world, F_group_alloc_typed,
          gpushim_group_alloc_typed(group, bytes, 2, flags, out),
          none || !bytes || !out || flags > 1 || bytes > SIZE_MAX / 2,
          huge ? NO_ROOM : FINE);
    judge(world, F_group_get, gpushim_group_get(group, out ? &now : NULL), none || !out,
          FINE);
    if (once_in(world, 10))
        judge(world, F_group_free, gpushim_group_free(group), false, FINE);
}

static void do_buffers(struct world *world)
{
    static const char *const names_of[] = {"a", "b", "c", "a/b", "", NULL};
    static const struct gpushim_buffer_type types[] = {
        {.growth = 2, .limit = MOST / 2},
        {.place = GPUSHIM_HOST, .flags = GPUSHIM_ZEROED},
        {.place = GPUSHIM_PINNED_HOST, .idle_seconds = 100},
        {.growth = 0.5}};
    const struct gpushim_buffer_type *rows = once_in(world, 20) ? NULL : types;
    const char *name = names_of[below(world, once_in(world, 10) ? 6 : 4)];
    struct gpushim_buffers *set = &world->set;
    struct gpushim_buffers_statistics now, *wanted = once_in(world, 10) ? NULL : &now;
    struct gpushim_buffer *found, **out = once_in(world, 10) ? NULL : &found;
    bool unnamed = !name || !name[0], none = !set->types;
    size_t type = unnamed ? 0 : (size_t)name[0] % 3, count = below(world, 5);
    size_t bytes = once_in(world, 5) ? 0 : any_bytes(world, type == 1);
    /* A clean-up synchronizes the context, in which another thread may capture. */
    unsigned waits = capture_too ? FINE | FAILED : FINE;

    if (none)
        judge(world, F_buffers_create,
              gpushim_buffers_create(set, below(world, 2) * 2 * MOST, rows, count),
              (count && !rows) || count > 3, FINE);
    none = !set->types;
    type = once_in(world, 20) ? 3 : type;
    judge(world, F_buffers_resize,
          gpushim_buffers_resize(set, name, type, bytes, any_stream(world), out),
          unnamed || type >= set->type_count, waits | NO_ROOM);
    judge(world, F_buffers_find, gpushim_buffers_find(set, name, out),
          none || unnamed || !out, FINE | ABSENT);
    judge(world, F_buffers_get_statistics, gpushim_buffers_get_statistics(set, wanted),
          none || !wanted, FINE);
    app_expect(none || !wanted || now.used_bytes <= now.held_bytes, "bytes of a set");
    if (once_in(world, 8))
        judge(world, F_buffers_drop, gpushim_buffers_drop(set, name), none || unnamed,
              FINE | ABSENT);
    if (once_in(world, 8))
        judge(world, F_buffers_clean, gpushim_buffers_clean(set, once_in(world, 2), NULL),
              none, waits);
    if (once_in(world, 20))
        judge(world, F_buffers_free, gpushim_buffers_free(set), false, FINE);
}

/* ---- caches, read-back, rings ------------------------------------------------------ */

static void do_cache(struct world *world)
{
    struct gpushim_cache *cache = once_in(world, 40) ? NULL : &shared[0], other;
    struct gpushim_buffer *taken = &world->taken[below(world, TAKEN)];
    const char *key = once_in(world, 30) ? NULL : "abc";
    size_t key_bytes = once_in(world, 30) ? 0 : 1 + below(world, 3);
    size_t bytes = once_in(world, 30) ? 0 : 1 + below(world, MOST);
    size_t most = below(world, 3);
    int place = (int)below(world, 6) - 1;
    bool wrong = !cache || !key || !key_bytes;

    if (taken->data) {
        judge(world, F_cache_give, gpushim_cache_give(&strange, "abc", 1, taken), true,
              0);
        judge(world, F_cache_give, gpushim_cache_give(cache, key, key_bytes, taken),
              wrong, FINE);
        app_expect(wrong == (taken->data != NULL), "what was given back");
        return;
    }
    judge(world, F_cache_give, gpushim_cache_give(&shared[0], "k", 1, taken), true, 0);
    judge(world, F_cache_take, gpushim_cache_take(cache, key, key_bytes, bytes, taken),
          wrong || !bytes, FINE | NO_ROOM);
    judge(world, F_cache_create,
          gpushim_cache_create(&other, (gpushim_place)place, most, 0),
          !most || place < 0 || place > 3, FINE);
    judge(
        world, F_cache_trim,
        gpushim_cache_trim(once_in(world, 2) ? &shared[1] : cache, below(world, 2), NULL),
        false, FINE | (cache ? 0 : REFUSED));
    app_expect(gpushim_cache_hit_rate(cache) >= 0 && gpushim_cache_hit_rate(cache) <= 1,
               "a hit rate");
    if (once_in(world, 2)) {
        judge(world, F_cache_free, gpushim_cache_free(NULL), true, 0);
    } else if (gpushim_cache_create(&other, GPUSHIM_HOST, 1, 0) == GPUSHIM_OK) {
        judge(world, F_cache_free, gpushim_cache_free(&other), false, FINE);
        judge(world, F_cache_take, gpushim_cache_take(&other, "k", 1, 1, taken), true, 0);
    }
}

static gpushim_result see_chunk(void *user, struct gpushim_buffer *chunk, uint64_t offset,
                                void *stream)
{
    (void)offset, (void)stream;
    *(size_t *)user += chunk->bytes;
    return GPUSHIM_OK;
}

static void do_readback(struct world *world)
{
    struct gpushim_cache *cache = &shared[!once_in(world, 30)];
    struct gpushim_buffer *src = any_buffer(world);
    struct gpushim_readback *readback = &world->readback;
    size_t offset, bytes, chunk = below(world, 3000), read = 0;
    const void *data;
    int ready = 0;
    bool under_way = readback->event != NULL, wrong;

    any_range(world, src, &offset, &bytes);
    wrong = cache == &shared[0] || !is_within(src, offset, bytes);
    if (!under_way) {
        judge(world, F_readback_start,
              gpushim_readback_start(readback, cache, src, offset, bytes,
                                     any_stream(world)),
              wrong, FINE | NO_ROOM);
    }
    if (!under_way)
        world->readback_others = world->capturing ? FINE | FAILED : FINE;
    under_way = readback->event != NULL;
    judge(world, F_readback_poll, gpushim_readback_poll(readback, &ready), !under_way,
          world->readback_others);
    if (once_in(world, 2))
        judge(world, F_readback_wait, gpushim_readback_wait(readback), !under_way,
              world->readback_others);
    any_range(world, &readback->data, &offset, &bytes);
    judge(world, F_readback_range, gpushim_readback_range(readback, offset, bytes, &data),
          !readback->complete || !is_within(&readback->data, offset, bytes), FINE);
    judge(world, F_readback_end, gpushim_readback_end(NULL), true, 0);
    if (once_in(world, 2)) /* it may have begun in a capture */
        judge(world, F_readback_end, gpushim_readback_end(readback), false,
              world->readback_others);
    if (!once_in(world, 8))
        return;
    src = any_buffer(world);
    any_range(world, src, &offset, &bytes);
    wrong = !chunk || !is_within(src, offset, bytes);
    judge(world, F_read_back,
          gpushim_read_back(&shared[1], src, offset, bytes, chunk, any_stream(world),
                            see_chunk, &read),
          wrong, FINE | NO_ROOM);
    app_expect(!wrong || read == 0, "a chunk");
}

static void do_ring(struct world *world)
{
    struct gpushim_ring *ring = &world->ring, failed;
    struct gpushim_buffer slot;
    void *address, **to = once_in(world, 20) ? NULL : &address;
    size_t slots = below(world, 4), bytes = below(world, 200);
    void *stream = once_in(world, 3) ? GPUSHIM_SYNC : world->streams.compute;
    bool live = ring->counts != NULL;

    if (once_in(world, 30)) {
        app_expect(gpushim_stream_wait(world->streams.compute) == GPUSHIM_OK, "a wait");
        judge(world, F_ring_free, gpushim_ring_free(ring), false, FINE);
        judge(world, F_ring_free, gpushim_ring_free(NULL), true, 0);
        return;
    }
    if (!live)
        judge(world, F_ring_create, gpushim_ring_create(ring, slots, bytes),
              !slots || !bytes, FINE | NO_ROOM);
    judge(world, F_ring_create,
          gpushim_ring_create(&failed, SIZE_MAX / (1 + below(world, 9)), 64), true, 0);
    live = ring->counts != NULL;
    judge(world, F_ring_device_address,
          gpushim_ring_device_address(live ? ring : NULL, to), !live || !to, FINE);
    /* A push of now may overtake one in a stream: that is refused. */
    judge(world, F_ring_space, gpushim_ring_space(ring, &slot), !live, FINE | ABSENT);
    judge(world, F_ring_push, gpushim_ring_push(ring, stream), !live,
          FINE | ABSENT | (stream == GPUSHIM_SYNC ? REFUSED : 0));
    judge(world, F_ring_next, gpushim_ring_next(ring, &slot), !live, FINE | ABSENT);
    judge(world, F_ring_pop, gpushim_ring_pop(ring, stream), !live,
          FINE | ABSENT | (stream == GPUSHIM_SYNC ? REFUSED : 0));
}

static void do_streams(struct world *world)
{
    void *one = any_stream(world), *other = any_stream(world);
    struct gpushim_streams more = {NULL, NULL, NULL};
    bool alike = one == world->captured || other == world->captured;

    if (alike && one != other)
        return; /* it would draw the other stream into the capture */
    judge(world, F_stream_after, gpushim_stream_after(one, other),
          one == GPUSHIM_SYNC || other == GPUSHIM_SYNC, FINE);
    judge(world, F_stream_wait, gpushim_stream_wait(one), one == GPUSHIM_SYNC, FINE);
    if (!once_in(world, 10))
        return;
    judge(world, F_streams_create, gpushim_streams_create(NULL), true, 0);
    judge(world, F_streams_free, gpushim_streams_free(NULL), true, 0);
    judge(world, F_streams_create, gpushim_streams_create(&more), false, FINE);
    judge(world, F_streams_free, gpushim_streams_free(&more), false, FINE);
    judge(world, F_streams_free, gpushim_streams_free(&more), false, FINE);
}

static void do_file(struct world *world)
{
    static const char *const paths[] = {"/proc/self/exe", "/no/such/file", "/", NULL};
    size_t which = below(world, APP_COUNT(paths)), chunk = below(world, 3) * 4000;
    uint64_t offset = once_in(world, 8) ? UINT64_MAX : below(world, 2) * 77, done = 1;
    uint64_t bytes = below(world, 3) * 5000;
    size_t read = 0;
    bool wrong = !paths[which] || !bytes || !chunk || offset > INT64_MAX;

    if (!once_in(world, 10))
        return;
    judge(world, F_read_file,
          gpushim_read_file(paths[which], offset, bytes, chunk, world->streams.compute,
                            see_chunk, &read, &done),
          wrong, which == 0 ? FINE : ABSENT);
    app_expect(wrong ? done == 1 : done == read, "bytes read");
}

/* ---- gpushim.h --------------------------------------------------------------------- */

static int any_device(struct world *world)
{
    static const int devices[] = {0,  0,  0,       0,      1,   GPUSHIM_ALL_DEVICES,
                                  -1, -3, -4,      -99,    -50, 1000000,
                                  -2, 7,  INT_MIN, INT_MAX};
    return devices[below(world, APP_COUNT(devices))];
}

static void do_look(struct world *world)
{
    struct gpushim_statistics statistics = {.hits = 1, .misses = 1}, after = statistics;
    struct gpushim_statistics *out = once_in(world, 9) ? NULL : &statistics;
    struct gpushim_class classes[GPUSHIM_CLASSES];
    int device = any_device(world);
    bool of_gpu = device >= 0 || device == GPUSHIM_ALL_DEVICES, beyond = device >= 1000;

    if (!once_in(world, 20))
        return;
    judge(world, F_get_statistics, gpushim_get_statistics(device, out),
          !out || beyond || (!of_gpu && device < GPUSHIM_IMPORTED), FINE);
    judge(world, F_get_difference, gpushim_get_difference(out, &statistics, &after), !out,
          FINE);
    app_expect(!out || (after.hits == 0 && gpushim_hit_rate(&after) == 1.0),
               "a difference of nothing");
    app_expect(gpushim_hit_rate(out) >= 0 && gpushim_hit_rate(out) <= 1 &&
                   gpushim_fragmentation(out) >= 0 && gpushim_fragmentation(out) <= 1,
               "a share");
    judge(world, F_get_classes,
          gpushim_get_classes(device, classes,
                              once_in(world, 5) ? SIZE_MAX - below(world, 9)
                                                : below(world, GPUSHIM_CLASSES + 1)),
          beyond || !of_gpu, FINE);
    memset(classes, 0, sizeof(classes));
    classes[0].bytes = 100;
    app_expect(gpushim_class_of(classes, 1, 100) == 0 &&
                   gpushim_class_of(classes, 1, 101) == 1 &&
                   gpushim_class_of(NULL, 7, 1) == 7,
               "a class");
    judge(
        world, F_trim,
        gpushim_trim(device, once_in(world, 3) ? UINT64_MAX : below(world, 100000), NULL),
        beyond || !of_gpu, FINE);
}

static void do_warm_up(struct world *world)
{
    static const char *const right[] = {"4K:2", "1K:3,64K:1", "512:1"};
    static const char *const wrong[] = {"x",         "4K",   "4K:", ":3",
                                        "4K:2,,x:1", "-1:2", NULL};
    bool good = once_in(world, 2);

    if (once_in(world, 20))
        judge(world, F_warm_up,
              gpushim_warm_up(0, good ? right[below(world, APP_COUNT(right))]
                                      : wrong[below(world, APP_COUNT(wrong))]),
              !good, FINE | NO_ROOM);
}

/* Only one at a time: a thread each. */
static void do_warming(struct world *world)
{
    struct gpushim_warming warming = {0};
    int device = once_in(world, 4) ? -1 : 0, ready;
    bool good = once_in(world, 2), begun;
    gpushim_result result;

    if (!once_in(world, 15))
        return;
    result = gpushim_warming_start(&warming, device, good ? "4K:2" : "lots");
    judge(world, F_warming_start, result, device < 0, FINE);
    begun = result == GPUSHIM_OK;
    judge(world, F_warming_start, gpushim_warming_start(NULL, 0, "4K:2"), true, 0);
    judge(world, F_warming_poll, gpushim_warming_poll(NULL, &ready), true, 0);
    if (begun) {
        judge(world, F_warming_poll, gpushim_warming_poll(&warming, &ready), false, FINE);
        judge(world, F_warming_wait, gpushim_warming_wait(&warming), !good,
              FINE | NO_ROOM);
    }
    app_expect(gpushim_warming_wait(&warming) == GPUSHIM_INVALID, "a second wait");
}

static void do_options(struct world *world)
{
    static const struct {
        const char *name, *value;
        unsigned got, set; /* what a read and a change return */
    } rows[] = {
        {"LEAK_MAX", "20", FINE, FINE},
        {"gpushim_pool_wait", "3s", FINE, FINE},
        {"GPUSHIM_POOL_RELEASE", "1G", FINE, FINE},
        {"POOL_LIMIT", "nonsense", FINE, REFUSED},
        {"LEAK_MAX", "-7", FINE, REFUSED},
        {"SYMBOLIZE", "maybe", FINE, REFUSED},
        {"LEAK_MAX", "99999999999999999999999", FINE, REFUSED},
        {"POOL", "off", FINE, ONE(GPUSHIM_AT_START)},
        {"NO_SUCH", "1", ABSENT, ABSENT},
        {"", "1", ABSENT, ABSENT},
        {"GPUSHIM_", "", ABSENT, ABSENT},
    };
    size_t which = below(world, APP_COUNT(rows)),
           room = once_in(world, 6) ? 0 : below(world, 40);
    char value[40], problem[40];

    if (!once_in(world, 10))
        return;
    judge(world, F_get_option, gpushim_get_option(rows[which].name, value, room), !room,
          rows[which].got);
    app_expect(!room || strlen(value) < room, "an option's value");
    judge(world, F_set_option,
          gpushim_set_option(rows[which].name, rows[which].value,
                             once_in(world, 3) ? NULL : problem, room),
          rows[which].set == REFUSED, rows[which].set);
    judge(world, F_set_option, gpushim_set_option("LEAK_MAX", NULL, NULL, 0), true, 0);
}

static void called(void *self, int device, gpushim_pressure level)
{
    app_expect(self && device >= 0 && level >= GPUSHIM_ELEVATED, "a call");
}

static void do_pressure(struct world *world)
{
    int device = any_device(world), from = (int)below(world, 7) - 1;
    gpushim_pressure level;
    double share;

    judge(world, F_get_pressure,
          gpushim_get_pressure(device, &level, once_in(world, 3) ? NULL : &share),
          device < 0 || device >= 1000, device == 0 ? FINE : FINE | ABSENT);
    judge(world, F_on_pressure,
          gpushim_on_pressure((gpushim_pressure)from, once_in(world, 9) ? NULL : called,
                              world),
          from < GPUSHIM_ELEVATED || from > GPUSHIM_OUT_OF_MEMORY, FINE | REFUSED);
    judge(world, F_off_pressure, gpushim_off_pressure(called, world), false,
          FINE | ABSENT);
    app_expect(gpushim_pressure_text((gpushim_pressure)from)[0] != '\0', "a text");
}

/* Memory that only this function uses: another thread may have released it. */
static void do_release(struct world *world)
{
    static const char *const scopes[] = {"movable", "movable", "nobody", "", NULL};
    const char *scope = scopes[below(world, APP_COUNT(scopes))];
    const unsigned others = FINE | ABSENT | ONE(GPUSHIM_BUSY) | ONE(GPUSHIM_NO_MEMORY);
    gpushim_keep keep = (gpushim_keep)below(world, 4);
    struct gpushim_released released;
    void *block = NULL;

    (void)gpushim_set_option("RELEASABLE", "movable", NULL, 0);
    (void)gpushim_scope_begin("movable");
    (void)gpushim_stream_alloc(&block, 2 * APP_MIB, 0, NULL);
    (void)gpushim_scope_end();
    judge(world, F_release,
          gpushim_release(scope, keep, once_in(world, 3) ? NULL : &released),
          !scope || !scope[0] || keep > GPUSHIM_DISCARD, others);
    judge(world, F_resume, gpushim_resume(scope, &released), !scope || !scope[0], others);
    if (block)
        (void)gpushim_stream_free(block, 0, NULL);
    app_expect(gpushim_left_text((unsigned)below(world, 9))[0] != '\0', "a text");
}

/* One report of a process: it takes long. */
static void do_report(struct world *world)
{
    static int reported;

    if (!once_in(world, 50))
        return;
    if (!__atomic_exchange_n(&reported, 1, __ATOMIC_RELAXED))
        judge(world, F_report, gpushim_report(), false, FINE);
    judge(world, F_record, gpushim_record(0), false, FINE);
    judge(world, F_record, gpushim_record(1), false, FINE);
    app_expect(!gpushim_library() == !gpushim_library_version()[0] &&
                   gpushim_result_text(GPUSHIM_OK)[0] != '\0',
               "a version");
}

static void do_scopes(struct world *world)
{
    static const char long_name[] =
        "0123456789012345678901234567890123456789012345678901234567890123"
        "0123456789012345678901234567890123456789012345678901234567890123";
    static const char *const scopes[] = {"step",    "forward", "x", "\n",  "%s%n",
                                         long_name, NULL,      "",  "a/b", "more"};
    size_t which = below(world, APP_COUNT(scopes));
    bool wrong = which >= 5 && which <= 7;

    if (once_in(world, 2)) {
        judge(world, F_scope_end, gpushim_scope_end(), false,
              world->depth ? FINE : ABSENT);
        world->depth -= world->depth > 0;
    } else {
        judge(world, F_scope_begin, gpushim_scope_begin(scopes[which]),
              wrong || world->depth >= 32, FINE);
        world->depth += !inactive;
    }
    struct gpushim_scope_totals totals, *out = once_in(world, 9) ? NULL : &totals;
    int device = any_device(world);
    const char *path = scopes[which];
    judge(world, F_scope_statistics, gpushim_scope_statistics(path, device, out),
          !out || !path || !path[0] || device >= 1000 ||
              (device < GPUSHIM_IMPORTED && device != GPUSHIM_ALL_DEVICES),
          FINE | ABSENT);
    char found[GPUSHIM_SCOPE_BYTES];
    size_t room = once_in(world, 9) ? 0 : sizeof(found);
    judge(world, F_scope_path, gpushim_scope_path(found, room), !room, FINE | ABSENT);
}

/* Its place in memory is the library's; the contents are compared by others. */
static void do_defragment(struct world *world)
{
    struct gpushim_buffer *list[3] = {NULL};
    size_t count = capture_too ? 0 : below(world, 4); /* it synchronizes the context */
    bool wrong = false;

    for (size_t i = 0; i < count; i++) {
        list[i] = any_buffer(world);
        wrong = wrong || !list[i] || !list[i]->data || list[i]->flags & GPUSHIM_VIEW ||
                list[i]->place != GPUSHIM_DEVICE;
    }
    for (size_t i = 1; i < count && !wrong; i++)
        wrong = list[i]->device != list[0]->device;
    judge(world, F_defragment, gpushim_defragment(NULL, 1, NULL, NULL), true, 0);
    judge(world, F_defragment,
          gpushim_defragment(list, count, any_stream(world),
                             once_in(world, 2)
                                 ? NULL
                                 : &(struct gpushim_defragmented){.moved_count = 0}),
          wrong, FINE | FAILED);
}

static void do_stretch(struct world *world)
{
    struct gpushim_statistics statistics, *out = once_in(world, 9) ? NULL : &statistics;
    int device = any_device(world);

    if (!world->stretch) {
        judge(world, F_stretch_begin, gpushim_stretch_begin(device, &world->stretch),
              device >= 1000 ||
                  (device < GPUSHIM_IMPORTED && device != GPUSHIM_ALL_DEVICES),
              FINE);
        judge(world, F_stretch_begin, gpushim_stretch_begin(device, NULL), true, FINE);
    }
    judge(world, F_stretch_get, gpushim_stretch_get(world->stretch, out),
          !world->stretch || !out, FINE);
    if (once_in(world, 2)) {
        judge(world, F_stretch_end, gpushim_stretch_end(world->stretch), !world->stretch,
              FINE);
        world->stretch = NULL;
    }
}

static int visit_some(void *self, const struct gpushim_allocation *allocation)
{
    uint32_t *stack = self;

    *stack = allocation->stack ? allocation->stack : *stack;
    return allocation->bytes % 8 == 0;
}

static int see_change(void *self, const struct gpushim_change *change)
{
    (void)self;
    return change->new_count == 0;
}

static void do_live(struct world *world)
{
    const struct gpushim_buffer *buffer = &world->buffers[below(world, BUFFERS)];
    struct gpushim_allocation found, *out = once_in(world, 9) ? NULL : &found;
    struct gpushim_snapshot *snapshot = NULL;
    int device = any_device(world);
    bool wrong =
        device >= 1000 || (device < GPUSHIM_IMPORTED && device != GPUSHIM_ALL_DEVICES);
    uint32_t stack = 0;
    char text[100];

    judge(world, F_find_allocation, gpushim_find_allocation(buffer->data, out),
          !buffer->data || !out, FINE | ABSENT);
    judge(world, F_visit_allocations,
          gpushim_visit_allocations(device, out ? visit_some : NULL, &stack),
          wrong || !out, FINE);
    if (once_in(world, 100)) /* it takes milliseconds */
        judge(world, F_get_stack, gpushim_get_stack(stack, text, sizeof(text), NULL),
              !stack, FINE | ONE(GPUSHIM_BUSY));
    judge(world, F_snapshot_take, gpushim_snapshot_take(device, out ? &snapshot : NULL),
          wrong || !out, FINE);
    if (snapshot && world->snapshot)
        judge(world, F_snapshot_difference,
              gpushim_snapshot_difference(world->snapshot, snapshot,
                                          once_in(world, 9) ? NULL : see_change, NULL),
              false, FINE | REFUSED /* of two devices, no function */);
    judge(world, F_snapshot_free, gpushim_snapshot_free(world->snapshot),
          !world->snapshot, FINE);
    world->snapshot = snapshot;
}

static void do_stream_memory(struct world *world)
{
    void **block = &world->blocks[below(world, RETAINED)], *made = NULL;
    void **out = once_in(world, 30) ? NULL : &made;
    void *stream = once_in(world, 2) ? NULL : world->streams.compute;
    size_t bytes = any_bytes(world, false);
    int device = once_in(world, 20) ? -1 : 0;
    bool huge = bytes > MOST;
    void *foreign = once_in(world, 2) ? (void *)world->host : (char *)*block + 1;

    if (!*block) {
        judge(world, F_stream_alloc, gpushim_stream_alloc(out, bytes, device, stream),
              !out || !bytes || device < 0, huge ? NO_ROOM : FINE);
        *block = made;
        judge(world, F_stream_uses, gpushim_stream_uses(world->host, stream), true, 0);
        return;
    }
    judge(world, F_stream_uses,
          gpushim_stream_uses(out ? *block : NULL, world->streams.upload), !out, FINE);
    if (once_in(world, 20)) /* not the start of any */
        judge(world, F_stream_free, gpushim_stream_free(foreign, 0, stream), false,
              FAILED | REFUSED);
    judge(world, F_stream_free, gpushim_stream_free(NULL, 0, stream), false, FINE);
    judge(world, F_stream_free, gpushim_stream_free(*block, device, stream), device < 0,
          FINE);
    *block = device < 0 ? *block : NULL;
}

/* ---- captures ---------------------------------------------------------------------- */

static void begin_or_end_capture(struct world *world)
{
    gpu_graph graph = NULL;

    if (!capture_too)
        return;
    if (!world->capturing) {
        APP_OK(gpu_begin_capture(world->captured, GPU_CAPTURE_RELAXED));
    } else {
        (void)gpu_end_capture(world->captured, &graph); /* it may have failed */
        if (graph)
            APP_OK(gpu_graph_destroy(graph));
    }
    world->capturing = !world->capturing;
}

/* ---- threads ----------------------------------------------------------------------- */

static uint64_t calls_each;
static bool meet_both;

/* Returns the first function, F_COUNT if there is none, that has not both worked and been
 * refused. */
static unsigned first_not_met(void)
{
    /* These have no wrong argument. */
    static const enum function any_code[] = {F_buffer_free,  F_buffers_free, F_group_free,
                                             F_enable_peers, F_scope_end,    F_report,
                                             F_record,       F_off_pressure};

    for (unsigned i = 0; i < F_COUNT; i++) {
        unsigned codes = __atomic_load_n(&seen[i], __ATOMIC_RELAXED);
        bool any = inactive && i >= F_get_statistics;

        for (size_t k = 0; k < APP_COUNT(any_code); k++)
            any = any || i == any_code[k];
        if (!any && (!(codes & FINE) || !(codes & REFUSED)))
            return i;
    }
    return F_COUNT;
}

/* Some arguments are drawn so seldom that one run in hundreds does not meet them. */
static bool goes_on(const struct world *world)
{
    return world->calls < calls_each ||
           (meet_both && world->calls < 10 * calls_each && first_not_met() < F_COUNT);
}

static void *run(void *argument)
{
    static void (*const steps[])(struct world *) = {
        do_create,        do_create,        do_create,     do_free,    do_view,
        do_around,        do_address,       do_copy,       do_copy,    do_put_get,
        do_put_get,       do_copy_rows,     do_fill,       do_managed, do_resize,
        do_resize,        do_batch,         do_cache,      do_cache,   do_readback,
        do_ring,          do_streams,       do_file,       do_look,    do_warm_up,
        do_warming,       do_visibility,    do_options,    do_scopes,  do_scopes,
        do_stream_memory, do_stream_memory, do_copy_batch, do_devices, do_pressure,
        do_report,        do_release,       do_stretch,    do_live,    do_group,
        do_defragment,    do_buffers};
    struct world *world = argument;

    app_gpu_thread();
    APP_OK(gpu_stream_create(&world->captured));
    app_expect(gpushim_streams_create(&world->streams) == GPUSHIM_OK, "streams");
    while (goes_on(world)) {
        if (once_in(world, 400) || (world->capturing && once_in(world, 8)))
            begin_or_end_capture(world);
        note_before(world);
        steps[below(world, APP_COUNT(steps))](world);
    }
    if (world->capturing)
        begin_or_end_capture(world);
    app_expect(gpushim_group_free(&world->group) == GPUSHIM_OK, "a group");
    app_expect(gpushim_buffers_free(&world->set) == GPUSHIM_OK, "a set");
    if (world->snapshot)
        (void)gpushim_snapshot_free(world->snapshot);
    while (world->depth-- > 0)
        app_expect(gpushim_scope_end() == GPUSHIM_OK, "a scope's end");
    app_expect(gpushim_stream_wait(world->streams.compute) == GPUSHIM_OK, "the end");
    (void)gpushim_readback_end(&world->readback);
    app_expect(gpushim_ring_free(&world->ring) == GPUSHIM_OK, "a ring");
    for (size_t i = 0; i < RETAINED; i++)
        app_expect(inactive ||
                       gpushim_stream_free(world->blocks[i], 0, NULL) == GPUSHIM_OK,
                   "a block of a stream");
    for (size_t i = 0; i < TAKEN; i++)
        app_expect(!world->taken[i].data ||
                       gpushim_cache_give(&shared[0], "k", 1, &world->taken[i]) ==
                           GPUSHIM_OK,
                   "a taken buffer");
    for (size_t i = 0; i < BUFFERS; i++)
        app_expect(gpushim_buffer_free(&world->buffers[i]) == GPUSHIM_OK, "a buffer");
    app_expect(gpushim_buffer_free(&world->block) == GPUSHIM_OK, "a block");
    app_expect(gpushim_streams_free(&world->streams) == GPUSHIM_OK, "streams");
    APP_OK(gpu_stream_destroy(world->captured));
    return NULL;
}

int main(int argc, char **argv)
{
    static struct world worlds[THREADS];
    pthread_t threads[THREADS];
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;

    calls_each = (argc > 2 ? strtoull(argv[2], NULL, 10) : 40000) / THREADS;
    meet_both = calls_each * THREADS >= 40000;
    capture_too = argc <= 3;
    inactive = !gpushim_library();
    app_gpu_start();
    app_expect(gpushim_cache_create(&shared[0], GPUSHIM_DEVICE, 2, 20000) == GPUSHIM_OK,
               "a cache");
    app_expect(gpushim_cache_create(&shared[1], GPUSHIM_PINNED_HOST, 2, 0) == GPUSHIM_OK,
               "a cache");
    app_expect(gpushim_cache_create(&strange, GPUSHIM_DEVICE, 2, 0) == GPUSHIM_OK,
               "a cache");
    for (size_t i = 0; i < THREADS; i++) {
        worlds[i].random = (seed << 8 | i) * 2654435761u + 1;
        APP_OK(pthread_create(&threads[i], NULL, run, &worlds[i]));
    }
    for (size_t i = 0; i < THREADS; i++)
        APP_OK(pthread_join(threads[i], NULL));
    for (size_t i = 0; i < 2; i++)
        app_expect(gpushim_cache_free(&shared[i]) == GPUSHIM_OK, "a cache's free");
    unsigned left = meet_both ? first_not_met() : F_COUNT;
    if (left < F_COUNT) {
        fprintf(stderr, "apirandom: %s never %s\n", names[left],
                seen[left] & FINE ? "refused" : "worked");
        app_expect(false, "too few calls");
    }
    printf("apirandom: ok\n");
    app_gpu_stop();
    return 0;
}
