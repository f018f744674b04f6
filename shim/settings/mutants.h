/*
 * mutants.h - the mutants of mutants.def, and whether one is chosen.
 *
 * Only a build with GS_MUTANTS can break anything: elsewhere every question here is a
 * constant.
 * Owns: the chosen mutant, immutable after the first question.   Lock: none.
 */
#ifndef GS_MUTANTS_H
#define GS_MUTANTS_H

#include "gs_base.h"

enum gs_mutant {
#define GS_MUTANT(name, what, test) GS_MUTANT_##name,
#include "mutants.def"
#undef GS_MUTANT
    GS_MUTANT_COUNT
};

#ifdef GS_MUTANTS
bool gs_mutant(enum gs_mutant mutant);
#else
static inline bool gs_mutant(enum gs_mutant mutant)
{
    (void)mutant;
    return false;
}
#endif

#endif
