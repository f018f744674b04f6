/*
 * tracker_stretches.c - the peaks of stretches that overlap: against a model that
 * computes each of them anew at every allocation, under a clock that hardly moves; and
 * that no stretch changes the peak of the process.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_helpers.h"

#define DEVICES   2
#define STRETCHES 5
#define LIVE_MAX  64

static uint32_t add(struct gs_tracker *tracker, uint64_t bytes, int device)
{
    static uint64_t addr;
    struct gs_allocation allocation = {
        .addr = __atomic_add_fetch(&addr, 4096, __ATOMIC_RELAXED),
        .bytes = bytes,
        .device = (int16_t)device,
        .api = 1,
        .kind = GS_MEMORY_DEVICE};
    return test_add(tracker, &allocation, true);
}

static uint64_t process_peak(struct gs_tracker *tracker, int device)
{
    struct gs_tracker_totals totals;

    gs_tracker_get_totals(tracker, device, &totals);
    return totals.peak_bytes;
}

/* What the pytest plugin and vLLM ask: the second phase is small, after a large first
 * one. */
Test(stretches, has_a_peak_of_its_own)
{
    OWNED_TRACKER tracker = test_slow_tracker();
    struct gs_stretch phase, inner;
    uint32_t kept = add(tracker, 5 << 20, 0), large = add(tracker, 50 << 20, 0);

    gs_tracker_remove(tracker, large, NULL);
    gs_tracker_stretch_begin(tracker, &phase);
    cr_assert_eq(gs_tracker_stretch_peak(tracker, &phase, 0), 5 << 20);
    uint32_t first = add(tracker, 3 << 20, 0);
    gs_tracker_stretch_begin(tracker, &inner);
    gs_tracker_remove(tracker, first, NULL);
    uint32_t second = add(tracker, 4096, 0);
    cr_assert_eq(gs_tracker_stretch_peak(tracker, &phase, 0), 8 << 20);
    cr_assert_eq(gs_tracker_stretch_peak(tracker, &inner, 0), 8 << 20);
    gs_tracker_stretch_end(tracker, &phase); /* the outer one first */
    uint32_t third = add(tracker, 9 << 20, 0);
    cr_assert_eq(gs_tracker_stretch_peak(tracker, &inner, 0), (14 << 20) + 4096);
    cr_assert_eq(gs_tracker_stretch_peak(tracker, &inner, 1), 0);
    gs_tracker_stretch_end(tracker, &inner);
    gs_tracker_stretch_end(tracker, &inner); /* it is not open */
    cr_assert_eq(process_peak(tracker, 0), 55 << 20);
    gs_tracker_remove(tracker, kept, NULL);
    gs_tracker_remove(tracker, second, NULL);
    gs_tracker_remove(tracker, third, NULL);
}

struct model {
    struct gs_stretch stretch;
    bool open;
    uint64_t peaks[DEVICES];
};

struct world {
    struct gs_tracker *tracker;
    struct model models[STRETCHES];
    uint32_t ids[LIVE_MAX];
    uint64_t bytes[LIVE_MAX], live[DEVICES], peaks[DEVICES];
    int devices[LIVE_MAX];
    unsigned count;
};

static void raise(struct world *world, int device)
{
    uint64_t live = world->live[device];

    for (unsigned i = 0; i < STRETCHES; i++)
        if (world->models[i].open && live > world->models[i].peaks[device])
            world->models[i].peaks[device] = live;
    if (live > world->peaks[device])
        world->peaks[device] = live;
}

static void take(struct world *world)
{
    unsigned i = world->count++;

    world->devices[i] = rand() % DEVICES;
    world->bytes[i] = 1 + (uint64_t)(rand() % 4 ? rand() % 5000 : rand() % 9000000);
    world->ids[i] = add(world->tracker, world->bytes[i], world->devices[i]);
    world->live[world->devices[i]] += world->bytes[i];
    raise(world, world->devices[i]);
}

static void give(struct world *world)
{
    unsigned i = (unsigned)rand() % world->count, last = --world->count;

    gs_tracker_remove(world->tracker, world->ids[i], NULL);
    world->live[world->devices[i]] -= world->bytes[i];
    world->ids[i] = world->ids[last];
    world->bytes[i] = world->bytes[last];
    world->devices[i] = world->devices[last];
}

static void turn(struct world *world)
{
    struct model *model = &world->models[rand() % STRETCHES];

    if (model->open)
        gs_tracker_stretch_end(world->tracker, &model->stretch);
    else
        gs_tracker_stretch_begin(world->tracker, &model->stretch);
    model->open = !model->open;
    memcpy(model->peaks, world->live, sizeof(world->live));
}

static void compare(const struct world *world)
{
    for (int device = 0; device < DEVICES; device++) {
        for (unsigned i = 0; i < STRETCHES; i++) {
            const struct model *model = &world->models[i];
            if (model->open)
                cr_assert_eq(
                    gs_tracker_stretch_peak(world->tracker, &model->stretch, device),
                    model->peaks[device]);
        }
        cr_assert_eq(process_peak(world->tracker, device), world->peaks[device]);
    }
}

Test(stretches, overlap_in_any_order)
{
    struct world world = {.tracker = test_slow_tracker()};

    srand(7);
    for (unsigned step = 0; step < 40000; step++) {
        if (step % 1000 == 0)
            test_now_ns += 4000000;
        if (rand() % 50 == 0)
            turn(&world);
        else if (world.count == 0 || (world.count < LIVE_MAX && rand() % 2 == 0))
            take(&world);
        else
            give(&world);
        if (rand() % 40 == 0) /* to ask must not be what makes it right */
            compare(&world);
    }
    compare(&world);
    gs_tracker_destroy(world.tracker);
}

#define THREADS 4
#define PAIRS   20000
static struct gs_tracker *shared;

static void *work(void *argument)
{
    uint64_t bytes = *(const uint64_t *)argument;

    for (unsigned i = 0; i < PAIRS; i++)
        gs_tracker_remove(shared, add(shared, bytes, 0), NULL);
    return NULL;
}

/* Credit that a thread had before the stretch may not hide what it allocates within.
 * Never too little: each thread has its block live at some time. Never more than all of
 * them at once. */
Test(stretches, count_what_other_threads_do)
{
    static uint64_t sizes[THREADS] = {1000, 70000, 300, 5000000};
    uint64_t sum = 0;
    pthread_t threads[THREADS];
    struct gs_stretch stretch;

    shared = test_slow_tracker();
    for (unsigned round = 0; round < 3; round++) {
        gs_tracker_stretch_begin(shared, &stretch);
        for (unsigned i = 0; i < THREADS; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, work, &sizes[i]), 0);
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        sum = sizes[0] + sizes[1] + sizes[2] + sizes[3];
        uint64_t peak = gs_tracker_stretch_peak(shared, &stretch, 0);
        cr_assert(peak >= sizes[3], "%zu", (size_t)peak);
        cr_assert(peak <= sum + THREADS * GS_CREDIT_SLACK, "%zu", (size_t)peak);
        gs_tracker_stretch_end(shared, &stretch);
    }
    gs_tracker_stretch_begin(shared, &stretch); /* after their ends nothing is live */
    cr_assert_eq(gs_tracker_stretch_peak(shared, &stretch, 0), 0);
    gs_tracker_remove(shared, add(shared, 77, 0), NULL);
    cr_assert_eq(gs_tracker_stretch_peak(shared, &stretch, 0), 77);
    gs_tracker_stretch_end(shared, &stretch);
    gs_tracker_destroy(shared);
}
