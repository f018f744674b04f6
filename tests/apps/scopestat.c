/*
 * scopestat.c - what gpushim_scope_statistics says of scopes.
 *
 *   scopestat_WAY            planned scopes, freed within and later; prints the figures
 *   scopestat_WAY random N   N random events of four threads, against the program's
 *                            account
 *   scopestat_WAY wrong      scopes that end in another thread, too often, or never;
 *                            wrong names; a fork within a scope
 *   scopestat_WAY reset      memory in a scope whose device is reset
 *   scopestat_WAY many N     N scopes of a name each, then two that say what they lack
 *   scopestat_WAY rank N     a scope "rank" with N MiB, in it "batch" with one, which
 *                            only an even N has
 *   scopestat_WAY ask FILE   the same with 4 MiB, prints "planted", waits until FILE is
 *                            there, and frees all
 *
 * A figure that is wrong ends it with 1. Without the library there are none.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"
#include "gpushim.h"

static void show(const char *path, int device)
{
    struct gpushim_scope_totals at;
    gpushim_result result = gpushim_scope_statistics(path, device, &at);

    if (result != GPUSHIM_OK) {
        printf("%s, %d: %s\n", path ? path : "NULL", device, gpushim_result_text(result));
        return;
    }
    printf("%s, %d: begun %d, %d allocs of %d B, %d frees of %d B, %d live of %d B, peak "
           "%d B, lost %d of %d B\n",
           path, device, (int)at.begun, (int)at.allocs, (int)at.alloc_bytes,
           (int)at.frees, (int)at.free_bytes, (int)at.live_count, (int)at.live_bytes,
           (int)at.peak_bytes, (int)at.lost_count, (int)at.lost_bytes);
}

/* ---- planned --------------------------------------------------------------------- */

static void planned(void)
{
    gpu_ptr weights, inside, after, managed;
    void *pinned;

    gpushim_scope_begin("early"); /* before the first CUDA call */
    app_gpu_start();
    APP_OK(gpu_malloc(&weights, 1000));
    gpushim_scope_end();
    for (int step = 0; step < 3; step++) {
        gpushim_scope_begin("step");
        APP_OK(gpu_malloc(&inside, 4000));
        gpushim_scope_begin("forward");
        APP_OK(gpu_malloc(&after, 2000));
        APP_OK(gpu_malloc_host(&pinned, 5000));
        gpushim_scope_end();
        APP_OK(gpu_free(inside));
        gpushim_scope_end();
        APP_OK(gpu_free(after)); /* outside of its scope */
        if (step < 2)
            APP_OK(gpu_free_host(pinned));
    }
    gpushim_scope_begin("step");
    APP_OK(gpu_malloc_managed(&managed, 300));
    show("early", GPUSHIM_ALL_DEVICES);
    show("step", GPUSHIM_ALL_DEVICES);
    show("step", 0);
    show("step", GPUSHIM_PINNED);
    show("step/forward", 0);
    show("step/forward", 1);
    show("forward", GPUSHIM_ALL_DEVICES);
    show("", 0);
    show(NULL, 0);
    show("step", -7);
    gpushim_scope_end();
}

/* ---- random ---------------------------------------------------------------------- */

enum { THREADS = 4, LIVE = 40, NAMES = 3, PATHS = 1 + NAMES + NAMES * NAMES };
static const char *const names[NAMES] = {"load", "step", "update"};

