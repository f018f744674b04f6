/*
 * shim_cuda_start.c - which failure is named where CUDA did not start: xgboost and CuPy
 * over driver 555 without a GPU ask for an optional table before cuInit.
 */
#include <criterion/criterion.h>

#include <string.h>

#include "shim/state/cuda_start.h"

static bool begins_with(const char *text)
{
    return strncmp(gs_cuda_start_failure(), text, strlen(text)) == 0;
}

Test(cuda_start, names_the_earliest_stage_that_failed)
{
    cr_assert_str_eq(gs_cuda_start_failure(), "");
    gs_cuda_start_record(GS_CUDA_HAS_CONTEXT, "cuGetExportTable",
                         CUDA_ERROR_INVALID_VALUE);
    cr_assert(begins_with("cuGetExportTable returned 1"), "%s", gs_cuda_start_failure());
    gs_cuda_start_record(GS_CUDA_INITIALIZED, "cuInit", CUDA_ERROR_NO_DEVICE);
    cr_assert(begins_with("cuInit returned 100"), "%s", gs_cuda_start_failure());
    gs_cuda_start_record(GS_CUDA_HAS_CONTEXT, "cuCtxCreate", CUDA_ERROR_OUT_OF_MEMORY);
    cr_assert(begins_with("cuInit returned 100"), "%s", gs_cuda_start_failure());
    gs_cuda_start_record(GS_CUDA_INITIALIZED, "cuInit", CUDA_SUCCESS);
    cr_assert_str_eq(gs_cuda_start_failure(), "");
}
