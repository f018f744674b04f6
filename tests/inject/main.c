/*
 * main.c - loads the probe into programs in each state, and proves that the library's
 * function is called once each time, and that the programs end as they do without.
 *
 *     inject FOLDER [--times N] [--kills N] [NAME...]
 *
 * FOLDER has inject_target and the probe. --times: how often the library is loaded into
 * each program. --kills: how often the loading process is killed. Prints "ok NAME", "not
 * ok NAME - REASON" or "skip NAME - WHAT IS MISSING".
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_wait.h"
#include "shared.h"
#include "shim/tools/launcher/inject.h"

#define NS_PER_MS UINT64_C(1000000)
#define WAIT_MS   20000
#define END_MS    30000

static const char *folder;
static char library[4096];
static unsigned times = 1, kills = 3;
static int failures;
static char reason[2048]; /* of the case's failure; "" so far */

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list arguments;
    if (*reason) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
}

/* ---- programs ---------------------------------------------------------------------- */

struct program {
    pid_t pid;
    int in, out;
    char state[32];
    struct shared *shared;
};

/* Starts a program with these arguments, or, with NULL, calls `function` in a child. */
static void start(struct program *program, char *const *arguments, void (*function)(void))
{
    int in[2], out[2];
    int file = memfd_create("shared", 0);
    if (file < 0 || ftruncate(file, sizeof(struct shared)) != 0 ||
        pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        perror("inject");
        exit(2);
    }
    program->shared =
        mmap(NULL, sizeof(*program->shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)sem_init(&program->shared->semaphore, 1, 0);
    program->pid = fork();
    if (program->pid == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        if (file != SHARED_FILE) {
            (void)dup2(file, SHARED_FILE);
        }
        if (function) {
            function();
        } else {
            (void)execv(arguments[0], arguments);
        }
        _exit(127);
    }
    (void)close(file);
    (void)close(in[0]);
    (void)close(out[1]);
    program->in = in[1];
    program->out = out[0];
}

/* Reads what the program says, to "\n". */
static void read_line(const struct program *program, char *line, size_t room)
{
    size_t length = 0;
    struct pollfd file = {.fd = program->out, .events = POLLIN};
    while (length + 1 < room) {
        if (poll(&file, 1, END_MS) != 1) {
            (void)snprintf(line, room, "nothing in %d s", END_MS / 1000);
            return;
        }
        if (read(program->out, line + length, 1) != 1 || line[length] == '\n') {
            break;
        }
        length++;
    }
    line[length] = '\0';
}

static bool is_started(struct program *program, const char *state)
{
    char path[4352], line[128];
    char *arguments[] = {path, program->state, NULL};
    (void)snprintf(path, sizeof(path), "%s/inject_target", folder);
    (void)snprintf(program->state, sizeof(program->state), "%s", state);
    start(program, arguments, NULL);
    read_line(program, line, sizeof(line));
    if (strcmp(line, "ready") != 0) {
        fail("the program said '%s', not 'ready'", line);
    }
    return *reason == '\0';
}

static void forget(struct program *program)
{
    (void)close(program->in);
    (void)close(program->out);
    (void)munmap(program->shared, sizeof(*program->shared));
}

/* Ends the program, which must say "ok". */
static void end(struct program *program)
{
    char line[512];
    int status = 0;
    bool by_signal =
        strcmp(program->state, "pause") == 0 || strncmp(program->state, "sig", 3) == 0;
    atomic_store(&program->shared->stop, 1);
    (void)sem_post(&program->shared->semaphore);
    if (by_signal) {
        (void)kill(program->pid, SIGUSR1);
    }
    (void)!write(program->in, "x", 1);
    read_line(program, line, sizeof(line));
    if (strcmp(line, "ok") != 0) {
        fail("the program said '%s', not 'ok'", line);
        (void)kill(program->pid, SIGKILL);
    }
    (void)waitpid(program->pid, &status, 0);
    if (status != 0) {
        fail("the program ended with status 0x%x", (unsigned)status);
    }
    forget(program);
}

/* ---- loading ----------------------------------------------------------------------- */

static const char *load(pid_t pid, char *answer, size_t room)
{
    return gs_inject(pid, library, "probe_entry", "word", WAIT_MS, answer, room);
}

static void stop_and_go(const struct program *program)
{
    struct gs_stop *stop;
    const char *why = gs_stop_begin(program->pid, &stop);
    if (why) {
        fail("gs_stop_begin: %s", why);
        return;
    }
    unsigned long before = atomic_load(&program->shared->rounds);
    gs_nap(NS_PER_MS);
    if (atomic_load(&program->shared->rounds) != before) {
        fail("a thread ran between gs_stop_begin and gs_stop_end");
    }
    gs_stop_end(stop);
}

static size_t count_maps(pid_t pid)
{
    char path[64];
    size_t count = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "re");
    for (int c; file && (c = fgetc(file)) != EOF;) {
        count += c == '\n';
    }
    if (file) {
        (void)fclose(file);
    }
    return count;
}

