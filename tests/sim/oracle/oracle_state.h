/*
 * oracle_state.h - what the files of the oracle share: its lock, its objects, and how
 * they ask each other. Not for the driver.
 *
 * Owns:  nothing; each object's file is named with it.
 * Lock:  the oracle's. Every function here is called with it, but for oracle_lock and
 *        where it says otherwise.
 */
#ifndef ORACLE_STATE_H
#define ORACLE_STATE_H

#include <stdatomic.h>

#include "oracle.h"
#include "oracle_clock.h"

/* ---- state.c ---------------------------------------------------------------------- */

extern struct oracle_options oracle_options; /* immutable after oracle_start */

/* A count of everything the oracle was told: which of two it heard of first. */
extern uint64_t oracle_now; /* the oracle's lock */

/*
 * What was heard up to here may have lost order for want of memory: operations and
 * allocations as old as that are neither judged nor judged by. 0: nothing was lost.
 */
extern uint64_t oracle_lost; /* the oracle's lock */

/* Every public function holds the lock between these two. Findings made in between are
 * printed by the second, after the lock is gone: names are looked up in the dynamic
 * linker, which may hold a lock of its own while it waits for this one. */
void oracle_lock(void);
void oracle_unlock(void);

/* Memory was short: forget what could now be judged wrongly. Says so once. */
void oracle_lose(void);

/* Something takes part that nothing is known of. Harmless, unless it is not known because
 * memory was short: then order may be lost by that, too. */
void oracle_unknown(void);

/* realloc; fails when a test wants it to (oracle_fail_allocation). */
void *oracle_allocate(void *old, size_t bytes);
extern bool (*oracle_fail_allocation)(void); /* tests; set before any other thread */

/* ---- lines.c ---------------------------------------------------------------------- */

/* What host threads know: each its own, or all the same. */
struct oracle_past {
    struct oracle_pair knows; /* its own point included */
    struct oracle_point here; /* its last event */
    struct oracle_line *line; /* whose it is, if it is one thread's */
    uint64_t version;         /* another one whenever `knows` changes */
};

/* Slots of programmatic launches, oldest first. */
struct oracle_beside {
    struct oracle_point *points;
    uint32_t first, count, room; /* a ring; room is a power of two */
};

struct oracle_line {
    enum oracle_line_kind kind;
    uint64_t id;
    uint64_t count;           /* operations so far, to name them */
    struct oracle_past own;   /* a host thread's own past */
    struct oracle_past *past; /* a host thread: that, or the one of all */

    /* A stream: the next operation starts from `knows` and `here`, a programmatic one
     * from `base` and `base_here`: what the last one started from; one that waits inside
     * also knows `last` and `last_here`, the last one's end. */
    struct oracle_pair knows, base, last;
    struct oracle_point here, base_here, last_here;
    struct oracle_point unfenced; /* the last one of its slot for those; index 0: none */
    uint64_t version;             /* the past that `knows` includes */
    struct oracle_beside beside;

    struct oracle_line *next, *prev; /* all lines */
};

extern struct oracle_line *oracle_lines; /* the oracle's lock */

/* The past of a host thread; NULL is allowed, and has none. */
static inline struct oracle_past *oracle_past_of(const struct oracle_line *host)
{
    return host && host->kind == ORACLE_HOST ? host->past : NULL;
}

/* All the pasts there are: call with NULL, then with the last answer, until NULL. */
struct oracle_past *oracle_next_past(const struct oracle_past *last);

/* What threads know, that of threads that ended as well: the visitor may change it. */
void oracle_pasts_visit(void (*visit)(struct oracle_pair *pair,
                                      struct oracle_point here));

/* The host goes on behind all that; in S alone unless n is set. */
void oracle_past_learns(struct oracle_past *past, const struct oracle_pair *pair,
                        struct oracle_point point, bool n);

/* By right it is behind all of the line: in N alone. */
void oracle_past_ought(struct oracle_past *past, const struct oracle_line *line);

/* Something happens on the host: a new point, which what follows there is behind. */
struct oracle_point oracle_past_event(struct oracle_past *past);

/* The last point of a slot, all of whose points are in `known`, in both clocks. */
struct oracle_point oracle_slot_take(const struct oracle_pair *known);
void oracle_slot_put_back(struct oracle_point last);

/* The next point of a slot. Where the count would run over it is the first of a new one,
 * and the last of the old one is put into `knows`. */
struct oracle_point oracle_slot_next(struct oracle_pair *knows, struct oracle_point here);

/* ---- ops.c ------------------------------------------------------------------------ */

