/*
 * procaddr.c - cuGetProcAddress: (base name, version, flags) -> the exported symbol.
 * The rows of symbols.def are sorted by base name, so one name's rows lie together.
 * Owns:  nothing.   Lock: none.
 * Source: Driver API, "Driver Entry Point Access"; where NVIDIA's drivers 470 to 555
 * differ from it, the drivers (tests/sim/conformance, "seen on 470 to 555"). A version is
 * an unsigned number, and one newer than the driver means the newest there is.
 */
#include <string.h>

#include "config.h"
#include "log.h"
#include "sim.h"
#include "version.h"

#include "cudasim_behind.h" /* behind sim.h, which includes cuda.h in its own way */

enum thread_flag { PLAIN, PTDS, PTSZ };

struct row {
    const char *base;
    const char *symbol;
    int since;
    enum thread_flag thread;
    void *address;
    void *private_address; /* the same function, but no export */
};

/* A jump to each function: what a driver answers that keeps its exports to the linker. */
#if defined(__x86_64__)
#define SIM_JUMP(symbol) "jmp " symbol "@PLT\n"
#else
#define SIM_JUMP(symbol) "b " symbol "\n"
#endif
#define SIM_SYMBOL(symbol, base, since, thread, state)                                   \
    __asm__(".pushsection .text\n.p2align 4\nsim_private_" #symbol                       \
            ":\n" SIM_JUMP(#symbol) ".popsection\n");                                    \
    extern char sim_private_##symbol[] __attribute__((visibility("hidden")));
#include "symbols.def"
#undef SIM_SYMBOL

/* One address per row, whatever the header declares or does not declare. */
#define SIM_SYMBOL(symbol, base, since, thread, state)                                   \
    extern char sim_address_##symbol[] __asm__(#symbol);
#include "symbols.def"
#undef SIM_SYMBOL

static const struct row rows[] = {
#define SIM_SYMBOL(symbol, base, since, thread, state)                                   \
    {#base, #symbol, since, thread, sim_address_##symbol, sim_private_##symbol},
#include "symbols.def"
#undef SIM_SYMBOL
};

/* First row of a base name, or GS_ARRAY_LEN(rows). */
static size_t first_row(const char *base)
{
    size_t low = 0;
    size_t high = GS_ARRAY_LEN(rows);

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(rows[middle].base, base) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * The newest row of that name and threading that the driver has, with since <= version.
 *
 * Out:     *known  a row of the name exists that this driver has
 */
static const struct row *newest(const char *base, int version, bool per_thread,
                                bool *known)
{
    const struct row *best = NULL;
    size_t i = first_row(base);

    for (; i < GS_ARRAY_LEN(rows) && strcmp(rows[i].base, base) == 0; i++) {
        const struct row *row = &rows[i];
        if (row->since > sim_config()->driver_version)
            continue;
        *known = true;
        if ((row->thread != PLAIN) != per_thread ||
            (unsigned)row->since > (unsigned)version)
            continue;
        if (!best || row->since > best->since)
            best = row;
    }
    return best;
}

#define KNOWN_FLAGS                                                                      \
    ((cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM |                                    \
                  CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))

/* Out: *out  the function, NULL where there is none; not written on an error */
static CUresult look_up(enum sim_api api, const char *base, void **out, int version,
                        cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    const struct row *row = NULL;
    bool known = false;

    if (sim_version_check(api) != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!base || !out || (flags & ~KNOWN_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        row = newest(base, version, true, &known);
    if (!row)
        row = newest(base, version, false, &known);
    *out = !row                            ? NULL
           : sim_config()->private_entries ? row->private_address
                                           : row->address;
    if (status)
        *status = row     ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    sim_log_lookup(base, version, flags, row ? row->symbol : "not found");
    return CUDA_SUCCESS;
}

SIM_API_ONE(cuGetProcAddress_v2,
            (const char *symbol, void **out, int version, cuuint64_t flags,
             CUdriverProcAddressQueryResult *status),
            look_up(api, symbol, out, version, flags, status));

SIM_API(cuGetProcAddress, const char *symbol, void **out, int version, cuuint64_t flags)
{
    void *found = NULL;
    CUresult res = look_up(SIM_ID_cuGetProcAddress, symbol, out ? &found : NULL, version,
                           flags, NULL);

    if (res == CUDA_SUCCESS && !found)
        return CUDA_ERROR_NOT_FOUND;
    if (res == CUDA_SUCCESS)
        *out = found;
    return res;
}

/* The address is this driver's own, whatever is preloaded: it is linked with
   -Bsymbolic-functions. */
static const struct cudasim_behind behind = {sizeof(behind), cuLaunchKernel};

__attribute__((visibility("default"))) const struct cudasim_behind *
cudasim_behind_table(void)
{
    return &behind;
}

/*
 * NVIDIA's private export tables are not modelled, on purpose (docs/simulator.md). Only
 * NVIDIA's own runtime asks for them before it starts: one line says why it will not.
 */
SIM_API(cuGetExportTable, const void **table, const CUuuid *id)
{
    static const CUuuid own = CUDASIM_BEHIND_GUID;
    static bool told;

    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    if (memcmp(id, &own, sizeof(own)) == 0) {
        *table = &behind;
        return CUDA_SUCCESS;
    }
    *table = NULL;
    if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        sim_log_always(
            "NVIDIA's own CUDA runtime is in this program, and cannot start on "
            "the simulated device: link with nvcc -cudart shared, or with "
            "-L build/sim -lcudart_static");
    return CUDA_ERROR_INVALID_VALUE;
}
