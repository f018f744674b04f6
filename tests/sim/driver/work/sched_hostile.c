/*
 * sched_hostile.c - the scheduler of CUDASIM_SCHEDULE=hostile: one operation and one host
 * thread at a time, in an order that CUDASIM_SEED chooses and replays.
 *
 * The device has no threads. Operations are run by the host thread that has the turn: a
 * few at some scheduling points, if the seed's temperament has it so, and in a wait as
 * many as it takes. So a program may find nothing done that it has not waited for, or
 * everything, or what it gave to the device last done first; what CUDA orders is kept.
 * Polling gets somewhere: when no new operation has come for a number of points, each
 * point runs one.
 *
 * A wait that nothing on the device can end leaves the turn to another host thread. When
 * there is none, only time may help: a thread that sleeps, another process. After
 * CUDASIM_HANG milliseconds in which nothing has moved the wait is declared a hang.
 *
 * Owns:  nothing of its own.   Lock: sim_hostile_lock.
 * Design: docs/simulator.md, "Two schedules"
 */
#include <time.h>

#include "config.h"
#include "hosts.h"
#include "order.h"
#include "stream.h"
#include "thread.h"

#define HANG_MS     3000
#define MOST_QUEUED 4096 /* a program that never waits is held up beyond that */
#define REST_NS     1000000

/* ---- coming in ----------------------------------------------------------------------
 */

/* Nobody may be cancelled while it waits for its turn: the turn would end with it. */
static int come_in(void)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    sim_hosts_in();
    return before;
}

static void go_out(int before)
{
    sim_hosts_out();
    pthread_setcancelstate(before, NULL);
}

/* ---- points -------------------------------------------------------------------------
 */

/* The program asks and asks, and gives the device nothing new to do. */
static bool is_polled(void)
{
    return sim_device_pending() > 0 &&
           sim_hosts_points() - sim_device_last_enqueue() > sim_temper.patience;
}

/* How many operations a point may run. */
static unsigned budget(void)
{
    unsigned pending = sim_device_pending();
    unsigned count = 0;

    if (pending == 0)
        return 0;
    if (sim_temper.act > 0 && sim_dice_yes(SIM_DICE_CALLS, sim_temper.act))
        count = 1 + sim_dice_below(SIM_DICE_CALLS, sim_temper.burst);
    else if (is_polled() || sim_device_is_overdue())
        count = 1;
    if (pending > MOST_QUEUED && count < pending - MOST_QUEUED)
        count = pending - MOST_QUEUED;
    return count;
}

static void act(void)
{
    sim_hosts_settle_all(false);
    sim_device_acquire();
    sim_device_reap();
    for (unsigned left = budget(); left > 0; left--) {
        if (!sim_device_step(SIM_DICE_CALLS, NULL))
            break;
    }
    sim_device_release();
    sim_hosts_change(NULL);
    sim_hosts_set_gap(is_polled() ? 0
                                  : sim_dice_below(SIM_DICE_CALLS, sim_temper.most_gap));
}

static void point(void)
{
    if (GS_LIKELY(!sim_device_is_awaiting() && sim_hosts_goes_on()) ||
        sim_in_host_function())
        return;
    int before = come_in();
    sim_hosts_settle();
    sim_device_ask();
    if (sim_hosts_gap() == 0)
        act();
    else
        sim_hosts_set_gap(sim_hosts_gap() - 1);
    go_out(before);
}

/* ---- waits --------------------------------------------------------------------------
 */

/* How much longer a wait may stand while another thread runs: it may end the wait yet,
 * but one that polls or spins for ever must not hide a hang. The same while one sleeps
 * that goes on by itself. */
#define PATIENCE       10
#define SLEEP_PATIENCE 20

/* And that many looks must agree: a thread that has just ended the wait, and is gone, may
 * have come between two of them, far apart where the machine is busy. */
#define QUIET_LOOKS 4

/* A wait that cannot go on: since when, and how long it may. */
struct standstill {
    uint64_t since_ns; /* 0: it goes on */
    uint64_t until_ns;
    uint64_t moves; /* of the device, then */
    unsigned quiet; /* looks since then that found nobody who may end it */
};

