/*
 * python_calls.c - C functions that the Python module hands out as callbacks.
 *
 * A consumer of DLPack may call a deleter without the GIL, with an exception set, or
 * after the interpreter's end. A callback of ctypes survives none of the three. So the
 * deleter is here, and the memory belongs to this file from its first export on.
 *
 * This file is part of libgpushim.so, and alone of libgpushim-python.so, which serves
 * processes without the preloaded library. The functions need neither the library's state
 * nor a header of Python or CUDA: the module passes the addresses of what they call.
 *
 * Owns:  exported memory.   Lock: none; counts are atomic. `capsules` is immutable after
 * the module's import.
 * Source: dlpack.h, versions 0.8 and 1.0; "Python Specification for DLPack"
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_wait.h"
#include "shim/api/python_calls.h"

/* ---- DLPack's structures ----------------------------------------------------------- */

struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

/* A capsule named "dltensor". */
struct dl_managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *);
};

/* A capsule named "dltensor_versioned". */
struct dl_managed_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_managed_versioned *);
    uint64_t flags;
    struct dl_tensor tensor;
};

/* ---- exported memory --------------------------------------------------------------- */

struct gpushim_python_memory {
    uint64_t address;
    int (*end)(void *object); /* frees it */
    void *object;
    unsigned holds; /* exports, and 1 until the buffer is freed: then the memory goes */
    unsigned references; /* exports, and 1 of the Python object: then this goes */
};

/* The tensor of one export; shape and strides follow it. */
struct export
{
    struct gpushim_python_memory *memory;
    union {
        struct dl_managed plain;
        struct dl_managed_versioned versioned;
    } tensor;
    int64_t extents[];
};

static struct gpushim_python_capsules capsules;

void gpushim_python_set_capsules(const struct gpushim_python_capsules *functions)
{
    capsules = *functions;
}

/* Ends one hold. Returns what end() does where this frees the memory, else 0. */
static int end_hold(struct gpushim_python_memory *memory)
{
    return __atomic_sub_fetch(&memory->holds, 1, __ATOMIC_ACQ_REL) == 0
               ? memory->end(memory->object)
               : 0;
}

struct gpushim_python_memory *gpushim_python_own_object(int (*end)(void *object),
                                                        void *object, uint64_t address)
{
    struct gpushim_python_memory *memory = malloc(sizeof(*memory));
    if (memory) {
        *memory = (struct gpushim_python_memory){.address = address,
                                                 .end = end,
                                                 .object = object,
                                                 .holds = 1,
                                                 .references = 1};
    }
    return memory;
}

int gpushim_python_close(struct gpushim_python_memory *memory)
{
    return end_hold(memory);
}

void gpushim_python_forget(struct gpushim_python_memory *memory)
{
    if (__atomic_sub_fetch(&memory->references, 1, __ATOMIC_ACQ_REL) == 0) {
        free(memory);
    }
}

unsigned gpushim_python_holds(const struct gpushim_python_memory *memory)
{
    return __atomic_load_n(&memory->holds, __ATOMIC_ACQUIRE);
}

/* ---- exports ----------------------------------------------------------------------- */

static void end_export(struct export *export)
{
    struct gpushim_python_memory *memory = export->memory;
    free(export);
    (void)end_hold(memory); /* nobody is left to get the code */
    gpushim_python_forget(memory);
}

static void delete_plain(struct dl_managed *managed)
{
    end_export(managed->context);
}

static void delete_versioned(struct dl_managed_versioned *managed)
{
    end_export(managed->context);
}

void *gpushim_python_export(struct gpushim_python_memory *memory,
                            const struct gpushim_python_tensor *wanted)
{
    size_t count = (size_t)wanted->ndim;
    struct export *export = malloc(sizeof(*export) + 2 * count * sizeof(int64_t));
    int64_t stride = 1;
    if (!export) {
        return NULL;
    }
    memcpy(export->extents, wanted->shape, count * sizeof(int64_t));
    for (size_t i = count; i-- > 0; stride *= wanted->shape[i]) {
        export->extents[count + i] = stride;
    }
    const struct dl_tensor tensor = {
        .data = (void *)(uintptr_t)memory->address,
        .device_type = wanted->device_type,
        .device_id = wanted->device_id,
        .ndim = wanted->ndim,
        .code = wanted->code,
        .bits = wanted->bits,
        .lanes = 1,
        .shape = export->extents,
        .strides = export->extents + count,
    };
    export->memory = memory;
    __atomic_add_fetch(&memory->references, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&memory->holds, 1, __ATOMIC_RELAXED);
    if (wanted->versioned) {
        export->tensor.versioned = (struct dl_managed_versioned){
            1, 0, export, delete_versioned, 0 /* writable, no copy */, tensor};
        return &export->tensor.versioned;
    }
    export->tensor.plain = (struct dl_managed){tensor, export, delete_plain};
    return &export->tensor.plain;
}

void gpushim_python_drop_capsule(void *capsule)
{
    /* A consumer that has taken the tensor has renamed the capsule. */
    if (capsules.is_valid(capsule, "dltensor")) {
        delete_plain(capsules.get_pointer(capsule, "dltensor"));
    } else if (capsules.is_valid(capsule, "dltensor_versioned")) {
        delete_versioned(capsules.get_pointer(capsule, "dltensor_versioned"));
    }
}

/* ---- gates ------------------------------------------------------------------------- */

struct gpushim_python_gate {
    void (*call)(void *self, int device, int level);
    pid_t process;
    bool closed;
    unsigned inside; /* threads between gate and function */
};

struct gpushim_python_gate *gpushim_python_gate(void (*call)(void *, int, int))
{
    struct gpushim_python_gate *gate = calloc(1, sizeof(*gate));
    if (gate) {
        gate->call = call;
        gate->process = getpid();
    }
    return gate;
}

void gpushim_python_pass(void *self, int device, int level)
{
    struct gpushim_python_gate *gate = self;
    __atomic_add_fetch(&gate->inside, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&gate->closed, __ATOMIC_SEQ_CST)) {
        gate->call(NULL, device, level);
    }
    __atomic_sub_fetch(&gate->inside, 1, __ATOMIC_SEQ_CST);
}

bool gpushim_python_close_gate(struct gpushim_python_gate *gate, unsigned wait_ms)
{
    struct gs_wait wait = {.nap_ns = 1000000,
                           .until_ns = gs_now_ns() + wait_ms * UINT64_C(1000000)};
    __atomic_store_n(&gate->closed, true, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&gate->inside, __ATOMIC_SEQ_CST) != 0) {
        if (gate->process != getpid() /* a forked child has the count, not the threads */
            || !gs_wait_step(&wait)) {
            return false;
        }
    }
    return true;
}
