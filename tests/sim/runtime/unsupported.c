/*
 * unsupported.c - the functions of unsupported.def. They are called with all kinds of
 * arguments and look at none, which the C calling conventions of Linux allow; their real
 * declarations are therefore not included here.
 * Owns:  nothing.   Lock: none.
 */
#include "unsupported.h"

#ifdef GS_RT_SHARED
#define RT_EXPORT __attribute__((visibility("default")))
#else
#define RT_EXPORT
#endif

#define RT_UNSUPPORTED(name)                                                             \
    RT_EXPORT int name(void);                                                            \
    int name(void)                                                                       \
    {                                                                                    \
        return gs_rt_unsupported(#name);                                                 \
    }
#if defined(GS_RT_MAJOR) && GS_RT_MAJOR < 13
#define RT_UNSUPPORTED_12 RT_UNSUPPORTED
#else
#define RT_UNSUPPORTED_12(name)
#endif
#if defined(GS_RT_MAJOR) && GS_RT_MAJOR == 12
#define RT_UNSUPPORTED_BUT_11 RT_UNSUPPORTED
#else
#define RT_UNSUPPORTED_BUT_11(name)
#endif
#if defined(GS_RT_MAJOR) && GS_RT_MAJOR == 11
#define RT_UNSUPPORTED_11 RT_UNSUPPORTED
#else
#define RT_UNSUPPORTED_11(name)
#endif
#include "unsupported.def"
#undef RT_UNSUPPORTED
#undef RT_UNSUPPORTED_12
#undef RT_UNSUPPORTED_11
#undef RT_UNSUPPORTED_BUT_11

/* Registrations of what no program here uses: accepted, without effect. */
RT_EXPORT void __cudaRegisterHostVar(void);
RT_EXPORT void __cudaRegisterUnifiedTable(void);

void __cudaRegisterHostVar(void)
{
}

void __cudaRegisterUnifiedTable(void)
{
}

#if defined(GS_RT_MAJOR) && GS_RT_MAJOR == 11
RT_EXPORT void __cudaRegisterSurface(void);
RT_EXPORT void __cudaRegisterTexture(void);

void __cudaRegisterSurface(void)
{
}

void __cudaRegisterTexture(void)
{
}
#endif