static void declare_hang(struct sim_op *awaited)
{
    struct sim_op *culprit = sim_device_culprit(awaited);

    pthread_mutex_unlock(&sim_hostile_lock);
    sim_liveness_hang(awaited, culprit);
}

/* Somebody was seen who may end it: he has the time of a hang from now on, but not for
 * ever. */
static void extend(struct standstill *still, uint64_t now, unsigned patience,
                   uint64_t hang_ns)
{
    uint64_t last = still->since_ns + patience * hang_ns;
    uint64_t until = now + hang_ns < last ? now + hang_ns : last;

    if (still->until_ns < until)
        still->until_ns = until;
}

/* Has it stood for so long that nothing will come? busy: another thread runs. */
static bool is_hang(struct standstill *still, bool busy)
{
    uint64_t hang_ms = sim_config()->hang_ms ? sim_config()->hang_ms : HANG_MS;
    uint64_t hang_ns = hang_ms * 1000000, now = sim_now_ns();

    if (still->since_ns == 0 || still->moves != sim_device_moves()) {
        *still = (struct standstill){now, now + hang_ns, sim_device_moves(), 0};
        return false;
    }
    if (busy)
        extend(still, now, PATIENCE, hang_ns);
    if (now - still->since_ns > hang_ns / 2 && sim_hosts_wake_by_themselves())
        extend(still, now, SLEEP_PATIENCE, hang_ns);
    still->quiet = now > still->until_ns ? still->quiet + 1 : 0;
    return still->quiet >= QUIET_LOOKS;
}

/* Nothing on the device can run: somebody else must do something, or time must. */
static void stand(struct standstill *still, struct sim_op *awaited)
{
    sim_hosts_settle_all(true);
    if (sim_op_done(awaited))
        return;
    bool gave_way = sim_hosts_give_way(awaited);
    if (sim_op_done(awaited))
        return;
    if (is_hang(still, gave_way || sim_tasks_any_runs()))
        declare_hang(awaited);
    if (!gave_way)
        sim_hosts_rest(REST_NS);
}

/* Run one operation, maybe one that is not needed first. */
static bool go_on(struct sim_op *awaited)
{
    bool any;

    sim_device_acquire();
    any = sim_device_reap();
    if (sim_temper.greed > 0 && sim_dice_yes(SIM_DICE_CALLS, sim_temper.greed))
        awaited = NULL;
    any |= sim_device_step(SIM_DICE_CALLS, awaited);
    sim_device_release();
    return any;
}

static void wait(struct sim_op *op)
{
    struct standstill still = {0};
    int before = come_in();

    sim_hosts_settle_all(false);
    sim_hosts_change(op);
    while (!sim_op_done(op)) {
        if (go_on(op))
            still.since_ns = 0;
        else
            stand(&still, op);
    }
    go_out(before);
}

/* ---- streams ------------------------------------------------------------------------
 */

static void init(struct sim_queue *queue)
{
    (void)queue;
}

static CUresult prepare(struct sim_stream *stream)
{
    struct sim_queue *queue = &stream->queue;

    pthread_mutex_lock(&sim_hostile_lock);
    bool closed = queue->closing && !queue->head;
    pthread_mutex_unlock(&sim_hostile_lock);
    if (closed)
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_watch_start() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void enqueue(struct sim_stream *stream, struct sim_op *op)
{
    sim_op_ref(op);
    pthread_mutex_lock(&sim_hostile_lock);
    sim_device_enqueue(stream, op);
    pthread_mutex_unlock(&sim_hostile_lock);
}

static void close_queue(struct sim_stream *stream)
{
    struct sim_queue *queue = &stream->queue;

    pthread_mutex_lock(&sim_hostile_lock);
    queue->closing = true;
    bool drained = !queue->head && !queue->drained;
    queue->drained |= drained;
    pthread_mutex_unlock(&sim_hostile_lock);
    if (drained)
        sim_stream_drained(stream);
}

const struct sim_scheduler sim_sched_hostile = {
    .init = init,
    .destroy = init, /* nothing to make, nothing to end */
    .prepare = prepare,
    .enqueue = enqueue,
    .wait = wait,
    .help = wait,
    .close = close_queue,
    .point = point,
    .spin = sim_device_spin,
};
