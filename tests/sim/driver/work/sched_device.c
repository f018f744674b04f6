/*
 * sched_device.c - the queues of the hostile scheduler: which operations CUDA's rules
 * allow to run now, which of these does, and what follows.
 *
 * The head of a queue may start when all it depends on is done and what it waits for in
 * memory has come. Behind a head that could start, operations that were launched to
 * overlap may be executed ahead of it; they are done when their turn comes. The device is
 * one: whoever has acquired it runs one operation after another. Host functions alone go
 * on beside it.
 *
 * Time is virtual: an operation takes a microsecond, or as long as it asks to.
 *
 * Owns:  the list of queues that have operations, the device's clock.
 * Lock:  sim_hostile_lock; heads and what was executed are changed by the one who has the
 *        device only, with the lock held.
 * Source: CUDA Programming Guide, "Streams", "Programmatic Dependent Launch".
 */
#include <stdlib.h>

#include "context.h"
#include "hosts.h"
#include "order.h"
#include "stream.h"

#define OP_NS       1000
#define MOST_POINTS 1024
#define SCAN_POINTS 64 /* between two looks for streams that were forgotten */

/* A list of operations that grows; what does not fit is left out. */
struct list {
    struct sim_op **ops;
    unsigned count, room;
};

static bool busy; /* sim_hostile_lock: somebody has the device */
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static struct sim_queue *queues, *last_queue; /* sim_hostile_lock: not empty ones */
static unsigned pending;                      /* sim_hostile_lock: queued operations */
static uint64_t moves;                        /* likewise: enqueued and ended */
static atomic_uint gated;     /* written with sim_hostile_lock: those that have ready() */
static unsigned overlapping;  /* sim_hostile_lock: of them, those that may go first */
static uint64_t last_enqueue; /* sim_hostile_lock: points then */
static uint64_t last_stream;  /* sim_hostile_lock: whose operation ran last */
static uint64_t clock_ns;     /* whoever has the device */
static struct list runnable;  /* likewise */
static struct list asked;     /* likewise */

/* ---- who runs it --------------------------------------------------------------------
 */

void sim_device_acquire(void)
{
    while (busy)
        pthread_cond_wait(&freed, &sim_hostile_lock);
    busy = true;
}

void sim_device_release(void)
{
    busy = false;
    pthread_cond_signal(&freed);
}

bool sim_device_is_busy(void)
{
    return busy;
}

unsigned sim_device_pending(void)
{
    return pending;
}

uint64_t sim_device_last_enqueue(void)
{
    return last_enqueue;
}

void sim_device_spin(uint64_t ns)
{
    clock_ns += ns;
}

/* ---- queues -------------------------------------------------------------------------
 */

static void enlist(struct sim_queue *queue)
{
    queue->next = NULL;
    queue->prev = last_queue;
    if (last_queue)
        last_queue->next = queue;
    else
        queues = queue;
    last_queue = queue;
}

static void delist(struct sim_queue *queue)
{
    if (queue->prev)
        queue->prev->next = queue->next;
    else
        queues = queue->next;
    if (queue->next)
        queue->next->prev = queue->prev;
    else
        last_queue = queue->prev;
}

uint64_t sim_device_moves(void)
{
    return moves;
}

void sim_device_enqueue(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_queue *queue = &stream->queue;

    if (queue->tail) {
        queue->tail->next = op;
    } else {
        queue->head = op;
        queue->since = sim_hosts_points();
        enlist(queue);
    }
    queue->tail = op;
    moves++;
    pending++;
    atomic_fetch_add_explicit(&gated, op->ready != NULL, memory_order_relaxed);
    overlapping += op->overlap != ORACLE_IN_ORDER;
    last_enqueue = sim_hosts_points();
}

/* Take the head off; true if that was the last one of a closed stream. */
static bool pop(struct sim_queue *queue)
{
    struct sim_op *op = queue->head;

    queue->head = op->next;
    queue->since = sim_hosts_points();
    if (!queue->head) {
        queue->tail = NULL;
        delist(queue);
    }
    pending--;
    atomic_fetch_sub_explicit(&gated, op->ready != NULL, memory_order_relaxed);
    overlapping -= op->overlap != ORACLE_IN_ORDER;
    moves++;
    atomic_store_explicit(&op->done, true, memory_order_release);
    bool drained = !queue->head && queue->closing && !queue->drained;
    queue->drained |= drained;
    return drained;
}

/* The head has been executed: it is done, and those behind it that went first. Drops the
 * lock. */
