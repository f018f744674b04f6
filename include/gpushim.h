/*
 * gpushim.h - the C API of libgpushim.so.
 *
 * A program need not include this file: everything works under LD_PRELOAD alone. Any
 * thread may call any function.
 */
#ifndef GPUSHIM_H
#define GPUSHIM_H

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library, "MAJOR.MINOR.PATCH". Static storage, never NULL. */
const char *gpushim_version(void);

#ifdef __cplusplus
}
#endif

#endif
