/*
 * functions.c - the table through which gpushim.h calls the library.
 * Owns:  nothing.   Lock: none.
 */
#include "api.h"
#include "gs_base.h"

GS_EXPORT const struct gpushim_functions *gpushim_functions(void);

const struct gpushim_functions *gpushim_functions(void)
{
    static const struct gpushim_functions functions = {
        .size = sizeof(functions),
        .version = GPUSHIM_VERSION,
        .statistics = gs_api_statistics,
        .classes = gs_api_classes,
        .trim = gs_api_trim,
        .get_option = gs_api_get_option,
        .set_option = gs_api_set_option,
        .report = gs_api_report,
        .record = gs_api_record,
        .scope_begin = gs_api_scope_begin,
        .scope_end = gs_api_scope_end,
        .stream_alloc = gs_api_stream_alloc,
        .stream_free = gs_api_stream_free,
        .stream_uses = gs_api_stream_uses,
        .warm_up = gs_api_warm_up,
        .get_pressure = gs_api_get_pressure,
        .on_pressure = gs_api_on_pressure,
        .off_pressure = gs_api_off_pressure,
    };
    return &functions;
}
