/*
 * case_lookup_address.c - cuGetProcAddress, in the form of 11.3 and that of 12.0.
 */
#include <string.h>

#include "case_context_help.h"

/* CU_GET_PROC_ADDRESS_..., which headers of CUDA 11 lack in part. */
enum { AS_COMPILED, LEGACY_STREAM, PER_THREAD_STREAM };
enum { FOUND, NOT_FOUND, VERSION_NOT_SUFFICIENT, UNTOUCHED = 99 };

typedef CUresult (*get_v1)(const char *, void **, int, cuuint64_t);
typedef CUresult (*get_v2)(const char *, void **, int, cuuint64_t, int *);

/* What one look-up answers. */
struct answer {
    CUresult code;
    void *function;
    int status;
};

/* False, and the case skipped, where the driver has no such look-up. */
static bool look_up(const char *name, int version, cuuint64_t flags, struct answer *out)
{
    get_v2 get = (get_v2)newer(12000, "cuGetProcAddress_v2");

    if (!get)
        return false;
    *out = (struct answer){CUDA_ERROR_UNKNOWN, (void *)out, UNTOUCHED};
    out->code = get(name, &out->function, version, flags, &out->status);
    return true;
}

/* By the form with a status or, as in driver 470, without one; `out` is itself where the
 * driver leaves it untouched. */
static CUresult look_up_either(const char *name, int version, void **out)
{
    get_v2 get = (get_v2)driver_function("cuGetProcAddress_v2");
    get_v1 older = (get_v1)driver_function("cuGetProcAddress");

    *out = out;
    return get     ? get(name, out, version, AS_COMPILED, NULL)
           : older ? older(name, out, version, AS_COMPILED)
                   : CUDA_ERROR_NOT_FOUND;
}

static void check_found(const struct answer *answer)
{
    CHECK_CODE(answer->code, CUDA_SUCCESS);
    CHECK_EQUAL(answer->status, FOUND);
    CHECK(answer->function != NULL && answer->function != (void *)answer);
}

static void check_absent(const struct answer *answer, int status)
{
    CHECK_CODE(answer->code, CUDA_SUCCESS);
    CHECK_EQUAL(answer->status, status);
    CHECK(answer->function == NULL);
}

CASE(lookup, finds_functions, DRIVER_API, "cuGetProcAddress",
     "CU_GET_PROC_ADDRESS_SUCCESS: the requested symbol was succesfully found based on "
     "input arguments and pfn is valid")
{
    struct answer answer;
    int count = -1;

    if (!look_up("cuDeviceGetCount", 2000, AS_COMPILED, &answer))
        return;
    check_found(&answer);
    if (answer.function)
        CHECK_OK(((CUresult(*)(int *))answer.function)(&count));
    CHECK_EQUAL(count, device_count());
}

CASE(lookup, finds_the_version, DRIVER_API, "cuGetProcAddress",
     "For cuMemAlloc_v2, symbol would be cuMemAlloc and cudaVersion would be the ABI "
     "compatible CUDA version for the _v2 variant")
{
    struct answer alloc, release;
    CUdeviceptr pointer = 0;

    if (!look_up("cuMemAlloc", 3020, AS_COMPILED, &alloc) ||
        !look_up("cuMemFree", 3020, AS_COMPILED, &release))
        return;
    check_found(&alloc);
    check_found(&release);
    if (!alloc.function || !release.function)
        return;
    CHECK_OK(((CUresult(*)(CUdeviceptr *, size_t))alloc.function)(&pointer, 4096));
    CHECK_OK(cuMemsetD8(pointer, 1, 4096));
    CHECK_OK(((CUresult(*)(CUdeviceptr))release.function)(pointer));
}

CASE(
    lookup, later_versions_too, DRIVER_API, "cuGetProcAddress",
    "If the specified CUDA version is greater than or equal to the CUDA version in which "
    "the driver symbol was introduced, this API will return the function pointer to the "
    "corresponding versioned function")
{
    struct answer answer;

    if (!look_up("cuMemAllocAsync", 11020, AS_COMPILED, &answer))
        return;
    check_found(&answer);
    look_up("cuMemAllocAsync", driver_version(), AS_COMPILED, &answer);
    check_found(&answer);
}

