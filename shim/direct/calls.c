/*
 * calls.c - the library's own definitions of C library functions that are one system
 * call.
 *
 * Other preloaded libraries wrap these functions: libfaketime, uid_wrapper, fakeroot,
 * torsocks and similar ones. The report is written when their destructors have run, and a
 * fork handler may run while they hold their lock: a call through a wrapper would crash
 * or wait for ever. The linker binds the library's calls to these definitions, and
 * exports.map hides them from everybody else. tests/e2e/cases/neighbours.sh compares the
 * library's undefined symbols with a list.
 *
 * None is a cancellation point. Sanitizers and machines without a definition of gs_call
 * keep the C library's functions.
 *
 * Owns:  nothing.   Lock: none. Async-signal-safe.
 * Source: Linux system calls, man pages of section 2; fork(2), "C library/kernel
 *         differences"
 */
#include "shim/link/elf_module.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)

static long gs_call(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#elif defined(__aarch64__)

static long gs_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;

    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}

#else
#define GS_NO_CALL
#endif

#ifndef GS_NO_CALL

/* The kernel answers an errno as a small negative number. */
static long answer(long result)
{
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

#define ARG(value) ((long)(uintptr_t)(value))
#define CALL(number, a, b, c, d, e, f)                                                   \
    answer(gs_call((number), ARG(a), ARG(b), ARG(c), ARG(d), ARG(e), ARG(f)))

long syscall(long number, ...)
{
    long a[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    return CALL(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- files ---------------------------------------------------------------------------
 */

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    unsigned mode = va_arg(list, unsigned);
    va_end(list);
    return (int)CALL(SYS_openat, AT_FDCWD, path, flags, mode, 0, 0);
}

int close(int fd)
{
    return (int)CALL(SYS_close, fd, 0, 0, 0, 0, 0);
}

ssize_t read(int fd, void *to, size_t bytes)
{
    return CALL(SYS_read, fd, to, bytes, 0, 0, 0);
}

ssize_t write(int fd, const void *from, size_t bytes)
{
    return CALL(SYS_write, fd, from, bytes, 0, 0, 0);
}

ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
    return CALL(SYS_pread64, fd, to, bytes, at, 0, 0);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    return CALL(SYS_pwrite64, fd, from, bytes, at, 0, 0);
}

int fstatat(int folder, const char *path, struct stat *out, int flags)
{
    return (int)CALL(SYS_newfstatat, folder, path, out, flags, 0, 0);
}

int stat(const char *path, struct stat *out)
{
    return fstatat(AT_FDCWD, path, out, 0);
}

int lstat(const char *path, struct stat *out)
{
    return fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

int fstat(int fd, struct stat *out)
{
    return (int)CALL(SYS_fstat, fd, out, 0, 0, 0, 0);
}

int fstatfs(int fd, struct statfs *out)
{
    return (int)CALL(SYS_fstatfs, fd, out, 0, 0, 0, 0);
}

int fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    return (int)CALL(SYS_fcntl, fd, command, argument, 0, 0, 0);
}

int flock(int fd, int operation)
{
    return (int)CALL(SYS_flock, fd, operation, 0, 0, 0, 0);
}

int ftruncate(int fd, off_t bytes)
{
    return (int)CALL(SYS_ftruncate, fd, bytes, 0, 0, 0, 0);
}

int access(const char *path, int mode)
{
    return (int)CALL(SYS_faccessat, AT_FDCWD, path, mode, 0, 0, 0);
}

ssize_t readlinkat(int folder, const char *path, char *out, size_t bytes)
{
    return CALL(SYS_readlinkat, folder, path, out, bytes, 0, 0);
}

ssize_t readlink(const char *path, char *out, size_t bytes)
{
    return readlinkat(AT_FDCWD, path, out, bytes);
}

/* Fails with ENOENT, as the C library's, outside the process's root. */
char *getcwd(char *out, size_t bytes)
{
    if (CALL(SYS_getcwd, out, bytes, 0, 0, 0, 0) < 0) {
        return NULL;
    }
    if (out[0] != '/') {
        errno = ENOENT;
        return NULL;
    }
    return out;
}

int link(const char *from, const char *to)
{
    return (int)CALL(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0, 0);
}

int rename(const char *from, const char *to)
{
    return (int)CALL(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to, 0, 0);
}

int unlink(const char *path)
{
    return (int)CALL(SYS_unlinkat, AT_FDCWD, path, 0, 0, 0, 0);
}

int isatty(int fd)
{
    uint32_t terminal[32]; /* the kernel's struct termios has 36 bytes */
    return CALL(SYS_ioctl, fd, TCGETS, terminal, 0, 0, 0) == 0;
}

int pipe2(int fds[2], int flags)
{
    return (int)CALL(SYS_pipe2, fds, flags, 0, 0, 0, 0);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
    return (int)CALL(SYS_socketpair, domain, type, protocol, fds, 0, 0);
}

ssize_t send(int fd, const void *from, size_t bytes, int flags)
{
    return CALL(SYS_sendto, fd, from, bytes, flags, 0, 0);
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    struct timespec time = {timeout_ms / 1000, timeout_ms % 1000 * 1000000l};
    return (int)CALL(SYS_ppoll, fds, count, timeout_ms < 0 ? NULL : &time, 0, 0, 0);
}

/* ---- memory --------------------------------------------------------------------------
 */

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return (void *)CALL(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

int munmap(void *at, size_t bytes)
{
    return (int)CALL(SYS_munmap, at, bytes, 0, 0, 0, 0);
}

int mprotect(void *at, size_t bytes, int protection)
{
    return (int)CALL(SYS_mprotect, at, bytes, protection, 0, 0, 0);
}

int madvise(void *at, size_t bytes, int advice)
{
    return (int)CALL(SYS_madvise, at, bytes, advice, 0, 0, 0);
}

/* The library reads its own process alone. By the process's number the kernel finds the
 * first thread, which has no memory once it has ended; by this thread's it finds this. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long count,
                         const struct iovec *remote, unsigned long remote_count,
                         unsigned long flags)
{
    (void)pid;
    return CALL(SYS_process_vm_readv, CALL(SYS_gettid, 0, 0, 0, 0, 0, 0), local, count,
                remote, remote_count, flags);
}

/* ---- the process ---------------------------------------------------------------------
 */

pid_t getpid(void)
{
    return (pid_t)CALL(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

int kill(pid_t pid, int signal)
{
    return (int)CALL(SYS_kill, pid, signal, 0, 0, 0, 0);
}

pid_t waitpid(pid_t pid, int *status, int flags)
{
    return (pid_t)CALL(SYS_wait4, pid, status, flags, 0, 0, 0);
}

int prctl(int option, ...)
{
    long a[4];
    va_list list;

    va_start(list, option);
    for (int i = 0; i < 4; i++) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    return (int)CALL(SYS_prctl, option, a[0], a[1], a[2], a[3], 0);
}

int getrusage(__rusage_who_t who, struct rusage *out)
{
    return (int)CALL(SYS_getrusage, who, out, 0, 0, 0, 0);
}

/* The C library's leaves out signals 32 and 33: with it, a thread that restores its own
 * mask would unblock the one that wakes the thread of control.c, and end the process. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    enum { KERNEL_BYTES = 8 };
    return (int)-gs_call(SYS_rt_sigprocmask, how, ARG(set), ARG(before), KERNEL_BYTES, 0,
                         0);
}

int sigaltstack(const stack_t *stack, stack_t *before)
{
    return (int)CALL(SYS_sigaltstack, stack, before, 0, 0, 0, 0);
}

int sched_yield(void)
{
    return (int)CALL(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

/* ---- time ----------------------------------------------------------------------------
 */

typedef int clock_fn(clockid_t clock, struct timespec *out);

#ifdef __aarch64__
#define CLOCK_NAME "__kernel_clock_gettime"
#else
#define CLOCK_NAME "__vdso_clock_gettime"
#endif

static int call_clock(clockid_t clock, struct timespec *out)
{
    return (int)CALL(SYS_clock_gettime, clock, out, 0, 0, 0, 0);
}

static void *own_symbol(const char *module, const char *name)
{
    struct gs_module_ref found;
    return gs_elf_startup_module(module, &found) == GS_OK ? gs_elf_symbol(&found, name)
                                                          : NULL;
}

static int first_clock(clockid_t clock, struct timespec *out);
static clock_fn *known_clock = first_clock; /* atomic, written with one value only */

/* The kernel's own code in the process, which needs no system call; the C library's own
 * function, past every wrapper; the system call. */
static int first_clock(clockid_t clock, struct timespec *out)
{
    clock_fn *found = (clock_fn *)own_symbol("linux-vdso.so.1", CLOCK_NAME);
    if (!found) {
        found = (clock_fn *)own_symbol("libc.so.6", "clock_gettime");
    }
    found = found ? found : call_clock;
    __atomic_store_n(&known_clock, found, __ATOMIC_RELAXED);
    return found(clock, out);
}

/* For clocks that exist: the kernel's code answers no errno. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    return __atomic_load_n(&known_clock, __ATOMIC_RELAXED)(clock, out);
}

time_t time(time_t *out)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (out) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}

/* As the C library's for names that fit; a longer name is cut, and ends with a NUL. */
int gethostname(char *out, size_t bytes)
{
    struct utsname names;
    if (CALL(SYS_uname, &names, 0, 0, 0, 0, 0) != 0 || bytes == 0) {
        return -1;
    }
    size_t length = strnlen(names.nodename, bytes - 1);
    memcpy(out, names.nodename, length);
    out[length] = '\0';
    return 0;
}

#endif
