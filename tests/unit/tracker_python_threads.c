/*
 * tracker_python_threads.c - threads that are left when the interpreter has ended:
 * whether the mutex they have to take is held, over an interpreter made of plain memory.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "tracker/python/python.h"

#define FINALIZING 16
#define TURN       432

static _Alignas(16) unsigned char runtime[1024];
static void *first; /* interpreter */

static void *first_interpreter(void)
{
    return first;
}

static pthread_mutex_t *turn(void)
{
    return (pthread_mutex_t *)(void *)(runtime + TURN);
}

/* As 3.10's stands when Py_FinalizeEx has returned. */
static struct gs_python_symbols ended(void)
{
    uintptr_t ending = 0x1000;
    memcpy(runtime + FINALIZING, &ending, sizeof(ending));
    cr_assert_eq(pthread_mutex_init(turn(), NULL), 0);
    first = NULL;
    return (struct gs_python_symbols){
        .version = 0x030a0df0, .runtime = runtime, .interpreters = first_interpreter};
}

static void *try_turn(void *arg)
{
    int *answer = arg;
    *answer = pthread_mutex_trylock(turn());
    if (*answer == 0) {
        pthread_mutex_unlock(turn());
    }
    return NULL;
}

static bool free_for_others(void)
{
    int answer = -1;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, try_turn, &answer), 0);
    pthread_join(thread, NULL);
    return answer == 0;
}

Test(python_threads, those_of_an_ended_interpreter_are_held)
{
    struct gs_python_symbols symbols = ended();
    cr_assert(free_for_others());
    cr_assert(gs_python_hold_threads(&symbols));
    cr_assert_not(free_for_others());
}

Test(python_threads, a_living_interpreter_is_left_alone)
{
    struct gs_python_symbols symbols = ended();
    first = runtime;
    cr_assert_not(gs_python_hold_threads(&symbols));
    cr_assert(free_for_others());
}

Test(python_threads, one_that_never_began_is_left_alone)
{
    struct gs_python_symbols symbols = ended();
    memset(runtime + FINALIZING, 0, sizeof(void *));
    cr_assert_not(gs_python_hold_threads(&symbols));
    cr_assert(free_for_others());
}

Test(python_threads, other_versions_are_left_alone)
{
    struct gs_python_symbols symbols = ended();
    static const unsigned versions[] = {0,          0x030809f0, 0x030912f0, 0x030a0dc1,
                                        0x030b07f0, 0x030c01f0, 0x030d00f0, 0x040a00f0};
    for (size_t i = 0; i < GS_ARRAY_LEN(versions); i++) {
        symbols.version = versions[i];
        cr_assert_not(gs_python_hold_threads(&symbols), "%#x", versions[i]);
        cr_assert(free_for_others());
    }
    symbols.version = 0x030a0df0;
    symbols.interpreters = NULL;
    cr_assert_not(gs_python_hold_threads(&symbols));
    cr_assert(free_for_others());
}

/* Whoever has it may not come to give it back: the end of the process does not wait. */
Test(python_threads, a_mutex_that_is_never_given_back_is_not_waited_for, .timeout = 20)
{
    struct gs_python_symbols symbols = ended();
    cr_assert_eq(pthread_mutex_lock(turn()), 0);
    cr_assert_not(gs_python_hold_threads(&symbols));
}
