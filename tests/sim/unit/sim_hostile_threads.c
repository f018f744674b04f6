/*
 * sim_hostile_threads.c - proves how the hostile scheduler treats host threads: one runs
 * at a time, in turns that replay, also with ordinary locks; a thread that sleeps outside
 * the driver stops nobody; host functions may wait for host threads; a device works by
 * itself.
 */
#include "sim_hostile_helpers.h"

#include <sched.h>

struct team {
    struct trace *trace;
    CUcontext context;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_barrier_t barrier;
    unsigned turn;
    unsigned members;
    CUevent event;
    CUdeviceptr block;
};

struct member {
    struct team *team;
    unsigned number;
    pthread_t thread;
};

static void team_make(struct team *team, struct trace *trace, unsigned members)
{
    hostile_start();
    *team = (struct team){.trace = trace, .members = members};
    good(cuCtxGetCurrent(&team->context));
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->changed, NULL);
    pthread_barrier_init(&team->barrier, NULL, members);
    good(cuMemAlloc(&team->block, 4096));
    good(cuEventCreate(&team->event, CU_EVENT_DISABLE_TIMING));
}

static void team_run(struct team *team, void *(*work)(void *member))
{
    struct member members[8];

    for (unsigned i = 0; i < team->members; i++) {
        members[i] = (struct member){.team = team, .number = i};
        need(pthread_create(&members[i].thread, NULL, work, &members[i]) == 0);
    }
    for (unsigned i = 0; i < team->members; i++)
        need(pthread_join(members[i].thread, NULL) == 0);
    good(cuCtxSynchronize());
}

/* Only the turns keep this from being a race. */
static void say(struct member *member, uint32_t what)
{
    trace_add(member->team->trace, member->number * 1000 + what);
}

static void *free_runner(void *argument)
{
    struct member *member = argument;
    CUstream stream;

    good(cuCtxSetCurrent(member->team->context));
    good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 0; i < 40; i++) {
        good(cuMemsetD32Async(member->team->block, i, 1, stream));
        say(member, i);
        if (i % 8 == 7)
            good(cuStreamSynchronize(stream));
    }
    return NULL;
}

static void free_program(struct trace *trace)
{
    struct team team;

    team_make(&team, trace, 3);
    team_run(&team, free_runner);
}

Test(sim_hostile_threads, take_turns_that_replay)
{
    hostile_replays(free_program, 20);
    cr_assert_geq(hostile_variety(free_program, 20), 12);
}

static void *lock_user(void *argument)
{
    struct member *member = argument;
    struct team *team = member->team;

    good(cuCtxSetCurrent(team->context));
    for (uint32_t i = 0; i < 30; i++) {
        pthread_mutex_lock(&team->lock);
        good(cuMemsetD32Async(team->block, i, 1, CU_STREAM_PER_THREAD));
        say(member, i);
        good(cuEventRecord(team->event, CU_STREAM_PER_THREAD));
        pthread_mutex_unlock(&team->lock);
        trace_add(team->trace, (uint32_t)cuEventQuery(team->event));
    }
    return NULL;
}

static void lock_program(struct trace *trace)
{
    struct team team;

    team_make(&team, trace, 2);
    team_run(&team, lock_user);
}

Test(sim_hostile_threads, replay_with_a_mutex, .timeout = 120)
{
    hostile_replays(lock_program, 12);
}

static void *condition_user(void *argument)
{
    struct member *member = argument;
    struct team *team = member->team;

    good(cuCtxSetCurrent(team->context));
    for (uint32_t i = 0; i < 25; i++) {
        pthread_mutex_lock(&team->lock);
        while (team->turn % team->members != member->number)
            pthread_cond_wait(&team->changed, &team->lock);
        good(cuMemsetD32Async(team->block, i, 1, CU_STREAM_PER_THREAD));
        say(member, i);
        team->turn++;
        pthread_cond_broadcast(&team->changed);
        pthread_mutex_unlock(&team->lock);
        for (unsigned j = 0; j < 3; j++) {
            good(cuMemsetD32Async(team->block, i, 1, CU_STREAM_PER_THREAD));
            say(member, 100 + i);
        }
        trace_add(team->trace, (uint32_t)cuStreamQuery(CU_STREAM_PER_THREAD));
    }
    return NULL;
}

static void condition_program(struct trace *trace)
{
    struct team team;

    team_make(&team, trace, 2);
    team_run(&team, condition_user);
    need(team.turn == 50);
}

Test(sim_hostile_threads, replay_with_a_condition_variable, .timeout = 120)
{
    hostile_replays(condition_program, 12);
    cr_assert_geq(hostile_variety(condition_program, 8), 4);
}

