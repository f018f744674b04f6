/*
 * config.h - the CUDASIM_* variables, read once.
 * Owns: the parsed values, immutable after sim_config_load().   Lock: the caller's.
 */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H

#include "gs_base.h"
#include "gs_free_waits.h"

#define SIM_MAX_DEVICES 16

/* What an allocation of device or page-locked memory orders (CUDASIM_ALLOC_WAITS). */
enum sim_alloc_waits {
    SIM_ALLOC_WAITS_NONE,    /* nothing */
    SIM_ALLOC_WAITS_CONTEXT, /* it stands between the work before and behind it */
};

/* What CUDASIM_DRIVER_VERSION may be. */
#define SIM_OLDEST_DRIVER 11000
#define SIM_NEWEST_DRIVER 99990

struct sim_config {
    int devices;              /* CUDASIM_DEVICES */
    size_t memory_bytes;      /* CUDASIM_MEMORY, per device, a multiple of 2 MiB */
    size_t copy_rate;         /* CUDASIM_COPY_RATE, bytes a second; 0: no time */
    int driver_version;       /* CUDASIM_DRIVER_VERSION, 1000 * major + 10 * minor */
    int log_level;            /* CUDASIM_LOG */
    uint64_t seed;            /* CUDASIM_SEED */
    bool private_entries;     /* CUDASIM_PRIVATE_ENTRIES */
    bool checkpoint;          /* CUDASIM_CHECKPOINT */
    const char *shared_path;  /* CUDASIM_SHARED, NULL if unset */
    const char *lookups_path; /* CUDASIM_LOG_LOOKUPS, NULL if unset */
    const char *fail;         /* CUDASIM_FAIL, NULL if unset */
    const char *latency_path; /* CUDASIM_LATENCY, NULL if unset */
    const char *attributes;   /* CUDASIM_ATTRIBUTES, NULL if unset */
    const char *name;         /* CUDASIM_NAME, NULL if unset */
    struct gs_free_waits free_waits;  /* CUDASIM_FREE_WAITS */
    enum sim_alloc_waits alloc_waits; /* CUDASIM_ALLOC_WAITS */
    int oracle;                /* CUDASIM_ORACLE; -1: not set, the schedule decides */
    bool separate_hosts;       /* CUDASIM_HOSTS=separate */
    bool stacks;               /* CUDASIM_STACKS */
    const char *findings_path; /* CUDASIM_FINDINGS, NULL if unset */
    int exit_status;  /* CUDASIM_EXIT: of a run with findings; 0: the program's */
    bool hostile;     /* CUDASIM_SCHEDULE=hostile */
    uint64_t hang_ms; /* CUDASIM_HANG, milliseconds; 0: not set */
};

/*
 * The configuration; reads the environment at the first call. Any thread.
 * A malformed value gives one line on stderr and the default.
 */
const struct sim_config *sim_config(void);

/* Parse "64M", "4G", "1048576". True and *out on success; no overflow, nothing trailing.
 */
bool sim_config_parse_size(const char *text, size_t *out);

#endif