static void load_in(const char *state)
{
    struct program program;
    char answer[128], want[128];
    size_t maps = 0;
    if (!is_started(&program, state)) {
        return;
    }
    for (unsigned i = 1; i <= times && !*reason; i++) {
        const char *why = load(program.pid, answer, sizeof(answer));
        (void)snprintf(want, sizeof(want), "word %u 1 0.333", i);
        if (why) {
            fail("%u of %u: %s", i, times, why);
        } else if (strcmp(answer, want) != 0) {
            fail("answered '%s', not '%s'", answer, want);
        } else if (atomic_load(&program.shared->calls) != i) {
            fail("called %u times, not %u", atomic_load(&program.shared->calls), i);
        }
        maps = i == 1 ? count_maps(program.pid) : maps;
        if (!*reason) {
            stop_and_go(&program);
        }
    }
    if (strcmp(state, "poll") == 0 && count_maps(program.pid) > maps + 3 + times / 100) {
        fail("%zu mappings after the first time, %zu at the end", maps,
             count_maps(program.pid));
    }
    end(&program);
}

/* A process that loads the library again and again is killed. */
static void kill_in(const char *state)
{
    struct program program;
    unsigned seed = 1;
    if (!is_started(&program, state)) {
        return;
    }
    for (unsigned i = 0; i < kills && !*reason; i++) {
        pid_t child = fork();
        if (child == 0) {
            char answer[64];
            for (;;) {
                (void)load(program.pid, answer, sizeof(answer));
            }
        }
        seed = seed * 1103515245u + 12345u;
        gs_nap((seed >> 8) % 6000 * 1000);
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        if (kill(program.pid, 0) != 0) {
            fail("the program has ended");
        }
    }
    char answer[64];
    const char *why = load(program.pid, answer, sizeof(answer));
    if (why) {
        fail("afterwards: %s", why);
    }
    end(&program);
}

/* Whether a stopped thread is in a system call that changes the other process. */
static bool is_step(pid_t tid)
{
    struct user_regs_struct regs;
    struct iovec vector = {&regs, sizeof(regs)};
    return ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &vector) == 0 &&
           (regs.orig_rax == SYS_ptrace || regs.orig_rax == SYS_pwrite64);
}

/* The loading process is killed at the begin or the end of its system call with this
 * number. */
