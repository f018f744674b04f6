/*
 * inject_x86_64.c - registers, system calls and signal frames of x86_64. Other
 * architectures have none of it yet: gs_arch_refuse says so.
 *
 * Owns: nothing.   Lock: none.
 * Source: Linux, arch/x86/kernel/signal.c (restart of system calls),
 * arch/x86/kernel/fpu/signal.c (frames)
 */
#include "shim/tools/launcher/inject_parts.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#include "shim/tools/launcher/inject_stub.h"

#define RED_ZONE     128
#define USER_CODE    0x33
#define USER_STACK   0x2b
#define MOST_VECTORS 16384
#define LEGACY_BYTES 512 /* then 64 of the header */
#define TILES        (UINT64_C(3) << 17)

/* What a system call has returned if it is to be repeated; user space never sees them. */
#define ERESTARTSYS           512
#define ERESTARTNOINTR        513
#define ERESTARTNOHAND        514
#define ERESTART_RESTARTBLOCK 516

/* The kernel's frame of a signal without its siginfo: glibc's ucontext_t begins alike. */
#define UC_MASK  296 /* offset of uc_sigmask */
#define UC_BYTES 304

/* Kernel flags of uc_flags. */
#define UC_FP_XSTATE         1
#define UC_SIGCONTEXT_SS     2
#define UC_STRICT_RESTORE_SS 4

#define MAGIC1 0x46505853u
#define MAGIC2 0x46505845u

static_assert(offsetof(ucontext_t, uc_sigmask) == UC_MASK, "the kernel's frame");

/* ---- the processor's vector state -------------------------------------------------- */

/* Bytes of what XSAVE writes; 0: the processor has none. */
static unsigned vector_bytes(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) ||
        !__get_cpuid_count(0xD, 0, &a, &b, &c, &d)) {
        return 0;
    }
    return b;
}

/* The components a frame restores, and the bytes up to their end: all but the tiles of
 * AMX, of which the kernel makes no room in the frame of a thread that has none. */
static uint64_t frame_components(unsigned *bytes)
{
    unsigned a, b, c, d;
    *bytes = LEGACY_BYTES + 64;
    if (!__get_cpuid_count(0xD, 0, &a, &b, &c, &d)) {
        return 3;
    }
    uint64_t all = (((uint64_t)d << 32) | a) & ~TILES;
    for (unsigned i = 2; i < 63; i++) {
        if (!(all >> i & 1)) {
            continue;
        }
        __cpuid_count(0xD, i, a, b, c, d);
        if (*bytes < a + b) {
            *bytes = a + b;
        }
    }
    return all;
}

const char *gs_arch_refuse(void)
{
    unsigned bytes = vector_bytes();
    return bytes >= LEGACY_BYTES + 64 && bytes <= MOST_VECTORS
               ? NULL
               : "attaching needs a processor with XSAVE";
}

/* ---- registers --------------------------------------------------------------------- */

uint64_t gs_arch_pc(const struct user_regs_struct *regs)
{
    return regs->rip;
}

uint64_t gs_arch_stack(const struct user_regs_struct *regs)
{
    return regs->rsp;
}

uint64_t gs_arch_tls(const struct user_regs_struct *regs)
{
    return regs->fs_base;
}

bool gs_arch_is_native(const struct user_regs_struct *regs)
{
    return regs->cs == USER_CODE;
}

uint64_t gs_arch_result(const struct user_regs_struct *regs)
{
    return regs->rax;
}

long gs_arch_call(const struct user_regs_struct *regs)
{
    return (long)regs->orig_rax;
}

uint64_t gs_arch_argument(const struct user_regs_struct *regs, unsigned index)
{
    const unsigned long long arguments[] = {regs->rdi, regs->rsi, regs->rdx,
                                            regs->r10, regs->r8,  regs->r9};
    return arguments[index];
}

/* ---- system calls ------------------------------------------------------------------ */

