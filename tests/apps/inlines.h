/*
 * inlines.h - what the parts of the program inlines share.
 */
#ifndef INLINES_H
#define INLINES_H

#define KEEP __attribute__((noinline))

#ifdef __cplusplus
extern "C" {
#endif
/* Allocates `mib` MiB, or ends the program with 2. With -flto it is inlined. */
void *inlines_take(int mib);
/* 11: static inline functions of C, in inlines_c */
void inlines_c(int mib);
#ifdef __cplusplus
}
#endif

#endif
