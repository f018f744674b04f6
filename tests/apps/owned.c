/*
 * owned.c - a program that uses gpushim_memory.h: the same output with the library and
 * without it. Each mode checks its data, and ends with 1 where it is wrong.
 *
 *   owned_WAY                 buffers in each place, batches, caches; no context yet
 *   owned_WAY bad             wrong arguments change nothing
 *   owned_WAY random SEED     random copies, fills, sizes, against a model in memory
 *   owned_WAY transfers       rows, copies in a batch
 *   owned_WAY staging SEED    read-back of kernels' data through reused pinned memory
 *   owned_WAY rings SEED      rings to the device and back
 *   owned_WAY file PATH CHUNK streams a file through the device: its checksum
 *   owned_WAY direct PATH     is it read past the page cache
 *   owned_WAY files FOLDER    files that end early, or cannot be opened or read
 *   owned_WAY threads         one cache, four threads
 *   owned_WAY faults SEED     calls of the driver fail: nothing is lost
 *   owned_WAY peers           enables peers, and copies between the devices
 *   owned_WAY none            there is no device
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What gpushim_read_file calls: a file system may refuse O_DIRECT at a read, and another
 * that it is switched off. */
static unsigned refusals;
static bool refuses;

static ssize_t read_or_refuse(int file, void *to, size_t bytes)
{
    if (!refuses)
        return read(file, to, bytes);
    errno = EINVAL;
    return -1;
}

static int control_or_refuse(int file, int command, ...)
{
    va_list arguments;
    int flags;

    if (refuses && command == F_GETFL)
        return O_DIRECT;
    if (refuses && ++refusals < 1000) {
        errno = EPERM;
        return -1;
    }
    refuses = false; /* it would never end */
    va_start(arguments, command);
    flags = command == F_SETFL ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return fcntl(file, command, flags);
}

#define read  read_or_refuse
#define fcntl control_or_refuse
#include "gpushim_memory.h"
#undef read
#undef fcntl
#include "kernels.h"
#include "launch.h"

enum { PLACES = 4, MOST = 5000, WORDS = 3000, THREADS = 4 };

static struct app_kernels kernels;

static void tell(const char *what, gpushim_result result)
{
    printf("%s: %s\n", what, gpushim_result_text(result));
}

#define IS_OK(call) app_expect((call) == GPUSHIM_OK, #call)

static bool is_all(const unsigned char *data, size_t bytes, unsigned char value)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != value)
            return false;
    return true;
}

/* ---- buffers, batches, caches --------------------------------------------------- */

static void show_place(gpushim_place place)
{
    static const char *const names[] = {"device", "host", "pinned", "managed"};
    unsigned char data[MOST];
    struct gpushim_buffer buffer, view;
    void *address;

    for (size_t alignment = 1; alignment <= 65536; alignment *= 4) {
        IS_OK(gpushim_buffer_create(&buffer, place, MOST, alignment, GPUSHIM_ZEROED));
        app_expect((uintptr_t)buffer.data % alignment == 0, "alignment");
        IS_OK(gpushim_buffer_get(&buffer, 0, data, MOST, GPUSHIM_SYNC));
        app_expect(is_all(data, MOST, 0), "it is not zero");
        IS_OK(gpushim_buffer_fill(&buffer, 0, MOST, 0xa5, GPUSHIM_SYNC));
        IS_OK(gpushim_buffer_free(&buffer));
        app_expect(!buffer.data && !buffer.bytes, "a freed buffer");
        IS_OK(gpushim_buffer_free(&buffer));
    }
    IS_OK(gpushim_buffer_create(&buffer, place, MOST, 0, GPUSHIM_ZEROED));
    app_bytes_fill(data, 1000, 7);
    IS_OK(gpushim_buffer_put(&buffer, 2000, data, 1000, GPUSHIM_SYNC));
    IS_OK(gpushim_buffer_view(&view, &buffer, 2000, 1000));
    /* Beyond its capacity: the data moves, and what is new is zero. */
    view.bytes = 0;
    IS_OK(gpushim_buffer_resize(&buffer, MOST + 1, GPUSHIM_SYNC));
    printf("%s: %zu of %zu bytes, %zu words, device %d\n", names[place], buffer.bytes,
           buffer.capacity, GPUSHIM_LENGTH(&buffer, uint32_t), buffer.device);
    memset(data, 0xff, sizeof(data));
    IS_OK(gpushim_buffer_get(&buffer, 2000, data, 1000, NULL));
    IS_OK(place == GPUSHIM_HOST ? GPUSHIM_OK : gpushim_stream_wait(NULL));
    app_expect(app_bytes_match(data, 1000, 7), "a resize lost data");
    /* Shorter and longer again within it. */
    IS_OK(gpushim_buffer_resize(&buffer, 2500, GPUSHIM_SYNC));
    IS_OK(gpushim_buffer_resize(&buffer, MOST, GPUSHIM_SYNC));
    IS_OK(gpushim_buffer_get(&buffer, 2500, data, MOST - 2500, GPUSHIM_SYNC));
    app_expect(is_all(data, MOST - 2500, 0), "old data came back");
    buffer.limit = 8000;
    buffer.growth = 4;
    IS_OK(gpushim_buffer_resize(&buffer, 7600, GPUSHIM_SYNC));
    printf("%s: capacity %zu at the limit\n", names[place], buffer.capacity);
    tell("beyond the limit", gpushim_buffer_resize(&buffer, 8001, GPUSHIM_SYNC));
    IS_OK(gpushim_buffer_resize(&buffer, 2600, GPUSHIM_SYNC));
    IS_OK(gpushim_buffer_shrink(&buffer, 3600, GPUSHIM_SYNC));
    printf("%s: capacity %zu, used just now\n", names[place], buffer.capacity);
    IS_OK(gpushim_buffer_shrink(&buffer, 0, GPUSHIM_SYNC));
    printf("%s: capacity %zu after the shrink\n", names[place], buffer.capacity);
    IS_OK(gpushim_buffer_get(&buffer, 2000, data, 500, GPUSHIM_SYNC));
    app_expect(app_bytes_match(data, 500, 7), "a shrink lost data");
    tell("address on the device", gpushim_buffer_device_address(&buffer, &address));
    tell("prefetch", gpushim_buffer_prefetch(&buffer, 0, 100, 0, GPUSHIM_SYNC));
    tell("to the host", gpushim_buffer_prefetch(&buffer, 10, 100, -1, NULL));
    tell("advice", gpushim_buffer_advise(&buffer, GPUSHIM_PREFER, -1));
    /* AddressSanitizer ends a program that asks malloc for as much as that. */
    tell("too large", place == GPUSHIM_HOST
                          ? gpushim_buffer_create(&view, place, SIZE_MAX, 4096, 0)
                          : gpushim_buffer_create(&view, place, (size_t)1 << 60, 0, 0));
    app_expect(!view.data, "memory of a failure");
    IS_OK(gpushim_buffer_free(&view));
    IS_OK(gpushim_buffer_free(&buffer));
}

/* Copies from each place to each, with offsets, at once and in the order of a stream. */
static void copy_places(void)
{
    struct gpushim_buffer buffers[PLACES];
    unsigned char data[MOST];
    uint64_t sum = APP_CHECKSUM;

    for (int i = 0; i < PLACES; i++) {
        IS_OK(gpushim_buffer_create(&buffers[i], (gpushim_place)i, MOST, 0,
                                    GPUSHIM_ZEROED));
        app_bytes_fill(data, MOST, (uint32_t)i + 1);
        IS_OK(gpushim_buffer_put(&buffers[i], 0, data, MOST, GPUSHIM_SYNC));
    }
    for (int i = 0; i < PLACES; i++)
        for (int j = 0; j < PLACES; j++) {
            void *stream = (i + j) % 2 ? NULL : GPUSHIM_SYNC;
            size_t from = 1000u + (size_t)(i * 100 + j), to = (size_t)(i * 4 + j) * 10;
            if (i != j)
                IS_OK(
                    gpushim_buffer_copy(&buffers[j], to, &buffers[i], from, 33, stream));
            IS_OK(gpushim_buffer_fill(&buffers[j], 4000 + to, 5, (unsigned char)to,
                                      stream));
        }
    for (int i = 0; i < PLACES; i++) {
        IS_OK(gpushim_buffer_get(&buffers[i], 0, data, MOST, GPUSHIM_SYNC));
        sum = app_checksum(sum, data, MOST);
        IS_OK(gpushim_buffer_free(&buffers[i]));
    }
    printf("copies between places: %016llx\n", (unsigned long long)sum);
}

/* By the device's attributes: a test gives it others. */
static void show_visibility(void)
{
    gpushim_visibility found = (gpushim_visibility)7;

    IS_OK(gpushim_get_visibility(0, &found));
    printf("visibility: %d\n", (int)found);
    tell("of no device", gpushim_get_visibility(1000, &found));
}

