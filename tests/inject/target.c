/*
 * target.c - programs in each state in which a library is loaded into them. Each checks
 * what its own system calls and computations return, and says "ok" at its end, or what
 * was wrong.
 *
 *     target STATE     prints "ready" when it is in the state; ends when shared.stop is
 * set, and a byte comes on its standard input or SIGUSR1 comes
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <link.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h> /* from glibc 2.32 on */
#else
#define __libc_single_threaded 0
#endif

#include "shared.h"

static struct shared *shared;
static atomic_int handled;

__attribute__((noreturn, format(printf, 1, 2))) static void bad(const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)!write(1, text, (size_t)length);
    (void)!write(1, "\n", 1);
    _exit(1);
}

static void ready(void)
{
    if (write(1, "ready\n", 6) != 6) {
        bad("no output");
    }
}

static bool is_over(void)
{
    atomic_fetch_add(&shared->rounds, 1);
    return atomic_load(&shared->stop);
}

static void handle(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
}

static void set_handler(int number, int flags)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
    (void)sigaction(number, &action, NULL);
}

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void expect(const char *what, long got, long want)
{
    if (got != want) {
        bad("%s returned %ld (errno %d), not %ld", what, got, errno, want);
    }
}

static void expect_time(const char *what, double begin, double seconds)
{
    double took = now() - begin;
    if (took < seconds - 0.0005) {
        bad("%s took %.4f s, not %.4f", what, took, seconds);
    }
}

static void take_byte(void)
{
    char byte;
    expect("read", read(0, &byte, 1), 1);
}

/* ---- one system call that waits until the end -------------------------------------- */

static void in_poll(void)
{
    struct pollfd file = {.fd = 0, .events = POLLIN};
    expect("poll", poll(&file, 1, -1), 1);
    take_byte();
}

static void in_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(0, &set);
    expect("select", select(1, &set, NULL, NULL, NULL), 1);
    take_byte();
}

static void in_epoll(void)
{
    int file = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    (void)epoll_ctl(file, EPOLL_CTL_ADD, 0, &event);
    expect("epoll_wait", epoll_wait(file, &event, 1, -1), 1);
    take_byte();
}

static void in_semaphore(void)
{
    expect("sem_wait", sem_wait(&shared->semaphore), 0);
}

static void in_pause(void)
{
    set_handler(SIGUSR1, 0);
    expect("pause", pause(), -1);
    expect("errno of pause", errno, EINTR);
    expect("handlers", atomic_load(&handled), 1);
}

static void in_sigsuspend(void)
{
    sigset_t blocked, none;
    (void)sigemptyset(&none);
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGUSR1);
    (void)sigprocmask(SIG_BLOCK, &blocked, NULL);
    set_handler(SIGUSR1, 0);
    expect("sigsuspend", sigsuspend(&none), -1);
    expect("errno of sigsuspend", errno, EINTR);
    expect("handlers", atomic_load(&handled), 1);
    (void)sigprocmask(SIG_BLOCK, NULL, &none);
    expect("SIGUSR1 is blocked", sigismember(&none, SIGUSR1), 1);
}

static void in_sigwait(void)
{
    sigset_t set;
    siginfo_t info;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    expect("sigwaitinfo", sigwaitinfo(&set, &info), SIGUSR1);
}

static void in_write(void)
{
    static char block[4096];
    int ends[2];
    if (pipe(ends) != 0) {
        bad("no pipe");
    }
    pid_t child = fork();
    if (child == 0) { /* reads when all is over, and counts */
        long total = 0;
        ssize_t got;
        (void)close(ends[1]);
        while (!atomic_load(&shared->stop)) {
            (void)usleep(1000);
        }
        while ((got = read(ends[0], block, sizeof(block))) > 0) {
            total += got;
        }
        _exit(total == 40 * 4096 ? 0 : 1);
    }
    (void)close(ends[0]);
    for (int i = 0; i < 40; i++) {
        expect("write", write(ends[1], block, sizeof(block)), sizeof(block));
    }
    (void)close(ends[1]);
    int status;
    expect("waitpid", waitpid(child, &status, 0), child);
    expect("the reader's status", status, 0);
}

/* ---- system calls with an end of their own, again and again ------------------------ */

static void in_sleeps(void)
{
    while (!is_over()) {
        struct timespec time = {.tv_nsec = 7000000};
        double begin = now();
        expect("nanosleep", nanosleep(&time, NULL), 0);
        expect_time("nanosleep", begin, 0.007);
    }
}

