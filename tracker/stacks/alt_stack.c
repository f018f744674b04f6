/*
 * alt_stack.c - switches to another stack, and back.
 *
 * Owns:  gs_alt_stack_here, thread-local; the spare stack.   Lock: none, an atomic.
 * Design: docs/stacks.md, "Small stacks"
 *
 * A stack is mapped on demand, with an inaccessible guard page below it, and unmapped
 * after use. One spare stack is kept, for a thread that needs one at each capture. A
 * thread that leaves by longjmp from a signal handler, or forks, leaves a stack behind:
 * its touched pages stay in use.
 *
 * Returns and calls are in pairs across the switch, so that a shadow stack agrees.
 */
#include "tracker/stacks/alt_stack.h"

#include "tracker/host_memory.h"
#include "tracker/stacks/thread_stack.h"

#define STACK_BYTES ((size_t)1 << 20)
#define GUARD_BYTES ((size_t)64 << 10) /* a page, whatever the system's page size */

__thread struct gs_alt_stack gs_alt_stack_here;

/* Atomic: taken by an exchange. */
static char *spare;

/* body(arg) on the stack that ends at `top`; *record as in struct gs_alt_stack. */
extern void gs_alt_stack_switch(void (*body)(void *), void *arg, void *top,
                                uintptr_t *record) __attribute__((visibility("hidden")));

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
        "    .p2align 4\n"
        "    .hidden gs_alt_stack_switch\n"
        "    .globl gs_alt_stack_switch\n"
        "    .type gs_alt_stack_switch, @function\n"
        "gs_alt_stack_switch:\n"
        "    .cfi_startproc\n"
        "    push %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset %rbp, -16\n"
        "    mov %rsp, %rbp\n"
        "    .cfi_def_cfa_register %rbp\n"
        "    mov %rbp, (%rcx)\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rsp\n"
        "    call *%rax\n"
        "    leave\n"
        "    .cfi_def_cfa %rsp, 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        "    .size gs_alt_stack_switch, . - gs_alt_stack_switch\n"
        ".popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n"
        "    .p2align 4\n"
        "    .hidden gs_alt_stack_switch\n"
        "    .globl gs_alt_stack_switch\n"
        "    .type gs_alt_stack_switch, %function\n"
        "gs_alt_stack_switch:\n"
        "    .cfi_startproc\n"
        "    hint #34\n" /* bti c */
        "    stp x29, x30, [sp, #-16]!\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset 29, -16\n"
        "    .cfi_offset 30, -8\n"
        "    mov x29, sp\n"
        "    .cfi_def_cfa_register 29\n"
        "    str x29, [x3]\n"
        "    mov x9, x0\n"
        "    mov x0, x1\n"
        "    mov sp, x2\n"
        "    blr x9\n"
        "    mov sp, x29\n"
        "    .cfi_def_cfa_register 31\n"
        "    ldp x29, x30, [sp], #16\n"
        "    .cfi_def_cfa_offset 0\n"
        "    .cfi_restore 29\n"
        "    .cfi_restore 30\n"
        "    ret\n"
        "    .cfi_endproc\n"
        "    .size gs_alt_stack_switch, . - gs_alt_stack_switch\n"
        ".popsection\n");
#else
#error "how to go to another stack on this machine is not known"
#endif

/* NULL: no memory. */
static char *take_stack(void)
{
    char *stack = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQUIRE);

    if (stack) {
        return stack;
    }
    stack = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) {
        return NULL;
    }
    if (mprotect(stack + GUARD_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE) != 0) {
        munmap(stack, GUARD_BYTES + STACK_BYTES);
        return NULL;
    }
    return stack;
}

static void give_stack(char *stack)
{
    char *none = NULL;

    if (!__atomic_compare_exchange_n(&spare, &none, stack, false, __ATOMIC_RELEASE,
                                     __ATOMIC_RELAXED)) {
        munmap(stack, GUARD_BYTES + STACK_BYTES);
    }
}

bool gs_alt_stack_has(size_t need_bytes)
{
    const struct gs_alt_stack *here = &gs_alt_stack_here;
    const struct gs_stack_range *own = &gs_own_stack;
    uintptr_t sp = (uintptr_t)__builtin_frame_address(0);

    if (GS_UNLIKELY(sp - here->low < here->high - here->low)) {
        return sp - here->low >= need_bytes;
    }
    return sp - own->low < own->high - own->low && sp - own->low >= need_bytes;
}

static __attribute__((noinline)) void call_elsewhere(char *stack, uintptr_t caller,
                                                     void (*body)(void *), void *arg)
{
    const struct gs_alt_stack before = gs_alt_stack_here;
    char *low = stack + GUARD_BYTES;

    gs_alt_stack_here = (struct gs_alt_stack){.caller = caller};
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    gs_alt_stack_here.low = (uintptr_t)low;
    gs_alt_stack_here.high = (uintptr_t)low + STACK_BYTES;
    gs_alt_stack_switch(body, arg, low + STACK_BYTES, &gs_alt_stack_here.record);
    gs_alt_stack_here = before;
}

__attribute__((noinline)) void gs_alt_stack_call(size_t need_bytes, void (*body)(void *),
                                                 void *arg)
{
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    char *stack = NULL;

    if (GS_UNLIKELY(!gs_own_stack.asked)) {
        gs_thread_stack_query();
    }
    if (GS_UNLIKELY(!gs_alt_stack_has(need_bytes))) {
        stack = take_stack();
    }
    if (GS_LIKELY(stack == NULL)) {
        body(arg);
    } else {
        call_elsewhere(stack, caller, body, arg);
        give_stack(stack);
    }
}

void gs_alt_stack_visit(void (*visit)(void *arg, uintptr_t begin, size_t bytes),
                        void *arg)
{
    char *waiting = __atomic_load_n(&spare, __ATOMIC_ACQUIRE);

    if (waiting) {
        visit(arg, (uintptr_t)waiting + GUARD_BYTES, STACK_BYTES);
    }
    if (gs_alt_stack_here.high) {
        visit(arg, gs_alt_stack_here.low, gs_alt_stack_here.high - gs_alt_stack_here.low);
    }
}