static void scoped(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer early = GPUSHIM_BUFFER_INIT;
    GPUSHIM_SCOPED struct gpushim_buffer never = GPUSHIM_BUFFER_INIT;

    IS_OK(gpushim_buffer_create(&early, GPUSHIM_DEVICE, 12345, 0, 0));
}

static void show_batch(void)
{
    enum { COUNT = 100 };
    struct gpushim_buffer block, parts[COUNT];
    unsigned char data[COUNT * 7];
    size_t bytes[COUNT];

    for (int place = 0; place < PLACES; place++) {
        for (size_t i = 0; i < COUNT; i++)
            bytes[i] = 1 + i * 7 % 613;
        IS_OK(gpushim_batch_create(&block, parts, bytes, COUNT, (gpushim_place)place, 512,
                                   GPUSHIM_ZEROED));
        for (size_t i = 0; i < COUNT; i++) {
            app_expect(parts[i].bytes == bytes[i] && (uintptr_t)parts[i].data % 512 == 0,
                       "a part");
            app_bytes_fill(data, bytes[i], (uint32_t)i);
            IS_OK(gpushim_buffer_put(&parts[i], 0, data, bytes[i], GPUSHIM_SYNC));
        }
        for (size_t i = 0; i < COUNT; i++) {
            IS_OK(gpushim_buffer_get(&parts[i], 0, data, bytes[i], GPUSHIM_SYNC));
            app_expect(app_bytes_match(data, bytes[i], (uint32_t)i), "parts overlap");
        }
        app_expect((char *)parts[COUNT - 1].data + bytes[COUNT - 1] ==
                       (char *)block.data + block.bytes,
                   "neighbours");
        IS_OK(gpushim_buffer_free(&parts[3]));
        IS_OK(gpushim_buffer_free(&block));
        bytes[50] = (size_t)1 << 60;
        block.data = data;
        parts[0].bytes = 42;
        if (place != GPUSHIM_HOST) {
            tell("a batch that is too large",
                 gpushim_batch_create(&block, parts, bytes, COUNT, (gpushim_place)place,
                                      0, 0));
            app_expect(!block.data && parts[0].bytes == 42, "half a batch");
        }
        bytes[50] = 0;
        block.data = data;
        tell("a batch with nothing in it",
             gpushim_batch_create(&block, parts, bytes, COUNT, (gpushim_place)place, 0,
                                  0));
        app_expect(block.data == data, "a refused batch wrote");
    }
}

struct key {
    uint32_t type, slots, operation;
};

static void show_cache(void)
{
    struct gpushim_cache cache;
    struct gpushim_buffer taken[6];
    struct key key = {4, 32, 1};
    uint32_t words[32], word;
    size_t freed;

    IS_OK(gpushim_cache_create(&cache, GPUSHIM_DEVICE, 2, 1 << 20));
    for (uint32_t i = 0; i < 32; i++)
        words[i] = i * i;
    for (int i = 0; i < 4; i++)
        IS_OK(gpushim_cache_take(&cache, &key, sizeof(key), sizeof(words), &taken[i]));
    IS_OK(gpushim_buffer_put(&taken[0], 0, words, sizeof(words), GPUSHIM_SYNC));
    IS_OK(gpushim_buffer_get_slot(&taken[0], 31, sizeof(word), &word, GPUSHIM_SYNC));
    printf("slot 31: %u\n", word);
    tell("slot 32", gpushim_buffer_get_slot(&taken[0], 32, 4, &word, GPUSHIM_SYNC));
    tell("a slot far away",
         gpushim_buffer_get_slot(&taken[0], SIZE_MAX / 2, 4, &word, GPUSHIM_SYNC));
    for (int i = 0; i < 4; i++)
        IS_OK(gpushim_cache_give(&cache, &key, sizeof(key), &taken[i]));
    printf("idle: %zu, %zu bytes\n", cache.idle_count, cache.held_bytes);
    tell("given twice", gpushim_cache_give(&cache, &key, sizeof(key), &taken[0]));
    IS_OK(gpushim_cache_take(&cache, &key, sizeof(key), 8, &taken[0]));
    IS_OK(gpushim_cache_take(&cache, &key, sizeof(key), sizeof(words), &taken[1]));
    IS_OK(gpushim_cache_take(&cache, &key, sizeof(key), sizeof(words), &taken[2]));
    key.operation = 2;
    IS_OK(gpushim_cache_take(&cache, &key, sizeof(key), sizeof(words), &taken[3]));
    printf("hits %d, misses %d, rate %.3f\n", (int)cache.hits, (int)cache.misses,
           gpushim_cache_hit_rate(&cache));
    for (int i = 0; i < 4; i++) {
        key.operation = (uint32_t)i;
        IS_OK(gpushim_cache_give(&cache, &key, sizeof(key), &taken[i]));
    }
    printf("idle: %zu\n", cache.idle_count);
    key.operation = 9; /* nobody's: the idle ones of others stay */
    IS_OK(gpushim_cache_take(&cache, &key, sizeof(key), 8, &taken[0]));
    printf("hits %d, idle: %zu\n", (int)cache.hits, cache.idle_count);
    IS_OK(gpushim_cache_give(&cache, &key, sizeof(key), &taken[0]));
    IS_OK(gpushim_cache_trim(&cache, 3600, &freed));
    printf("trimmed: %zu\n", freed);
    /* At the limit idle buffers of other keys go first. */
    IS_OK(gpushim_cache_take(&cache, "k", 1, (1 << 20) - 300, &taken[0]));
    printf("idle: %zu, %zu bytes\n", cache.idle_count, cache.held_bytes);
    tell("beyond the limit", gpushim_cache_take(&cache, "k", 1, 1000, &taken[1]));
    tell("never", gpushim_cache_take(&cache, "k", 1, (1 << 20) + 1, &taken[1]));
    printf("held: %zu bytes\n", cache.held_bytes);
    IS_OK(gpushim_cache_free(&cache));
    tell("taken after the end", gpushim_cache_take(&cache, "k", 1, 1, &taken[1]));
    IS_OK(gpushim_cache_give(&cache, "k", 1, &taken[0]));
    IS_OK(gpushim_cache_free(&cache));
    printf("held: %zu bytes, idle: %zu\n", cache.held_bytes, cache.idle_count);
}

/* ---- many keys, against a list that is searched whole --------------------------------
 */

enum { MANY_KEYS = 280, MANY_BUFFERS = 200, A_KEY = 3, EACH_BYTES = 64 };

static struct {
    struct gpushim_cache cache;
    struct {
        uint64_t key;
        void *data;
    } idle[MANY_BUFFERS];                          /* the oldest first */
    struct gpushim_buffer taken[MANY_BUFFERS + 1]; /* one that is refused */
    size_t idle_count, taken_count;
} many;

/* Keys of 1 to 40 bytes, some of them the beginnings of others. */
static size_t many_key(uint64_t key, char *text)
{
    memset(text, (int)('a' + key % 7), 40);
    return 1 + (size_t)(key / 7 % 40);
}

static void many_forget(size_t i)
{
    many.idle_count--;
    memmove(&many.idle[i], &many.idle[i + 1],
            (many.idle_count - i) * sizeof(many.idle[0]));
}

static void many_take(uint64_t key)
{
    struct gpushim_buffer *taken = &many.taken[many.taken_count];
    char text[40];
    size_t i = many.idle_count, bytes = many_key(key, text);
    gpushim_result result =
        gpushim_cache_take(&many.cache, text, bytes, EACH_BYTES, taken);

    if (many.taken_count == MANY_BUFFERS) {
        app_expect(result == GPUSHIM_NO_MEMORY, "no more than the limit");
        return;
    }
    IS_OK(result);
    while (i > 0 && many.idle[i - 1].key != key)
        i--;
    if (i > 0) {
        app_expect(taken->data == many.idle[i - 1].data, "the last given of its key");
        many_forget(i - 1);
    } else if (many.taken_count + many.idle_count == MANY_BUFFERS) {
        many_forget(0);
    }
    many.taken_count++;
}

static void many_give(uint64_t key, size_t which)
{
    struct gpushim_buffer *given = &many.taken[which];
    char text[40];
    void *data = given->data;
    size_t of_key = 0, bytes = many_key(key, text);

    for (size_t i = 0; i < many.idle_count; i++)
        of_key += many.idle[i].key == key;
    IS_OK(gpushim_cache_give(&many.cache, text, bytes, given));
    *given = many.taken[--many.taken_count];
    if (of_key < A_KEY) {
        many.idle[many.idle_count].key = key;
        many.idle[many.idle_count++].data = data;
    }
}

