/*
 * live.c - live allocations by gpushim.h: by address, visited, and compared by snapshots.
 *
 *   live_WAY            prints what each function returns, and what it found
 *   live_WAY threads    visits and compares while four threads allocate and free: what is
 *                       live throughout is visited once, with its own size, and nothing
 *                       is visited that was freed before
 *   live_WAY forks      in children: of a callback, of a snapshot
 *   live_WAY attach     waits for gpushim attach and a file "begin", then for gpushim
 *                       detach and "end"
 *
 * Data that is wrong ends it with 1.
 */
#include <pthread.h>
#include <setjmp.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpushim.h"
#include "gpu.h"

enum { THREADS = 4, KEPT = 200, VISITS = 60 };

static void tell(const char *what, gpushim_result result)
{
    printf("%s: %s\n", what, gpushim_result_text(result));
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

APP_FRAME static gpu_ptr take(size_t bytes)
{
    gpu_ptr block;
    APP_OK(gpu_malloc(&block, bytes));
    return block;
}

static const void *at(gpu_ptr block, size_t offset)
{
    return (const char *)(uintptr_t)block + offset;
}

/* ---- by address -------------------------------------------------------------------- */

static void show(const char *what, const void *address)
{
    struct gpushim_allocation found;
    gpushim_result result = gpushim_find_allocation(address, &found);

    printf("%s: %s", what, gpushim_result_text(result));
    if (result == GPUSHIM_OK)
        printf("; %llu bytes at +%d on %d, %s, %s owner, scope \"%s\", %s%s",
               (unsigned long long)found.bytes,
               (int)((uintptr_t)address - (uintptr_t)found.address), found.device,
               found.kind, strstr(base_name(found.owner), "live_") ? "its" : "no",
               found.scope, found.stack ? "a stack" : found.no_stack,
               found.age_ns < 600000000000u && found.thread ? "" : ", when and by whom?");
    printf("\n");
}

static void show_stack(const void *address)
{
    struct gpushim_allocation found;
    char text[4096], small[8];
    size_t length = 0, same = 0;

    if (gpushim_find_allocation(address, &found) != GPUSHIM_OK || !found.stack)
        return;
    tell("a stack", gpushim_get_stack(found.stack, text, sizeof(text), &length));
    printf("%s%s", text, length == strlen(text) ? "" : "of another length\n");
    tell("cut", gpushim_get_stack(found.stack, small, sizeof(small), &same));
    printf("cut text: %d of the same length: %d\n", (int)strlen(small), same == length);
}

APP_FRAME static void show_by_address(void)
{
    gpu_ptr small = take(5000), large = take(3 << 20), freed = take(7000), next = 0;
    void *pinned;
    int local = 0;
    char text[8];

    APP_OK(gpu_malloc_host(&pinned, 9000));
    (void)gpushim_scope_begin("outer");
    (void)gpushim_scope_begin("inner");
    next = take(4 << 20);
    (void)gpushim_scope_end();
    (void)gpushim_scope_end();
    show("its start", at(small, 0));
    show("its last byte", at(small, 4999));
    show("one past its end", at(small, 5000));
    show("before it", (const char *)at(small, 0) - 1);
    show("inside a large one", at(large, 1 << 20));
    show("in a scope", at(next, 1));
    show("pinned", (const char *)pinned + 8999);
    show_stack(at(next, 0));
    APP_OK(gpu_free(freed));
    show("a freed one", at(freed, 0));
    show("the host's", &local);
    show("no address", NULL);
    tell("nowhere", gpushim_find_allocation(at(small, 0), NULL));
    tell("no stack", gpushim_get_stack(0, text, sizeof(text), NULL));
    tell("no such stack", gpushim_get_stack(99999999, text, sizeof(text), NULL));
    tell("a stack nowhere", gpushim_get_stack(1, NULL, 8, NULL));
    tell("no room", gpushim_get_stack(1, text, 0, NULL));
    APP_OK(gpu_free(small));
    APP_OK(gpu_free(large));
    APP_OK(gpu_free(next));
    APP_OK(gpu_free_host(pinned));
}

/* ---- visits ------------------------------------------------------------------------ */

struct sum {
    uint64_t count, bytes;
    unsigned stop_at;
};

static int add(void *self, const struct gpushim_allocation *allocation)
{
    struct sum *sum = self;

    sum->count++;
    sum->bytes += allocation->bytes;
    return sum->count == sum->stop_at;
}

static void show_sum(const char *what, int device, unsigned stop_at)
{
    struct sum sum = {.stop_at = stop_at};
    gpushim_result result = gpushim_visit_allocations(device, add, &sum);

    printf("%s: %s, %d allocations, %llu bytes\n", what, gpushim_result_text(result),
           (int)sum.count, (unsigned long long)sum.bytes);
}

/* Frees what it is shown, allocates as much again, and visits. */
static int replace(void *self, const struct gpushim_allocation *allocation)
{
    gpu_ptr *blocks = self, block = (gpu_ptr)(uintptr_t)allocation->address;
    struct sum sum = {0};

    for (int i = 0; i < 3; i++)
        if (blocks[i] == block) {
            APP_OK(gpu_free(block));
            blocks[i] = take(allocation->bytes + 512);
            tell("within a visit", gpushim_visit_allocations(0, add, &sum));
            printf("in it: %d allocations, %llu bytes\n", (int)sum.count,
                   (unsigned long long)sum.bytes);
            return 0;
        }
    return 0;
}

static int jump(void *self, const struct gpushim_allocation *allocation)
{
    (void)allocation;
    longjmp(*(jmp_buf *)self, 1);
}

static void show_visits(void)
{
    gpu_ptr blocks[3] = {take(1000), take(2000), take(1 << 20)};
    void *pinned;
    jmp_buf back;

    APP_OK(gpu_malloc_host(&pinned, 9000));
    show_sum("everywhere", GPUSHIM_EVERYWHERE, 0);
    show_sum("all devices", GPUSHIM_ALL_DEVICES, 0);
    show_sum("device 0", 0, 0);
    show_sum("device 1", 1, 0);
    show_sum("pinned", GPUSHIM_PINNED, 0);
    show_sum("imported", GPUSHIM_IMPORTED, 0);
    show_sum("stopped", 0, 2);
    show_sum("no device", 1000, 0);
    show_sum("no row", -7, 0);
    tell("no function", gpushim_visit_allocations(0, NULL, NULL));
    tell("replaced", gpushim_visit_allocations(0, replace, blocks));
    show_sum("after it", 0, 0);
    if (setjmp(back) == 0)
        tell("a jump", gpushim_visit_allocations(0, jump, &back));
    show_sum("after a jump", 0, 0);
    for (int i = 0; i < 3; i++)
        APP_OK(gpu_free(blocks[i]));
    APP_OK(gpu_free_host(pinned));
}

/* ---- snapshots --------------------------------------------------------------------- */

static int print_change(void *self, const struct gpushim_change *change)
{
    int *left = self;

    printf("  new %d (%llu bytes), freed %d (%llu bytes), on %d, %s, scope \"%s\"%s\n",
           (int)change->new_count, (unsigned long long)change->new_bytes,
           (int)change->freed_count, (unsigned long long)change->freed_bytes,
           change->device, change->kind, change->scope,
           change->stack || change->no_stack[0] ? "" : ", nothing of its stack");
    return --*left == 0;
}

static void show_difference(const char *what, const struct gpushim_snapshot *before,
                            const struct gpushim_snapshot *after, int most)
{
    tell(what, gpushim_snapshot_difference(before, after, print_change, &most));
}

APP_FRAME static gpu_ptr take_elsewhere(size_t bytes)
{
    gpu_ptr block;
    APP_OK(gpu_malloc(&block, bytes));
    return block;
}

/* In a loop that is not unrolled: one call site. */
APP_FRAME static void take_each(gpu_ptr *blocks, volatile int count, size_t bytes)
{
    for (int i = 0; i < count; i++)
        APP_OK(gpu_malloc(&blocks[i], bytes));
}

static void show_snapshots(void)
{
    struct gpushim_snapshot *before, *after, *pinned;
    gpu_ptr kept = take(1000), freed = take_elsewhere(2000), made[3];

    tell("a snapshot", gpushim_snapshot_take(0, &before));
    APP_OK(gpu_free(freed));
    made[0] = take_elsewhere(2000); /* the freed one's address, maybe */
    take_each(made + 1, 2, 8000);
    APP_OK(gpu_free(take(1 << 20))); /* in neither */
    tell("another", gpushim_snapshot_take(0, &after));
    tell("of pinned memory", gpushim_snapshot_take(GPUSHIM_PINNED, &pinned));
    show_difference("since the first", before, after, 0);
    show_difference("backwards", after, before, 1);
    show_difference("of one with itself", after, after, 0);
    show_difference("of two devices", pinned, after, 0);
    show_difference("of none", before, NULL, 0);
    tell("no function", gpushim_snapshot_difference(before, after, NULL, NULL));
    show_difference("all of it", NULL, before, 0);
    tell("of no device", gpushim_snapshot_take(1000, &pinned));
    tell("nowhere", gpushim_snapshot_take(0, NULL));
    tell("no snapshot", gpushim_snapshot_free(NULL));
    tell("an end", gpushim_snapshot_free(before));
    (void)gpushim_snapshot_free(after);
    (void)gpushim_snapshot_free(pinned);
    APP_OK(gpu_free(kept));
    for (int i = 0; i < 3; i++)
        APP_OK(gpu_free(made[i]));
}

/* ---- threads ----------------------------------------------------------------------- */

static gpu_ptr kept[THREADS][KEPT];
static unsigned ready; /* atomic */
static bool done;      /* atomic */

/* Its kept blocks have sizes of their own; those that come and go have others. */
static size_t kept_bytes(size_t thread, size_t i)
{
    return 16 * (1 + thread * KEPT + i);
}

static void *work(void *argument)
{
    size_t thread = (size_t)(uintptr_t)argument;
    uint64_t random = thread + 1;

    app_gpu_thread();
    for (size_t i = 0; i < KEPT; i++)
        kept[thread][i] = take(kept_bytes(thread, i));
    __atomic_add_fetch(&ready, 1, __ATOMIC_ACQ_REL);
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
        gpu_ptr some[8];
        for (size_t i = 0; i < APP_COUNT(some); i++)
            some[i] = take(1 + 2 * (app_random(&random) % 40000));
        for (size_t i = 0; i < APP_COUNT(some); i++)
            APP_OK(gpu_free(some[i]));
    }
    return NULL;
}

