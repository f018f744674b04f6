/*
 * shim_known_functions.c - proves that the tables of driver functions are found by name,
 * whole and in order, and that a look-up of what they do not know ends the idle proof.
 */
#include <criterion/criterion.h>

#include <string.h>

#include "shim/link/known_functions.h"
#include "shim/link/real.h"
#include "shim/link/wrappers.h"

Test(known, finds_each_counted_function)
{
    for (size_t i = 0; i < gs_counted_count; i++) {
        const char *symbol = gs_counted_symbol(&gs_counted[i]);
        cr_assert_eq(gs_counted_find(symbol), &gs_counted[i], "%s", symbol);
        cr_assert(gs_real_is_hooked(symbol), "%s", symbol);
        cr_assert_not(gs_known_harmless(symbol), "%s", symbol);
    }
}

Test(known, finds_no_other)
{
    cr_assert_null(gs_counted_find(""));
    cr_assert_null(gs_counted_find("cuLaunchKerne"));
    cr_assert_null(gs_counted_find("cuLaunchKernel2"));
    cr_assert_null(gs_counted_find("cuZ"));
    cr_assert_null(gs_counted_find("cuMemAlloc_v2"));
}

Test(known, rows_go_with_their_names)
{
    const struct gs_counted *row = gs_counted_find("cuMemcpyDtoHAsync_v2_ptsz");
    cr_assert_not_null(row);
    cr_assert_str_eq(gs_counted_name(row), "cuMemcpyDtoHAsync");
    cr_assert(row->per_thread);
    cr_assert_eq(row->since, 7000);
    cr_assert_eq(gs_counted_wrappers[row - gs_counted],
                 (void *)cuMemcpyDtoHAsync_v2_ptsz);
    cr_assert_eq((size_t)row->slot * sizeof(void *),
                 offsetof(struct gs_real, cuMemcpyDtoHAsync_v2_ptsz));
}

Test(known, harmless_by_name)
{
    cr_assert(gs_known_harmless("cuDeviceGet"));
    cr_assert(gs_known_harmless("cuArray3DCreate"));
    cr_assert(gs_known_harmless("cuWGLGetDevice") == false);
    cr_assert_not(gs_known_harmless("cuMemcpy"));
    cr_assert_not(gs_known_harmless("cuMemcpyTomorrow"));
    cr_assert_not(gs_known_harmless(""));
    char longest[4096];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    cr_assert_not(gs_known_harmless(longest));
}

static const char *const harmless[] = {
#define GS_HARMLESS(symbol, since, reason) #symbol,
#include "shim/link/harmless.def"
};

Test(known, finds_each_harmless_function)
{
    cr_assert_gt(GS_ARRAY_LEN(harmless), 300);
    for (size_t i = 0; i < GS_ARRAY_LEN(harmless); i++) {
        cr_assert(gs_known_harmless(harmless[i]), "%s", harmless[i]);
        cr_assert_not(gs_real_is_hooked(harmless[i]), "%s", harmless[i]);
    }
}

/* Whatever headers this was built with: a newer program over a newer driver asks for it.
 */
Test(known, what_later_versions_brought)
{
    cr_assert_not_null(gs_counted_find("cuMemcpyBatchAsync_v2"));            /* 13.0 */
    cr_assert_not_null(gs_counted_find("cuMemcpyWithAttributesAsync_ptsz")); /* 13.2 */
    cr_assert_not_null(gs_counted_find("cuFabricCpyBatchAsync"));            /* 13.5 */
    cr_assert(gs_real_is_hooked("cuStreamBeginCaptureToGraph_ptsz"));        /* 12.3 */
    cr_assert(gs_real_is_hooked("cuCtxSynchronize_v2"));                     /* 13.0 */
    cr_assert(gs_known_harmless("cuStreamGetDevResource"));                  /* 13.1 */
    void *foreign = (void *)strlen;
    gs_real_substitute_version("cuStreamGetDevResource", foreign, 13010, 0);
    cr_assert(gs_known_proof_holds());
}

/* These make a context or take device memory: they are no harmless ones. */
Test(known, what_takes_memory_is_counted)
{
    cr_assert_not_null(gs_counted_find("cuCtxSetLimit"));
    cr_assert_not_null(gs_counted_find("cuGreenCtxCreate"));
    cr_assert_not_null(gs_counted_find("cuGLCtxCreate_v2"));
    cr_assert_not_null(gs_counted_find("cuVDPAUCtxCreate_v2"));
}

