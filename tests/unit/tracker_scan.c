/*
 * tracker_scan.c - proves where a scan finds pointers in a real process and where not,
 * that it meets every kind of mapping unharmed, and what is said of the result.
 *
 * Addresses are made of constants where they are needed and handed on by functions of
 * their own, so that no copy of one lies about that a test did not plant.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracker/scan/leak_scan_internal.h"
#include "tracker_helpers.h"

/* A sanitizer keeps copies of its own, and terabytes of shadow. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#define PLANT_BYTES 65536u
/* The address of allocation `i`, which nothing else has. */
#define PLANT(i) (UINT64_C(0x5a5a00000000) + (uint64_t)(i) * (4 * GS_MIB))
#define PLANTS   16u

#define ALONE __attribute__((noinline))

static ALONE void add_plants(struct gs_tracker *tracker)
{
    for (unsigned i = 0; i < PLANTS; i++)
        test_leak(tracker, PLANT(i), PLANT_BYTES, SECONDS(1), 0);
}

static ALONE struct gs_scan scan_with(struct gs_tracker *tracker,
                                      struct gs_scan_config config)
{
    struct gs_scan scan = {0};

    config.stack_from = (uintptr_t)__builtin_frame_address(0);
    gs_scan_run(tracker, &config, &scan);
    cr_assert_null(scan.why_not, "%s", scan.why_not);
    return scan;
}

static struct gs_scan scan_now(struct gs_tracker *tracker)
{
    return scan_with(tracker, (struct gs_scan_config){0});
}

static const char *const found_names[GS_SCAN_RESULTS] = {
    "not made", "lost", "start", "inside", "ambiguous",
};

#define EXPECT_FOUND(scan, plant, expected)                                              \
    do {                                                                                 \
        enum gs_scan_found is = gs_scan_result(&(scan), PLANT(plant));                   \
        cr_expect_eq(is, expected, "plant %u is %s, not %s", plant, found_names[is],     \
                     found_names[expected]);                                             \
    } while (0)

/* --- where pointers are kept ----------------------------------------------------------
 */

static volatile uint64_t in_data = 1; /* initialised: .data; the others: .bss */
static volatile uint64_t in_bss, hidden, inside, past;
static _Thread_local volatile uint64_t in_tls;

static ALONE void plant_statics(void)
{
    in_data = PLANT(1);
    in_bss = PLANT(2);
    in_tls = PLANT(3);
    hidden = ~PLANT(4);
    inside = PLANT(5) + 4096;
    past = PLANT(6) + PLANT_BYTES; /* one past the end is no pointer into it */
}

static ALONE void plant_at(void *memory, unsigned plant)
{
    *(volatile uint64_t *)memory = PLANT(plant);
}

static ALONE void overwrite(void *memory)
{
    *(volatile uint64_t *)memory = 0;
}

Test(scan, pointers_are_found_where_a_program_keeps_them)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    volatile uint64_t on_stack;
    char *heap = malloc(512), *freed = malloc(512), *large = malloc(4 * GS_MIB);
    void *unaligned = heap + 257;

    cr_assert(heap && freed && large);
    add_plants(tracker);
    plant_statics();
    plant_at(heap + 128, 7);
    plant_at(large + 3 * GS_MIB, 8);
    plant_at((void *)&on_stack, 9);
    plant_at(heap, 10);
    overwrite(heap);
    plant_at(freed + 256, 11);
    free(freed);
    plant_at(unaligned, 12);

    struct gs_scan scan = scan_now(tracker);
    EXPECT_FOUND(scan, 0, GS_SCAN_LOST); /* never kept */
    EXPECT_FOUND(scan, 1, GS_SCAN_START);
    EXPECT_FOUND(scan, 2, GS_SCAN_START);
    EXPECT_FOUND(scan, 3, GS_SCAN_START);
    EXPECT_FOUND(scan, 4, GS_SCAN_LOST);
    EXPECT_FOUND(scan, 5, GS_SCAN_INSIDE);
    EXPECT_FOUND(scan, 6, GS_SCAN_LOST);
    EXPECT_FOUND(scan, 7, GS_SCAN_START);
    EXPECT_FOUND(scan, 8, GS_SCAN_START);
    EXPECT_FOUND(scan, 9, GS_SCAN_START);
    EXPECT_FOUND(scan, 10, GS_SCAN_LOST);
    EXPECT_FOUND(scan, 11, GS_SCAN_START); /* a limit: the heap's free memory is memory */
    EXPECT_FOUND(scan, 12, GS_SCAN_LOST);  /* a limit: it lies across two words */
    cr_expect_eq(gs_scan_result(&scan, PLANT(99)), GS_SCAN_NOT_MADE);
    cr_expect_gt(scan.scanned_bytes, 4096);
    gs_scan_free(&scan);
    free(heap);
    free(large);
}