struct oracle_op {
    atomic_uint refs;
    bool in_use, own, submitted, done;
    bool unfenced;            /* what it is behind is not passed on with what it writes */
    bool host;                /* an access by the host, not an operation */
    bool was_told;            /* `told` is all that the host may have told it */
    struct oracle_point here; /* what it is; no slot before it is submitted */
    struct oracle_pair knows; /* what it is behind, itself not included */
    struct oracle_pair told;
    uint64_t heard;        /* oracle_now at its submission */
    uint64_t line, number; /* to name it */
    const char *call;
    uint32_t stack;
    struct oracle_op *prev, *next; /* submitted and not done; or idle */
};

extern struct oracle_op *oracle_pending; /* submitted and not done, newest first */
extern uint64_t oracle_operations;       /* submitted so far */

/* An access by the host, as if it were an operation, with one reference. NULL: memory. */
struct oracle_op *oracle_op_of_host(struct oracle_line *host, const char *call);

/* oracle_op_unref with the lock held. */
void oracle_op_drop(struct oracle_op *op);

/* Every operation there is, for edges.c. */
void oracle_ops_visit(void (*visit)(struct oracle_op *op));

/* Judged, or not for want of memory? */
static inline bool oracle_op_counts(const struct oracle_op *op)
{
    return op->submitted && op->heard > oracle_lost;
}

/* ---- edges.c ---------------------------------------------------------------------- */

/* Is the point in that clock of the pair, by itself or through what was seen at run time?
 * here: a point that is known with all before it in its slot, or one without a slot. */
bool oracle_pair_knows_at(const struct oracle_pair *pair, struct oracle_point here,
                          bool n, struct oracle_point point);

static inline bool oracle_pair_knows(const struct oracle_pair *pair, bool n,
                                     struct oracle_point point)
{
    const struct oracle_point none = {ORACLE_NO_SLOT, 0};
    return oracle_pair_knows_at(pair, none, n, point);
}

/* Is b behind the point? */
static inline bool oracle_op_knows(const struct oracle_op *b, bool n,
                                   struct oracle_point point)
{
    return oracle_pair_knows_at(&b->knows, b->here, n, point);
}

/* ---- allocations.c --------------------------------------------------------------------
 */

struct oracle_allocation {
    atomic_uint refs;
    struct oracle_range range;
    uint64_t number;
    const char *call, *end_call;
    uint32_t end_stack;
    bool inner, ended, has_inner; /* has_inner: one began inside it */
    bool for_host, gone;          /* as oracle_allocation_for_host and _gone say */
    struct oracle_point birth_here, end_here;
    struct oracle_pair birth; /* from where it may be used; s: also what was retired */
    bool birth_in_stream;
    bool follows;                    /* its bytes were somebody's before */
    struct oracle_pair end;          /* what must be in order before its end */
    struct oracle_pair end_host;     /* what the host knew that ended it */
    struct oracle_clock *free;       /* S: what is known to be over before it is reused */
    uint64_t born, over, retired;    /* oracle_now at those moments */
    struct oracle_allocation *outer; /* with a reference */
    struct oracle_allocation *prev, *next; /* all there are; next: the idle */
};

extern struct oracle_allocation *oracle_allocations; /* all there are */

static inline uintptr_t oracle_range_end(const struct oracle_range *range)
{
    return range->bytes > UINTPTR_MAX - range->address ? UINTPTR_MAX
                                                       : range->address + range->bytes;
}

void oracle_allocation_ref(struct oracle_allocation *allocation);  /* NULL is allowed */
void oracle_allocation_drop(struct oracle_allocation *allocation); /* NULL is allowed */

/* Who has, or had last, the bytes from an address on. */
struct oracle_lodging {
    uintptr_t end;                    /* it is so up to here */
    struct oracle_allocation *newest; /* NULL: nobody ever */
    struct oracle_allocation *outer;  /* around it, from before it; or NULL */
};

void oracle_lodging_at(uintptr_t address, struct oracle_lodging *out);
void oracle_lodgings_forget(uintptr_t start, uintptr_t end);

/* ---- shadow.c --------------------------------------------------------------------- */

/* An access that later ones are judged against. */
struct oracle_mark {
    struct oracle_op *op;                 /* with a reference */
    struct oracle_allocation *allocation; /* with a reference, or NULL */
    bool writes;
    unsigned char manner; /* enum oracle_manner */
};

enum oracle_manner {
    ORACLE_READ,
    ORACLE_ATOMIC_READ,
    ORACLE_AWAITING_READ,
    ORACLE_WRITE,
    ORACLE_SINGLE_WRITE,
    ORACLE_ATOMIC_WRITE,
    ORACLE_MANNERS
};

