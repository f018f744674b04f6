/*
 * deep_modules.h - modules opened with RTLD_DEEPBIND, which find the C library and the
 * driver before the shim: their slots for look-ups and for hooked functions are set to
 * the shim's, as the linker would have set them without the flag.
 *
 * A module is found at the next look-up of any symbol that the shim sees: who opens a
 * module by dlopen looks a symbol up in it. dlopen itself cannot be replaced: it would no
 * longer find the caller's own search path.
 *
 * Locks: none; one thread at a time checks, and others go on.
 */
#ifndef GS_DEEP_MODULES_H
#define GS_DEEP_MODULES_H

/* Checks the modules that were loaded since the last check. Called from within dlsym:
 * allocates nothing. Preserves errno. */
void gs_deep_modules_check(void);

#endif
