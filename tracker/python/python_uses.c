/*
 * python_uses.c - when stacks with Python frames were captured, and whether Python has
 * ended.
 *
 * Two threads that count one stack at the same time may count once.
 *
 * Owns: uses and captures of struct gs_python.   Lock: none, atomic.
 * Design: docs/python.md
 */
#include "tracker/python/python_internal.h"

#include <string.h>

static uint32_t load(const _Atomic uint32_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

static void store(_Atomic uint32_t *to, uint32_t value)
{
    atomic_store_explicit(to, value, memory_order_relaxed);
}

void gs_python_count(struct gs_python *python, uint32_t stack)
{
    struct gs_python_use_slot *slot = &python->uses[stack % GS_PYTHON_USES];
    uint32_t number = load(&python->captures) + 1;

    store(&python->captures, number);
    if (GS_UNLIKELY(load(&slot->stack) != stack)) {
        if (load(&slot->stack) != 0) {
            return; /* another stack was first: this one has no numbers */
        }
        store(&slot->first, number);
        store(&slot->stack, stack);
    }
    store(&slot->last, number);
    store(&slot->count, load(&slot->count) + 1);
}

bool gs_python_uses(const struct gs_python *python, uint32_t stack,
                    struct gs_python_uses *out)
{
    const struct gs_python_use_slot *slot = &python->uses[stack % GS_PYTHON_USES];

    if (stack == 0 || load(&slot->stack) != stack) {
        return false;
    }
    *out = (struct gs_python_uses){.count = load(&slot->count),
                                   .first = load(&slot->first),
                                   .last = load(&slot->last),
                                   .all = load(&python->captures)};
    return true;
}

bool gs_python_has_ended(const struct gs_python *python)
{
    uintptr_t ending;

    memcpy(&ending, (const char *)python->symbols.runtime + python->layout.finalizing,
           sizeof(ending));
    return ending != 0;
}
