/*
 * guard_entries.S - the entries of the guards (guards.h): each calls gs_guard_target with
 * its number and the call's first argument, then leaves by a jump to the answer, with all
 * arguments.
 */

#if defined(__x86_64__)

    .text
/* The entries: GS_GUARDS of 16 bytes each. */
    .globl gs_guard_entries
    .hidden gs_guard_entries
    .type gs_guard_entries, @function
    .p2align 4
gs_guard_entries:
    .set number, 0
    .rept 64
    .p2align 4
    .cfi_startproc
    endbr64
    pushq $number
    .cfi_adjust_cfa_offset 8
    jmp guard
    .cfi_endproc
    .set number, number + 1
    .endr
    .size gs_guard_entries, . - gs_guard_entries

    .type guard, @function
guard:
    .cfi_startproc
    .cfi_def_cfa_offset 16
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    .cfi_adjust_cfa_offset 48
    movq %rdi, %rsi
    movl 48(%rsp), %edi
    call gs_guard_target
    movq %rax, %r11
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    .cfi_adjust_cfa_offset -48
    leaq 8(%rsp), %rsp
    .cfi_adjust_cfa_offset -8
    jmp *%r11
    .cfi_endproc
    .size guard, . - guard

#elif defined(__aarch64__)

    .text
/* The entries: GS_GUARDS of 16 bytes each. */
    .globl gs_guard_entries
    .hidden gs_guard_entries
    .type gs_guard_entries, %function
    .p2align 4
gs_guard_entries:
    .set number, 0
    .rept 64
    .p2align 4
    hint 34 /* bti c */
    mov w17, number
    b guard
    .set number, number + 1
    .endr
    .size gs_guard_entries, . - gs_guard_entries

    .type guard, %function
guard:
    .cfi_startproc
    stp x29, x30, [sp, -80]!
    .cfi_def_cfa_offset 80
    .cfi_offset 29, -80
    .cfi_offset 30, -72
    mov x29, sp
    stp x0, x1, [sp, 16]
    stp x2, x3, [sp, 32]
    stp x4, x5, [sp, 48]
    stp x6, x7, [sp, 64]
    mov x1, x0
    mov w0, w17
    bl gs_guard_target
    mov x16, x0
    ldp x0, x1, [sp, 16]
    ldp x2, x3, [sp, 32]
    ldp x4, x5, [sp, 48]
    ldp x6, x7, [sp, 64]
    ldp x29, x30, [sp], 80
    .cfi_restore 30
    .cfi_restore 29
    .cfi_def_cfa_offset 0
    br x16
    .cfi_endproc
    .size guard, . - guard

#endif

#include "shim/link/asm_notes.inc"
