/*
 * deep_modules.h - modules opened with RTLD_DEEPBIND, which find the C library and the
 * driver before the shim: their slots for look-ups and for hooked functions are set to
 * the shim's, as the linker would have set them without the flag.
 *
 * A module is found at the next look-up of any symbol that the shim sees: who opens a
 * module by dlopen looks a symbol up in it. dlopen itself cannot be replaced: it would no
 * longer find the caller's own search path.
 *
 * Locks: none; one thread at a time checks, and other threads go on.
 */
#ifndef GS_DEEP_MODULES_H
#define GS_DEEP_MODULES_H

#include "gs_base.h"

/* Checks the modules that were loaded since the last check. Also sets the slots of
 * references to variables named as functions of the shim's, and nothing else if
 * the shim is off. Called from within dlsym: allocates nothing. Preserves errno. */
void gs_deep_modules_check(bool is_off);

/* Called by the constructor: sets the slots of variables before the program runs. */
void gs_deep_modules_start(void);

/*
 * In a process that the shim was loaded into later: checks all modules, now and whenever
 * more have been loaded. Returns false if modules came and went all the time, so that
 * some may be left out.
 */
bool gs_deep_modules_take(void) GS_MUST_USE;
/* No longer; slots stay as they are. */
void gs_deep_modules_leave(void);

#endif