static void show_many_keys(void)
{
    uint64_t state = 5;

    IS_OK(gpushim_cache_create(&many.cache, GPUSHIM_HOST, A_KEY,
                               (size_t)MANY_BUFFERS * EACH_BYTES));
    for (int i = 0; i < 40000; i++) {
        uint64_t key = app_random(&state) % MANY_KEYS, what = app_random(&state);

        /* For a while more is taken, then more is given. */
        if (what % 100 < (i / 3000 % 2 ? 40 : 55))
            many_take(key);
        else if (many.taken_count)
            many_give(key, what / 100 % many.taken_count);
        app_expect(many.cache.idle_count == many.idle_count, "idle buffers");
        app_expect(many.cache.held_bytes ==
                       (many.idle_count + many.taken_count) * EACH_BYTES,
                   "bytes that are held");
    }
    printf("many keys: hits %d, misses %d\n", (int)many.cache.hits,
           (int)many.cache.misses);
    IS_OK(gpushim_cache_trim(&many.cache, 0, NULL));
    many.idle_count = 0;
    while (many.taken_count)
        many_give(many.taken_count % 2, 0);
    printf("many keys: idle %zu of %d\n", many.cache.idle_count, 2 * A_KEY);
    IS_OK(gpushim_cache_free(&many.cache));
}

/* The first call makes the context; nothing else of the program has. */
static void show_all(void)
{
    struct gpushim_buffer first;

    IS_OK(gpushim_buffer_create(&first, GPUSHIM_DEVICE, 1, 0, 0));
    IS_OK(gpushim_buffer_free(&first));
    app_gpu_start();
    for (int place = 0; place < PLACES; place++)
        show_place((gpushim_place)place);
    show_visibility();
    copy_places();
    scoped();
    show_batch();
    show_cache();
    show_many_keys();
}

/* ---- wrong arguments ------------------------------------------------------------ */

#define IS_BAD(call) app_expect((call) == GPUSHIM_INVALID, #call)

static gpushim_result never_called(void *user, struct gpushim_buffer *chunk,
                                   uint64_t offset, void *stream)
{
    (void)user;
    (void)chunk;
    (void)offset;
    (void)stream;
    app_expect(false, "a callback of a refused call");
    return GPUSHIM_OK;
}

static void bad_buffers(struct gpushim_buffer *buffer, struct gpushim_buffer *freed)
{
    struct gpushim_buffer out, before;
    unsigned char data[100] = {0};
    const size_t bytes[2] = {10, SIZE_MAX - 100};
    void *sync = GPUSHIM_SYNC, *address;

    memset(&out, 0x77, sizeof(out));
    before = out;
    IS_BAD(gpushim_buffer_create(NULL, GPUSHIM_DEVICE, 1, 0, 0));
    IS_BAD(gpushim_buffer_create(&out, GPUSHIM_DEVICE, 0, 0, 0));
    IS_BAD(gpushim_buffer_create(&out, (gpushim_place)4, 1, 0, 0));
    IS_BAD(gpushim_buffer_create(&out, (gpushim_place)-1, 1, 0, 0));
    IS_BAD(gpushim_buffer_create(&out, GPUSHIM_DEVICE, 1, 3, 0));
    IS_BAD(gpushim_buffer_create(&out, GPUSHIM_DEVICE, 1, 0, GPUSHIM_VIEW));
    IS_BAD(gpushim_buffer_view(&out, buffer, 90, 11));
    IS_BAD(gpushim_buffer_view(&out, buffer, SIZE_MAX, 2));
    IS_BAD(gpushim_buffer_view(&out, buffer, 0, 0));
    IS_BAD(gpushim_buffer_view(&out, freed, 0, 1));
    IS_BAD(gpushim_buffer_around(&out, NULL, 1, GPUSHIM_HOST));
    IS_BAD(gpushim_buffer_around(&out, data, 0, GPUSHIM_HOST));
    IS_BAD(gpushim_buffer_around(&out, data, SIZE_MAX, GPUSHIM_HOST));
    IS_BAD(gpushim_batch_create(&out, &out, bytes, 2, GPUSHIM_DEVICE, 0, 0));
    IS_BAD(gpushim_batch_create(&out, &out, bytes, 0, GPUSHIM_DEVICE, 0, 0));
    IS_BAD(gpushim_batch_create(&out, NULL, bytes, 1, GPUSHIM_DEVICE, 0, 0));
    app_expect(memcmp(&out, &before, sizeof(out)) == 0, "a refused call wrote");
    IS_BAD(gpushim_buffer_copy(buffer, 90, buffer, 0, 11, sync));
    IS_BAD(gpushim_buffer_copy(buffer, 0, buffer, 90, 11, sync));
    IS_BAD(gpushim_buffer_copy(buffer, 0, buffer, 9, 10, sync));
    IS_BAD(gpushim_buffer_copy(buffer, 50, buffer, 0, 0, sync));
    IS_BAD(gpushim_buffer_copy(buffer, SIZE_MAX - 4, buffer, 0, 10, sync));
    IS_BAD(gpushim_buffer_copy(freed, 0, buffer, 0, 1, sync));
    IS_BAD(gpushim_buffer_copy(buffer, 0, NULL, 0, 1, sync));
    IS_BAD(gpushim_copy_batch(NULL, 1, sync, NULL));
    IS_BAD(gpushim_buffer_put(buffer, 0, NULL, 1, sync));
    IS_BAD(gpushim_buffer_put(buffer, 1, data, 100, sync));
    IS_BAD(gpushim_buffer_get(buffer, 1, data, 100, sync));
    IS_BAD(gpushim_buffer_get_slot(buffer, 0, 0, data, sync));
    IS_BAD(gpushim_buffer_copy_rows(buffer, 0, 10, buffer, 50, 10, 11, 2, sync));
    IS_BAD(gpushim_buffer_copy_rows(buffer, 0, 10, buffer, 50, 10, 5, 6, sync));
    IS_BAD(gpushim_buffer_copy_rows(buffer, 0, 10, buffer, 3, 10, 4, 2, sync));
    IS_BAD(gpushim_buffer_copy_rows(buffer, 0, 10, buffer, 5, 11, 4, 2, sync));
    IS_BAD(
        gpushim_buffer_copy_rows(buffer, 0, SIZE_MAX, buffer, 50, SIZE_MAX, 5, 3, sync));
    IS_BAD(gpushim_buffer_copy_rows(buffer, 0, 10, buffer, 50, 10, 5, 0, sync));
    IS_BAD(gpushim_buffer_fill(buffer, 0, 101, 1, sync));
    IS_BAD(gpushim_buffer_zero(freed, sync));
    IS_BAD(gpushim_buffer_prefetch(buffer, 0, 1, 0, sync));
    IS_BAD(gpushim_buffer_advise(buffer, GPUSHIM_PREFER, 0));
    IS_BAD(gpushim_buffer_device_address(freed, &address));
    IS_BAD(gpushim_buffer_resize(buffer, 0, sync));
    IS_BAD(gpushim_buffer_resize(freed, 10, sync));
    IS_BAD(gpushim_buffer_shrink(freed, 0, sync));
    buffer->growth = 0.5;
    IS_BAD(gpushim_buffer_resize(buffer, 200, sync));
    buffer->growth = 1.5;
    IS_OK(gpushim_buffer_view(&out, buffer, 10, 20));
    IS_BAD(gpushim_buffer_resize(&out, 21, sync));
    IS_BAD(gpushim_buffer_shrink(&out, 0, sync));
}

/* A buffer goes back to the cache that it came from, or to none. */
static void bad_caches(struct gpushim_cache *cache)
{
    struct gpushim_cache other;
    struct gpushim_buffer taken, view;

    IS_OK(gpushim_cache_create(&other, GPUSHIM_DEVICE, 1, 100));
    IS_OK(gpushim_cache_take(cache, "k", 1, 90, &taken));
    IS_BAD(gpushim_cache_give(&other, "k", 1, &taken));
    IS_OK(gpushim_buffer_view(&view, &taken, 0, 10));
    IS_BAD(gpushim_cache_give(cache, "k", 1, &view));
    app_expect(taken.bytes == 90 && cache->held_bytes == 90 && other.held_bytes == 0 &&
                   other.idle_count == 0,
               "a refused buffer");
    IS_OK(gpushim_cache_give(cache, "k", 1, &taken));
    IS_OK(gpushim_cache_take(&other, "k", 1, 100, &taken));
    IS_OK(gpushim_cache_give(&other, "k", 1, &taken));
    IS_OK(gpushim_cache_free(&other));
    IS_OK(gpushim_cache_trim(cache, 0, NULL));
    app_expect(cache->held_bytes == 0 && other.held_bytes == 0, "what is held");
}

/* The functions of gpushim.h that need no library. */
static void bad_statistics(void)
{
    struct gpushim_statistics statistics = {.hits = 3, .misses = 1};
    struct gpushim_class class = {.bytes = 100};

    IS_BAD(gpushim_get_difference(NULL, &statistics, &statistics));
    IS_BAD(gpushim_get_difference(&statistics, NULL, &statistics));
    IS_BAD(gpushim_get_difference(&statistics, &statistics, NULL));
    app_expect(gpushim_hit_rate(&statistics) == 0.75 && gpushim_hit_rate(NULL) == 1.0,
               "a hit rate");
    app_expect(gpushim_fragmentation(NULL) == 0.0, "fragmentation");
    app_expect(gpushim_class_of(NULL, 5, 1) == 5 && gpushim_class_of(&class, 1, 100) == 0,
               "a class");
    IS_BAD(gpushim_get_memory(-1, NULL, NULL));
    tell("memory of no device", gpushim_get_memory(1000, NULL, NULL));
}

