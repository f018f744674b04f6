/*
 * known_functions.h - the driver functions that the shim knows, by name, and whether the
 * idle proof still holds.
 *
 * The idle proof counts every call that submits work (submissions.h). It ends when a
 * program gets a submitting function past the count, or a function with an unknown name.
 *
 * Called from within dlsym: takes no lock, allocates nothing, writes nothing.
 */
#ifndef GS_KNOWN_FUNCTIONS_H
#define GS_KNOWN_FUNCTIONS_H

#include "shim/cuda/cuda_names.h"

/* A row of submit.def at run time. */
struct gs_counted {
    uint16_t symbol, name; /* offsets of gs_counted_symbol, gs_counted_name */
    uint16_t slot;         /* index in struct gs_real, in pointers */
    uint16_t since;
    bool per_thread;
};

/* Sorted by symbol; immutable. */
extern const struct gs_counted gs_counted[];
extern const size_t gs_counted_count;

const char *gs_counted_symbol(const struct gs_counted *row);
const char *gs_counted_name(const struct gs_counted *row);

/* The row of an exported symbol, or NULL. */
const struct gs_counted *gs_counted_find(const char *symbol);

/* Returns true if a name has the form of a driver function: cu and a capital letter.
 * cuFile... belong to libcufile, which submits GPU work through counted functions. */
bool gs_known_is_driver_name(const char *name);
/* Returns true if a function submits nothing. The name in a cuGetProcAddress call is the
 * name of one of the function's symbols; any other name would end the proof. */
bool gs_known_harmless(const char *symbol);

/* Bytes for a name below, and its end. */
#define GS_KNOWN_NAME_BYTES 128

/* Ends the proof, because the program has `name`, which may submit GPU work that is not
 * counted: a function, a private table, a library. NULL: because an option disables the
 * proof. The first name is kept. */
void gs_known_end_proof(const char *name);
/* The name that ended the proof; "" if none, or if it has not ended. */
const char *gs_known_ended_by(void);
void gs_known_reset(void); /* for tests: a forked child keeps the answer */

/* GPUSHIM_FREE_SYNC=verify: from now on the proof is checked against the device
 * (verify.h). Called once, at start. */
void gs_known_verify_proof(void);

extern int gs_known_ended __attribute__((visibility("hidden"))); /* atomic */
#define GS_PROOF_VERIFIED 4                                      /* a bit of it */

static inline bool gs_known_proof_holds(void)
{
    int ended = __atomic_load_n(&gs_known_ended, __ATOMIC_ACQUIRE);
    return GS_LIKELY((ended & ~GS_PROOF_VERIFIED) == 0);
}

/* Returns true if the proof holds and is not verified: the only test of a call in the
 * steady state. */
static inline bool gs_known_proof_is_trusted(void)
{
    return GS_LIKELY(__atomic_load_n(&gs_known_ended, __ATOMIC_ACQUIRE) == 0);
}

static inline bool gs_known_proof_is_verified(void)
{
    return GS_UNLIKELY(
        (__atomic_load_n(&gs_known_ended, __ATOMIC_ACQUIRE) & GS_PROOF_VERIFIED) != 0);
}

#endif
