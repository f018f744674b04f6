/*
 * driver.h - the driver API, called in one of three ways by the same source.
 *
 *   APP_DRIVER_LINKED  the program is linked with -lcuda: plain calls through its PLT
 *   APP_DRIVER_DLSYM   dlopen("libcuda.so.1"), then dlsym of each symbol
 *   APP_DRIVER_PROC    dlsym of cuGetProcAddress_v2 alone, then cuGetProcAddress of each
 *
 * Exactly one is defined to 1 by the build. CU(cuMemAlloc)(&ptr, bytes) is the call.
 * Owns: app_driver, the call table (immutable after app_driver_load).   Lock: none.
 */
#ifndef APP_DRIVER_H
#define APP_DRIVER_H

#include <cuda.h>

#ifndef APP_DRIVER_LINKED
#define APP_DRIVER_LINKED 0
#endif
#ifndef APP_DRIVER_DLSYM
#define APP_DRIVER_DLSYM 0
#endif
#ifndef APP_DRIVER_PROC
#define APP_DRIVER_PROC 0
#endif
#if APP_DRIVER_LINKED + APP_DRIVER_DLSYM + APP_DRIVER_PROC != 1
#error "choose one way of reaching the driver"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if APP_DRIVER_LINKED
#define CU(name) name
#else
/* cuda.h renames most calls by macros; members take the symbols' names by the same
 * macros. */
struct app_driver {
#define DRIVER_CALL(name, version) __typeof__(name) *name;
#include "driver.def"
#undef DRIVER_CALL
};
extern struct app_driver app_driver;
#define CU(name) app_driver.name
#endif

/*
 * Make the driver's calls available. To be called once, before any other thread runs.
 * Ends the program with 2 where there is no driver. A call that is missing from the
 * driver ends the program with 2 when it is made.
 */
void app_driver_load(void);

#ifdef __cplusplus
}
#endif

#endif