/* A path is 0 (none), a name, or two of them. */
static struct account {
    long long live, peak;
    unsigned long long allocs, bytes, frees, begun;
} accounts[PATHS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned events;

static int path_of(int outer, int inner)
{
    return outer < 0 ? 0 : inner < 0 ? 1 + outer : 1 + NAMES + outer * NAMES + inner;
}

static int around(int path)
{
    return path <= NAMES ? 0 : 1 + (path - 1 - NAMES) / NAMES;
}

static void account(int path, long long bytes)
{
    for (; path; path = around(path)) {
        struct account *at = &accounts[path];

        at->live += bytes;
        at->peak = at->live > at->peak ? at->live : at->peak;
        at->allocs += bytes > 0;
        at->bytes += bytes > 0 ? (unsigned long long)bytes : 0;
        at->frees += bytes < 0;
    }
}

struct block {
    gpu_ptr memory;
    void *pinned;
    long long bytes;
    int path;
};
static struct block blocks[LIVE]; /* of all threads, which free each other's */

/* Under the program's lock, so that its account has the same order. */
static void turn(unsigned *seed, int path)
{
    struct block *at = &blocks[rand_r(seed) % LIVE];

    if (at->bytes == 0) {
        at->bytes = 1 + rand_r(seed) % 60000;
        at->path = path;
        at->pinned = NULL;
        if (rand_r(seed) % 4)
            APP_OK(gpu_malloc(&at->memory, (size_t)at->bytes));
        else
            APP_OK(gpu_malloc_host(&at->pinned, (size_t)at->bytes));
        account(path, at->bytes);
        return;
    }
    if (at->pinned)
        APP_OK(gpu_free_host(at->pinned));
    else
        APP_OK(gpu_free(at->memory));
    account(at->path, -at->bytes);
    at->bytes = 0;
}

static void *work(void *arg)
{
    unsigned seed = (unsigned)(size_t)arg;
    int outer = -1, inner = -1;

    app_gpu_thread();
    for (unsigned i = 0; i < events; i++) {
        int change = rand_r(&seed) % 8, name = rand_r(&seed) % NAMES;

        pthread_mutex_lock(&lock);
        if (change == 0 && inner < 0) {
            *(outer < 0 ? &outer : &inner) = name;
            gpushim_scope_begin(names[name]);
            accounts[path_of(outer, inner)].begun++;
        } else if (change == 1 && outer >= 0) {
            *(inner >= 0 ? &inner : &outer) = -1;
            gpushim_scope_end();
        } else {
            turn(&seed, path_of(outer, inner));
        }
        pthread_mutex_unlock(&lock);
    }
    while (gpushim_scope_end() == GPUSHIM_OK)
        ;
    return NULL;
}

static void compare(int path)
{
    const struct account *at = &accounts[path];
    struct gpushim_scope_totals found;
    char text[40];

    if (path <= NAMES)
        snprintf(text, sizeof(text), "%s", names[path - 1]);
    else
        snprintf(text, sizeof(text), "%s/%s", names[around(path) - 1],
                 names[(path - 1 - NAMES) % NAMES]);
    gpushim_result result = gpushim_scope_statistics(text, GPUSHIM_ALL_DEVICES, &found);
    if (result == GPUSHIM_INACTIVE)
        return;
    app_expect(at->begun ? result == GPUSHIM_OK : result == GPUSHIM_NOT_FOUND, text);
    app_expect(found.begun == at->begun, "begun");
    app_expect(found.live_bytes == (unsigned long long)at->live, "live bytes");
    app_expect(found.live_count == at->allocs - at->frees, "live count");
    app_expect(found.peak_bytes == (unsigned long long)at->peak, "peak");
    app_expect(found.allocs == at->allocs && found.alloc_bytes == at->bytes, "allocs");
    app_expect(found.frees == at->frees && found.lost_count == 0, "frees");
}

static void at_random(unsigned count)
{
    pthread_t threads[THREADS];

    app_gpu_start();
    events = count;
    for (size_t i = 0; i < THREADS; i++)
        APP_OK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)));
    for (size_t i = 0; i < THREADS; i++)
        APP_OK(pthread_join(threads[i], NULL));
    for (int path = 1; path < PATHS; path++)
        compare(path);
    printf("compared\n");
}

/* ---- wrong ----------------------------------------------------------------------- */

static void begin(const char *what, const char *name)
{
    printf("%s: %s\n", what, gpushim_result_text(gpushim_scope_begin(name)));
}

/* The path of the calling thread, in memory of any size. */
static void show_path(void)
{
    char path[GPUSHIM_SCOPE_BYTES] = "old";
    const char *result = gpushim_result_text(gpushim_scope_path(path, sizeof(path)));
    size_t most = strlen(path);

    printf("path: %s, \"%s\"", result, path);
    printf("; in %zu bytes: %s", most,
           gpushim_result_text(gpushim_scope_path(path, most)));
    printf(", \"%s\"; nowhere: %s\n", path,
           gpushim_result_text(gpushim_scope_path(NULL, 100)));
}

static void *end_of_another(void *unused)
{
    (void)unused;
    printf("in another thread: %s\n", gpushim_result_text(gpushim_scope_end()));
    return NULL;
}