static unsigned char seen[THREADS * KEPT];
static uint64_t last_number;

static int see(void *self, const struct gpushim_allocation *allocation)
{
    uint64_t bytes = allocation->bytes, i = bytes / 16 - 1;
    struct gpushim_allocation found;

    (void)self;
    app_expect(allocation->number > last_number, "numbers rise");
    last_number = allocation->number;
    app_expect(strstr(allocation->call, "Malloc") || strstr(allocation->call, "MemAlloc"),
               "its call");
    if (bytes % 16 != 0)
        return 0; /* one that comes and goes */
    app_expect(i < THREADS * KEPT &&
                   allocation->address == (uintptr_t)kept[i / KEPT][i % KEPT],
               "a kept block at its address");
    seen[i]++;
    if (i % 97 == 0)
        app_expect(gpushim_find_allocation(at(kept[i / KEPT][i % KEPT], bytes - 1),
                                           &found) == GPUSHIM_OK &&
                       found.number == allocation->number,
                   "the same by its last byte");
    return 0;
}

/* Nothing that is live in both is new or freed. */
static int judge_change(void *self, const struct gpushim_change *change)
{
    (void)self;
    app_expect(change->new_bytes % 16 != 0 || change->new_count > 1 ||
                   change->freed_count > 0,
               "no kept block is new");
    return 0;
}

