/*
 * probe_count.c - the counts of libgpu_count.so, taken inside gpu_probe, and the start of
 * the process that has it.
 * Owns: nothing.   Lock: none; the environment is written before any thread runs.
 */
#include "probe_count.h"

#if CUDA_VERSION >= 11080
_Static_assert(offsetof(CUlaunchConfig, numAttrs) == GPU_COUNT_ATTRIBUTES_AT,
               "count.c reads the number of attributes there");
#endif

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gpu_count_each_fn *find_counts(void)
{
    return (gpu_count_each_fn *)dlsym(RTLD_DEFAULT, "gpu_count_each");
}

void probe_counted_process(const char *question)
{
    static const char library[] = "libgpu_count.so";
    char path[PATH_MAX];
    ssize_t length;
    char *slash;

    if (find_counts())
        return;
    if (getenv("LD_PRELOAD"))
        probe_not_supported("%s was not loaded", library);
    length = readlink("/proc/self/exe", path, sizeof(path) - sizeof(library) - 1);
    if (length <= 0)
        probe_not_supported("this program's own path is not known");
    path[length] = '\0';
    slash = strrchr(path, '/');
    snprintf(slash ? slash + 1 : path, sizeof(library), "%s", library);
    if (access(path, R_OK) != 0)
        probe_not_supported("%s is not beside this program", library);
    setenv("LD_PRELOAD", path, 1);
    execl("/proc/self/exe", "gpu_probe", question, (char *)NULL);
    probe_not_supported("this program cannot start itself again");
}

static void take_row(const char *symbol, enum gpu_count_kind kind, uint64_t calls,
                     void *argument)
{
    struct probe_counts *counts = argument;

    if (counts->length == PROBE_MAX_COUNTED)
        probe_failed("more counted calls than places for them");
    counts->rows[counts->length].symbol = symbol;
    counts->rows[counts->length].kind = kind;
    counts->rows[counts->length].calls = calls;
    counts->length++;
}

void probe_counts_take(struct probe_counts *out)
{
    gpu_count_each_fn *each = find_counts();

    out->length = 0;
    if (each)
        each(take_row, out);
}

uint64_t probe_counts_of(const struct probe_counts *before,
                         const struct probe_counts *after, enum gpu_count_kind kind)
{
    uint64_t calls = 0;

    for (size_t i = 0; i < after->length && i < before->length; i++)
        if (after->rows[i].kind == kind)
            calls += after->rows[i].calls - before->rows[i].calls;
    return calls;
}
