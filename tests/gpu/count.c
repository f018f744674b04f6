/*
 * count.c - libgpu_count.so: preloaded, it counts the calls that come through the public
 * symbols of the driver, whoever makes them and however they looked the symbol up.
 *
 * It stands where libgpushim.so would stand and says what can be seen from there:
 * exported symbols, dlsym, cuGetProcAddress. Each counted call goes through a trampoline
 * that adds one and jumps to the driver with every argument in place, so one kind serves
 * all signatures. With GPU_COUNT_FILE set, the process appends a line to that file when
 * it ends: its launches, those with attributes, those of graphs.
 *
 * Owns: the counters (atomic on x86-64; elsewhere one thread counts exactly) and the
 *       table of the driver's addresses (immutable after the constructor).
 * Lock: none.
 */
#include "count.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* As the driver answers before cuInit; every trampoline leads here where there is none.
 */
enum { NOT_INITIALIZED = 3, DEINITIALIZED = 4 };

int gpu_count_no_driver(void) __attribute__((visibility("hidden")));

int gpu_count_no_driver(void)
{
    return NOT_INITIALIZED;
}

extern uint64_t gpu_launches_with_attributes __attribute__((visibility("hidden")));
uint64_t gpu_launches_with_attributes;

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

/* LOOK_AT_CONFIG: between the count and the jump. */
#if defined(__x86_64__)
#define LOOK_AT_CONFIG                                                                   \
    "testq %rdi, %rdi\n"                                                                 \
    "jz 1f\n"                                                                            \
    "cmpl $0, " TEXT(                                                                    \
        GPU_COUNT_ATTRIBUTES_AT) "(%rdi)\n"                                              \
                                 "jz 1f\n"                                               \
                                 "lock incq gpu_launches_with_attributes(%rip)\n"        \
                                 "1:\n"
#define TRAMPOLINE(symbol, look)                                                         \
    "endbr64\n"                                                                          \
    "lock incq gpu_calls_" #symbol "(%rip)\n" look "jmp *gpu_real_" #symbol "(%rip)\n"
#elif defined(__aarch64__)
#define LOOK_AT_CONFIG                                                                   \
    "cbz x0, 1f\n"                                                                       \
    "ldr w17, [x0, #" TEXT(                                                              \
        GPU_COUNT_ATTRIBUTES_AT) "]\n"                                                   \
                                 "cbz w17, 1f\n"                                         \
                                 "adrp x16, gpu_launches_with_attributes\n"              \
                                 "ldr x17, [x16, :lo12:gpu_launches_with_attributes]\n"  \
                                 "add x17, x17, #1\n"                                    \
                                 "str x17, [x16, :lo12:gpu_launches_with_attributes]\n"  \
                                 "1:\n"
#define TRAMPOLINE(symbol, look)                                                         \
    "hint #34\n" /* bti c */                                                             \
    "adrp x16, gpu_calls_" #symbol "\n"                                                  \
    "ldr x17, [x16, :lo12:gpu_calls_" #symbol "]\n"                                      \
    "add x17, x17, #1\n"                                                                 \
    "str x17, [x16, :lo12:gpu_calls_" #symbol "]\n" look "adrp x16, gpu_real_" #symbol   \
    "\n"                                                                                 \
    "ldr x16, [x16, :lo12:gpu_real_" #symbol "]\n"                                       \
    "br x16\n"
#else
#error "a trampoline is written for x86-64 and aarch64"
#endif

/* For each call: its counter, the driver's address, and the exported trampoline. */
#define COUNT_CALL(symbol, kind) COUNTED(symbol, "")
#define COUNT_CONFIG(symbol)     COUNTED(symbol, LOOK_AT_CONFIG)
#define COUNTED(symbol, look)                                                            \
    extern uint64_t gpu_calls_##symbol __attribute__((visibility("hidden")));            \
    uint64_t gpu_calls_##symbol;                                                         \
    extern void *gpu_real_##symbol __attribute__((visibility("hidden")));                \
    void *gpu_real_##symbol = (void *)gpu_count_no_driver;                               \
    __asm__(".pushsection .text\n"                                                       \
            ".balign 16\n"                                                               \
            ".globl " #symbol "\n"                                                       \
            ".type " #symbol ",%function\n" #symbol                                      \
            ":\n" TRAMPOLINE(symbol, look) ".size " #symbol ", . - " #symbol "\n"        \
                                           ".popsection\n");                             \
    extern char gpu_trampoline_##symbol[] __asm__(#symbol);
