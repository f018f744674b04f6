/*
 * inject_parts.h - what the files of inject.h share.
 *
 *     inject_refuse.c     which processes are left alone, and why
 *     inject_modules.c    memory, mappings, modules and symbols of the other process
 *     inject_thread.c     one traced thread: seize, interrupt, wait, registers
 *     inject_rest.c       the rest of a read that a stop has cut short
 *     inject_safe.c       whether a stopped thread may call a function
 *     inject_x86_64.c, .S registers, system calls and code of the architecture
 *
 * Locks: none; all is of the thread that traces.
 */
#ifndef GS_INJECT_PARTS_H
#define GS_INJECT_PARTS_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "gs_base.h"
#include "shim/tools/launcher/inject.h"

/* Text of a reason, in the memory that gs_inject's callers read. */
const char *gs_inject_reason(const char *format, ...) GS_PRINTF(1, 2);

/* ---- the other process (inject_modules.c) ---- */

enum gs_module_kind {
    GS_MODULE_OTHER,   /* no part of malloc, threads or the loader */
    GS_MODULE_LIBC,    /* the C library, its threads and its loader */
    GS_MODULE_MALLOC,  /* another library that defines malloc */
    GS_MODULE_PROGRAM, /* the program, where it defines malloc itself */
    GS_MODULE_DRIVER   /* libcuda */
};

struct gs_module {
    uint64_t base, end; /* end: of its last segment */
    uint64_t bias;      /* what is added to its addresses */
    uint64_t dynamic, symbols, strings, gnu_hash, hash, soname; /* addresses; 0: none */
    enum gs_module_kind kind;
    bool is_program;
    bool is_listed; /* the loader has loaded it for the program */
};

struct gs_map {
    uint64_t start, end;
    bool is_executable, is_stack, is_vdso;
};

/* Functions of the other process that are called there. */
struct gs_functions {
    uint64_t create, detach, self, open, symbol, unmap;
    uint64_t error;                 /* 0: there is none */
    uint64_t attribute, size_stack; /* likewise */
    uint64_t mode;                  /* what open is called with */
};

struct gs_target {
    pid_t pid;
    int memory; /* /proc/PID/mem */
    struct gs_map *maps;
    size_t maps_count, maps_room;
    struct gs_module *modules;
    size_t modules_count, modules_room;
    struct gs_functions functions;
    uint64_t call, restore; /* instructions of its C library: gs_arch_find_code */
    uint64_t read_ns;       /* when the maps were read */
    bool lacks_libraries;   /* it is refused for those that it has not mapped */
};

/* Reads the maps and the modules, anew if they were read before. Returns NULL or the
 * reason. */
const char *gs_target_read(struct gs_target *target);
void gs_target_end(struct gs_target *target);

bool gs_target_get(const struct gs_target *target, uint64_t from, void *to, size_t bytes);
bool gs_target_put(const struct gs_target *target, uint64_t to, const void *from,
                   size_t bytes);
/* The mapping or module with an address; NULL: none. */
const struct gs_map *gs_target_map(const struct gs_target *target, uint64_t address);
const struct gs_module *gs_target_module(const struct gs_target *target,
                                         uint64_t address);

/* ---- what is left alone (inject_refuse.c) ---- */

/* A thread's number in its own namespace; -1: it is gone. */
long gs_inject_innermost(pid_t tid);
/* Why PTRACE_SEIZE of a thread failed. */
const char *gs_inject_no_trace(pid_t tid, int error);
/* The value of a line "name:\tvalue" of /proc/PID/status, to `base`; -1: there is none.
 */
long gs_inject_status(pid_t pid, const char *name, int base);
/* The letter of the state of a thread; 0: it is gone. */
char gs_inject_state(pid_t tid);
/* Calls visit for each thread, until it returns false. Returns false if the process is
 * gone. */
bool gs_inject_threads(pid_t pid, bool (*visit)(pid_t tid, void *arg), void *arg);

/* ---- one thread (inject_thread.c) ---- */

struct gs_traced {
    pid_t tid;
    struct user_regs_struct regs;
};

/* How the wait for a thread ended. */
enum gs_event {
    GS_EVENT_TIME, /* it did not stop in time */
    GS_EVENT_STOP, /* interrupted, or in a group stop */
    GS_EVENT_CALL, /* at the begin or the end of a system call */
    GS_EVENT_END   /* it is gone */
};

/* Begins to trace, and interrupts. Returns 0 or errno. */
int gs_traced_begin(pid_t tid);
/* Waits for the next stop. Signals are delivered; the thread then goes on by `request`.
 */
enum gs_event gs_traced_wait(pid_t tid, int request, uint64_t until_ns);
bool gs_traced_get(struct gs_traced *thread);
bool gs_traced_set(pid_t tid, const struct user_regs_struct *regs);
/* Goes on by a request of ptrace. Returns whether the thread is there. */
bool gs_traced_go(pid_t tid, int request);

/* ---- reads (inject_rest.c) ---- */

