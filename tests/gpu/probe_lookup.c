/*
 * probe_lookup.c - how the driver's functions are reached: look-ups against exports, and
 * calls that the driver makes to itself.
 * Owns: nothing.   Lock: none; the environment is written before any thread runs.
 */
#include "probe_count.h"

#if CUDA_VERSION >= 11080
_Static_assert(offsetof(CUlaunchConfig, numAttrs) == GPU_COUNT_ATTRIBUTES_AT,
               "count.c reads the number of attributes there");
#endif

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- cuGetProcAddress against dlsym
 * -------------------------------------------------------- */

enum {
    LEGACY = CU_GET_PROC_ADDRESS_DEFAULT,
    PER_THREAD = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
};

static const struct hook {
    const char *symbol, *name;
    int since;
    cuuint64_t flags;
} hooks[] = {
#define GS_HOOK(symbol, name, since, stream, treatment, doc)                             \
    {#symbol, name, since, stream},
#define GS_RUNTIME(symbol, doc)
#include "../../shim/entries/hooks.def"
#undef GS_RUNTIME
#undef GS_HOOK
};

struct tally {
    int same, differ, only_export, only_proc, neither;
    char differing[768];
    size_t used;
};

static void name_it(struct tally *tally, const char *symbol)
{
    size_t room = sizeof tally->differing - tally->used;
    int length = snprintf(tally->differing + tally->used, room, "%s%s",
                          tally->used ? " " : "", symbol);

    if (length > 0)
        tally->used += (size_t)length < room ? (size_t)length : room - 1;
}

static void compare(const struct hook *hook, int version, cuuint64_t flags,
                    struct tally *tally)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    void *proc = NULL, *exported = probe_driver_symbol(hook->symbol);
    CUresult code = driver.cuGetProcAddress_v2(hook->name, &proc, version, flags, &found);

    if (code != CUDA_SUCCESS)
        proc = NULL;
    if (proc == exported) {
        tally->same += proc != NULL;
        tally->neither += proc == NULL;
        return;
    }
    tally->differ += proc && exported;
    tally->only_export += !proc;
    tally->only_proc += !exported;
    name_it(tally, hook->symbol);
}

static void row_lookup(const char *row, cuuint64_t legacy_flags)
{
    struct tally tally;

    memset(&tally, 0, sizeof tally);
    for (size_t i = 0; i < GS_ARRAY_LEN(hooks); i++)
        compare(&hooks[i], hooks[i].since,
                hooks[i].flags == LEGACY ? legacy_flags : hooks[i].flags, &tally);
    probe_row_begin(row, "count");
    probe_cell_number("same", tally.same);
    probe_cell_number("differ", tally.differ);
    probe_cell_number("export_only", tally.only_export);
    probe_cell_number("proc_only", tally.only_proc);
    probe_cell_number("neither", tally.neither);
    probe_cell_quiet("not_same", "%s", tally.differing);
    if (tally.used > 0)
        probe_cell_text("first", "%.*s", (int)strcspn(tally.differing, " "),
                        tally.differing);
    probe_row_note(
        "the %zu functions of shim/entries/hooks.def, each at the version it asks for",
        GS_ARRAY_LEN(hooks));
    probe_row_end();
}

/* A name that is not there: newer drivers answer success and no function. */
static void row_missing(void)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    void *proc = (void *)&proc;

    probe_row_begin("missing name", "code");
    probe_cell_code("code",
                    driver.cuGetProcAddress_v2("cuNoSuchCall", &proc, 12000, 0, &found));
    probe_cell_text("pointer", "%s",
                    proc == NULL            ? "null"
                    : proc == (void *)&proc ? "untouched"
                                            : "other");
    probe_cell_number("status", (double)found);
    probe_cell_code("no_status",
                    driver.cuGetProcAddress_v2("cuMemAlloc", &proc, 3020, 0, NULL));
    probe_cell_code("empty_name", driver.cuGetProcAddress_v2("", &proc, 0, 0, NULL));
    probe_row_end();
}

