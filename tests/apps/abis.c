/*
 * abis.c - which ABI of a driver function a look-up ends at.
 *   abis table                          the answer to every look-up there is, and some
 * more abis call NAME VERSION FLAGS        calls what cuGetProcAddress answers, all
 * arguments 0 abis symbol SYMBOL                  calls what dlsym answers abis odd
 * questions that are not quite right
 *
 * Proves that a program is given the ABI that it asked for: an answer is printed by the
 * name of the symbol it lies at, which the driver and the library both have, and the
 * driver's log tells which function a call came to. Arguments stand in registers and on
 * the stack as integers, more of them than any function has.
 */
#include <dlfcn.h>

#include <cuda.h>

#include "app.h"

typedef uintptr_t word;
typedef CUresult (*any_call)(word, word, word, word, word, word, word, word, word, word,
                             word, word);
typedef CUresult (*get_proc)(const char *, void **, int, cuuint64_t, int *);
typedef CUresult (*get_proc_4)(const char *, void **, int, cuuint64_t);

enum thread_flag { PLAIN = 0, PTDS = 2, PTSZ = 2 };

static const struct row {
    const char *symbol, *name;
    int since, flags;
} rows[] = {
#define SIM_SYMBOL(symbol, base, since, thread, state) {#symbol, #base, since, thread},
#include "symbols.def"
#undef SIM_SYMBOL
};

static void *driver;
static get_proc get;     /* NULL where the driver is older than 12.0 */
static get_proc_4 get_4; /* the form that every driver from 11.3 on has */

static const char *name_of(void *address)
{
    Dl_info info;

    if (!address)
        return "nothing";
    return dladdr(address, &info) && info.dli_sname && info.dli_saddr == address
               ? info.dli_sname
               : "no symbol";
}

/* The same question to both forms. */
static void ask(const char *name, int version, int flags)
{
    void *found = NULL, *found_4 = NULL;
    int status = -1, code = -1;
    int code_4 = (int)get_4(name, &found_4, version, (cuuint64_t)flags);

    if (get)
        code = (int)get(name, &found, version, (cuuint64_t)flags, &status);
    printf("abis: %s %d %d: %s, code %d, status %d; %s, code %d\n", name, version, flags,
           name_of(found), code, status, name_of(found_4), code_4);
}

/* At its version, just below it, and far above, without and with threads' own streams. */
static void print_table(void)
{
    for (size_t i = 0; i < APP_COUNT(rows); i++) {
        ask(rows[i].name, rows[i].since, rows[i].flags);
        ask(rows[i].name, rows[i].since - 10, rows[i].flags);
        ask(rows[i].name, rows[i].since, 1);
        printf("abis: %s by name: %s\n", rows[i].symbol,
               name_of(dlsym(driver, rows[i].symbol)));
    }
}