/* --- other threads --------------------------------------------------------------------
 */

static sem_t planted, leave;
static pid_t waiting_thread;

/* Until the kernel says that the thread waits: a running one does not tell its stack. */
static void await_waiting(void)
{
    char path[64], state[8] = "";

    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", waiting_thread);
    for (unsigned i = 0; i < 5000; i++) {
        FILE *file = fopen(path, "r");
        cr_assert_not_null(file);
        cr_assert_not_null(fgets(state, sizeof(state), file));
        fclose(file);
        if (strtol(state, NULL, 10) == SYS_futex)
            return;
        usleep(1000);
    }
    cr_assert_fail("the thread does not wait");
}

/* A frame that is gone when the thread waits, deeper than the frames that it waits in. */
static ALONE void plant_below(void)
{
    volatile char room[16384];

    room[0] = 1;
    plant_at((void *)(((uintptr_t)&room[64] + 7) & ~(uintptr_t)7), 2);
}

static void *keep_on_stack(void *arg)
{
    volatile uint64_t kept;

    (void)arg;
    waiting_thread = (pid_t)syscall(SYS_gettid);
    plant_at((void *)&kept, 1);
    plant_below();
    sem_post(&planted);
    sem_wait(&leave);
    return kept ? NULL : arg;
}

Test(scan, another_threads_stack_is_scanned_as_far_as_it_is_used)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    pthread_t thread;

    add_plants(tracker);
    sem_init(&planted, 0, 0);
    sem_init(&leave, 0, 0);
    cr_assert_eq(pthread_create(&thread, NULL, keep_on_stack, NULL), 0);
    sem_wait(&planted);
    await_waiting();

    struct gs_scan scan = scan_now(tracker);
    EXPECT_FOUND(scan, 1, GS_SCAN_START);
    EXPECT_FOUND(scan, 2, GS_SCAN_LOST);
    gs_scan_free(&scan);
    sem_post(&leave);
    pthread_join(thread, NULL);
}

/* --- mappings -------------------------------------------------------------------------
 */