static void visit_beside_threads(void)
{
    pthread_t threads[THREADS];
    struct gpushim_snapshot *before = NULL, *after;

    for (size_t i = 0; i < THREADS; i++)
        app_expect(!pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i),
                   "a thread");
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < THREADS)
        usleep(1000);
    for (int visit = 0; visit < VISITS; visit++) {
        memset(seen, 0, sizeof(seen));
        last_number = 0;
        app_expect(gpushim_visit_allocations(0, see, NULL) == GPUSHIM_OK, "a visit");
        for (size_t i = 0; i < APP_COUNT(seen); i++)
            app_expect(seen[i] == 1, "each kept block once");
        app_expect(gpushim_snapshot_take(0, &after) == GPUSHIM_OK, "a snapshot");
        app_expect(!before || gpushim_snapshot_difference(before, after, judge_change,
                                                          NULL) == GPUSHIM_OK,
                   "a difference");
        if (before)
            app_expect(gpushim_snapshot_free(before) == GPUSHIM_OK, "its end");
        before = after;
    }
    (void)gpushim_snapshot_free(before);
    __atomic_store_n(&done, true, __ATOMIC_RELEASE);
    for (size_t i = 0; i < THREADS; i++)
        app_expect(!pthread_join(threads[i], NULL), "a thread's end");
    for (size_t i = 0; i < THREADS; i++)
        for (size_t k = 0; k < KEPT; k++)
            APP_OK(gpu_free(kept[i][k]));
    printf("threads: ok\n");
}

