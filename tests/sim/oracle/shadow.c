/*
 * shadow.c - the accesses that later ones are judged against, by address.
 *
 * The bytes that were ever accessed are cut into cells; a cell has marks, the accesses to
 * all of its bytes. An access is judged against the marks of the cells it touches and
 * then leaves its own. It takes the place of a mark if whoever conflicts with that one
 * conflicts with it, too, and it is in order behind it in both clocks: who is in order
 * behind the new one is so behind the old one. What is out of order stays. A cell with
 * many marks is cleaned whenever it has grown to twice as many; reads of different slots
 * are no longer compared there one by one, only then. Beyond oracle_most_marks the oldest
 * read is forgotten, and counted.
 *
 * From time to time marks are dropped that every later access is behind: those that all
 * host threads and all operations not yet done are behind in both clocks (what will be
 * submitted is behind some host thread), and which are in order before the end of their
 * allocation. Cells that have become alike are joined. One judgement is lost by that: a
 * use that is not behind the beginning of its allocation, against what all had seen over.
 *
 * Owns:  cells and marks.   Lock: the oracle's.
 */
#include "oracle_state.h"

#include <stdlib.h>
#include <string.h>

#include "oracle_spans.h"

#define FEW_MARKS    3
#define MANY_MARKS   256  /* in a cell: from here on it is cleaned when it grows */
#define NEWEST_MARKS 16   /* of very many, those compared one by one */
#define FIRST_LIMIT  4096 /* marks, before the first are dropped */

struct cell {
    struct oracle_span span;
    uint32_t count, room;
    struct oracle_mark *marks; /* `few` or from malloc */
    struct oracle_mark few[FEW_MARKS];
};

uint32_t oracle_most_marks = 65536; /* tests; set before any other thread */
uint64_t oracle_forgotten;          /* the oracle's lock */

static struct oracle_spans cells;       /* the oracle's lock */
static struct cell *idle_cells;         /* the oracle's lock; by span.next */
static size_t mark_count;               /* the oracle's lock */
static size_t mark_limit = FIRST_LIMIT; /* the oracle's lock */

size_t oracle_shadow_marks(void)
{
    return mark_count;
}

/* ---- cells ------------------------------------------------------------------------ */

static struct cell *cell_from(uintptr_t address)
{
    return (struct cell *)oracle_spans_from(&cells, address);
}

static struct cell *next_cell(const struct cell *cell)
{
    return (struct cell *)cell->span.next;
}

static struct cell *cell_new(uintptr_t start, uintptr_t end)
{
    struct cell *cell = idle_cells;

    if (cell)
        idle_cells = (struct cell *)cell->span.next;
    else
        cell = oracle_allocate(NULL, sizeof(*cell));
    if (!cell) {
        oracle_lose();
        return NULL;
    }
    memset(cell, 0, sizeof(*cell));
    cell->marks = cell->few;
    cell->room = FEW_MARKS;
    cell->span.start = start;
    cell->span.end = end;
    oracle_spans_insert(&cells, &cell->span);
    return cell;
}

static void let_go(const struct oracle_mark *mark)
{
    oracle_op_drop(mark->op);
    oracle_allocation_drop(mark->allocation);
    mark_count--;
}

static void remove_cell(struct cell *cell)
{
    while (cell->count > 0)
        let_go(&cell->marks[--cell->count]);
    if (cell->marks != cell->few)
        free(cell->marks);
    oracle_spans_remove(&cells, &cell->span);
    cell->span.next = (struct oracle_span *)idle_cells;
    idle_cells = cell;
}

/* It has as many as there may be: the oldest read gives way. */
static void forget_one(struct cell *cell)
{
    uint32_t at = 0;

    while (at < cell->count && cell->marks[at].writes)
        at++;
    at = at < cell->count ? at : 0;
    let_go(&cell->marks[at]);
    cell->count--;
    memmove(&cell->marks[at], &cell->marks[at + 1],
            (cell->count - at) * sizeof(*cell->marks));
    oracle_forgotten++;
}