static char *map(size_t bytes, int protection, int flags, int fd)
{
    char *memory = mmap(NULL, bytes, protection, flags, fd, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static int scratch_file(size_t bytes)
{
    char name[] = "/tmp/gpushim-scan.XXXXXX";
    int fd = mkstemp(name);

    cr_assert_geq(fd, 0);
    unlink(name);
    cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

#define READ_WRITE (PROT_READ | PROT_WRITE)
#define ANONYMOUS  (MAP_PRIVATE | MAP_ANONYMOUS)

Test(scan, mappings_are_scanned_by_what_they_are)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    int fd = scratch_file(65536);
    char *anonymous = map(65536, READ_WRITE, ANONYMOUS, -1);
    char *private_file = map(65536, READ_WRITE, MAP_PRIVATE, fd);
    char *shared_file = map(65536, READ_WRITE, MAP_SHARED, fd);
    char *shared = map(65536, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    char *closed = map(65536, READ_WRITE, ANONYMOUS, -1);
    char *fixed = map(65536, READ_WRITE, ANONYMOUS, -1);

    cr_assert(anonymous && private_file && shared_file && shared && closed && fixed);
    add_plants(tracker);
    plant_at(anonymous + 8192, 1);
    plant_at(private_file + 8192, 2);
    plant_at(shared_file + 16384, 3);
    plant_at(shared + 8192, 4);
    plant_at(closed + 8192, 5);
    plant_at(fixed + 8192, 6);
    cr_assert_eq(mprotect(closed, 65536, PROT_NONE), 0);
    cr_assert_eq(mprotect(fixed, 65536, PROT_READ), 0);

    struct gs_scan scan = scan_now(tracker);
    EXPECT_FOUND(scan, 1, GS_SCAN_START);
    EXPECT_FOUND(scan, 2, GS_SCAN_START);
    EXPECT_FOUND(scan, 3, GS_SCAN_LOST); /* a limit: what is on disk is not looked at */
    EXPECT_FOUND(scan, 4, GS_SCAN_START);
    EXPECT_FOUND(scan, 5, GS_SCAN_LOST); /* a limit: it cannot be read */
    EXPECT_FOUND(scan, 6, GS_SCAN_START);
    gs_scan_free(&scan);
    close(fd);
}

/* Nothing here may end the process, and what lies between the holes is still found. */
static void look_into_holes(bool by_entries)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    char *holes = map(64 * 4096, READ_WRITE, ANONYMOUS, -1);
    char *reserved = map(64 * GS_GIB, READ_WRITE, ANONYMOUS | MAP_NORESERVE, -1);
    char *huge = map(2 * GS_MIB, READ_WRITE, ANONYMOUS | MAP_HUGETLB, -1);
    char *striped = map(24 * GS_MIB, READ_WRITE, ANONYMOUS, -1);
    int fd = scratch_file(65536);
    char *cut = map(65536, READ_WRITE, MAP_PRIVATE, fd);
    int zero = open("/dev/zero", O_RDWR);
    char *device = map(65536, READ_WRITE, MAP_PRIVATE, zero);
    struct rusage before, after;

    int large = scratch_file(20 * GS_MIB);
    char *written = map(20 * GS_MIB, READ_WRITE, MAP_SHARED, large);
    char *read_only = map(20 * GS_MIB, READ_WRITE, MAP_PRIVATE, large);
    char *shared = map(20 * GS_MIB, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);

    cr_assert(holes && cut && device && striped && written && read_only && shared);
    add_plants(tracker);
    /* What the program only reads of a file is not its memory; what it shares is. */
    plant_at(written + 8 * GS_MIB, 6);
    munmap(written, 20 * GS_MIB);
    cr_assert_neq(*(volatile char *)(read_only + 8 * GS_MIB + 2), 0);
    plant_at(shared + 8 * GS_MIB, 7);
    /* More regions of pages than the kernel tells at once. */
    (void)madvise(striped, 24 * GS_MIB, MADV_NOHUGEPAGE);
    for (size_t i = 4096; i < 24 * GS_MIB; i += 8192)
        striped[i] = 1;
    plant_at(striped + 24 * GS_MIB - 4096, 5);
    memset(holes, 1, 64 * 4096);
    for (unsigned i = 0; i < 64; i += 2)
        mprotect(holes + i * 4096, 4096, i % 4 ? PROT_NONE : PROT_READ);
    munmap(holes + 8 * 4096, 4096);
    plant_at(holes + 63 * 4096, 1);
    cut[0] = cut[40000] = 1;
    cr_assert_eq(ftruncate(fd, 4096), 0); /* beyond it, a read is a SIGBUS */
    plant_at(device + 4096, 2);
    if (huge)
        plant_at(huge + GS_MIB, 3);
    if (reserved)
        plant_at(reserved + 33 * GS_GIB, 4);
    (void)mlock(holes + 62 * 4096, 8192);
    cr_assert_eq(madvise(holes + 61 * 4096, 4096, MADV_DONTNEED), 0);
    getrusage(RUSAGE_SELF, &before);

    struct gs_scan scan =
        scan_with(tracker, (struct gs_scan_config){.by_entries = by_entries});
    getrusage(RUSAGE_SELF, &after);
    EXPECT_FOUND(scan, 1, GS_SCAN_START);
    EXPECT_FOUND(scan, 5, GS_SCAN_START);
    EXPECT_FOUND(scan, 6, GS_SCAN_LOST);
    EXPECT_FOUND(scan, 7, GS_SCAN_START);
    EXPECT_FOUND(scan, 2, GS_SCAN_START); /* private /dev/zero is anonymous memory */
    if (huge)
        EXPECT_FOUND(scan, 3, GS_SCAN_START);
    if (reserved)
        EXPECT_FOUND(scan, 4, GS_SCAN_START);
    /* The 64 GiB that were never touched were not made by looking at them. */
    cr_expect_lt(after.ru_minflt - before.ru_minflt, 4000);
    gs_scan_free(&scan);
}

Test(scan, holes_and_odd_mappings_do_no_harm)
{
    look_into_holes(false);
}

Test(scan, holes_do_no_harm_where_the_kernel_has_entries_alone)
{
    look_into_holes(true);
}

/* Sanitizers and virtual machines reserve as much; its entries would take a minute. */
Test(scan, memory_that_was_only_reserved_takes_no_time)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    char *reserved = map(16 * 1024 * GS_GIB, READ_WRITE, ANONYMOUS | MAP_NORESERVE, -1);
    struct utsname kernel;

    uname(&kernel);
    if (!reserved || strverscmp(kernel.release, "6.7") < 0)
        cr_skip_test("Linux 6.7 and 16 TiB of address space");
    add_plants(tracker);
    plant_at(reserved + 9 * 1024 * GS_GIB, 2);
    plant_at(reserved + 16 * 1024 * GS_GIB - 4096, 3);

    struct gs_scan scan = scan_with(tracker, (struct gs_scan_config){.limit_ms = 5000});
    EXPECT_FOUND(scan, 0, GS_SCAN_LOST);
    EXPECT_FOUND(scan, 2, GS_SCAN_START);
    EXPECT_FOUND(scan, 3, GS_SCAN_START);
    gs_scan_free(&scan);
}

/* Another thread maps and unmaps all the time. */
static volatile bool ended;

static void *map_and_unmap(void *arg)
{
    (void)arg;
    while (!ended) {
        char *memory = map(GS_MIB, READ_WRITE, ANONYMOUS, -1);
        if (memory) {
            memset(memory, 3, GS_MIB);
            munmap(memory, GS_MIB);
        }
    }
    return NULL;
}

Test(scan, memory_may_go_meanwhile)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    pthread_t thread;

    add_plants(tracker);
    plant_statics();
    cr_assert_eq(pthread_create(&thread, NULL, map_and_unmap, NULL), 0);
    for (unsigned i = 0; i < 20; i++) {
        struct gs_scan scan = scan_now(tracker);
        EXPECT_FOUND(scan, 1, GS_SCAN_START);
        EXPECT_FOUND(scan, 0, GS_SCAN_LOST);
        gs_scan_free(&scan);
    }
    ended = true;
    pthread_join(thread, NULL);
}