static void *barrier_user(void *argument)
{
    struct member *member = argument;

    good(cuCtxSetCurrent(member->team->context));
    for (uint32_t i = 0; i < 20; i++) {
        good(cuMemsetD32Async(member->team->block, i, 1, CU_STREAM_PER_THREAD));
        say(member, i);
        pthread_barrier_wait(&member->team->barrier);
        good(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }
    return NULL;
}

static void barrier_program(struct trace *trace)
{
    struct team team;

    team_make(&team, trace, 4);
    team_run(&team, barrier_user);
    need(trace->count == 80);
    for (unsigned i = 0; i < 80; i++)
        need(trace->values[i] % 1000 == i / 4);
}

Test(sim_hostile_threads, pass_barriers, .timeout = 120)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 10; seed++)
        hostile_run(barrier_program, seed, trace);
}

/* Neither makes a driver call while it waits for the other one. */
static void *spinner(void *argument)
{
    struct member *member = argument;

    good(cuCtxSetCurrent(member->team->context));
    for (unsigned i = 0; i < 4; i++) {
        while (__atomic_load_n(&member->team->turn, __ATOMIC_ACQUIRE) % 2 !=
               member->number)
            ;
        good(cuMemsetD32Async(member->team->block, i, 1, CU_STREAM_PER_THREAD));
        __atomic_add_fetch(&member->team->turn, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void spinning_program(struct trace *trace)
{
    struct team team;

    team_make(&team, trace, 2);
    team_run(&team, spinner);
    need(team.turn == 8);
}

Test(sim_hostile_threads, may_spin_for_each_other, .timeout = 120)
{
    hostile_run(spinning_program, 3, trace_new());
}

static void *calls_nothing(void *argument)
{
    pthread_barrier_wait(argument); /* never opens: one is missing */
    return NULL;
}

static void *computes(void *argument)
{
    for (;;)
        __atomic_add_fetch((unsigned *)argument, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void strangers_program(struct trace *trace)
{
    pthread_barrier_t never;
    unsigned count = 0;
    pthread_t thread;
    struct ticks ticks;

    hostile_start();
    pthread_barrier_init(&never, NULL, 9);
    for (unsigned i = 0; i < 4; i++)
        need(pthread_create(&thread, NULL, calls_nothing, &never) == 0);
    need(pthread_create(&thread, NULL, computes, &count) == 0);
    ticks_make(&ticks);
    for (unsigned i = 0; i < 200; i++)
        ticks_queue(&ticks, i % 2 ? NULL : CU_STREAM_PER_THREAD);
    ticks_trace(&ticks, trace);
    need(trace->count == 200);
    _exit(0); /* while they go on */
}

Test(sim_hostile_threads, that_call_nothing_hang_nothing, .timeout = 120)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 4; seed++)
        hostile_run(strangers_program, seed, trace);
}

static void *short_life(void *argument)
{
    struct member *member = argument;

    good(cuCtxSetCurrent(member->team->context));
    good(cuMemsetD32Async(member->team->block, 1, 1, CU_STREAM_PER_THREAD));
    say(member, 0);
    return NULL; /* its stream still has work */
}

static void lives_program(struct trace *trace)
{
    struct team team;

    team_make(&team, trace, 4);
    for (unsigned i = 0; i < 12; i++)
        team_run(&team, short_life);
    need(trace->count == 48);
}

Test(sim_hostile_threads, come_and_go, .timeout = 120)
{
    hostile_replays(lives_program, 6);
}

/* ---- host functions -------------------------------------------------------------------
 */

struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool arrived, released;
};

static void meet(void *argument)
{
    struct meeting *meeting = argument;

    pthread_mutex_lock(&meeting->lock);
    meeting->arrived = true;
    pthread_cond_broadcast(&meeting->changed);
    while (!meeting->released)
        pthread_cond_wait(&meeting->changed, &meeting->lock);
    pthread_mutex_unlock(&meeting->lock);
}

static void meeting_program(struct trace *trace)
{
    struct meeting meeting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false,
                              false};
    struct ticks ticks;
    CUstream stream, other;
    uint32_t found[MOST_TICKS];

    hostile_start();
    ticks_make(&ticks);
    good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    good(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    ticks_queue(&ticks, stream);
    good(cuLaunchHostFunc(stream, meet, &meeting));
    ticks_queue(&ticks, stream);
    for (unsigned i = 0; i < 20; i++)
        ticks_queue(&ticks, other);
    good(cuStreamSynchronize(other)); /* the device goes on beside it */
    need(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    pthread_mutex_lock(&meeting.lock); /* outside the driver: the device comes to it */
    while (!meeting.arrived)
        pthread_cond_wait(&meeting.changed, &meeting.lock);
    meeting.released = true;
    pthread_cond_broadcast(&meeting.changed);
    pthread_mutex_unlock(&meeting.lock);
    ticks_read(&ticks, found);
    need(found[1] > found[0]);
    ticks_trace(&ticks, trace);
}

Test(sim_hostile_threads, may_be_waited_for_by_host_functions, .timeout = 120)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 20; seed++)
        hostile_run(meeting_program, seed, trace);
}

/* ---- the device by itself -------------------------------------------------------------
 */

static void *opens(void *argument)
{
    CUstream stream;
    struct member *member = argument;

    good(cuCtxSetCurrent(member->team->context));
    good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    good(cuMemsetD32Async(member->team->block, 1, 1, stream));
    good(cuStreamSynchronize(stream));
    good(cuStreamDestroy(stream));
    __atomic_store_n((uint32_t *)(uintptr_t)member->team->block, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* A kernel that runs until another thread, which waits for its turn, ends it. */
static void persistent_program(struct trace *trace)
{
    struct team team;
    struct member member = {.team = &team};
    uint32_t *flag;
    CUstream stream;

    team_make(&team, trace, 1);
    good(cuMemHostAlloc((void **)&flag, 4, CU_MEMHOSTALLOC_PORTABLE));
    *flag = 0;
    team.block = (CUdeviceptr)(uintptr_t)flag;
    CUdeviceptr word = team.block;
    void *params[] = {&word};
    CUfunction wait = hostile_kernel("gs_wait");
    good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    good(sim_test_launch(wait, stream, params));
    need(pthread_create(&member.thread, NULL, opens, &member) == 0);
    good(cuStreamSynchronize(stream));
    need(__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 1);
    need(pthread_join(member.thread, NULL) == 0);
}

Test(sim_hostile_threads, end_persistent_kernels, .timeout = 120)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 20; seed++)
        hostile_run(persistent_program, seed, trace);
}

static void spins_for_the_device(struct trace *trace)
{
    uint32_t *word;
    CUstream stream;

    hostile_start();
    good(cuMemHostAlloc((void **)&word, 4, CU_MEMHOSTALLOC_PORTABLE));
    good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    *word = 0;
    for (uint32_t i = 1; i <= 100; i++)
        good(cuStreamWriteValue32(stream, (CUdeviceptr)(uintptr_t)word, i, 0));
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 100)
        ;
    for (uint32_t i = 101; i <= 200; i++)
        good(cuStreamWriteValue32(stream, (CUdeviceptr)(uintptr_t)word, i, 0));
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 200)
        sim_test_sleep_ms(1);
    trace_add(trace, 1);
}

