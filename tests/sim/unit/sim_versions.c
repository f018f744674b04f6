/*
 * sim_versions.c - proves that a driver of an older version has nothing that came later:
 * no look-up finds it, a direct call is refused, newer attributes, limits, flags, error
 * codes and PTX are unknown. Against the table the driver itself is made from, for four
 * versions.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "sim_helpers.h"

enum thread_flag { PLAIN, PTDS, PTSZ };

struct row {
    const char *symbol;
    const char *base;
    int since;
    enum thread_flag thread;
};

static const struct row rows[] = {
#define SIM_SYMBOL(symbol, base, since, thread, state) {#symbol, #base, since, thread},
#include "../driver/symbols.def"
#undef SIM_SYMBOL
};

/* Rows of since.def, by enumeration. */
enum enumeration {
    DEVICE_ATTRIBUTE,
    P2P_ATTRIBUTE,
    LIMIT,
    CONTEXT_FLAG,
    FUNCTION_ATTRIBUTE,
    POINTER_ATTRIBUTE,
    ERROR
};

struct value {
    enum enumeration enumeration;
    int value;
    int since;
};

static const struct value values[] = {
#define SIM_SINCE(enumeration, value, version) {enumeration, value, version},
#include "../driver/core/since.def"
#undef SIM_SINCE
};

static const int versions[] = {11040, 12020, 12040, 13000};

static void start_version(int version)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", version);
    setenv("CUDASIM_DRIVER_VERSION", text, 1);
    sim_test_start("2", "16M");
}

/* Any function, called with more zeros than it has arguments. */
typedef CUresult (*any_function)(size_t, size_t, size_t, size_t, size_t, size_t, size_t,
                                 size_t, size_t, size_t, size_t, size_t);

static CUresult call_with_zeros(const char *symbol)
{
    return ((any_function)sim_test_exported(symbol))(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

/* The look-up of 11.3, which every version here has; NULL if nothing is found. */
static void *find(const char *base, int version, bool per_thread)
{
    CUresult (*get)(const char *, void **, int, cuuint64_t) = (CUresult(*)(
        const char *, void **, int, cuuint64_t))sim_test_exported("cuGetProcAddress");
    void *found = NULL;
    CUresult res = get(base, &found, version, per_thread ? 2 : 0);

    cr_assert(res == CUDA_SUCCESS || res == CUDA_ERROR_NOT_FOUND, "%s: %d", base, res);
    cr_assert_eq(res == CUDA_SUCCESS, found != NULL, "%s", base);
    return found;
}

/* What the driver of that version answers for every row of the table. */
static void check_symbols(int version)
{
    int hidden = 0, there = 0, wrong = 0;

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        void *address = sim_test_exported(row->symbol);
        if (row->since <= version) {
            cr_assert_eq(find(row->base, row->since, row->thread != PLAIN), address,
                         "%s is there in %d", row->symbol, version);
            there++;
            continue;
        }
        cr_assert_neq(find(row->base, version, row->thread != PLAIN), address,
                      "%s came after %d", row->symbol, version);
        CUresult res = call_with_zeros(row->symbol);
        if (res != CUDA_ERROR_NOT_SUPPORTED)
            cr_log_error("%s in %d answers %d", row->symbol, version, res);
        wrong += res != CUDA_ERROR_NOT_SUPPORTED;
        hidden++;
    }
    cr_assert_eq(wrong, 0, "so many newer functions are not refused: %d", wrong);
    cr_assert_gt(there, 400);
    cr_assert(hidden > 0 || version == 13000);
}

static CUresult ask(const struct value *value)
{
    CUdeviceptr pointer;
    const char *name;
    char room[64];
    size_t size;
    int number;

    switch (value->enumeration) {
    case DEVICE_ATTRIBUTE:
        return cuDeviceGetAttribute(&number, (CUdevice_attribute)value->value, 0);
    case P2P_ATTRIBUTE:
        return cuDeviceGetP2PAttribute(&number, (CUdevice_P2PAttribute)value->value, 0,
                                       1);
    case LIMIT:
        return cuCtxGetLimit(&size, (CUlimit)value->value);
    case CONTEXT_FLAG:
        return cuDevicePrimaryCtxSetFlags(0, (unsigned)value->value);
    case FUNCTION_ATTRIBUTE:
        return cuFuncGetAttribute(&number, (CUfunction_attribute)value->value,
                                  sim_test_kernel("gs_fill"));
    case POINTER_ATTRIBUTE:
        ok(cuMemAlloc(&pointer, 64));
        return cuPointerGetAttribute(&room, (CUpointer_attribute)value->value, pointer);
    case ERROR:
        return cuGetErrorName((CUresult)value->value, &name);
    }
    return CUDA_ERROR_UNKNOWN;
}

static void check_values(int version)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(values); i++) {
        const struct value *value = &values[i];
        CUresult res = CUDA_SUCCESS;
        if (value->enumeration == FUNCTION_ATTRIBUTE && version < 12000)
            continue; /* the test kernels are PTX 8.0, newer than CUDA 11 */
        res = ask(value);
        if (value->enumeration == POINTER_ATTRIBUTE && value->value == 21)
            cr_assert_eq(res, CUDA_ERROR_INVALID_VALUE); /* is not modelled at all */
        else if (value->since <= version)
            cr_assert_eq(res, CUDA_SUCCESS, "%d of kind %d in %d: %d", value->value,
                         value->enumeration, version, res);
        else if (value->enumeration == LIMIT)
            cr_assert_eq(res, CUDA_ERROR_UNSUPPORTED_LIMIT);
        else
            cr_assert_eq(res, CUDA_ERROR_INVALID_VALUE, "%d of kind %d in %d",
                         value->value, value->enumeration, version);
    }
}