void probe_ask_lookup(void)
{
    PROBE_NEED(cuGetProcAddress_v2);
    row_lookup("as cudart asks", LEGACY);
    row_lookup("flag legacy", CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    row_missing();
}

/* ---- the counting process
 * ------------------------------------------------------------------ */

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
    length = readlink("/proc/self/exe", path, sizeof path - sizeof library - 1);
    if (length <= 0)
        probe_not_supported("this program's own path is not known");
    path[length] = '\0';
    slash = strrchr(path, '/');
    snprintf(slash ? slash + 1 : path, sizeof library, "%s", library);
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

/* ---- does the driver call its own exports?
 * -------------------------------------------------- */

static struct probe_counts before, after; /* the thread that asks */

static struct { /* what the steps work on; likewise */
    struct probe_place place;
    CUdeviceptr block, pitched, managed, async;
    void *host;
    CUarray array;
    CUcontext context;
    CUstream stream;
    uint32_t word;
    char *own; /* plain host memory of 64 KiB */
} made;

static CUresult step_alloc(void)
{
    return driver.cuMemAlloc_v2(&made.block, GS_MIB);
}

static CUresult step_pitch(void)
{
    size_t pitch;

    return driver.cuMemAllocPitch_v2
               ? driver.cuMemAllocPitch_v2(&made.pitched, &pitch, 1000, 10, 4)
               : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult step_managed(void)
{
    return driver.cuMemAllocManaged
               ? driver.cuMemAllocManaged(&made.managed, 65536, CU_MEM_ATTACH_GLOBAL)
               : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult step_host_alloc(void)
{
    return driver.cuMemHostAlloc(&made.host, 65536, 0);
}

static CUresult step_array(void)
{
    CUDA_ARRAY_DESCRIPTOR wanted = {
        .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};

    return driver.cuArrayCreate_v2 ? driver.cuArrayCreate_v2(&made.array, &wanted)
                                   : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult step_alloc_async(void)
{
    return driver.cuMemAllocAsync
               ? driver.cuMemAllocAsync(&made.async, GS_MIB, made.stream)
               : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult step_set(void)
{
    return driver.cuMemsetD32_v2(made.block, 7, 1024);
}

static CUresult step_copy(void)
{
    return driver.cuMemcpyDtoH_v2(&made.word, made.block, sizeof made.word);
}

static CUresult step_launch(void)
{
    return probe_launch_empty(&made.place);
}

static CUresult step_sync(void)
{
    return driver.cuCtxSynchronize();
}

static CUresult step_register(void)
{
    return driver.cuMemHostRegister_v2(made.own, 65536, 0);
}

static CUresult step_unregister(void)
{
    return driver.cuMemHostUnregister(made.own);
}

static CUresult step_free(void)
{
    return driver.cuMemFree_v2(made.block);
}

static CUresult step_free_managed(void)
{
    return made.managed ? driver.cuMemFree_v2(made.managed) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult step_free_host(void)
{
    return driver.cuMemFreeHost(made.host);
}

static CUresult step_array_destroy(void)
{
    return made.array ? driver.cuArrayDestroy(made.array) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult step_free_async(void)
{
    return made.async ? driver.cuMemFreeAsync(made.async, made.stream)
                      : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult step_context(void)
{
    return driver.cuCtxCreate_v2(&made.context, 0, 0);
}

static CUresult step_context_destroy(void)
{
    return driver.cuCtxDestroy_v2(made.context);
}

/* Each step makes one call, named here, which is counted once for us. */
static const struct step {
    const char *name, *symbol;
    CUresult (*make)(void);
} steps[] = {
    {"alloc", "cuMemAlloc_v2", step_alloc},
    {"pitch", "cuMemAllocPitch_v2", step_pitch},
    {"managed", "cuMemAllocManaged", step_managed},
    {"host_alloc", "cuMemHostAlloc", step_host_alloc},
    {"array", "cuArrayCreate_v2", step_array},
    {"alloc_async", "cuMemAllocAsync", step_alloc_async},
    {"set", "cuMemsetD32_v2", step_set},
    {"copy", "cuMemcpyDtoH_v2", step_copy},
    {"launch", "cuLaunchKernel", step_launch},
    {"sync", "cuCtxSynchronize", step_sync},
    {"register", "cuMemHostRegister_v2", step_register},
    {"unregister", "cuMemHostUnregister", step_unregister},
    {"free_async", "cuMemFreeAsync", step_free_async},
    {"array_destroy", "cuArrayDestroy", step_array_destroy},
    {"free_managed", "cuMemFree_v2", step_free_managed},
    {"free_host", "cuMemFreeHost", step_free_host},
    {"free", "cuMemFree_v2", step_free},
    {"context", "cuCtxCreate_v2", step_context},
    {"context_destroy", "cuCtxDestroy_v2", step_context_destroy},
};

/* Calls between the two takes that were not ours: "cuMemAlloc_v2x2". */
static uint64_t foreign_calls(const char *own, char *out, size_t size)
{
    uint64_t total = 0;
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < after.length; i++) {
        uint64_t calls = after.rows[i].calls - before.rows[i].calls;

        if (strcmp(after.rows[i].symbol, own) == 0 && calls > 0)
            calls--;
        if (calls == 0)
            continue;
        total += calls;
        if (used < size)
            used +=
                (size_t)snprintf(out + used, size - used, "%s%sx%llu", used ? "," : "",
                                 after.rows[i].symbol, (unsigned long long)calls);
    }
    return total;
}

static void row_calls(void)
{
    uint64_t total = 0;
    char text[256];
    int made_steps = 0;

    probe_row_begin("calls to itself", "count");
    for (size_t i = 0; i < GS_ARRAY_LEN(steps); i++) {
        CUresult code;
        uint64_t calls;

        probe_counts_take(&before);
        code = steps[i].make();
        probe_counts_take(&after);
        if (code != CUDA_SUCCESS) {
            probe_cell_quiet(steps[i].name, "%s", probe_code_name(code));
            continue;
        }
        made_steps++;
        calls = foreign_calls(steps[i].symbol, text, sizeof text);
        total += calls;
        if (calls > 0)
            probe_cell_text(steps[i].name, "%s", text);
        else
            probe_cell_quiet(steps[i].name, "none");
    }
    probe_cell_number("steps", made_steps);
    probe_cell_number("calls", (double)total);
    probe_row_note("counted calls beyond the one that was made, step by step");
    probe_row_end();
}

/* ---- what the driver's relocations name
 * ----------------------------------------------------- */

struct dynamic {
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * tables[2];
    size_t bytes[2];
};

static void read_dynamic(const struct link_map *map, struct dynamic *out)
{
    memset(out, 0, sizeof *out);
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            out->symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
            break;
        case DT_STRTAB:
            out->strings = (const char *)entry->d_un.d_ptr;
            break;
        case DT_RELA:
            out->tables[0] = (const ElfW(Rela) *)entry->d_un.d_ptr;
            break;
        case DT_RELASZ:
            out->bytes[0] = entry->d_un.d_val;
            break;
        case DT_JMPREL:
            out->tables[1] = (const ElfW(Rela) *)entry->d_un.d_ptr;
            break;
        case DT_PLTRELSZ:
            out->bytes[1] = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
}

static void row_relocations(void)
{
    struct link_map *map = NULL;
    struct dynamic dynamic;
    struct tally tally;
    int count = 0;

    if (dlinfo(probe_driver_handle(), RTLD_DI_LINKMAP, &map) != 0 || !map) {
        probe_row_status("relocations", "not supported", "no link map");
        return;
    }
    read_dynamic(map, &dynamic);
    memset(&tally, 0, sizeof tally);
    for (int table = 0; table < 2 && dynamic.symbols && dynamic.strings; table++)
        for (size_t i = 0; i < dynamic.bytes[table] / sizeof(ElfW(Rela)); i++) {
            size_t index = (size_t)ELF64_R_SYM(dynamic.tables[table][i].r_info);
            const char *name = dynamic.strings + dynamic.symbols[index].st_name;

            if (index == 0 || name[0] != 'c' || name[1] != 'u')
                continue;
            count++;
            name_it(&tally, name);
        }
    probe_row_begin("relocations", "count");
    probe_cell_number("naming_cu", count);
    probe_cell_quiet("names", "%s", tally.differing);
    if (count > 0)
        probe_cell_text("first", "%.*s", (int)strcspn(tally.differing, " "),
                        tally.differing);
    probe_row_note(
        "of the driver's library: its own calls that another library could catch");
    probe_row_end();
}

void probe_ask_reentry(void)
{
    probe_counted_process("reentry");
    probe_context();
    probe_place_open(&made.place, PROBE_NONBLOCKING);
    made.own = aligned_alloc(4096, 65536);
    if (!made.own)
        probe_failed("no memory");
    PROBE_OK(driver.cuStreamCreate(&made.stream, CU_STREAM_NON_BLOCKING));
    row_calls();
    row_relocations();
}