/* --- the tracker's tables, the driver's copies ----------------------------------------
 */

static bool knows_odd_ones(void *self, uint64_t addr)
{
    (void)self;
    return (addr - PLANT(0)) / (4 * GS_MIB) % 2 == 1;
}

static char *left_out;

static bool leave_out(void *self, gs_scan_skip skip, void *arg)
{
    (void)self;
    skip(arg, (uintptr_t)left_out, 4096);
    return true;
}

static bool leave_out_some(void *self, gs_scan_skip skip, void *arg)
{
    (void)self;
    (void)skip;
    (void)arg;
    return false;
}

Test(scan, what_the_driver_may_have_kept_is_told_apart)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_scan_config config = {.driver_knows = knows_odd_ones,
                                    .own_memory = leave_out};
    char *heap = malloc(512);

    left_out = map(8192, READ_WRITE, ANONYMOUS, -1);
    cr_assert(heap && left_out);
    add_plants(tracker);
    in_bss = PLANT(1); /* in a module's data it is not the driver's */
    plant_at(heap, 2);
    plant_at(heap + 64, 3);
    plant_at(heap + 128, 5);
    inside = PLANT(5) + 8;
    plant_at(left_out, 6);
    plant_at(left_out + 4096, 8);
    struct gs_scan scan = scan_with(tracker, config);
    EXPECT_FOUND(scan, 1, GS_SCAN_START);
    EXPECT_FOUND(scan, 2, GS_SCAN_START);
    EXPECT_FOUND(scan, 3, GS_SCAN_AMBIGUOUS);
    EXPECT_FOUND(scan, 5, GS_SCAN_INSIDE);
    EXPECT_FOUND(scan, 6, GS_SCAN_LOST);
    EXPECT_FOUND(scan, 7, GS_SCAN_LOST);
    EXPECT_FOUND(scan, 8, GS_SCAN_START);
    gs_scan_free(&scan);
    free(heap);
}

