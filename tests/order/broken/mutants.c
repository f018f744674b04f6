/*
 * mutants.c - reads GPUSHIM_MUTANT.
 * Owns:  the chosen mutant.   Lock: chosen_once, immutable afterwards.
 */
#include "mutants.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/settings/log.h"

static const char *const names[GS_MUTANT_COUNT] = {
#define GS_MUTANT(name, what, test) #name,
#include "mutants.def"
#undef GS_MUTANT
};

static enum gs_mutant chosen = GS_MUTANT_COUNT; /* immutable after chosen_once */
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;

static void choose(void)
{
    const char *text =
        secure_getenv("GPUSHIM_MUTANT"); /* NOLINT(concurrency-mt-unsafe) */
    for (unsigned i = 0; text && i < GS_MUTANT_COUNT; i++) {
        if (strcmp(names[i], text) == 0) {
            chosen = (enum gs_mutant)i;
        }
    }
    if (text && *text && chosen == GS_MUTANT_COUNT) {
        gs_log_line(GS_LOG_ERROR, "GPUSHIM_MUTANT=%s is not in mutants.def", text);
        abort();
    }
}

bool gs_mutant(enum gs_mutant mutant)
{
    pthread_once(&chosen_once, choose);
    return mutant == chosen;
}
