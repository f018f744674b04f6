/*
 * probe_count.h - the counts of libgpu_count.so, from inside gpu_probe.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_PROBE_COUNT_H
#define GS_PROBE_COUNT_H

#include "count.h"
#include "probe.h"

#define PROBE_MAX_COUNTED 256

struct probe_counts {
    size_t length;
    struct {
        const char *symbol;
        enum gpu_count_kind kind;
        uint64_t calls;
    } rows[PROBE_MAX_COUNTED];
};

/*
 * Make sure that this process has libgpu_count.so, which lies beside the program, before
 * it: the process starts again with it preloaded. `question` is what to ask then. Ends
 * the question as not supported where that does not work.
 */
void probe_counted_process(const char *question);

/* All counts as they stand. */
void probe_counts_take(struct probe_counts *out);

/* Calls of one kind between two takes. */
uint64_t probe_counts_of(const struct probe_counts *before,
                         const struct probe_counts *after, enum gpu_count_kind kind);

#endif