static ALONE void fill_tables(struct gs_tracker *tracker)
{
    struct gs_allocation allocation = test_allocation(PLANT(1), PLANT_BYTES);

    for (unsigned i = 0; i < 40000; i++)
        test_leak(tracker, UINT64_C(0x5b0000000000) + i * 512, 512, SECONDS(1), 0);
    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), NULL);
    gs_tracker_error_free(tracker, PLANT(1), 0, NULL);
    test_add(tracker, &allocation, false);
}

/* Freed ones are in the free history, many are in several chunks of the slab. */
Test(scan, the_trackers_own_tables_are_left_out)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    size_t lost = 0;

    fill_tables(tracker);
    struct gs_scan scan = scan_now(tracker);
    cr_expect_eq(scan.count, 40001);
    for (size_t i = 0; i < scan.count; i++)
        lost += gs_scan_result(&scan, scan.targets[i].addr) == GS_SCAN_LOST;
    cr_expect_eq(lost, 40001, "%zu", lost);
    gs_scan_free(&scan);
}

/* --- no scan ---------------------------------------------------------------------------
 */

static const char *why_not(struct gs_tracker *tracker, struct gs_scan_config config)
{
    struct gs_scan scan = {0};

    gs_scan_run(tracker, &config, &scan);
    cr_expect_eq(gs_scan_result(&scan, PLANT(1)), GS_SCAN_NOT_MADE);
    gs_scan_free(&scan);
    return scan.why_not ? scan.why_not : "it was made";
}

Test(scan, half_a_scan_is_none)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    char *much = map(256 * GS_MIB, READ_WRITE, ANONYMOUS, -1);

    cr_assert(much);
    memset(much, 1, 256 * GS_MIB);
    add_plants(tracker);
    cr_expect_str_eq(
        why_not(tracker, (struct gs_scan_config){.own_memory = leave_out_some}),
        "too much memory of the library's own");
    cr_expect_str_eq(why_not(tracker, (struct gs_scan_config){.limit_ms = 1}),
                     "it would have taken too long");
}

Test(scan, without_address_space_there_is_none)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct rlimit limit;

    add_plants(tracker);
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 1; /* nothing more can be mapped */
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    cr_expect_str_eq(why_not(tracker, (struct gs_scan_config){0}),
                     gs_status_text(GS_ERR_HOST_NOMEM));
}

Test(scan, nothing_to_look_for_is_no_scan_and_no_complaint)
{
    OWNED_TRACKER tracker = test_tracker(NULL);

    cr_expect_str_eq(why_not(tracker, (struct gs_scan_config){0}), "it was made");
}

#endif

/* --- what is said ---------------------------------------------------------------------
 */

Test(scan, the_fate_of_a_group_is_told_by_its_parts)
{
    static const struct {
        uint64_t found[GS_SCAN_RESULTS];
        uint8_t lost;
        const char *text;
    } rows[] = {
        {{[GS_SCAN_NOT_MADE] = 3}, 0, "live at exit"},
        {{[GS_SCAN_NOT_MADE] = 0}, 1, "live at reset"},
        {{[GS_SCAN_LOST] = 2}, 0, "lost (no host pointer found)"},
        {{[GS_SCAN_START] = 1}, 0, "still referenced"},
        {{[GS_SCAN_INSIDE] = 1}, 0, "still referenced (inside only)"},
        {{[GS_SCAN_AMBIGUOUS] = 4}, 0, "referenced, perhaps only by the driver"},
        {{[GS_SCAN_LOST] = 1, [GS_SCAN_START] = 1200},
         0,
         "1 lost, 1,200 still referenced"},
        {{1, 2, 3, 4, 5},
         0,
         "2 lost, 3 still referenced, 4 inside only, 5 perhaps only by the driver, 1 not "
         "searched for"},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct gs_group group = {.lost = rows[i].lost};
        char out[160];
        memcpy(group.found, rows[i].found, sizeof(group.found));
        for (unsigned k = 0; k < GS_SCAN_RESULTS; k++)
            group.count += group.found[k];
        cr_expect_str_eq(gs_scan_fate(&group, out), rows[i].text);
    }
}