static void bad_objects(struct gpushim_buffer *buffer, struct gpushim_buffer *freed)
{
    struct gpushim_cache cache, pinned;
    struct gpushim_readback readback = {0};
    struct gpushim_ring ring;
    struct gpushim_buffer slot;
    const void *range = NULL;
    void *address;
    int ready = 7;
    uint64_t done = 7;

    IS_BAD(gpushim_cache_create(&cache, GPUSHIM_DEVICE, 0, 0));
    IS_OK(gpushim_cache_create(&cache, GPUSHIM_DEVICE, 1, 0));
    IS_OK(gpushim_cache_create(&pinned, GPUSHIM_PINNED_HOST, 1, 0));
    IS_BAD(gpushim_cache_take(&cache, NULL, 1, 1, &slot));
    IS_BAD(gpushim_cache_take(&cache, "k", 0, 1, &slot));
    IS_BAD(gpushim_cache_take(&cache, "k", 1, 0, &slot));
    IS_BAD(gpushim_cache_give(&cache, "k", 1, freed));
    IS_BAD(gpushim_cache_give(&cache, "k", 1, buffer));
    IS_BAD(gpushim_cache_trim(NULL, 0, NULL));
    IS_BAD(gpushim_cache_free(NULL));
    app_expect(gpushim_cache_hit_rate(NULL) == 1.0, "a hit rate of nothing");
    bad_caches(&cache);
    IS_BAD(gpushim_readback_start(&readback, &cache, buffer, 0, 1, NULL));
    IS_BAD(gpushim_readback_start(&readback, &pinned, buffer, 100, 1, NULL));
    IS_BAD(gpushim_readback_start(&readback, &pinned, freed, 0, 1, NULL));
    IS_BAD(gpushim_readback_poll(&readback, &ready));
    IS_BAD(gpushim_readback_wait(&readback));
    IS_BAD(gpushim_readback_range(&readback, 0, 1, &range));
    IS_OK(gpushim_readback_end(&readback));
    IS_BAD(gpushim_read_back(&pinned, buffer, 0, 10, 0, NULL, never_called, NULL));
    IS_BAD(gpushim_read_back(&pinned, buffer, 0, 101, 10, NULL, never_called, NULL));
    IS_BAD(gpushim_ring_create(&ring, 0, 10));
    IS_BAD(gpushim_ring_create(&ring, SIZE_MAX / 64, 64));
    IS_OK(gpushim_ring_create(&ring, 2, 100));
    app_expect(gpushim_ring_next(&ring, &slot) == GPUSHIM_NOT_FOUND, "an empty ring");
    app_expect(gpushim_ring_pop(&ring, GPUSHIM_SYNC) == GPUSHIM_NOT_FOUND, "a pop");
    IS_OK(gpushim_ring_push(&ring, GPUSHIM_SYNC));
    IS_OK(gpushim_ring_push(&ring, GPUSHIM_SYNC));
    app_expect(gpushim_ring_space(&ring, &slot) == GPUSHIM_NOT_FOUND, "a full ring");
    app_expect(gpushim_ring_push(&ring, GPUSHIM_SYNC) == GPUSHIM_NOT_FOUND, "a push");
    IS_BAD(gpushim_ring_device_address(&ring, NULL));
    IS_BAD(gpushim_ring_device_address(NULL, &address));
    IS_OK(gpushim_ring_device_address(&ring, &address));
    IS_OK(gpushim_ring_free(&ring));
    IS_OK(gpushim_ring_free(&ring));
    IS_BAD(gpushim_ring_device_address(&ring, &address));
    IS_BAD(gpushim_ring_free(NULL));
    IS_BAD(gpushim_ring_space(&ring, &slot));
    IS_BAD(gpushim_streams_create(NULL));
    IS_BAD(gpushim_streams_free(NULL));
    IS_BAD(gpushim_stream_after(GPUSHIM_SYNC, NULL));
    IS_BAD(gpushim_read_file(NULL, 0, 1, 1, NULL, never_called, NULL, &done));
    IS_BAD(gpushim_read_file("/dev/null", 0, 0, 1, NULL, never_called, NULL, &done));
    IS_BAD(gpushim_read_file("/dev/null", 0, 1, 1, NULL, NULL, NULL, &done));
    app_expect(ready == 7 && done == 7, "a refused call wrote");
    IS_OK(gpushim_read_file("/dev/null", 0, UINT64_MAX, 1, NULL, never_called, NULL,
                            &done));
    app_expect(done == 0, "an empty file");
    tell("no such file", gpushim_read_file("/no/such/file", 0, UINT64_MAX, 1, NULL,
                                           never_called, NULL, NULL));
    app_expect(errno == ENOENT, "errno");
    tell("a folder",
         gpushim_read_file("/", 0, UINT64_MAX, 1, NULL, never_called, NULL, NULL));
    app_expect(errno == EISDIR, "errno of a folder");
    IS_OK(gpushim_cache_free(&cache));
    IS_OK(gpushim_cache_free(&pinned));
}

static void bad(void)
{
    struct gpushim_buffer buffer, freed = GPUSHIM_BUFFER_INIT;
    unsigned char data[100], found[100];

    app_gpu_start();
    IS_OK(gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, 100, 0, 0));
    app_bytes_fill(data, 100, 3);
    IS_OK(gpushim_buffer_put(&buffer, 0, data, 100, GPUSHIM_SYNC));
    bad_buffers(&buffer, &freed);
    bad_objects(&buffer, &freed);
    bad_statistics();
    IS_OK(gpushim_buffer_get(&buffer, 0, found, 100, GPUSHIM_SYNC));
    app_expect(memcmp(data, found, 100) == 0 && buffer.bytes == 100, "a refusal wrote");
    IS_OK(gpushim_buffer_free(NULL));
    IS_OK(gpushim_buffer_free(&buffer));
    printf("bad: ok\n");
}

/* ---- random, against a model ---------------------------------------------------- */

struct model {
    struct gpushim_buffer buffer;
    unsigned char data[2 * MOST];
};

static void compare(struct model *model, const char *what)
{
    static unsigned char found[2 * MOST];

    IS_OK(
        gpushim_buffer_get(&model->buffer, 0, found, model->buffer.bytes, GPUSHIM_SYNC));
    app_expect(memcmp(found, model->data, model->buffer.bytes) == 0, what);
}

/* What a failed operation may have written. */
struct written {
    struct model *model;
    size_t at, bytes;
};

/* One random operation on two of the buffers, and on the model if it succeeded.
 */
static gpushim_result random_step(struct model *models, size_t count, uint64_t *state,
                                  struct written *written)
{
    struct model *to = &models[app_random(state) % count];
    struct model *from = &models[app_random(state) % count];
    void *stream = app_random(state) % 2 ? NULL : GPUSHIM_SYNC;
    size_t dst = app_random(state) % to->buffer.bytes;
    size_t src = app_random(state) % from->buffer.bytes;
    size_t space = to->buffer.bytes - dst, most = from->buffer.bytes - src;
    size_t bytes = 1 + app_random(state) % (space < most ? space : most);
    size_t old = to->buffer.bytes, wanted = 1 + app_random(state) % (2 * MOST);
    unsigned char value = (unsigned char)app_random(state), some[64];
    gpushim_result result;

    *written = (struct written){to, dst, bytes};
    switch (app_random(state) % 5) {
    case 0:
        result = gpushim_buffer_fill(&to->buffer, dst, bytes, value, stream);
        if (result == GPUSHIM_OK)
            memset(to->data + dst, value, bytes);
        return result;
    case 1:
        written->bytes = 0;
        result = gpushim_buffer_resize(&to->buffer, wanted, stream);
        if (result == GPUSHIM_OK && wanted > old)
            memset(to->data + old, 0, wanted - old);
        app_expect(to->buffer.bytes == (result == GPUSHIM_OK ? wanted : old), "a length");
        return result;
    case 2:
        written->bytes = 0;
        return gpushim_buffer_shrink(&to->buffer, app_random(state) % 2 * 3600, stream);
    case 3:
        bytes = bytes < sizeof(some) ? bytes : sizeof(some);
        app_bytes_fill(some, bytes, value);
        result = gpushim_buffer_put(&to->buffer, dst, some, bytes, stream);
        if (result == GPUSHIM_OK)
            memcpy(to->data + dst, some, bytes);
        return result;
    default:
        result = gpushim_buffer_copy(&to->buffer, dst, &from->buffer, src, bytes, stream);
        if (to == from && dst < src + bytes && src < dst + bytes) {
            app_expect(result == GPUSHIM_INVALID, "an overlapping copy");
            return GPUSHIM_OK;
        }
        if (result == GPUSHIM_OK)
            memcpy(to->data + dst, from->data + src, bytes);
        return result;
    }
}

