/*
 * gs_compare.h - the keys of a comparison function, each decisive where those before it
 * are equal:   return GS_FALLING(a->bytes, b->bytes) ?: GS_RISING(a->stack, b->stack);
 */
#ifndef GS_COMPARE_H
#define GS_COMPARE_H

/* -1, 0 or 1: the smaller value first, or the larger one. Their arguments are evaluated
 * twice. As differences of two comparisons they cost twice the instructions. */
#define GS_RISING(left, right)  ((left) == (right) ? 0 : (left) < (right) ? -1 : 1)
#define GS_FALLING(left, right) GS_RISING(right, left)

#endif