/* Those that wait. `ends`: an interruption without a signal ends them with EINTR. */
static const struct {
    short number;
    bool ends;
    enum gs_call_kind kind;
} calls[] = {
    {SYS_poll, false, GS_CALL_WAIT},
    {SYS_ppoll, false, GS_CALL_WAIT},
    {SYS_select, false, GS_CALL_WAIT},
    {SYS_pselect6, false, GS_CALL_WAIT},
    {SYS_epoll_wait, true, GS_CALL_WAIT},
    {SYS_epoll_pwait, true, GS_CALL_WAIT},
    {441 /* epoll_pwait2 */, true, GS_CALL_WAIT},
    {SYS_pause, false, GS_CALL_WAIT},
    {SYS_rt_sigsuspend, false, GS_CALL_WAIT},
    {SYS_rt_sigtimedwait, true, GS_CALL_WAIT},
    {SYS_wait4, false, GS_CALL_WAIT},
    {SYS_waitid, false, GS_CALL_WAIT},
    {SYS_accept, true, GS_CALL_WAIT},
    {SYS_accept4, true, GS_CALL_WAIT},
    {SYS_semop, true, GS_CALL_WAIT},
    {SYS_semtimedop, true, GS_CALL_WAIT},
    {SYS_msgrcv, false, GS_CALL_WAIT},
    {SYS_mq_timedreceive, false, GS_CALL_WAIT},
    {SYS_io_getevents, true, GS_CALL_WAIT},
    {SYS_flock, false, GS_CALL_WAIT},
    {__NR_nanosleep, false, GS_CALL_YIELD},
    {__NR_clock_nanosleep, false, GS_CALL_YIELD},
    {SYS_sched_yield, false, GS_CALL_YIELD},
    {SYS_restart_syscall, false, GS_CALL_YIELD}, /* poll, a sleep or a timed futex */
    {SYS_futex, false, GS_CALL_FUTEX},
    {SYS_read, true, GS_CALL_READ},
    {SYS_readv, true, GS_CALL_READ},
    {SYS_write, true, GS_CALL_WRITE},
    {SYS_recvfrom, true, GS_CALL_RECEIVE},
    {SYS_recvmsg, true, GS_CALL_MESSAGE},
    {SYS_recvmmsg, true, GS_CALL_OTHER},
    {SYS_sendto, true, GS_CALL_OTHER},
    {SYS_sendmsg, true, GS_CALL_OTHER},
    {SYS_sendmmsg, true, GS_CALL_OTHER},
    {SYS_writev, true, GS_CALL_OTHER},
    {327 /* preadv2 */, true, GS_CALL_OTHER},
    {328 /* pwritev2 */, true, GS_CALL_OTHER},
    {SYS_sendfile, true, GS_CALL_OTHER},
    {SYS_splice, true, GS_CALL_OTHER},
    {SYS_connect, true, GS_CALL_OTHER},
    {426 /* io_uring_enter */, true, GS_CALL_OTHER},
};

enum gs_call_kind gs_arch_call_kind(long number)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(calls); i++) {
        if (calls[i].number == number) {
            return calls[i].kind;
        }
    }
    return GS_CALL_OTHER;
}

long gs_arch_restarted(const struct gs_target *target, long number, uint64_t pc)
{
    unsigned char code[7]; /* mov $number, %eax; syscall */
    uint32_t before;
    if (number != SYS_restart_syscall ||
        !gs_target_get(target, pc - 7, code, sizeof(code)) || code[0] != 0xb8 ||
        code[5] != 0x0f || code[6] != 0x05) {
        return number;
    }
    memcpy(&before, code + 1, sizeof(before));
    return (long)before;
}

bool gs_arch_is_behind_call(const struct gs_target *target, uint64_t pc)
{
    unsigned char code[2];
    return gs_target_get(target, pc - 2, code, 2) && code[0] == 0x0f && code[1] == 0x05;
}

bool gs_arch_keep_waiting(struct user_regs_struct *regs)
{
    if ((long)regs->orig_rax < 0 || (long long)regs->rax != -EINTR) {
        return false;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(calls); i++) {
        if (calls[i].number == (long)regs->orig_rax && calls[i].ends) {
            /* The kernel repeats it, unless a signal with a handler waits: then it is
             * EINTR. */
            regs->rax = (unsigned long long)-ERESTARTNOHAND;
            return true;
        }
    }
    return false;
}

bool gs_arch_cut_read(const struct user_regs_struct *regs, struct gs_cut_read *out)
{
    switch ((long)regs->orig_rax) {
    case SYS_read:
    case SYS_pread64:
        *out = (struct gs_cut_read){(int)regs->rdi, regs->rsi, regs->rax, regs->rdx};
        break;
    case SYS_getrandom:
        *out = (struct gs_cut_read){-1, regs->rdi, regs->rax, regs->rsi};
        break;
    default:
        return false;
    }
    return out->done > 0 && out->done < out->wanted; /* an error is larger, or no read */
}

void gs_arch_set_result(struct user_regs_struct *regs, uint64_t result)
{
    regs->rax = result;
}

/* As the kernel does it, for a thread that goes on elsewhere first. */
static void repeat_call(struct user_regs_struct *regs)
{
    if ((long)regs->orig_rax < 0) {
        return;
    }
    switch ((long long)regs->rax) {
    case -ERESTARTSYS:
    case -ERESTARTNOINTR:
    case -ERESTARTNOHAND:
        regs->rax = regs->orig_rax;
        regs->rip -= 2;
        break;
    case -ERESTART_RESTARTBLOCK:
        regs->rax = SYS_restart_syscall;
        regs->rip -= 2;
        break;
    default:
        break;
    }
}

