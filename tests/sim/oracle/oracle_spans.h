/*
 * oracle_spans.h - disjoint ranges of addresses, in order: a balanced tree whose nodes
 * are the first member of something else.
 * Owns:  nothing, the nodes are the caller's.   Lock: the oracle's, held by the caller.
 */
#ifndef ORACLE_SPANS_H
#define ORACLE_SPANS_H

#include "gs_base.h"

struct oracle_span {
    uintptr_t start, end; /* end is exclusive, and > start */
    struct oracle_span *left, *right, *parent;
    struct oracle_span *next, *prev; /* by address */
    uint32_t priority;               /* of a node higher in the tree it is larger */
};

#define ORACLE_SPANS_RECENT 256 /* a power of two */

struct oracle_spans {
    struct oracle_span *root, *first;
    struct oracle_span *recent[ORACLE_SPANS_RECENT]; /* by start: where it was found */
    uint32_t random;
};

/* The first that ends behind the address, or NULL. */
struct oracle_span *oracle_spans_from(struct oracle_spans *spans, uintptr_t address);

/* Add one that overlaps no other. */
void oracle_spans_insert(struct oracle_spans *spans, struct oracle_span *span);
void oracle_spans_remove(struct oracle_spans *spans, struct oracle_span *span);

#endif