static void in_timed_poll(void)
{
    while (!is_over()) {
        double begin = now();
        expect("poll", poll(NULL, 0, 7), 0);
        expect_time("poll", begin, 0.007);
        struct timeval time = {.tv_usec = 7000};
        begin = now();
        expect("select", select(0, NULL, NULL, NULL, &time), 0);
        expect_time("select", begin, 0.007);
    }
}

static void in_timed_futex(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t *condition = malloc(sizeof(*condition));
    (void)pthread_cond_init(condition, NULL);
    while (!is_over()) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 7000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        double begin = now();
        int error;
        (void)pthread_mutex_lock(&mutex);
        do { /* may return early, without a time-out */
            error = pthread_cond_timedwait(condition, &mutex, &until);
        } while (error == 0);
        (void)pthread_mutex_unlock(&mutex);
        expect("pthread_cond_timedwait", error, ETIMEDOUT);
        expect_time("pthread_cond_timedwait", begin, 0.006);
    }
}

static void in_timed_receive(void)
{
    int ends[2];
    char byte;
    struct timeval time = {.tv_usec = 8000};
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0 ||
        setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) != 0) {
        bad("no sockets");
    }
    while (!is_over()) {
        errno = 0;
        expect("recv", recv(ends[0], &byte, 1, 0), -1);
        expect("errno of recv", errno, EAGAIN);
        struct epoll_event event;
        int file = epoll_create1(0);
        expect("epoll_wait", epoll_wait(file, &event, 1, 7), 0);
        (void)close(file);
    }
}

/* A call that ends for want of time. */
static void expect_late(const char *what, long got)
{
    int error = errno;
    expect(what, got, -1);
    expect(what, error, EAGAIN);
}

/* By a socket that takes and has no more, each a call of its own to the kernel. */
static void *send_in_vain(void *unused)
{
    static char block[4096];
    int ends[2], held[2];
    struct timeval time = {.tv_usec = 8000};
    struct iovec vector = {block, sizeof(block)};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &vector, .msg_iovlen = 1}};
    int file = open("/proc/self/exe", O_RDONLY);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || pipe(held) != 0 ||
        write(held[1], block, 8) != 8 ||
        setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)) != 0 ||
        setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) != 0) {
        bad("no sockets");
    }
    while (send(ends[0], block, sizeof(block), MSG_DONTWAIT) > 0) {
    }
    while (!is_over()) {
        expect_late("send", send(ends[0], block, sizeof(block), 0));
        expect_late("sendmmsg", sendmmsg(ends[0], &message, 1, 0));
        expect_late("pwritev2",
                    syscall(SYS_pwritev2, ends[0], &vector, 1L, -1L, -1L, 0L));
        expect_late("sendfile", sendfile(ends[0], file, NULL, 8));
        expect_late("preadv2", syscall(SYS_preadv2, ends[0], &vector, 1L, -1L, -1L, 0L));
        expect_late("splice", splice(held[0], NULL, ends[0], NULL, 8, 0));
    }
    return unused;
}

/* The library is loaded by the first thread: malloc and the loader may be in a send. */
static void in_timed_send(void)
{
    pthread_t sender;
    expect("pthread_create", pthread_create(&sender, NULL, send_in_vain, NULL), 0);
    in_sleeps();
    (void)pthread_join(sender, NULL);
}

static void in_alarms(void)
{
    sigset_t blocked, none;
    (void)sigemptyset(&none);
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGALRM);
    (void)sigprocmask(SIG_BLOCK, &blocked, NULL);
    set_handler(SIGALRM, 0);
    for (int turns = 1; !is_over(); turns++) {
        struct itimerval timer = {.it_value = {.tv_usec = 500}};
        (void)setitimer(ITIMER_REAL, &timer, NULL);
        expect("sigsuspend", sigsuspend(&none), -1); /* hangs if the signal is lost */
        expect("errno of sigsuspend", errno, EINTR);
        expect("handlers", atomic_load(&handled), turns);
    }
}

static void in_storm(int flags)
{
    struct itimerval timer = {.it_value = {.tv_usec = 300},
                              .it_interval = {.tv_usec = 300}};
    char byte;
    ssize_t got;
    set_handler(SIGALRM, flags);
    (void)setitimer(ITIMER_REAL, &timer, NULL);
    do {
        got = read(0, &byte, 1);
    } while (!flags && got < 0 && errno == EINTR);
    expect("read", got, 1);
    if (atomic_load(&handled) == 0) {
        bad("no signal came");
    }
}

static void in_restarting_storm(void)
{
    in_storm(SA_RESTART);
}

static void in_interrupting_storm(void)
{
    in_storm(0);
}

/* ---- code -------------------------------------------------------------------------- */

