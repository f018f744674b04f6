/*
 * plain_calls.c - sets the library's own slots of functions that ThreadSanitizer watches.
 * Tables of names, not copies of the functions: without a sanitizer a call costs nothing.
 * Owns: the program's malloc and its kin.   Lock: a pthread_once; each slot is one word.
 */
#include "shim/link/plain_calls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/link/elf_module.h"
#include "shim/link/linker.h"
#include "shim/settings/checkers.h"

/* Names, each with its NUL: pointers to them would cost every program that starts. What
 * reads and writes memory is the C library's own: */
static const char plain[] =
    "__isoc99_sscanf\0memchr\0memcmp\0memcpy\0memmove\0memset\0qsort\0sigemptyset\0"
    "sigfillset\0snprintf\0sprintf\0strcasecmp\0strchr\0strcmp\0strcpy\0strcspn\0strlen\0"
    "strncmp\0strncpy\0strnlen\0strpbrk\0strrchr\0strspn\0strstr\0strtol\0strtoll\0"
    "strtoul\0strtoull\0vsnprintf\0";

/* What waits: the C library's own, all or none, as one must not unlock what another has
 * locked. Before glibc 2.34 some are not in libc.so.6, and all stay the sanitizer's. */
static const char locks[] =
    "pthread_cond_broadcast\0pthread_cond_destroy\0pthread_cond_init\0"
    "pthread_cond_signal\0pthread_cond_timedwait\0pthread_cond_wait\0"
    "pthread_mutex_destroy\0pthread_mutex_init\0pthread_mutex_lock\0"
    "pthread_mutex_trylock\0pthread_mutex_unlock\0sem_init\0sem_post\0sem_timedwait\0"
    "sem_wait\0";

/* What allocates and frees memory: the program's, as what one function of the C library
 * has allocated another frees. A thread that frees what another allocated is no race. */
static const char heap[] = "malloc\0calloc\0realloc\0aligned_alloc\0strdup\0free\0";
static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    char *(*strdup)(const char *);
    void (*free)(void *);
} program; /* the functions of `heap`, in its order */

static void *malloc_unwatched(size_t bytes)
{
    gs_checkers_ignore_begin();
    void *block = program.malloc(bytes);
    gs_checkers_ignore_end();
    return block;
}

static void *calloc_unwatched(size_t count, size_t bytes)
{
    gs_checkers_ignore_begin();
    void *block = program.calloc(count, bytes);
    gs_checkers_ignore_end();
    return block;
}

static void *realloc_unwatched(void *block, size_t bytes)
{
    gs_checkers_ignore_begin();
    void *moved = program.realloc(block, bytes);
    gs_checkers_ignore_end();
    return moved;
}

static void *aligned_alloc_unwatched(size_t alignment, size_t bytes)
{
    gs_checkers_ignore_begin();
    void *block = program.aligned_alloc(alignment, bytes);
    gs_checkers_ignore_end();
    return block;
}

static char *strdup_unwatched(const char *text)
{
    gs_checkers_ignore_begin();
    char *copy = program.strdup(text);
    gs_checkers_ignore_end();
    return copy;
}

static void free_unwatched(void *block)
{
    gs_checkers_ignore_begin();
    program.free(block);
    gs_checkers_ignore_end();
}

static void *unwatched(size_t row)
{
    switch (row) {
    case 0:
        return (void *)malloc_unwatched;
    case 1:
        return (void *)calloc_unwatched;
    case 2:
        return (void *)realloc_unwatched;
    case 3:
        return (void *)aligned_alloc_unwatched;
    case 4:
        return (void *)strdup_unwatched;
    default:
        return (void *)free_unwatched;
    }
}

/* The name after this one; NULL: it is the last. */
static const char *after(const char *name)
{
    name += strlen(name) + 1;
    return *name ? name : NULL;
}

/* Out: *row  the name's place in the list, if it is there */
static bool has_name(const char *names, const char *name, size_t *row)
{
    *row = 0;
    while (names && !gs_elf_same_name(name, names)) {
        names = after(names);
        ++*row;
    }
    return names != NULL;
}

/* In the program, or a library of its start: takes no lock of the loader. */
static void *find_at_start(const char *name)
{
    struct gs_module_ref first;
    if (gs_elf_program(&first) != GS_OK) {
        return NULL;
    }
    void *found = gs_elf_symbol(&first, name);
    return found ? found : gs_elf_symbol_after(&first, name);
}

static bool locks_are_there(void)
{
    for (const char *name = locks; name; name = after(name)) {
        if (!gs_elf_library_symbol(name)) {
            return false;
        }
    }
    return true;
}

static bool find_heap(void)
{
    void *found[sizeof(program) / sizeof(void *)];
    size_t count = 0;
    for (const char *name = heap; name; name = after(name)) {
        found[count] = find_at_start(name);
        if (!found[count++]) {
            return false;
        }
    }
    memcpy(&program, found, sizeof(program));
    return true;
}

struct visit {
    struct dl_phdr_info info; /* of the library */
    bool with_locks, with_heap;
};

static void *wanted(const struct visit *visit, const char *name)
{
    size_t row;
    if (has_name(plain, name, &row) ||
        (visit->with_locks && has_name(locks, name, &row))) {
        return gs_elf_library_symbol(name);
    }
    return visit->with_heap && has_name(heap, name, &row) ? unwatched(row) : NULL;
}

static bool visit_slot(const struct gs_elf_slot *slot, void *data)
{
    const struct visit *visit = data;
    void *function = wanted(visit, slot->name);
    if (function) {
        gs_elf_slot_set(slot->at, __atomic_load_n(slot->at, __ATOMIC_RELAXED), function,
                        gs_elf_slot_is_fixed(&visit->info, slot->at));
    }
    return false;
}

static void start(void)
{
    struct gs_module_ref own;
    gs_checkers_start(find_at_start);
    if (!gs_checkers.reads_begin || !gs_linker_own_module(&own) ||
        gs_elf_imports(&own, "__tsan_init")) {
        return;
    }
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)own.base; // NOLINT: the loader's value
    struct visit visit = {
        .info = {.dlpi_addr = own.base,
                 .dlpi_phdr = (const ElfW(Phdr) *)(own.base + header->e_phoff), // NOLINT
                 .dlpi_phnum = header->e_phnum},
        .with_locks = locks_are_there(),
        .with_heap = find_heap()};
    (void)gs_elf_visit_slots(&own, visit_slot, &visit);
}

void gs_plain_calls_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, start);
}

/* Of ThreadSanitizer's runtime. By the dynamic linker, whose search is the cheapest, as
 * each program that starts pays for it. */
extern void AnnotateIgnoreReadsBegin(const char *file, int line) __attribute__((weak));

/* Before threads are there that wait for a lock: the sanitizer takes one that another
 * function unlocks for locked. */
__attribute__((constructor)) static void start_beside_sanitizer(void)
{
    if (AnnotateIgnoreReadsBegin) {
        gs_plain_calls_start();
    }
}
