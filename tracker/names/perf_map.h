/*
 * perf_map.h - names of generated code, from the file that run times with a compiler
 * (Java, Node.js, .NET, CPython) write for perf: /tmp/perf-PID.map. Owns: nothing. Lock:
 * none.
 */
#ifndef GS_PERF_MAP_H
#define GS_PERF_MAP_H

#include "gs_base.h"

struct gs_perf_map;

/* Reads the file of a process that runs; NULL: there is none, or it is not the process's:
 * older than it, or another user's. */
struct gs_perf_map *gs_perf_map_read(int64_t process);
/* NULL is allowed. */
void gs_perf_map_free(struct gs_perf_map *map);

/* The name of the code at an address, of the newest entry; NULL: none. It lives as long
 * as the map. `map` may be NULL. */
const char *gs_perf_map_find(const struct gs_perf_map *map, uintptr_t address);

#endif
