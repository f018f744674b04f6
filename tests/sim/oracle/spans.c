/*
 * spans.c - ranges of addresses in a treap, with a short cut for those found before. See
 * oracle_spans.h.
 * Owns:  nothing.   Lock: the oracle's.
 */
#include "oracle_spans.h"

static struct oracle_span **recent_of(struct oracle_spans *spans, uintptr_t start)
{
    uint64_t mixed = (uint64_t)start * 0x9e3779b97f4a7c15ull;
    return &spans->recent[mixed >> 56];
}

struct oracle_span *oracle_spans_from(struct oracle_spans *spans, uintptr_t address)
{
    struct oracle_span **recent = recent_of(spans, address);
    struct oracle_span *at = spans->root, *best = NULL;

    if (*recent && (*recent)->start == address)
        return *recent;
    while (at) {
        if (at->end > address) {
            best = at;
            at = at->left;
        } else {
            at = at->right;
        }
    }
    if (best && best->start == address)
        *recent = best;
    return best;
}

static void set_child(struct oracle_spans *spans, struct oracle_span *parent,
                      const struct oracle_span *old, struct oracle_span *new)
{
    if (!parent)
        spans->root = new;
    else if (parent->left == old)
        parent->left = new;
    else
        parent->right = new;
    if (new)
        new->parent = parent;
}

/* Put a node above its parent. */
static void rotate_up(struct oracle_spans *spans, struct oracle_span *span)
{
    struct oracle_span *parent = span->parent;
    struct oracle_span *grand = parent->parent;
    struct oracle_span *moved;

    if (parent->left == span) {
        moved = parent->left = span->right;
        span->right = parent;
    } else {
        moved = parent->right = span->left;
        span->left = parent;
    }
    if (moved)
        moved->parent = parent;
    set_child(spans, grand, parent, span);
    parent->parent = span;
}

static void link_after(struct oracle_spans *spans, struct oracle_span *span,
                       struct oracle_span *before)
{
    span->prev = before;
    span->next = before ? before->next : spans->first;
    if (span->next)
        span->next->prev = span;
    if (before)
        before->next = span;
    else
        spans->first = span;
}

void oracle_spans_insert(struct oracle_spans *spans, struct oracle_span *span)
{
    struct oracle_span *parent = NULL, *before = NULL;
    struct oracle_span *at = spans->root;

    spans->random = spans->random * 1664525u + 1013904223u;
    span->priority = spans->random >> 1;
    span->left = span->right = NULL;
    while (at) {
        parent = at;
        if (at->start < span->start) {
            before = at;
            at = at->right;
        } else {
            at = at->left;
        }
    }
    span->parent = parent;
    if (!parent)
        spans->root = span;
    else if (parent == before)
        parent->right = span;
    else
        parent->left = span;
    link_after(spans, span, before);
    while (span->parent && span->parent->priority < span->priority)
        rotate_up(spans, span);
}

void oracle_spans_remove(struct oracle_spans *spans, struct oracle_span *span)
{
    struct oracle_span **recent = recent_of(spans, span->start);

    if (*recent == span)
        *recent = NULL;
    while (span->left || span->right) {
        struct oracle_span *up = span->left;
        if (!up || (span->right && span->right->priority > up->priority))
            up = span->right;
        rotate_up(spans, up);
    }
    set_child(spans, span->parent, span, NULL);
    if (span->next)
        span->next->prev = span->prev;
    if (span->prev)
        span->prev->next = span->next;
    else
        spans->first = span->next;
}
