/*
 * wrappers.h - the addresses of the wrappers, for the tables of symbols.
 *
 * Immutable. A program that never calls CUDA pays for their relocations.
 */
#ifndef GS_WRAPPERS_H
#define GS_WRAPPERS_H

/* In the order of the rows of hooks.def, without the runtime's, and of submit.def. */
extern void *const gs_hook_wrappers[] __attribute__((visibility("hidden")));
extern void *const gs_counted_wrappers[] __attribute__((visibility("hidden")));
/* In the order of library_hooks.def. */
extern void *const gs_library_hook_wrappers[] __attribute__((visibility("hidden")));

#endif
