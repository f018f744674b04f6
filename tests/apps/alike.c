/*
 * alike.c - what a process with a CUDA context has of the system, and keeps: with one
 * thread more it is as without.   alike WAY [FILE]
 *
 *   last       the main thread ends first; then a thread that has ended the context. Its
 *              descriptors serve the handler of atexit
 *   idle       likewise; it has left memory of a live context idle, and frees it late
 *   queue      a notification of a message queue, set up before the context, comes
 *   locks      a record lock is held, and a directory is watched (dnotify), after it
 *   table      descriptors are the same ones
 *   signals    every signal that all threads block stays for sigwait; none is pending
 *   user       a change of the user is that of all threads
 *   cancel     a thread can be cancelled
 *   spaces     before a context, a process of one thread enters a user namespace
 *   contexts   500 contexts come and go; the threads are as before the first
 *   killed     a filter of all threads ends the process for calls that it does not make;
 *              waits for FILE, if named
 *   trapped    a filter answers shmat by a signal, whose handler answers it as not
 *              permitted; waits for FILE
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "gpu.h"

static CUcontext context;
static const char *file;

static void say(const char *what)
{
    printf("alike: %s\n", what);
    fflush(stdout);
}

static void begin(void)
{
    CUdevice device;

    APP_OK(cuInit(0));
    APP_OK(cuDeviceGet(&device, 0));
#if CUDA_VERSION >= 13000
    APP_OK(cuCtxCreate(&context, NULL, 0, device));
#else
    APP_OK(cuCtxCreate(&context, 0, device));
#endif
}

static void use(void)
{
    gpu_ptr memory;

    APP_OK(gpu_malloc(&memory, 3 << 20));
    APP_OK(gpu_free(memory));
}

/* ---- the last thread -----------------------------------------------------------------
 */

static int kept = -1; /* a descriptor of the program's */

static void at_end(void)
{
    say(write(kept, "end\n", 4) == 4 ? "the handler has its descriptors"
                                     : "no descriptor");
}

static void *end_last(void *way)
{
    begin();
    use();
    if (strcmp(way, "idle") == 0)
        usleep(300000);
    APP_OK(cuCtxDestroy(context));
    return NULL;
}

static void last(char *way)
{
    pthread_t thread;

    kept = open("/dev/null", O_WRONLY);
    atexit(at_end);
    app_expect(pthread_create(&thread, NULL, end_last, way) == 0, "a thread");
    pthread_detach(thread);
    pthread_exit(NULL);
}

/* ---- what hangs on descriptors -------------------------------------------------------
 */

static volatile sig_atomic_t heard;

static void on_signal(int number)
{
    heard = number;
}

static void handle(int number)
{
    struct sigaction action = {.sa_handler = on_signal};
    app_expect(sigaction(number, &action, NULL) == 0, "a handler");
}

static void await_signal(int number)
{
    for (int i = 0; i < 250 && heard != number; i++)
        usleep(20000);
    say(heard == number ? "the notification comes" : "no notification");
}

static void queue(void)
{
    char name[64];
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};

    snprintf(name, sizeof(name), "/alike-%ld", (long)getpid());
    mqd_t messages = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    app_expect(messages != (mqd_t)-1, "a message queue");
    mq_unlink(name);
    handle(SIGUSR1);
    app_expect(mq_notify(messages, &event) == 0, "a notification");
    begin();
    use();
    app_expect(mq_send(messages, "hello", 6, 0) == 0, "a message");
    await_signal(SIGUSR1);
}

static void locks(void)
{
    char path[] = "alike.XXXXXX";
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int locked = mkstemp(path), folder = open(".", O_RDONLY | O_DIRECTORY), status = 0;

    handle(SIGIO);
    app_expect(fcntl(locked, F_SETLK, &lock) == 0, "a lock");
    app_expect(fcntl(folder, F_NOTIFY, DN_DELETE) == 0, "dnotify");
    begin();
    use();
    pid_t child = fork();
    if (child == 0)
        _exit(fcntl(locked, F_SETLK, &lock) == 0);
    waitpid(child, &status, 0);
    say(WEXITSTATUS(status) == 0 ? "the lock is held" : "the lock is lost");
    unlink(path);
    await_signal(SIGIO);
}

static void table(void)
{
    struct stat info;

    begin();
    use();
    for (int fd = 0; fd < 1024; fd++)
        if (fstat(fd, &info) == 0 && !S_ISCHR(info.st_mode))
            printf("alike: descriptor %d, mode %o\n", fd, (unsigned)info.st_mode);
    printf("alike: the next is %d\n", open("/dev/null", O_RDONLY));
}

/* ---- signals, users, namespaces ------------------------------------------------------
 */

static void signals(void)
{
    sigset_t all, left;
    int number;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    begin();
    use();
    for (int i = 1; i <= SIGRTMAX; i++) {
        if (i == SIGKILL || i == SIGSTOP || (i >= 32 && i < SIGRTMIN) ||
            i == SIGSYS) /* the library's threads leave it to handlers of filters */
            continue;
        app_expect(kill(getpid(), i) == 0, "a signal");
        usleep(1000);
        sigpending(&left);
        if (!sigismember(&left, i)) {
            printf("alike: signal %d is gone\n", i);
            continue;
        }
        sigemptyset(&left);
        sigaddset(&left, i);
        app_expect(sigwait(&left, &number) == 0 && number == i, "its signal");
    }
    say("signals are the program's");
}

