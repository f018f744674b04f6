/*
 * ipc.h - memory, pools and events shared between processes.
 *
 * A process that shares something keeps a ledger: a memfd with an entry for each
 * allocation, pool and event it shares. What a program passes to another process (an IPC
 * handle, a pool's file, a pointer's export data) is a name: the process, its ledger, the
 * entry and the serial of the entry's use. Whoever opens a name maps that ledger through
 * /proc/<pid>/fd and, for memory, puts the pages of the owner's device behind addresses
 * of its own. The owner's threads take no part in it; the owner must be alive while a
 * name is opened, not afterwards.
 *
 * Owns: the ledger of this process, the processes it has attached to, imports.
 * Lock: ledger_lock, processes_lock and imports_lock, each inside only; opening_lock is
 *       held around an open or close and outside the others. Entries are shared memory:
 *       what changes in them is atomic, the rest is written before the serial.
 * Source: Driver API, "Memory Management", "Stream Ordered Memory Allocator", "Event
 *         Management".
 */
#ifndef SIM_IPC_H
#define SIM_IPC_H

#include <sys/types.h>

#include "config.h"
#include "memory.h"

enum sim_share_kind { SIM_SHARE_MEMORY = 1, SIM_SHARE_POOL, SIM_SHARE_EVENT };

/* ---- the ledger ------------------------------------------------------------------- */

#define SIM_LEDGER_ENTRIES 8192
#define SIM_EVENT_RECORDS  32

/* One record of an event. A number is taken once in the life of an entry. */
struct sim_record {
    atomic_ullong begun; /* the newest record with this place, once `by` stands */
    atomic_ullong done;  /* the newest of them that is done */
    atomic_int by;       /* the process that records it */
};

/* What an entry says of a thing that does not change while it is shared. */
struct sim_shared {
    uint32_t kind; /* enum sim_share_kind */
    int32_t device;
    uint64_t offset; /* memory: bytes into the device's file */
    uint64_t bytes;  /* memory: as requested */
    uint32_t pool;   /* memory of a pool: the pool's entry and its serial */
    uint32_t pool_serial;
    uint64_t before; /* event: records of the entry before it was made */
};

struct sim_entry {
    atomic_uint serial;   /* of the present use; 0: none */
    uint32_t last_serial; /* the owner's ledger_lock */
    atomic_uint opens;    /* memory: how often other processes have it open */
    struct sim_shared shared;
    atomic_ullong recorded; /* event: number of the newest record */
    struct sim_record records[SIM_EVENT_RECORDS];
};

/* A process's ledger, as it lies in its memfd. Entry 0 is never used. */
struct sim_ledger {
    uint64_t magic;
    uint64_t nonce;                           /* tells processes apart, not only pids */
    atomic_int device_files[SIM_MAX_DEVICES]; /* descriptor + 1; 0: not published */
    struct sim_entry entries[SIM_LEDGER_ENTRIES];
};

/* How one process names what another one shares; fits every handle of the API. */
struct sim_name {
    uint32_t magic;
    uint32_t kind; /* enum sim_share_kind */
    uint64_t nonce;
    int32_t pid;
    int32_t ledger; /* its descriptor there */
    uint32_t entry;
    uint32_t serial;
    uint64_t check; /* of all that precedes */
    unsigned char zero[24];
};

/*
 * Enter something in this process's ledger.
 *
 * In:   share   where the owner keeps the entry's number; 0: it has none yet
 *       device_fd  the file of the device's pages, or -1
 * Out:  its name
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY  no ledger, or all its entries are in use
 */
CUresult sim_ledger_enter(atomic_uint *share, const struct sim_shared *shared,
                          int device_fd, struct sim_name *out) GS_MUST_USE;

/* Take it out again; says nothing if it was never entered. Returns how often other
 * processes have it open. */
unsigned sim_ledger_strike(atomic_uint *share);