static void complete(struct sim_queue *queue)
{
    bool more = true;

    while (more && queue->head->executed) {
        struct sim_op *op = queue->head;
        pthread_mutex_unlock(&sim_hostile_lock);
        op->finished_ns = clock_ns;
        sim_order_done(op);
        sim_op_release(op);
        pthread_mutex_lock(&sim_hostile_lock);
        bool drained = pop(queue);
        more = queue->head != NULL; /* it keeps the stream alive */
        pthread_mutex_unlock(&sim_hostile_lock);
        if (drained)
            sim_stream_drained(op->stream);
        sim_op_unref(op);
        pthread_mutex_lock(&sim_hostile_lock);
    }
}

/* ---- what may run -------------------------------------------------------------------
 */

static struct sim_op *first_undone(struct sim_op *op)
{
    for (unsigned i = 0; i < op->dep_count; i++) {
        if (!sim_op_done(op->deps[i]))
            return op->deps[i];
    }
    return NULL;
}

/* One of those it waits for, by the dice. */
static struct sim_op *any_undone(enum sim_dice dice, struct sim_op *op)
{
    unsigned count = 0;

    for (unsigned i = 0; i < op->dep_count; i++)
        count += !sim_op_done(op->deps[i]);
    if (count <= 1)
        return first_undone(op);
    unsigned left = sim_dice_below(dice, count);
    for (unsigned i = 0; i < op->dep_count; i++) {
        if (!sim_op_done(op->deps[i]) && left-- == 0)
            return op->deps[i];
    }
    return first_undone(op); /* one was done meanwhile */
}

/* Would it be dropped, because of the context's error? Then it waits for nothing. */
static bool is_dropped(const struct sim_op *op)
{
    return !op->run_on_error && sim_context_error(op->stream->context) != CUDA_SUCCESS;
}

/* Nothing of its own holds it up. */
static bool can_end(const struct sim_op *op)
{
    if (op->started || op->executed)
        return false;
    if ((!op->ready || op->came) && !op->never_ends)
        return true;
    return is_dropped(op);
}

static void add(struct list *list, struct sim_op *op)
{
    if (list->count == list->room) {
        unsigned room = list->room ? list->room * 2 : 64;
        struct sim_op **more = realloc(list->ops, room * sizeof(*more));
        if (!more)
            return;
        list->ops = more;
        list->room = room;
    }
    list->ops[list->count++] = op;
}

/*
 * Visit the operations of a queue whose order lets them be executed now: the head, and
 * behind it those that may overlap the one before them.
 */
static void visit(struct sim_queue *queue, bool early,
                  void (*consider)(struct sim_op *op))
{
    struct sim_op *before = NULL;

    for (struct sim_op *op = queue->head; op; before = op, op = op->next) {
        if (before && op->overlap == ORACLE_IN_ORDER)
            return;
        if (first_undone(op))
            return;
        if (!before || op->overlap != ORACLE_OVERLAPS_WAITS || before->executed)
            consider(op);
        if (!early)
            return;
    }
}

static void consider_running(struct sim_op *op)
{
    if (can_end(op))
        add(&runnable, op);
}

static void consider_asking(struct sim_op *op)
{
    if (op->ready && !op->came && !op->started && !op->executed)
        add(&asked, op);
}

bool sim_device_is_awaiting(void)
{
    return atomic_load_explicit(&gated, memory_order_relaxed) > 0;
}

/* Ask those that wait for something in memory whether it has come. Drops the lock: the
 * answer may need locks of the driver. */
static void ask(void)
{
    if (!sim_device_is_awaiting())
        return;
    asked.count = 0;
    for (struct sim_queue *queue = queues; queue; queue = queue->next)
        visit(queue, true, consider_asking);
    pthread_mutex_unlock(&sim_hostile_lock);
    for (unsigned i = 0; i < asked.count; i++) {
        asked.ops[i]->came = asked.ops[i]->ready(asked.ops[i]);
        if (asked.ops[i]->came)
            sim_order_was_told(asked.ops[i]);
    }
    pthread_mutex_lock(&sim_hostile_lock);
}

void sim_device_ask(void)
{
    if (!sim_device_is_awaiting())
        return;
    sim_device_acquire();
    ask();
    sim_device_release();
}

/* ---- which one does -----------------------------------------------------------------
 */

static bool is_better(enum sim_pick pick, const struct sim_op *op,
                      const struct sim_op *than)
{
    switch (pick) {
    case SIM_PICK_NEWEST:
        return op->stream->id > than->stream->id;
    case SIM_PICK_OLDEST:
        return op->stream->id < than->stream->id;
    case SIM_PICK_SAME:
        return op->stream->id == last_stream && than->stream->id != last_stream;
    case SIM_PICK_ANY:
    case SIM_PICK_COUNT:
        break;
    }
    return false;
}

