/*
 * inject_safe.c - whether a thread may call pthread_create where it was stopped.
 *
 * pthread_create takes locks of malloc, of the loader and of the thread library. A thread
 * that holds one of them must not. It holds none
 *   - in code of the program or of a library that has no part of these: they call it, not
 * it them; or
 *   - in the C library, in a system call that these parts do not make, or in a wait for a
 * word of memory that is none of their locks; unless a signal's handler interrupted them:
 * no handler may be on the stack. Nor may a library with a malloc of its own be among the
 * callers, where that may wait in the same way.
 *
 * Owns: nothing.   Lock: none.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/rseq.h>
#include <sys/ptrace.h>
#include <sys/stat.h>

#include "shim/tools/launcher/inject_parts.h"

#define STACK_BYTES  ((uint64_t)8 << 20)  /* searched for a signal's frame */
#define PART_BYTES   ((size_t)128 * 1024) /* read at once */
#define CALLERS      1024                 /* bytes searched for callers */
#define THREAD_BYTES 1024 /* of glibc's struct pthread; has the thread's number */
#define ARENA        (UINT64_C(64) << 20) /* glibc's heaps begin at multiples */
#define ARENA_HEAD   4096
#define OWN_FRAMES   1024  /* a thread's wait for others, within the C library */
#define ATOMIC_WRITE 4096  /* a pipe takes them as a whole */
#define MSG_ALL      0x100 /* MSG_WAITALL */

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

/* ---- system calls ------------------------------------------------------------------ */

/* Whether a file is none that malloc or the loader would read: a pipe, a socket, a
 * terminal, or a file of the kernel's without a name. Asks no server. */
static bool is_stream(pid_t tid, uint64_t file)
{
    static const char nameless[] = "anon_inode:";
    char path[64], name[sizeof(nameless)] = "";
    struct statx now;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)tid, (int)file);
    if (readlink(path, name, sizeof(name) - 1) > 0 && strcmp(name, nameless) == 0) {
        return true;
    }
    return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE, &now) == 0 &&
           (S_ISFIFO(now.stx_mode) || S_ISSOCK(now.stx_mode) || S_ISCHR(now.stx_mode));
}

/* Whether a word may be a lock of malloc, of the loader or of threads. */
static bool may_be_lock(const struct gs_target *target, uint64_t word, uint64_t stack)
{
    const struct gs_module *module = gs_target_module(target, word);
    return (module && module->kind != GS_MODULE_OTHER &&
            module->kind != GS_MODULE_PROGRAM) ||
           word % ARENA < ARENA_HEAD || (word >= stack && word - stack < OWN_FRAMES);
}

struct call {
    long number;
    uint64_t arguments[6], stack;
};

/* Whether a call that the C library makes is one of none of these parts. */
static bool is_foreign_call(const struct gs_target *target, pid_t tid,
                            const struct call *call)
{
    switch (gs_arch_call_kind(call->number)) {
    case GS_CALL_WAIT:
    case GS_CALL_YIELD:
        return true;
    case GS_CALL_FUTEX:
        return !may_be_lock(target, call->arguments[0], call->stack);
    case GS_CALL_WRITE:
        return call->arguments[2] <= ATOMIC_WRITE && is_stream(tid, call->arguments[0]);
    case GS_CALL_READ:
        return is_stream(tid, call->arguments[0]);
    case GS_CALL_RECEIVE:
        return !(call->arguments[3] & MSG_ALL);
    case GS_CALL_MESSAGE:
        return !(call->arguments[2] & MSG_ALL);
    case GS_CALL_OTHER:
        break;
    }
    return false;
}

bool gs_safe_waits(const struct gs_target *target, pid_t tid, bool *is_running)
{
    char path[64], text[256];
    struct call call;
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)target->pid,
                   (int)tid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
    if (file >= 0) {
        (void)close(file);
    }
    *is_running = false;
    if (got <= 0) {
        *is_running = file < 0; /* a kernel without the file */
        return false;
    }
    text[got] = '\0';
    char *end;
    call.number = strtol(text, &end, 10);
    if (end == text) {
        *is_running = true; /* "running" */
        return false;
    }
    if (call.number < 0) {
        return false;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(call.arguments); i++) {
        call.arguments[i] = strtoull(end, &end, 16);
    }
    call.stack = strtoull(end, &end, 16);
    call.number = gs_arch_restarted(target, call.number, strtoull(end, &end, 16));
    return is_foreign_call(target, tid, &call);
}

/* ---- the stack --------------------------------------------------------------------- */

/* Whether the thread was made by the C library: its number is where that keeps it. */
static bool is_of_libc(const struct gs_target *target, pid_t tid, uint64_t tls)
{
    uint32_t words[THREAD_BYTES / 4];
    uint64_t self;
    long number = gs_inject_innermost(tid);
    if (!tls || !gs_target_get(target, tls, words, sizeof(words))) {
        return false;
    }
    memcpy(&self, words, sizeof(self));
    for (size_t i = 0; self == tls && i < GS_ARRAY_LEN(words); i++) {
        if (words[i] == (uint32_t)number) {
            return true;
        }
    }
    return false;
}

/* Whether the thread is on the stack that the C library or the kernel made for it, with
 * room. Out: *end  of the stack */
