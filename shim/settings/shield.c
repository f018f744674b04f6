/*
 * shield.c - protects the host from side effects of writing.
 * Owns:  nothing.   Lock: none.
 */
#include "shield.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

/* The signals that write(2) raises: SIGPIPE and SIGXFSZ end the process by default;
 * SIGTTOU stops a background process of a terminal with `stty tostop`. While SIGTTOU is
 * blocked, the write succeeds and raises nothing. */
static void held_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGPIPE);
    sigaddset(set, SIGXFSZ);
    sigaddset(set, SIGTTOU);
}

void gs_shield_raise(struct gs_shield *shield)
{
    sigset_t held;

    shield->saved_errno = errno;
    shield->signal_raised = false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &shield->cancel_state);
    held_signals(&held);
    pthread_sigmask(SIG_BLOCK, &held, &shield->mask);
    sigpending(&shield->pending);
}

void gs_shield_lower(struct gs_shield *shield)
{
    if (shield->signal_raised) {
        const struct timespec no_wait = {0, 0};
        sigset_t ours;

        /* Signals that were pending before are the program's own and stay pending. */
        held_signals(&ours);
        sigdelset(&ours, SIGTTOU);
        if (sigismember(&shield->pending, SIGPIPE))
            sigdelset(&ours, SIGPIPE);
        if (sigismember(&shield->pending, SIGXFSZ))
            sigdelset(&ours, SIGXFSZ);
        while (sigtimedwait(&ours, NULL, &no_wait) < 0 && errno == EINTR)
            continue;
    }
    pthread_sigmask(SIG_SETMASK, &shield->mask, NULL);
    pthread_setcancelstate(shield->cancel_state, &shield->cancel_state);
    errno = shield->saved_errno;
}
