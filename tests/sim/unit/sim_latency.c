/*
 * sim_latency.c - proves the time that calls take (CUDASIM_LATENCY): which row a call
 * has, what lies between two sizes, that time passes in the call, and what the table's
 * reader says of files and lines that it cannot use.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "gs_clock.h"
#include "sim_helpers.h"

CUresult CUDAAPI cuStreamQuery_ptsz(CUstream stream);

static char table_path[] = "/tmp/sim_latency.XXXXXX"; /* the test's own process */

/* The variable names a file of this text. */
static void use_table(const char *text, size_t bytes)
{
    int fd = mkstemp(table_path);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, bytes), (ssize_t)bytes);
    close(fd);
    setenv("CUDASIM_LATENCY", table_path, 1);
}

static void drop_table(void)
{
    unlink(table_path);
}

static void init_or_exit(void)
{
    if (cuInit(0) != CUDA_SUCCESS)
        _exit(9);
}

/* What cuInit says with this table. */
static void expect_lines(const char *table, const char *const *wanted, size_t count)
{
    char text[8000];

    use_table(table, strlen(table));
    sim_test_said_by(init_or_exit, text, sizeof(text));
    drop_table();
    cr_assert_eq(sim_test_lines_of(text), (int)count, "%s", text);
    for (size_t i = 0; i < count; i++)
        cr_assert_not_null(strstr(text, wanted[i]), "%s: %s", wanted[i], text);
}

/* ---- which row a call has
 * ---------------------------------------------------------------------------------------
 */

static const size_t asked[] = {512, 1024, 4096, 65536, 131072, GS_MIB};

static void allocate_and_free(void)
{
    CUdeviceptr pointer;

    sim_test_start("1", "64M");
    for (size_t i = 0; i < GS_ARRAY_LEN(asked); i++) {
        ok(cuMemAlloc(&pointer, asked[i]));
        ok(cuMemFree(pointer));
    }
}

/* The durations of a function in the log of `body`, one behind the other. */
static void expect_durations(const char *table, void (*body)(void), const char *function,
                             const char *wanted)
{
    static char text[60000];
    char found[400] = "", name[80];
    unsigned long long ns;

    use_table(table, strlen(table));
    setenv("CUDASIM_LOG", "2", 1);
    sim_test_said_by(body, text, sizeof(text));
    drop_table();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (sscanf(line, "cudasim: %79[^:]: %llu ns longer", name, &ns) == 2 &&
            strcmp(name, function) == 0)
            snprintf(found + strlen(found), sizeof(found) - strlen(found), "%llu ", ns);
    }
    cr_assert_str_eq(found, wanted);
}

Test(sim_latency, sizes_between_two_rows_are_linear_in_their_logarithm)
{
    expect_durations("origin: test\n"
                     "cuMemAlloc 64K 8000\n"
                     "cuMemAlloc 1K 2000\n"
                     "cuMemFree 4K 300\n",
                     allocate_and_free, "cuMemAlloc_v2",
                     "2000 2000 4000 8000 8000 8000 ");
}

Test(sim_latency, durations_may_fall_with_the_size)
{
    expect_durations("origin: test\ncuMemAlloc 1K 8000\ncuMemAlloc 1M 3000\n",
                     allocate_and_free, "cuMemAlloc_v2",
                     "8000 8000 7000 5000 4500 3000 ");
}

Test(sim_latency, a_free_takes_what_its_size_takes)
{
    expect_durations(
        "origin: test\ncuMemFree_v2 1K 2000\ncuMemFree_v2 64k 8000 # small\n",
        allocate_and_free, "cuMemFree_v2", "2000 2000 4000 8000 8000 8000 ");
}

Test(sim_latency, a_row_without_a_size_is_for_all_that_have_none)
{
    expect_durations("origin: test\ncuMemAlloc 700\ncuMemFree 900\ncuMemFree 4K 300\n",
                     allocate_and_free, "cuMemAlloc_v2", "700 700 700 700 700 700 ");
    strcpy(strrchr(table_path, '.'), ".XXXXXX");
    expect_durations("origin: test\ncuMemAlloc 700\ncuMemFree 900\ncuMemFree 4K 300\n",
                     allocate_and_free, "cuMemFree_v2", "300 300 300 300 300 300 ");
}

