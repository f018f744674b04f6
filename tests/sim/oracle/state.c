/*
 * state.c - the oracle's lock, its options, and what it does when memory is short.
 *
 * Order that is not recorded would be read as order that is not there. So when memory is
 * short everything heard so far stops counting: it is judged no more, and nothing is
 * judged by it. Findings are missed then; none is invented.
 *
 * Owns:  the options, the lock, the count of what was heard.
 * Lock:  oracle_mutex, which is the oracle's lock.
 */
#include "oracle_state.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "oracle_callers.h"
#include "oracle_text.h"

bool oracle_on;                       /* set by oracle_start, then immutable */
struct oracle_options oracle_options; /* immutable after oracle_start */
uint64_t oracle_now;                  /* oracle_mutex */
uint64_t oracle_lost;                 /* oracle_mutex */
bool (*oracle_fail_allocation)(void); /* tests; set before any other thread */

static bool said_lost; /* oracle_mutex */
static pthread_mutex_t oracle_mutex = PTHREAD_MUTEX_INITIALIZER;

void oracle_start(const struct oracle_options *options)
{
    oracle_options = *options;
    if (options->file)
        oracle_options.file = strdup(options->file);
    if (options->stacks)
        oracle_callers_start();
    oracle_on = true;
}

void oracle_lock(void)
{
    pthread_mutex_lock(&oracle_mutex);
}

void oracle_unlock(void)
{
    struct oracle_message *messages = oracle_messages_take();

    pthread_mutex_unlock(&oracle_mutex);
    oracle_messages_print(messages);
}

void oracle_lose(void)
{
    static const char text[] = "cudasim: oracle: no memory: what was done so far is not "
                               "judged any more\n";

    oracle_lost = ++oracle_now;
    if (!said_lost)
        oracle_write_all(2, text, sizeof(text) - 1);
    said_lost = true;
}

void oracle_unknown(void)
{
    if (oracle_lost > 0)
        oracle_lose();
}

void *oracle_allocate(void *old, size_t bytes)
{
    if (oracle_fail_allocation && oracle_fail_allocation())
        return NULL;
    return realloc(old, bytes);
}
