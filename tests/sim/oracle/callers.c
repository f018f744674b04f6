/*
 * callers.c - call stacks: taken, kept once each, named. See oracle_callers.h.
 * Owns:  the stacks, for the process's life.   Lock: the oracle's.
 */
#include "oracle_callers.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "oracle_state.h"

#define MOST_STACKS 65536u  /* different ones; the others have none */
#define TABLE       131072u /* a power of two, more than MOST_STACKS */
#define OWN_FRAMES  12      /* of the driver, at the top of a stack */
#define DRIVER      "libcuda.so"
#define RUNTIME     "libcudart"

struct stack {
    uint64_t hash;
    struct oracle_callers callers;
};

static struct stack **table;    /* the oracle's lock; of TABLE places */
static struct stack **numbered; /* the oracle's lock; by number - 1 */
static uint32_t stack_count;    /* the oracle's lock */

/* Code of the library this is in, if that is the driver; immutable after start. */
static uintptr_t own_start, own_end;

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "?";
}

/* Is this file part of that object, and is that the driver? */
static int find_own(struct dl_phdr_info *info, size_t size, void *argument)
{
    const uintptr_t here = (uintptr_t)find_own;

    (void)size;
    (void)argument;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type != PT_LOAD || here - start >= header->p_memsz)
            continue;
        if (strncmp(base_name(info->dlpi_name), DRIVER, strlen(DRIVER)) == 0) {
            own_start = start;
            own_end = start + header->p_memsz;
        }
        return 1;
    }
    return 0;
}

void oracle_callers_start(void)
{
    void *frame;

    dl_iterate_phdr(find_own, NULL);
    if (backtrace(&frame, 1) < 0) /* loads the unwinder */
        oracle_options.stacks = false;
}

void oracle_callers_walk(struct oracle_callers *out)
{
    void *frames[ORACLE_FRAMES + OWN_FRAMES];
    int count, first = 0;

    out->count = out->number = 0;
    if (!oracle_options.stacks)
        return;
    count = backtrace(frames, (int)GS_ARRAY_LEN(frames));
    while (first < count && (uintptr_t)frames[first] - own_start < own_end - own_start)
        first++;
    while (first < count && out->count < ORACLE_FRAMES)
        out->frames[out->count++] = frames[first++];
}

static uint64_t hash_of(const struct oracle_callers *callers)
{
    uint64_t hash = callers->count;

    for (unsigned i = 0; i < callers->count; i++)
        hash =
            (hash ^ (uintptr_t)callers->frames[i]) * 0x9e3779b97f4a7c15ull + (hash >> 29);
    return hash;
}

static bool make_table(void)
{
    if (!table) {
        table = oracle_allocate(NULL, TABLE * sizeof(struct stack *));
        if (table)
            memset(table, 0, TABLE * sizeof(struct stack *));
    }
    if (!numbered)
        numbered = oracle_allocate(NULL, MOST_STACKS * sizeof(struct stack *));
    return table && numbered;
}

uint32_t oracle_callers_intern(const struct oracle_callers *callers)
{
    if (callers->count == 0 || !make_table())
        return 0;
    uint64_t hash = hash_of(callers);
    uint32_t at = (uint32_t)(hash >> 40) & (TABLE - 1);
    size_t bytes = callers->count * sizeof(callers->frames[0]);

    for (; table[at]; at = (at + 1) & (TABLE - 1)) {
        const struct stack *stack = table[at];
        if (stack->hash == hash && stack->callers.count == callers->count &&
            memcmp(stack->callers.frames, callers->frames, bytes) == 0)
            return stack->callers.number;
    }
    if (stack_count == MOST_STACKS)
        return 0;
    struct stack *stack = oracle_allocate(NULL, sizeof(*stack));
    if (!stack)
        return 0;
    stack->hash = hash;
    stack->callers = *callers;
    numbered[stack_count++] = stack;
    stack->callers.number = stack_count;
    table[at] = stack;
    return stack_count;
}

void oracle_callers_get(uint32_t number, struct oracle_callers *out)
{
    if (number > 0 && number <= stack_count)
        *out = numbered[number - 1]->callers;
    else
        out->count = 0;
}

bool oracle_callers_name(const void *frame, char *out, size_t room)
{
    const char *at = (const char *)frame - 1; /* in the call, not behind it */
    Dl_info info;

    if (!dladdr(at, &info) || !info.dli_fbase) {
        snprintf(out, room, "%p", frame);
        return true;
    }
    const char *module = base_name(info.dli_fname);
    if (info.dli_sname)
        snprintf(out, room, "%s + 0x%zx (%s)", info.dli_sname,
                 (size_t)((const char *)frame - (const char *)info.dli_saddr), module);
    else
        snprintf(out, room, "%s + 0x%zx", module,
                 (size_t)((const char *)frame - (const char *)info.dli_fbase));
    return strncmp(module, RUNTIME, strlen(RUNTIME)) != 0;
}
