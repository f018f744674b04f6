/*
 * torch_python.c - a stand-in for PyTorch's libtorch_python.so: a graph of tensors, and
 * the Python object of its last one. As Python ends it drops the graph, too late.
 */
#include <stdlib.h>

/* The interpreter's. */
#define WEAK __attribute__((weak))
WEAK int Py_IsInitialized(void);
WEAK int Py_AtExit(void (*function)(void));

/* As in PyTorch: what has virtual functions begins with their table, and a member stands
 * behind two words. */
static const void *const table[1];

struct storage {
    const void *table, *count;
    void *memory;
    const void *context, *deleter;
    signed char device_type, device;
};
struct tensor {
    const void *table, *count;
    struct storage *storage;
    struct function *made_by;
};
struct function {
    const void *table, *count;
    struct tensor **saved; /* a vector */
};
struct object {
    long count;
    void *type;
    struct tensor *tensor;
};

#define SHOWN __attribute__((visibility("default"), noinline))
#define DECREF                                                                           \
    _ZNK5torch6detail12_GLOBAL__N_127ConcretePyInterpreterVTable6decrefEP7_object
void DECREF(const void *self, struct object *object);
void torch_graph(void *memory);

static struct object *held; /* by a global: the last tensor */

SHOWN void DECREF(const void *self, struct object *object)
{
    (void)self;
    if (Py_IsInitialized())
        object->count--;
}

static void end(void)
{
    DECREF(NULL, held);
}

static void *make(size_t bytes)
{
    void *made = calloc(1, bytes);

    if (!made)
        abort();
    return made;
}

/* The tensor is made by a function that holds the one before. */
SHOWN void torch_graph(void *memory)
{
    struct tensor *tensor = make(sizeof(*tensor));

    tensor->table = table;
    tensor->storage = make(sizeof(*tensor->storage));
    *tensor->storage = (struct storage){
        .table = table, .memory = memory, .deleter = table, .device_type = 1};
    if (!held) {
        held = make(sizeof(*held));
        (void)Py_AtExit(end);
    } else {
        tensor->made_by = make(sizeof(*tensor->made_by));
        tensor->made_by->table = table;
        tensor->made_by->saved = make(3 * sizeof(*tensor->made_by->saved));
        tensor->made_by->saved[1] = held->tensor;
    }
    *held = (struct object){.count = 1, .tensor = tensor};
}