/* A device forgets no stream: it is given its turn after so many points at the latest. */
static bool is_overdue(const struct sim_op *op)
{
    return sim_hosts_points() - op->stream->queue.since > MOST_POINTS;
}

bool sim_device_is_overdue(void)
{
    static uint64_t next; /* sim_hostile_lock: not before that point */
    uint64_t now = sim_hosts_points(), oldest = now;

    if (now < next)
        return false;
    for (struct sim_queue *queue = queues; queue; queue = queue->next)
        oldest = queue->since < oldest ? queue->since : oldest;
    next = oldest + MOST_POINTS;
    if (next < now + SCAN_POINTS)
        next = now + SCAN_POINTS;
    return now - oldest > MOST_POINTS;
}

/* One of all that may run. */
static struct sim_op *choose(enum sim_dice dice)
{
    bool early = overlapping > 0 && sim_dice_yes(dice, sim_temper.overlap);

    runnable.count = 0;
    for (struct sim_queue *queue = queues; queue; queue = queue->next)
        visit(queue, early, consider_running);
    if (runnable.count == 0)
        return NULL;
    struct sim_op *best = runnable.ops[0];
    if (runnable.count > 1) /* where the temperament does not care, any */
        best = runnable.ops[sim_dice_below(dice, runnable.count)];
    for (unsigned i = 0; i < runnable.count; i++) {
        if (is_overdue(runnable.ops[i]))
            return runnable.ops[i];
        if (is_better(sim_temper.pick, runnable.ops[i], best))
            best = runnable.ops[i];
    }
    return best;
}

/* The head in the way of `awaited`, at the end of a chain of those that wait. NULL: it
 * was submitted by nobody yet. */
static struct sim_op *in_the_way(enum sim_dice dice, struct sim_op *awaited)
{
    struct sim_op *op = awaited;

    while (op->stream && op->stream->queue.head) {
        struct sim_op *head = op->stream->queue.head;
        struct sim_op *before =
            dice < SIM_DICE_COUNT ? any_undone(dice, head) : first_undone(head);
        if (!before)
            return head;
        op = before;
    }
    return NULL;
}

/* One that `awaited` is waiting for. */
static struct sim_op *choose_for(enum sim_dice dice, struct sim_op *awaited)
{
    struct sim_op *op = in_the_way(dice, awaited);

    if (!op)
        return NULL;
    if (overlapping > 0 && sim_dice_yes(dice, sim_temper.overlap)) {
        runnable.count = 0;
        visit(&op->stream->queue, true, consider_running);
        if (runnable.count > 1)
            return runnable.ops[sim_dice_below(dice, runnable.count)];
    }
    return can_end(op) ? op : NULL;
}

struct sim_op *sim_device_culprit(struct sim_op *awaited)
{
    struct sim_op *op = sim_op_done(awaited) ? NULL : in_the_way(SIM_DICE_COUNT, awaited);

    if (op)
        sim_op_ref(op);
    return op;
}

/* ---- running it ---------------------------------------------------------------------
 */

void sim_device_carry_out(struct sim_op *op)
{
    CUresult res = CUDA_SUCCESS;

    if (op->run && !is_dropped(op)) {
        sim_order_runs(op);
        res = op->run(op);
    }
    if (res != CUDA_SUCCESS)
        sim_context_set_error(op->stream->context, res);
}

static void execute(struct sim_op *op)
{
    struct sim_queue *queue = &op->stream->queue;

    op->started = true;
    last_stream = op->stream->id;
    if (op->kind == SIM_OP_HOST && op->run) {
        if (!sim_helper_run(op))
            return;
    } else {
        pthread_mutex_unlock(&sim_hostile_lock);
        sim_device_carry_out(op);
        pthread_mutex_lock(&sim_hostile_lock);
    }
    clock_ns += OP_NS;
    op->executed = true;
    if (queue->head == op)
        complete(queue);
}

bool sim_device_step(enum sim_dice dice, struct sim_op *awaited)
{
    struct sim_op *op = NULL;

    if (pending == 0)
        return false;
    ask();
    if (awaited && !sim_op_done(awaited))
        op = choose_for(dice, awaited);
    if (!op)
        op = choose(dice);
    if (op)
        execute(op);
    return op != NULL;
}

bool sim_device_reap(void)
{
    bool any = false;

    for (struct sim_op *op = sim_helper_reap(); op; op = sim_helper_reap()) {
        struct sim_queue *queue = &op->stream->queue;
        op->executed = true;
        any = true;
        complete(queue);
    }
    return any;
}
