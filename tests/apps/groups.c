/*
 * groups.c - groups of buffers (gpushim_memory.h), with the library and without it.
 *
 *   groups_WAY           counters, preallocated memory, a clear, wrong arguments
 *   groups_WAY threads   four threads allocate in one group: counters and addresses
 *   groups_WAY leak      a group that is never freed: its name in the report
 *
 * A result, a counter or data that is wrong ends it with 1.
 */
#include <pthread.h>

#include "gpushim_memory.h"
#include "gpu.h"

enum { THREADS = 4, EACH = 20000, AHEAD = 20 };

/* Ends the program if a call did not return what it should. */
static void expect(const char *what, gpushim_result wanted, gpushim_result found)
{
    if (found != wanted)
        fprintf(stderr, "%s: %s\n", what, gpushim_result_text(found));
    app_expect(found == wanted, what);
}

/* The counters of a group in this order. */
struct counters {
    size_t current_bytes, peak_bytes;
    uint64_t count, typed_count, reused_count;
    size_t live_count;
};

static void expect_counters(const char *what, struct gpushim_group *group,
                            struct counters wanted)
{
    struct gpushim_group now;

    expect(what, GPUSHIM_OK, gpushim_group_get(group, &now));
    struct counters found = {now.current_bytes, now.peak_bytes,   now.count,
                             now.typed_count,   now.reused_count, now.live_count};
    app_expect(memcmp(&found, &wanted, sizeof(found)) == 0, what);
}

static void use(gpushim_place place)
{
    struct gpushim_group group;
    struct gpushim_buffer ahead, other, view;
    unsigned char bytes[4000];

    APP_OK(gpushim_group_create(&group, "pagerank", place, 1));
    APP_OK(gpushim_group_preallocate(&group, sizeof(bytes)));
    APP_OK(gpushim_group_preallocate(&group, 8000));
    app_expect(strcmp(group.name, "pagerank") == 0, "its name");
    expect_counters("not used yet", &group, (struct counters){12000, 12000, 0, 0, 0, 0});
    APP_OK(gpushim_group_alloc(&group, 3999, 0, &other));
    APP_OK(gpushim_group_alloc_typed(&group, 1000, 4, 0, &ahead));
    APP_OK(gpushim_buffer_fill(&ahead, 0, sizeof(bytes), 7, GPUSHIM_SYNC));
    APP_OK(gpushim_group_alloc(&group, sizeof(bytes), GPUSHIM_ZEROED, &view));
    app_expect(view.data != ahead.data && other.data != ahead.data, "own memory");
    expect("the free of a view", GPUSHIM_OK, gpushim_buffer_free(&other));
    expect_counters("used", &group, (struct counters){19999, 19999, 3, 1, 1, 3});
    APP_OK(gpushim_group_clear(&group));
    expect_counters("cleared", &group, (struct counters){0, 19999, 3, 1, 1, 0});
    /* What was 7 before, and is zero as asked. */
    APP_OK(gpushim_group_preallocate(&group, sizeof(bytes)));
    APP_OK(gpushim_buffer_fill(&group.members[0], 0, sizeof(bytes), 9, GPUSHIM_SYNC));
    APP_OK(gpushim_group_alloc(&group, sizeof(bytes), GPUSHIM_ZEROED, &view));
    APP_OK(gpushim_buffer_get(&view, 0, bytes, sizeof(bytes), GPUSHIM_SYNC));
    for (size_t i = 0; i < sizeof(bytes); i++)
        app_expect(bytes[i] == 0, "zero");
    expect_counters("reused", &group, (struct counters){4000, 19999, 4, 1, 2, 1});
    expect("its end", GPUSHIM_OK, gpushim_group_free(&group));
    expect("another end", GPUSHIM_OK, gpushim_group_free(&group));
    expect("after its end", GPUSHIM_INVALID, gpushim_group_alloc(&group, 1, 0, &view));
}

