/*
 * shim_thread_value.c - proves that a thread's value which another thread has set is the
 * thread's own: it can be read, its key's destructor runs when the thread ends, and values
 * of other keys stay.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/settings/thread_value.h"

#define KEYS 100

static pthread_key_t keys[KEYS];
static int values[KEYS];
static int destroyed; /* values */

static void destroy(void *value)
{
    destroyed += value != NULL;
}

/* Values of keys in several blocks, of which the thread has only some. */
static void *set_values(void *unused)
{
    for (int i = 1; i < KEYS; i += 2) {
        if (!gs_thread_value_set(getpid(), keys[i], &values[i]) ||
            pthread_getspecific(keys[i])) {
            _exit(1);
        }
    }
    return unused;
}

/* In the second round of destructors, after those of all other values. */
static void end(void *unused)
{
    static int turns;
    (void)unused;
    if (turns++ == 0) {
        (void)pthread_setspecific(keys[0], &values[0]);
        return;
    }
    _exit(destroyed == KEYS / 2 ? 0 : 3);
}

/* In the first thread of a process. */
static void take_values(void)
{
    pthread_t other;
    for (int i = 0; i < KEYS; i++) {
        if (pthread_key_create(&keys[i], i == 0 ? end : i % 2 ? destroy : NULL) != 0) {
            _exit(4);
        }
    }
    for (int i = 0; i < 4; i += 2) {
        (void)pthread_setspecific(keys[i], &values[i]);
    }
    (void)pthread_create(&other, NULL, set_values, NULL);
    (void)pthread_join(other, NULL);
    for (int i = 0; i < KEYS; i++) {
        void *wanted = i % 2 || i < 4 ? &values[i] : NULL;
        if (pthread_getspecific(keys[i]) != wanted) {
            _exit(2);
        }
    }
    pthread_exit(NULL);
}

/* Alone sees a value that its thread's end does not find. */
Test(thread_value, is_the_threads_own)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        take_values();
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "status %#x", status);
}

static void *set_late(void *first)
{
    (void)pthread_join(*(pthread_t *)first, NULL);
    _exit(gs_thread_value_set(getpid(), keys[0], &values[0]) ? 1 : 0);
}

/* Alone sees words written of a thread that has ended. */
Test(thread_value, is_not_set_once_the_thread_has_ended)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        static pthread_t first; /* its stack may be in use for its end */
        pthread_t late;
        first = pthread_self();
        (void)pthread_key_create(&keys[0], NULL);
        (void)pthread_create(&late, NULL, set_late, &first);
        pthread_exit(NULL);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "status %#x", status);
}
