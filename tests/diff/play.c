/*
 * play.c - plays a list: real threads, of one process or two, that a baton passes
 * through, so that the order of the list is the order of the calls. In a list that runs
 * freely each thread of the first process plays its own operations, in a world of its
 * own.
 *
 * Owns: the stage, in memory that both processes share. Whoever has the baton has it.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "do.h"

enum { MAIN, OTHER = DIFF_THREADS, HANDS, STOP = UINT32_MAX };

struct stage {
    struct diff_world worlds[DIFF_THREADS];
    sem_t go[HANDS], done;
    unsigned now; /* the operation, or STOP */
    unsigned *progress;
    const struct diff_list *list;
    struct diff_answers *answers;
};

struct hand {
    pthread_t thread;
    struct stage *stage;
    unsigned process, number; /* of the thread */
    bool begun;
};

typedef void do_function(struct diff_call *call);
static do_function *const functions[DIFF_KINDS] = {
#define DIFF_OP(name, group, weight, arguments, what) diff_do_##name,
#include "ops.def"
#undef DIFF_OP
};

static struct diff_world *world_of(struct stage *stage, unsigned thread)
{
    return &stage->worlds[stage->list->free ? thread : 0];
}

static bool has(const struct diff_list *list, enum diff_group group)
{
    for (unsigned i = 0; i < list->count; i++)
        if (diff_rows[list->ops[i].kind].group == group)
            return true;
    return false;
}

/* The process's first use of CUDA: both primary contexts. */
static void begin_process(struct stage *stage, unsigned process)
{
    int devices = 0;

    if (has(stage->list, DIFF_GROUP_runtime))
        diff_runtime_load((enum diff_way)stage->list->way);
    if (!diff_calls_load((enum diff_way)stage->list->way) ||
        CU(cuInit)(0) != CUDA_SUCCESS || CU(cuDeviceGetCount)(&devices) != CUDA_SUCCESS)
        return;
    for (int i = 0; i < devices && i < 2; i++) {
        CUcontext context = NULL;

        if (CU(cuDevicePrimaryCtxRetain)(&context, i) != CUDA_SUCCESS)
            return;
        for (unsigned j = 0; j < DIFF_THREADS; j++) {
            struct diff_slot *slot =
                &stage->worlds[j].slots[DIFF_CTX][process * 2 + (unsigned)i];

            slot->state = DIFF_LIVE;
            slot->process = (uint8_t)process;
            slot->ctx = (uint8_t)(process * 2 + (unsigned)i);
            slot->device = (uint8_t)i;
            slot->value = (uint64_t)(uintptr_t)context;
            slot->bytes = 1;
        }
    }
}

static void begin_thread(struct hand *hand)
{
    unsigned device = hand->number % hand->stage->list->devices % 2;

    (void)CU(cuCtxSetCurrent)((CUcontext)(uintptr_t)world_of(hand->stage, hand->number)
                                  ->slots[DIFF_CTX][hand->process * 2 + device]
                                  .value);
    hand->begun = true;
}

static void play_op(struct hand *hand, unsigned index)
{
    struct stage *stage = hand->stage;
    const struct diff_op *op = &stage->list->ops[index];
    struct diff_call call = {.world = world_of(stage, hand->number),
                             .list = stage->list,
                             .op = op,
                             .line = stage->answers->lines[index]};

    if (!hand->begun)
        begin_thread(hand);
    diff_find_context(&call);
    functions[op->kind](&call);
}

/* A thread that waits for the baton. */
static void *take_turns(void *argument)
{
    struct hand *hand = argument;
    struct stage *stage = hand->stage;
    unsigned number = hand->process ? OTHER : hand->number;

    for (;;) {
        while (sem_wait(&stage->go[number]) != 0)
            ;
        if (stage->now == STOP)
            return NULL;
        play_op(hand, stage->now);
        sem_post(&stage->done);
    }
}

static void *run_freely(void *argument)
{
    struct hand *hand = argument;
    const struct diff_list *list = hand->stage->list;

    for (unsigned i = 0; i < list->count; i++)
        if (list->ops[i].thread == hand->number)
            play_op(hand, i);
    return NULL;
}

static bool uses(const struct diff_list *list, unsigned process, unsigned thread)
{
    for (unsigned i = 0; i < list->count; i++)
        if (list->ops[i].process == process && list->ops[i].thread == thread)
            return true;
    return false;
}

/* The second process: its one thread. */
static pid_t start_process(struct stage *stage)
{
    pid_t child = fork();

    if (child == 0) {
        struct hand hand = {.stage = stage, .process = 1};

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        begin_process(stage, 1);
        sem_post(&stage->done);
        take_turns(&hand);
        _exit(0);
    }
    while (child > 0 && sem_wait(&stage->done) != 0)
        ;
    return child;
}

static void pass_baton(struct stage *stage, struct hand *hands)
{
    for (unsigned i = 0; i < stage->list->count; i++) {
        const struct diff_op *op = &stage->list->ops[i];

        *stage->progress = i;
        if (op->process == 0 && op->thread == 0) {
            play_op(&hands[0], i);
            continue;
        }
        stage->now = i;
        sem_post(&stage->go[op->process ? OTHER : op->thread]);
        while (sem_wait(&stage->done) != 0)
            ;
    }
    *stage->progress = stage->list->count;
}

static struct stage *set_up(const struct diff_list *list, struct diff_answers *answers,
                            unsigned *progress)
{
    struct stage *stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (stage == MAP_FAILED)
        return NULL;
    stage->list = list;
    stage->answers = answers;
    stage->progress = progress;
    for (unsigned i = 0; i < HANDS; i++)
        sem_init(&stage->go[i], 1, 0);
    sem_init(&stage->done, 1, 0);
    for (unsigned i = 0; i < DIFF_THREADS; i++) {
        stage->worlds[i].captures = has(list, DIFF_GROUP_capture);
        /* While a stream captures a free waits for nothing under the library. */
        stage->worlds[i].lean = list->lean && !stage->worlds[i].captures;
        stage->worlds[i].ends =
            has(list, DIFF_GROUP_contexts) || has(list, DIFF_GROUP_primary);
        stage->worlds[i].pools =
            has(list, DIFF_GROUP_async) || has(list, DIFF_GROUP_pools) ||
            has(list, DIFF_GROUP_runtime) || has(list, DIFF_GROUP_nodes);
    }
    return stage;
}

void diff_play(const struct diff_list *list, struct diff_answers *shared,
               unsigned *progress)
{
    struct stage *stage = set_up(list, shared, progress);
    struct hand hands[DIFF_THREADS];
    pid_t other = 0;

    if (!stage)
        return;
    if (uses(list, 1, 0) && !list->free)
        other = start_process(stage);
    begin_process(stage, 0);
    for (unsigned i = 0; i < DIFF_THREADS; i++) {
        hands[i] = (struct hand){.stage = stage, .number = i};
        if (i > 0 && uses(list, 0, i) &&
            pthread_create(&hands[i].thread, NULL, list->free ? run_freely : take_turns,
                           &hands[i]) != 0)
            return;
    }
    if (list->free)
        run_freely(&hands[0]);
    else
        pass_baton(stage, hands);
    stage->now = STOP;
    for (unsigned i = 1; i < HANDS; i++)
        sem_post(&stage->go[i]);
    for (unsigned i = 1; i < DIFF_THREADS; i++)
        if (uses(list, 0, i))
            pthread_join(hands[i].thread, NULL);
    *progress = list->count;
    if (other > 0)
        waitpid(other, NULL, 0);
}