static bool is_own_stack(const struct gs_target *target, pid_t tid,
                         const struct user_regs_struct *regs, size_t room, uint64_t *end)
{
    uint64_t stack = gs_arch_stack(regs), tls = gs_arch_tls(regs);
    const struct gs_map *map = gs_target_map(target, stack);
    if (!map || stack - map->start < room + 4096) {
        return false;
    }
    *end = tid == target->pid ? map->end : tls;
    return tid == target->pid ? map->is_stack : tls > stack && tls < map->end;
}

/* Which callers a thread may not have. */
enum callers { ANY, NO_MALLOC_LIBRARY, NO_MALLOC };

static bool may_call(const struct gs_target *target, uint64_t code, enum callers callers)
{
    const struct gs_module *module = gs_target_module(target, code);
    enum gs_module_kind kind = module ? module->kind : GS_MODULE_OTHER;
    return callers == ANY || (kind != GS_MODULE_MALLOC &&
                              (kind != GS_MODULE_PROGRAM || callers != NO_MALLOC));
}

/* Whether words of the stack, from `at`, show neither a signal's handler nor, below
 * `far`, such a caller. */
static bool is_clean_part(const struct gs_target *target, uint64_t at,
                          const uint64_t *words, size_t count, enum callers callers,
                          uint64_t far)
{
    for (size_t i = 0; i < count; i++, at += sizeof(*words)) {
        const struct gs_map *code = gs_target_map(target, words[i]);
        unsigned char here[16];
        if (!code || !code->is_executable) {
            continue;
        }
        bool is_handler = gs_target_get(target, words[i], here, sizeof(here)) &&
                          gs_arch_is_restorer(here, sizeof(here)) &&
                          gs_arch_interrupted(target, at);
        if (is_handler || (at < far && !may_call(target, words[i], callers))) {
            return false;
        }
    }
    return true;
}

/* Whether the stack shows neither. A handler's own frame may be large. */
static bool is_clean_stack(const struct gs_target *target, uint64_t stack, uint64_t end,
                           enum callers callers)
{
    uint64_t *words = malloc(PART_BYTES), at = stack & ~UINT64_C(7), bytes;
    const uint64_t far = at + CALLERS;
    bool is_clean = words != NULL;
    end = end - at < STACK_BYTES ? end : at + STACK_BYTES;
    for (; is_clean && at < end; at += bytes) {
        bytes = end - at < PART_BYTES ? end - at : PART_BYTES;
        is_clean = gs_target_get(target, at, words, bytes) &&
                   is_clean_part(target, at, words, bytes / sizeof(*words), callers, far);
    }
    free(words);
    return is_clean;
}

/* ---- a stopped thread -------------------------------------------------------------- */

/* Whether the thread is in a sequence that the kernel restarts when it is interrupted. */
static bool is_restartable(const struct gs_target *target, pid_t tid, uint64_t pc)
{
    struct {
        uint64_t address;
        uint32_t bytes, signature, flags, padding;
    } area = {0};
    struct rseq_cs sequence;
    uint64_t address = 0;
    if (ptrace((enum __ptrace_request)PTRACE_GET_RSEQ_CONFIGURATION, tid,
               (void *)sizeof(area), &area) < 0 ||
        !area.address ||
        !gs_target_get(target, area.address + offsetof(struct rseq, rseq_cs), &address,
                       sizeof(address)) ||
        !address || !gs_target_get(target, address, &sequence, sizeof(sequence))) {
        return false;
    }
    return pc - sequence.start_ip < sequence.post_commit_offset;
}

bool gs_safe_here(const struct gs_target *target, const struct gs_traced *thread,
                  size_t room)
{
    const struct user_regs_struct *regs = &thread->regs;
    struct call call = {.number = gs_arch_call(regs), .stack = gs_arch_stack(regs)};
    uint64_t pc = gs_arch_pc(regs), end;
    const struct gs_map *map = gs_target_map(target, pc);
    const struct gs_module *module = gs_target_module(target, pc);
    enum gs_module_kind kind = module ? module->kind : GS_MODULE_OTHER;
    if (!gs_arch_is_native(regs) || !map || !map->is_executable || map->is_vdso ||
        !is_own_stack(target, thread->tid, regs, room, &end) ||
        !is_of_libc(target, thread->tid, gs_arch_tls(regs)) ||
        is_restartable(target, thread->tid, pc)) {
        return false;
    }
    enum callers callers = NO_MALLOC_LIBRARY;
    if (kind != GS_MODULE_OTHER) {
        for (unsigned i = 0; i < GS_ARRAY_LEN(call.arguments); i++) {
            call.arguments[i] = gs_arch_argument(regs, i);
        }
        call.number = gs_arch_restarted(target, call.number, pc);
        if (kind != GS_MODULE_LIBC || call.number < 0 ||
            !gs_arch_is_behind_call(target, pc) ||
            !is_foreign_call(target, thread->tid, &call)) {
            return false;
        }
        enum gs_call_kind way = gs_arch_call_kind(call.number);
        callers = way == GS_CALL_YIELD || way == GS_CALL_FUTEX ? NO_MALLOC : ANY;
    }
    return is_clean_stack(target, call.stack, end, callers);
}