static void at_random(uint64_t state)
{
    enum { COUNT = 2 * PLACES, STEPS = 1500 };
    static struct model models[COUNT];
    struct written written;
    uint64_t sum = APP_CHECKSUM;

    app_gpu_start();
    for (size_t i = 0; i < COUNT; i++)
        IS_OK(gpushim_buffer_create(&models[i].buffer, (gpushim_place)(i % PLACES), MOST,
                                    0, GPUSHIM_ZEROED));
    for (int i = 0; i < STEPS; i++)
        IS_OK(random_step(models, COUNT, &state, &written));
    for (size_t i = 0; i < COUNT; i++) {
        compare(&models[i], "a buffer differs from its model");
        sum = app_checksum(sum, models[i].data, models[i].buffer.bytes);
        IS_OK(gpushim_buffer_free(&models[i].buffer));
    }
    printf("random: %016llx\n", (unsigned long long)sum);
}

/* ---- rows and batches of copies ------------------------------------------------- */

static void transfers(void)
{
    enum { WIDTH = 33, ROWS = 20, PITCH = 64, COUNT = 50 };
    struct gpushim_buffer buffers[PLACES], host, one;
    struct gpushim_copy copies[COUNT];
    unsigned char data[MOST], found[MOST];
    size_t done = 0;
    uint64_t sum = APP_CHECKSUM;

    app_gpu_start();
    for (int i = 0; i < PLACES; i++)
        IS_OK(gpushim_buffer_create(&buffers[i], (gpushim_place)i, MOST, 0,
                                    GPUSHIM_ZEROED));
    app_bytes_fill(data, MOST, 5);
    IS_OK(gpushim_buffer_around(&host, data, MOST, GPUSHIM_HOST));
    for (int i = 0; i < PLACES; i++)
        for (int j = 0; j < PLACES; j++) {
            IS_OK(gpushim_buffer_copy_rows(&buffers[i], 7, PITCH, &host, 11, WIDTH + 4,
                                           WIDTH, ROWS, j % 2 ? NULL : GPUSHIM_SYNC));
            if (i != j)
                IS_OK(gpushim_buffer_copy_rows(&buffers[j], 100, PITCH + 5, &buffers[i],
                                               7, PITCH, WIDTH, ROWS, GPUSHIM_SYNC));
            IS_OK(gpushim_buffer_get(&buffers[j], 0, found, MOST, GPUSHIM_SYNC));
            for (size_t row = 0; row < ROWS; row++)
                app_expect(i == j || memcmp(found + 100 + row * (PITCH + 5),
                                            data + 11 + row * (WIDTH + 4), WIDTH) == 0,
                           "a row");
            sum = app_checksum(sum, found, MOST);
            IS_OK(gpushim_buffer_zero(&buffers[j], GPUSHIM_SYNC));
        }
    /* Columns of one matrix. */
    IS_OK(gpushim_buffer_copy(&buffers[0], 0, &host, 0, MOST, GPUSHIM_SYNC));
    IS_OK(gpushim_buffer_copy_rows(&buffers[0], 40, 100, &buffers[0], 0, 100, 40, 10,
                                   GPUSHIM_SYNC));
    for (size_t i = 0; i < COUNT; i++) {
        copies[i].dst = &buffers[i % 3];
        copies[i].dst_offset = 1000 + i * 20;
        copies[i].src = i % 5 ? &host : &buffers[(i + 1) % 3];
        copies[i].src_offset = i;
        copies[i].bytes = 1 + i % 20;
    }
    IS_OK(gpushim_copy_batch(copies, COUNT, GPUSHIM_SYNC, &done));
    app_expect(done == COUNT, "a batch");
    copies[COUNT - 1].bytes = MOST;
    done = 42;
    app_expect(gpushim_copy_batch(copies, COUNT, NULL, &done) == GPUSHIM_INVALID &&
                   done == 42,
               "half a batch");
    /* Host memory written by a queued copy, and read by the next one of the batch. */
    IS_OK(gpushim_buffer_around(&one, found, MOST, GPUSHIM_HOST));
    copies[0] = (struct gpushim_copy){&one, 0, &buffers[0], 0, 100};
    copies[1] = (struct gpushim_copy){&buffers[1], 4000, &one, 0, 100};
    IS_OK(gpushim_copy_batch(copies, 2, GPUSHIM_SYNC, NULL));
    for (int i = 0; i < PLACES; i++) {
        IS_OK(gpushim_buffer_get(&buffers[i], 0, found, MOST, GPUSHIM_SYNC));
        sum = app_checksum(sum, found, MOST);
        IS_OK(gpushim_buffer_free(&buffers[i]));
    }
    printf("transfers: %016llx\n", (unsigned long long)sum);
}

/* ---- staging -------------------------------------------------------------------- */

static void expect_words(const void *data, size_t bytes, uint32_t seed, size_t first)
{
    const uint32_t *words = data;

    for (size_t i = 0; i < bytes / 4; i++)
        app_expect(words[i] == gs_pattern(seed, first + i), "words that were read back");
}

static gpu_ptr memory_of(const struct gpushim_buffer *buffer)
{
    return gpu_from_address((uintptr_t)buffer->data);
}

struct seen {
    uint32_t seed;
    size_t bytes, chunks, stop;
};

static gpushim_result see_chunk(void *user, struct gpushim_buffer *chunk, uint64_t offset,
                                void *stream)
{
    struct seen *seen = user;

    (void)stream;
    app_expect(offset == seen->bytes, "the order of chunks");
    expect_words(chunk->data, chunk->bytes, seen->seed, offset / 4);
    seen->bytes += chunk->bytes;
    return ++seen->chunks == seen->stop ? GPUSHIM_NOT_FOUND : GPUSHIM_OK;
}

/* What is complete on return: the host reads pinned memory without a further call. */
static void complete_on_return(struct gpushim_buffer *source,
                               const struct gpushim_streams *streams)
{
    struct gpushim_buffer pinned;
    unsigned char *bytes;

    IS_OK(gpushim_buffer_create(&pinned, GPUSHIM_PINNED_HOST, WORDS * 4, 0, 0));
    app_fill(&kernels, memory_of(source), WORDS, 55, streams->compute);
    IS_OK(gpushim_stream_wait(streams->compute));
    IS_OK(gpushim_buffer_copy(&pinned, 0, source, 0, WORDS * 4, GPUSHIM_SYNC));
    expect_words(pinned.data, WORDS * 4, 55, 0);
    IS_OK(gpushim_buffer_fill(&pinned, 0, 400, 0x5a, GPUSHIM_SYNC));
    bytes = pinned.data;
    app_expect(is_all(bytes, 400, 0x5a), "a fill that goes on");
    IS_OK(gpushim_buffer_copy_rows(&pinned, 0, 40, source, 0, 40, 40, 10, GPUSHIM_SYNC));
    expect_words(pinned.data, WORDS * 4, 55, 0);
    app_fill(&kernels, memory_of(source), WORDS, 56, streams->compute);
    IS_OK(gpushim_buffer_copy(&pinned, 0, source, 0, WORDS * 4, streams->compute));
    IS_OK(gpushim_buffer_resize(&pinned, WORDS * 8, streams->compute));
    expect_words(pinned.data, WORDS * 4, 56, 0);
    IS_OK(gpushim_buffer_free(&pinned));
}