static bool is_killed_at(pid_t pid, unsigned call)
{
    pid_t child = fork();
    if (child == 0) {
        char answer[64];
        (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        (void)raise(SIGSTOP);
        (void)load(pid, answer, sizeof(answer));
        _exit(0);
    }
    int status;
    unsigned seen = 0;
    (void)waitpid(child, &status, __WALL);
    (void)ptrace(
        PTRACE_SETOPTIONS, child, NULL,
        (void *)(long)(PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    (void)ptrace(PTRACE_SYSCALL, child, NULL, NULL);
    for (;;) {
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0 || (tid == child && !WIFSTOPPED(status))) {
            return false;
        }
        if (!WIFSTOPPED(status)) {
            continue;
        }
        bool is_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
        if (is_call && is_step(tid) && ++seen == call) {
            (void)kill(child, SIGKILL);
            do { /* its threads end before it */
                tid = waitpid(-1, &status, __WALL);
            } while (tid > 0 && (tid != child || WIFSTOPPED(status)));
            return true;
        }
        (void)ptrace(PTRACE_SYSCALL, tid, NULL, NULL);
    }
}

static void kill_at_calls(const char *state, unsigned step)
{
    struct program program;
    unsigned call = 1;
    if (!is_started(&program, state)) {
        return;
    }
    for (int out = program.out; !*reason && is_killed_at(program.pid, call);
         call += step) {
        struct pollfd file = {.fd = out, .events = POLLIN};
        if (kill(program.pid, 0) != 0 || poll(&file, 1, 0) != 0) {
            fail("killed at call %u, the program ends", call);
        }
    }
    if (call < 40) {
        fail("only %u steps", call);
    }
    end(&program);
}

/* ---- what is refused --------------------------------------------------------------- */

/* The library must not be loaded, for a reason with these words. */
static void refuse(pid_t pid, const char *words)
{
    char answer[64];
    struct gs_stop *stop;
    const char *why = load(pid, answer, sizeof(answer));
    if (!why || !strstr(why, words)) {
        fail("said '%s', not '%s'", why ? why : "(loaded)", words);
    }
    if (strstr(words, "link") || strstr(words, "glibc") || strstr(words, "library")) {
        return;
    }
    why = gs_stop_begin(pid, &stop);
    if (!why || !strstr(why, words)) {
        fail("gs_stop_begin said '%s', not '%s'", why ? why : "(stopped)", words);
    }
}

static char letter_of(pid_t pid)
{
    char path[64], text[512] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    (void)!read(file, text, sizeof(text) - 1);
    (void)close(file);
    const char *end = strrchr(text, ')');
    return end ? end[2] : '\0';
}

static void refuse_stopped(void)
{
    struct program program;
    if (!is_started(&program, "poll")) {
        return;
    }
    (void)kill(program.pid, SIGSTOP);
    while (letter_of(program.pid) != 'T') {
        gs_nap(NS_PER_MS);
    }
    refuse(program.pid, "it is stopped: continue it first (kill -CONT");
    if (letter_of(program.pid) != 'T') {
        fail("it is not stopped any more");
    }
    (void)kill(program.pid, SIGCONT);
    end(&program);
}

static void refuse_dead(void)
{
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    while (letter_of(child) != 'Z') {
        gs_nap(NS_PER_MS);
    }
    refuse(child, "zombie");
    (void)waitpid(child, NULL, 0);
    refuse(child, "no such process");
    refuse(0, "no such process");
    refuse(-1, "no such process");
    refuse(getpid(), "gpushim itself");
    refuse(2, "kernel thread");
}

static void refuse_thread(void)
{
    struct program program;
    char path[64], words[64];
    if (!is_started(&program, "malloc-threads")) {
        return;
    }
    (void)snprintf(path, sizeof(path), "ls /proc/%d/task | sort -n | tail -n 1",
                   (int)program.pid);
    FILE *list = popen(path, "re");
    long tid = list && fgets(words, sizeof(words), list) ? strtol(words, NULL, 10) : 0;
    if (list) {
        (void)pclose(list);
    }
    (void)snprintf(words, sizeof(words), "a thread of process %d", (int)program.pid);
    refuse((pid_t)tid, words);
    end(&program);
}

static void refuse_traced(void)
{
    struct program program;
    if (!is_started(&program, "poll")) {
        return;
    }
    pid_t tracer = fork();
    if (tracer == 0) {
        (void)ptrace(PTRACE_SEIZE, program.pid, NULL, NULL);
        (void)pause();
    }
    gs_nap(50 * NS_PER_MS);
    refuse(program.pid, "traces it");
    (void)kill(tracer, SIGKILL);
    (void)waitpid(tracer, NULL, 0);
    end(&program);
}

static void refuse_other_user(void)
{
    struct program program;
    if (geteuid() != 0) {
        fail("skip: root's rights");
        return;
    }
    if (!is_started(&program, "poll")) {
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        _exit(setuid(65534) != 0 ||
              (refuse(program.pid, "another user's: this needs root"), *reason));
    }
    int status;
    (void)waitpid(child, &status, 0);
    if (status != 0) {
        fail("another user's process was not refused, or with other words");
    }
    end(&program);
}

static void refuse_file(const char *name, const char *words)
{
    struct program program;
    char path[4352], line[64];
    char *arguments[] = {path, "poll", NULL};
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (access(path, X_OK) != 0) {
        fail("skip: %s", name);
        return;
    }
    start(&program, arguments, NULL);
    (void)snprintf(program.state, sizeof(program.state), "poll");
    read_line(&program, line, sizeof(line));
    refuse(program.pid, words);
    end(&program);
}

static void refuse_bad_library(void)
{
    struct program program;
    char answer[64] = "";
    if (!is_started(&program, "poll")) {
        return;
    }
    const char *why = gs_inject(program.pid, "/no/such.so", "probe_entry", "", WAIT_MS,
                                answer, sizeof(answer));
    if (!why || !strstr(why, "/no/such.so: cannot open shared object file")) {
        fail("of a library that is not there it said '%s'", why ? why : "(loaded)");
    }
    why =
        gs_inject(program.pid, library, "no_entry", "", WAIT_MS, answer, sizeof(answer));
    if (!why || !strstr(why, "undefined symbol: no_entry")) {
        fail("of a function that is not there it said '%s'", why ? why : "(loaded)");
    }
    why = gs_inject(program.pid, library, "probe_nothing", "", WAIT_MS, answer,
                    sizeof(answer));
    if (why || *answer) {
        fail("of no answer it said '%s', and answered '%s'", why ? why : "", answer);
    }
    why =
        gs_inject(program.pid, library, "probe_entry", "a long word", WAIT_MS, answer, 5);
    if (why || strcmp(answer, "a lo") != 0) {
        fail("answered '%s', not 'a lo'", answer);
    }
    end(&program);
}

/* Programs that end while the library is loaded. */
static void load_in_ending(void)
{
    unsigned seed = 7;
    for (unsigned i = 0; i < 10 + times / 5 && !*reason; i++) {
        struct program program;
        char answer[64], line[64];
        int status;
        if (!is_started(&program, "poll")) {
            return;
        }
        pid_t child = fork();
        if (child == 0) {
            seed = seed * 1103515245u + i * 12345u;
            gs_nap((seed >> 8) % 4000 * 1000);
            _exit(write(program.in, "x", 1) != 1);
        }
        const char *why = load(program.pid, answer, sizeof(answer));
        if (why && !strstr(why, "ended") && !strstr(why, "no such process")) {
            fail("of a program that ends it said '%s'", why);
        }
        read_line(&program, line, sizeof(line));
        (void)waitpid(child, NULL, 0);
        /* Here the loading process is the program's parent, too, and may have waited for
         * its end. */
        if (waitpid(program.pid, &status, 0) < 0 && errno == ECHILD) {
            status = 0;
        }
        if (strcmp(line, "ok") != 0 || status != 0) {
            fail("the program said '%s' and ended with status 0x%x", line,
                 (unsigned)status);
        }
        forget(&program);
    }
}

/* ---- the cases --------------------------------------------------------------------- */

static const char *const states[] = {"poll",
                                     "select",
                                     "epoll",
                                     "read",
                                     "write",
                                     "semaphore",
                                     "pause",
                                     "sigsuspend",
                                     "sigwait",
                                     "sleeps",
                                     "timed-poll",
                                     "timed-futex",
                                     "timed-receive",
                                     "timed-send",
                                     "alarms",
                                     "restarting-storm",
                                     "interrupting-storm",
                                     "code",
                                     "yield",
                                     "malloc",
                                     "malloc-threads",
                                     "new-threads",
                                     "dlopen",
                                     "reading-libraries",
                                     "namespaces",
                                     "fork",
                                     "second-thread",
                                     "altstack",
                                     "large-handler"};
static const char *const killed[] = {"poll", "sigsuspend",       "semaphore",
                                     "code", "restarting-storm", "malloc-threads"};

static char **wanted;

static bool is_wanted(const char *name)
{
    *reason = '\0';
    if (!wanted || !*wanted) {
        return true;
    }
    for (char **next = wanted; *next; next++) {
        if (strcmp(*next, name) == 0) {
            return true;
        }
    }
    return false;
}

static void judge(const char *name)
{
    if (strncmp(reason, "skip: ", 6) == 0) {
        printf("skip %s - %s\n", name, reason + 6);
    } else if (*reason) {
        printf("not ok %s - %s\n", name, reason);
        failures++;
    } else {
        printf("ok %s\n", name);
    }
    (void)fflush(stdout);
}

static void refusals(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"refuses-stopped", refuse_stopped},
                 {"refuses-dead", refuse_dead},
                 {"refuses-thread", refuse_thread},
                 {"refuses-traced", refuse_traced},
                 {"refuses-other-user", refuse_other_user},
                 {"bad-library", refuse_bad_library},
                 {"ending", load_in_ending}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (is_wanted(cases[i].name)) {
            cases[i].run();
            judge(cases[i].name);
        }
    }
    static const struct {
        const char *file, *words;
    } files[] = {{"inject_static", "linked statically"},
                 {"inject_musl", "not glibc"},
                 {"inject_32", "32-bit"}};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "refuses-%s",
                       files[i].file + strlen("inject_"));
        if (is_wanted(name)) {
            refuse_file(files[i].file, files[i].words);
            judge(name);
        }
    }
}

int main(int argc, char **argv)
{
    int next = 2;
    if (argc < 2) {
        (void)fprintf(stderr, "usage: inject FOLDER [--times N] [--kills N] [NAME...]\n");
        return 2;
    }
    folder = argv[1];
    (void)snprintf(library, sizeof(library), "%s/libinject_probe.so", folder);
    for (; next + 1 < argc && strncmp(argv[next], "--", 2) == 0; next += 2) {
        *(strcmp(argv[next], "--times") == 0 ? &times : &kills) =
            (unsigned)strtoul(argv[next + 1], NULL, 10);
    }
    wanted = argv + next;
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (is_wanted(states[i])) {
            load_in(states[i]);
            judge(states[i]);
        }
    }
    for (size_t i = 0; i < sizeof(killed) / sizeof(killed[0]); i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "killed-%s", killed[i]);
        if (is_wanted(name)) {
            kill_in(killed[i]);
            judge(name);
        }
        (void)snprintf(name, sizeof(name), "killed-at-calls-%s", killed[i]);
        if (is_wanted(name)) {
            kill_at_calls(killed[i], kills < 100 ? 7 : 1);
            judge(name);
        }
    }
    refusals();
    return failures > 0;
}
