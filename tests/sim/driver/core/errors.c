/*
 * errors.c - names and texts of CUresult.
 * Owns:  nothing.   Lock: none.
 */
#include "sim.h"
#include "version.h"

struct error {
    int value;
    const char *name;
    const char *text;
};

static const struct error errors[] = {
#define SIM_ERROR(value, name, text) {value, #name, text},
#include "errors.def"
#undef SIM_ERROR
};

static const struct error *find_error(CUresult value)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(errors); i++) {
        if (errors[i].value == (int)value && sim_version_knows(SIM_SINCE_ERROR, value))
            return &errors[i];
    }
    return NULL;
}

SIM_API(cuGetErrorName, CUresult error, const char **out)
{
    const struct error *found = find_error(error);

    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = found ? found->name : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuGetErrorString, CUresult error, const char **out)
{
    const struct error *found = find_error(error);

    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = found ? found->text : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
