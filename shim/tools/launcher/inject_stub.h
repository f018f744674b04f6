/*
 * inject_stub.h - the memory that is made in the other process: code, words, a stack.
 * Also for assembly.
 *
 *     0      code (inject_x86_64.S), read and executed
 *     4096   the words below, the vector registers, then the strings
 *     36864  the stack of the call, to GS_STUB_BYTES
 */
#ifndef GS_INJECT_STUB_H
#define GS_INJECT_STUB_H

#define GS_STUB_DATA    4096
#define GS_STUB_STACK   36864
#define GS_STUB_BYTES   (GS_STUB_STACK + 128 * 1024)
#define GS_STUB_VECTORS 512
#define GS_STUB_STRINGS 16896 /* of the words, as all below */
#define GS_STUB_ROOM    (GS_STUB_STACK - GS_STUB_DATA)

/* Functions of the process. */
#define GS_STUB_CREATE 0
#define GS_STUB_DETACH 8
#define GS_STUB_SELF   16
#define GS_STUB_OPEN   24
#define GS_STUB_SYMBOL 32
#define GS_STUB_ERROR  40
#define GS_STUB_UNMAP  48

/* What is asked: the begin of the memory, its size, three strings. */
#define GS_STUB_BASE     56
#define GS_STUB_SIZE     64
#define GS_STUB_LIBRARY  72
#define GS_STUB_ENTRY    80
#define GS_STUB_ARGUMENT 88

/* What comes of it. */
#define GS_STUB_THREAD  96  /* pthread_t */
#define GS_STUB_RESULT  104 /* of pthread_create */
#define GS_STUB_ANSWER  112 /* ENTRY's, or dlerror's */
#define GS_STUB_STATE   120 /* GS_STUB_ANSWERED or GS_STUB_FAILED at the end */
#define GS_STUB_RELEASE 128 /* not 0: the memory is read, nobody else is in it */
#define GS_STUB_TURNS   136 /* naps in which GS_STUB_RELEASE is awaited */
#define GS_STUB_NAP     144 /* struct timespec */

#define GS_STUB_DONE 344 /* not 0: the call is over, the thread can be put back */
#define GS_STUB_REST 352 /* struct timespec: how long it waits for that */

/* Of the new thread: the functions that set a stack's size (0: the default), and their
 * pthread_attr_t. The first size is that of the library's own threads: the C library
 * keeps the stack of a thread that has ended for one of the same size. */
#define GS_STUB_ATTRIBUTE   368
#define GS_STUB_SIZE_STACK  376
#define GS_STUB_ATTRIBUTES  384
#define GS_STUB_STACK_BYTES 0x100000
#define GS_STUB_LEAST_BYTES 0x20000

#define GS_STUB_ANSWERED 1
#define GS_STUB_FAILED   2

/* How the thread brings itself back if nobody traces it any more. */
#define GS_STUB_MASK    160 /* blocked signals */
#define GS_STUB_PENDING 168
#define GS_STUB_LEFT_AX 176 /* where a signal waits: the call's result, */
#define GS_STUB_LEFT_PC 184 /* and where it ended */
#define GS_STUB_MODE    192 /* the second argument of dlopen */
#define GS_STUB_REGS                                                                     \
    200 /* r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi rip flags rsp */

#endif
