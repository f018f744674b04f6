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

/* What reads and writes memory: the C library's own. */
static const char *const plain[] = {
    "__isoc99_sscanf", "memchr",      "memcmp",     "memcpy",   "memmove",  "memset",
    "qsort",           "sigemptyset", "sigfillset", "snprintf", "sprintf",  "strcasecmp",
    "strchr",          "strcmp",      "strcpy",     "strcspn",  "strlen",   "strncmp",
    "strncpy",         "strnlen",     "strpbrk",    "strrchr",  "strspn",   "strstr",
    "strtol",          "strtoll",     "strtoul",    "strtoull", "vsnprintf"};

/* What waits: the C library's own, all or none, as one must not unlock what another has
 * locked. Before glibc 2.34 some are not in libc.so.6, and all stay the sanitizer's. */
static const char *const locks[] = {"pthread_cond_broadcast",
                                    "pthread_cond_destroy",
                                    "pthread_cond_init",
                                    "pthread_cond_signal",
                                    "pthread_cond_timedwait",
                                    "pthread_cond_wait",
                                    "pthread_mutex_destroy",
                                    "pthread_mutex_init",
                                    "pthread_mutex_lock",
                                    "pthread_mutex_trylock",
                                    "pthread_mutex_unlock",
                                    "sem_init",
                                    "sem_post",
                                    "sem_timedwait",
                                    "sem_wait"};

/* What takes and gives back memory: the program's, as what one function of the C library
 * has taken another gives back. A thread that gives back what another took is no race. */
static void *(*program_malloc)(size_t);
static void *(*program_calloc)(size_t, size_t);
static void *(*program_realloc)(void *, size_t);
static void *(*program_aligned_alloc)(size_t, size_t);
static char *(*program_strdup)(const char *);
static void (*program_free)(void *);

static void *malloc_unwatched(size_t bytes)
{
    gs_checkers_ignore_begin();
    void *block = program_malloc(bytes);
    gs_checkers_ignore_end();
    return block;
}

static void *calloc_unwatched(size_t count, size_t bytes)
{
    gs_checkers_ignore_begin();
    void *block = program_calloc(count, bytes);
    gs_checkers_ignore_end();
    return block;
}

static void *realloc_unwatched(void *block, size_t bytes)
{
    gs_checkers_ignore_begin();
    void *moved = program_realloc(block, bytes);
    gs_checkers_ignore_end();
    return moved;
}

static void *aligned_alloc_unwatched(size_t alignment, size_t bytes)
{
    gs_checkers_ignore_begin();
    void *block = program_aligned_alloc(alignment, bytes);
    gs_checkers_ignore_end();
    return block;
}

static char *strdup_unwatched(const char *text)
{
    gs_checkers_ignore_begin();
    char *copy = program_strdup(text);
    gs_checkers_ignore_end();
    return copy;
}

static void free_unwatched(void *block)
{
    gs_checkers_ignore_begin();
    program_free(block);
    gs_checkers_ignore_end();
}

static const struct {
    const char *name;
    void **program; /* the program's function */
    void *unwatched;
} heap[] = {
    {"malloc", (void **)&program_malloc, (void *)malloc_unwatched},
    {"calloc", (void **)&program_calloc, (void *)calloc_unwatched},
    {"realloc", (void **)&program_realloc, (void *)realloc_unwatched},
    {"aligned_alloc", (void **)&program_aligned_alloc, (void *)aligned_alloc_unwatched},
    {"strdup", (void **)&program_strdup, (void *)strdup_unwatched},
    {"free", (void **)&program_free, (void *)free_unwatched}};

static bool has_name(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (gs_elf_same_name(name, names[i])) {
            return true;
        }
    }
    return false;
}

/* In the program, or a library of its start: takes no lock of the loader. */
static void *find_at_start(const char *name)
{
    struct gs_module_ref program;
    if (gs_elf_program(&program) != GS_OK) {
        return NULL;
    }
    void *found = gs_elf_symbol(&program, name);
    return found ? found : gs_elf_symbol_after(&program, name);
}

static bool locks_are_there(void)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(locks); i++) {
        if (!gs_elf_library_symbol(locks[i])) {
            return false;
        }
    }
    return true;
}

static bool find_heap(void)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(heap); i++) {
        *heap[i].program = find_at_start(heap[i].name);
        if (!*heap[i].program) {
            return false;
        }
    }
    return true;
}

struct visit {
    struct dl_phdr_info info; /* of the library */
    bool with_locks, with_heap;
};

static void *wanted(const struct visit *visit, const char *name)
{
    if (has_name(plain, GS_ARRAY_LEN(plain), name) ||
        (visit->with_locks && has_name(locks, GS_ARRAY_LEN(locks), name))) {
        return gs_elf_library_symbol(name);
    }
    for (size_t i = 0; visit->with_heap && i < GS_ARRAY_LEN(heap); i++) {
        if (gs_elf_same_name(name, heap[i].name)) {
            return heap[i].unwatched;
        }
    }
    return NULL;
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

/* Before threads are there that wait for a lock: the sanitizer takes one that another
 * function unlocks for locked. */
__attribute__((constructor)) void gs_plain_calls_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, start);
}
