/*
 * plain.c - C: static functions within each other, recursion, a constant pointer to a
 * function, macros, nested always_inline.
 */
#include "take.h"

#define TAKE_TWICE(mib) (take(mib), take(mib))

static inline void innermost(int mib)
{
    take(mib);
}

static inline void inner(int mib)
{
    innermost(mib);
}

static inline void outer(int mib)
{
    inner(mib);
    inner(mib + 1);
}

KEEP static void nested(int mib)
{
    outer(mib);
}

static int countdown(int depth, int mib)
{
    if (depth == 0)
        return take(mib) != NULL;
    return countdown(depth - 1, mib) + depth;
}

KEEP static int recursive(int mib)
{
    return countdown(4, mib);
}

static void by_pointer(void (*call)(int), int mib)
{
    call(mib);
}

KEEP static void through_pointer(int mib)
{
    by_pointer(innermost, mib);
}

__attribute__((always_inline)) static inline void always(int mib)
{
    TAKE_TWICE(mib);
}

KEEP static void by_macro(int mib)
{
    always(mib);
}

KEEP static int in_branches(int mib)
{
    for (int i = 0; i < 2; i++) {
        if (i == mib % 2)
            inner(mib);
        else
            outer(mib + 10);
    }
    return mib;
}

int main(void)
{
    nested(1);
    recursive(3);
    through_pointer(4);
    by_macro(5);
    return in_branches(6) != 6;
}
