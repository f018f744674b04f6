/*
 * machine_memory.h - the memory of the machine, and how much of it this process may still
 * take: the smaller of the system's available memory and the headroom of its control
 * groups.
 */
#ifndef GS_MACHINE_MEMORY_H
#define GS_MACHINE_MEMORY_H

#include "gs_base.h"

struct gs_machine_memory {
    uint64_t total_bytes;     /* of the machine, or a group's limit if smaller */
    uint64_t available_bytes; /* without swapping or reclaim from other processes */
};

/*
 * Reads both now, from the files under `root` ("": the system's own; tests use their
 * own). Returns false, with nothing written, if they cannot be read. Calls no allocator.
 * Preserves errno.
 * Source: Linux, Documentation/filesystems/proc.rst (meminfo), admin-guide/cgroup-v2.rst
 * and cgroup-v1/memory.rst
 */
bool gs_machine_memory_read(const char *root, struct gs_machine_memory *out);

/*
 * Like gs_machine_memory_read, from an answer at most GS_MACHINE_RECENT_NS old at
 * `now_ns`, minus the bytes reported to gs_machine_memory_taken since. A reading opens
 * eight files or more, and many threads call this. A thread that finds the answer too old
 * reads the files; other threads use the old answer until then.
 */
#define GS_MACHINE_RECENT_NS 50000000ull
bool gs_machine_memory_recent(const char *root, uint64_t now_ns,
                              struct gs_machine_memory *out);
/* Reports that the process has pinned this many more bytes; negative: has unpinned
 * them. */
void gs_machine_memory_taken(int64_t bytes);

#endif
