/*
 * known.h - which driver functions the shim knows, by name, and whether the proof that a
 * context is idle may still be led.
 *
 * The proof counts every call that submits work (submissions.h). A program that was given
 * a submitting function past the count, or one whose name says nothing, ends it.
 *
 * Called from within dlsym: takes no lock, allocates nothing, writes nothing.
 */
#ifndef GS_KNOWN_H
#define GS_KNOWN_H

#include "cuda_names.h"

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

/* Whether a name is a driver function's by its form: cu and a capital letter. cuFile...
 * are libcufile's: what they give the GPU goes through counted functions. */
bool gs_known_is_driver_name(const char *name);
/* Whether a function submits nothing. A name that cuGetProcAddress is asked for is that
 * of one of its symbols, or would end the proof. */
bool gs_known_harmless(const char *symbol);

/* Room for a name below, and its end. */
#define GS_KNOWN_NAME_BYTES 128

/* The proof ends, because the program has `name`, which may give the GPU work that is not
 * counted: a function, a private table, a library. NULL: because it was not wanted. The
 * first name stays. */
void gs_known_end_proof(const char *name);
/* The name it ended by; "" if none, or if it has not ended. */
const char *gs_known_ended_by(void);
void gs_known_reset(void); /* in a forked child, and for tests */

/* GPUSHIM_FREE_SYNC=verify: from now on the proof is not trusted (verify.h). Once, at
 * start-up. */
void gs_known_verify_proof(void);

extern int gs_known_ended __attribute__((visibility("hidden"))); /* atomic */
#define GS_PROOF_VERIFIED 4                                      /* a bit of it */

static inline bool gs_known_proof_holds(void)
{
    int ended = __atomic_load_n(&gs_known_ended, __ATOMIC_ACQUIRE);
    return GS_LIKELY((ended & ~GS_PROOF_VERIFIED) == 0);
}

/* It holds, and is not verified: all that a call in the steady state looks at. */
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
