/*
 * own_thread.c - threads of the library's own.
 * Owns: nothing.   Lock: none.
 */
#include "own_thread.h"

#include <pthread.h>
#include <signal.h>

#define STACK_BYTES (1u << 20)

bool gs_own_thread(void *(*body)(void *))
{
    sigset_t all, was;
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &was);
    bool started = pthread_create(&thread, &attributes, body, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
    (void)pthread_attr_destroy(&attributes);
    return started;
}
