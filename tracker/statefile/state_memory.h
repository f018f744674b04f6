/*
 * state_memory.h - memory of the tracker in a file, so that it outlives the process.
 *
 * A store costs the same as elsewhere, and is in the file at once, however the process
 * ends (mmap(2), MAP_SHARED). The file begins with a header; the allocated pieces follow,
 * one after the other. state_read.h reads the file.
 *
 * Locks: any thread may call any function; locking is internal.
 * Design: docs/state.md
 */
#ifndef GS_STATE_MEMORY_H
#define GS_STATE_MEMORY_H

#include "gs_base.h"

#define GS_STATE_MAGIC "gpushim\x1a"

/* The process, and its end: NUL-terminated texts. */
struct gs_state_process {
    int64_t pid;
    uint64_t pid_start;   /* its start, in clock ticks since the system's */
    int64_t start_time;   /* its first CUDA call, in seconds since 1970 */
    int32_t rank;         /* < 0: none */
    uint32_t stack_depth; /* frames stored of a stack */
    char boot[40];        /* identifies the boot of the system */
    char hostname[128], command[192];
    char program[256]; /* path of its file; empty: not known, or too long */
    char ending[160];  /* empty: no last report was written */
/* The ending of a process that ran on. */
#define GS_STATE_DETACHED "on gpushim detach"
    uint32_t bad; /* that report had leaks or errors */
    /* What the command gpushim saw of an end without a report, "killed by SIGKILL", and
     * when; empty: nothing. */
    char seen_ending[64];
    uint64_t seen_unix_ms;
    uint64_t copied_ns; /* CLOCK_MONOTONIC; 0: not a copy made while the process ran */
};

#define GS_STATE_DEVICE_BYTES 64
#define GS_STATE_BUS_BYTES    24
#define GS_STATE_UUID_BYTES   48

struct gs_state_header {
    char magic[8];
    uint64_t layout;    /* the writer's gs_state_layout */
    char version[24];   /* of the library */
    uint64_t base;      /* address of the file's first byte in the process */
    uint64_t used;      /* bytes of the file in use; atomic */
    uint64_t not_there; /* requested bytes that the file could not hold; atomic */
    uint64_t tracker;   /* address; 0: none yet; atomic */
    uint64_t annex;     /* likewise: gs_state_annex */
    struct gs_state_process process;
    uint32_t device_count; /* atomic */
    char devices[GS_MAX_DEVICES][GS_STATE_DEVICE_BYTES];
    /* PCI bus ids: ordinals are the process's own (CUDA_VISIBLE_DEVICES). Empty: unknown
     */
    char buses[GS_MAX_DEVICES][GS_STATE_BUS_BYTES];
    char uuids[GS_MAX_DEVICES][GS_STATE_UUID_BYTES]; /* likewise */
};

struct gs_state_memory;

/*
 * In:  file   the file's bytes, `room` of them mapped shared, which is more than the file
 *             has. `length` of them exist, all zero
 *      grow   extends the file from `length` on; false: not possible. Called with the
 *             lock of this memory held
 * Writes the whole header except `process`, `devices` and `tracker`. NULL: no memory, or
 * less than a header.
 */
struct gs_state_config {
    void *file;
    size_t room, length;
    bool (*grow)(void *self, size_t length, size_t more);
    void *self;
    const char *version;
    uint64_t layout;
};
struct gs_state_memory *gs_state_memory_create(const struct gs_state_config *config);

struct gs_state_header *gs_state_memory_header(const struct gs_state_memory *memory);

/* Zeroed pages of the file. If the file cannot grow, or `memory` is NULL, pages of the
 * kernel, which end with the process. NULL: no memory. */
void *gs_state_map(struct gs_state_memory *memory, size_t bytes);
/* Unmaps the kernel's pages. Pages of a file stay; where it is memory of this process
 * alone they are empty then, unless it cannot grow. NULL is allowed. */
void gs_state_unmap(struct gs_state_memory *memory, void *pages, size_t bytes);

/* Zeroed pages for data that the file's creator stores in addition to the tracker's; call
 * once. NULL: the file has no space, or `memory` is NULL. */
void *gs_state_annex(struct gs_state_memory *memory, size_t bytes);

/* Returns true if these pages belong to the file. */
bool gs_state_holds(const struct gs_state_memory *memory, const void *pages);

/* Identifies the layout of a file's data: equal if one build can read what another wrote.
 * The names are those of the calls that allocate; `annex` identifies the layout of
 * gs_state_annex, 0 for none. */
uint64_t gs_state_layout(const char *version, const char *const *names, size_t count,
                         uint64_t annex);

#endif
