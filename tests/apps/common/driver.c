/*
 * driver.c - fills the table of driver calls in the way the build chose.   See driver.h.
 * Owns: app_driver.   Lock: none; written before other threads start.
 */
#include "driver.h"

#include <dlfcn.h>

#include "app.h"

#if APP_DRIVER_LINKED

void app_driver_load(void)
{
}

#else

struct app_driver app_driver;

static void *open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    if (!library)
        app_fail("dlopen", dlerror());
    return library;
}

/* What a call that the driver lacks ends at: an older driver runs the programs that do
 * without the call. */
#define DRIVER_CALL(name, version)                                                       \
    static CUresult missing_##name(void)                                                 \
    {                                                                                    \
        app_fail("missing from the driver", #name);                                      \
    }
#include "driver.def"
#undef DRIVER_CALL

static void *find_symbol(void *library, const char *symbol)
{
    void *address = dlsym(library, symbol);

    if (!address)
        app_fail("dlsym", dlerror());
    return address;
}

#if APP_DRIVER_DLSYM

/* The name is expanded by cuda.h before it becomes text: cuMemAlloc gives
 * "cuMemAlloc_v2". */
#define TEXT(symbol) #symbol

void app_driver_load(void)
{
    void *library = open_driver(), *address;

    (void)find_symbol(library, "cuInit"); /* else the file is no driver */
#define DRIVER_CALL(name, version)                                                       \
    address = dlsym(library, TEXT(name));                                                \
    app_driver.name = (__typeof__(name) *)(address ? address : (void *)missing_##name);
#include "driver.def"
#undef DRIVER_CALL
}

#else

typedef CUresult get_proc_fn(const char *symbol, void **out, int version,
                             cuuint64_t flags, CUdriverProcAddressQueryResult *status);

static void *ask_driver(get_proc_fn *get, const char *name, int version, void *missing)
{
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    void *address = NULL;
    CUresult code = get(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, &status);

    if (code != CUDA_SUCCESS || status != CU_GET_PROC_ADDRESS_SUCCESS || !address)
        return missing;
    return address;
}

void app_driver_load(void)
{
    get_proc_fn *get = (get_proc_fn *)find_symbol(open_driver(), "cuGetProcAddress_v2");

#define DRIVER_CALL(name, version)                                                       \
    app_driver.name =                                                                    \
        (__typeof__(name) *)ask_driver(get, #name, version, (void *)missing_##name);
#include "driver.def"
#undef DRIVER_CALL
}

#endif
#endif
