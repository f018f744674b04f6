/*
 * sim_procaddr.c - proves cuGetProcAddress: name, version and flags choose the ABI; what
 * is newer than the driver is hidden; what it returns is what the library exports.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim_helpers.h"

/* The 4-argument ABI of 11.3, which cuda.h declares under another name only. */
typedef CUresult (*get_v1)(const char *, void **, int, cuuint64_t);

static void *look_up(const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status = 77;
    void *found = NULL;

    ok(cuGetProcAddress_v2(name, &found, version, flags, &status));
    cr_assert_eq(status, CU_GET_PROC_ADDRESS_SUCCESS);
    return found;
}

static void expect(const char *name, int version, cuuint64_t flags, const char *symbol)
{
    void *want = sim_test_exported(symbol);

    cr_assert_not_null(want, "%s is not exported", symbol);
    cr_assert_eq(look_up(name, version, flags), want, "%s %d %d is not %s", name, version,
                 (int)flags, symbol);
}

Test(sim_procaddr, version_chooses_the_abi)
{
    expect("cuMemAlloc", 2000, 0, "cuMemAlloc");
    expect("cuMemAlloc", 3010, 0, "cuMemAlloc");
    expect("cuMemAlloc", 3020, 0, "cuMemAlloc_v2");
    expect("cuMemAlloc", 13000, 0, "cuMemAlloc_v2");
    expect("cuMemAdvise", 8000, 0, "cuMemAdvise");
    expect("cuMemAdvise", 12020, 0, "cuMemAdvise_v2");
    expect("cuIpcOpenMemHandle", 4010, 0, "cuIpcOpenMemHandle");
    expect("cuIpcOpenMemHandle", 11000, 0, "cuIpcOpenMemHandle_v2");
    expect("cuGetProcAddress", 11030, 0, "cuGetProcAddress");
    expect("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
    expect("cuCtxCreate", 11040, 0, "cuCtxCreate_v3");
    expect("cuCtxCreate", 12050, 0, "cuCtxCreate_v4");
}

Test(sim_procaddr, flags_choose_the_default_stream)
{
    expect("cuStreamSynchronize", 13000, 0, "cuStreamSynchronize");
    expect("cuStreamSynchronize", 13000, 1, "cuStreamSynchronize");
    expect("cuStreamSynchronize", 13000, 2, "cuStreamSynchronize_ptsz");
    expect("cuStreamSynchronize", 6000, 2, "cuStreamSynchronize");
    expect("cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds");
    expect("cuMemAlloc", 13000, 2, "cuMemAlloc_v2");
}

Test(sim_procaddr, tells_why_nothing_was_found)
{
    CUdriverProcAddressQueryResult status = 77;
    void *found = &status;

    ok(cuGetProcAddress_v2("cuNoSuchThing", &found, 13000, 0, &status));
    cr_assert_null(found);
    cr_assert_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    ok(cuGetProcAddress_v2("cuMemAllocAsync", &found, 11010, 0, &status));
    cr_assert_null(found);
    cr_assert_eq(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    ok(cuGetProcAddress_v2("cuMemAlloc_v2", &found, 13000, 0, &status));
    cr_assert_null(found);
    ok(cuGetProcAddress_v2("", &found, 0, 0, NULL));
    cr_assert_null(found);
    fails(cuGetProcAddress_v2("cuMemAlloc", NULL, 13000, 0, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuGetProcAddress_v2(NULL, &found, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuGetProcAddress_v2("cuMemAlloc", &found, 13000, 8, NULL),
          CUDA_ERROR_INVALID_VALUE);
    get_v1 v1 = (get_v1)sim_test_exported("cuGetProcAddress");
    fails(v1("cuNoSuchThing", &found, 11030, 0), CUDA_ERROR_NOT_FOUND);
    ok(v1("cuInit", &found, 11030, 0));
    cr_assert_eq(found, sim_test_exported("cuInit"));
}

Test(sim_procaddr, hides_what_is_newer_than_the_driver)
{
    CUdriverProcAddressQueryResult status = 77;
    void *found = NULL;
    int version = 0;

    setenv("CUDASIM_DRIVER_VERSION", "12040", 1);
    ok(cuDriverGetVersion(&version));
    cr_assert_eq(version, 12040);
    ok(cuGetProcAddress_v2("cuCtxRecordEvent", &found, 12040, 0, &status));
    cr_assert_null(found);
    cr_assert_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    expect("cuCtxCreate", 12040, 0, "cuCtxCreate_v3");
    expect("cuCtxCreate", 13000, 0, "cuCtxCreate_v3");
}

enum thread_flag { PLAIN, PTDS, PTSZ };
enum state { MODELLED, UNMODELLED, GRAPHICS = UNMODELLED };

struct row {
    const char *symbol;
    const char *base;
    int since;
    enum thread_flag thread;
    enum state state;
};

static const struct row rows[] = {
#define SIM_SYMBOL(symbol, base, since, thread, state)                                   \
    {#symbol, #base, since, thread, state},
#include "../driver/symbols.def"
#undef SIM_SYMBOL
};

Test(sim_procaddr, finds_every_row_of_its_table)
{
    cr_assert_geq(GS_ARRAY_LEN(rows), 672);
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        expect(rows[i].base, rows[i].since, rows[i].thread == PLAIN ? 0 : 2,
               rows[i].symbol);
}

/* Any function, called with more zeros than it has arguments. */
typedef CUresult (*any_function)(size_t, size_t, size_t, size_t, size_t, size_t, size_t,
                                 size_t, size_t, size_t, size_t, size_t);

static CUresult call_with_zeros(const char *symbol)
{
    any_function call = (any_function)sim_test_exported(symbol);

    return call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

Test(sim_errors, functions_that_are_not_modelled_say_so)
{
    int refused = 0;

    sim_test_start("1", "16M");
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (rows[i].state != UNMODELLED)
            continue;
        cr_assert_eq(call_with_zeros(rows[i].symbol), CUDA_ERROR_NOT_SUPPORTED, "%s",
                     rows[i].symbol);
        refused++;
    }
    cr_assert_gt(refused, 0);
}

Test(sim_errors, no_function_crashes_on_null)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        call_with_zeros(rows[i].symbol);
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        CUcontext context = sim_test_start("1", "16M"); /* some of them end it */
        CUresult res = call_with_zeros(rows[i].symbol);
        cr_assert(res == CUDA_ERROR_NOT_SUPPORTED || res <= CUDA_ERROR_UNKNOWN);
        ok(cuCtxSetCurrent(context));
    }
}

Test(sim_procaddr, has_no_private_tables)
{
    CUuuid id = {{0}};
    const void *table = &id;

    sim_test_start("1", "16M");
    fails(cuGetExportTable(&table, &id), CUDA_ERROR_INVALID_VALUE);
    cr_assert_null(table);
}

Test(sim_procaddr, writes_its_log)
{
    char path[] = "/tmp/sim_lookups_XXXXXX";
    char text[128] = "";
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    setenv("CUDASIM_LOG_LOOKUPS", path, 1);
    look_up("cuMemAlloc", 3020, 0);
    look_up("cuStreamQuery", 7000, 2);
    cr_assert_gt(read(fd, text, sizeof(text) - 1), 0);
    close(fd);
    unlink(path);
    cr_assert_str_eq(text, "cuMemAlloc 3020 0 -> cuMemAlloc_v2\n"
                           "cuStreamQuery 7000 2 -> cuStreamQuery_ptsz\n");
}

Test(sim_errors, have_names_and_texts)
{
    const char *text = NULL;

    ok(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    cr_assert_str_eq(text, "CUDA_ERROR_OUT_OF_MEMORY");
    ok(cuGetErrorString(CUDA_SUCCESS, &text));
    cr_assert_str_eq(text, "no error");
    fails(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    cr_assert_null(text);
    fails(cuGetErrorString(CUDA_SUCCESS, NULL), CUDA_ERROR_INVALID_VALUE);
}