/* ---- gpushim attach ---------------------------------------------------------------- */

/* Memory of before is not known; that of later is. The first call has found no library.
 */
static void await_attach(void)
{
    gpu_ptr before = take(1000), since;

    show("without a library", at(before, 0));
    printf("ready\n");
    fflush(stdout);
    while (access("begin", F_OK) != 0)
        usleep(10000);
    for (int i = 0; i < 256; i++)
        (void)gpushim_library();
    since = take(2000);
    show("from before", at(before, 0));
    show("since", at(since, 1999));
    show_sum("all", GPUSHIM_EVERYWHERE, 0);
    printf("done\n");
    fflush(stdout);
    while (access("end", F_OK) != 0)
        usleep(10000);
    show("detached", at(since, 0));
    show_sum("all", GPUSHIM_EVERYWHERE, 0);
    APP_OK(gpu_free(before));
    APP_OK(gpu_free(since));
}

/* ---- children ---------------------------------------------------------------------- */

struct fork_visit {
    pid_t child;
    int calls;
};

static int fork_in_visit(void *self, const struct gpushim_allocation *allocation)
{
    struct fork_visit *visit = self;

    (void)allocation;
    if (visit->calls++ == 0) {
        fflush(stdout);
        visit->child = fork();
    }
    return 0;
}

static int end_of(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void show_forks(void)
{
    struct fork_visit visit = {0};
    struct gpushim_snapshot *snapshot;
    struct gpushim_allocation found;
    struct sum sum = {0};
    gpu_ptr blocks[2] = {take(1000), take(2000)};

    tell("a snapshot", gpushim_snapshot_take(0, &snapshot));
    gpushim_result result = gpushim_visit_allocations(0, fork_in_visit, &visit);
    if (visit.child == 0) {
        /* The parent's memory is not the child's. */
        int most = 0, wrong = 0;
        wrong += result != GPUSHIM_INACTIVE || visit.calls != 1;
        wrong += gpushim_find_allocation(at(blocks[0], 0), &found) != GPUSHIM_INACTIVE;
        wrong += gpushim_visit_allocations(0, add, &sum) != GPUSHIM_INACTIVE;
        wrong += gpushim_snapshot_difference(NULL, snapshot, print_change, &most) !=
                 GPUSHIM_NOT_FOUND;
        wrong += gpushim_snapshot_free(snapshot) != GPUSHIM_OK;
        _exit(wrong);
    }
    printf("the visit of the parent: %s, %d calls; wrong in the child: %d\n",
           gpushim_result_text(result), visit.calls, end_of(visit.child));
    tell("its snapshot", gpushim_snapshot_free(snapshot));
    for (int i = 0; i < 2; i++)
        APP_OK(gpu_free(blocks[i]));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    if (!mode[0])
        show_sum("before CUDA", 0, 0);
    app_gpu_start();
    if (strcmp(mode, "threads") == 0) {
        visit_beside_threads();
    } else if (strcmp(mode, "forks") == 0) {
        show_forks();
    } else if (strcmp(mode, "attach") == 0) {
        await_attach();
    } else {
        show_by_address();
        show_visits();
        show_snapshots();
    }
    return 0;
}