/* A computation with every kind of register; the same each time. */
__attribute__((noinline)) static double compute(unsigned turns)
{
    uint64_t hash = 1;
    double lanes[16], sum = 0;
    long double extended = 1;
    float tiny = 1e-38f;
    for (int i = 0; i < 16; i++) {
        lanes[i] = i;
    }
    for (unsigned i = 0; i < turns; i++) {
        hash = hash * 6364136223846793005u + 1442695040888963407u;
        for (int lane = 0; lane < 16; lane++) {
            lanes[lane] = lanes[lane] * 0.999999 + (double)(hash >> 40) * 1e-9;
        }
        extended = extended * 1.0000001L + 1e-12L;
        tiny = tiny * 0.99f + (float)(hash & 1) * 1e-39f;
    }
    for (int i = 0; i < 16; i++) {
        sum += lanes[i];
    }
    return sum + (double)extended + (double)tiny * 1e38 + (double)(hash % 1000);
}

static void in_code(void)
{
    (void)fesetround(FE_UPWARD); /* a state that must stay */
    double first = compute(20000);
    ready();
    while (!is_over()) {
        double again = compute(20000);
        if (memcmp(&again, &first, sizeof(first)) != 0 || fegetround() != FE_UPWARD) {
            bad("computed %.17g, not %.17g; rounding %d", again, first, fegetround());
        }
    }
}

static void in_yield(void)
{
    while (!is_over()) {
        expect("sched_yield", sched_yield(), 0);
    }
}

static void *allocate(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    unsigned char *blocks[16] = {NULL};
    size_t sizes[16] = {0};
    while (!is_over()) {
        for (int i = 0; i < 100; i++) {
            seed = seed * 1103515245u + 12345u;
            unsigned which = seed >> 16 & 15;
            if (blocks[which] &&
                (blocks[which][0] != which || blocks[which][sizes[which] - 1] != which)) {
                bad("a block has changed");
            }
            free(blocks[which]);
            sizes[which] = (seed >> 8) % 5000 + 1;
            blocks[which] = malloc(sizes[which]);
            memset(blocks[which], (int)which, sizes[which]);
        }
    }
    for (int i = 0; i < 16; i++) {
        free(blocks[i]);
    }
    return NULL;
}

static void in_threads(int count, void *(*function)(void *))
{
    pthread_t threads[32];
    for (int i = 0; i < count; i++) {
        expect("pthread_create",
               pthread_create(&threads[i], NULL, function, (void *)(uintptr_t)(i + 1)),
               0);
    }
    ready();
    for (int i = 0; i < count; i++) {
        expect("pthread_join", pthread_join(threads[i], NULL), 0);
    }
}

static void in_malloc(void)
{
    ready();
    (void)allocate((void *)7);
}

static void in_malloc_threads(void)
{
    in_threads(32, allocate);
}

static void *come_and_go(void *arg)
{
    (void)arg;
    atomic_fetch_add(&shared->rounds, 1);
    free(malloc(100));
    return NULL;
}

static void *make_threads(void *arg)
{
    while (!atomic_load(&shared->stop)) {
        pthread_t thread;
        expect("pthread_create", pthread_create(&thread, NULL, come_and_go, arg), 0);
        expect("pthread_join", pthread_join(thread, NULL), 0);
    }
    return NULL;
}

static void in_new_threads(void)
{
    in_threads(4, make_threads);
}

#ifndef WITHOUT_DLOPEN
static void in_dlopen(void)
{
    ready();
    while (!is_over()) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        void *other = dlopen("libutil.so.1", RTLD_NOW);
        if (!library || !dlsym(library, "cos")) {
            bad("dlopen: %s", dlerror());
        }
        (void)compute(200);
        if (other) {
            expect("dlclose", dlclose(other), 0);
        }
        expect("dlclose", dlclose(library), 0);
    }
}

/* Maps the files of the C library and of the loader, as a program does that reads their
 * symbols. Alone sees functions that are called where the file is only read. */
static void in_reading_libraries(void)
{
    static const char *const names[] = {"libc.so.6", "ld-linux-x86-64.so.2"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct link_map *map = NULL;
        void *library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
        struct stat info;
        if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) {
            bad("%s: %s", names[i], dlerror());
        }
        int file = open(map->l_name, O_RDONLY);
        if (file < 0 || fstat(file, &info) != 0 ||
            mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0) ==
                MAP_FAILED) {
            bad("%s cannot be mapped", map->l_name);
        }
    }
    ready();
    in_poll();
}

/* Has a C library in a namespace of its own, too. Alone sees that one make the thread: the
 * program's own then takes no locks, as in a process that never had a second thread. */
