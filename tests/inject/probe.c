/*
 * probe.c - the library that is loaded: counts its calls where the program's runner sees
 * them, and answers.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shared.h"

__attribute__((visibility("default"))) char *probe_entry(const char *argument);
__attribute__((visibility("default"))) char *probe_nothing(const char *argument);

char *probe_entry(const char *argument)
{
    static char answer[256];
    static unsigned calls;
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FILE, 0);
    if (shared != MAP_FAILED) {
        atomic_fetch_add(&shared->calls, 1);
        (void)munmap(shared, sizeof(*shared));
    }
    /* malloc, thread-local memory and floating point work on this thread, and no signal
     * comes. */
    sigset_t set;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &set);
    char *copy = strdup(argument);
    long double third = 1.0L / 3.0L;
    (void)snprintf(answer, sizeof(answer), "%s %u %d %.3Lf", copy ? copy : "?", ++calls,
                   sigismember(&set, SIGUSR1), third);
    free(copy);
    return answer;
}

char *probe_nothing(const char *argument)
{
    (void)argument;
    return NULL;
}
