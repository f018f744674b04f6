/*
 * look_ups.c - every look-up of a real driver: all names x versions x flags, in both
 * forms of cuGetProcAddress, and dlsym of every export.
 *
 *   look_ups          prints how many look-ups there were and a digest of the driver's
 *                     answers: code, status, and the export that the address is
 *   with the library preloaded, also that each hooked function came back as the library's
 *   wrapper of that very export, every other one as the driver's, with the same code and
 *   status. The driver's own answer is taken from its own code, past the library.
 *
 * "Hooked" are the rows of hooks.def and submit.def. Ends with 0, with 1 after a line for
 * each deviation (at most 20), with 2 without a driver. A driver without cuGetProcAddress
 * (before 11.3) is asked by dlsym alone.
 * Owns:  the tables.   Lock: none, one thread.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exports.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { FORM_V1, FORM_V2, FORMS };
enum { MAX_NAMES = 4096, MAX_VERSIONS = 256, NAME_BYTES = 96 };

/* Asked for by name, newer than the driver by as much as it likes, or not at all. */
static const char *const strange_names[] = {"", "cu", "cuNoSuchFunction", "cudaMalloc",
                                            "malloc"};
static const int strange_versions[] = {INT_MIN, -1, 0, 1, 1000, 99990, INT_MAX};
static const unsigned long long all_flags[] = {0, 1, 2, 3, 4, ~0ull};

static const char *const hooked[] = {
#define GS_HOOK(symbol, ...) #symbol,
#include "shim/entries/hooks.def"
#define GS_SUBMIT(symbol, ...) #symbol,
#include "shim/entries/submit.def"
};

static const struct {
    const char *name;
    int since;
} table_rows[] = {
#define GS_HOOK(symbol, name, since, ...) {name, since},
#include "shim/entries/hooks.def"
#define GS_SUBMIT(symbol, name, since, ...) {name, since},
#include "shim/entries/submit.def"
};

typedef int get_v1(const char *, void **, int, unsigned long long);
typedef int get_v2(const char *, void **, int, unsigned long long, int *);

struct answer {
    int code, status;
    void *function;
};

static char names[MAX_NAMES][NAME_BYTES];
static size_t name_count;
static int versions[MAX_VERSIONS];
static size_t version_count;
static struct exports driver, library; /* library.count is 0 where it is not preloaded */
static unsigned long long digest = 14695981039346656037ull;
static unsigned long asked, ours, deviations;

static char untouched; /* its address stands in outputs that nobody has written */

static void add_name(const char *name)
{
    for (size_t i = 0; i < name_count; i++)
        if (strcmp(names[i], name) == 0)
            return;
    if (name_count < MAX_NAMES && strlen(name) < NAME_BYTES)
        strcpy(names[name_count++], name);
}

static void add_version(int version)
{
    for (size_t i = 0; i < version_count; i++)
        if (versions[i] == version)
            return;
    if (version_count < MAX_VERSIONS)
        versions[version_count++] = version;
}

/* An export as cuGetProcAddress is asked for it: without _v2, _ptds, _ptsz. */
static void add_base_name(const char *name)
{
    char base[NAME_BYTES];

    if (strlen(name) >= sizeof(base))
        return;
    strcpy(base, name);
    for (char *mark; (mark = strrchr(base, '_')) != NULL; *mark = '\0')
        if (strcmp(mark, "_ptds") != 0 && strcmp(mark, "_ptsz") != 0 && mark[1] != 'v')
            break;
    add_name(base);
}

static void collect(void)
{
    int (*get_version)(int *) =
        (int (*)(int *))exports_find(&driver, "cuDriverGetVersion");
    int version = 0;

    for (size_t i = 0; i < ARRAY_LEN(strange_names); i++)
        add_name(strange_names[i]);
    for (size_t i = 0; i < driver.count; i++) {
        add_name(driver.all[i].name);
        add_base_name(driver.all[i].name);
    }
    for (size_t i = 0; i < ARRAY_LEN(table_rows); i++) {
        add_name(table_rows[i].name);
        add_version(table_rows[i].since);
    }
    for (size_t i = 0; i < ARRAY_LEN(strange_versions); i++)
        add_version(strange_versions[i]);
    if (get_version && get_version(&version) == 0)
        for (int more = -10; more <= 1000; more += more < 10 ? 10 : 990)
            add_version(version + more);
}

