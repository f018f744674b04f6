/*
 * state_memory.h - the tracker's memory where it is to outlive the process: in a file.
 *
 * What is stored there costs what it costs elsewhere, and is in the file at once, however
 * the process ends (mmap(2), MAP_SHARED). The file begins with a header; behind it lies,
 * one piece behind the other, what was asked for. It is read by state_read.h.
 *
 * Locks: all functions may be called from any thread; locking is internal.
 * Design: docs/state.md
 */
#ifndef GS_STATE_MEMORY_H
#define GS_STATE_MEMORY_H

#include "gs_base.h"

#define GS_STATE_MAGIC "gpushim\x1a"

/* Who the process is, and how it ended: NUL-terminated texts. */
struct gs_state_process {
    int64_t pid;
    uint64_t pid_start;   /* when it started, in clock ticks since the system did */
    int64_t start_time;   /* when it made its first CUDA call, in seconds since 1970 */
    int32_t rank;         /* < 0: none */
    uint32_t stack_depth; /* frames kept of a stack */
    char boot[40];        /* of which start of the system */
    char host[128], command[192];
    char program[256]; /* path of its file; empty: not known, or longer */
    char ending[160];  /* empty: it has written no last report */
};

#define GS_STATE_DEVICE_BYTES 64

struct gs_state_header {
    char magic[8];
    uint64_t layout;    /* gs_state_layout of who wrote it */
    char version[24];   /* of the library */
    uint64_t base;      /* address that the file's first byte had */
    uint64_t used;      /* bytes of the file in use; atomic */
    uint64_t not_there; /* bytes asked for that the file had no room for; atomic */
    uint64_t tracker;   /* address; 0: none yet; atomic */
    uint64_t annex;     /* likewise: gs_state_annex */
    struct gs_state_process process;
    uint32_t device_count; /* atomic */
    char devices[GS_MAX_DEVICES][GS_STATE_DEVICE_BYTES];
};

struct gs_state_memory;

/*
 * In:  file   the file's bytes, `room` of them mapped shared; more than the file has.
 *             Zero, and `length` of them are there
 *      grow   gives the file more, from `length` on; false: it cannot. Called with the
 *             lock of this memory held
 * Writes all of the header but `process`, `devices` and `tracker`. NULL: no memory, or
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
/* The file's mapping stays. NULL is allowed. */
void gs_state_memory_destroy(struct gs_state_memory *memory);

struct gs_state_header *gs_state_memory_header(const struct gs_state_memory *memory);

/* Zeroed pages, of the file; once it cannot grow, and where `memory` is NULL, the
 * kernel's, which end with the process. NULL: there are none. */
void *gs_state_map(struct gs_state_memory *memory, size_t bytes);
/* What the file has of them stays there. NULL is allowed. */
void gs_state_unmap(struct gs_state_memory *memory, void *pages, size_t bytes);

/* Zeroed pages for what whoever makes the file keeps in it beside the tracker's: once.
 * NULL: the file has no room, or `memory` is NULL. */
void *gs_state_annex(struct gs_state_memory *memory, size_t bytes);

/* Whether these pages are the file's. */
bool gs_state_holds(const struct gs_state_memory *memory, const void *pages);

/* Of the forms that things have in a file: equal where one build can read what another
 * wrote. The names are those of the calls that allocate; `annex` stands for the form of
 * what lies in gs_state_annex, and is 0 for none. */
uint64_t gs_state_layout(const char *version, const char *const *names, size_t count,
                         uint64_t annex);

#endif
