/*
 * launch.h - from the arguments of a kernel launch to an operation, and what a launch may
 * be told beside them: its attributes.
 * Owns: launch records.   Lock: none; a record is immutable, its count atomic.
 */
#ifndef SIM_LAUNCH_H
#define SIM_LAUNCH_H

#include "module.h"

struct sim_context;
struct sim_event;

/* Attributes by number: not all headers name all of them. Source: CUlaunchAttributeID. */
enum sim_attribute_id {
    SIM_ATTRIBUTE_IGNORE = 0,
    SIM_ATTRIBUTE_ACCESS_POLICY_WINDOW = 1,
    SIM_ATTRIBUTE_COOPERATIVE = 2,
    SIM_ATTRIBUTE_SYNCHRONIZATION_POLICY = 3,
    SIM_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    SIM_ATTRIBUTE_CLUSTER_POLICY = 5,
    SIM_ATTRIBUTE_PROGRAMMATIC_SERIALIZATION = 6,
    SIM_ATTRIBUTE_PROGRAMMATIC_EVENT = 7,
    SIM_ATTRIBUTE_PRIORITY = 8,
    SIM_ATTRIBUTE_DOMAIN_MAP = 9,
    SIM_ATTRIBUTE_DOMAIN = 10,
    SIM_ATTRIBUTE_PREFERRED_CLUSTER = 11,
    SIM_ATTRIBUTE_COMPLETION_EVENT = 12,
    SIM_ATTRIBUTE_DEVICE_UPDATABLE = 13,
    SIM_ATTRIBUTE_CARVEOUT = 14,
    SIM_ATTRIBUTE_NVLINK = 16,
    SIM_ATTRIBUTES
};

/* Those that stay with a kernel's node. */
struct sim_attributes {
    uint32_t set; /* a bit for each that was */
    CUlaunchAttributeValue values[SIM_ATTRIBUTES];
};

/* Does a kernel's node keep that attribute? */
bool sim_attribute_of_node(unsigned id) GS_MUST_USE;

/*
 * Is the value one the attribute may have?
 *
 * In:      grid  of the launch; NULL: not known
 * Errors:  CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_CLUSTER_SIZE
 *          CUDA_ERROR_NOT_SUPPORTED  a node that the device may update
 */
CUresult sim_attribute_check(unsigned id, const CUlaunchAttributeValue *value,
                             const unsigned *grid) GS_MUST_USE;

/* Remember a value that has been checked. */
void sim_attribute_set(struct sim_attributes *attributes, unsigned id,
                       const CUlaunchAttributeValue *value);

/* Its number as an int, for those that are one; 0 if it was not set. */
int sim_attribute_int(const struct sim_attributes *attributes, unsigned id) GS_MUST_USE;

/* What every form of launch comes down to. */
struct sim_launch {
    CUfunction function;
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    CUstream stream;
    void **params;
    void **extra;
    const CUlaunchAttribute *attributes;
    unsigned attribute_count;
    bool cooperative; /* by the name of the call */
};

/*
 * What a launch was told, kept for graphs: they tell it again. The arguments' values are
 * known for built-in kernels and for those whose arguments came in one buffer.
 */
struct sim_launch_record {
    atomic_uint refs;
    struct sim_function *function; /* with a reference */
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    struct sim_attributes attributes;
    unsigned char *arguments;          /* one block: each at its own alignment */
    size_t argument_bytes;             /* of it */
    void *params[SIM_KERNEL_ARGS + 1]; /* into the block; NULL behind the last */
    void *extra[5];                    /* the block as `extra` */
    bool by_extra;                     /* that is how it came */
};

void sim_launch_record_ref(struct sim_launch_record *record);
void sim_launch_record_unref(struct sim_launch_record *record); /* NULL is allowed */

/*
 * The operation alone.
 *
 * In:      keep  it is to become a node: with a record
 * Errors:  CUDA_ERROR_INVALID_HANDLE  no function, or one of another context
 *          CUDA_ERROR_INVALID_VALUE   grid, block, shared memory, arguments, attributes
 *          CUDA_ERROR_INVALID_CLUSTER_SIZE
 *          CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_launch_prepare(enum sim_api api, struct sim_context *context,
                            const struct sim_launch *launch, bool keep,
                            struct sim_op **out) GS_MUST_USE;

/*
 * The door, and the launch itself: what every form of the call comes down to.
 *
 * Errors:  those of sim_enter_context, sim_stream_get_own and sim_launch_prepare
 */
CUresult sim_launch_submit(enum sim_api api, enum sim_variant variant,
                           const struct sim_launch *launch) GS_MUST_USE;

/* How many blocks of `threads` threads, > 0, one multiprocessor holds at once. */
unsigned sim_resident_blocks(unsigned threads);

#endif