/* Prints how many threads of the process have each user. */
static void user(void)
{
    begin();
    use();
    if (setresuid(12345, 12345, 12345) != 0) {
        say("not root");
        return;
    }
    DIR *tasks = opendir("/proc/self/task");
    app_expect(tasks != NULL, "threads");
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[300], line[256];
        FILE *status;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        status = fopen(path, "re");
        while (status && fgets(line, sizeof(line), status))
            if (strncmp(line, "Uid:", 4) == 0 &&
                strcmp(line, "Uid:\t12345\t12345\t12345\t12345\n") != 0)
                say("a thread has another user");
        if (status)
            fclose(status);
    }
    closedir(tasks);
    say("the user has changed");
}

static void *forever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void cancel(void)
{
    pthread_t thread;
    void *result = NULL;

    begin();
    use();
    app_expect(pthread_create(&thread, NULL, forever, NULL) == 0, "a thread");
    pthread_cancel(thread);
    pthread_join(thread, &result);
    say(result == PTHREAD_CANCELED ? "it is cancelled" : "it has ended");
}

static void spaces(void)
{
    int count;

    APP_OK(cuInit(0));
    APP_OK(cuDeviceGetCount(&count));
    say(unshare(CLONE_NEWUSER) == 0 ? "a namespace of its own" : strerror(errno));
}

static unsigned threads(void)
{
    struct stat info;
    return stat("/proc/self/task", &info) == 0 ? (unsigned)info.st_nlink - 2 : 0;
}

static void contexts(void)
{
    unsigned before = threads();

    for (int i = 0; i < 500; i++) {
        begin();
        use();
        APP_OK(cuCtxDestroy(context));
    }
    for (int i = 0; i < 250 && threads() != before; i++)
        usleep(20000);
    say(threads() == before ? "the threads are as before" : "there are more threads");
}

/* ---- filters -------------------------------------------------------------------------
 */

static void await(void)
{
    say("ready");
    for (int i = 0; file && i < 3000 && access(file, F_OK) != 0; i++)
        usleep(20000);
}

/* In all threads. */
static void install(struct sock_filter *code, size_t length)
{
    struct sock_fprog program = {.len = (unsigned short)length, .filter = code};
    app_expect(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    app_expect(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                       &program) == 0,
               "a filter");
}

#define NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define CALL(name, action)                                                               \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                               \
        BPF_STMT(BPF_RET | BPF_K, action)

static void killed(void)
{
    gpu_ptr memory;
    struct sock_filter code[] = {NUMBER,
                                 CALL(write, SECCOMP_RET_ALLOW),
#ifdef SYS_access
                                 CALL(access, SECCOMP_RET_ALLOW),
#endif
                                 CALL(faccessat, SECCOMP_RET_ALLOW),
                                 CALL(futex, SECCOMP_RET_ALLOW),
                                 CALL(nanosleep, SECCOMP_RET_ALLOW),
                                 CALL(clock_nanosleep, SECCOMP_RET_ALLOW),
                                 CALL(restart_syscall, SECCOMP_RET_ALLOW),
                                 CALL(exit_group, SECCOMP_RET_ALLOW),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};

    say("begins"); /* with the calls of the first output */
    begin();
    APP_OK(gpu_malloc(&memory, 1 << 20)); /* idle memory would need the pool's thread */
    install(code, APP_COUNT(code));
    await();
    usleep(1500000);
    say("it lives");
    syscall(SYS_exit_group, 0); /* a report would need more calls */
}

static void on_trap(int number, siginfo_t *info, void *state)
{
    ucontext_t *at = state;
    (void)number, (void)info;
#ifdef __x86_64__
    at->uc_mcontext.gregs[REG_RAX] = -EPERM;
#else
    at->uc_mcontext.regs[0] = (unsigned long long)-EPERM;
#endif
}

static void trapped(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    struct sock_filter code[] = {NUMBER, CALL(shmat, SECCOMP_RET_TRAP),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};

    begin();
    use();
    app_expect(sigaction(SIGSYS, &action, NULL) == 0, "a handler");
    install(code, APP_COUNT(code));
    await();
    say("it lives");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"queue", queue},     {"locks", locks},       {"table", table},
                {"signals", signals}, {"user", user},         {"cancel", cancel},
                {"spaces", spaces},   {"contexts", contexts}, {"killed", killed},
                {"trapped", trapped}};

    app_expect(argc > 1, "a way");
    file = argc > 2 ? argv[2] : NULL;
    if (strcmp(argv[1], "last") == 0 || strcmp(argv[1], "idle") == 0)
        last(argv[1]);
    for (size_t i = 0; i < APP_COUNT(ways); i++)
        if (strcmp(argv[1], ways[i].name) == 0)
            ways[i].run();
    return 0;
}