static void staging(uint64_t state)
{
    struct gpushim_cache cache;
    struct gpushim_streams streams;
    struct gpushim_buffer source;
    struct gpushim_readback first, second;
    const void *range = NULL;
    int ready = 0;

    app_gpu_start();
    app_kernels_load(&kernels);
    IS_OK(gpushim_streams_create(&streams));
    IS_OK(gpushim_cache_create(&cache, GPUSHIM_PINNED_HOST, 2, 40000));
    IS_OK(gpushim_buffer_create(&source, GPUSHIM_DEVICE, WORDS * 4, 0, 0));
    complete_on_return(&source, &streams);
    for (uint32_t round = 0; round < 30; round++) {
        size_t word = app_random(&state) % WORDS, words = 1 + (WORDS - 1 - word) % 1000;
        gpu_stream compute = streams.compute;

        /* The download of the round before has left the buffer. */
        IS_OK(gpushim_stream_after(streams.compute, streams.download));
        app_fill(&kernels, memory_of(&source), WORDS, round, compute);
        IS_OK(gpushim_stream_after(streams.download, streams.compute));
        IS_OK(gpushim_readback_start(&first, &cache, &source, word * 4, words * 4,
                                     streams.download));
        app_expect(gpushim_readback_range(&first, 0, 4, &range) == GPUSHIM_INVALID,
                   "a range before its time");
        IS_OK(gpushim_readback_start(&second, &cache, &source, 0, 400, streams.download));
        if (round % 3 == 0) {
            for (ready = 0; !ready;)
                IS_OK(gpushim_readback_poll(&first, &ready));
        } else {
            IS_OK(gpushim_readback_wait(&first));
        }
        IS_OK(gpushim_readback_range(&first, 0, words * 4, &range));
        expect_words(range, words * 4, round, word);
        app_expect(gpushim_readback_range(&first, 4, words * 4, &range) ==
                       GPUSHIM_INVALID,
                   "a range beyond the end");
        IS_OK(gpushim_readback_end(&first));
        IS_OK(gpushim_readback_end(&first));
        IS_OK(gpushim_readback_wait(&second));
        IS_OK(gpushim_readback_range(&second, 40, 360, &range));
        expect_words(range, 360, round, 10);
        IS_OK(gpushim_readback_end(&second));
    }
    printf("reuse rate %.3f, %zu idle\n", gpushim_cache_hit_rate(&cache),
           cache.idle_count);
    for (size_t chunk = 400; chunk < 20000; chunk *= 3) {
        struct seen seen = {99, 0, 0, 0};

        app_fill(&kernels, memory_of(&source), WORDS, 99, streams.compute);
        IS_OK(gpushim_stream_after(streams.download, streams.compute));
        IS_OK(gpushim_read_back(&cache, &source, 0, WORDS * 4, chunk, streams.download,
                                see_chunk, &seen));
        printf("chunks of %zu: %zu, %zu bytes\n", chunk, seen.chunks, seen.bytes);
        seen = (struct seen){99, 0, 0, 2};
        if (chunk < WORDS * 2) {
            tell("stopped", gpushim_read_back(&cache, &source, 0, WORDS * 4, chunk,
                                              streams.download, see_chunk, &seen));
            app_expect(seen.chunks == 2, "a callback after the stop");
        }
    }
    app_expect(cache.held_bytes <= cache.limit, "a cap");
    IS_OK(gpushim_cache_free(&cache));
    app_expect(cache.held_bytes == 0, "what is still held");
    IS_OK(gpushim_cache_create(&cache, GPUSHIM_PINNED_HOST, 2, 5000));
    for (size_t chunk = 3000; chunk <= WORDS * 4; chunk *= 2)
        tell("beyond the cap", gpushim_read_back(&cache, &source, 0, WORDS * 4, chunk,
                                                 streams.download, never_called, NULL));
    IS_OK(gpushim_cache_free(&cache));
    app_expect(cache.held_bytes == 0, "what is still held");
    IS_OK(gpushim_buffer_free(&source));
    IS_OK(gpushim_streams_free(&streams));
    IS_OK(gpushim_streams_free(&streams));
    app_kernels_unload(&kernels);
}

/* ---- rings ---------------------------------------------------------------------- */

/* The host produces, a stream consumes; then the other way round. */
static void rings(uint64_t state)
{
    enum { SLOTS = 3, MESSAGES = 60, SLOT_WORDS = 50 };
    struct gpushim_ring down, up;
    struct gpushim_streams streams;
    struct gpushim_buffer slot, sum, log;
    uint32_t found[SLOT_WORDS];
    int pushed = 0, popped = 0, read = 0;
    gpu_ptr view;

    app_gpu_start();
    app_kernels_load(&kernels);
    IS_OK(gpushim_streams_create(&streams));
    IS_OK(gpushim_ring_create(&down, SLOTS, SLOT_WORDS * 4));
    IS_OK(gpushim_ring_create(&up, SLOTS, SLOT_WORDS * 4));
    IS_OK(gpushim_buffer_create(&sum, GPUSHIM_DEVICE, SLOT_WORDS * 4, 0, GPUSHIM_ZEROED));
    IS_OK(gpushim_buffer_create(&log, GPUSHIM_DEVICE, MESSAGES * SLOT_WORDS * 4, 0, 0));
    app_expect(down.stride % 64 == 0 && down.stride >= SLOT_WORDS * 4, "a stride");
    while (read < MESSAGES) {
        switch (app_random(&state) % 3) {
        case 0: /* a message to the device */
            if (pushed == MESSAGES || gpushim_ring_space(&down, &slot) != GPUSHIM_OK)
                break;
            for (uint32_t i = 0; i < SLOT_WORDS; i++)
                ((uint32_t *)slot.data)[i] = gs_pattern((uint32_t)pushed, i);
            IS_OK(gpushim_ring_push(&down, GPUSHIM_SYNC));
            pushed++;
            break;
        case 1: /* the device takes one, and answers with a kernel's data */
            if (gpushim_ring_next(&down, &slot) != GPUSHIM_OK)
                break;
            if (popped - read >= SLOTS)
                break;
            IS_OK(gpushim_buffer_copy(&log, (size_t)popped * SLOT_WORDS * 4, &slot, 0,
                                      SLOT_WORDS * 4, streams.compute));
            IS_OK(gpushim_ring_pop(&down, streams.compute));
            IS_OK(gpushim_ring_space(&up, &slot));
            IS_OK(gpushim_buffer_copy(&slot, 0, &log, (size_t)popped * SLOT_WORDS * 4,
                                      SLOT_WORDS * 4, streams.compute));
            IS_OK(gpushim_ring_push(&up, streams.compute));
            popped++;
            break;
        default: /* the host reads the answer */
            if (gpushim_ring_next(&up, &slot) != GPUSHIM_OK) {
                if (popped > read && app_random(&state) % 2)
                    IS_OK(gpushim_stream_wait(streams.compute));
                break;
            }
            memcpy(found, slot.data, sizeof(found));
            expect_words(found, sizeof(found), (uint32_t)read, 0);
            IS_OK(gpushim_ring_pop(&up, GPUSHIM_SYNC));
            read++;
            break;
        }
    }
    IS_OK(gpushim_stream_wait(streams.compute));
    printf("rings: %d down, %d up\n", (int)down.counts->popped, (int)up.counts->popped);
    for (int i = 0; i < MESSAGES; i++) {
        IS_OK(gpushim_buffer_get(&log, (size_t)i * SLOT_WORDS * 4, found, sizeof(found),
                                 GPUSHIM_SYNC));
        expect_words(found, sizeof(found), (uint32_t)i, 0);
    }
    /* A kernel writes a slot by its address on the device: the slot's, or the ring's. */
    for (uint32_t turn = 0; turn < 2 * SLOTS; turn++) {
        void *address = NULL;
        IS_OK(gpushim_ring_space(&up, &slot));
        if (turn % 2) {
            IS_OK(gpushim_buffer_device_address(&slot, &address));
            view = gpu_from_address((uintptr_t)address);
        } else {
            IS_OK(gpushim_ring_device_address(&up, &address));
            view = gpu_from_address((uintptr_t)address + 256 +
                                    up.counts->pushed % up.slots * up.stride);
        }
        app_fill(&kernels, view, SLOT_WORDS, turn, streams.compute);
        IS_OK(gpushim_ring_push(&up, streams.compute));
        IS_OK(gpushim_stream_wait(streams.compute));
        IS_OK(gpushim_ring_next(&up, &slot));
        expect_words(slot.data, SLOT_WORDS * 4, turn, 0);
        IS_OK(gpushim_ring_pop(&up, GPUSHIM_SYNC));
    }
    IS_OK(gpushim_ring_free(&up));
    IS_OK(gpushim_ring_free(&down));
    IS_OK(gpushim_buffer_free(&sum));
    IS_OK(gpushim_buffer_free(&log));
    IS_OK(gpushim_streams_free(&streams));
    app_kernels_unload(&kernels);
}

/* ---- files ---------------------------------------------------------------------- */

/* The file as one number, modulo a prime: the same however it is read in chunks. */
static uint64_t add_bytes(uint64_t sum, const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        sum = (sum * 256 + data[i]) % 36028797018963913u;
    return sum;
}

struct reading {
    struct gpushim_cache cache;
    struct gpushim_readback last;
    uint64_t sum, bytes;
    uint32_t chunks, stop;
};

static void take_last(struct reading *reading)
{
    const void *range = NULL;

    if (!reading->last.event)
        return;
    IS_OK(gpushim_readback_wait(&reading->last));
    IS_OK(gpushim_readback_range(&reading->last, 0, reading->last.data.bytes, &range));
    reading->sum = add_bytes(reading->sum, range, reading->last.data.bytes);
    reading->bytes += reading->last.data.bytes;
    IS_OK(gpushim_readback_end(&reading->last));
}

/* Reads each chunk back behind its upload, and looks at it one chunk later. */
static gpushim_result read_chunk(void *user, struct gpushim_buffer *chunk,
                                 uint64_t offset, void *stream)
{
    struct reading *reading = user;

    (void)offset;
    take_last(reading);
    if (++reading->chunks == reading->stop)
        return GPUSHIM_NO_MEMORY;
    return gpushim_readback_start(&reading->last, &reading->cache, chunk, 0, chunk->bytes,
                                  stream);
}

static gpushim_result count_chunk(void *user, struct gpushim_buffer *chunk,
                                  uint64_t offset, void *stream)
{
    (void)stream;
    app_expect(offset == *(uint64_t *)user, "the order of chunks");
    *(uint64_t *)user += chunk->bytes;
    return GPUSHIM_OK;
}

