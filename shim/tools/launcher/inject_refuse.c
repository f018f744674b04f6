/*
 * inject_refuse.c - which processes are left alone, and why: found by reading /proc,
 * which touches nothing.
 *
 * Owns: nothing.   Lock: none.
 */
#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/tools/launcher/inject_parts.h"
#include "shim/tools/reader/living_thread.h"

const char *gs_inject_reason(const char *format, ...)
{
    static char text[1024];
    char next[sizeof(text)]; /* an argument may be the last reason */
    va_list arguments;
    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above */
    (void)vsnprintf(next, sizeof(next), format, arguments);
    va_end(arguments);
    memcpy(text, next, sizeof(text));
    return text;
}

/* Copies what follows "name:" and blanks in /proc/PID/status. Returns whether it is
 * there. */
static bool status_text(pid_t pid, const char *name, char *text, size_t room)
{
    char path[48], line[512];
    size_t length = strlen(name);
    bool found = false;
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    while (!found && fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            const char *value = line + length + 1;
            value += strspn(value, " \t");
            (void)snprintf(text, room, "%s", value);
            text[strcspn(text, "\n")] = '\0';
            found = true;
        }
    }
    (void)fclose(file);
    return found;
}

long gs_inject_status(pid_t pid, const char *name, int base)
{
    char text[64], *end;
    if (!status_text(pid, name, text, sizeof(text))) {
        return -1;
    }
    long value = strtol(text, &end, base);
    return end == text ? -1 : value;
}

bool gs_inject_threads(pid_t pid, bool (*visit)(pid_t tid, void *arg), void *arg)
{
    char path[48];
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    if (!folder) {
        return false;
    }
    const struct dirent *entry;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a folder of our own */
    while ((entry = readdir(folder))) {
        char *end;
        long tid = strtol(entry->d_name, &end, 10);
        if (*end == '\0' && tid > 0 && !visit((pid_t)tid, arg)) {
            break;
        }
    }
    (void)closedir(folder);
    return true;
}

char gs_inject_state(pid_t tid)
{
    char text[32];
    return status_text(tid, "State", text, sizeof(text)) ? text[0] : '\0';
}

static bool find_alive(pid_t tid, void *arg)
{
    char state = gs_inject_state(tid);
    if (state && !strchr("ZX", state)) {
        *(char *)arg = state;
        return false;
    }
    return true;
}

const char *gs_inject_no_trace(pid_t tid, int error)
{
    char text[16] = "";
    if (error == ESRCH) {
        return "it has ended";
    }
    if (error != EPERM && error != EACCES) {
        return gs_inject_reason("it cannot be traced: %s", strerror(error));
    }
    long uid = gs_inject_status(tid, "Uid", 10);
    if (uid >= 0 && (uid_t)uid != geteuid() && geteuid() != 0) {
        return "another user's: this needs root";
    }
    if (gs_inject_status(tid, "TracerPid", 10) > 0) {
        return "a debugger, or another tracer, has one of its threads";
    }
    int file = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        ssize_t got = read(file, text, sizeof(text) - 1);
        (void)close(file);
        if (got > 0 && text[0] == '3') {
            return "this machine forbids tracing (kernel.yama.ptrace_scope is 3)";
        }
        if (got > 0 && text[0] != '0' && geteuid() != 0) {
            return gs_inject_reason(
                "this machine lets only root trace a running process: "
                "kernel.yama.ptrace_scope is %c",
                text[0]);
        }
    }
    return "tracing it is not permitted: a set-user-ID or other protected program, or a "
           "sandbox "
           "that forbids ptrace (a container needs CAP_SYS_PTRACE)";
}

/* Why the program file is none for us. */
static const char *refuse_program(pid_t pid)
{
    char path[48];
    Elf64_Ehdr head, own;
    int file = -1, error = ENOENT;
    pid_t thread = 0, living = gs_living_thread(pid);
    while (file < 0 && error == ENOENT && living != thread) { /* it has just ended */
        thread = living;
        (void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)thread);
        file = open(path, O_RDONLY | O_CLOEXEC);
        error = errno;
        living = gs_living_thread(pid);
    }
    if (file < 0) {
        return error == ENOENT ? "a kernel thread, or it has ended"
                               : gs_inject_no_trace(pid, error);
    }
    ssize_t got = read(file, &head, sizeof(head));
    (void)close(file);
    if (got != (ssize_t)sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) {
        return "its program file cannot be read";
    }
    if (head.e_ident[EI_CLASS] != ELFCLASS64) {
        return "a 32-bit program";
    }
    file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    got = file < 0 ? -1 : read(file, &own, sizeof(own));
    if (file >= 0) {
        (void)close(file);
    }
    return got == (ssize_t)sizeof(own) && head.e_machine != own.e_machine
               ? "a program of another architecture"
               : NULL;
}