Test(sim_hostile, works_while_the_program_spins_or_sleeps, .timeout = 120)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 10; seed++)
        hostile_run(spins_for_the_device, seed, trace);
}

static void *leaves_work(void *argument)
{
    struct member *member = argument;
    CUstream stream;

    good(cuCtxSetCurrent(member->team->context));
    good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 1; i <= 100; i++)
        good(cuStreamWriteValue32(stream, member->team->block, i, 0));
    return NULL;
}

static void left_program(struct trace *trace)
{
    struct team team;
    uint32_t *word;

    team_make(&team, trace, 1);
    good(cuMemHostAlloc((void **)&word, 4, CU_MEMHOSTALLOC_PORTABLE));
    *word = 0;
    team.block = (CUdeviceptr)(uintptr_t)word;
    struct member member = {.team = &team};
    need(pthread_create(&member.thread, NULL, leaves_work, &member) == 0);
    need(pthread_join(member.thread, NULL) == 0);
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 100)
        sched_yield();
}

Test(sim_hostile_threads, leave_work_behind, .timeout = 120)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 6; seed++)
        hostile_run(left_program, seed, trace);
}

/* ---- processes ------------------------------------------------------------------------
 */

static void fork_program(struct trace *trace)
{
    int status;
    struct ticks ticks;
    pid_t child = fork(); /* of a process that has not called the driver */

    if (child == 0) {
        hostile_start();
        ticks_make(&ticks);
        ticks_queue(&ticks, NULL);
        ticks_trace(&ticks, trace);
        _exit(trace->values[0] == 1 ? 0 : 1);
    }
    need(waitpid(child, &status, 0) == child && status == 0);
    hostile_start();
    ticks_make(&ticks);
    for (unsigned i = 0; i < 10; i++)
        ticks_queue(&ticks, NULL);
    child = fork();
    if (child == 0) {
        size_t left, total;
        need(cuMemGetInfo(&left, &total) == CUDA_ERROR_NOT_INITIALIZED);
        need(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED);
        pthread_exit(NULL); /* by way of the destructors */
    }
    need(waitpid(child, &status, 0) == child && status == 0);
    ticks_trace(&ticks, trace);
    need(trace->count == 11);
}

Test(sim_hostile, knows_forked_children, .timeout = 120)
{
    hostile_run(fork_program, 0, trace_new());
    hostile_run(fork_program, 4, trace_new());
}