static void add_mark(struct cell *cell, const struct oracle_mark *mark)
{
    if (cell->count >= oracle_most_marks)
        forget_one(cell);
    if (cell->count == cell->room) {
        struct oracle_mark *old = cell->marks == cell->few ? NULL : cell->marks;
        struct oracle_mark *grown =
            oracle_allocate(old, 2 * cell->room * sizeof(*cell->marks));
        if (!grown) {
            oracle_lose();
            return;
        }
        if (!old)
            memcpy(grown, cell->few, sizeof(cell->few));
        cell->marks = grown;
        cell->room *= 2;
    }
    cell->marks[cell->count++] = *mark;
    oracle_op_ref(mark->op);
    oracle_allocation_ref(mark->allocation);
    mark_count++;
}

/* Let one begin at the address, if it lies inside one. */
static void split_cell(uintptr_t address)
{
    struct cell *cell = cell_from(address);

    if (!cell || cell->span.start >= address)
        return;
    struct cell *right = cell_new(address, cell->span.end);
    cell->span.end = address; /* without memory the rest is forgotten */
    for (uint32_t i = 0; right && i < cell->count; i++)
        add_mark(right, &cell->marks[i]);
}

/* ---- what all are behind ----------------------------------------------------------- */

static struct {
    uint32_t *at;
    size_t width, room;
    bool any; /* somebody was asked */
} common;     /* the oracle's lock: the counts that everybody knows */

/* One more that knows no more than that. here: itself, with all before it in its slot. */
static void lower_to(const struct oracle_clock *clock, struct oracle_point before)
{
    size_t width = clock ? clock->width : 0;

    if (before.slot != ORACLE_NO_SLOT && before.slot >= width && before.index > 0)
        width = (size_t)before.slot + 1;
    if (!common.any) {
        if (width > common.room) {
            uint32_t *grown = oracle_allocate(common.at, width * sizeof(*common.at));
            width = grown ? width : common.room;
            common.at = grown ? grown : common.at;
            common.room = width;
        }
        for (size_t slot = 0; slot < width; slot++)
            common.at[slot] = UINT32_MAX;
        common.width = width;
        common.any = true;
    }
    if (common.width > width)
        common.width = width;
    for (size_t slot = 0; slot < common.width; slot++) {
        uint32_t known = oracle_clock_at(clock, (uint32_t)slot);
        if (slot == before.slot && known < before.index)
            known = before.index;
        if (common.at[slot] > known)
            common.at[slot] = known;
    }
}

static void find_floor(void)
{
    const struct oracle_point none = {ORACLE_NO_SLOT, 0};

    common.any = false;
    common.width = 0;
    for (struct oracle_past *past = oracle_next_past(NULL); past;
         past = oracle_next_past(past)) {
        lower_to(past->knows.n, none);
        if (past->knows.s != past->knows.n)
            lower_to(past->knows.s, none);
    }
    for (struct oracle_op *op = oracle_pending; op && common.width > 0; op = op->next) {
        const struct oracle_point before = {op->here.slot, op->here.index - 1};
        if (!op->own)
            lower_to(op->knows.n, before);
        if (op->own || op->knows.s != op->knows.n)
            lower_to(op->knows.s, before);
    }
}

/* Is the mark before the end of its allocation, whenever that comes, and before the
 * beginnings of those inside it? */
static bool ends_well(const struct oracle_mark *mark)
{
    const struct oracle_allocation *allocation = mark->allocation;

    if (!allocation || mark->op->own)
        return true;
    return !allocation->has_inner &&
           (!allocation->ended ||
            oracle_pair_knows(&allocation->end, true, mark->op->here));
}