#include "count.def"
#undef COUNT_CALL

struct counted {
    const char *symbol;
    enum gpu_count_kind kind;
    const uint64_t *calls;
    void **real;
    void *trampoline;
};

static const struct counted table[] = {
#define COUNT_CALL(symbol, kind)                                                         \
    {#symbol, GPU_COUNT_##kind, &gpu_calls_##symbol, &gpu_real_##symbol,                 \
     gpu_trampoline_##symbol},
#include "count.def"
#undef COUNT_CALL
};

#define TABLE_LENGTH (sizeof(table) / sizeof(table[0]))

typedef void *dlsym_fn(void *handle, const char *name);
typedef int proc_fn(const char *name, void **out, int version, uint64_t flags);
typedef int proc_v2_fn(const char *name, void **out, int version, uint64_t flags,
                       void *status);

static dlsym_fn *real_dlsym;     /* immutable once found; found before anything can ask */
static proc_fn *real_proc;       /* immutable after the constructor */
static proc_v2_fn *real_proc_v2; /* likewise */

EXPORT void *dlsym(void *restrict handle, const char *restrict name);
EXPORT int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags);
EXPORT int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                               void *status);

static dlsym_fn *find_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};

    for (size_t i = 0; i < 3 && !real_dlsym; i++)
        *(void **)&real_dlsym = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    return real_dlsym;
}

__attribute__((constructor)) static void start(void)
{
    dlsym_fn *find = find_dlsym();
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!find || !library)
        return;
    for (size_t i = 0; i < TABLE_LENGTH; i++) {
        void *real = find(library, table[i].symbol);

        if (real && real != table[i].trampoline)
            *table[i].real = real;
    }
    *(void **)&real_proc = find(library, "cuGetProcAddress");
    *(void **)&real_proc_v2 = find(library, "cuGetProcAddress_v2");
}

/* The counting address for one of the driver's; any other is answered as it is. */
static void *counting(void *address)
{
    if (address && address == (void *)real_proc)
        return (void *)cuGetProcAddress;
    if (address && address == (void *)real_proc_v2)
        return (void *)cuGetProcAddress_v2;
    for (size_t i = 0; i < TABLE_LENGTH; i++)
        if (address == *table[i].real && address != (void *)gpu_count_no_driver)
            return table[i].trampoline;
    return address;
}

/*
 * glibc resolves RTLD_NEXT by the address it returns to: such a look-up, and any that is
 * not for the driver, must leave by a jump. This file is compiled with sibling calls on.
 */
void *dlsym(void *restrict handle, const char *restrict name)
{
    dlsym_fn *find = find_dlsym();

    if (handle == RTLD_NEXT || name[0] != 'c' || name[1] != 'u')
        return find(handle, name);
    return counting(find(handle, name));
}

int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags)
{
    int code;

    if (!real_proc)
        return DEINITIALIZED;
    code = real_proc(name, out, version, flags);
    if (code == 0 && out)
        *out = counting(*out);
    return code;
}

int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                        void *status)
{
    int code;

    if (!real_proc_v2)
        return DEINITIALIZED;
    code = real_proc_v2(name, out, version, flags, status);
    if (code == 0 && out)
        *out = counting(*out);
    return code;
}

EXPORT void gpu_count_each(gpu_count_row *row, void *argument)
{
    for (size_t i = 0; i < TABLE_LENGTH; i++)
        row(table[i].symbol, table[i].kind,
            __atomic_load_n(table[i].calls, __ATOMIC_RELAXED), argument);
}

static uint64_t calls_of(enum gpu_count_kind kind)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < TABLE_LENGTH; i++)
        sum +=
            table[i].kind == kind ? __atomic_load_n(table[i].calls, __ATOMIC_RELAXED) : 0;
    return sum;
}

__attribute__((destructor)) static void write_counts(void)
{
    const char *name = getenv("GPU_COUNT_FILE");
    FILE *file = name && *name ? fopen(name, "a") : NULL;

    if (!file)
        return;
    fprintf(file, "%llu %llu %llu\n", (unsigned long long)calls_of(GPU_COUNT_LAUNCH),
            (unsigned long long)__atomic_load_n(&gpu_launches_with_attributes,
                                                __ATOMIC_RELAXED),
            (unsigned long long)calls_of(GPU_COUNT_GRAPH));
    fclose(file);
}
