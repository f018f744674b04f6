/*
 * inject_x86_64.S - the code that is copied into the other process. It runs at any address; its
 * words are GS_STUB_DATA bytes after its begin (inject_stub.h).
 */
#if defined(__x86_64__)
#include <asm/unistd.h>

#include "shim/tools/launcher/inject_stub.h"

#define WORD(offset) (.Lbegin + GS_STUB_DATA + (offset))(%rip)
#define REG(index)   (GS_STUB_REGS + 8 * (index))

    .section .rodata
    .globl gs_stub_begin, gs_stub_done, gs_stub_met, gs_stub_end
    .hidden gs_stub_begin, gs_stub_done, gs_stub_met, gs_stub_end
    .balign 16

/* The interrupted thread begins here, on the stack of this memory; rbx has the words. The new
 * thread must not inherit a floating-point state from the middle of a computation. */
gs_stub_begin:
.Lbegin:
    mov     $-1, %eax
    mov     %eax, %edx
    xsave64 GS_STUB_VECTORS(%rbx)
    fninit
    pushq   $0x1f80
    ldmxcsr (%rsp)
    add     $8, %rsp
    cld
    cmpq    $0, GS_STUB_SIZE_STACK(%rbx)
    je      7f
    lea     GS_STUB_ATTRIBUTES(%rbx), %rdi
    call    *GS_STUB_ATTRIBUTE(%rbx)
    test    %eax, %eax
    jnz     7f
    mov     $GS_STUB_STACK_BYTES, %esi
    call    stub_create_sized
    test    %eax, %eax
    jz      8f
    mov     $GS_STUB_LEAST_BYTES, %esi /* there may be no address space for more */
    call    stub_create_sized
    test    %eax, %eax
    jz      8f
7:  xor     %esi, %esi /* or the thread-local variables need more */
    call    stub_create
8:  mov     %rax, GS_STUB_RESULT(%rbx)
    mov     $-1, %eax
    mov     %eax, %edx
    xrstor64 GS_STUB_VECTORS(%rbx)
gs_stub_done:
    movq    $1, GS_STUB_DONE(%rbx) /* from here on its tracer puts it back */
    mov     $__NR_pselect6, %eax /* a sleep would replace what the kernel repeats */
    xor     %edi, %edi
    xor     %esi, %esi
    xor     %edx, %edx
    xor     %r10d, %r10d
    lea     GS_STUB_REST(%rbx), %r8
    xor     %r9d, %r9d
    syscall
gs_stub_met:
    /* There is no tracer any more. A signal that waits would have ended the system call. */
    mov     $__NR_rt_sigpending, %eax
    lea     GS_STUB_PENDING(%rbx), %rdi
    mov     $8, %esi
    syscall
    mov     GS_STUB_MASK(%rbx), %rax
    not     %rax
    test    %rax, GS_STUB_PENDING(%rbx)
    jz      1f
    mov     GS_STUB_LEFT_AX(%rbx), %rax
    mov     %rax, REG(10)(%rbx)
    mov     GS_STUB_LEFT_PC(%rbx), %rax
    mov     %rax, REG(15)(%rbx)
1:  mov     $__NR_rt_sigprocmask, %eax
    mov     $2, %edi /* SIG_SETMASK */
    lea     GS_STUB_MASK(%rbx), %rsi
    xor     %edx, %edx
    mov     $8, %r10d
    syscall
    pushq   REG(16)(%rbx)
    popfq
    mov     REG(0)(%rbx), %r15
    mov     REG(1)(%rbx), %r14
    mov     REG(2)(%rbx), %r13
    mov     REG(3)(%rbx), %r12
    mov     REG(4)(%rbx), %rbp
    mov     REG(6)(%rbx), %r11
    mov     REG(7)(%rbx), %r10
    mov     REG(8)(%rbx), %r9
    mov     REG(9)(%rbx), %r8
    mov     REG(10)(%rbx), %rax
    mov     REG(11)(%rbx), %rcx
    mov     REG(12)(%rbx), %rdx
    mov     REG(13)(%rbx), %rsi
    mov     REG(14)(%rbx), %rdi
    mov     REG(17)(%rbx), %rsp
    mov     WORD(REG(5)), %rbx
    jmp     *WORD(REG(15))

/* Creates the new thread, with a stack of rsi bytes. Returns 0 or an error. */
stub_create_sized:
    sub     $8, %rsp
    lea     GS_STUB_ATTRIBUTES(%rbx), %rdi
    call    *GS_STUB_SIZE_STACK(%rbx)
    add     $8, %rsp
    test    %eax, %eax
    jnz     9f
    lea     GS_STUB_ATTRIBUTES(%rbx), %rsi
/* The same. rsi: its attributes, or 0. */
stub_create:
    sub     $8, %rsp
    lea     GS_STUB_THREAD(%rbx), %rdi
    lea     stub_thread(%rip), %rdx
    mov     %rbx, %rcx
    call    *GS_STUB_CREATE(%rbx)
    add     $8, %rsp
9:  ret

/* The new thread. At its end munmap returns to the C library, not to here. */
stub_thread:
    push    %rbx
    mov     %rdi, %rbx
    call    *GS_STUB_SELF(%rbx)
    mov     %rax, %rdi
    call    *GS_STUB_DETACH(%rbx)
    mov     GS_STUB_LIBRARY(%rbx), %rdi
    mov     GS_STUB_MODE(%rbx), %rsi
    call    *GS_STUB_OPEN(%rbx)
    test    %rax, %rax
    jz      2f
    mov     %rax, %rdi
    mov     GS_STUB_ENTRY(%rbx), %rsi
    call    *GS_STUB_SYMBOL(%rbx)
    test    %rax, %rax
    jz      2f
    mov     GS_STUB_ARGUMENT(%rbx), %rdi
    call    *%rax
    mov     %rax, GS_STUB_ANSWER(%rbx)
    movq    $GS_STUB_ANSWERED, GS_STUB_STATE(%rbx)
    jmp     3f
2:  mov     GS_STUB_ERROR(%rbx), %rax
    test    %rax, %rax
    jz      6f
    call    *%rax
6:  mov     %rax, GS_STUB_ANSWER(%rbx)
    movq    $GS_STUB_FAILED, GS_STUB_STATE(%rbx)
3:  cmpq    $0, GS_STUB_RELEASE(%rbx)
    jne     4f
    decq    GS_STUB_TURNS(%rbx)
    js      5f
    mov     $__NR_nanosleep, %eax
    lea     GS_STUB_NAP(%rbx), %rdi
    xor     %esi, %esi
    syscall
    jmp     3b
4:  mov     GS_STUB_BASE(%rbx), %rdi
    mov     GS_STUB_SIZE(%rbx), %rsi
    mov     GS_STUB_UNMAP(%rbx), %rax
    pop     %rbx
    jmp     *%rax
5:  pop     %rbx
    xor     %eax, %eax
    ret
gs_stub_end:
#else
/* The code of no architecture. */
    .section .rodata
    .globl gs_stub_begin, gs_stub_end
    .hidden gs_stub_begin, gs_stub_end
gs_stub_begin:
.Lbegin:
gs_stub_end:
#endif
    .section .note.GNU-stack, "", %progbits
