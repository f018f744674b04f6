/*
 * entry_lookup.c - cuInit, cuGetProcAddress and cuGetExportTable: the calls by which a
 * program finds the driver.
 *
 * The driver answers a look-up first; then the function that it returned is replaced by
 * the wrapper registered for this very address. So the ABI that the driver chose for the
 * requested version always matches, and a name that the driver does not know stays
 * unknown.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/link/elf_module.h"
#include "shim/link/libraries.h"
#include "shim/link/recent_lookups.h"
#include "shim/link/lookup_log.h"
#include "shim/order/export_tables.h"
#include "shim/order/other_threads.h"
#include "shim/settings/log.h"
#include "shim/state/cuda_start.h"
#include "shim/state/state.h"

/* Before a call by which the program finds the driver. */
static void begin_asking(const char *call, const void *caller)
{
    (void)gs_state(); /* reads the options and opens the log */
    gs_real_recheck();
    gs_real_open(call, caller);
    gs_thread.asks_driver++;
}

/* Replaces the driver's answer by the wrapper, unless the caller is on the way from the
 * wrapper to the driver. */
static void substitute_answer(CUresult result, const char *name, void **pfn, int version,
                              cuuint64_t flags, const void *caller)
{
    gs_thread.asks_driver--;
    if (result != CUDA_SUCCESS || !name || !pfn || !*pfn || gs_thread.asks_driver > 0 ||
        gs_real_owns(caller)) {
        return; /* newer drivers return success without a function */
    }
    void *found = *pfn;
    gs_recent_lookups_add(name);
    if (gs_state()) {
        *pfn = gs_real_substitute_version(name, found, version, flags);
        gs_libraries_looked_up();
    }
    gs_lookup_log_function(name, version, flags, *pfn != found);
}

/* The driver's own table, unchanged: the runtime verifies it. */
GS_EXPORT CUresult cuGetExportTable(const void **ppExportTable,
                                    const CUuuid *pExportTableId)
{
    begin_asking("cuGetExportTable", __builtin_return_address(0));
    CUresult result = gs_real()->cuGetExportTable(ppExportTable, pExportTableId);
    gs_thread.asks_driver--;
    if (result == CUDA_SUCCESS && pExportTableId) {
        gs_export_table_given(pExportTableId);
        gs_cuda_start_goes_on();
    }
    if (pExportTableId) {
        if (result != CUDA_SUCCESS) {
            gs_cuda_start_record(GS_CUDA_HAS_CONTEXT, "cuGetExportTable", result);
        }
        char guid[GS_GUID_BYTES];
        gs_export_table_guid(pExportTableId, guid);
        gs_lookup_log_table(guid, result);
    }
    return result;
}

/* The oldest driver that the library is tested with: CUDA 11.4. */
#define OLDEST_TESTED 11040

/* Logs one line, at the first cuInit, about a driver that the library cannot work with,
 * or was not tested with. */
static void report_driver(CUresult result)
{
    static struct gs_log_limit limit;
    const struct gs_real *real = gs_real();
    const char *lacks = gs_real_lacks();
    struct gs_module_ref module;
    bool loaded = gs_elf_module_named("libcuda.so", true, &module) == GS_OK;
    int version = 0;
    if (lacks && (loaded || result == CUDA_SUCCESS)) {
        gs_log_once(
            &limit, GS_LOG_WARN,
            "the CUDA driver has no %s: every call is passed on to it, and nothing "
            "is recorded",
            lacks);
    } else if (!gs_real_complete()) {
        gs_log_once(&limit, GS_LOG_WARN, "no CUDA driver is loaded: cuInit returns %d",
                    (int)result);
    } else if (real->cuDriverGetVersion &&
               real->cuDriverGetVersion(&version) == CUDA_SUCCESS &&
               version < OLDEST_TESTED) {
        gs_log_once(
            &limit, GS_LOG_WARN,
            "the CUDA driver is of CUDA %d.%d; the library is tested with 11.4 and "
            "newer",
            version / 1000, version % 1000 / 10);
    }
}

GS_EXPORT CUresult cuInit(unsigned int Flags)
{
    begin_asking("cuInit", __builtin_return_address(0));
    CUresult result = gs_real()->cuInit(Flags);
    gs_thread.asks_driver--;
    if (gs_state()) {
        report_driver(result);
    }
    gs_cuda_start_record(GS_CUDA_INITIALIZED, "cuInit", result);
    if (result == CUDA_SUCCESS) {
        gs_real_keep();
    } else if (gs_state()) {
        gs_await_driver_threads();
    }
    return result;
}

#define GS_FILE_lookup ,
#include "shim/entries/forward.h"
