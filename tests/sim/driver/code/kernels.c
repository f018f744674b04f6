/*
 * kernels.c - built-in implementations of the test kernels (tests/sim/kernels).
 *
 * A kernel's pointers become ranges of the operation when it is launched; one that lies
 * in no allocation, leaves it, or belongs to a context without peer access ends the
 * context with CUDA_ERROR_ILLEGAL_ADDRESS when the kernel runs, as on a device.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "kernels.h"

#include <string.h>
#include <time.h>

#include "../../kernels/kernels.h"
#include "context.h"
#include "stream.h"

#define POLL_NS 20000

/* A launched kernel touches elements [0, count) of 32 bits. */
static void add_range(struct sim_op *op, uint64_t address, uint64_t count, bool writes)
{
    struct sim_access *access = &op->access[op->access_count++];

    *access = (struct sim_access){
        .address = address,
        .row_bytes = count > SIZE_MAX / 4 ? SIZE_MAX : count * 4,
        .rows = 1,
        .slices = 1,
        .device = true,
        .writes = writes,
    };
    CUresult res = sim_access_bind(access, false);
    (void)res; /* out of bounds is an error of the run, not of the launch */
}

/* May the context that the kernel runs in access it? */
static bool is_allowed(const struct sim_op *op, const struct sim_access *access)
{
    if (!op->kernel.context || op->kernel.context == op->stream->context->object.handle)
        return sim_access_allowed(access, op->stream->context);
    struct sim_context *context = sim_context_get(op->kernel.context);
    bool allowed = context && sim_access_allowed(access, context);
    if (context)
        sim_context_put(context);
    return allowed;
}

/* Where range `index` lies; an empty one is never looked at. */
static CUresult open_range(struct sim_op *op, unsigned index, uint32_t **out)
{
    struct sim_access *access = &op->access[index];
    void *pointer = NULL;

    *out = NULL;
    if (access->row_bytes == 0)
        return CUDA_SUCCESS;
    if (access->address % 4)
        return CUDA_ERROR_MISALIGNED_ADDRESS;
    CUresult res = sim_access_open(access, &pointer);
    if (res == CUDA_SUCCESS && !is_allowed(op, access))
        res = CUDA_ERROR_ILLEGAL_ADDRESS;
    *out = pointer;
    return res;
}

static void ranges_fill(struct sim_op *op)
{
    add_range(op, op->kernel.args[0], op->kernel.args[1], true);
}

static CUresult run_fill(struct sim_op *op)
{
    uint64_t count = op->kernel.args[1];
    uint32_t seed = (uint32_t)op->kernel.args[2];
    uint32_t *dst;
    CUresult res = open_range(op, 0, &dst);

    for (uint64_t i = 0; res == CUDA_SUCCESS && i < count; i++)
        dst[i] = gs_pattern(seed, i);
    return res;
}

static void ranges_check(struct sim_op *op)
{
    add_range(op, op->kernel.args[0], op->kernel.args[1], false);
    add_range(op, op->kernel.args[3], 1, true);
    op->access[1].atomic = true;
}

static CUresult run_check(struct sim_op *op)
{
    uint64_t count = op->kernel.args[1];
    uint32_t seed = (uint32_t)op->kernel.args[2];
    uint32_t mismatches = 0;
    uint32_t *src, *result;
    CUresult res = open_range(op, 0, &src);

    if (res == CUDA_SUCCESS)
        res = open_range(op, 1, &result);
    if (res != CUDA_SUCCESS)
        return res;
    for (uint64_t i = 0; i < count; i++)
        mismatches += src[i] != gs_pattern(seed, i);
    if (mismatches)
        __atomic_fetch_add(result, mismatches, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

static void ranges_copy(struct sim_op *op)
{
    add_range(op, op->kernel.args[0], op->kernel.args[2], true);
    add_range(op, op->kernel.args[1], op->kernel.args[2], false);
}

static CUresult run_copy(struct sim_op *op)
{
    uint32_t *dst, *src;
    CUresult res = open_range(op, 0, &dst);

    if (res == CUDA_SUCCESS)
        res = open_range(op, 1, &src);
    if (res == CUDA_SUCCESS && op->kernel.args[2])
        memmove(dst, src, op->kernel.args[2] * 4);
    return res;
}

static CUresult run_add(struct sim_op *op)
{
    uint32_t *dst, *src;
    CUresult res = open_range(op, 0, &dst);

    if (res == CUDA_SUCCESS)
        res = open_range(op, 1, &src);
    for (uint64_t i = 0; res == CUDA_SUCCESS && i < op->kernel.args[2]; i++)
        dst[i] += src[i];
    return res;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static CUresult run_spin(struct sim_op *op)
{
    sim_sched_spin(op->kernel.args[0]);
    return CUDA_SUCCESS;
}

/* A bad address is for the run to tell. */
static bool ready_wait(struct sim_op *op)
{
    uint32_t *flag;

    return open_range(op, 0, &flag) != CUDA_SUCCESS ||
           __atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0;
}

static void ranges_wait(struct sim_op *op)
{
    op->ready = ready_wait;
    add_range(op, op->kernel.args[0], 1, false);
    op->access[0].atomic = true;
    op->access[0].awaited = true;
}

static CUresult run_wait(struct sim_op *op)
{
    uint32_t *flag;
    CUresult res = open_range(op, 0, &flag);

    while (res == CUDA_SUCCESS && !op->came &&
           __atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0)
        sleep_ns(POLL_NS);
    return res;
}

static void ranges_none(struct sim_op *op)
{
    (void)op;
}

static const struct sim_kernel kernels[] = {
    {"gs_fill", 3, {8, 8, 4}, run_fill, ranges_fill, false},
    {"gs_check", 4, {8, 8, 4, 8}, run_check, ranges_check, false},
    {"gs_copy", 3, {8, 8, 8}, run_copy, ranges_copy, false},
    {"gs_add", 3, {8, 8, 8}, run_add, ranges_copy, false},
    {"gs_copy_after", 3, {8, 8, 8}, run_copy, ranges_copy, true},
    {"gs_add_after", 3, {8, 8, 8}, run_add, ranges_copy, true},
    {"gs_spin", 1, {8}, run_spin, ranges_none, false},
    {"gs_wait", 1, {8}, run_wait, ranges_wait, false},
};

const struct sim_kernel *sim_kernel_find(const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(kernels); i++) {
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    }
    return NULL;
}
