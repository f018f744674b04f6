/*
 * version.c - what a driver of CUDASIM_DRIVER_VERSION does not have yet.
 * Owns:  nothing.   Lock: none.
 * Source: symbols.def and since.def.
 */
#include "version.h"

#include "config.h"
#include "log.h"

static const int api_since[] = {
#define SIM_SYMBOL(symbol, base, since, thread, state) since,
#include "symbols.def"
#undef SIM_SYMBOL
};

struct row {
    enum sim_since enumeration;
    unsigned value;
    int version;
};

static const struct row rows[] = {
#define SIM_SINCE(enumeration, value, version) {SIM_SINCE_##enumeration, value, version},
#include "since.def"
#undef SIM_SINCE
};

CUresult sim_version_check(enum sim_api api)
{
    int version = sim_config()->driver_version;

    if (GS_LIKELY(api_since[api] <= version))
        return CUDA_SUCCESS;
    sim_log(1, "%s came with %d.%d, this driver is %d.%d: CUDA_ERROR_NOT_SUPPORTED",
            sim_api_name(api), api_since[api] / 1000, api_since[api] % 1000 / 10,
            version / 1000, version % 1000 / 10);
    return CUDA_ERROR_NOT_SUPPORTED;
}

bool sim_version_knows(enum sim_since enumeration, unsigned value)
{
    int version = sim_config()->driver_version;

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        bool same = enumeration == SIM_SINCE_CONTEXT_FLAG ? (row->value & value) != 0
                                                          : row->value == value;
        if (row->enumeration == enumeration && same && row->version > version)
            return false;
    }
    return true;
}
