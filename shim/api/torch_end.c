/*
 * torch_end.c - finds the tensors that PyTorch cannot free because Python has ended.
 *
 * An autograd graph and a gradient hold tensors, and with each its Python object. PyTorch
 * (2.15; not 2.8) drops that object by decref of ConcretePyInterpreterVTable, which first
 * calls Py_IsInitialized. While the interpreter ends the answer is 0: the object stays,
 * and the tensor's memory with it, and all that this tensor holds. So the program's
 * globals held them to the end; they are not lost.
 *
 * The slot of Py_IsInitialized in libtorch_python.so is set to a function here. decref
 * has the object as its second argument, whose register it has not changed before that
 * call.
 *
 * Owns:  the slot, and Python's function.   Lock: none, atomic.
 */
#include <link.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gs_base.h"
#include "shim/api/torch_end.h"
#include "shim/api/torch_graph.h"
#include "shim/link/elf_module.h"
#include "shim/settings/environment.h"
#include "shim/state/state.h"
#include "tracker/tracker.h"

#define LIBRARY "libtorch_python.so"
#define ASKED   "Py_IsInitialized"

/* A Python object of a tensor has the tensor after two words, a reference count and the
 * type. */
#define FIRST_MEMBER 16u

typedef int is_initialized_fn(void);
static is_initialized_fn *own;    /* atomic: Python's, once the slot is set */
static is_initialized_fn *python; /* atomic: the same, once Python was seen to run */

static void keep(uint64_t addr)
{
    struct gs_state *state = gs_state_peek();

    if (state && state->tracker) {
        gs_tracker_part_kept(state->tracker, addr);
    }
}

/* Any value may be in that register. */
static void keep_tensors(uintptr_t object)
{
    uintptr_t tensor;
    struct iovec here = {&tensor, sizeof(tensor)};
    struct iovec there = {(void *)(object + FIRST_MEMBER), sizeof(tensor)};

    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)sizeof(tensor)) {
        gs_torch_graph_walk(tensor, keep);
    }
}

/* Called as Py_IsInitialized, which has no parameters. */
static int is_initialized(uintptr_t interpreter, uintptr_t object)
{
    int answer = __atomic_load_n(&own, __ATOMIC_ACQUIRE)();

    (void)interpreter;
    if (answer == 0) {
        keep_tensors(object);
    }
    return answer;
}

static bool visit_slot(const struct gs_elf_slot *slot, void *data)
{
    void ***found = data;

    if (slot->is_data || strcmp(slot->name, ASKED) != 0) {
        return false;
    }
    *found = slot->at;
    return true;
}

/* Inside the linker's lock, which keeps the module. */
static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    const struct gs_module_ref module = gs_elf_module_in(info);
    const char *soname = module.dynamic ? gs_elf_soname(&module) : NULL;
    void **slot = NULL;

    (void)size;
    if (!soname) {
        return 0;
    }
    gs_torch_graph_module(info, soname);
    if (strcmp(soname, LIBRARY) == 0) {
        (void)gs_elf_visit_slots(&module, visit_slot, &slot);
    }
    if (slot) {
        __atomic_store_n(&own, *(is_initialized_fn **)data, __ATOMIC_RELEASE);
        gs_elf_slot_set(slot, *slot, (void *)is_initialized,
                        gs_elf_slot_is_fixed(info, slot));
    }
    return 0;
}

void gs_torch_end_watch(void)
{
    struct gs_module_ref library, interpreter;
    is_initialized_fn *function;
    void *found;

    if (__atomic_load_n(&own, __ATOMIC_ACQUIRE) ||
        gs_elf_module_named(LIBRARY, false, &library) != GS_OK ||
        !gs_elf_first_symbol(ASKED, &interpreter) ||
        !(found = gs_elf_symbol(&interpreter, ASKED))) {
        return;
    }
    memcpy(&function, &found, sizeof(function));
    if (function() != 0) {
        __atomic_store_n(&python, function, __ATOMIC_RELEASE);
    }
    /* What is attached to keeps its code as it was once it is detached. */
    if (!gs_environment_is_replaced()) {
        (void)gs_elf_visit(visit, (void *)&function);
    }
}

bool gs_torch_end_has_come(void)
{
    is_initialized_fn *function = __atomic_load_n(&python, __ATOMIC_ACQUIRE);

    return function && function() == 0;
}