static void other_memory(void)
{
    static char pages[8192] __attribute__((aligned(4096)));
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUdeviceptr pointer;
    CUmemoryPool pool;
    CUstream stream;
    size_t pitch;
    void *host;

    sim_test_start("1", "64M");
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuMemPoolCreate(&pool, &props));
    ok(cuMemHostAlloc(&host, 4096, 0));
    ok(cuMemFreeHost(host));
    ok(cuMemAllocHost(&host, 4096));
    ok(cuMemFreeHost(host));
    ok(cuMemHostRegister(pages, 8192, 0));
    ok(cuMemHostUnregister(pages));
    ok(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL));
    ok(cuMemFree(pointer));
    ok(cuMemAllocPitch(&pointer, &pitch, 2048, 2, 4));
    ok(cuMemFree(pointer));
    ok(cuMemAllocAsync(&pointer, 4096, stream));
    ok(cuMemFreeAsync(pointer, stream));
    ok(cuMemAllocFromPoolAsync(&pointer, 4096, pool, stream));
    ok(cuMemFreeAsync(pointer, stream));
    ok(cuStreamSynchronize(stream));
}

static const char other_table[] = "origin: test\n"
                                  "cuMemHostAlloc 1K 100\n"
                                  "cuMemAllocHost 1K 110\n"
                                  "cuMemFreeHost 1K 120\ncuMemFreeHost 16K 320\n"
                                  "cuMemHostRegister 1K 130\n"
                                  "cuMemHostUnregister 4K 100\n"
                                  "cuMemHostUnregister 16K 300\n"
                                  "cuMemAllocManaged 1K 150\n"
                                  "cuMemAllocPitch 2K 100\ncuMemAllocPitch 8K 300\n"
                                  "cuMemFree 1K 160\n"
                                  "cuMemAllocAsync 1K 170\n"
                                  "cuMemAllocFromPoolAsync 4K 175\n"
                                  "cuMemFreeAsync 4K 180\ncuMemFreeAsync 8K 190\n";

static void expect_other(const char *function, const char *wanted)
{
    strcpy(strrchr(table_path, '.'), ".XXXXXX");
    expect_durations(other_table, other_memory, function, wanted);
}

Test(sim_latency, every_kind_of_memory_has_its_rows)
{
    expect_other("cuMemHostAlloc", "100 ");
    expect_other("cuMemAllocHost_v2", "110 ");
    expect_other("cuMemFreeHost", "220 220 ");
    expect_other("cuMemHostRegister_v2", "130 ");
    expect_other("cuMemHostUnregister", "200 ");
    expect_other("cuMemAllocManaged", "150 ");
    expect_other("cuMemAllocPitch_v2", "200 ");
    expect_other("cuMemFree_v2", "160 160 ");
    expect_other("cuMemAllocAsync", "170 ");
    expect_other("cuMemAllocFromPoolAsync", "175 ");
    expect_other("cuMemFreeAsync", "180 180 ");
}

