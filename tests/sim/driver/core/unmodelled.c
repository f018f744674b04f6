/*
 * unmodelled.c - the public functions that exist and are not modelled.
 * They take no declared arguments: the calling conventions of x86-64 and aarch64 let the
 * caller clean up, and nothing is read. The C names differ from the exported ones, so
 * that cuda.h may declare those as it likes. Owns:  nothing.   Lock: none.
 */
#include "log.h"
#include "sim.h"

static CUresult refuse(const char *name)
{
    sim_log(1, "%s is not modelled: CUDA_ERROR_NOT_SUPPORTED", name);
    return CUDA_ERROR_NOT_SUPPORTED;
}

#define MODELLED(symbol)
#define UNMODELLED(symbol)                                                               \
    GS_EXPORT CUresult sim_unmodelled_##symbol(void) __asm__(#symbol);                   \
    CUresult sim_unmodelled_##symbol(void)                                               \
    {                                                                                    \
        return refuse(#symbol);                                                          \
    }
#define GRAPHICS                                       UNMODELLED
#define SIM_SYMBOL(symbol, base, since, thread, state) state(symbol)
#include "symbols.def"
#undef SIM_SYMBOL
