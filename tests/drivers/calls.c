/*
 * calls.c - every function of a real driver, called on a machine without a device.
 *
 *   calls            prints a line a call: function, before or after cuInit, pattern of
 *                    arguments, code, digest of the memory that the arguments point to;
 * or the signal that ended the process calls LINES      the same calls, but none that
 * ended with a signal in LINES, the output of an earlier run: nobody expects anything of
 * those
 *
 * What the second form prints with the library preloaded must be what stands in LINES.
 * Each function gets a process of its own, and another one after a call that it does not
 * survive. Addresses inside the driver count as offsets, and those of the library's
 * wrappers as the functions that they stand for. Ends with 2 without a driver.
 *
 * Owns:  the arguments' memory, the results.   Lock: none; parent and child take turns.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exports.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { ARGUMENTS = 12, CELL_BYTES = 1024, BUSY_SECONDS = 1, SECONDS = 20 };

/* What an argument is. */
enum what { ZERO, ONE, WILD, CELL };

/* What the memory that arguments point to holds: zeros, bytes that are wild as pointers
 * and numbers, or pointers to such memory. */
enum content { ZEROS, WILD_BYTES, POINTERS };

static const struct pattern {
    const char *name;
    enum what first, odd, even; /* argument 0; arguments 1, 3, ...; arguments 2, 4, ... */
    enum content content;
} patterns[] = {
    {"zeros", ZERO, ZERO, ZERO, ZEROS},
    {"wild", WILD, WILD, WILD, ZEROS},
    {"cells", CELL, CELL, CELL, ZEROS},
    {"cells-of-wild", CELL, CELL, CELL, WILD_BYTES},
    {"cells-of-pointers", CELL, CELL, CELL, POINTERS},
    {"cell-zeros", CELL, ZERO, ZERO, ZEROS},
    {"cell-wild", CELL, WILD, WILD, ZEROS},
    {"zero-cells", ZERO, CELL, CELL, ZEROS},
    {"one-cells", ONE, CELL, CELL, WILD_BYTES},
    {"cell-one-cell", CELL, ONE, CELL, POINTERS},
};

enum { PATTERNS = ARRAY_LEN(patterns), CALLS = 2 * PATTERNS }; /* before, after cuInit */

struct result {
    int code, signal;
    bool done, left_out;
    uint64_t digest;
};

typedef int function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                     uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static struct exports driver, library;
static unsigned char (*cells)[CELL_BYTES]; /* the same address in every process */
static struct result *results;             /* [2][patterns], shared with the child */

static void fill(enum content content)
{
    for (size_t i = 0; i < ARGUMENTS; i++) {
        memset(cells[i], content == WILD_BYTES ? 0xa5 : 0, CELL_BYTES);
        for (size_t j = 0; content == POINTERS && j < CELL_BYTES / sizeof(void *); j++)
            ((void **)cells[i])[j] = cells[(i + 1) % ARGUMENTS];
    }
}

static uintptr_t argument(const struct pattern *pattern, int i)
{
    enum what what = i == 0 ? pattern->first : i % 2 ? pattern->odd : pattern->even;

    return what == ZERO ? 0 : what == ONE ? 1 : what == WILD ? 0x10 : (uintptr_t)cells[i];
}

/* A word as it would be in any process. */
static uint64_t comparable(uint64_t word)
{
    void *address = (void *)word;
    const char *name;

    if (exports_own(&driver, address))
        return word - (uintptr_t)driver.base;
    if (!library.count || !exports_own(&library, address))
        return word;
    name = exports_name(&library, address, "");
    return name ? (uintptr_t)exports_find(&driver, name) - (uintptr_t)driver.base : word;
}

static uint64_t digest_cells(void)
{
    uint64_t digest = 14695981039346656037ull;

    for (size_t i = 0; i < ARGUMENTS * CELL_BYTES / sizeof(uint64_t); i++)
        digest = (digest ^ comparable(((uint64_t *)cells)[i])) * 1099511628211ull;
    return digest;
}

static void call(function *called, size_t pattern, struct result *out)
{
    uintptr_t a[ARGUMENTS];

    fill(patterns[pattern].content);
    for (int i = 0; i < ARGUMENTS; i++)
        a[i] = argument(&patterns[pattern], i);
    /* Some drivers go round in circles in what they are given. */
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = BUSY_SECONDS}, NULL);
    alarm(SECONDS);
    out->code =
        called(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    out->digest = digest_cells();
    out->done = true;
}

/* The calls from number `from` on, in this process, which ends without exit handlers. */
static void call_from(void *handle, const char *name, size_t from)
{
    function *called = (function *)dlsym(handle, name);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(handle, "cuInit");
    bool initialized = false;

    for (size_t i = from; i < CALLS; i++) {
        if (i >= PATTERNS && !initialized) {
            init(0);
            initialized = true;
        }
        if (!results[i].left_out)
            call(called, i % PATTERNS, &results[i]);
    }
    kill(getpid(), SIGKILL);
}

static void print(const char *name, size_t i)
{
    char call_name[160];

    snprintf(call_name, sizeof(call_name), "%s %s %s", name,
             i < PATTERNS ? "before" : "after", patterns[i % PATTERNS].name);
    if (results[i].done)
        printf("%s: %d %016llx\n", call_name, results[i].code,
               (unsigned long long)results[i].digest);
    else
        printf("%s: signal %d\n", call_name, results[i].signal);
}

/* All calls of one function. */
static void call_all(void *handle, const char *name)
{
    size_t i = 0;

    while (i < CALLS) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            call_from(handle, name, i);
        waitpid(child, &status, 0);
        while (i < CALLS && (results[i].done || results[i].left_out))
            i++;
        if (i < CALLS)
            results[i++].signal = WIFSIGNALED(status) ? WTERMSIG(status) : -1;
    }
    for (i = 0; i < CALLS; i++)
        print(name, i);
}

/* Line by line as print() writes them; what is not in `lines` is called. */
static void read_left_out(FILE *lines, const char *name)
{
    char line[256], wanted[160];
    int signal;

    for (size_t i = 0; lines && i < CALLS; i++) {
        snprintf(wanted, sizeof(wanted), "%s %s %s: signal %%d", name,
                 i < PATTERNS ? "before" : "after", patterns[i % PATTERNS].name);
        if (fgets(line, sizeof(line), lines) && sscanf(line, wanted, &signal) == 1) {
            results[i].left_out = true;
            results[i].signal = signal;
        }
    }
}

int main(int argc, char **argv)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    FILE *lines = argc > 1 ? fopen(argv[1], "r") : NULL;

    setvbuf(stdout, NULL, _IOFBF, 1 << 20);
    if (!handle || !exports_of("libcuda.so", &driver) || (argc > 1 && !lines))
        return 2;
    (void)exports_of("libgpushim.so", &library);
    cells = mmap((void *)0x200000000000, ARGUMENTS * CELL_BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    results = mmap(NULL, CALLS * sizeof(*results), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cells == MAP_FAILED || results == MAP_FAILED)
        return 2;
    for (size_t i = 0; i < driver.count; i++) {
        if (exports_may_call(driver.all[i].name)) {
            fflush(stdout);
            memset(results, 0, CALLS * sizeof(*results));
            read_left_out(lines, driver.all[i].name);
            call_all(handle, driver.all[i].name);
        }
    }
    return 0;
}
