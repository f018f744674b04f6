/*
 * groups.c - groups of buffers (gpushim_memory.h): the same output with the library and
 * without it.
 *
 *   groups_WAY           counters, preallocated memory, a clear, wrong arguments
 *   groups_WAY threads   four threads allocate in one group: counters and addresses
 *   groups_WAY leak      a group that is never freed: its name in the report
 *
 * Data that is wrong ends it with 1.
 */
#include <pthread.h>

#include "gpushim_memory.h"
#include "gpu.h"

enum { THREADS = 4, EACH = 20000, AHEAD = 20 };

static void tell(const char *what, gpushim_result result)
{
    printf("%s: %s\n", what, gpushim_result_text(result));
}

static void show(const char *what, struct gpushim_group *group)
{
    struct gpushim_group now;

    tell(what, gpushim_group_get(group, &now));
    printf("  \"%s\": %zu bytes now, %zu at most, %d allocations, %d typed, %d reused, "
           "%zu live\n",
           now.name, now.current_bytes, now.peak_bytes, (int)now.count,
           (int)now.typed_count, (int)now.reused_count, now.live_count);
}

static void use(gpushim_place place)
{
    struct gpushim_group group;
    struct gpushim_buffer ahead, other, view;
    unsigned char bytes[4000];

    tell("a group", gpushim_group_create(&group, "pagerank", place, 1));
    tell("ahead", gpushim_group_preallocate(&group, sizeof bytes));
    tell("more ahead", gpushim_group_preallocate(&group, 8000));
    show("not used yet", &group);
    tell("of another size", gpushim_group_alloc(&group, 3999, 0, &other));
    tell("of that size", gpushim_group_alloc_typed(&group, 1000, 4, 0, &ahead));
    APP_OK(gpushim_buffer_fill(&ahead, 0, sizeof bytes, 7, GPUSHIM_SYNC));
    tell("once more", gpushim_group_alloc(&group, sizeof bytes, GPUSHIM_ZEROED, &view));
    app_expect(view.data != ahead.data && other.data != ahead.data, "own memory");
    tell("the free of a view", gpushim_buffer_free(&other));
    show("used", &group);
    tell("a clear", gpushim_group_clear(&group));
    show("cleared", &group);
    /* What was 7 before, and is zero as asked. */
    tell("ahead", gpushim_group_preallocate(&group, sizeof bytes));
    APP_OK(
        gpushim_buffer_fill(&group.members[0].buffer, 0, sizeof bytes, 9, GPUSHIM_SYNC));
    tell("zeroed", gpushim_group_alloc(&group, sizeof bytes, GPUSHIM_ZEROED, &view));
    APP_OK(gpushim_buffer_get(&view, 0, bytes, sizeof bytes, GPUSHIM_SYNC));
    for (size_t i = 0; i < sizeof bytes; i++)
        app_expect(bytes[i] == 0, "zero");
    show("reused", &group);
    tell("its end", gpushim_group_free(&group));
    tell("another end", gpushim_group_free(&group));
    tell("after its end", gpushim_group_alloc(&group, 1, 0, &view));
}

static void show_wrong(void)
{
    struct gpushim_group group, copy;
    struct gpushim_buffer view = {.bytes = 42};
    char name[129];

    memset(name, 'n', 128);
    name[128] = '\0';
    tell("no group", gpushim_group_create(NULL, "a", GPUSHIM_DEVICE, 0));
    tell("no name", gpushim_group_create(&group, "", GPUSHIM_DEVICE, 0));
    tell("a long name", gpushim_group_create(&group, name, GPUSHIM_DEVICE, 0));
    tell("no place", gpushim_group_create(&group, "a", (gpushim_place)9, 0));
    tell("too many", gpushim_group_create(&group, "a", GPUSHIM_DEVICE, SIZE_MAX));
    tell("a name", gpushim_group_create(&group, name + 1, GPUSHIM_DEVICE, 0));
    tell("nothing", gpushim_group_alloc(&group, 0, 0, &view));
    tell("nowhere", gpushim_group_alloc(&group, 1, 0, NULL));
    tell("flags", gpushim_group_alloc(&group, 1, 99, &view));
    tell("no element", gpushim_group_alloc_typed(&group, 1, 0, 0, &view));
    tell("too many elements",
         gpushim_group_alloc_typed(&group, SIZE_MAX / 2, 4, 0, &view));
    tell("too much", gpushim_group_alloc(&group, (size_t)1 << 60, 0, &view));
    tell("too much ahead", gpushim_group_preallocate(&group, (size_t)1 << 60));
    tell("nothing ahead", gpushim_group_preallocate(&group, 0));
    tell("onto itself", gpushim_group_get(&group, &group));
    tell("of none", gpushim_group_get(NULL, &copy));
    tell("no clear", gpushim_group_clear(NULL));
    app_expect(view.bytes == 42 && group.count == 0 && group.current_bytes == 0 &&
                   group.peak_bytes == 0 && group.member_count == 0,
               "a refused call changed something");
    tell("its end", gpushim_group_free(&group));
    tell("no end", gpushim_group_free(NULL));
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
    show("of all threads", &shared);
    qsort(all, THREADS * EACH, sizeof *all, compare);
    for (size_t i = 1; i < THREADS * EACH; i++)
        app_expect((char *)all[i] - (char *)all[i - 1] >= 256, "memory of its own");
    tell("its end", gpushim_group_free(&shared));
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
        show_wrong();
    }
    return 0;
}