CASE(lookup, name_unknown, DRIVER_API, "cuGetProcAddress",
     "The API will return CUDA_SUCCESS and set the returned pfn to NULL if the driver "
     "symbol is invalid; SYMBOL_NOT_FOUND - the requested symbol was not found")
{
    struct answer answer;

    if (!look_up("cuNoSuchFunction", 12000, AS_COMPILED, &answer))
        return;
    check_absent(&answer, NOT_FOUND);
}

CASE(lookup, version_too_low, DRIVER_API, "cuGetProcAddress",
     "VERSION_NOT_SUFFICIENT - the requested symbol was found but is not supported by "
     "cudaVersion specified; pfn is NULL")
{
    struct answer answer;

    if (!look_up("cuMemAllocAsync", 11010, AS_COMPILED, &answer))
        return;
    check_absent(&answer, VERSION_NOT_SUFFICIENT);
    look_up("cuStreamGetId", 11080, AS_COMPILED, &answer);
    check_absent(&answer, VERSION_NOT_SUFFICIENT);
}

UNINITIALIZED_CASE(
    lookup, version_too_high, DRIVERS, "cuGetProcAddress",
    "seen on 470 to 555: a version newer than the driver gets the newest function there "
    "is; the document says CUDA_ERROR_INVALID_VALUE")
{
    struct answer answer;
    void *newest, *found;

    CHECK_OK(look_up_either("cuMemAlloc", driver_version(), &newest));
    CHECK(newest != NULL && newest != (void *)&newest);
    CHECK_OK(look_up_either("cuMemAlloc", driver_version() + 1000, &found));
    CHECK(found == newest);
    CHECK_OK(look_up_either("cuMemAlloc", -1, &found));
    CHECK(found == newest);
    if (!driver_function("cuGetProcAddress_v2"))
        return;
    look_up("cuNoSuchFunction", driver_version() + 1000, AS_COMPILED, &answer);
    check_absent(&answer, NOT_FOUND);
}

UNINITIALIZED_CASE(
    lookup, old_form_untouched, DRIVERS, "cuGetProcAddress",
    "seen on 470 to 555: the look-up of 11.3 answers CUDA_ERROR_NOT_FOUND and leaves the "
    "pointer as it was")
{
    get_v1 get = (get_v1)driver_function("cuGetProcAddress");
    void *function = &function;

    if (!get) {
        skip("the driver has no cuGetProcAddress of 11.3");
        return;
    }
    CHECK_CODE(get("cuNoSuchFunction", &function, 12000, AS_COMPILED),
               CUDA_ERROR_NOT_FOUND);
    CHECK(function == &function);
    CHECK_CODE(get("cuMemAllocAsync", &function, 11010, AS_COMPILED),
               CUDA_ERROR_NOT_FOUND);
    CHECK(function == &function);
    CHECK_OK(get("cuInit", &function, driver_version() + 1000, AS_COMPILED));
    CHECK(function != NULL && function != &function);
}

UNINITIALIZED_CASE(
    lookup, unknown_table, DRIVERS, "cuGetExportTable",
    "seen on 470 to 555: an unknown table is CUDA_ERROR_INVALID_VALUE, and NULL is "
    "written")
{
    CUuuid unknown;
    const void *table = &unknown;

    memset(&unknown, 0x5a, sizeof(unknown));
    CHECK_INVALID(cuGetExportTable(&table, &unknown));
    CHECK(table == NULL);
    CHECK_INVALID(cuGetExportTable(NULL, &unknown));
    CHECK_INVALID(cuGetExportTable(&table, NULL));
}

/* No NULL name or pointer: drivers 470 to 555 read and write what they are given. */
CASE(lookup, refuses, DRIVER_API, "cuGetProcAddress",
     "CUDA_ERROR_INVALID_VALUE: one or more of the parameters passed is not within an "
     "acceptable range of values")
{
    struct answer answer;

    if (!look_up("cuInit", 12000, 4, &answer))
        return;
    CHECK_INVALID(answer.code);
    CHECK_EQUAL(answer.status, UNTOUCHED);
    CHECK(answer.function == (void *)&answer);
}