/* The last number in the line NSpid of its status: its own, in its innermost namespace.
 */
long gs_inject_innermost(pid_t pid)
{
    char text[256];
    if (!status_text(pid, "NSpid", text, sizeof(text))) {
        return -1;
    }
    const char *last = strrchr(text, '\t');
    return strtol(last ? last + 1 : text, NULL, 10);
}

static bool same_namespace(pid_t a, pid_t b)
{
    char path[48], of_a[64], of_b[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)a);
    ssize_t length_a = readlink(path, of_a, sizeof(of_a));
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)b);
    ssize_t length_b = readlink(path, of_b, sizeof(of_b));
    return length_a > 0 && length_a == length_b &&
           memcmp(of_a, of_b, (size_t)length_a) == 0;
}

/* The first process of the namespace that the process is in; 0: not found. */
static pid_t first_of_namespace(pid_t pid)
{
    DIR *folder = opendir("/proc");
    pid_t found = 0;
    const struct dirent *entry;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a folder of our own */
    while (!found && folder && (entry = readdir(folder))) {
        pid_t one = (pid_t)strtol(entry->d_name, NULL, 10);
        if (one > 0 && gs_inject_innermost(one) == 1 && same_namespace(one, pid)) {
            found = one;
        }
    }
    if (folder) {
        (void)closedir(folder);
    }
    return found;
}

static bool count_filters(pid_t tid, void *arg)
{
    long *most = arg, filters = gs_inject_status(tid, "Seccomp_filters", 10);
    if (gs_inject_status(tid, "Seccomp", 10) > 0) {
        *most = filters < 0 ? LONG_MAX : filters > *most ? filters : *most;
    }
    return true;
}

/* Whether a thread has a filter of its own. A container's filter allows what any program
 * does, and the container's first process has it, too; another filter may end the process
 * for a call that the process never makes. */
static bool has_own_filter(pid_t pid)
{
    long filters = 0, others = 1;
    (void)gs_inject_threads(pid, count_filters, &filters);
    if (filters > 0 && gs_inject_innermost(pid) != 1) {
        pid_t first = first_of_namespace(pid);
        others = first > 0 ? gs_inject_status(first, "Seccomp_filters", 10) : 0;
    }
    return filters > others;
}

/* What a process is not in a state for. */
static const char *refuse_state(pid_t pid)
{
    char state = '\0', text[128];
    if (!gs_inject_threads(pid, find_alive, &state) || !state) {
        return "it has ended, and its parent has not waited for it (a zombie)";
    }
    long tracer = gs_inject_status(pid, "TracerPid", 10);
    if (tracer > 0 && tracer != syscall(SYS_gettid)) {
        return gs_inject_reason("process %ld traces it (a debugger, strace, ...)",
                                tracer);
    }
    if (state == 'T' || gs_inject_state(pid) == 'T') {
        return gs_inject_reason("it is stopped: continue it first (kill -CONT %d)",
                                (int)pid);
    }
    if (has_own_filter(pid)) {
        return "a sandbox filters its system calls (seccomp): one that is not allowed "
               "might end it";
    }
    if (status_text(pid, "x86_Thread_features", text, sizeof(text)) &&
        strstr(text, "shstk")) {
        return "it has shadow stacks";
    }
    return NULL;
}

/* Whether numbers of /proc are those of other processes here. */
static bool is_foreign_proc(void)
{
    char text[32] = "";
    return readlink("/proc/self", text, sizeof(text) - 1) <= 0 ||
           strtol(text, NULL, 10) != getpid();
}

const char *gs_inject_refuse(pid_t pid)
{
    char path[48];
    if (is_foreign_proc()) {
        return "/proc is that of another PID namespace";
    }
    if (pid <= 0 || gs_inject_status(pid, "Pid", 10) < 0) {
        return "no such process";
    }
    long leader = gs_inject_status(pid, "Tgid", 10);
    if (leader != pid) {
        return gs_inject_reason("a thread of process %ld", leader);
    }
    if (pid == getpid()) {
        return "gpushim itself";
    }
    const char *why = refuse_state(pid);
    if (!why) {
        why = refuse_program(pid);
    }
    if (why) {
        return why;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)gs_living_thread(pid));
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        return gs_inject_no_trace(pid, errno == ENOENT ? ESRCH : errno);
    }
    (void)close(file);
    long parent = gs_inject_status(pid, "PPid", 10);
    if (parent > 0 && syscall(SYS_kcmp, pid, (pid_t)parent, KCMP_VM, 0, 0) == 0) {
        return gs_inject_reason(
            "it shares the memory of process %ld until it executes a program "
            "(vfork)",
            parent);
    }
    return NULL;
}
