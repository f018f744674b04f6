/*
 * shim_version.c - proves that the library knows its own version and the calls it hooks.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "shim/life/copies.h"
#include "shim/link/real.h"

Test(version, has_three_numbers)
{
    int major, minor, patch;
    char rest;
    cr_assert_eq(sscanf(gpushim_version(), "%d.%d.%d%c", &major, &minor, &patch, &rest),
                 3);
}

Test(hooked_names, are_exact_and_nothing_else)
{
    cr_assert(gs_real_is_hooked("cuMemAlloc_v2"));
    cr_assert(gs_real_is_hooked("cudaMalloc"));
    cr_assert_not(gs_real_is_hooked("cuMemAlloc")); /* 32-bit types: passed through */
    cr_assert_not(gs_real_is_hooked("cudnnCreate"));
    cr_assert_not(gs_real_is_hooked("cu"));
    cr_assert_not(gs_real_is_hooked("c"));
    cr_assert_not(gs_real_is_hooked(""));
    cr_assert_not(gs_real_is_hooked("malloc"));
}

Test(hooked_names, have_a_name_for_each_call)
{
    cr_assert_str_eq(gs_api_name(GS_API_UNKNOWN), "unknown");
    cr_assert_str_eq(gs_api_name(GS_API_cuMemAlloc_v2), "cuMemAlloc");
    cr_assert_str_eq(gs_api_name(GS_API_cudaFreeAsync), "cudaFreeAsync");
    cr_assert_str_eq(gs_api_name(9999), "unknown");
    for (unsigned api = 0; api < GS_API_COUNT; api++) {
        cr_assert_not_null(gs_api_names()[api]);
    }
}

/* Without a driver every wrapper has something to call, which says what is missing. */
Test(real, answers_without_a_driver)
{
    CUdeviceptr address;
    cr_assert_eq(gs_real()->cuMemAlloc_v2(&address, 1),
                 CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
    cr_assert_eq(gs_real()->cuStreamEndCapture(NULL, NULL),
                 CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
    cr_assert_not(gs_real_complete());
    cr_assert_not(gs_real_owns((void *)gs_real));
}

/* What is no driver's is handed back as it is. */
Test(real, leaves_foreign_addresses_alone)
{
    void *foreign = (void *)strlen;
    cr_assert_eq(gs_real_substitute(NULL, "cuMemAlloc_v2", foreign), foreign);
    cr_assert_eq(gs_real_substitute_version("cuMemAlloc", foreign, 3020, 0), foreign);
}
