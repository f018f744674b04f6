/*
 * rules.h - the rules of rules.def, and how a test bends one.
 *
 * Only a build with SIM_MUTANTS can: elsewhere every question here is a constant.
 * Owns: the bent rule, immutable after the first question.   Lock: none.
 */
#ifndef SIM_RULES_H
#define SIM_RULES_H

#include "gs_base.h"

enum sim_rule {
#define SIM_RULE(name, rule, source, lax, strict) SIM_RULE_##name,
#include "rules.def"
#undef SIM_RULE
    SIM_RULES
};

#ifdef SIM_MUTANTS
/* Is the rule bent so that an order is missing? */
bool sim_is_lax(enum sim_rule rule);

/* Is it bent so that there is an order too many? */
bool sim_is_strict(enum sim_rule rule);
#else
static inline bool sim_is_lax(enum sim_rule rule)
{
    (void)rule;
    return false;
}

static inline bool sim_is_strict(enum sim_rule rule)
{
    (void)rule;
    return false;
}
#endif

#endif
