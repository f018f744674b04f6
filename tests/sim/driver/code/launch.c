/*
 * launch.c - from the arguments of a kernel launch to an operation. A kernel the
 * simulation does not know is a no-op that keeps its place in the stream; it says so
 * once.
 * Owns:  launch records, names of unknown kernels.   Lock: names_lock for these.
 * Source: Driver API, "Execution Control".
 */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "log.h"
#include "stream.h"

#define MAX_BLOCK_THREADS 1024u

enum {
#define SIM_ATTRIBUTE(number, name, value) name = (value),
#include "../device/attributes.def"
#undef SIM_ATTRIBUTE
};

/* Names outlive the modules they came with: the oracle keeps them. */
struct name {
    struct name *next;
    char text[];
};

static struct name *names; /* names_lock; never freed */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

/* A copy of the name that stays, or NULL without memory. */
static const char *keep_name(const char *text)
{
    size_t bytes = strlen(text) + 1;

    pthread_mutex_lock(&names_lock);
    struct name *found = names;
    while (found && strcmp(found->text, text) != 0)
        found = found->next;
    if (!found) {
        found = malloc(sizeof(*found) + bytes);
        if (found) {
            memcpy(found->text, text, bytes);
            found->next = names;
            names = found;
        }
    }
    pthread_mutex_unlock(&names_lock);
    return found ? found->text : NULL;
}

static bool valid_shape(const struct sim_launch *launch)
{
    const unsigned *grid = launch->grid;
    const unsigned *block = launch->block;

    if (!grid[0] || !grid[1] || !grid[2] || !block[0] || !block[1] || !block[2])
        return false;
    if (grid[0] > 2147483647u || grid[1] > 65535 || grid[2] > 65535)
        return false;
    if (block[0] > MAX_BLOCK_THREADS || block[1] > MAX_BLOCK_THREADS || block[2] > 64)
        return false;
    return block[0] * block[1] * block[2] <= MAX_BLOCK_THREADS;
}

/* The argument buffer of `extra`: pairs of a name and a value. */
static CUresult read_extra(void **extra, const unsigned char **buffer, size_t *bytes)
{
    *buffer = NULL;
    *bytes = 0;
    while (*extra != CU_LAUNCH_PARAM_END) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            memcpy(bytes, extra[1], sizeof(*bytes));
        else
            return CUDA_ERROR_INVALID_VALUE;
        extra += 2;
    }
    return *buffer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Read a built-in kernel's arguments, each at its own alignment in a buffer. */
