/*
 * python_calls.h - C functions for the Python module (python_calls.c), which calls them
 * by ctypes. The module's _native.py repeats the structures.
 *
 * A function of an older library may serve a newer module: a function or a structure that
 * changes gets a new name.
 */
#ifndef GS_PYTHON_CALLS_H
#define GS_PYTHON_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "gs_base.h"

/* ---- memory that DLPack exports ---------------------------------------------------- */

/* PyCapsule_IsValid and PyCapsule_GetPointer. */
struct gpushim_python_capsules {
    int (*is_valid)(void *capsule, const char *name);
    void *(*get_pointer)(void *capsule, const char *name);
};

/* What a capsule says about the memory. */
struct gpushim_python_tensor {
    const int64_t *shape;
    int32_t ndim, device_type, device_id;
    uint8_t code, bits; /* of the elements: DLDataType */
    uint8_t versioned;  /* a DLManagedTensorVersioned, 1.0 */
};

/* Called before the first capsule; a second call has the same functions. */
GS_EXPORT void
gpushim_python_set_capsules(const struct gpushim_python_capsules *functions);

struct gpushim_python_memory;

/* Takes over memory at `address` that end(object) frees, once, in any thread; its result
 * is that of gpushim_python_close. Returns NULL, with nothing taken, without host memory.
 */
GS_EXPORT struct gpushim_python_memory *
gpushim_python_own_object(int (*end)(void *object), void *object, uint64_t address);
/* The Python object frees the memory, once: now, or at the end of the last export.
 * Returns what end() does, 0 while there are exports. */
GS_EXPORT int gpushim_python_close(struct gpushim_python_memory *memory);
/* The Python object ends; it has closed the memory. */
GS_EXPORT void gpushim_python_forget(struct gpushim_python_memory *memory);
/* Exports, and 1 until gpushim_python_close; 0: the memory is freed. */
GS_EXPORT unsigned gpushim_python_holds(const struct gpushim_python_memory *memory);

/* A managed tensor with one hold, which its deleter ends in any thread, at any time; NULL
 * without host memory. The memory is not closed. */
GS_EXPORT void *gpushim_python_export(struct gpushim_python_memory *memory,
                                      const struct gpushim_python_tensor *wanted);
/* The destructor of a capsule: deletes a tensor that no consumer has taken. */
GS_EXPORT void gpushim_python_drop_capsule(void *capsule);

/* ---- calls into Python ------------------------------------------------------------- */

struct gpushim_python_gate;

/* A gate in front of a function of Python: once the gate is closed, no thread reaches the
 * function. Never freed, since a thread may come late. NULL: no host memory. */
GS_EXPORT struct gpushim_python_gate *gpushim_python_gate(void (*call)(void *, int, int));
/* A gpushim_pressure_call; self: the gate. */
GS_EXPORT void gpushim_python_pass(void *self, int device, int level);
/* Closes a gate and waits for the threads inside, without the GIL. Returns whether no
 * thread is inside. */
GS_EXPORT bool gpushim_python_close_gate(struct gpushim_python_gate *gate,
                                         unsigned wait_ms);

#endif
