/*
 * shim_tools.c - proves that memory checkers are known by what the environment names.
 */
#include <criterion/criterion.h>

#include "shim/link/tools.h"

static bool found(const char *entry, char *what, size_t size)
{
    char *const env[] = {"HOME=/", (char *)entry, NULL};
    return gs_tools_memory_checker(env, what, size);
}

Test(tools, know_a_memory_checker_by_its_file)
{
    char what[64];
    cr_assert(found("CUDA_INJECTION64_PATH=/a b/libsanitizer-collection.so", what, 64));
    cr_assert_str_eq(what, "libsanitizer-collection.so");
    cr_assert(found("NVTX_INJECTION64_PATH=libsanitizer-collection.so.1", what, 64));
    cr_assert_str_eq(what, "libsanitizer-collection.so.1");
    cr_assert(found("CUDA_INJECTION64_PATH=./libsanitizer-public.so", what, 12));
    cr_assert_str_eq(what, "libsanitize", "a long name is cut");
}

Test(tools, know_nothing_else)
{
    static const char *const others[] = {
        "CUDA_INJECTION64_PATH=",
        "CUDA_INJECTION64_PATH=/opt/libsanitizer-collection.so/libcupti.so",
        "CUDA_INJECTION64_PATH=libprofiler.so",
        "CUDA_INJECTION64_PATHS=libsanitizer-collection.so",
        "LD_LIBRARY_PATH=libsanitizer-collection.so",
    };
    char what[64];
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++)
        cr_assert_not(found(others[i], what, sizeof(what)), "%s", others[i]);
    cr_assert_not(gs_tools_memory_checker(NULL, what, sizeof(what)));
}