static bool all_are_behind(const struct oracle_mark *mark)
{
    struct oracle_point here = mark->op->here;

    if (!oracle_op_counts(mark->op))
        return true;
    return here.slot < common.width && common.at[here.slot] >= here.index &&
           ends_well(mark);
}

/* Drop what all are behind. The floor has been found. */
static void clean_cell(struct cell *cell)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < cell->count; i++) {
        if (all_are_behind(&cell->marks[i]))
            let_go(&cell->marks[i]);
        else
            cell->marks[kept++] = cell->marks[i];
    }
    cell->count = kept;
}

/* ---- an access -------------------------------------------------------------------- */

static void report(const struct cell *cell, uintptr_t shift,
                   const struct oracle_mark *first, const struct oracle_mark *second,
                   enum oracle_finding kind)
{
    if (oracle_told_before(first->op->heard, second->op->heard))
        return;
    oracle_found(&(struct oracle_report){
        .kind = kind,
        .start = cell->span.start - shift,
        .end = cell->span.end - shift,
        .first = first,
        .second = second,
        .allocation = second->allocation,
        .before = first->allocation != second->allocation ? first->allocation : NULL,
    });
}

/* Is one allocation inside the other, or does the old one live on at another address? Of
 * a layer's own access that does not matter. */
static bool both_live(const struct oracle_mark *old, const struct oracle_mark *new)
{
    if (!old->allocation || old->op->own)
        return false;
    if (oracle_allocations_apart(old->allocation, new->allocation))
        return !old->allocation->ended;
    return oracle_allocation_inside(new->allocation, old->allocation) ||
           oracle_allocation_inside(old->allocation, new->allocation);
}

/* Does everything that conflicts with the old one conflict with the new one, too? And is
 * it judged by lives, if the old one is? */
static bool takes_in(const struct oracle_mark *new, const struct oracle_mark *old)
{
    if (old->allocation && !new->allocation)
        return false;
    if (old->allocation != new->allocation && both_live(old, new))
        return false; /* it goes on: its end is judged by both */
    return (oracle_conflicts[old->manner] & ~oracle_conflicts[new->manner]) == 0;
}

/* Is it not worth to ask, among very many, whether the one is behind the other? */
static bool is_in_the_crowd(const struct cell *cell, const struct oracle_mark *old,
                            const struct oracle_mark *new)
{
    return cell->count > MANY_MARKS &&
           old->op->here.slot !=
               new->op->here.slot &&old < cell->marks + cell->count - NEWEST_MARKS;
}

/* Judge against one mark. True: the new one takes its place. */
static bool judge(const struct cell *cell, uintptr_t shift, const struct oracle_mark *old,
                  const struct oracle_mark *new)
{
    bool stronger = takes_in(new, old);
    bool conflict = oracle_conflict(old, new);

    if (!oracle_op_counts(old->op))
        return true;
    if (old->op == new->op)
        return stronger && old->allocation == new->allocation;
    if (!conflict && (!stronger || is_in_the_crowd(cell, old, new)))
        return false;
    enum oracle_finding kind = oracle_judge_pair(old, new);
    if (conflict && kind != ORACLE_FINDINGS)
        report(cell, shift, old, new, kind);
    /* A layer's own passes on in N nothing of what it is behind. */
    return stronger && kind == ORACLE_FINDINGS && (!new->op->own || old->op->own);
}

static void touch_cell(struct cell *cell, const struct oracle_mark *mark, uintptr_t shift)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < cell->count; i++) {
        if (judge(cell, shift, &cell->marks[i], mark))
            let_go(&cell->marks[i]);
        else
            cell->marks[kept++] = cell->marks[i];
    }
    cell->count = kept;
    if (kept > MANY_MARKS && kept == cell->room) {
        find_floor();
        clean_cell(cell);
    }
    add_mark(cell, mark);
}