/* Whether a stopped thread has got a part of the random numbers or zeros that it reads. */
bool gs_rest_is_due(const struct gs_traced *thread);
/* Reads the rest for it, which takes as long as natively; changes its registers. */
void gs_rest_read(struct gs_traced *thread);

/* ---- safe points (inject_safe.c) ---- */

/* Whether the thread waits in a system call that may be interrupted and that neither
 * malloc nor the loader makes, by /proc: nothing is touched. `is_running`: it runs, or is
 * about to. */
bool gs_safe_waits(const struct gs_target *target, pid_t tid, bool *is_running);
/* Whether the stopped thread holds no lock of malloc, of the loader or of threads.
 * `room`: bytes needed below its stack. */
bool gs_safe_here(const struct gs_target *target, const struct gs_traced *thread,
                  size_t room);

/* ---- the architecture (inject_x86_64.c) ---- */

enum gs_call_kind {
    GS_CALL_OTHER,   /* malloc or the loader may be in it, or it may not be interrupted */
    GS_CALL_WAIT,    /* waits for something outside the process */
    GS_CALL_YIELD,   /* the same, also used by locks of other allocators */
    GS_CALL_FUTEX,   /* waits for a word of memory: the first argument */
    GS_CALL_READ,    /* the first argument is the file */
    GS_CALL_WRITE,   /* the third argument is the number of bytes */
    GS_CALL_RECEIVE, /* the fourth argument has flags of recv */
    GS_CALL_MESSAGE  /* the third argument has them */
};

/* NULL, or why this architecture or machine cannot do it. */
const char *gs_arch_refuse(void);
uint64_t gs_arch_pc(const struct user_regs_struct *regs);
uint64_t gs_arch_stack(const struct user_regs_struct *regs);
uint64_t gs_arch_tls(const struct user_regs_struct *regs);
bool gs_arch_is_native(const struct user_regs_struct *regs);
uint64_t gs_arch_result(const struct user_regs_struct *regs);
/* The system call a thread is in or just left; -1: none. */
long gs_arch_call(const struct user_regs_struct *regs);
uint64_t gs_arch_argument(const struct user_regs_struct *regs, unsigned index);
enum gs_call_kind gs_arch_call_kind(long number);
/* A call that was repeated once has another number: the call that the code makes, where
 * that shows. */
long gs_arch_restarted(const struct gs_target *target, long number, uint64_t pc);
/* The thread's system call waits on after this stop, where the kernel would end it.
 * Returns whether the registers changed. */
bool gs_arch_keep_waiting(struct user_regs_struct *regs);
/* A read, or getrandom, that ended before all was there. */
struct gs_cut_read {
    int file; /* -1: getrandom */
    uint64_t to, done, wanted;
};
/* Whether the thread is at the end of one. */
bool gs_arch_cut_read(const struct user_regs_struct *regs, struct gs_cut_read *out);
void gs_arch_set_result(struct user_regs_struct *regs, uint64_t result);
/* Whether the instruction before an address is a system call. */
bool gs_arch_is_behind_call(const struct gs_target *target, uint64_t pc);
/* Whether the code is where handlers of signals return to. */
bool gs_arch_is_restorer(const unsigned char *code, size_t bytes);
/* Whether a signal's frame has its first word at `frame`. */
bool gs_arch_interrupted(const struct gs_target *target, uint64_t frame);
/* Where the C library has a system call that returns, and the return from signals. */
bool gs_arch_find_code(struct gs_target *target, uint64_t start,
                       const unsigned char *code, size_t bytes);

/* A thread's whole state, and how it is brought back. */
struct gs_saved;
/* Saves it. Returns NULL, or why its state cannot be saved. */
const char *gs_arch_save(const struct gs_traced *thread, struct gs_saved **out);
void gs_arch_forget(struct gs_saved *saved);
/* Bytes below the stack that gs_arch_guard writes. */
size_t gs_arch_room(void);
/* Writes a frame below the stack with which a thread brings itself back after a call. */
bool gs_arch_guard(struct gs_saved *saved, const struct gs_target *target);
/* Registers for one system call there; after it the thread brings itself back. */
void gs_arch_call_regs(const struct gs_saved *saved, const struct gs_target *target,
                       const uint64_t words[7], struct user_regs_struct *out);
/* The saved registers, for PTRACE_SETREGSET in an interruption. */
const struct user_regs_struct *gs_arch_regs(const struct gs_saved *saved);
/* The saved mask of blocked signals. */
uint64_t gs_arch_mask(const struct gs_saved *saved);
/* Fills the words of inject_stub.h that bring the thread back. */
void gs_arch_fill(const struct gs_saved *saved, unsigned char *data);
/* Registers at the begin of the code of inject_stub.h, copied to `base`. */
void gs_arch_stub_regs(const struct gs_saved *saved, uint64_t base,
                       struct user_regs_struct *out);
/* Whether the thread is where that code waits for its tracer. */
bool gs_arch_is_at_end(const struct user_regs_struct *regs, uint64_t base);
/* The code. */
extern const unsigned char gs_stub_begin[], gs_stub_end[];

#endif