static void mix(const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        digest = (digest ^ ((const unsigned char *)data)[i]) * 1099511628211ull;
}

/* The library's wrapper of the export that the driver has answered with, or that answer.
 */
static void *expected(const char *name, void *found)
{
    const char *symbol = exports_name(&driver, found, name);

    if (!library.count || !symbol)
        return found;
    for (size_t i = 0; i < ARRAY_LEN(hooked); i++)
        if (strcmp(hooked[i], symbol) == 0)
            return exports_find(&library, symbol);
    return found;
}

static const char *whose(const void *function)
{
    if (!function || function == (void *)&untouched)
        return function ? "untouched" : "NULL";
    return exports_own(&driver, function)    ? "the driver's"
           : exports_own(&library, function) ? "the library's"
                                             : "of neither";
}

static void deviation(const char *what, int form, const char *name, int version,
                      unsigned long long flags, const struct answer *wanted,
                      const struct answer *got)
{
    if (deviations++ < 20)
        printf("%s v%d \"%s\" %d %llu: wanted %d %d %s (%p), got %d %d %s (%p)\n", what,
               form + 1, name, version, flags, wanted->code, wanted->status,
               whose(wanted->function), wanted->function, got->code, got->status,
               whose(got->function), got->function);
}

static struct answer ask(void *get, int form, const char *name, int version,
                         unsigned long long flags)
{
    struct answer answer = {-1, -1, &untouched};

    answer.code =
        form == FORM_V1
            ? ((get_v1 *)get)(name, &answer.function, version, flags)
            : ((get_v2 *)get)(name, &answer.function, version, flags, &answer.status);
    return answer;
}

/* `own`: the driver's form; `get`: the same as a program gets it. */
static void look_up(void *own, void *get, int form, const char *name, int version,
                    unsigned long long flags)
{
    struct answer wanted = ask(own, form, name, version, flags), got;
    const char *symbol = exports_name(&driver, wanted.function, name);

    asked++;
    mix(&wanted.code, sizeof(wanted.code));
    mix(&wanted.status, sizeof(wanted.status));
    if (symbol)
        mix(symbol, strlen(symbol));
    else if (wanted.function && wanted.function != (void *)&untouched)
        deviation("no export", form, name, version, flags, &wanted, &wanted);
    got = ask(get, form, name, version, flags);
    wanted.function = expected(name, wanted.function);
    ours += wanted.function && exports_own(&library, wanted.function);
    if (got.code != wanted.code || got.status != wanted.status ||
        got.function != wanted.function)
        deviation("cuGetProcAddress", form, name, version, flags, &wanted, &got);
}

static void look_up_all(void *handle, int form)
{
    const char *symbol = form == FORM_V1 ? "cuGetProcAddress" : "cuGetProcAddress_v2";
    void *own = exports_find(&driver, symbol), *get = dlsym(handle, symbol);

    if (!own)
        return;
    for (size_t i = 0; i < name_count; i++)
        for (size_t j = 0; j < version_count; j++)
            for (size_t k = 0; k < ARRAY_LEN(all_flags); k++)
                look_up(own, get, form, names[i], versions[j], all_flags[k]);
}

static void look_up_exports(void *handle)
{
    for (size_t i = 0; i < driver.count; i++) {
        const struct export *of = &driver.all[i];
        struct answer wanted = {0, 0, expected(of->name, of->address)};
        struct answer got = {0, 0, dlsym(handle, of->name)};
        asked++;
        ours += exports_own(&library, wanted.function);
        if (got.function != wanted.function)
            deviation("dlsym", 0, of->name, 0, 0, &wanted, &got);
    }
}

int main(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);

    if (!handle || !exports_of("libcuda.so", &driver)) {
        printf("%s\n", handle ? "libcuda.so.1 exports nothing" : dlerror());
        return 2;
    }
    (void)exports_of("libgpushim.so", &library);
    collect();
    for (int form = 0; form < FORMS; form++)
        look_up_all(handle, form);
    look_up_exports(handle);
    printf("%lu look-ups, digest %016llx\n", asked, digest);
    if (library.count)
        fprintf(stderr, "%lu of them hooked, %lu deviations\n", ours, deviations);
    return deviations || (library.count && !ours);
}