static void check_version(int version)
{
    int told = 0;

    start_version(version);
    ok(cuDriverGetVersion(&told));
    cr_assert_eq(told, version);
    check_values(version);
    check_symbols(version);
}

Test(sim_versions, of_11_4)
{
    check_version(versions[0]);
}

Test(sim_versions, of_12_2)
{
    check_version(versions[1]);
}

Test(sim_versions, of_12_4)
{
    check_version(versions[2]);
}

Test(sim_versions, of_13_0)
{
    check_version(versions[3]);
}

Test(sim_versions, look_ups_of_an_older_driver_have_the_older_form_alone)
{
    CUdriverProcAddressQueryResult status;
    void *found = NULL;

    start_version(11080);
    fails(cuGetProcAddress_v2("cuInit", &found, 11080, 0, &status),
          CUDA_ERROR_NOT_SUPPORTED);
    cr_assert_not_null(find("cuInit", 11080, false));
    cr_assert_eq(find("cuGetProcAddress", 11080, false),
                 sim_test_exported("cuGetProcAddress"));
}

Test(sim_versions, the_newest_form_that_is_old_enough_is_found)
{
    start_version(12020);
    cr_assert_eq(find("cuCtxCreate", 12020, false), sim_test_exported("cuCtxCreate_v3"));
    cr_assert_null(find("cuCtxRecordEvent", 12020, false));
    cr_assert_null(find("cuGreenCtxCreate", 12020, false));
    cr_assert_not_null(find("cuLibraryLoadData", 12020, false));
}

static CUresult load_ptx(const char *version)
{
    char text[200];
    CUmodule module;

    snprintf(text, sizeof(text), ".version %s\n.target sm_75\n.entry k() { ret; }\n",
             version);
    return cuModuleLoadData(&module, text);
}

Test(sim_versions, newer_ptx_is_refused)
{
    start_version(12040);
    ok(load_ptx("6.3"));
    ok(load_ptx("8.4"));
    fails(load_ptx("8.5"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    fails(load_ptx("9.0"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    fails(load_ptx("x"), CUDA_ERROR_INVALID_PTX);
}

Test(sim_versions, newer_flags_make_no_context)
{
    CUcontext context;

    start_version(11080);
    fails(cuCtxCreate_v2(&context, CU_CTX_SYNC_MEMOPS, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuCtxCreate_v2(&context, CU_CTX_SCHED_SPIN, 0));
    ok(cuCtxDestroy(context));
}