static CUresult read_args(const struct sim_kernel *kernel,
                          const struct sim_launch *launch, uint64_t *args)
{
    const unsigned char *buffer = NULL;
    size_t bytes = 0, offset = 0;

    if (launch->params && launch->extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (!launch->params && !launch->extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (launch->extra) {
        CUresult res = read_extra(launch->extra, &buffer, &bytes);
        if (res != CUDA_SUCCESS)
            return res;
    }
    for (unsigned i = 0; i < kernel->arg_count; i++) {
        size_t size = kernel->arg_bytes[i];
        offset = gs_round_up(offset, size);
        if (launch->extra && (offset + size > bytes))
            return CUDA_ERROR_INVALID_VALUE;
        if (launch->params && !launch->params[i])
            return CUDA_ERROR_INVALID_VALUE;
        args[i] = 0;
        memcpy(&args[i], launch->extra ? buffer + offset : launch->params[i], size);
        offset += size;
    }
    return CUDA_SUCCESS;
}

/* ---- records ---------------------------------------------------------------------- */

void sim_launch_record_ref(struct sim_launch_record *record)
{
    atomic_fetch_add_explicit(&record->refs, 1, memory_order_relaxed);
}

void sim_launch_record_unref(struct sim_launch_record *record)
{
    if (!record || atomic_fetch_sub_explicit(&record->refs, 1, memory_order_acq_rel) != 1)
        return;
    sim_function_put(record->function);
    free(record->arguments);
    free(record);
}

/* Copy the arguments of a built-in kernel into one block. */
static bool keep_arguments(struct sim_launch_record *record,
                           const struct sim_kernel *kernel, const uint64_t *args)
{
    record->arguments = calloc(SIM_KERNEL_ARGS + 1, sizeof(uint64_t));
    if (!record->arguments)
        return false;
    for (unsigned i = 0; i < kernel->arg_count; i++) {
        size_t size = kernel->arg_bytes[i];
        size_t offset = gs_round_up(record->argument_bytes, size);
        record->params[i] = record->arguments + offset;
        memcpy(record->params[i], &args[i], size);
        record->argument_bytes = offset + size;
    }
    return true;
}

/* Copy the buffer of `extra`. */
static CUresult keep_buffer(struct sim_launch_record *record, void **extra)
{
    const unsigned char *buffer;
    size_t bytes;

    SIM_TRY(read_extra(extra, &buffer, &bytes));
    record->arguments = malloc(bytes + 1);
    if (!record->arguments)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(record->arguments, buffer, bytes);
    record->argument_bytes = bytes;
    return CUDA_SUCCESS;
}

static void keep_attributes(struct sim_launch_record *record,
                            const struct sim_launch *launch)
{
    static const CUlaunchAttributeValue yes = {.cooperative = 1};

    for (unsigned i = 0; i < launch->attribute_count; i++) {
        const CUlaunchAttribute *attribute = &launch->attributes[i];
        if (sim_attribute_of_node(attribute->id))
            sim_attribute_set(&record->attributes, attribute->id, &attribute->value);
    }
    if (launch->cooperative)
        sim_attribute_set(&record->attributes, SIM_ATTRIBUTE_COOPERATIVE, &yes);
}

/* Remember what was told; takes no reference to the operation. */
static CUresult make_record(struct sim_function *function,
                            const struct sim_launch *launch, struct sim_op *op)
{
    struct sim_launch_record *record = calloc(1, sizeof(*record));
    const struct sim_kernel *kernel = function->kernel;
    CUresult res = CUDA_SUCCESS;

    if (!record)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_init(&record->refs, 1);
    sim_object_ref(&function->object);
    record->function = function;
    memcpy(record->grid, launch->grid, sizeof(record->grid));
    memcpy(record->block, launch->block, sizeof(record->block));
    record->shared_bytes = launch->shared_bytes;
    record->by_extra = launch->extra != NULL;
    keep_attributes(record, launch);
    if (kernel && !keep_arguments(record, kernel, op->kernel.args))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    else if (!kernel && launch->extra)
        res = keep_buffer(record, launch->extra);
    if (res != CUDA_SUCCESS) {
        sim_launch_record_unref(record);
        return res;
    }
    record->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    record->extra[1] = record->arguments;
    record->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    record->extra[3] = &record->argument_bytes;
    record->extra[4] = CU_LAUNCH_PARAM_END;
    op->kernel.record = record;
    return CUDA_SUCCESS;
}

/* ---- the operation ----------------------------------------------------------------- */

static CUresult run(struct sim_op *op)
{
    return op->kernel.body(op);
}

static CUresult make_op(enum sim_api api, struct sim_function *function,
                        const struct sim_launch *launch, struct sim_op **out)
{
    const struct sim_kernel *kernel = function->kernel;
    struct sim_op *op = sim_op_new(SIM_OP_KERNEL, api, kernel ? run : NULL);

    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!kernel) {
        if (!atomic_exchange(&function->said, true))
            sim_log_always("kernel %s is not known here: it does nothing",
                           function->name);
        if (oracle_on)
            op->kernel.name = keep_name(function->name);
        *out = op;
        return CUDA_SUCCESS;
    }
    op->kernel.body = kernel->body;
    op->kernel.waits_inside = kernel->waits_inside;
    CUresult res = read_args(kernel, launch, op->kernel.args);
    if (res != CUDA_SUCCESS) {
        sim_op_unref(op);
        return res;
    }
    kernel->ranges(op);
    *out = op;
    return CUDA_SUCCESS;
}

/* The attributes by themselves, and the two cluster shapes against each other. */
static CUresult check_attributes(const struct sim_launch *launch)
{
    unsigned regular[3] = {0}, preferred[3] = {0};
    CUresult res = CUDA_SUCCESS;

    for (unsigned i = 0; i < launch->attribute_count && res == CUDA_SUCCESS; i++) {
        const CUlaunchAttribute *attribute = &launch->attributes[i];
        res = sim_attribute_check(attribute->id, &attribute->value, launch->grid);
        if ((int)attribute->id == SIM_ATTRIBUTE_CLUSTER_DIMENSION)
            memcpy(regular, &attribute->value, sizeof(regular));
        if ((int)attribute->id == SIM_ATTRIBUTE_PREFERRED_CLUSTER)
            memcpy(preferred, &attribute->value, sizeof(preferred));
    }
    for (unsigned i = 0; i < 3 && res == CUDA_SUCCESS; i++) {
        if (regular[i] && preferred[i] && preferred[i] % regular[i] != 0)
            res = CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    return res;
}

static bool is_cooperative(const struct sim_launch *launch)
{
    bool cooperative = launch->cooperative;

    for (unsigned i = 0; i < launch->attribute_count; i++) {
        if (launch->attributes[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            cooperative = launch->attributes[i].value.cooperative != 0;
    }
    return cooperative;
}

/* A cooperative grid's blocks are all resident at once: "the total number of blocks
 * launched cannot exceed" what the multiprocessors hold (cuLaunchCooperativeKernel). */
static bool fits_at_once(const struct sim_launch *launch)
{
    const unsigned *grid = launch->grid, *block = launch->block;
    uint64_t most = (uint64_t)sim_resident_blocks(block[0] * block[1] * block[2]) *
                    MULTIPROCESSOR_COUNT;

    return grid[1] <= most && grid[2] <= most &&
           (uint64_t)grid[0] * grid[1] * grid[2] <= most;
}

static CUresult prepare(enum sim_api api, struct sim_context *context,
                        struct sim_function *function, const struct sim_launch *launch,
                        struct sim_op **out)
{
    if (!valid_shape(launch) || (launch->params && launch->extra))
        return CUDA_ERROR_INVALID_VALUE;
    if (function->context &&
        (function->context != context || function->context_id != sim_context_id(context)))
        return CUDA_ERROR_INVALID_HANDLE;
    if (launch->shared_bytes > (unsigned)atomic_load(&function->shared_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = check_attributes(launch);
    if (res == CUDA_SUCCESS && is_cooperative(launch) && !fits_at_once(launch))
        res = CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return res == CUDA_SUCCESS ? make_op(api, function, launch, out) : res;
}

CUresult sim_launch_prepare(enum sim_api api, struct sim_context *context,
                            const struct sim_launch *launch, bool keep,
                            struct sim_op **out)
{
    struct sim_function *function = sim_function_get(launch->function);

    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = prepare(api, context, function, launch, out);
    if (res == CUDA_SUCCESS && keep) {
        (*out)->kernel.context = context->object.handle;
        res = make_record(function, launch, *out);
        if (res != CUDA_SUCCESS)
            sim_op_unref(*out);
    }
    sim_function_put(function);
    return res;
}