Test(known, driver_names_have_a_capital)
{
    cr_assert(gs_known_is_driver_name("cuInit"));
    cr_assert_not(gs_known_is_driver_name("cudaMalloc"));
    cr_assert_not(gs_known_is_driver_name("cublasCreate_v2"));
    cr_assert_not(gs_known_is_driver_name("cuFileDriverOpen"));
    cr_assert(gs_known_is_driver_name("cuFuncGetAttribute"));
    cr_assert_not(gs_known_is_driver_name("curl_easy_init"));
    cr_assert_not(gs_known_is_driver_name("cu"));
    cr_assert_not(gs_known_is_driver_name("c"));
    cr_assert_not(gs_known_is_driver_name(""));
}

/* A newer ABI of a counted function, which this version has no wrapper for. */
Test(known, a_newer_interface_ends_the_proof)
{
    void *foreign = (void *)strlen;
    cr_assert(gs_known_proof_holds());
    cr_assert_eq(gs_real_substitute_version("cuMemcpyDtoH", foreign, 99000, 0), foreign);
    cr_assert_not(gs_known_proof_holds());
    cr_assert_str_eq(gs_known_ended_by(), "cuMemcpyDtoH");
}

Test(known, so_does_a_name_nobody_knows)
{
    void *foreign = (void *)strlen;
    cr_assert_eq(gs_real_substitute_version("cuTomorrow", foreign, 12000, 0), foreign);
    cr_assert_not(gs_known_proof_holds());
}

Test(known, harmless_and_foreign_names_do_not)
{
    void *foreign = (void *)strlen;
    gs_real_substitute_version("cuDeviceGet", foreign, 2000, 0);
    gs_real_substitute_version("", foreign, 2000, 0);
    gs_real_substitute_version("cudaMalloc", foreign, 2000, 0);
    cr_assert(gs_known_proof_holds());
}

/* What a program gets that has looked up `name` and found strlen: strlen itself, or its
 * guard where the function frees. */
static bool is_handed_on(const char *name)
{
    void *foreign = (void *)strlen;
    void *got = gs_real_substitute(NULL, name, foreign);
    return strncmp(name, "cuMemFree", 9) == 0
               ? got != foreign && got == gs_real_substitute(NULL, name, foreign)
               : got == foreign;
}

/* dlsym found it in another tool: calls may go past the count. */
Test(known, another_owners_function_ends_the_proof)
{
    cr_assert(is_handed_on("cuLaunchKernel"));
    cr_assert_not(gs_known_proof_holds());
}

/* Of hooks.def, too: what counts in a wrapper of its own, and what hands out functions.
 */
Test(known, another_owners_hooked_function_ends_the_proof)
{
    static const char *const names[] = {
        "cuGraphLaunch",      "cuGraphLaunch_ptsz",  "cuMemPrefetchAsync",
        "cuMemMapArrayAsync", "cuMemcpyDtoH_v2",     "cuMemAllocAsync",
        "cuMemFreeAsync",     "cuMemFreeAsync_ptsz", "cuMemAllocFromPoolAsync",
        "cuGetProcAddress",   "cuGetProcAddress_v2", "cuGetExportTable",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        gs_known_reset();
        cr_assert(gs_real_gives_work(names[i]), "%s", names[i]);
        cr_assert(is_handed_on(names[i]), "%s", names[i]);
        cr_assert_str_eq(gs_known_ended_by(), names[i]);
    }
}

Test(known, another_owners_harmless_function_does_not)
{
    static const char *const names[] = {
        "cuInit",           "cuMemAlloc_v2",
        "cuMemFree_v2",     "cuMemAllocHost_v2",
        "cuMemGetInfo_v2",  "cuPointerGetAttribute",
        "cuCtxSynchronize", "cudaMalloc",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        cr_assert_not(gs_real_gives_work(names[i]), "%s", names[i]);
        cr_assert(is_handed_on(names[i]), "%s", names[i]);
        cr_assert(gs_known_proof_holds(), "%s", names[i]);
    }
}

Test(known, ends_once_and_by_the_first_name)
{
    gs_known_end_proof("cuFirst");
    gs_known_end_proof("cuSecond");
    cr_assert_str_eq(gs_known_ended_by(), "cuFirst");
    gs_known_reset();
    cr_assert(gs_known_proof_holds());
    gs_known_end_proof(NULL);
    cr_assert_str_eq(gs_known_ended_by(), "");
    cr_assert_not(gs_known_proof_holds());
}
