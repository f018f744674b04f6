/*
 * sim_faults.c - proves the injected faults beyond failing calls: names that stand for
 * all variants, calls that take longer, operations that never end, a lost device; and
 * what the variables of the simulated device answer to nonsense and at their edges.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_helpers.h"

/* Variants that cuda.h hides behind other names. */
CUresult CUDAAPI cuEventRecord_ptsz(CUevent event, CUstream stream);
CUresult CUDAAPI cuStreamQuery_ptsz(CUstream stream);

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

Test(sim_faults, a_base_name_stands_for_all_variants)
{
    CUdeviceptr pointer;
    CUevent event;

    setenv("CUDASIM_FAIL", "cuMemAlloc:2,cuEventRecord:*=400", 1);
    sim_test_start("1", "16M");
    event = sim_test_event();
    ok(cuMemAlloc(&pointer, 16));
    fails(cuMemAlloc(&pointer, 16), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemAlloc(&pointer, 16));
    fails(cuEventRecord(event, NULL), CUDA_ERROR_INVALID_HANDLE);
    fails(cuEventRecord_ptsz(event, NULL), CUDA_ERROR_INVALID_HANDLE);
}

Test(sim_faults, a_base_name_counts_all_variants_together)
{
    CUevent event;

    setenv("CUDASIM_FAIL", "cuEventRecord:3", 1);
    sim_test_start("1", "16M");
    event = sim_test_event();
    ok(cuEventRecord(event, NULL));
    ok(cuEventRecord_ptsz(event, NULL));
    fails(cuEventRecord(event, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuEventRecord_ptsz(event, NULL));
}

Test(sim_faults, an_exported_name_stands_for_itself)
{
    CUevent event;

    setenv("CUDASIM_FAIL", "cuEventRecord_ptsz:1+", 1);
    sim_test_start("1", "16M");
    event = sim_test_event();
    ok(cuEventRecord(event, NULL));
    fails(cuEventRecord_ptsz(event, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

Test(sim_faults, the_first_error_of_several_counts)
{
    CUdeviceptr pointer;

    setenv("CUDASIM_FAIL", "cuMemAlloc_v2:2=3,cuMemAlloc:2=4,cuMemAlloc:3=4", 1);
    sim_test_start("1", "16M");
    ok(cuMemAlloc(&pointer, 16));
    fails(cuMemAlloc(&pointer, 16), 3);
    fails(cuMemAlloc(&pointer, 16), 4);
}

Test(sim_faults, a_seed_chooses_the_same_calls_again)
{
    char chosen[2][200];

    for (int run = 0; run < 2; run++) {
        int ends[2];
        cr_assert_eq(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) {
            CUdeviceptr pointer;
            setenv("CUDASIM_FAIL", "cuMemAlloc:*%30", 1);
            setenv("CUDASIM_SEED", "11", 1);
            sim_test_start("1", "64M");
            for (int i = 0; i < 200; i++)
                chosen[0][i] = cuMemAlloc(&pointer, 16) == CUDA_SUCCESS ? '.' : 'x';
            _exit(write(ends[1], chosen[0], 200) == 200 ? 0 : 1);
        }
        close(ends[1]);
        cr_assert_eq(read(ends[0], chosen[run], 200), 200);
        close(ends[0]);
        waitpid(child, NULL, 0);
    }
    cr_assert_eq(memcmp(chosen[0], chosen[1], 200), 0);
    cr_assert_not_null(memchr(chosen[0], 'x', 200));
    cr_assert_not_null(memchr(chosen[0], '.', 200));
}

Test(sim_faults, slow_calls_take_longer_and_succeed)
{
    CUdeviceptr pointer;

    setenv("CUDASIM_FAIL", "cuMemFree:2=slow:120", 1);
    sim_test_start("1", "16M");
    for (int i = 0; i < 3; i++) {
        ok(cuMemAlloc(&pointer, 16));
        uint64_t begun = now_ms();
        ok(cuMemFree(pointer));
        if (i == 1)
            cr_assert_geq(now_ms() - begun, 120);
    }
}

Test(sim_faults, an_operation_that_never_ends, .timeout = 120)
{
    CUstream stream, other;
    CUevent never, later;

    setenv("CUDASIM_FAIL", "cuEventRecord:2=never", 1);
    sim_test_start("1", "16M");
    never = sim_test_event();
    later = sim_test_event();
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    ok(cuEventRecord(never, stream));
    ok(cuEventSynchronize(never));
    ok(cuEventRecord(never, stream)); /* this one */
    ok(cuEventRecord(later, stream)); /* behind it */
    ok(cuStreamSynchronize(other));
    sim_test_sleep_ms(50);
    fails(cuEventQuery(never), CUDA_ERROR_NOT_READY);
    fails(cuEventQuery(later), CUDA_ERROR_NOT_READY);
    fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    ok(cuStreamQuery(other));
    _exit(0); /* its end is not waited for either */
}

Test(sim_faults, a_call_that_gives_no_work_has_nothing_that_never_ends, .timeout = 120)
{
    CUdeviceptr pointer;
    CUstream stream;

    setenv("CUDASIM_FAIL", "cuMemAlloc:1=never", 1);
    sim_test_start("1", "16M");
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc(&pointer, 4096));
    ok(cuMemsetD8Async(pointer, 1, 4096, stream)); /* not this one instead */
    ok(cuStreamSynchronize(stream));
    ok(cuMemFree(pointer));
}

static void check_lost(void)
{
    CUdeviceptr pointer;
    CUstream stream;
    size_t bytes;

    fails(cuMemAlloc(&pointer, 16), CUDA_ERROR_DEVICE_UNAVAILABLE);
    fails(cuMemGetInfo(&bytes, &bytes), CUDA_ERROR_DEVICE_UNAVAILABLE);
    fails(cuCtxSynchronize(), CUDA_ERROR_DEVICE_UNAVAILABLE);
    fails(cuStreamCreate(&stream, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
    fails(cuStreamSynchronize(NULL), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

Test(sim_faults, a_lost_device_answers_nothing_any_more, .timeout = 120)
{
    CUcontext first, second, other;
    CUdeviceptr pointer;

    setenv("CUDASIM_FAIL", "cuMemFree:2=lost", 1);
    first = sim_test_start("2", "16M");
    ok(cuDevicePrimaryCtxRetain(&other, 1));
    ok(cuCtxCreate_v2(&second, 0, 0));
    ok(cuMemAlloc(&pointer, 16));
    ok(cuMemFree(pointer));
    ok(cuMemAlloc(&pointer, 16));
    fails(cuMemFree(pointer), CUDA_ERROR_DEVICE_UNAVAILABLE);
    check_lost();
    ok(cuCtxSetCurrent(first));
    check_lost();
    fails(cuCtxCreate_v2(&second, 0, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
    fails(cuDevicePrimaryCtxRetain(&first, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
    ok(cuCtxSetCurrent(other)); /* of the device that is still there */
    ok(cuMemAlloc(&pointer, 16));
    ok(cuMemsetD8(pointer, 1, 16));
    ok(cuCtxSynchronize());
}

/* Counts the calls of a host function. */
static void CUDA_CB count_call(void *data)
{
    __atomic_add_fetch((int *)data, 1, __ATOMIC_ACQ_REL);
}

Test(sim_faults, a_lost_device_drops_what_is_queued, .timeout = 120)
{
    struct sim_latch latch;
    CUdeviceptr pointer;
    CUstream stream;
    int calls = 0;

    setenv("CUDASIM_FAIL", "cuMemGetInfo:1=lost", 1);
    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc(&pointer, 4096));
    sim_latch_block(&latch, stream);
    ok(cuLaunchHostFunc(stream, count_call, &calls));
    fails(cuMemGetInfo(&(size_t){0}, &(size_t){0}), CUDA_ERROR_DEVICE_UNAVAILABLE);
    sim_latch_open(&latch);
    sim_test_sleep_ms(100);
    cr_assert_eq(__atomic_load_n(&calls, __ATOMIC_ACQUIRE), 0);
    fails(cuStreamSynchronize(stream), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

Test(sim_faults, a_lost_device_ends_what_never_ends, .timeout = 120)
{
    CUstream stream;
    CUevent never;

    setenv("CUDASIM_FAIL", "cuEventRecord:1=never,cuMemGetInfo:1=lost", 1);
    sim_test_start("1", "16M");
    never = sim_test_event();
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuEventRecord(never, stream));
    fails(cuEventQuery(never), CUDA_ERROR_NOT_READY);
    fails(cuMemGetInfo(&(size_t){0}, &(size_t){0}), CUDA_ERROR_DEVICE_UNAVAILABLE);
    fails(cuStreamSynchronize(stream), CUDA_ERROR_DEVICE_UNAVAILABLE);
    fails(cuEventSynchronize(never), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static void init_or_exit(void)
{
    if (cuInit(0) != CUDA_SUCCESS)
        _exit(9);
}

static void start_with_a_misspelt_variable(void)
{
    setenv("CUDASIM_SEDE", "1", 1);
    setenv("CUDASIM_", "1", 1);
    setenv("CUDASIM_LOG_LOOKUP", "/nowhere", 1);
    setenv("CUDASIM_SEED", "3", 1);
    init_or_exit();
}

Test(sim_variables, unknown_ones_are_named)
{
    char text[2000];

    sim_test_said_by(start_with_a_misspelt_variable, text, sizeof(text));
    cr_assert_eq(sim_test_lines_of(text), 3, "%s", text);
    cr_assert_not_null(strstr(text, "cudasim: CUDASIM_SEDE is not a variable of the "
                                    "simulated device, ignored\n"));
    cr_assert_not_null(strstr(text, "CUDASIM_LOG_LOOKUP is not"));
    cr_assert_not_null(strstr(text, "CUDASIM_ is not"));
}

static const char *const bad_values[][2] = {
    {"CUDASIM_FREE_WAITS", "everything"},
    {"CUDASIM_ORACLE", "yes"},
    {"CUDASIM_HOSTS", "both"},
    {"CUDASIM_STACKS", "2"},
    {"CUDASIM_EXIT", "256"},
    {"CUDASIM_HANG", "-1"},
    {"CUDASIM_SCHEDULE", "kind"},
    {"CUDASIM_DRIVER_VERSION", "12345"},
    {"CUDASIM_SEED", "0x10"},
    {"CUDASIM_DEVICES", "17"},
    {"CUDASIM_MEMORY", "1M"},
    {"CUDASIM_LOG", "3"},
    {"CUDASIM_PRIVATE_ENTRIES", "no"},
};

static void start_with_bad_values(void)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(bad_values); i++)
        setenv(bad_values[i][0], bad_values[i][1], 1);
    init_or_exit();
}

Test(sim_variables, each_unknown_value_has_a_line)
{
    char text[4000], wanted[100];

    sim_test_said_by(start_with_bad_values, text, sizeof(text));
    cr_assert_eq(sim_test_lines_of(text), GS_ARRAY_LEN(bad_values), "%s", text);
    for (size_t i = 0; i < GS_ARRAY_LEN(bad_values); i++) {
        snprintf(wanted, sizeof(wanted), "%s=%s ", bad_values[i][0], bad_values[i][1]);
        const char *line = strstr(text, wanted);
        cr_assert_not_null(line, "%s: %s", wanted, text);
        const char *instead = strstr(line, "using ");
        cr_assert(instead && instead < strchr(line, '\n'), "%s", text);
    }
}

static void start_with_good_values(void)
{
    static const char *const good[][2] = {
        {"CUDASIM_FREE_WAITS", "none"}, {"CUDASIM_ORACLE", "0"},
        {"CUDASIM_HOSTS", "separate"},  {"CUDASIM_STACKS", "0"},
        {"CUDASIM_EXIT", "0"},          {"CUDASIM_HANG", "2000"},
        {"CUDASIM_FREE_WAITS", ""},     {"CUDASIM_DRIVER_VERSION", "12040"},
        {"CUDASIM_MEMORY", "2M"},       {"CUDASIM_DEVICES", "16"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(good); i++)
        setenv(good[i][0], good[i][1], 1);
    init_or_exit();
}

Test(sim_variables, known_values_have_none)
{
    char text[2000];

    sim_test_said_by(start_with_good_values, text, sizeof(text));
    cr_assert_str_empty(text);
}

static void start_with_bad_rules(void)
{
    setenv("CUDASIM_FAIL",
           "cuMemAlloc,cuMemAlloc:,cuMemAlloc:x,cuNoSuch:1,cuMemAlloc:1=slow,"
           "cuMemAlloc:1=slow:,cuMemAlloc:1=slow:0,cuMemAlloc:1=slow:5x,"
           "cuMemAlloc:1=lost2,cuMemAlloc:*%101,cuMemAlloc:1=99999,cuMemAlloc:1=",
           1);
    init_or_exit();
}

Test(sim_variables, each_bad_rule_has_a_line)
{
    char text[4000];

    sim_test_said_by(start_with_bad_rules, text, sizeof(text));
    cr_assert_eq(sim_test_lines_of(text), 12, "%s", text);
    cr_assert_not_null(strstr(text, "'cuMemAlloc:1=slow:5x' is not a rule, ignored"));
}

static void start_with_too_many_rules(void)
{
    char rules[70 * 20] = "";

    for (int i = 0; i < 66; i++)
        strcat(rules, "cuInit:900,");
    setenv("CUDASIM_FAIL", rules, 1);
    init_or_exit();
}

Test(sim_variables, rules_beyond_the_last_are_named)
{
    char text[4000];

    sim_test_said_by(start_with_too_many_rules, text, sizeof(text));
    cr_assert_eq(sim_test_lines_of(text), 2, "%s", text);
}

static void start_with_an_unmodelled_rule(void)
{
    setenv("CUDASIM_FAIL", "cuTexRefCreate:1", 1);
    init_or_exit();
}

Test(sim_variables, a_rule_for_what_is_not_modelled_is_named)
{
    char text[1000];

    sim_test_said_by(start_with_an_unmodelled_rule, text, sizeof(text));
    cr_assert_not_null(strstr(text, "not modelled"), "%s", text);
}

Test(sim_variables, memory_is_rounded_to_what_a_device_is_made_of)
{
    sim_test_start("1", "5M");
    cr_assert_eq(sim_test_free_bytes(), 4 * GS_MIB);
}

Test(sim_variables, the_smallest_memory_serves_one_allocation)
{
    CUdeviceptr one, two;

    sim_test_start("1", "2097152");
    ok(cuMemAlloc(&one, 2 * GS_MIB));
    fails(cuMemAlloc(&two, 1), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemFree(one));
    ok(cuMemAlloc(&two, 1));
}

Test(sim_variables, the_largest_memory_is_there)
{
    CUdeviceptr pointer;

    sim_test_start("1", "1024G");
    cr_assert_eq(sim_test_free_bytes(), 1024 * GS_GIB);
    ok(cuMemAlloc(&pointer, 1023 * GS_GIB));
}

Test(sim_variables, sixteen_devices_are_the_most)
{
    CUdevice device;
    int count = 0;

    sim_test_start("16", "4M");
    ok(cuDeviceGetCount(&count));
    cr_assert_eq(count, 16);
    ok(cuDeviceGet(&device, 15));
    fails(cuDeviceGet(&device, 16), CUDA_ERROR_INVALID_DEVICE);
}

Test(sim_variables, more_than_fits_the_address_space_is_no_crash)
{
    setenv("CUDASIM_DEVICES", "16", 1);
    setenv("CUDASIM_MEMORY", "1024G", 1);
    CUresult res = cuInit(0);
    cr_assert(res == CUDA_ERROR_OUT_OF_MEMORY || res == CUDA_SUCCESS, "%d", res);
}

Test(sim_variables, no_device_is_an_answer)
{
    int count = 7;

    setenv("CUDASIM_DEVICES", "0", 1);
    fails(cuInit(0), CUDA_ERROR_NO_DEVICE);
    fails(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
}
