/*
 * api_profiler.c - profiler control: accepted, there is no profiler.
 * Owns:  nothing.   Lock: none.
 * Source: Driver API, "Profiler Control".
 */
#include "context.h"

SIM_API(cuProfilerStart, void)
{
    struct sim_context *context;

    return sim_enter_context(SIM_ID_cuProfilerStart, &context);
}

SIM_API(cuProfilerStop, void)
{
    struct sim_context *context;

    return sim_enter_context(SIM_ID_cuProfilerStop, &context);
}