/* 4 KiB each. */
static void arrays(void)
{
    CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = 64, .Height = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUDA_ARRAY3D_DESCRIPTOR deep = {.Width = 16,
                                    .Height = 16,
                                    .Depth = 16,
                                    .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                    .NumChannels = 1};
    CUarray array;

    sim_test_start("1", "64M");
    ok(cuArrayCreate(&array, &flat));
    ok(cuArrayDestroy(array));
    fails(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    ok(cuArray3DCreate(&array, &deep));
    ok(cuArrayDestroy(array));
    flat.NumChannels = 3;
    fails(cuArrayCreate(&array, &flat), CUDA_ERROR_INVALID_VALUE);
}

static const char array_table[] = "origin: test\n"
                                  "cuArrayCreate 2K 100\ncuArrayCreate 8K 300\n"
                                  "cuArray3DCreate 4K 210\ncuArray3DCreate 8K 320\n"
                                  "cuArrayDestroy 1K 120\ncuArrayDestroy 16K 320\n";

Test(sim_latency, an_array_takes_what_its_elements_take)
{
    expect_durations(array_table, arrays, "cuArrayCreate_v2", "200 ");
    strcpy(strrchr(table_path, '.'), ".XXXXXX");
    expect_durations(array_table, arrays, "cuArray3DCreate_v2", "210 ");
    strcpy(strrchr(table_path, '.'), ".XXXXXX");
    expect_durations(array_table, arrays, "cuArrayDestroy", "220 220 ");
}

/* Each call of virtual memory management well, and so that it fails. */
static void mapped_memory(void)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    const CUmemAccessDesc access = {.location = prop.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const size_t bytes = 4 * GS_MIB;
    CUmemGenericAllocationHandle memory;
    CUdeviceptr range;

    sim_test_start("1", "64M");
    fails(cuMemCreate(&memory, 128 * GS_MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemCreate(&memory, bytes, &prop, 0));
    fails(cuMemAddressReserve(&range, 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemAddressReserve(&range, bytes, 0, 0, 0));
    fails(cuMemSetAccess(range, bytes, &access, 1), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemMap(range, bytes, 0, memory, 0));
    fails(cuMemMap(range, bytes, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemSetAccess(range, bytes, &access, 1));
    fails(cuMemAddressFree(range, bytes), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemUnmap(range, bytes));
    fails(cuMemUnmap(range, bytes), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemRelease(memory));
    fails(cuMemRelease(memory), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemAddressFree(range, bytes));
}

static const char mapped_table[] =
    "origin: test\n"
    "cuMemCreate 2M 100\ncuMemCreate 8M 300\n"
    "cuMemAddressReserve 2M 110\ncuMemAddressReserve 8M 310\n"
    "cuMemMap 2M 120\ncuMemMap 8M 320\n"
    "cuMemSetAccess 2M 130\ncuMemSetAccess 8M 330\n"
    "cuMemUnmap 2M 140\ncuMemUnmap 8M 340\n"
    "cuMemRelease 2M 150\ncuMemRelease 8M 350\n"
    "cuMemAddressFree 2M 160\ncuMemAddressFree 8M 360\n";

static void expect_mapped(const char *function, const char *wanted)
{
    strcpy(strrchr(table_path, '.'), ".XXXXXX");
    expect_durations(mapped_table, mapped_memory, function, wanted);
}

Test(sim_latency, mapped_memory_takes_what_its_size_takes_at_each_call)
{
    expect_mapped("cuMemCreate", "200 ");
    expect_mapped("cuMemAddressReserve", "210 ");
    expect_mapped("cuMemMap", "220 ");
    expect_mapped("cuMemSetAccess", "230 ");
    expect_mapped("cuMemUnmap", "240 ");
    expect_mapped("cuMemRelease", "250 ");
    expect_mapped("cuMemAddressFree", "260 ");
}

static void fail_and_query(void)
{
    CUdeviceptr pointer;

    setenv("CUDASIM_FAIL", "cuStreamQuery:1", 1);
    sim_test_start("1", "64M");
    fails(cuMemAlloc(&pointer, 128 * GS_MIB), CUDA_ERROR_OUT_OF_MEMORY);
    fails(cuMemFree(4096), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFree(0));
    fails(cuStreamQuery(NULL), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuStreamQuery_ptsz(NULL));
    ok(cuStreamQuery(NULL));
}

static const char query_table[] = "origin: test\ncuMemAlloc 700\ncuMemFree 900\n"
                                  "cuStreamQuery 250\n";

Test(sim_latency, a_call_that_fails_takes_no_time)
{
    expect_durations(query_table, fail_and_query, "cuMemAlloc_v2", "");
    strcpy(strrchr(table_path, '.'), ".XXXXXX");
    expect_durations(query_table, fail_and_query, "cuMemFree_v2", "");
    strcpy(strrchr(table_path, '.'), ".XXXXXX");
    expect_durations(query_table, fail_and_query, "cuStreamQuery", "250 ");
    strcpy(strrchr(table_path, '.'), ".XXXXXX");
    expect_durations(query_table, fail_and_query, "cuStreamQuery_ptsz", "250 ");
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

Test(sim_latency, time_passes_in_the_call)
{
    static const char table[] = "origin: test\ncuMemAlloc 30000000\ncuMemFree 20000\n";
    CUdeviceptr pointer;

    use_table(table, strlen(table));
    sim_test_start("1", "64M");
    drop_table();
    uint64_t begun = now_ns();
    ok(cuMemAlloc(&pointer, 512));
    uint64_t between = now_ns();
    ok(cuMemFree(pointer));
    cr_assert_geq(between - begun, 30000000);
    cr_assert_geq(now_ns() - between, 20000);
}

/* ---- what cannot be used
 * ---------------------------------------------------------------------------------------
 */

Test(sim_latency, a_good_table_has_no_line)
{
    expect_lines(
        "# taken by hand\r\n\n  origin:  test \r\n\tcuMemAlloc\t1G   0 # free\r\n"
        "cuMemAlloc 512 3600000000000\ncuCtxSynchronize 12",
        NULL, 0);
}

Test(sim_latency, each_bad_line_has_one)
{
    static const char *const wanted[] = {
        ":2: 'cuMemAlloc' is not a row, ignored\n",
        ":3: 'cuMemAlloc 1M' is not a row, ignored\n",
        ":4: 'cuMemAlloc 1M 5 6' is not a row, ignored\n",
        ":5: 'cuMemAlloc 1M -5' is not a row, ignored\n",
        ":6: 'cuMemAlloc 1M 5.5' is not a row, ignored\n",
        ":7: 'cuMemAlloc 1M 3600000000001' is not a row, ignored\n",
        ":8: 'cuMemAlloc 1M 99999999999999999999999' is not a row, ignored\n",
        ":9: 'cuMemAlloc 1T 5' is not a row, ignored\n",
        ":10: 'cuMemAlloc 0 5' is not a row, ignored\n",
        ":11: 'cuMemAlloc 99999999999G 5' is not a row, ignored\n",
        ":12: 'cuMemAlloc -1M 5' is not a row, ignored\n",
        ":13: 'cuNoSuch 5' names no function of the driver, ignored\n",
        ":14: 'cuTexRefCreate 5' names what is not modelled, ignored\n",
        (":15: 'cuCtxSynchronize 1M 5' gives a size to a function that has none, "
         "ignored\n"),
        ":16: 'origin: another' is not a row, ignored\n",
        ":17: 'cuMemAlloc?1M?5' is not a row, ignored\n",
    };

    expect_lines("origin: test\n"
                 "cuMemAlloc\n"
                 "cuMemAlloc 1M\n"
                 "cuMemAlloc 1M 5 6\n"
                 "cuMemAlloc 1M -5\n"
                 "cuMemAlloc 1M 5.5\n"
                 "cuMemAlloc 1M 3600000000001\n"
                 "cuMemAlloc 1M 99999999999999999999999\n"
                 "cuMemAlloc 1T 5\n"
                 "cuMemAlloc 0 5\n"
                 "cuMemAlloc 99999999999G 5\n"
                 "cuMemAlloc -1M 5\n"
                 "cuNoSuch 5\n"
                 "cuTexRefCreate 5\n"
                 "cuCtxSynchronize 1M 5\n"
                 "origin: another\n"
                 "cuMemAlloc\0331M\0075\n"
                 "cuMemFree 1\n",
                 wanted, GS_ARRAY_LEN(wanted));
}

Test(sim_latency, of_two_rows_the_later_counts_and_that_is_said)
{
    static const char *const wanted[] = {
        ":3: 'cuMemAlloc 1024 600' replaces an earlier row\n",
        ":5: 'cuStreamQuery_ptsz 8' replaces an earlier row\n",
    };
    static const char table[] = "origin: test\ncuMemAlloc_v2 1K 500\n"
                                "cuMemAlloc 1024 600\ncuStreamQuery 7\n"
                                "cuStreamQuery_ptsz 8\n";

    expect_lines(table, wanted, GS_ARRAY_LEN(wanted));
    strcpy(strrchr(table_path, '.'), ".XXXXXX");
    expect_durations(table, allocate_and_free, "cuMemAlloc_v2",
                     "600 600 600 600 600 600 ");
}

Test(sim_latency, many_bad_lines_are_not_all_named)
{
    static const char *const wanted[] = {":21: 'x' is not a row",
                                         ":22: this and further"};
    char table[400] = "origin: test\n", text[8000];

    for (int i = 0; i < 100; i++)
        strcat(table, "x\n");
    strcat(table, "cuMemFree 1\n");
    use_table(table, strlen(table));
    sim_test_said_by(init_or_exit, text, sizeof(text));
    drop_table();
    cr_assert_eq(sim_test_lines_of(text), 21, "%s", text);
    for (size_t i = 0; i < GS_ARRAY_LEN(wanted); i++)
        cr_assert_not_null(strstr(text, wanted[i]), "%s", text);
}

Test(sim_latency, more_sizes_than_there_is_room_for_are_named)
{
    static const char *const wanted[] = {
        ":66: 'cuMemAlloc 65 1' is more than there is room for, ignored\n"};
    char table[2000] = "origin: test\n";

    for (int i = 1; i <= 65; i++)
        snprintf(table + strlen(table), sizeof(table) - strlen(table),
                 "cuMemAlloc %d 1\n", i);
    expect_lines(table, wanted, 1);
}

Test(sim_latency, a_table_of_unknown_origin_is_refused)
{
    static const char *const wanted[] = {
        " does not begin with 'origin: GPU, driver, date', ignored\n"};
    static const char *const tables[] = {"", "# origin: test\n",
                                         "origin:\ncuMemAlloc 5\n",
                                         "cuMemAlloc 5\norigin: test\n"};

    for (size_t i = 0; i < GS_ARRAY_LEN(tables); i++) {
        strcpy(strrchr(table_path, '.'), ".XXXXXX");
        expect_lines(tables[i], wanted, 1);
    }
}

Test(sim_latency, a_table_without_a_row_is_said_to_be)
{
    static const char *const wanted[] = {" has no row that can be used"};

    expect_lines("origin: test\n", wanted, 1);
}

/* 4 MiB at 100 MiB a second take 40 ms, each way. */
Test(sim_latency, copies_take_time_by_their_bytes)
{
    const size_t bytes = 4 * GS_MIB;
    const uint64_t least_ns = 40000000;
    void *host;
    CUdeviceptr block;
    CUstream stream;

    setenv("CUDASIM_COPY_RATE", "100M", 1);
    sim_test_start("1", "64M");
    ok(cuMemHostAlloc(&host, bytes, 0));
    ok(cuMemAlloc(&block, bytes));
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    uint64_t begun = gs_now_ns();
    ok(cuMemcpyHtoD(block, host, bytes));
    uint64_t there = gs_now_ns();
    ok(cuMemcpyDtoHAsync(host, block, bytes, stream));
    ok(cuStreamSynchronize(stream));
    uint64_t back = gs_now_ns();
    cr_expect_geq(there - begun, least_ns);
    cr_expect_geq(back - there, least_ns);
}

static void start_or_exit(void)
{
    sim_test_start("1", "64M");
}

Test(sim_latency, a_rate_that_is_none_is_said_to_be)
{
    char text[2000];

    setenv("CUDASIM_COPY_RATE", "fast", 1);
    sim_test_said_by(start_or_exit, text, sizeof(text));
    cr_assert_str_eq(text, "cudasim: CUDASIM_COPY_RATE=fast is not a size from 1M to "
                           "1024G, using none\n");
}

/* What cuInit says of a file that is no table. */
static void expect_refused(const char *path, const char *why)
{
    char text[2000], wanted[300];

    setenv("CUDASIM_LATENCY", path, 1);
    sim_test_said_by(init_or_exit, text, sizeof(text));
    snprintf(wanted, sizeof(wanted), "cudasim: CUDASIM_LATENCY=%s %s\n", path, why);
    cr_assert_str_eq(text, wanted);
}

Test(sim_latency, what_is_no_file_is_refused_in_a_line)
{
    expect_refused("/nowhere/table",
                   "cannot be read, ignored: No such file or directory");
    expect_refused("/tmp", "cannot be read, ignored: Is a directory");
    expect_refused("/dev/zero", "cannot be read, ignored: not a file");
    cr_assert_eq(close(mkstemp(table_path)), 0);
    cr_assert_eq(truncate(table_path, 2 * GS_MIB), 0);
    expect_refused(table_path, "cannot be read, ignored: larger than 1 MiB");
    drop_table();
    cr_assert_eq(mkfifo(table_path, 0600), 0);
    expect_refused(table_path, "cannot be read, ignored: not a file");
    drop_table();
    cr_assert_eq(setenv("CUDASIM_SCHEDULE", "hostile", 1), 0);
    expect_refused("/nowhere/table", "is ignored: the hostile schedule has no time");
}
