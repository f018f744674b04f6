/*
 * latency.c - the time that calls take.
 *
 * It is spent by the calling thread, on top of what the simulation itself needs, and
 * behind no lock: calls of several threads take their time side by side.
 *
 * Owns:  whether there is a table.   Lock: none, immutable after sim_latency_load().
 */
#include "latency.h"

#include <errno.h>
#include <time.h>

#include "config.h"
#include "latency_table.h"
#include "log.h"

#define SPIN_NS 50000 /* about what a sleep is late by */

bool sim_latency_armed;

void sim_latency_load(void)
{
    const struct sim_config *config = sim_config();
    static bool loaded; /* by cuInit, under its lock */

    if (loaded || !config->latency_path)
        return;
    loaded = true;
    if (config->hostile)
        sim_log_always(
            "CUDASIM_LATENCY=%.300s is ignored: the hostile schedule has no time",
            config->latency_path);
    else
        sim_latency_armed = sim_latency_table_load(config->latency_path);
}

static void sleep_until(uint64_t end_ns)
{
    const struct timespec end = {(time_t)(end_ns / 1000000000),
                                 (long)(end_ns % 1000000000)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        ;
}

void sim_latency_spend(enum sim_api api, size_t bytes)
{
    uint64_t ns = sim_latency_table_ns(api, bytes);

    if (ns == 0)
        return;
    sim_log(2, "%s: %llu ns longer by CUDASIM_LATENCY", sim_api_name(api),
            (unsigned long long)ns);
    uint64_t end = sim_now_ns() + ns;
    if (ns >= SPIN_NS)
        sleep_until(end - SPIN_NS);
    while (sim_now_ns() < end)
        ;
}

void sim_latency_enter(enum sim_api api)
{
    if (!sim_latency_table_is_sized(api))
        sim_latency_spend(api, 0);
}
