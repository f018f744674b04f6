/*
 * tracker_refusal.c - proves what the report says of a refused allocation: where the
 * device's memory is, the pool's largest piece, and each advice where it applies alone.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_export_helpers.h"
#include "tracker_fixture.h"

/* A device of 1 GiB with 900 MiB live, of which a call site has 600. */
static struct gs_report_refusal plain_refusal(void)
{
    return (struct gs_report_refusal){.time_ns = SECONDS(3),
                                      .bytes = 200 * GS_MIB,
                                      .thread = 7,
                                      .api = API_MEM_ALLOC,
                                      .device_bytes = GS_GIB,
                                      .free_bytes = 100 * GS_MIB,
                                      .live_bytes = 900 * GS_MIB,
                                      .elsewhere_known = true,
                                      .elsewhere_bytes = 24 * GS_MIB};
}

static void begin(void)
{
    set_up_tracker();
    test_leak(tracker, 0x1000, 600 * GS_MIB, SECONDS(1),
              TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    test_leak(tracker, 0x80000000, 300 * GS_MIB, SECONDS(2),
              TEST_STACK(stacks, AT_RUN, AT_MAIN));
}

TestSuite(refusal, .init = begin, .fini = take_down_tracker);

/* The lines of the report from the device's on, to the empty one. */
static void expect_lines(struct gs_report_refusal *refusal, const char *expected)
{
    struct gs_report_config config = test_report_config();
    char *text, *from, *to;

    config.running = true;
    config.ending = "out of memory";
    config.refusal = refusal;
    text = test_report_text(tracker, &config, NULL);
    from = strchr(text, '\n') + 1;
    to = strstr(from, "\n\n");
    cr_assert_not_null(to, "%s", text);
    to[1] = '\0';
    cr_expect_str_eq(from, expected);
    free(text);
}

static void expect_tries(const struct gs_report_refusal *refusal, const char *names)
{
    char found[128] = "";

    for (unsigned i = 0; i < refusal->try_count; i++) {
        strcat(found, refusal->advice[i].name);
        strcat(found, " ");
    }
    cr_expect_str_eq(found, names);
}

#define TRY_LARGEST                                                                      \
    "Try: LIVE 1 (load_batch) holds 600 MiB of 900 MiB live: allocate less there, or "   \
    "free earlier\n"

Test(refusal, the_device_and_the_largest_call_site)
{
    struct gs_report_refusal refusal = plain_refusal();

    expect_lines(&refusal,
                 "GPU 0 has 1.00 GiB: 900 MiB live, 100 MiB free, 24.0 MiB elsewhere "
                 "(contexts, modules, other processes)\n" TRY_LARGEST);
    expect_tries(&refusal, "largest ");
}

Test(refusal, the_parts_of_the_pool)
{
    struct gs_report_refusal refusal = plain_refusal();

    refusal.pooled = true;
    refusal.rounding_bytes = GS_MIB;
    refusal.idle_bytes = 2 * GS_MIB;
    refusal.pending_bytes = 3 * GS_MIB;
    refusal.elsewhere_known = false;
    expect_lines(
        &refusal,
        "GPU 0 has 1.00 GiB: 900 MiB live, 1.00 MiB rounding, 3.00 MiB freed, in "
        "use by the GPU, 2.00 MiB free but fragmented, 100 MiB free\n"
        "The pool has no free memory left\n" TRY_LARGEST);
    refusal.piece_bytes = GS_MIB;
    refusal.piece_bar = "too small";
    refusal.returned_bytes = 4 * GS_MIB;
    refusal.device_bytes = 0;
    expect_lines(&refusal, "The pool has returned 4.00 MiB of idle memory; its largest "
                           "free block (1.00 MiB) is too small\n" TRY_LARGEST);
    refusal.piece_bar = NULL;
    refusal.returned_bytes = 0;
    expect_lines(&refusal, "The pool's largest free block is 1.00 MiB\n" TRY_LARGEST);
}

Test(refusal, a_limit_comes_first)
{
    struct gs_report_refusal refusal = plain_refusal();

    strcpy(refusal.limit, "GPUSHIM_MEM_LIMIT=910M");
    refusal.limit_bytes = 910 * GS_MIB;
    refusal.limit_free_bytes = 10 * GS_MIB;
    expect_lines(&refusal,
                 "GPU 0 has 1.00 GiB: 900 MiB live, 100 MiB free, 24.0 MiB elsewhere "
                 "(contexts, modules, other processes)\n" TRY_LARGEST);
    refusal.bytes = 50 * GS_MIB; /* the device could serve it */
    expect_lines(&refusal,
                 "GPU 0 has 1.00 GiB: 900 MiB live, 100 MiB free, 24.0 MiB elsewhere "
                 "(contexts, modules, other processes)\n"
                 "Try: GPUSHIM_MEM_LIMIT=910M is reached, but GPU 0 has 100 MiB free: "
                 "raise the limit\n" TRY_LARGEST);
    expect_tries(&refusal, "limit largest ");
    refusal.device_bytes = 0;
    refusal.elsewhere_known = false;
    expect_lines(&refusal,
                 "Try: GPUSHIM_MEM_LIMIT=910M is reached: raise the limit\n" TRY_LARGEST);
}

/* Would see advice to free memory for a request that no free can help. */
Test(refusal, a_request_beyond_the_whole_limit)
{
    struct gs_report_refusal refusal = plain_refusal();

    strcpy(refusal.limit, "GPUSHIM_MEM_LIMIT=910M");
    refusal.bytes = refusal.limit_bytes = 910 * GS_MIB;
    refusal.free_bytes = 920 * GS_MIB;
    expect_lines(&refusal,
                 "GPU 0 has 1.00 GiB: 900 MiB live, 920 MiB free, 24.0 MiB elsewhere "
                 "(contexts, modules, other processes)\n"
                 "Try: GPUSHIM_MEM_LIMIT=910M is reached, but GPU 0 has 920 MiB free: "
                 "raise the limit\n" TRY_LARGEST);
    refusal.bytes++;
    expect_lines(&refusal,
                 "GPU 0 has 1.00 GiB: 900 MiB live, 920 MiB free, 24.0 MiB elsewhere "
                 "(contexts, modules, other processes)\n"
                 "Try: GPUSHIM_MEM_LIMIT=910M is reached, but GPU 0 has 920 MiB free: "
                 "raise the limit\n");
}

Test(refusal, freed_and_fragmented_memory_counts_only_if_it_would_do)
{
    struct gs_report_refusal refusal = plain_refusal();

    refusal.pending_bytes = 99 * GS_MIB;
    refusal.idle_bytes = 99 * GS_MIB;
    refusal.elsewhere_known = false;
    expect_lines(&refusal, "GPU 0 has 1.00 GiB: 900 MiB live, 99.0 MiB freed, in use by "
                           "the GPU, 99.0 MiB free but fragmented, 100 MiB "
                           "free\n" TRY_LARGEST);
    refusal.device_bytes = 0;
    refusal.pending_bytes = 100 * GS_MIB;
    expect_lines(&refusal, "Try: 100 MiB are freed, but running work may still use them: "
                           "synchronize before this call, or free earlier\n" TRY_LARGEST);
    refusal.pending_bytes = 0;
    refusal.idle_bytes = 100 * GS_MIB;
    expect_lines(&refusal, "Try: 100 MiB are free but fragmented: allocate "
                           "long-lived buffers first and together\n" TRY_LARGEST);
    refusal.may_move = true;
    refusal.pending_bytes = 100 * GS_MIB;
    expect_lines(&refusal,
                 "Try: 100 MiB are freed, but running work may still use them: "
                 "synchronize before this call, or free earlier\n"
                 "Try: 100 MiB are free but fragmented: allocate long-lived buffers "
                 "first and together; or GPUSHIM_POOL_VMM=on\n" TRY_LARGEST);
    expect_tries(&refusal, "waiting fragmented largest ");
}

Test(refusal, others_have_most_of_the_device)
{
    struct gs_report_refusal refusal = plain_refusal();

    refusal.live_bytes = 8 * GS_GIB; /* no call site has most of it */
    refusal.device_bytes = 20 * GS_GIB;
    refusal.elsewhere_bytes = 12 * GS_GIB;
    expect_lines(&refusal,
                 "GPU 0 has 20.0 GiB: 8.00 GiB live, 100 MiB free, 12.0 GiB elsewhere "
                 "(contexts, modules, other processes)\n"
                 "Try: other processes use 12.0 GiB of GPU 0: nvidia-smi lists them, "
                 "GPUSHIM_NVML=on shows this process's part\n");
    refusal.own_known = true;
    refusal.own_bytes = 2 * GS_GIB;
    expect_lines(&refusal,
                 "GPU 0 has 20.0 GiB: 8.00 GiB live, 100 MiB free, 12.0 GiB elsewhere "
                 "(2.00 GiB contexts and modules, 10.0 GiB other processes)\n"
                 "Try: other processes use 12.0 GiB of GPU 0: nvidia-smi lists them\n");
    refusal.own_bytes = 11 * GS_GIB;
    refusal.elsewhere_bytes = 11 * GS_GIB;
    expect_lines(&refusal,
                 "GPU 0 has 20.0 GiB: 8.00 GiB live, 100 MiB free, 11.0 GiB elsewhere "
                 "(11.0 GiB contexts and modules)\n"
                 "Try: contexts and modules of this process use 11.0 GiB of GPU 0: "
                 "create fewer contexts, or smaller stacks and heaps for kernels "
                 "(cudaDeviceSetLimit)\n");
    expect_tries(&refusal, "elsewhere ");
}

/* Also on another device, which the largest call sites are not on. */
Test(refusal, there_is_always_an_advice)
{
    struct gs_report_refusal refusal = plain_refusal();

    refusal.device = 1;
    expect_lines(&refusal,
                 "GPU 1 has 1.00 GiB: 900 MiB live, 100 MiB free, 24.0 MiB elsewhere "
                 "(contexts, modules, other processes)\n"
                 "Try: 100 MiB are missing: free memory earlier, or request less\n");
    refusal.device_bytes = refusal.free_bytes = 0;
    refusal.bytes = 0;
    expect_lines(&refusal, "Try: free memory earlier, or request less\n");
    expect_tries(&refusal, "less ");
}

Test(refusal, in_json)
{
    struct gs_report_refusal refusal = plain_refusal();
    struct gs_report_config config = test_report_config();
    struct test_bytes bytes;
    const char *found,
        *expected = "\"out_of_memory\": [\n"
                    "    {\"time_ns\": 3000000000, \"thread\": 7, \"call\": "
                    "\"cudaMalloc\", \"bytes\": 209715200, \"device\": 0, "
                    "\"device_bytes\": 1073741824, \"free_bytes\": 104857600, "
                    "\"limit\": null, \"limit_bytes\": null, \"limit_free_bytes\": "
                    "null, \"live_bytes\": 943718400, \"rounding_bytes\": 0, "
                    "\"pending_bytes\": 0, \"idle_bytes\": 0, \"returned_bytes\": 0, "
                    "\"elsewhere_bytes\": 25165824, \"not_allocated_via_api_bytes\": "
                    "null, \"largest_piece_bytes\": 0, \"largest_piece\": null, "
                    "\"tries\": [{\"try\": \"largest\", \"text\": \"LIVE 1 (load_batch) "
                    "holds 600 MiB of 900 MiB live: allocate less there, or free "
                    "earlier\"}], \"stack\": [";

    refusal.stack = TEST_STACK(stacks, AT_SHIM, AT_DRIVER, AT_CUDART, AT_RUN);
    config.running = true;
    config.refusal = &refusal;
    config.refusals = &refusal;
    config.refusal_count = 1;
    bytes = test_export(tracker, config, GS_EXPORT_json, 0);
    found = strstr(bytes.data, "\"out_of_memory\"");
    cr_assert_not_null(found);
    cr_expect_eq(strncmp(found, expected, strlen(expected)), 0, "%.1200s", found);
    free(bytes.data);
}