/* Only queues: the next chunk is read while this one's work has not begun. */
static gpushim_result collect_chunk(void *user, struct gpushim_buffer *chunk,
                                    uint64_t offset, void *stream)
{
    return gpushim_buffer_copy(user, offset, chunk, 0, chunk->bytes, stream);
}

static void from_file(const char *path, size_t chunk)
{
    struct gpushim_buffer all;
    static const uint64_t offsets[] = {0, 4096, 4097, 1};
    struct gpushim_streams streams;
    struct reading reading;
    uint64_t done, lengths[] = {UINT64_MAX, 12345, UINT64_MAX, 1};

    app_gpu_start();
    IS_OK(gpushim_streams_create(&streams));
    for (size_t i = 0; i < APP_COUNT(offsets); i++) {
        memset(&reading, 0, sizeof(reading));
        IS_OK(gpushim_cache_create(&reading.cache, GPUSHIM_PINNED_HOST, 2, 0));
        IS_OK(gpushim_read_file(path, offsets[i], lengths[i], chunk,
                                i % 2 ? streams.compute : GPUSHIM_SYNC, read_chunk,
                                &reading, &done));
        take_last(&reading);
        printf("from %d: %llu bytes, %016llx\n", (int)offsets[i],
               (unsigned long long)done, (unsigned long long)reading.sum);
        app_expect(reading.bytes == done, "what was done");
        IS_OK(gpushim_cache_free(&reading.cache));
    }
    IS_OK(gpushim_read_file(path, 0, UINT64_MAX, chunk, NULL, count_chunk, &(uint64_t){0},
                            &done));
    IS_OK(gpushim_buffer_create(&all, GPUSHIM_PINNED_HOST, done, 0, 0));
    IS_OK(gpushim_read_file(path, 0, UINT64_MAX, chunk, streams.upload, collect_chunk,
                            &all, &done));
    printf("collected: %016llx\n", (unsigned long long)add_bytes(0, all.data, done));
    IS_OK(gpushim_buffer_free(&all));
    memset(&reading, 0, sizeof(reading));
    reading.stop = 2;
    IS_OK(gpushim_cache_create(&reading.cache, GPUSHIM_PINNED_HOST, 2, 0));
    tell("stopped", gpushim_read_file(path, 0, UINT64_MAX, 4096, streams.upload,
                                      read_chunk, &reading, &done));
    app_expect(done == 4096 && reading.bytes == 4096, "a callback after the stop");
    IS_OK(gpushim_cache_free(&reading.cache));
    IS_OK(gpushim_streams_free(&streams));
}

/* Whether the process has the file open with O_DIRECT. */
static gpushim_result look_at_file(void *user, struct gpushim_buffer *chunk,
                                   uint64_t offset, void *stream)
{
    char name[64], line[64];
    struct stat wanted, open_file;
    bool is_direct = false;

    (void)stream;
    APP_OK(stat(user, &wanted));
    for (int file = 3; file < 1024; file++) {
        FILE *info;

        if (fstat(file, &open_file) != 0 || open_file.st_ino != wanted.st_ino ||
            open_file.st_dev != wanted.st_dev)
            continue;
        snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", file);
        info = fopen(name, "r");
        while (info && fgets(line, sizeof(line), info))
            if (strncmp(line, "flags:", 6) == 0)
                is_direct = strtoul(line + 6, NULL, 8) & O_DIRECT;
        if (info)
            fclose(info);
    }
    printf("from %d, %d bytes: %s\n", (int)offset, (int)chunk->bytes,
           is_direct ? "direct" : "through the page cache");
    return GPUSHIM_OK;
}

static void direct(char *path)
{
    app_gpu_start();
    IS_OK(gpushim_read_file(path, 0, UINT64_MAX, 8192, NULL, look_at_file, path, NULL));
    IS_OK(gpushim_read_file(path, 1, 10, 8192, NULL, look_at_file, path, NULL));
}

/* Cuts the file behind the chunk that it has. */
static gpushim_result cut_file(void *path, struct gpushim_buffer *chunk, uint64_t offset,
                               void *stream)
{
    (void)stream;
    APP_OK(truncate(path, (off_t)(offset + chunk->bytes)));
    return GPUSHIM_OK;
}

static void expect_read(const char *path, uint64_t offset, uint64_t bytes,
                        gpushim_result result, int why, uint64_t read)
{
    uint64_t counted = offset, done = 77;
    gpushim_result found = gpushim_read_file(path, offset, bytes, 4096, GPUSHIM_SYNC,
                                             count_chunk, &counted, &done);

    if (found != result || (result != GPUSHIM_OK && errno != why) || done != read ||
        counted != offset + done) {
        fprintf(stderr, "%s: %s, errno %d, %llu bytes\n", path,
                gpushim_result_text(found), errno, (unsigned long long)done);
        app_expect(false, "a file");
    }
}

/* Files that are shorter than it was said, that get shorter, that cannot be opened, and
 * whose reads fail. */
static void odd_files(const char *folder)
{
    char path[4096], other[64];
    unsigned char data[10000];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t done = 77;
    int file, ends[2];
    char *pages;

    app_gpu_start();
    snprintf(path, sizeof(path), "%s/odd.bin", folder);
    app_bytes_fill(data, sizeof(data), 3);
    file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    app_expect(file >= 0 && write(file, data, sizeof(data)) == sizeof(data), "a file");
    APP_OK(close(file));
    expect_read(path, 0, 10001, GPUSHIM_OK, 0, 10000);
    expect_read(path, 9000, 5000, GPUSHIM_OK, 0, 1000);
    expect_read(path, 20000, 1, GPUSHIM_OK, 0, 0);
    IS_OK(gpushim_read_file(path, 0, UINT64_MAX, 4096, NULL, cut_file, path, &done));
    app_expect(done == 4096, "a file that was cut");
    refuses = true;
    expect_read(path, 0, UINT64_MAX, GPUSHIM_NOT_FOUND, EINVAL, 0);
    app_expect(refuses && refusals < 10, "a loop");
    refuses = false;
    if (geteuid() == 0 && seteuid(65534) == 0) {
        expect_read(path, 0, 1, GPUSHIM_NOT_FOUND, EACCES, 0);
        APP_OK(seteuid(0));
    }
    APP_OK(unlink(path));
    APP_OK(pipe(ends));
    snprintf(other, sizeof(other), "/proc/self/fd/%d", ends[0]);
    expect_read(other, 0, 1, GPUSHIM_NOT_FOUND, ESPIPE, 0);
    APP_OK(close(ends[0]));
    APP_OK(close(ends[1]));
    /* The process's own memory, which ends behind a page. */
    pages =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    app_expect(pages != MAP_FAILED, "pages");
    APP_OK(munmap(pages + page, page));
    expect_read("/proc/self/mem", (uintptr_t)pages, UINT64_MAX, GPUSHIM_NOT_FOUND, EIO,
                page);
    APP_OK(munmap(pages, page));
    printf("files: ok\n");
}

/* ---- threads -------------------------------------------------------------------- */

static struct gpushim_cache shared_cache;

static void *take_and_give(void *number)
{
    uint64_t state = 1 + (uint64_t)(uintptr_t)number;
    unsigned char data[1000];

    app_gpu_thread();
    for (int i = 0; i < 200; i++) {
        char key = (char)(app_random(&state) % 3);
        size_t bytes = 1 + app_random(&state) % sizeof(data);
        struct gpushim_buffer buffer;
        gpushim_result result =
            gpushim_cache_take(&shared_cache, &key, 1, bytes, &buffer);

        if (result == GPUSHIM_NO_MEMORY) /* the others have them all */
            continue;
        IS_OK(result);
        app_bytes_fill(data, bytes, (uint32_t)state);
        IS_OK(gpushim_buffer_put(&buffer, 0, data, bytes, GPUSHIM_SYNC));
        memset(data, 0, bytes);
        IS_OK(gpushim_buffer_get(&buffer, 0, data, bytes, GPUSHIM_SYNC));
        app_expect(app_bytes_match(data, bytes, (uint32_t)state), "two threads have one");
        IS_OK(gpushim_cache_give(&shared_cache, &key, 1, &buffer));
        if (i % 50 == 0)
            IS_OK(gpushim_cache_trim(&shared_cache, 0, NULL));
    }
    return NULL;
}

static void in_threads(void)
{
    pthread_t threads[THREADS];

    app_gpu_start();
    IS_OK(gpushim_cache_create(&shared_cache, GPUSHIM_DEVICE, 2, 3500));
    for (uintptr_t i = 0; i < THREADS; i++)
        APP_OK(pthread_create(&threads[i], NULL, take_and_give, (void *)i));
    for (int i = 0; i < THREADS; i++)
        APP_OK(pthread_join(threads[i], NULL));
    app_expect(shared_cache.held_bytes <= 3500, "a limit");
    IS_OK(gpushim_cache_free(&shared_cache));
    app_expect(shared_cache.held_bytes == 0 && !shared_cache.idle_count, "what is held");
    printf("threads: ok\n");
}

