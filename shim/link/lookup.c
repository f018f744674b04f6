/*
 * lookup.c - cuInit and cuGetProcAddress: where a program meets the driver.
 *
 * The driver answers a look-up first; then the function it returned is replaced by the
 * wrapper registered for that very address. So the ABI it chose for the version asked for
 * can never be mismatched, and what it does not know stays unknown.
 *
 * Owns:  the look-up log.   Lock: none; the file is opened once, by start-up.
 */
#include "lookup.h"

#include <stdio.h>

#include "log.h"
#include "state.h"

static struct gs_log_file lookup_log; /* immutable after start */

void gs_lookup_log_open(const char *pattern)
{
    gs_log_file_open(&lookup_log, "GPUSHIM_LOOKUP_LOG", pattern);
}

static void log_lookup(const char *name, int version, cuuint64_t flags, bool ours)
{
    char line[256];
    int length =
        snprintf(line, sizeof(line), "%s %d %llu -> %s\n", name[0] ? name : "\"\"",
                 version, (unsigned long long)flags, ours ? "ours" : "driver");
    if (length > 0 && (size_t)length < sizeof(line)) {
        gs_log_file_write(&lookup_log, line, (size_t)length);
    }
}

/* The driver has answered; put the wrapper in its place. */
static void replace(const char *name, void **pfn, int version, cuuint64_t flags)
{
    if (!name || !pfn || !*pfn) {
        return; /* newer drivers answer success with no function */
    }
    void *found = *pfn;
    if (gs_state()) {
        *pfn = gs_real_substitute_version(name, found, version, flags);
    }
    if (gs_log_file_used(&lookup_log)) {
        log_lookup(name, version, flags, *pfn != found);
    }
}

GS_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
                                    cuuint64_t flags)
{
    gs_real_look_again();
    CUresult result = gs_real()->cuGetProcAddress(symbol, pfn, cudaVersion, flags);
    if (result == CUDA_SUCCESS) {
        replace(symbol, pfn, cudaVersion, flags);
    }
    return result;
}

GS_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                                       cuuint64_t flags,
                                       CUdriverProcAddressQueryResult *symbolStatus)
{
    gs_real_look_again();
    CUresult result =
        gs_real()->cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
    if (result == CUDA_SUCCESS) {
        replace(symbol, pfn, cudaVersion, flags);
    }
    return result;
}

GS_EXPORT CUresult cuInit(unsigned int Flags)
{
    (void)gs_state(); /* what is wrong with the options is said before anything happens */
    gs_real_look_again();
    CUresult result = gs_real()->cuInit(Flags);
    if (result == CUDA_SUCCESS) {
        gs_real_keep();
    }
    return result;
}