static void call(void *function, const char *name)
{
    any_call target;

    if (!function)
        app_fail(name, "nothing to call");
    *(void **)&target = function;
    fprintf(stderr, "abis: now\n");
    printf("abis: %s answers %d\n", name,
           (int)target(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    fprintf(stderr, "abis: done\n");
}

static void call_looked_up(const char *name, int version, int flags)
{
    void *found = NULL;

    APP_OK(get_4(name, &found, version, (cuuint64_t)flags));
    call(found, name);
}

/* What the driver leaves in the places for its answers is part of the answer. */
static void print_odd(void)
{
    static const struct {
        const char *name;
        int version, flags;
    } questions[] = {{"", 0, 0},
                     {"", 12000, 0},
                     {"cuMemAlloc", 0, 0},
                     {"cuMemAlloc", -1, 0},
                     {"cuMemAlloc", 1999, 0},
                     {"cuMemAlloc", 2000, 0},
                     {"cuMemAlloc", 3019, 0},
                     {"cuMemAlloc", 3020, 0},
                     {"cuMemAlloc", 3020, 2},
                     {"cuMemAlloc", 3020, 4},
                     {"cuMemAlloc", 2000000000, 0},
                     {"cuMemAlloc_v2", 12000, 0},
                     {"cumemalloc", 12000, 0},
                     {"cuMemAllocAsync", 11010, 0},
                     {"cuMemcpyHtoD", 6050, 2},
                     {"cuNoSuchCall", 12000, 0},
                     {"cuNoSuchCall", 0, 2},
                     {"cudaMalloc", 12000, 0},
                     {"malloc", 12000, 0},
                     {NULL, 12000, 0}};
    void *found;

    for (size_t i = 0; i < APP_COUNT(questions); i++) {
        int status = 77, code;
        found = (void *)&found;
        code = (int)get_4(questions[i].name, &found, questions[i].version,
                          (cuuint64_t)questions[i].flags);
        printf("abis: %s %d %d: code %d, %s\n",
               questions[i].name ? questions[i].name : "no name", questions[i].version,
               questions[i].flags, code,
               found == (void *)&found ? "untouched" : name_of(found));
        if (!get)
            continue;
        found = (void *)&found;
        code = (int)get(questions[i].name, &found, questions[i].version,
                        (cuuint64_t)questions[i].flags, &status);
        printf("abis: the newer form: code %d, %s, status %d\n", code,
               found == (void *)&found ? "untouched" : name_of(found), status);
        found = (void *)&found;
        code = (int)get(questions[i].name, &found, questions[i].version,
                        (cuuint64_t)questions[i].flags, NULL);
        printf("abis: no status: code %d, %s\n", code,
               found == (void *)&found ? "untouched" : name_of(found));
    }
    printf("abis: no place: code %d\n", (int)get_4("cuMemAlloc", NULL, 3020, 0));
    if (get)
        printf("abis: no place: code %d\n", (int)get("cuMemAlloc", NULL, 3020, 0, NULL));
}

/* The form with four arguments is that of 11.3, the one with five that of 12.0. */
static void print_chain(void)
{
    get_proc_4 next_4 = NULL, last_4 = NULL;
    get_proc next = NULL;
    void *found = NULL;
    int status = -1;

    APP_OK(get_4("cuGetProcAddress", (void **)&next_4, 11030, 0));
    APP_OK(next_4("cuGetProcAddress", (void **)&last_4, 11040, 2));
    APP_OK(last_4("cuMemAlloc", &found, 3020, 0));
    printf("abis: %s, %s, %s\n", name_of((void *)next_4), name_of((void *)last_4),
           name_of(found));
    if (!get)
        return;
    APP_OK(last_4("cuGetProcAddress", (void **)&next, 12000, 0));
    APP_OK(next("cuMemcpyHtoD", &found, 12000, 2, &status));
    printf("abis: %s, %s, status %d\n", name_of((void *)next), name_of(found), status);
}

static void start(void)
{
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(driver, "cuInit");
    CUresult (*retain)(CUcontext *, CUdevice) =
        (CUresult(*)(CUcontext *, CUdevice))dlsym(driver, "cuDevicePrimaryCtxRetain");
    CUresult (*set)(CUcontext) = (CUresult(*)(CUcontext))dlsym(driver, "cuCtxSetCurrent");
    CUcontext context;
    int (*version_of)(int *) = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
    int version = 0;

    if (!init || !retain || !set || !version_of)
        app_fail("dlsym", "no driver");
    APP_OK(init(0));
    APP_OK(retain(&context, 0));
    APP_OK(set(context));
    APP_OK(version_of(&version));
    get_4 = (get_proc_4)dlsym(driver, "cuGetProcAddress");
    get = version < 12000 ? NULL : (get_proc)dlsym(driver, "cuGetProcAddress_v2");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        app_fail("dlopen", dlerror());
    start();
    if (strcmp(mode, "table") == 0)
        print_table();
    else if (strcmp(mode, "odd") == 0)
        print_odd();
    else if (strcmp(mode, "chain") == 0)
        print_chain();
    else if (strcmp(mode, "call") == 0 && argc == 5)
        call_looked_up(argv[2], atoi(argv[3]), atoi(argv[4]));
    else if (strcmp(mode, "symbol") == 0 && argc == 3)
        call(dlsym(driver, argv[2]), argv[2]);
    else
        app_fail("usage", "abis table|odd|chain|call NAME VERSION FLAGS|symbol SYMBOL");
    return 0;
}