/* ---- failures ------------------------------------------------------------------- */

static unsigned failed;

static bool worked(gpushim_result result)
{
    app_expect(result == GPUSHIM_OK || result == GPUSHIM_NO_MEMORY ||
                   result == GPUSHIM_CUDA,
               "a result");
    failed += result != GPUSHIM_OK;
    return result == GPUSHIM_OK;
}

static void free_at_last(struct gpushim_buffer *buffer)
{
    for (int i = 0; i < 1000 && !worked(gpushim_buffer_free(buffer)); i++)
        ;
    app_expect(!buffer->data, "a free that never works");
}

static void get_at_last(struct gpushim_buffer *buffer, size_t offset, void *to,
                        size_t bytes)
{
    for (int i = 0; i < 1000; i++)
        if (worked(gpushim_buffer_get(buffer, offset, to, bytes, GPUSHIM_SYNC)))
            return;
    app_expect(false, "a copy that never works");
}

/* The driver refuses some calls. What fails leaves everything as it was; in the end all
 * is free, and the report says so. */
static void faults(uint64_t state, const char *path)
{
    enum { COUNT = PLACES };
    static struct model models[COUNT];
    struct gpushim_buffer block, parts[3], one;
    const size_t sizes[] = {100, 5000, 20};
    struct gpushim_cache device, pinned;
    struct gpushim_streams streams;
    struct gpushim_ring ring;
    uint64_t done, read;

    app_gpu_start();
    for (size_t i = 0; i < COUNT; i++)
        while (!worked(gpushim_buffer_create(&models[i].buffer, (gpushim_place)i, MOST, 0,
                                             GPUSHIM_ZEROED)))
            app_expect(!models[i].buffer.data, "memory of a failure");
    for (int i = 0; i < 600; i++) {
        struct gpushim_buffer before[COUNT];
        struct written written;

        for (size_t j = 0; j < COUNT; j++)
            before[j] = models[j].buffer;
        if (worked(random_step(models, COUNT, &state, &written)))
            continue;
        for (size_t j = 0; j < COUNT; j++)
            app_expect(before[j].data == models[j].buffer.data &&
                           before[j].capacity == models[j].buffer.capacity,
                       "a failure changed a buffer");
        if (written.bytes)
            get_at_last(&written.model->buffer, written.at,
                        written.model->data + written.at, written.bytes);
    }
    IS_OK(gpushim_cache_create(&device, GPUSHIM_DEVICE, 2, 0));
    IS_OK(gpushim_cache_create(&pinned, GPUSHIM_PINNED_HOST, 2, 0));
    for (int i = 0; i < 40; i++) {
        if (worked(gpushim_batch_create(&block, parts, sizes, 3,
                                        (gpushim_place)(i % PLACES), 0, GPUSHIM_ZEROED)))
            free_at_last(&block);
        app_expect(!block.data, "half a batch");
        if (worked(gpushim_cache_take(&device, &i, 1, 1000, &one)))
            while (!worked(gpushim_cache_give(&device, &i, 1, &one)))
                ;
        read = 0;
        if (worked(gpushim_read_back(&pinned, &models[0].buffer, 0,
                                     models[0].buffer.bytes, 500, NULL, count_chunk,
                                     &read)))
            app_expect(read == models[0].buffer.bytes, "what was read back");
        if (worked(gpushim_streams_create(&streams)))
            while (!worked(gpushim_streams_free(&streams)))
                ;
        if (worked(gpushim_ring_create(&ring, 2, 100))) {
            if (worked(gpushim_ring_push(&ring, NULL))) {
                while (!worked(gpushim_stream_wait(NULL)))
                    ;
                app_expect(ring.counts->pushed == 1, "a push");
            } else {
                app_expect(ring.counts->pushed == 0 && ring.filling == 0,
                           "a failed push");
            }
            while (!worked(gpushim_ring_free(&ring)))
                ;
        }
        read = 0;
        if (worked(gpushim_read_file(path, 0, UINT64_MAX, 8192, NULL, count_chunk, &read,
                                     &done)))
            app_expect(read == done && done > 8192, "a file");
    }
    /* What the copies left is what the model has. */
    for (size_t i = 0; i < COUNT; i++) {
        static unsigned char found[2 * MOST];

        get_at_last(&models[i].buffer, 0, found, models[i].buffer.bytes);
        app_expect(memcmp(found, models[i].data, models[i].buffer.bytes) == 0,
                   "a failure changed data");
        free_at_last(&models[i].buffer);
    }
    while (!worked(gpushim_cache_free(&device)))
        ;
    while (!worked(gpushim_cache_free(&pinned)))
        ;
    app_expect(!device.held_bytes && !pinned.held_bytes, "what is still held");
    fprintf(stdout, "faults: %s\n", failed ? "met" : "none");
}

/* ---- peers, and no device ------------------------------------------------------- */

static void peers(void)
{
    struct gpushim_buffer first, second;
    unsigned char data[100], found[100];
    int pairs = -1, again = -1, devices;

    app_gpu_start();
    devices = app_gpu_devices();
    tell("peers", gpushim_enable_peers(&pairs));
    tell("again", gpushim_enable_peers(&again));
    app_expect(pairs == again && pairs <= devices * (devices - 1), "pairs");
    IS_OK(gpushim_buffer_create(&first, GPUSHIM_DEVICE, 100, 0, 0));
    app_expect(first.device == 0, "the context was changed");
    app_gpu_use(devices - 1);
    IS_OK(gpushim_buffer_create(&second, GPUSHIM_DEVICE, 100, 0, GPUSHIM_ZEROED));
    app_expect(second.device == devices - 1, "a device");
    app_bytes_fill(data, 100, 8);
    IS_OK(gpushim_buffer_put(&first, 0, data, 100, GPUSHIM_SYNC));
    IS_OK(gpushim_buffer_copy(&second, 0, &first, 0, 100, GPUSHIM_SYNC));
    app_gpu_use(0);
    /* It grows on its own device, wherever the thread is. */
    IS_OK(gpushim_buffer_resize(&second, 1000, GPUSHIM_SYNC));
    app_expect(second.device == devices - 1, "a device after a resize");
    IS_OK(gpushim_buffer_get(&second, 0, found, 100, GPUSHIM_SYNC));
    app_expect(memcmp(data, found, 100) == 0, "a copy between devices");
    IS_OK(gpushim_buffer_free(&second));
    IS_OK(gpushim_buffer_free(&first));
}

static void without_a_device(void)
{
    struct gpushim_buffer buffer, host;
    struct gpushim_streams streams;
    struct gpushim_ring ring;
    int pairs;

    tell("device", gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, 100, 0, 0));
    tell("pinned", gpushim_buffer_create(&buffer, GPUSHIM_PINNED_HOST, 100, 0, 0));
    tell("managed", gpushim_buffer_create(&buffer, GPUSHIM_MANAGED, 100, 0, 0));
    tell("host", gpushim_buffer_create(&host, GPUSHIM_HOST, 100, 64, GPUSHIM_ZEROED));
    tell("resize", gpushim_buffer_resize(&host, 1000, GPUSHIM_SYNC));
    tell("copy", gpushim_buffer_copy(&host, 0, &host, 500, 500, GPUSHIM_SYNC));
    tell("in a stream", gpushim_buffer_zero(&host, NULL));
    tell("free", gpushim_buffer_free(&host));
    tell("free what failed", gpushim_buffer_free(&buffer));
    tell("streams", gpushim_streams_create(&streams));
    tell("ring", gpushim_ring_create(&ring, 1, 1));
    tell("peers", gpushim_enable_peers(&pairs));
    tell("file", gpushim_read_file("/dev/null", 0, 1, 1, NULL, never_called, NULL, NULL));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) + 1 : 1;

    if (strcmp(what, "bad") == 0)
        bad();
    else if (strcmp(what, "random") == 0)
        at_random(seed);
    else if (strcmp(what, "transfers") == 0)
        transfers();
    else if (strcmp(what, "staging") == 0)
        staging(seed);
    else if (strcmp(what, "rings") == 0)
        rings(seed);
    else if (strcmp(what, "file") == 0)
        from_file(argc > 2 ? argv[2] : argv[0],
                  argc > 3 ? strtoull(argv[3], NULL, 10) : 1 << 16);
    else if (strcmp(what, "direct") == 0 && argc > 2)
        direct(argv[2]);
    else if (strcmp(what, "files") == 0)
        odd_files(argc > 2 ? argv[2] : ".");
    else if (strcmp(what, "threads") == 0)
        in_threads();
    else if (strcmp(what, "faults") == 0)
        faults(seed, argv[0]);
    else if (strcmp(what, "peers") == 0)
        peers();
    else if (strcmp(what, "none") == 0)
        without_a_device();
    else
        show_all();
    return 0;
}
