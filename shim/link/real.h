/*
 * real.h - the real driver: which module it is, and where its functions are.
 *
 * The driver is the first module seen that owns cuInit and the other required functions.
 * Lock: filled under a lock of real.c, immutable once the driver has been initialized;
 * readers need none.
 */
#ifndef GS_REAL_H
#define GS_REAL_H

#include "cuda_names.h"
#include "gs_locks.h"

struct gs_real {
#define GS_HOOK(symbol, name, since, stream, treatment, doc) __typeof__(symbol) *symbol;
#define GS_RUNTIME(symbol, doc)
#include "hooks.def"
#undef GS_RUNTIME
#undef GS_HOOK
#define GS_SUBMIT(symbol, name, since, stream, where, params, args)                      \
    __typeof__(symbol) *symbol;
#include "submit.def"
#undef GS_SUBMIT
#define GS_REAL(symbol, need) __typeof__(symbol) *symbol;
#include "real.def"
};

/*
 * The real functions; never NULL. A hooked function that the driver does not have answers
 * CUDA_ERROR_NOT_FOUND, and where no driver is loaded, all answer
 * CUDA_ERROR_SHARED_OBJECT_INIT_FAILED. Optional functions of real.def may be NULL.
 */
const struct gs_real *gs_real(void);

/* The same, inline for those who are called often. Written once, when the driver has been
 * found; NULL until then. */
extern const struct gs_real *gs_real_found __attribute__((visibility("hidden")));

static inline const struct gs_real *gs_real_now(void)
{
    gs_lock_check_driver();
    const struct gs_real *real = __atomic_load_n(&gs_real_found, __ATOMIC_ACQUIRE);
    return GS_LIKELY(real != NULL) ? real : gs_real();
}

/*
 * Before a look-up is answered, and before cuInit: the driver may have been unloaded
 * since it was found, or another have taken its place. A driver that is kept is not asked
 * after.
 */
void gs_real_look_again(void);

/* The driver is in use: from now on it stays loaded, whoever closes it. Keeps errno;
 * where it was opened by the program, and may be closed, dlerror is as after a success.
 */
void gs_real_keep(void);

/* Whether cuInit has succeeded in this process, as the driver says. Until then it may be
 * closed, and it refuses most calls before it reads what their pointers point to. Call
 * with a complete driver. */
bool gs_real_initialized(void);

/* The first function that the pool and the tracker stand on and the driver lacks; NULL
 * where it lacks none, and where no driver is loaded. */
const char *gs_real_lacks(void);

/* Whether everything the pool and the tracker stand on is there. Call after gs_real(). */
bool gs_real_complete(void);

/*
 * `found` was looked up by somebody under the name `symbol`. If it is the driver's own,
 * returns the shim's wrapper, otherwise `found` itself. The first look-up that lands in a
 * CUDA driver decides which module is "the driver".
 */
void *gs_real_substitute(const char *symbol, void *found);

/* As above for cuGetProcAddress, whose names carry a version and flags instead. Both end
 * the idle proof (known.h) if the program gets a function that may submit uncounted. */
void *gs_real_substitute_version(const char *name, void *found, int version,
                                 cuuint64_t flags);

/* In the child of a fork: locks that another thread held are free. */
void gs_real_after_fork(void);

/* Whether the driver, if one is loaded, exports that name. */
bool gs_real_exports(const char *symbol);

/* Whether an address lies in the driver's code. */
bool gs_real_owns(const void *address);

/* Whether `name` is a function of hooks.def (driver or runtime) or submit.def that
 * look-ups may ask for. */
bool gs_real_is_hooked(const char *name);

/* Whether a program that has the driver's own function of that name can give the GPU work
 * that is not counted: it submits work itself, or hands out functions that do. Each row
 * of submit.def, and those of hooks.def by their treatment. */
bool gs_real_gives_work(const char *symbol);

/* The wrapper's own display name ("cuMemAlloc", "cudaMalloc"); "unknown" if out of range.
 */
const char *gs_api_name(unsigned api);
const char *const *gs_api_names(void);

#endif
