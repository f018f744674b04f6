/*
 * jump.S - dlsym and dlvsym: call the shim's route function, then return its answer or
 * leave by a jump.
 *
 * The dynamic linker identifies the caller of dlsym(RTLD_NEXT, ...) by the return
 * address, so a look-up that the shim does not answer must reach the real function with
 * the stack and the argument registers exactly as the caller left them.
 *
 * gs_route_dlsym / _dlvsym return two words: the value, and the jump target (0:
 * return the value).
 */

#if defined(__x86_64__)


/* name, route function, register of the route's last argument: the caller's address */
#define LOOKUP(name, route, caller_register)                                             \
    .globl name;                                                                         \
    .type name, @function;                                                               \
    .p2align 4;                                                                          \
name:                                                                                    \
    .cfi_startproc;                                                                      \
    endbr64;                                                                             \
    pushq %rdi;                                                                          \
    .cfi_adjust_cfa_offset 8;                                                            \
    pushq %rsi;                                                                          \
    .cfi_adjust_cfa_offset 8;                                                            \
    pushq %rdx;                                                                          \
    .cfi_adjust_cfa_offset 8;                                                            \
    movq 24(%rsp), caller_register;                                                      \
    call route;                                                                          \
    movq %rdx, %r11;                                                                     \
    popq %rdx;                                                                           \
    .cfi_adjust_cfa_offset -8;                                                           \
    popq %rsi;                                                                           \
    .cfi_adjust_cfa_offset -8;                                                           \
    popq %rdi;                                                                           \
    .cfi_adjust_cfa_offset -8;                                                           \
    testq %r11, %r11;                                                                    \
    jz 1f;                                                                               \
    jmp *%r11;                                                                           \
1:                                                                                       \
    ret;                                                                                 \
    .cfi_endproc;                                                                        \
    .size name, . - name

    .text
    LOOKUP(dlsym, gs_route_dlsym, %rdx)
    LOOKUP(dlvsym, gs_route_dlvsym, %rcx)

#elif defined(__aarch64__)

#define LOOKUP(name, route, caller_register)                                             \
    .globl name;                                                                         \
    .type name, %function;                                                               \
    .p2align 4;                                                                          \
name:                                                                                    \
    .cfi_startproc;                                                                      \
    hint 34; /* bti c */                                                                 \
    stp x29, x30, [sp, -48]!;                                                            \
    .cfi_def_cfa_offset 48;                                                              \
    .cfi_offset 29, -48;                                                                 \
    .cfi_offset 30, -40;                                                                 \
    mov x29, sp;                                                                         \
    stp x0, x1, [sp, 16];                                                                \
    str x2, [sp, 32];                                                                    \
    mov caller_register, x30;                                                            \
    bl route;                                                                            \
    mov x16, x1;                                                                         \
    cbz x16, 1f;                                                                         \
    ldp x0, x1, [sp, 16];                                                                \
    ldr x2, [sp, 32];                                                                    \
1:                                                                                       \
    ldp x29, x30, [sp], 48;                                                              \
    .cfi_restore 30;                                                                     \
    .cfi_restore 29;                                                                     \
    .cfi_def_cfa_offset 0;                                                               \
    cbz x16, 2f;                                                                         \
    br x16;                                                                              \
2:                                                                                       \
    ret;                                                                                 \
    .cfi_endproc;                                                                        \
    .size name, . - name

    .text
    LOOKUP(dlsym, gs_route_dlsym, x2)
    LOOKUP(dlvsym, gs_route_dlvsym, x3)

#endif

#include "shim/link/asm_notes.inc"
