/*
 * user_object.c - user objects and the thread that runs their destructors.
 * Owns:  the list of objects to destroy and the thread.   Lock: ended_lock.
 */
#include "user_object.h"

#include <signal.h>
#include <stdlib.h>

static struct sim_user_object *ended; /* ended_lock; in the order they ended */
static bool has_thread;               /* ended_lock */
static pthread_mutex_t ended_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more_ended = PTHREAD_COND_INITIALIZER;

struct sim_user_object *sim_user_object_get(CUuserObject handle)
{
    return (struct sim_user_object *)sim_handle_get(handle, SIM_TYPE_USER_OBJECT);
}

static struct sim_user_object *next_ended(void)
{
    pthread_mutex_lock(&ended_lock);
    while (!ended)
        pthread_cond_wait(&more_ended, &ended_lock);
    struct sim_user_object *user = ended;
    ended = user->next;
    pthread_mutex_unlock(&ended_lock);
    return user;
}

/* Destructors may call nothing, as host functions. */
static void *run_destructors(void *argument)
{
    sim_set_in_host_function(true);
    for (;;) {
        struct sim_user_object *user = next_ended();
        user->destructor(user->data);
        sim_object_unref(&user->object);
    }
    return argument;
}

/* A detached thread that no signal of the program is delivered to. */
static bool start_thread(void)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, &attributes, run_destructors, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

/* Have the destructor run; takes over a reference. */
static void end(struct sim_user_object *user)
{
    struct sim_user_object **link = &ended;

    pthread_mutex_lock(&ended_lock);
    while (*link)
        link = &(*link)->next;
    user->next = NULL;
    *link = user;
    if (!has_thread)
        has_thread = start_thread();
    pthread_cond_signal(&more_ended);
    pthread_mutex_unlock(&ended_lock);
}

void sim_user_object_retain(struct sim_user_object *user, unsigned count)
{
    atomic_fetch_add_explicit(&user->count, count, memory_order_relaxed);
}

void sim_user_object_release(struct sim_user_object *user, unsigned count)
{
    unsigned before =
        atomic_fetch_sub_explicit(&user->count, count, memory_order_acq_rel);

    if (before != count)
        return;
    struct sim_object *closed =
        sim_handle_close(user->object.handle, SIM_TYPE_USER_OBJECT);
    if (closed)
        end((struct sim_user_object *)closed);
}

/* ---- lists ------------------------------------------------------------------------ */

bool sim_held_add(struct sim_held **list, struct sim_user_object *user, unsigned count)
{
    struct sim_held *held = *list;

    while (held && held->object != user)
        held = held->next;
    if (!held) {
        held = calloc(1, sizeof(*held));
        if (!held)
            return false;
        sim_object_ref(&user->object);
        held->object = user;
        held->next = *list;
        *list = held;
    }
    held->count += count;
    return true;
}

static void drop(struct sim_held *held, unsigned count)
{
    sim_user_object_release(held->object, count);
    held->count -= count;
}

bool sim_held_remove(struct sim_held **list, struct sim_user_object *user, unsigned count)
{
    while (*list && (*list)->object != user)
        list = &(*list)->next;
    struct sim_held *held = *list;
    if (!held || held->count < count)
        return false;
    drop(held, count);
    if (held->count == 0) {
        *list = held->next;
        sim_object_unref(&held->object->object);
        free(held);
    }
    return true;
}

bool sim_held_copy(const struct sim_held *from, struct sim_held **to)
{
    for (; from; from = from->next) {
        sim_user_object_retain(from->object, 1);
        if (!sim_held_add(to, from->object, 1)) {
            sim_user_object_release(from->object, 1);
            return false;
        }
    }
    return true;
}

void sim_held_release(struct sim_held **list)
{
    while (*list) {
        struct sim_held *held = *list;
        *list = held->next;
        drop(held, held->count);
        sim_object_unref(&held->object->object);
        free(held);
    }
}