static void in_namespaces(void)
{
    if (!dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW)) {
        bad("dlmopen: %s", dlerror());
    }
    ready();
    in_poll();
    expect("calls of the library", atomic_load(&shared->calls) > 0, 1);
    expect("__libc_single_threaded", __libc_single_threaded, 0);
}
#endif

static void *wait_for_end(void *unused)
{
    ready();
    in_poll();
    (void)!write(1, "ok\n", 3);
    exit(0);
    return unused;
}

/* Alone sees /proc/PID asked, which has no memory once the first thread has ended. */
static void in_second_thread(void)
{
    pthread_t thread;
    expect("pthread_create", pthread_create(&thread, NULL, wait_for_end, NULL), 0);
    pthread_exit(NULL);
}

static void in_fork(void)
{
    for (int turns = 0; !is_over(); turns++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            free(malloc(1000));
            _exit(turns & 127);
        }
        expect("waitpid", waitpid(child, &status, 0), child);
        expect("the child's status", WEXITSTATUS(status), turns & 127);
    }
}

static void on_altstack(int number)
{
    (void)number;
    struct timespec time = {.tv_nsec = 300000000};
    ready();
    expect("nanosleep", nanosleep(&time, NULL), 0);
}

static void in_altstack(void)
{
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_handler = on_altstack, .sa_flags = SA_ONSTACK};
    (void)sigaltstack(&alternate, NULL);
    (void)sigaction(SIGUSR2, &action, NULL);
    (void)raise(SIGUSR2);
    in_poll();
    stack_t current;
    (void)sigaltstack(NULL, &current);
    expect("the alternate stack's size", (long)current.ss_size, sizeof(stack));
}

/* So that there is room below the stack. */
__attribute__((noinline)) static void touch_stack(void)
{
    volatile char below[65536];
    below[0] = below[sizeof(below) - 1] = 1;
}

/* Alone sees a thread chosen in a handler that has a large frame of its own: what it has
 * interrupted may hold locks. */
static void with_large_frame(int number)
{
    volatile char frame[300 * 1024];
    struct timespec time = {.tv_nsec = 300000000};
    frame[0] = frame[sizeof(frame) - 1] = (char)number;
    touch_stack();
    ready();
    expect("nanosleep", nanosleep(&time, NULL), 0);
    expect("calls in the handler", atomic_load(&shared->calls), 0);
}

static void in_large_handler(void)
{
    struct sigaction action = {.sa_handler = with_large_frame};
    (void)sigaction(SIGUSR2, &action, NULL);
    (void)raise(SIGUSR2);
    in_poll();
}

static const struct {
    const char *name;
    void (*run)(void);
    int says_ready; /* itself */
} states[] = {{"poll", in_poll, 0},
              {"select", in_select, 0},
              {"epoll", in_epoll, 0},
              {"read", take_byte, 0},
              {"write", in_write, 0},
              {"semaphore", in_semaphore, 0},
              {"pause", in_pause, 0},
              {"sigsuspend", in_sigsuspend, 0},
              {"sigwait", in_sigwait, 0},
              {"sleeps", in_sleeps, 0},
              {"timed-poll", in_timed_poll, 0},
              {"timed-futex", in_timed_futex, 0},
              {"timed-receive", in_timed_receive, 0},
              {"timed-send", in_timed_send, 0},
              {"alarms", in_alarms, 0},
              {"restarting-storm", in_restarting_storm, 0},
              {"interrupting-storm", in_interrupting_storm, 0},
              {"code", in_code, 1},
              {"yield", in_yield, 0},
              {"malloc", in_malloc, 1},
              {"malloc-threads", in_malloc_threads, 1},
              {"new-threads", in_new_threads, 1},
#ifndef WITHOUT_DLOPEN
              {"dlopen", in_dlopen, 1},
              {"reading-libraries", in_reading_libraries, 1},
              {"namespaces", in_namespaces, 1},
#endif
              {"fork", in_fork, 0},
              {"second-thread", in_second_thread, 1},
              {"altstack", in_altstack, 1},
              {"large-handler", in_large_handler, 1}};

int main(int argc, char **argv)
{
    shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FILE, 0);
    if (shared == MAP_FAILED) {
        bad("no shared memory");
    }
    for (size_t i = 0; argc == 2 && i < sizeof(states) / sizeof(states[0]); i++) {
        if (strcmp(argv[1], states[i].name) == 0) {
            if (!states[i].says_ready) {
                ready();
            }
            states[i].run();
            (void)!write(1, "ok\n", 3);
            return 0;
        }
    }
    bad("no such state");
}