static void expect_refusals(void)
{
    struct gpushim_group group, copy;
    struct gpushim_buffer view = {.bytes = 42};
    char name[129];

    memset(name, 'n', 128);
    name[128] = '\0';
    expect("no group", GPUSHIM_INVALID,
           gpushim_group_create(NULL, "a", GPUSHIM_DEVICE, 0));
    expect("no name", GPUSHIM_INVALID,
           gpushim_group_create(&group, "", GPUSHIM_DEVICE, 0));
    expect("a long name", GPUSHIM_INVALID,
           gpushim_group_create(&group, name, GPUSHIM_DEVICE, 0));
    expect("no place", GPUSHIM_INVALID,
           gpushim_group_create(&group, "a", (gpushim_place)9, 0));
    expect("too many", GPUSHIM_INVALID,
           gpushim_group_create(&group, "a", GPUSHIM_DEVICE, SIZE_MAX));
    expect("a name", GPUSHIM_OK,
           gpushim_group_create(&group, name + 1, GPUSHIM_DEVICE, 0));
    expect("nothing", GPUSHIM_INVALID, gpushim_group_alloc(&group, 0, 0, &view));
    expect("nowhere", GPUSHIM_INVALID, gpushim_group_alloc(&group, 1, 0, NULL));
    expect("flags", GPUSHIM_INVALID, gpushim_group_alloc(&group, 1, 99, &view));
    expect("no element", GPUSHIM_INVALID,
           gpushim_group_alloc_typed(&group, 1, 0, 0, &view));
    expect("too many elements", GPUSHIM_INVALID,
           gpushim_group_alloc_typed(&group, SIZE_MAX / 2, 4, 0, &view));
    expect("too much", GPUSHIM_NO_MEMORY,
           gpushim_group_alloc(&group, (size_t)1 << 60, 0, &view));
    expect("too much ahead", GPUSHIM_NO_MEMORY,
           gpushim_group_preallocate(&group, (size_t)1 << 60));
    expect("nothing ahead", GPUSHIM_INVALID, gpushim_group_preallocate(&group, 0));
    expect("onto itself", GPUSHIM_INVALID, gpushim_group_get(&group, &group));
    expect("of none", GPUSHIM_INVALID, gpushim_group_get(NULL, &copy));
    expect("no clear", GPUSHIM_INVALID, gpushim_group_clear(NULL));
    app_expect(view.bytes == 42 && group.count == 0 && group.current_bytes == 0 &&
                   group.peak_bytes == 0 && group.member_count == 0,
               "a refused call changed something");
    expect("its end", GPUSHIM_OK, gpushim_group_free(&group));
    expect("no end", GPUSHIM_OK, gpushim_group_free(NULL));
}

static struct gpushim_group shared;
static void *addresses[THREADS][EACH];

static void *allocate(void *argument)
{
    size_t thread = (size_t)(uintptr_t)argument;
    struct gpushim_buffer view;

    app_gpu_thread();
    for (size_t i = 0; i < EACH; i++) {
        APP_OK(gpushim_group_alloc_typed(&shared, 64, 4, i % 2, &view));
        addresses[thread][i] = view.data;
    }
    return NULL;
}

static int compare(const void *left, const void *right)
{
    uintptr_t a = *(const uintptr_t *)left, b = *(const uintptr_t *)right;
    return a < b ? -1 : a > b;
}

static void in_threads(void)
{
    pthread_t threads[THREADS];
    void **all = &addresses[0][0];

    /* The host's: nothing but the group's own lock keeps the threads apart. */
    APP_OK(gpushim_group_create(&shared, NULL, GPUSHIM_HOST, 0));
    for (int i = 0; i < AHEAD; i++)
        APP_OK(gpushim_group_preallocate(&shared, 256));
    for (size_t i = 0; i < THREADS; i++)
        app_expect(!pthread_create(&threads[i], NULL, allocate, (void *)(uintptr_t)i),
                   "a thread");
    for (size_t i = 0; i < THREADS; i++)
        app_expect(!pthread_join(threads[i], NULL), "its end");
    expect_counters("of all threads", &shared,
                    (struct counters){THREADS * EACH * 256, THREADS * EACH * 256,
                                      THREADS * EACH, THREADS * EACH, AHEAD,
                                      THREADS * EACH});
    qsort(all, THREADS * EACH, sizeof(*all), compare);
    for (size_t i = 1; i < THREADS * EACH; i++)
        app_expect((char *)all[i] - (char *)all[i - 1] >= 256, "memory of its own");
    APP_OK(gpushim_group_free(&shared));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    struct gpushim_buffer view;

    app_gpu_start();
    if (strcmp(mode, "threads") == 0) {
        in_threads();
    } else if (strcmp(mode, "leak") == 0) {
        APP_OK(gpushim_group_create(&shared, "bfs_traversal", GPUSHIM_DEVICE, 0));
        APP_OK(gpushim_group_alloc(&shared, 12345, 0, &view));
        APP_OK(gpushim_buffer_create(&view, GPUSHIM_DEVICE, 777, 0, 0)); /* in none */
    } else {
        use(GPUSHIM_DEVICE);
        use(GPUSHIM_PINNED_HOST);
        expect_refusals();
    }
    return 0;
}
