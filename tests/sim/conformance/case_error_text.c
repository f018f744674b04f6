/*
 * case_error_text.c - names and texts of error codes.
 */
#include "conformance.h"

#include <string.h>

struct named {
    CUresult code;
    const char *name;
};

#define NAMED(code)                                                                      \
    {                                                                                    \
        code, #code                                                                      \
    }

static const struct named codes[] = {
    NAMED(CUDA_SUCCESS),
    NAMED(CUDA_ERROR_INVALID_VALUE),
    NAMED(CUDA_ERROR_OUT_OF_MEMORY),
    NAMED(CUDA_ERROR_NOT_INITIALIZED),
    NAMED(CUDA_ERROR_DEINITIALIZED),
    NAMED(CUDA_ERROR_NO_DEVICE),
    NAMED(CUDA_ERROR_INVALID_DEVICE),
    NAMED(CUDA_ERROR_INVALID_IMAGE),
    NAMED(CUDA_ERROR_INVALID_CONTEXT),
    NAMED(CUDA_ERROR_MAP_FAILED),
    NAMED(CUDA_ERROR_NO_BINARY_FOR_GPU),
    NAMED(CUDA_ERROR_ECC_UNCORRECTABLE),
    NAMED(CUDA_ERROR_UNSUPPORTED_LIMIT),
    NAMED(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED),
    NAMED(CUDA_ERROR_INVALID_PTX),
    NAMED(CUDA_ERROR_FILE_NOT_FOUND),
    NAMED(CUDA_ERROR_OPERATING_SYSTEM),
    NAMED(CUDA_ERROR_INVALID_HANDLE),
    NAMED(CUDA_ERROR_ILLEGAL_STATE),
    NAMED(CUDA_ERROR_NOT_FOUND),
    NAMED(CUDA_ERROR_NOT_READY),
    NAMED(CUDA_ERROR_ILLEGAL_ADDRESS),
    NAMED(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
    NAMED(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED),
    NAMED(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED),
    NAMED(CUDA_ERROR_CONTEXT_IS_DESTROYED),
    NAMED(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
    NAMED(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
    NAMED(CUDA_ERROR_LAUNCH_FAILED),
    NAMED(CUDA_ERROR_NOT_PERMITTED),
    NAMED(CUDA_ERROR_NOT_SUPPORTED),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
    NAMED(CUDA_ERROR_CAPTURED_EVENT),
    NAMED(CUDA_ERROR_UNKNOWN),
};

CASE(
    error, names, DRIVER_API, "cuGetErrorName",
    "Sets *pStr to the address of a NULL-terminated string representation of the name of "
    "the enum error code")
{
    for (size_t i = 0; i < GS_ARRAY_LEN(codes); i++) {
        const char *name = NULL;
        if (CHECK_OK(cuGetErrorName(codes[i].code, &name)) && CHECK(name != NULL) &&
            strcmp(name, codes[i].name) != 0)
            CHECK_EQUAL(codes[i].code, -1); /* prints which one */
    }
}

CASE(
    error, texts, DRIVER_API, "cuGetErrorString",
    "Sets *pStr to the address of a NULL-terminated string description of the error code")
{
    for (size_t i = 0; i < GS_ARRAY_LEN(codes); i++) {
        const char *text = NULL;
        if (CHECK_OK(cuGetErrorString(codes[i].code, &text)))
            CHECK(text != NULL && *text);
    }
}

CASE(error, unknown_name, DRIVER_API, "cuGetErrorName",
     "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE will be returned and "
     "*pStr will be set to the NULL address")
{
    const char *name = "left";

    CHECK_INVALID(cuGetErrorName((CUresult)123456, &name));
    CHECK(name == NULL);
    name = "left";
    CHECK_INVALID(cuGetErrorName((CUresult)-1, &name));
    CHECK(name == NULL);
}

CASE(error, unknown_text, DRIVER_API, "cuGetErrorString",
     "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE will be returned and "
     "*pStr will be set to the NULL address")
{
    const char *text = "left";

    CHECK_INVALID(cuGetErrorString((CUresult)123456, &text));
    CHECK(text == NULL);
}

UNINITIALIZED_CASE(error, before_cuInit, DRIVER_API, "cuGetErrorName, cuGetErrorString",
                   "CUDA_ERROR_NOT_INITIALIZED is not among their answers")
{
    const char *name = NULL;

    CHECK_OK(cuGetErrorName(CUDA_ERROR_NOT_INITIALIZED, &name));
    CHECK(name && strcmp(name, "CUDA_ERROR_NOT_INITIALIZED") == 0);
    CHECK_OK(cuGetErrorString(CUDA_ERROR_NOT_INITIALIZED, &name));
    CHECK(name && *name);
}
