/*
 * calls.c - the driver's functions, found in the way of a list: see calls.h.
 */
#include "calls.h"

#include <dlfcn.h>

struct diff_calls diff_calls;

static void *find_symbol(const char *symbol)
{
    static void *driver;

    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver ? dlsym(driver, symbol) : NULL;
}

/* From cuGetProcAddress, in the ABI that the version asks for. */
static void *ask_driver(const char *name, int version, cuuint64_t flags)
{
    static __typeof__(cuGetProcAddress_v2) *get;
    CUdriverProcAddressQueryResult status;
    void *found = NULL;

    /* The variants for the per-thread default stream are from 7.0. */
    if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && version < 7000)
        version = 7000;
    if (!get)
        get = (__typeof__(get))find_symbol("cuGetProcAddress_v2");
    return get && get(name, &found, version, flags, &status) == CUDA_SUCCESS ? found
                                                                             : NULL;
}

/* The name is expanded by cuda.h before it becomes text: cuMemAlloc gives cuMemAlloc_v2.
 */
#define TEXT(symbol) #symbol

static void load_linked(void)
{
#define DIFF_CALL(name, version) diff_calls.name = name;
#include "calls.def"
#undef DIFF_CALL
}

static void load_by_symbol(void)
{
#define DIFF_CALL(name, version)                                                         \
    diff_calls.name = (__typeof__(name) *)find_symbol(TEXT(name));
#include "calls.def"
#undef DIFF_CALL
}

static void load_by_name(cuuint64_t flags)
{
#define DIFF_CALL(name, version)                                                         \
    diff_calls.name = (__typeof__(name) *)ask_driver(#name, version, flags);
#include "calls.def"
#undef DIFF_CALL
}

bool diff_calls_load(enum diff_way way)
{
    bool whole = true;

    if (way == DIFF_WAY_LINKED)
        load_linked();
    else if (way == DIFF_WAY_SYMBOL)
        load_by_symbol();
    else
        load_by_name(way == DIFF_WAY_NAME
                         ? CU_GET_PROC_ADDRESS_DEFAULT
                         : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
#define DIFF_CALL(name, version) whole = whole && diff_calls.name;
#include "calls.def"
#undef DIFF_CALL
    return whole;
}
