/*
 * config.c - reads the CUDASIM_* variables.
 * Owns:  the configuration.   Lock: load_lock while it is read, immutable afterwards.
 * Design: docs/simulator.md, "Variables"
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

#define GRANULARITY (2 * GS_MIB)

static struct sim_config config; /* load_lock, then immutable */
static atomic_bool loaded;       /* published last */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

/* Whole decimal number in [min, max]. */
static bool parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || value < min || value > max)
        return false;
    *out = value;
    return true;
}

bool sim_config_parse_size(const char *text, size_t *out)
{
    char *end;
    unsigned shift = 0;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno)
        return false;
    if (*end == 'K' || *end == 'k')
        shift = 10;
    else if (*end == 'M' || *end == 'm')
        shift = 20;
    else if (*end == 'G' || *end == 'g')
        shift = 30;
    if (shift)
        end++;
    if (*end || value > (SIZE_MAX >> shift))
        return false;
    *out = (size_t)value << shift;
    return true;
}

static uint64_t read_number(const char *name, uint64_t fallback, uint64_t min,
                            uint64_t max)
{
    const char *text = getenv(name);
    uint64_t value;

    if (!text || !*text)
        return fallback;
    if (parse_number(text, min, max, &value))
        return value;
    sim_log_always("%s=%s is not a number from %llu to %llu, using %llu", name, text,
                   (unsigned long long)min, (unsigned long long)max,
                   (unsigned long long)fallback);
    return fallback;
}

static size_t read_memory(size_t fallback)
{
    const char *text = getenv("CUDASIM_MEMORY");
    size_t bytes;

    if (!text || !*text)
        return fallback;
    /* 1 TiB: four times that, twice, still fits the address space beside a sanitizer. */
    if (sim_config_parse_size(text, &bytes) && bytes >= GRANULARITY &&
        bytes <= GS_GIB * 1024)
        return bytes & ~(GRANULARITY - 1);
    sim_log_always("CUDASIM_MEMORY=%s is not a size from 2M to 1024G, using 4G", text);
    return fallback;
}

static void check_schedule(void)
{
    const char *text = getenv("CUDASIM_SCHEDULE");

    if (text && *text && strcmp(text, "threads") != 0)
        sim_log_always("CUDASIM_SCHEDULE=%s is not known, using threads", text);
}

static void load(void)
{
    const char *lookups = getenv("CUDASIM_LOG_LOOKUPS");
    const char *fail = getenv("CUDASIM_FAIL");

    config.devices = (int)read_number("CUDASIM_DEVICES", 1, 0, SIM_MAX_DEVICES);
    config.memory_bytes = read_memory(4 * GS_GIB);
    config.driver_version =
        (int)read_number("CUDASIM_DRIVER_VERSION", 13000, 11000, 99990);
    config.log_level = (int)read_number("CUDASIM_LOG", 0, 0, 2);
    config.seed = read_number("CUDASIM_SEED", 0, 0, UINT64_MAX);
    config.private_entries = read_number("CUDASIM_PRIVATE_ENTRIES", 0, 0, 1) != 0;
    config.lookups_path = lookups && *lookups ? strdup(lookups) : NULL;
    config.fail = fail && *fail ? strdup(fail) : NULL;
    check_schedule();
}

const struct sim_config *sim_config(void)
{
    if (GS_LIKELY(atomic_load_explicit(&loaded, memory_order_acquire)))
        return &config;
    pthread_mutex_lock(&load_lock);
    if (!atomic_load_explicit(&loaded, memory_order_relaxed)) {
        load();
        atomic_store_explicit(&loaded, true, memory_order_release);
    }
    pthread_mutex_unlock(&load_lock);
    return &config;
}
