/*
 * ipc_mode.c - decides whether small requests share driver allocations: by the option,
 * the program's own symbols, and its exports.
 *
 * Owns:  gs_ipc_apart, which leaves GS_IPC_SHARING once.   Lock: none.   Design:
 *        docs/ipc.md
 */
#include "shim/heaps/ipc_mode.h"

#include "shim/link/elf_module.h"
#include "shim/settings/log.h"

int gs_ipc_apart;

/* The symbol by which the program itself exports memory of any size, or NULL. Libraries
 * that import these symbols do not count: they query the address range, or share 2 MiB
 * and more. */
static const char *exporting_symbol(void)
{
    static const char *const names[] = {"cuIpcGetMemHandle", "cudaIpcGetMemHandle"};
    struct gs_module_ref program;
    if (gs_elf_program(&program) != GS_OK) {
        return NULL;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (gs_elf_imports(&program, names[i])) {
            return names[i];
        }
    }
    return NULL;
}

void gs_ipc_start(const struct gs_options *options)
{
    const char *symbol = options->ipc == GS_IPC_AUTO ? exporting_symbol() : NULL;
    if (symbol) {
        gs_log_line(
            GS_LOG_INFO,
            "the program calls %s: the driver serves small requests (GPUSHIM_IPC)",
            symbol);
    }
    if (symbol || options->ipc == GS_IPC_NATIVE) {
        __atomic_store_n(&gs_ipc_apart, GS_IPC_APART_FROM_START, __ATOMIC_RELEASE);
    }
}

void gs_ipc_reset(void)
{
    gs_ipc_apart = GS_IPC_SHARING;
}

void gs_ipc_set_apart(struct gs_state *state)
{
    const struct gs_context *context;
    int before = GS_IPC_SHARING;
    if (state->options.ipc == GS_IPC_POOL ||
        !__atomic_compare_exchange_n(&gs_ipc_apart, &before, GS_IPC_APART, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        return;
    }
    for (size_t i = 0; (context = gs_context_nth(state, i)) != NULL; i++) {
        if (context->heap) {
            gs_heap_retain_shared(context->heap);
        }
    }
}
