/*
 * check_lookups.c - judges the look-ups of a runtime that ran under the shim.
 *
 *   check_lookups hooks SHIM DRIVER_LOG SHIM_LOG
 *       DRIVER_LOG  CUDASIM_LOG_LOOKUPS: what the driver was asked, which symbol it gave
 *       SHIM_LOG    GPUSHIM_LOOKUP_LOG: what the program was given, "ours" or "driver"
 *       SHIM        path of libgpushim.so, preloaded into this process
 *     Every function that the driver gave and that stands in shim/entries/hooks.def or
 *     shim/entries/submit.def must have come back as ours, every other one as the
 * driver's: by the log, and by asking again here and looking in whose memory the answer
 * lies.
 *
 *   check_lookups recorded DRIVER_LOG
 *     The runtime asked for exactly the rows of tests/sim/runtime/lookups.def, in order.
 *
 * Ends with 0, with 1 after a line for each deviation, with 2 if it could not judge.
 * Owns:  the tables it reads.   Lock: none, one thread.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

struct lookup {
    char name[96]; /* "" is asked for too */
    int version;
    unsigned long long flags;
    char answer[96];
};

#define MAX_LOOKUPS 4096

/* Only the symbols count: the driver's log says which one a look-up ended at. */
static const char *const hooked[] = {
#define GS_HOOK(symbol, ...) #symbol,
#include "shim/entries/hooks.def"
#define GS_SUBMIT(symbol, ...) #symbol,
#include "shim/entries/submit.def"
};

static const struct lookup recorded[] = {
#define RT_LOOKUP(name, version)             {#name, version, 0, ""},
#define RT_LOOKUP_PT(name, version, kind)    {#name, version, 2, ""},
#define RT_LOOKUP_ONLY(name, version, flags) {name, version, flags, ""},
#define RT_LOOKUP_BEFORE_13(name, version, flags)
#include "lookups.def"
#undef RT_LOOKUP
#undef RT_LOOKUP_PT
#undef RT_LOOKUP_ONLY
#undef RT_LOOKUP_BEFORE_13
};

static struct lookup driver_log[MAX_LOOKUPS], shim_log[MAX_LOOKUPS];

/* "name version flags -> answer"; the empty name is written "" or not at all. */
static bool parse(char *line, struct lookup *out)
{
    memset(out, 0, sizeof(*out));
    if (line[0] == ' ')
        return sscanf(line, "%d %llu -> %95[^\n]", &out->version, &out->flags,
                      out->answer) == 3;
    if (sscanf(line, "%95s %d %llu -> %95[^\n]", out->name, &out->version, &out->flags,
               out->answer) != 4)
        return false;
    if (strcmp(out->name, "\"\"") == 0)
        out->name[0] = '\0';
    return true;
}

/* A private table that was asked for, by its GUID: no function was looked up. */
static bool is_table(const char *line)
{
    char first[9];
    int length = 0;

    return sscanf(line, "cuGetExportTable %8[0-9a-f]-%n", first, &length) == 1 && length;
}

/* Number of look-ups in the log; ends the program if it cannot be read. */
static size_t read_log(const char *path, struct lookup *out)
{
    FILE *file = fopen(path, "r");
    char line[512];
    size_t count = 0;

    if (!file) {
        printf("%s: %s\n", path, strerror(errno));
        exit(2);
    }
    while (fgets(line, sizeof(line), file)) {
        if (is_table(line))
            continue;
        if (count == MAX_LOOKUPS || !parse(line, &out[count])) {
            printf("%s: line %zu is not a look-up: %s", path, count + 1, line);
            exit(2);
        }
        count++;
    }
    fclose(file);
    return count;
}

static bool same_question(const struct lookup *a, const struct lookup *b)
{
    return a->version == b->version && a->flags == b->flags &&
           strcmp(a->name, b->name) == 0;
}

static const struct lookup *find(const struct lookup *wanted, const struct lookup *log,
                                 size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (same_question(wanted, &log[i]))
            return &log[i];
    return NULL;
}