/* The scope is open in both; what is allocated in one of them is its own. */
static void fork_within(void)
{
    gpu_ptr block;
    int status;

    fflush(stdout);
    if (fork() == 0) {
        app_gpu_start();
        APP_OK(gpu_malloc(&block, 7));
        show("outer", 0);
        gpushim_scope_end();
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    app_expect(status == 0, "the child");
}

static void wrong(void)
{
    enum { LONG = 1000000 };
    char *long_name = malloc(LONG + 1);
    pthread_t thread;
    gpu_ptr block;

    app_expect(long_name != NULL, "memory");
    memset(long_name, 'x', LONG);
    long_name[LONG] = '\0';
    begin("a scope", "outer");
    fork_within();
    app_gpu_start();
    APP_OK(pthread_create(&thread, NULL, end_of_another, NULL));
    APP_OK(pthread_join(thread, NULL));
    begin("a long name", long_name);
    APP_OK(gpu_malloc(&block, 100)); /* belongs to outer */
    gpushim_scope_end();
    begin("no name", NULL);
    gpushim_scope_end();
    begin("not UTF-8", "\xff\xfe\x01");
    APP_OK(gpu_malloc(&block, 10));
    gpushim_scope_end();
    begin("a slash", "in/it");
    APP_OK(gpu_malloc(&block, 5));
    gpushim_scope_end();
    show("outer/in/it", 0);
    show("outer/in:it", 0);
    show("outer", 0);
    show(long_name + LONG - 40, 0);
    show_path();
    gpushim_scope_end();
    show_path();
    printf("once more: %s\n", gpushim_result_text(gpushim_scope_end()));
    show("outer", 0);
    begin("left open", "open");
    APP_OK(gpu_malloc(&block, 20));
    free(long_name);
}

#if APP_RUNTIME
static void reset(void)
{
    gpu_ptr block;

    app_gpu_start();
    gpushim_scope_begin("step");
    APP_OK(gpu_malloc(&block, 1000));
    APP_OK(gpu_malloc(&block, 500));
    APP_OK(gpu_free(block));
    APP_OK(cudaDeviceReset());
    app_gpu_start();
    APP_OK(gpu_malloc(&block, 30));
    show("step", 0);
    gpushim_scope_end();
}
#endif

/* ---- names without end ----------------------------------------------------------- */

static void show_missed(const char *path)
{
    struct gpushim_scope_totals at;

    APP_OK(gpushim_scope_statistics(path, GPUSHIM_ALL_DEVICES, &at));
    printf("%s: %d allocs of %d B, %d missed\n", path, (int)at.allocs,
           (int)at.alloc_bytes, (int)at.missed);
}

static void many(unsigned count)
{
    gpu_ptr block;

    app_gpu_start();
    for (unsigned i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "request-%u", i);
        gpushim_scope_begin(name);
        APP_OK(gpu_malloc(&block, i == count - 1 ? 200 : 100));
        APP_OK(gpu_free(block));
        gpushim_scope_end();
    }
    gpushim_scope_begin("last");
    gpushim_scope_begin("within");
    APP_OK(gpu_malloc(&block, 3000));
    gpushim_scope_end();
    gpushim_scope_end(); /* a leak: only then has the report a table */
    show_missed("request-0");
    show_missed("last");
    show_missed("last/within");
}

/* The memory of a rank, which leaks; or, once the file is there, is freed. */
static void rank(unsigned mib, const char *until)
{
    gpu_ptr outer, inner = 0;

    app_gpu_start();
    gpushim_scope_begin("rank");
    APP_OK(gpu_malloc(&outer, (size_t)mib << 20));
    if (mib % 2 == 0) {
        gpushim_scope_begin("batch");
        APP_OK(gpu_malloc(&inner, 1 << 20));
        gpushim_scope_end();
    }
    gpushim_scope_end();
    if (!until)
        return;
    puts("planted");
    fflush(stdout);
    while (access(until, F_OK) != 0)
        usleep(20000);
    APP_OK(gpu_free(outer));
    APP_OK(gpu_free(inner));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    if (strcmp(mode, "random") == 0 && argc > 2)
        at_random((unsigned)strtoul(argv[2], NULL, 10));
    else if (strcmp(mode, "many") == 0 && argc > 2)
        many((unsigned)strtoul(argv[2], NULL, 10));
    else if (strcmp(mode, "rank") == 0 && argc > 2)
        rank((unsigned)strtoul(argv[2], NULL, 10), NULL);
    else if (strcmp(mode, "ask") == 0 && argc > 2)
        rank(4, argv[2]);
    else if (strcmp(mode, "wrong") == 0)
        wrong();
#if APP_RUNTIME
    else if (strcmp(mode, "reset") == 0)
        reset();
#endif
    else
        planned();
    return 0;
}