/* ---- signal frames ----------------------------------------------------------------- */

static const unsigned char restorers[][9] = {
    {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05}, /* mov $15, %rax; syscall */
    {0xb8, 15, 0, 0, 0, 0x0f, 0x05, 0, 0},       /* mov $15, %eax; syscall */
};

bool gs_arch_is_restorer(const unsigned char *code, size_t bytes)
{
    return bytes >= 9 &&
           (memcmp(code, restorers[0], 9) == 0 || memcmp(code, restorers[1], 7) == 0);
}

bool gs_arch_interrupted(const struct gs_target *target, uint64_t frame)
{
    ucontext_t context;
    if (!gs_target_get(target, frame + 8, &context, UC_BYTES)) {
        return false;
    }
    const greg_t *regs = context.uc_mcontext.gregs;
    const struct gs_map *map = gs_target_map(target, (uint64_t)regs[REG_RIP]);
    return ((uint64_t)regs[REG_CSGSFS] & 0xffff) == USER_CODE && map &&
           gs_target_map(target, (uint64_t)regs[REG_RSP]) &&
           (context.uc_flags & ~(unsigned long)(UC_FP_XSTATE | UC_SIGCONTEXT_SS |
                                                UC_STRICT_RESTORE_SS)) == 0;
}

bool gs_arch_find_code(struct gs_target *target, uint64_t start,
                       const unsigned char *code, size_t bytes)
{
    static const unsigned char call[] = {0x0f, 0x05, 0xc3}; /* syscall; ret */
    const unsigned char *found = memmem(code, bytes, call, sizeof(call));
    if (found && !target->call) {
        target->call = start + (uint64_t)(found - code);
    }
    found = memmem(code, bytes, restorers[0], sizeof(restorers[0]));
    if (found && !target->restore) {
        target->restore = start + (uint64_t)(found - code);
    }
    return target->call && target->restore;
}

/* ---- a thread's state -------------------------------------------------------------- */

struct gs_saved {
    struct user_regs_struct regs;
    uint64_t mask, frame; /* frame: its first word, in the thread's stack */
    unsigned vectors;     /* bytes */
    uint64_t components;
    _Alignas(64) unsigned char vector[MOST_VECTORS + 64];
};

const char *gs_arch_save(const struct gs_traced *thread, struct gs_saved **out)
{
    struct gs_saved *saved = aligned_alloc(64, gs_round_up(sizeof(*saved), 64));
    if (!saved) {
        return "out of memory";
    }
    memset(saved, 0, sizeof(*saved));
    saved->regs = thread->regs;
    saved->components = frame_components(&saved->vectors);
    struct iovec vector = {saved->vector, MOST_VECTORS};
    uint64_t used = 0;
    if (ptrace(PTRACE_GETREGSET, thread->tid, (void *)NT_X86_XSTATE, &vector) == 0 &&
        vector.iov_len >= saved->vectors &&
        ptrace(PTRACE_GETSIGMASK, thread->tid, (void *)sizeof(saved->mask),
               &saved->mask) == 0) {
        memcpy(&used, saved->vector + LEGACY_BYTES, sizeof(used));
        if (!(used & TILES)) {
            *out = saved;
            return NULL;
        }
    }
    free(saved);
    return "a thread's registers cannot be saved";
}

void gs_arch_forget(struct gs_saved *saved)
{
    free(saved);
}

size_t gs_arch_room(void)
{
    unsigned bytes;
    (void)frame_components(&bytes);
    return RED_ZONE + bytes + 64 + 64 + UC_BYTES + 16;
}

/* The context that brings the thread back, with its vectors at `vector`. */
static void make_context(const struct gs_saved *saved, const struct gs_target *target,
                         uint64_t vector, ucontext_t *out)
{
    struct user_regs_struct regs = saved->regs;
    repeat_call(&regs);
    if (regs.rip != saved->regs.rip && regs.rax == SYS_restart_syscall) {
        /* The return from a signal would make it EINTR: the call begins anew. */
        regs.rax = (unsigned long long)gs_arch_restarted(target, (long)regs.orig_rax,
                                                         saved->regs.rip);
    }
    memset(out, 0, sizeof(*out));
    out->uc_flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
    out->uc_stack.ss_flags = 0x7f; /* none such: the alternate stack remains */
    const unsigned long long words[] = {regs.r8,
                                        regs.r9,
                                        regs.r10,
                                        regs.r11,
                                        regs.r12,
                                        regs.r13,
                                        regs.r14,
                                        regs.r15,
                                        regs.rdi,
                                        regs.rsi,
                                        regs.rbp,
                                        regs.rbx,
                                        regs.rdx,
                                        regs.rax,
                                        regs.rcx,
                                        regs.rsp,
                                        regs.rip,
                                        regs.eflags,
                                        USER_CODE |
                                            ((unsigned long long)USER_STACK << 48)};
    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++) {
        out->uc_mcontext.gregs[i] = (greg_t)words[i];
    }
    memcpy(&out->uc_mcontext.fpregs, &vector, sizeof(vector));
    memcpy((char *)out + UC_MASK, &saved->mask, sizeof(saved->mask));
}

