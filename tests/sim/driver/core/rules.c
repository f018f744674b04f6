/*
 * rules.c - reads CUDASIM_MUTANT, in builds that bend rules.
 * Owns:  the bent rule.   Lock: bent_once, immutable afterwards.
 */
#include "rules.h"

#ifdef SIM_MUTANTS
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static const char *const names[SIM_RULES] = {
#define SIM_RULE(name, rule, source, lax, strict) #name,
#include "rules.def"
#undef SIM_RULE
};

static enum sim_rule bent = SIM_RULES; /* immutable after bent_once */
static bool is_lax;                    /* likewise */
static pthread_once_t bent_once = PTHREAD_ONCE_INIT;

static void read_mutant(void)
{
    const char *text = getenv("CUDASIM_MUTANT");
    const char *colon = text ? strchr(text, ':') : NULL;

    if (!text || !*text)
        return;
    for (unsigned i = 0; colon && i < SIM_RULES; i++) {
        if (strlen(names[i]) == (size_t)(colon - text) &&
            strncmp(names[i], text, (size_t)(colon - text)) == 0)
            bent = (enum sim_rule)i;
    }
    is_lax = colon && strcmp(colon, ":lax") == 0;
    if (bent == SIM_RULES || (!is_lax && strcmp(colon, ":strict") != 0)) {
        sim_log_always("CUDASIM_MUTANT=%s is no rule of rules.def:lax or :strict", text);
        abort();
    }
}

bool sim_is_lax(enum sim_rule rule)
{
    pthread_once(&bent_once, read_mutant);
    return rule == bent && is_lax;
}

bool sim_is_strict(enum sim_rule rule)
{
    pthread_once(&bent_once, read_mutant);
    return rule == bent && !is_lax;
}
#else
/* A build that bends nothing has no code here. */
extern const char sim_rules_cannot_be_bent;
const char sim_rules_cannot_be_bent = 1;
#endif
