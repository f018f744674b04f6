/*
 * config.c - reads the CUDASIM_* variables.
 * Owns:  the configuration.   Lock: load_once, immutable afterwards.
 * Design: docs/simulator.md, "Variables"
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

#define GRANULARITY (2 * GS_MIB)

static struct sim_config config; /* load_once, then immutable */
static atomic_bool loaded;       /* published last */
/* Not a mutex: in the child of a fork while another thread reads the variables, glibc's
 * pthread_once reads them again; a mutex would be held for ever. */
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

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

/* In: range  what the line of a wrong value says. */
static size_t read_size(const char *name, size_t fallback, size_t min, size_t max,
                        const char *range)
{
    const char *text = getenv(name);
    size_t bytes;

    if (!text || !*text)
        return fallback;
    if (sim_config_parse_size(text, &bytes) && bytes >= min && bytes <= max)
        return bytes;
    sim_log_always("%s=%s is not a size from %s", name, text, range);
    return fallback;
}

/* The index of the variable's value in `words`; words[0] is the default. */
static int read_word(const char *name, const char *const *words, size_t count)
{
    const char *text = getenv(name);

    if (!text || !*text)
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0)
            return (int)i;
    }
    sim_log_always("%s=%s is not known, using %s", name, text, words[0]);
    return 0;
}

/* NULL if it is unset or empty. */
static const char *read_text(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? strdup(text) : NULL;
}

static struct gs_free_waits read_free_waits(void)
{
    const char *text = getenv("CUDASIM_FREE_WAITS");
    struct gs_free_waits waits = gs_free_waits_assumed();
    size_t length;
    const char *wrong = text && *text ? gs_free_waits_parse(text, &waits, &length) : NULL;

    if (wrong)
        sim_log_always("CUDASIM_FREE_WAITS=%s is not known (%.*s), using context", text,
                       (int)length, wrong);
    return waits;
}

static const char *const alloc_waits[] = {"none", "context"};
static const char *const hosts[] = {"ordered", "separate"};

/* What the oracle is told and what its findings lead to. */
static void load_oracle(void)
{
    const char *oracle = getenv("CUDASIM_ORACLE");
    bool is_set = oracle && *oracle;

    config.oracle = -1;
    if (is_set && (strcmp(oracle, "0") == 0 || strcmp(oracle, "1") == 0))
        config.oracle = *oracle - '0';
    else if (is_set)
        sim_log_always("CUDASIM_ORACLE=%s is not 0 or 1, using the schedule's default",
                       oracle);
    config.separate_hosts = read_word("CUDASIM_HOSTS", hosts, GS_ARRAY_LEN(hosts)) == 1;
    config.stacks = read_number("CUDASIM_STACKS", 1, 0, 1) != 0;
    config.findings_path = read_text("CUDASIM_FINDINGS");
    config.exit_status = (int)read_number("CUDASIM_EXIT", 66, 0, 255);
}

static const char *const schedules[] = {"threads", "hostile"};

/* Every variable that something of the simulated device reads; without CUDASIM_. */
static const char *const known[] = {
    "DEVICES",     "MEMORY",      "DRIVER_VERSION", "LOG",
    "LOG_LOOKUPS", "SEED",        "SCHEDULE",       "FAIL",
    "FREE_WAITS",  "ORACLE",      "HOSTS",          "STACKS",
    "FINDINGS",    "EXIT",        "HANG",           "PRIVATE_ENTRIES",
    "MUTANT",      "ALLOC_WAITS", "ATTRIBUTES",     "LATENCY",
    "NAME",        "COPY_RATE",   "CHECKPOINT",     "SHARED",
};

static bool is_known(const char *name, size_t length)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(known); i++) {
        if (strlen(known[i]) == length && memcmp(known[i], name, length) == 0)
            return true;
    }
    return false;
}

/* A misspelt variable would otherwise be a test of something else. */
static void name_unknown(void)
{
    static const char prefix[] = "CUDASIM_";
    const size_t skip = sizeof(prefix) - 1;

    for (char **entry = environ; entry && *entry; entry++) {
        size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, prefix, skip) == 0 && !is_known(*entry + skip, length - skip))
            sim_log_always("%.*s is not a variable of the simulated device, ignored",
                           (int)(length < 200 ? length : 200), *entry);
    }
}

/* 1000 * major + 10 * minor. */
static int read_driver_version(int fallback)
{
    int version = (int)read_number("CUDASIM_DRIVER_VERSION", (uint64_t)fallback,
                                   SIM_OLDEST_DRIVER, SIM_NEWEST_DRIVER);

    if (version % 10 == 0)
        return version;
    sim_log_always("CUDASIM_DRIVER_VERSION=%d is not 1000 * major + 10 * minor, using %d",
                   version, fallback);
    return fallback;
}

static void load(void)
{
    name_unknown();
    config.devices = (int)read_number("CUDASIM_DEVICES", 1, 0, SIM_MAX_DEVICES);
    /* 1 TiB: four times that, twice, still fits the address space beside a sanitizer. */
    config.memory_bytes = read_size("CUDASIM_MEMORY", 4 * GS_GIB, GRANULARITY,
                                    GS_GIB * 1024, "2M to 1024G, using 4G") &
                          ~(GRANULARITY - 1);
    config.copy_rate = read_size("CUDASIM_COPY_RATE", 0, GS_MIB, GS_GIB * 1024,
                                 "1M to 1024G, using none");
    config.driver_version = read_driver_version(13000);
    config.log_level = (int)read_number("CUDASIM_LOG", 0, 0, 2);
    config.seed = read_number("CUDASIM_SEED", 0, 0, UINT64_MAX);
    config.private_entries = read_number("CUDASIM_PRIVATE_ENTRIES", 0, 0, 1) != 0;
    config.checkpoint = read_number("CUDASIM_CHECKPOINT", 0, 0, 1) != 0;
    config.shared_path = read_text("CUDASIM_SHARED");
    config.lookups_path = read_text("CUDASIM_LOG_LOOKUPS");
    config.fail = read_text("CUDASIM_FAIL");
    config.latency_path = read_text("CUDASIM_LATENCY");
    config.attributes = read_text("CUDASIM_ATTRIBUTES");
    config.name = read_text("CUDASIM_NAME");
    config.hang_ms = read_number("CUDASIM_HANG", 0, 0, 86400000);
    config.free_waits = read_free_waits();
    config.alloc_waits = (enum sim_alloc_waits)read_word(
        "CUDASIM_ALLOC_WAITS", alloc_waits, GS_ARRAY_LEN(alloc_waits));
    load_oracle();
    config.hostile =
        read_word("CUDASIM_SCHEDULE", schedules, GS_ARRAY_LEN(schedules)) == 1;
    atomic_store_explicit(&loaded, true, memory_order_release);
}

const struct sim_config *sim_config(void)
{
    if (GS_UNLIKELY(!atomic_load_explicit(&loaded, memory_order_acquire)))
        pthread_once(&load_once, load);
    return &config;
}