bool gs_arch_guard(struct gs_saved *saved, const struct gs_target *target)
{
    uint64_t vector = (saved->regs.rsp - RED_ZONE - saved->vectors - 4) & ~UINT64_C(63);
    ucontext_t context;
    unsigned words[5] = {MAGIC1, saved->vectors + 4, 0, 0, saved->vectors};
    unsigned magic2 = MAGIC2;
    saved->frame = ((vector - UC_BYTES - 8) & ~UINT64_C(15)) - 8;
    memcpy(words + 2, &saved->components, sizeof(saved->components));
    unsigned char frame[8 + UC_BYTES];
    make_context(saved, target, vector, &context);
    memcpy(frame, &target->restore, 8);
    memcpy(frame + 8, &context, UC_BYTES);
    unsigned char *copy = malloc(saved->vectors + sizeof(magic2));
    if (!copy) {
        return false;
    }
    memcpy(copy, saved->vector, saved->vectors);
    memcpy(copy + 464, words, sizeof(words));
    memcpy(copy + saved->vectors, &magic2, sizeof(magic2));
    bool written = gs_target_put(target, vector, copy, saved->vectors + sizeof(magic2)) &&
                   gs_target_put(target, saved->frame, frame, sizeof(frame));
    free(copy);
    return written;
}

void gs_arch_call_regs(const struct gs_saved *saved, const struct gs_target *target,
                       const uint64_t words[7], struct user_regs_struct *out)
{
    *out = saved->regs;
    out->orig_rax = (unsigned long long)-1;
    out->rip = target->call;
    out->rsp = saved->frame;
    out->rax = words[0];
    out->rdi = words[1];
    out->rsi = words[2];
    out->rdx = words[3];
    out->r10 = words[4];
    out->r8 = words[5];
    out->r9 = words[6];
}

const struct user_regs_struct *gs_arch_regs(const struct gs_saved *saved)
{
    return &saved->regs;
}

uint64_t gs_arch_mask(const struct gs_saved *saved)
{
    return saved->mask;
}

void gs_arch_fill(const struct gs_saved *saved, unsigned char *data)
{
    struct user_regs_struct regs = saved->regs;
    long long result = (long long)regs.rax;
    repeat_call(&regs);
    uint64_t left[2] = {regs.rax, regs.rip};
    if ((long)saved->regs.orig_rax >= 0 &&
        (result == -ERESTARTNOHAND || result == -ERESTART_RESTARTBLOCK)) {
        left[0] = (uint64_t)-EINTR;
        left[1] = saved->regs.rip;
    }
    const uint64_t words[] = {regs.r15, regs.r14,    regs.r13, regs.r12, regs.rbp,
                              regs.rbx, regs.r11,    regs.r10, regs.r9,  regs.r8,
                              regs.rax, regs.rcx,    regs.rdx, regs.rsi, regs.rdi,
                              regs.rip, regs.eflags, regs.rsp};
    memcpy(data + GS_STUB_MASK, &saved->mask, sizeof(saved->mask));
    memcpy(data + GS_STUB_LEFT_AX, &left[0], sizeof(left[0]));
    memcpy(data + GS_STUB_LEFT_PC, &left[1], sizeof(left[1]));
    memcpy(data + GS_STUB_REGS, words, sizeof(words));
}

void gs_arch_stub_regs(const struct gs_saved *saved, uint64_t base,
                       struct user_regs_struct *out)
{
    *out = saved->regs;
    out->orig_rax = (unsigned long long)-1;
    out->rip = base;
    out->rbx = base + GS_STUB_DATA;
    out->rsp = base + GS_STUB_BYTES - 64;
    out->rbp = 0;
    out->eflags &= ~UINT64_C(0x500); /* no direction, no single steps */
}

extern const unsigned char gs_stub_done[], gs_stub_met[];

bool gs_arch_is_at_end(const struct user_regs_struct *regs, uint64_t base)
{
    return regs->rip >= base + (uint64_t)(gs_stub_done - gs_stub_begin) &&
           regs->rip <= base + (uint64_t)(gs_stub_met - gs_stub_begin);
}

#else
extern int gs_no_arch; /* a file has something in it */
#endif