/* Nothing but the one mark? */
static bool is_plain(const struct cell *cell, const struct oracle_mark *mark)
{
    const struct oracle_mark *only = &cell->marks[0];

    return cell->count == 1 && only->op == mark->op &&
           only->allocation == mark->allocation && only->manner == mark->manner;
}

void oracle_shadow_touch(const struct oracle_mark *mark, uintptr_t start, uintptr_t end,
                         uintptr_t shift)
{
    struct cell *plain = NULL; /* the one before, if it can grow */
    uintptr_t at = start + shift;

    end += shift;
    split_cell(at);
    struct cell *cell = cell_from(at);
    while (at < end) {
        if (cell && cell->span.start == at) {
            if (cell->span.end > end)
                split_cell(end);
            at = cell->span.end;
            touch_cell(cell, mark, shift);
            struct cell *next = next_cell(cell);
            if (!is_plain(cell, mark)) {
                plain = NULL;
            } else if (plain) {
                remove_cell(cell);
                plain->span.end = at;
            } else {
                plain = cell;
            }
            cell = next;
            continue;
        }
        uintptr_t gap = cell && cell->span.start < end ? cell->span.start : end;
        if (!plain) {
            plain = cell_new(at, gap);
            if (!plain)
                return;
            add_mark(plain, mark);
        }
        plain->span.end = gap;
        at = gap;
    }
    if (mark_count > mark_limit)
        oracle_shadow_clean();
}

/* Bytes that lie together, `shift` from their addresses. */
static void visit_piece(uintptr_t start, uintptr_t end, uintptr_t shift,
                        oracle_visitor *visit, void *argument)
{
    struct cell *cell = cell_from(start);

    for (; cell && cell->span.start < end; cell = next_cell(cell)) {
        uintptr_t from = cell->span.start > start ? cell->span.start : start;
        uintptr_t to = cell->span.end < end ? cell->span.end : end;
        for (uint32_t i = 0; i < cell->count; i++) {
            if (oracle_op_counts(cell->marks[i].op))
                visit(&cell->marks[i], from - shift, to - shift, argument);
        }
    }
}

void oracle_shadow_visit(uintptr_t start, uintptr_t end, oracle_visitor *visit,
                         void *argument)
{
    while (start < end) {
        uintptr_t piece_end = end, shift = oracle_place_at(start, &piece_end);
        visit_piece(start + shift, piece_end + shift, shift, visit, argument);
        start = piece_end;
    }
}

static void forget_piece(uintptr_t start, uintptr_t end)
{
    split_cell(start);
    split_cell(end);
    struct cell *cell = cell_from(start);
    while (cell && cell->span.start < end) {
        struct cell *next = next_cell(cell);
        remove_cell(cell);
        cell = next;
    }
}

void oracle_shadow_forget(uintptr_t start, uintptr_t end)
{
    while (start < end) {
        uintptr_t piece_end = end, shift = oracle_place_at(start, &piece_end);
        forget_piece(start + shift, piece_end + shift);
        start = piece_end;
    }
}

/* ---- dropping what all are behind --------------------------------------------------
 */

static bool alike(const struct cell *a, const struct cell *b)
{
    if (a->span.end != b->span.start || a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct oracle_mark *x = &a->marks[i], *y = &b->marks[i];
        if (x->op != y->op || x->allocation != y->allocation || x->manner != y->manner)
            return false;
    }
    return true;
}

void oracle_shadow_clean(void)
{
    struct cell *before = NULL;

    find_floor();
    for (struct cell *cell = (struct cell *)cells.first, *next; cell; cell = next) {
        next = next_cell(cell);
        clean_cell(cell);
        if (cell->count > 0 && before && alike(before, cell)) {
            before->span.end = cell->span.end;
            remove_cell(cell);
        } else if (cell->count == 0) {
            remove_cell(cell);
        } else {
            before = cell;
        }
    }
    mark_limit = 2 * mark_count > FIRST_LIMIT ? 2 * mark_count : FIRST_LIMIT;
}
