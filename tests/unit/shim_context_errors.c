/*
 * shim_context_errors.c - proves that the table of errors that end a context has the
 * numbers of cuda.h and no others, and what a free may be tried again after.
 */
#include <criterion/criterion.h>

#include "shim/order/context_errors.h"

Test(context_errors, have_the_numbers_of_the_header)
{
    cr_expect_eq(CUDA_ERROR_ECC_UNCORRECTABLE, 214);
    cr_expect(gs_error_ends_context(CUDA_ERROR_ECC_UNCORRECTABLE));
    cr_expect(gs_error_ends_context(CUDA_ERROR_NVLINK_UNCORRECTABLE));
#if CUDA_VERSION >= 13000
#define GS_CONTEXT_ERROR(name, number) cr_expect_eq((int)name, number, #name);
#include "shim/order/context_errors.def"
#undef GS_CONTEXT_ERROR
#endif
}

/* The whole list, so that a row that is lost is seen. */
Test(context_errors, are_these)
{
    static const int numbers[] = {46,  214, 220, 226, 700, 702, 710, 714, 715,
                                  716, 717, 718, 719, 721, 810, 911, 999};
    size_t found = 0;
    for (int error = 0; error < 2000; error++) {
        if (gs_error_ends_context((CUresult)error)) {
            cr_assert_lt(found, GS_ARRAY_LEN(numbers), "%d", error);
            cr_expect_eq(error, numbers[found]);
            found++;
        }
    }
    cr_expect_eq(found, GS_ARRAY_LEN(numbers));
}

Test(context_errors, memory_stays_after_an_error_that_passes)
{
    cr_expect(gs_wait_keeps_memory(CUDA_ERROR_OUT_OF_MEMORY));
    cr_expect(gs_wait_keeps_memory(CUDA_ERROR_INVALID_CONTEXT));
    cr_expect(gs_wait_keeps_memory(CUDA_ERROR_NOT_PERMITTED));
    cr_expect_not(gs_wait_keeps_memory(CUDA_SUCCESS));
    cr_expect_not(gs_wait_keeps_memory(CUDA_ERROR_LAUNCH_FAILED));
    cr_expect_not(gs_wait_keeps_memory(CUDA_ERROR_DEINITIALIZED));
    cr_expect_not(gs_wait_keeps_memory(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
}