static bool is_hooked(const char *symbol)
{
    for (size_t i = 0; i < ARRAY_LEN(hooked); i++)
        if (strcmp(hooked[i], symbol) == 0)
            return true;
    return false;
}

static int deviation(const struct lookup *lookup, const char *what)
{
    printf("%s %d %llu, which the driver answers with %s: %s\n",
           lookup->name[0] ? lookup->name : "\"\"", lookup->version, lookup->flags,
           lookup->answer, what);
    return 1;
}

/* Ask once more, through the preloaded library, and see whose code came back. */
static int ask_again(const struct lookup *lookup, bool ours, const char *shim,
                     PFN_cuGetProcAddress_v12000 get)
{
    void *function = NULL;
    Dl_info info;
    bool in_shim;

    if (get(lookup->name, &function, lookup->version, lookup->flags, NULL) !=
            CUDA_SUCCESS ||
        !function)
        return ours ? deviation(lookup, "asked again, nothing came back") : 0;
    if (!dladdr(function, &info))
        return deviation(lookup, "the address belongs to no library");
    in_shim = strcmp(info.dli_fname, shim) == 0;
    if (in_shim && !ours)
        return deviation(lookup, "is in no hook table and came back as ours");
    if (!in_shim && ours)
        return deviation(lookup, "is hooked and came back as the driver's");
    return 0;
}

/* The driver's log also has what the shim asks for itself: only what the shim answered is
 * judged by the log, but everything hooked must have been answered. */
static int judge_log(const struct lookup *lookup, bool ours, size_t shim_count)
{
    const struct lookup *told = find(lookup, shim_log, shim_count);

    if (!told)
        return ours ? deviation(lookup, "was not answered by the shim") : 0;
    if ((strcmp(told->answer, "ours") == 0) != ours)
        return deviation(lookup, ours ? "is hooked, the log says driver"
                                      : "is not hooked, the log says ours");
    return 0;
}

static int check_hooks(const char *shim, const char *driver_path, const char *shim_path)
{
    size_t driver_count = read_log(driver_path, driver_log);
    size_t shim_count = read_log(shim_path, shim_log);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    PFN_cuGetProcAddress_v12000 get = NULL;
    size_t ours_count = 0;
    int deviations = 0;

    if (library)
        *(void **)&get = dlsym(library, "cuGetProcAddress_v2");
    if (!get || shim_count == 0) {
        printf("%s\n", get ? "the shim answered no look-up" : dlerror());
        return 2;
    }
    for (size_t i = 0; i < driver_count; i++) {
        bool ours = is_hooked(driver_log[i].answer);

        if (find(&driver_log[i], driver_log, i))
            continue;
        ours_count += ours;
        deviations += judge_log(&driver_log[i], ours, shim_count);
        deviations += ask_again(&driver_log[i], ours, shim, get);
    }
    if (ours_count == 0) {
        printf("none of the %zu look-ups is hooked\n", driver_count);
        return 1;
    }
    printf("%zu look-ups, %zu of them hooked\n", driver_count, ours_count);
    return deviations ? 1 : 0;
}

static int check_recorded(const char *driver_path)
{
    size_t count = read_log(driver_path, driver_log);
    int deviations = 0;

    for (size_t i = 0; i < count && i < ARRAY_LEN(recorded); i++)
        if (!same_question(&driver_log[i], &recorded[i]))
            deviations += deviation(&driver_log[i], "is not what is recorded there");
    if (count != ARRAY_LEN(recorded)) {
        printf("%zu look-ups, %zu are recorded\n", count, ARRAY_LEN(recorded));
        deviations++;
    }
    return deviations ? 1 : 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 5 && strcmp(argv[1], "hooks") == 0)
        return check_hooks(argv[2], argv[3], argv[4]);
    if (argc == 3 && strcmp(argv[1], "recorded") == 0)
        return check_recorded(argv[2]);
    fprintf(stderr, "usage: check_lookups hooks SHIM DRIVER_LOG SHIM_LOG\n"
                    "       check_lookups recorded DRIVER_LOG\n");
    return 2;
}