CASE(lookup, status_is_optional, DRIVER_API, "cuGetProcAddress",
     "symbolStatus: optional location to store the status of the search")
{
    get_v2 get = (get_v2)newer(12000, "cuGetProcAddress_v2");
    void *function = NULL;

    if (!get)
        return;
    CHECK_OK(get("cuInit", &function, 12000, AS_COMPILED, NULL));
    CHECK(function != NULL);
    CHECK_OK(get("cuNoSuchFunction", &function, 12000, AS_COMPILED, NULL));
    CHECK(function == NULL);
}

CASE(lookup, per_thread_variant, DRIVER_API, "cuGetProcAddress",
     "PER_THREAD_DEFAULT_STREAM: this will enable the search for all driver symbols that "
     "match the requested driver symbol name including the per-thread versions; LEGACY_"
     "STREAM: except the corresponding per-thread versions")
{
    struct answer legacy, per_thread;

    if (!look_up("cuStreamSynchronize", 12000, LEGACY_STREAM, &legacy) ||
        !look_up("cuStreamSynchronize", 12000, PER_THREAD_STREAM, &per_thread))
        return;
    check_found(&legacy);
    check_found(&per_thread);
    CHECK(legacy.function != per_thread.function);
}

CASE(
    lookup, per_thread_falls_back, DRIVER_API, "cuGetProcAddress",
    "If a per-thread version is not found, the API will return the legacy version of the "
    "driver function")
{
    struct answer legacy, per_thread;

    if (!look_up("cuDeviceGetCount", 12000, LEGACY_STREAM, &legacy) ||
        !look_up("cuDeviceGetCount", 12000, PER_THREAD_STREAM, &per_thread))
        return;
    check_found(&legacy);
    check_found(&per_thread);
    CHECK(legacy.function == per_thread.function);
}

CASE(
    lookup, default_is_legacy, DRIVER_API, "cuGetProcAddress",
    "DEFAULT: equivalent to LEGACY_STREAM unless the code is compiled for the per-thread "
    "default stream")
{
    struct answer compiled, legacy;

    if (!look_up("cuStreamSynchronize", 12000, AS_COMPILED, &compiled) ||
        !look_up("cuStreamSynchronize", 12000, LEGACY_STREAM, &legacy))
        return;
    CHECK(compiled.function == legacy.function);
}

CASE(lookup, finds_itself, DRIVER_API, "cuGetProcAddress",
     "Returns the requested driver API function pointer: its own as well")
{
    struct answer answer;
    void *function = NULL;
    int status = UNTOUCHED;

    if (!look_up("cuGetProcAddress", 12000, AS_COMPILED, &answer))
        return;
    check_found(&answer);
    if (!answer.function)
        return;
    CHECK_OK(((get_v2)answer.function)("cuInit", &function, 12000, 0, &status));
    CHECK_EQUAL(status, FOUND);
    CHECK(function != NULL);
}

CASE(lookup, older_form, DRIVER_API, "cuGetProcAddress (11.3)",
     "The form of CUDA 11.3, without a status, finds what the later one finds")
{
    get_v1 get = (get_v1)newer(11030, "cuGetProcAddress");
    void *function = NULL;
    int count = -1;

    if (!get)
        return;
    CHECK_OK(get("cuDeviceGetCount", &function, 11030, 0));
    if (CHECK(function != NULL))
        CHECK_OK(((CUresult(*)(int *))function)(&count));
    CHECK_EQUAL(count, device_count());
}

CASE(lookup, older_form_not_found, DRIVER_API, "cuGetProcAddress (11.3)",
     "CUDA_ERROR_NOT_FOUND if the requested driver function is not supported, no ABI "
     "compatible driver function exists for the specified cudaVersion or the driver "
     "symbol is invalid")
{
    get_v1 get = (get_v1)newer(11030, "cuGetProcAddress");
    void *function = NULL;

    if (!get)
        return;
    CHECK_CODE(get("cuNoSuchFunction", &function, 11030, 0), CUDA_ERROR_NOT_FOUND);
    CHECK_CODE(get("cuMemAllocAsync", &function, 11010, 0), CUDA_ERROR_NOT_FOUND);
}