/* True if these 64 bytes are a name of that kind, as some process may have written it. */
bool sim_name_is_valid(const struct sim_name *name, enum sim_share_kind kind);

/* This process's ledger; NULL before it shared anything. */
struct sim_ledger *sim_ledger_own(void);

/* The entry as long as it is in that use; false if it is over or of another kind. */
bool sim_entry_read(const struct sim_entry *entry, uint32_t serial,
                    enum sim_share_kind kind, struct sim_shared *out) GS_MUST_USE;

/* ---- other processes -------------------------------------------------------------- */

/* A process whose ledger is mapped here; this process itself is one, too. */
struct sim_process {
    unsigned refs; /* processes_lock */
    struct sim_process *next;
    uint64_t nonce;
    pid_t pid;
    bool is_own;
    struct sim_ledger *ledger;
    int files[SIM_MAX_DEVICES]; /* processes_lock; descriptor + 1; 0: not open */
};

/*
 * The process of a name, with a reference.
 *
 * Errors:  CUDA_ERROR_MAP_FAILED  it is gone, or its ledger cannot be mapped
 */
CUresult sim_process_attach(const struct sim_name *name,
                            struct sim_process **out) GS_MUST_USE;
void sim_process_detach(struct sim_process *process);

/* A file of one of its devices, kept open with the process; -1 if it cannot be had. */
int sim_process_file(struct sim_process *process, int device);

/* True if no such process runs any more. */
bool sim_process_is_gone(pid_t pid);

/* ---- memory ----------------------------------------------------------------------- */

/* What belongs to an allocation that is another process's. */
struct sim_import {
    struct sim_process *process; /* with a reference, until the end */
    uint32_t entry, serial;
    struct sim_shared shared;
    unsigned opens;          /* opening_lock */
    struct sim_alloc *alloc; /* which has this */
    struct sim_import *next; /* imports_lock */
};

/*
 * Share an allocation of this process.
 *
 * In:      pool, pool_serial  entry of the pool it is from; 0
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY; CUDA_ERROR_INVALID_VALUE  it has ended meanwhile
 */
CUresult sim_share_alloc(struct sim_alloc *alloc, uint32_t pool, uint32_t pool_serial,
                         struct sim_name *out) GS_MUST_USE;

/* The allocation ends: its name is void from now on. */
void sim_share_end(struct sim_alloc *alloc);

/*
 * Make memory of another process an allocation of the heap, live and in the map.
 *
 * In:      allocation  whose it becomes here
 * Out:     with a reference for the caller beside the heap's
 * Errors:  CUDA_ERROR_INVALID_VALUE  the name is void
 *          CUDA_ERROR_MAP_FAILED     no addresses are left, or no pages can be mapped
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_import(struct sim_heap *heap, const struct sim_allocation *allocation,
                    const struct sim_name *name, struct sim_process *process,
                    struct sim_alloc **out) GS_MUST_USE;

/* It has ended here: unmap it. Nothing for memory of this process. */
void sim_import_end(struct sim_alloc *alloc);

/*
 * Open an IPC handle: the memory of another process, counted per context.
 *
 * In:      may_reopen  a second open counts (11.0); otherwise it is refused (4.1)
 * Errors:  CUDA_ERROR_INVALID_VALUE    no handle, or its memory has been freed
 *          CUDA_ERROR_INVALID_CONTEXT  it is this process's own
 *          CUDA_ERROR_INVALID_HANDLE   another context of the device has handles open
 *                                      from that device of that process
 *          CUDA_ERROR_ALREADY_MAPPED   what lay there before is still open, or the very
 *                                      same without may_reopen
 *          CUDA_ERROR_MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_import_open(struct sim_context *context, const struct sim_name *name,
                         bool may_reopen, CUdeviceptr *out) GS_MUST_USE;

/*
 * Close once; the last close waits for the work of the context that opened it.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  nothing that sim_import_open gave
 */
CUresult sim_import_close(struct sim_context *context, CUdeviceptr pointer) GS_MUST_USE;

#endif
