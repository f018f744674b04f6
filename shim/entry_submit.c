/*
 * entry_submit.c - every call that gives the device work: counted, and passed on.
 *
 * The wrappers expand from submit.def. They are plain C with the parameters of cuda.h's
 * declaration, which the compiler compares: arguments that travel on the stack are the
 * compiler's business on every machine. They look at no state of the library, so they
 * count while it is switched off, too, and inside other wrappers; that does no harm.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "real.h"
#include "submissions.h"

/* ---- where the work goes ------------------------------------------------------------
 */

/* The stream that a call is given, in a function whose default stream is the legacy one
   or the thread's. */
#define DEFAULT_LEGACY     ((uintptr_t)0)
#define DEFAULT_PER_THREAD GS_STREAMS_BEYOND

#define WHERE_IN(given)      (uintptr_t)(given)
#define WHERE_DEFAULT        (uintptr_t)0
#define WHERE_BEYOND         GS_STREAMS_BEYOND
#define WHERE_CONFIG(config) where_of(config)

/* Attributes may let a launch overlap with what is in front of it in its stream. */
static inline uintptr_t where_of(const CUlaunchConfig *config)
{
    if (!config) {
        return GS_STREAMS_BEYOND; /* the driver refuses it */
    }
    return (uintptr_t)config->hStream | (config->numAttrs ? GS_STREAMS_BEYOND : 0);
}

/* Whether a build that breaks things leaves this function out. */
static inline bool is_counted(const char *symbol)
{
#ifdef GS_MUTANTS
    if (gs_mutant(GS_MUTANT_set_uncounted)) {
        return __builtin_strncmp(symbol, "cuMemset", 8) != 0;
    }
    if (gs_mutant(GS_MUTANT_graph_uncounted)) {
        return __builtin_strncmp(symbol, "cuGraphLaunch", 13) != 0;
    }
#else
    (void)symbol;
#endif
    return true;
}

/* Between the counts and the call a build that breaks things lets the test program say
   how long a thread stays there: tests/order/idle.c has this function. */
#ifdef GS_MUTANTS
extern void gs_order_linger(bool after) __attribute__((weak));

static inline void linger(bool after)
{
    if (gs_order_linger) {
        gs_order_linger(after);
    }
}
#else
#define linger(after) ((void)0)
#endif

/* ---- the wrappers -------------------------------------------------------------------
 */

#define GS_SUBMIT(symbol, name, since, stream, where, params, args)                      \
    GS_EXPORT CUresult symbol params                                                     \
    {                                                                                    \
        if (!is_counted(#symbol)) {                                                      \
            return gs_real()->symbol args;                                               \
        }                                                                                \
        struct gs_submissions *own =                                                     \
            gs_submission_begin(WHERE_##where | DEFAULT_##stream);                       \
        linger(false);                                                                   \
        CUresult result = gs_real_now()->symbol args;                                    \
        linger(true);                                                                    \
        gs_submission_end(own);                                                          \
        return result;                                                                   \
    }
#include "submit.def"
#undef GS_SUBMIT
