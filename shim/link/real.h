/*
 * real.h - the driver's functions as the program would call them without the shim.
 *
 * Lock: filled under a lock of real.c; readers need none.
 */
#ifndef GS_REAL_H
#define GS_REAL_H

#include "gs_locks.h"
#include "shim/cuda/cuda_names.h"

struct gs_module_ref;

struct gs_real {
#define GS_HOOK(symbol, name, since, stream, treatment, doc) __typeof__(symbol) *symbol;
#include "shim/entries/hooks.def"
#define GS_SUBMIT(symbol, ...) __typeof__(symbol) *symbol;
#include "shim/entries/submit.def"
#define GS_REAL(symbol, since, reason, need) __typeof__(symbol) *symbol;
#include "shim/link/harmless.def"
};

/*
 * The real functions; never NULL. A hooked function that the driver lacks returns
 * CUDA_ERROR_NOT_FOUND; without a loaded driver all return
 * CUDA_ERROR_SHARED_OBJECT_INIT_FAILED. Optional functions of harmless.def may be NULL.
 */
const struct gs_real *gs_real(void);

/* Opens libcuda.so.1 if no driver is loaded and no library defines its functions: for
 * `symbol`, a call by which a program finds the driver. Not for a caller that has only a
 * weak reference to it, which natively would be absent. Preserves errno; may clear
 * dlerror. */
void gs_real_open(const char *symbol, const void *caller);

/* A module of the chain has looked up this function of a driver: what the chain lacks is
 * taken from there. */
void gs_real_deeper(const void *found);

/* The same table, inline for frequent callers. Written once, when the driver has been
 * found; NULL until then. */
extern const struct gs_real *gs_real_found __attribute__((visibility("hidden")));

static inline const struct gs_real *gs_real_now(void)
{
    gs_lock_check_driver();
    const struct gs_real *real = __atomic_load_n(&gs_real_found, __ATOMIC_ACQUIRE);
    return GS_LIKELY(real != NULL) ? real : gs_real();
}

/*
 * Called before a look-up is answered, and before cuInit: checks whether the driver was
 * unloaded since it was found, or replaced by another. A driver that is kept is not
 * checked.
 */
void gs_real_recheck(void);

/* Called when the driver is in use: keeps it loaded from now on, whoever closes it.
 * Preserves errno; if the program opened the driver, and may close it, clears dlerror. */
void gs_real_keep(void);

/* Returns true if cuInit has succeeded in this process, by the driver's answer. Before,
 * the driver may be closed, and it refuses most calls before it reads through their
 * pointers. Call with a complete driver. */
bool gs_real_initialized(void);

/* The first required function of pool and tracker that the driver lacks; NULL if it lacks
 * none, and if no driver is loaded. */
const char *gs_real_lacks(void);

/* Returns true if all required functions of pool and tracker exist. Call after
 * gs_real(). */
bool gs_real_complete(void);

/*
 * A look-up of `symbol` by `handle` has found `found`, which is not the shim's own.
 * Returns the shim's wrapper if `found` is the driver's function: what the driver, or the
 * loader for the driver's handle, answers for the name is the driver's, wherever it is.
 * Otherwise returns `found`, or for a function that frees memory a guard in front of it
 * (guards.h). The first look-up that finds a CUDA driver decides which one is "the
 * driver".
 */
void *gs_real_substitute(void *handle, const char *symbol, void *found);

/* Likewise, for a module of the chain, which gets the driver's function. */
void *gs_real_pass_on(const char *symbol, void *found);

/* Like gs_real_substitute, for cuGetProcAddress, whose names come with a version and
 * flags. Both end the idle proof (known_functions.h) if the program gets a function that
 * may submit uncounted work. */
void *gs_real_substitute_version(const char *name, void *found, int version,
                                 cuuint64_t flags);

/* In the child of a fork: reinitializes locks that another thread held. */
void gs_real_after_fork(void);
/* Atomic. False if no thread has held a lock of this folder so far. */
extern bool gs_look_ups_begun;

/* Returns true if the driver, if one is loaded, exports that name. */
bool gs_real_exports(const char *symbol);

/* Returns true if a module defines the functions by which a driver is known, and is
 * neither the shim nor a copy of it. */
bool gs_real_is_driver(const struct gs_module_ref *module);

/* Returns true if an address is in the code of the chain: the driver, and what stands
 * between the shim and the driver. */
bool gs_real_owns(const void *address);

/* Returns true if `name` is a function of hooks.def (driver or runtime), submit.def or
 * library_hooks.def that look-ups may find. */
bool gs_real_is_hooked(const char *name);

/* Returns true if a program with the driver's own function of this name can submit GPU
 * work that is not counted: the function submits work itself, or returns functions that
 * do. True for each row of submit.def, and for those of hooks.def by their treatment. */
bool gs_real_gives_work(const char *symbol);

/* The display name of a wrapper ("cuMemAlloc", "cudaMalloc"); "unknown" if out of
 * range. All of them; api_names.c. */
const char *gs_api_name(unsigned api);
const char *const *gs_api_names(void);

/* An address of a hooked function of the driver: the exported one, or one that the driver
 * answers; and the wrapper that stands for it. */
struct gs_hooked_address {
    const char *symbol;
    void *function, *wrapper;
};

/* Visits all that are known. Asks the driver. */
void gs_real_visit_addresses(void (*visit)(const struct gs_hooked_address *address,
                                           void *data),
                             void *data);

#endif
