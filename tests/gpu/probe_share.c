/*
 * probe_share.c - memory seen from elsewhere: IPC handles, device addresses of pinned
 * memory, attributes of neighbours.
 *
 * The helper process of `ipc` is this program again: it gets handles on its standard
 * input, opens each, and writes back the first word it reads there.
 * Owns: nothing.   Lock: none.
 */
#include "probe.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORD_OF(index) (0xA0000000u + (unsigned)(index))
#define LARGE_BYTES    (8 * GS_MIB)
#define SMALL_BYTES    (64 * GS_KIB)
#define INSIDE         (4 * GS_KIB)

/* ---- IPC: the helper process
 * --------------------------------------------------------------- */

struct answer {
    int code;                /* of cuIpcOpenMemHandle */
    uint32_t word;           /* first word at the opened address */
    unsigned long long size; /* of the allocation around it */
    long long offset;        /* of the opened address in it */
};

static bool read_all(int from, void *to, size_t bytes)
{
    for (char *at = to; bytes > 0;) {
        ssize_t got = read(from, at, bytes);

        if (got <= 0)
            return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool write_all(int to, const void *from, size_t bytes)
{
    for (const char *at = from; bytes > 0;) {
        ssize_t put = write(to, at, bytes);

        if (put <= 0)
            return false;
        at += put;
        bytes -= (size_t)put;
    }
    return true;
}

static void open_one(CUipcMemHandle handle, struct answer *out)
{
    CUdeviceptr block = 0, base = 0;
    size_t bytes = 0;

    memset(out, 0, sizeof(*out));
    out->code = (int)driver.cuIpcOpenMemHandle_v2(&block, handle,
                                                  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (out->code != 0)
        return;
    PROBE_OK(driver.cuMemcpyDtoH_v2(&out->word, block, sizeof(out->word)));
    if (driver.cuMemGetAddressRange_v2(&base, &bytes, block) == CUDA_SUCCESS) {
        out->size = bytes;
        out->offset = (long long)(block - base);
    }
    PROBE_OK(driver.cuIpcCloseMemHandle(block));
}

int probe_ipc_child(void)
{
    CUipcMemHandle handle;
    struct answer answer;
    int out = dup(STDOUT_FILENO);

    /* What goes wrong here is said on stderr: stdout carries answers only. */
    if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || probe_driver_load())
        return 3;
    probe_context();
    while (read_all(STDIN_FILENO, &handle, sizeof(handle))) {
        open_one(handle, &answer);
        if (!write_all(out, &answer, sizeof(answer)))
            return 1;
    }
    return 0;
}

/* ---- IPC: the process that exports
 * ---------------------------------------------------------- */

/* Start the helper; its input and output become *to and *from. */
static pid_t start_helper(int *to, int *from)
{
    int down[2], up[2];
    pid_t child;

    if (pipe(down) != 0 || pipe(up) != 0)
        probe_failed("no pipe");
    child = fork();
    if (child == 0) {
        dup2(down[0], STDIN_FILENO);
        dup2(up[1], STDOUT_FILENO);
        close(down[0]);
        close(down[1]);
        close(up[0]);
        close(up[1]);
        execl("/proc/self/exe", "gpu_probe", "--ipc-child", (char *)NULL);
        _exit(127);
    }
    if (child < 0)
        probe_failed("no child process");
    close(down[0]);
    close(up[1]);
    *to = down[1];
    *from = up[0];
    return child;
}

struct exported {
    const char *name;
    CUdeviceptr address;
    CUresult code;
    CUipcMemHandle handle;
};

static void row_codes(const struct exported *list, size_t count)
{
    probe_row_begin("handle", "code");
    for (size_t i = 0; i < count; i++)
        probe_cell_code(list[i].name, list[i].code);
    probe_row_end();
}

static size_t bytes_that_differ(const struct exported *a, const struct exported *b)
{
    size_t differ = 0;

    for (size_t i = 0; i < sizeof(a->handle.reserved); i++)
        differ += a->handle.reserved[i] != b->handle.reserved[i];
    return differ;
}

/* Bytes that are 0 in every handle, as ranges: "9-15 40-63". */
static size_t zero_ranges(const struct exported *list, size_t count, char *out,
                          size_t size)
{
    size_t zeros = 0, used = 0, length = sizeof(list->handle.reserved);

    out[0] = '\0';
    for (size_t i = 0, start = 0; i <= length; i++) {
        bool zero = i < length;

        for (size_t j = 0; zero && j < count; j++)
            zero = list[j].code != CUDA_SUCCESS || list[j].handle.reserved[i] == 0;
        if (zero) {
            zeros++;
            continue;
        }
        if (i > start && used < size)
            used += (size_t)snprintf(out + used, size - used, "%s%zu-%zu",
                                     used ? " " : "", start, i - 1);
        start = i + 1;
    }
    return zeros;
}

/* In the handle that has most of them: what is packed into another one must fit there. */
static size_t most_bytes_used(const struct exported *list, size_t count)
{
    size_t most = 0;

    for (size_t i = 0; i < count; i++) {
        size_t used = 0;

        for (size_t j = 0; j < sizeof(list->handle.reserved); j++)
            used += list[i].code == CUDA_SUCCESS && list[i].handle.reserved[j] != 0;
        most = used > most ? used : most;
    }
    return most;
}

static void row_handles(const struct exported *list, size_t count)
{
    char ranges[256];
    size_t zeros = zero_ranges(list, count, ranges, sizeof(ranges));

    probe_row_begin("bytes differing", "count");
    for (size_t i = 1; i < count; i++)
        if (list[0].code == CUDA_SUCCESS && list[i].code == CUDA_SUCCESS)
            probe_cell_number(list[i].name,
                              (double)bytes_that_differ(&list[0], &list[i]));
    probe_cell_text("zero_in_all", "%zu of %zu", zeros, sizeof(list->handle.reserved));
    probe_cell_number("used_in_one_at_most", (double)most_bytes_used(list, count));
    probe_cell_quiet("zero_ranges", "%s", ranges);
    probe_row_note("against the handle of %s; zero bytes at %s", list[0].name, ranges);
    probe_row_end();
}

/* What the helper reads through each handle: the block's own word, or whose? */
static void cell_opened(const struct exported *item, const struct answer *answer,
                        uint32_t own_word)
{
    char quiet[64];

    if (answer->code != 0)
        probe_cell_code(item->name, (CUresult)answer->code);
    else if (answer->word == own_word)
        probe_cell_text(item->name, "own");
    else
        probe_cell_text(item->name, "word_%x", answer->word);
    probe_name_suffix(quiet, sizeof(quiet), item->name, "_range");
    probe_cell_quiet(quiet, "%lld of %llu bytes", answer->offset, answer->size);
}

static void row_opened(const struct exported *list, size_t count, const uint32_t *words)
{
    int to, from, status = 0;
    pid_t child = start_helper(&to, &from);
    bool lost = false;

    probe_row_begin("opened reads", "answer");
    for (size_t i = 0; i < count && !lost; i++) {
        struct answer answer;

        if (list[i].code != CUDA_SUCCESS)
            continue;
        lost = !write_all(to, &list[i].handle, sizeof(list[i].handle)) ||
               !read_all(from, &answer, sizeof(answer));
        if (!lost)
            cell_opened(&list[i], &answer, words[i]);
    }
    close(to);
    close(from);
    waitpid(child, &status, 0);
    probe_row_note("word_a000000N: the word of block N. %s",
                   lost ? "The helper process ended early." : "");
    probe_row_end();
}

/* What the driver makes of a handle's bytes behind a mark of somebody else's. */
static void row_moved(const struct exported *from, uint32_t word)
{
    struct exported moved = {.name = "moved", .code = from->code};
    enum { ROOM = 24 };

    memset(moved.handle.reserved, 'G', ROOM);
    memcpy(moved.handle.reserved + ROOM, from->handle.reserved,
           sizeof(moved.handle.reserved) - ROOM);
    row_opened(&moved, 1, &word);
}

void probe_ask_ipc(void)
{
    CUdeviceptr large, small, next;
    struct exported list[5];
    uint32_t words[] = {WORD_OF(0), WORD_OF(1), WORD_OF(2), WORD_OF(3), WORD_OF(4)};

    PROBE_NEED(cuIpcGetMemHandle);
    PROBE_NEED(cuIpcOpenMemHandle_v2);
    PROBE_NEED(cuIpcCloseMemHandle);
    signal(SIGPIPE, SIG_IGN);
    probe_context();
    PROBE_OK(driver.cuMemAlloc_v2(&large, LARGE_BYTES));
    PROBE_OK(driver.cuMemAlloc_v2(&small, SMALL_BYTES));
    PROBE_OK(driver.cuMemAlloc_v2(&next, SMALL_BYTES));
    memset(list, 0, sizeof(list));
    list[0].name = "large", list[0].address = large;
    list[1].name = "large+4K", list[1].address = large + INSIDE;
    list[2].name = "small", list[2].address = small;
    list[3].name = "next", list[3].address = next;
    list[4].name = "small+4K", list[4].address = small + INSIDE;
    for (size_t i = 0; i < GS_ARRAY_LEN(list); i++) {
        PROBE_OK(driver.cuMemsetD32_v2(list[i].address, words[i], 1));
        list[i].code = driver.cuIpcGetMemHandle(&list[i].handle, list[i].address);
    }
    PROBE_OK(driver.cuCtxSynchronize());
    row_codes(list, GS_ARRAY_LEN(list));
    if (list[0].code != CUDA_SUCCESS)
        return;
    row_handles(list, GS_ARRAY_LEN(list));
    row_opened(list, GS_ARRAY_LEN(list), words);
    row_moved(&list[2], words[2]);
}

/* ---- pinned memory from the device
 * --------------------------------------------------------- */

static void cell_pointer(const char *name, char *base, size_t offset)
{
    CUdeviceptr start = 0, inside = 0;
    CUresult code;

    PROBE_OK(driver.cuMemHostGetDevicePointer_v2(&start, base, 0));
    code = driver.cuMemHostGetDevicePointer_v2(&inside, base + offset, 0);
    if (code != CUDA_SUCCESS)
        probe_cell_code(name, code);
    else
        probe_cell_text(name, "%s",
                        inside - start == offset ? "kept"
                        : inside == start        ? "base"
                                                 : "other");
}

static void row_pointer(const char *row, char *base, size_t bytes)
{
    CUdeviceptr start = 0;
    CUresult code = driver.cuMemHostGetDevicePointer_v2(&start, base, 0);

    probe_row_begin(row, "answer");
    if (code != CUDA_SUCCESS) {
        probe_cell_code("base", code);
    } else {
        probe_cell_text("base", "%s", start == (uintptr_t)base ? "same" : "another");
        cell_pointer("+1", base, 1);
        cell_pointer("+4K", base, 4096);
        cell_pointer("last", base, bytes - 1);
    }
    probe_row_end();
}

void probe_ask_host_pointer(void)
{
    size_t bytes = 64 * GS_KIB;
    void *plain, *mapped, *own = aligned_alloc(4096, bytes);

    if (!own)
        probe_failed("no memory");
    probe_context();
    PROBE_OK(driver.cuMemHostAlloc(&plain, bytes, 0));
    PROBE_OK(driver.cuMemHostAlloc(&mapped, bytes, CU_MEMHOSTALLOC_DEVICEMAP));
    PROBE_OK(driver.cuMemHostRegister_v2(own, bytes, CU_MEMHOSTREGISTER_DEVICEMAP));
    row_pointer("plain", plain, bytes);
    row_pointer("mapped", mapped, bytes);
    row_pointer("registered", own, bytes);
    PROBE_OK(driver.cuMemHostUnregister(own));
    PROBE_OK(driver.cuMemFreeHost(mapped));
    PROBE_OK(driver.cuMemFreeHost(plain));
    free(own);
}

/* ---- attributes
 * ---------------------------------------------------------------------------- */

static void cell_sync_memops(const char *name, CUdeviceptr address)
{
    unsigned value = 0;
    CUresult code =
        driver.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);

    if (code == CUDA_SUCCESS)
        probe_cell_text(name, "%u", value);
    else
        probe_cell_code(name, code);
}

static void cell_same_buffer(CUdeviceptr left, CUdeviceptr right)
{
    unsigned long long a = 0, b = 0;
    CUresult code =
        driver.cuPointerGetAttribute(&a, CU_POINTER_ATTRIBUTE_BUFFER_ID, left);

    if (code == CUDA_SUCCESS)
        code = driver.cuPointerGetAttribute(&b, CU_POINTER_ATTRIBUTE_BUFFER_ID, right);
    if (code == CUDA_SUCCESS)
        probe_cell_text("id", "%s", a == b ? "shared" : "own");
    else
        probe_cell_code("id", code);
}

static void row_attributes(const char *row, size_t bytes)
{
    CUdeviceptr block, next;
    unsigned on = 1;
    CUresult code;

    PROBE_OK(driver.cuMemAlloc_v2(&block, bytes));
    PROBE_OK(driver.cuMemAlloc_v2(&next, bytes));
    probe_row_begin(row, "answer");
    code = driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block);
    probe_cell_code("set", code);
    cell_sync_memops("shows", block);
    cell_sync_memops("in", block + bytes / 2);
    cell_sync_memops("next", next);
    code = driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                        next + bytes / 2);
    probe_cell_code("set2", code);
    cell_same_buffer(block, next);
    PROBE_OK(driver.cuMemFree_v2(block));
    PROBE_OK(driver.cuMemAlloc_v2(&block, bytes));
    cell_sync_memops("tenant", block);
    probe_row_note("SYNC_MEMOPS set on the first of two");
    probe_row_end();
    PROBE_OK(driver.cuMemFree_v2(next));
    PROBE_OK(driver.cuMemFree_v2(block));
}