/* The manners each conflicts with, a bit for each. */
extern const unsigned char oracle_conflicts[ORACLE_MANNERS];

/*
 * Judge the access of an operation that runs, and remember it.
 *
 * In:  shift  from the addresses to where the bytes are
 */
void oracle_shadow_touch(const struct oracle_mark *mark, uintptr_t start, uintptr_t end,
                         uintptr_t shift);

/* Visit the accesses that are remembered of the bytes at these addresses. */
typedef void oracle_visitor(const struct oracle_mark *mark, uintptr_t start,
                            uintptr_t end, void *argument);
void oracle_shadow_visit(uintptr_t start, uintptr_t end, oracle_visitor *visit,
                         void *argument);

void oracle_shadow_forget(uintptr_t start, uintptr_t end);

/* Drop what every later access is behind. Done by itself when there is much. */
void oracle_shadow_clean(void);

/* How many are remembered; for tests. */
size_t oracle_shadow_marks(void);

/* Accesses to the same bytes, without an order between them, that are remembered. Tests
 * may lower it; set before any other thread. */
extern uint32_t oracle_most_marks;
extern uint64_t oracle_forgotten; /* the oracle's lock; how many more there were */

/* ---- places.c --------------------------------------------------------------------- */

extern bool oracle_has_places; /* the oracle's lock */

uintptr_t oracle_find_place(uintptr_t address, uintptr_t *end);

/* How far the bytes at an address are from it. In, out: *end, up to where that is so. */
static inline uintptr_t oracle_place_at(uintptr_t address, uintptr_t *end)
{
    return oracle_has_places ? oracle_find_place(address, end) : 0;
}

/* ---- verdict.c -------------------------------------------------------------------- */

/* Would it be right to do these two to the same bytes? a ran before b. ORACLE_FINDINGS:
 * yes. Whether they conflict at all is oracle_conflict's. */
enum oracle_finding oracle_judge_pair(const struct oracle_mark *a,
                                      const struct oracle_mark *b);

static inline bool oracle_conflict(const struct oracle_mark *a,
                                   const struct oracle_mark *b)
{
    return oracle_conflicts[a->manner] >> b->manner & 1;
}

/* Of two that share bytes: do they so at different addresses? */
static inline bool oracle_allocations_apart(const struct oracle_allocation *a,
                                            const struct oracle_allocation *b)
{
    return oracle_range_end(&a->range) <= b->range.address ||
           oracle_range_end(&b->range) <= a->range.address;
}

/* Is one a life inside the other, of two that share bytes? */
bool oracle_allocation_inside(const struct oracle_allocation *inner,
                              const struct oracle_allocation *outer);

/* Whose bytes an access touches, piece by piece, and whether it may. */
void oracle_judge_access(struct oracle_op *op, const struct oracle_access *access);

/* The allocation ends: what was accessed before must be in order before that. */
void oracle_judge_end(struct oracle_allocation *allocation);

/* ---- going.c ---------------------------------------------------------------------- */

/* What was accessed before must be over where the host has the bytes, or they are gone.
 */
void oracle_judge_handed_to_host(struct oracle_allocation *allocation);
void oracle_judge_gone(struct oracle_allocation *allocation);

/* An access that runs only now, to bytes that somebody may have by now, or that may be
 * gone from under its allocation or those around it. */
void oracle_judge_for_host(const struct oracle_mark *mark, uintptr_t start, uintptr_t end,
                           const struct oracle_allocation *now);
void oracle_judge_going(const struct oracle_mark *mark, uintptr_t start, uintptr_t end);

/* ---- findings.c ------------------------------------------------------------------- */

/* What a finding is about. What there is none of is NULL. */
struct oracle_report {
    enum oracle_finding kind;
    uintptr_t start, end;
    const struct oracle_mark *first, *second;
    const struct oracle_allocation *allocation, *before;
    bool begins;      /* the first party is the beginning of the allocation */
    bool ends;        /* the second party is its end */
    const char *note; /* a line that says more, or NULL */
};

/* Count it, and print it if it is new. */
void oracle_found(const struct oracle_report *report);

/* Was this pair of things, each by when it was heard of, asked about before? Only the
 * pairs of the newest second are remembered, and not more than a few. */
bool oracle_told_before(uint64_t first, uint64_t second);

/* Tests: told of every finding, repeated ones too. */
extern void (*oracle_on_finding)(const struct oracle_report *report);

/* Print what was found since; without the lock. */
struct oracle_message;
struct oracle_message *oracle_messages_take(void);
void oracle_messages_print(struct oracle_message *first);

#endif
