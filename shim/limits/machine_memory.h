/*
 * machine_memory.h - how much memory the machine has, and how much of it this process may
 * still take: the smaller of what the system has available and what its control groups
 * leave it.
 */
#ifndef GS_MACHINE_MEMORY_H
#define GS_MACHINE_MEMORY_H

#include "gs_base.h"

struct gs_machine_memory {
    uint64_t total_bytes;     /* of the machine, or a group's limit if that is less */
    uint64_t available_bytes; /* without making anybody else go short */
};

/*
 * Read both now, from the files under `root` ("" for the system's own; tests have
 * theirs). Returns false, with nothing written, if they cannot be read. Calls no
 * allocator. Keeps errno. Source: Linux, Documentation/filesystems/proc.rst (meminfo),
 * admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst
 */
bool gs_machine_memory_read(const char *root, struct gs_machine_memory *out);

/*
 * The same from an answer that is at most GS_MACHINE_RECENT_NS old at `now_ns`, less what
 * gs_machine_memory_taken was told since. A reading opens eight files or more, and many
 * threads ask. A thread that finds the answer too old reads; the others go on with the
 * old one meanwhile.
 */
#define GS_MACHINE_RECENT_NS 50000000ull
bool gs_machine_memory_recent(const char *root, uint64_t now_ns,
                              struct gs_machine_memory *out);
/* The process has pinned so many bytes more; below 0: has given them back. */
void gs_machine_memory_taken(int64_t bytes);

#endif