static void cell_id(const char *name, CUdeviceptr address)
{
    unsigned long long id = 0;
    CUresult code =
        driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);

    if (code == CUDA_SUCCESS)
        probe_cell_text(name, "%#llx", id);
    else
        probe_cell_code(name, code);
}

/* The values themselves: the library makes its own beside them. */
static void row_ids(void)
{
    CUdeviceptr block, next, managed;
    void *pinned;

    PROBE_OK(driver.cuMemAlloc_v2(&block, GS_MIB));
    PROBE_OK(driver.cuMemAlloc_v2(&next, 8 * GS_MIB));
    PROBE_OK(driver.cuMemHostAlloc(&pinned, GS_MIB, 0));
    probe_row_begin("BUFFER_ID", "answer");
    cell_id("first", block);
    cell_id("inside", block + GS_MIB / 2);
    cell_id("second", next);
    cell_id("pinned", (uintptr_t)pinned);
    if (driver.cuMemAllocManaged &&
        driver.cuMemAllocManaged(&managed, GS_MIB, CU_MEM_ATTACH_GLOBAL) ==
            CUDA_SUCCESS) {
        cell_id("managed", managed);
        PROBE_OK(driver.cuMemFree_v2(managed));
    }
    for (int i = 0; i < 1000; i++) {
        PROBE_OK(driver.cuMemFree_v2(block));
        PROBE_OK(driver.cuMemAlloc_v2(&block, GS_MIB));
    }
    cell_id("later", block);
    probe_row_note("later: of the block that is alive after 1000 frees and allocations");
    probe_row_end();
    PROBE_OK(driver.cuMemFreeHost(pinned));
    PROBE_OK(driver.cuMemFree_v2(next));
    PROBE_OK(driver.cuMemFree_v2(block));
}

void probe_ask_attributes(void)
{
    probe_context();
    row_ids();
    row_attributes("4K", 4 * GS_KIB);
    row_attributes("1M", GS_MIB);
    row_attributes("8M", 8 * GS_MIB);
}
