/*
 * ends.c - ends of a process that no exit handler sees, and programs that look at their
 * place among the processes.
 *
 *   ends_shared WAY
 *     normal, raw, abort, crash, kill, int, quit, term, hup
 *                      plants, and ends so; raw: the system call exit_group, as Go
 *                      programs do
 *     raw9             with the status 9
 *     handlers         an exit handler crashes
 *     gone             the only thread ends by the system call exit
 *     leader           the main thread ends by the system call exit, another by exit
 *     image            becomes /bin/true by the system call execve
 *     again ENV|CLEAN  plants, becomes itself with the environment, or with what it needs
 *                      alone; frees all
 *     child            a forked child plants and ends by exit_group; the parent frees
 *     inside           forks in a signal handler within a call of its own
 *     daemon FILE      forks twice, changes to /, closes 0 to 2, plants, ends; then
 *                      writes FILE
 *     rawdaemon FILE   the same, ends by exit_group
 *     cleandaemon FILE, cleanrawdaemon FILE
 *                      the same without a variable of its environment
 *     place            plants nothing; prints its place, and the number that open returns
 *     wait FILE        plants, writes FILE, waits for a signal
 *     catch FILE       the same, ends with 17 at SIGTERM
 *     many             plants, holds 900,000 small blocks, ends by exit_group
 *
 * Lines that leak end in a comment LEAK: function bytes count, as in leaky.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"

static gpu_ptr planted;
static volatile int *volatile nowhere;

APP_FRAME static void keep(void)
{
    APP_OK(gpu_malloc(&planted, 3145728)); /* LEAK: keep 3145728 1 */
}

__attribute__((noreturn)) static void end_raw(int status)
{
    fflush(NULL);
    for (;;)
        syscall(SYS_exit_group, status);
}

static void crash(void)
{
    *nowhere = 1;
}

static void *exit_later(void *unused)
{
    usleep(100000);
    exit(0);
    return unused;
}

static void write_file(const char *name)
{
    FILE *file = fopen(name, "w");

    if (!file)
        _exit(8);
    fprintf(file, "%ld\n", (long)getpid());
    fclose(file);
}

static void on_term(int signal)
{
    (void)signal;
    exit(17);
}

static void become_again(const char *which)
{
    static char libraries[4096];
    char *words[] = {(char[]){"ends"}, (char[]){"second"}, NULL};
    char *clean[] = {libraries, (char[]){"PATH=/usr/bin:/bin"}, NULL};

    snprintf(libraries, sizeof(libraries), "LD_LIBRARY_PATH=%s",
             getenv("LD_LIBRARY_PATH"));
    if (strcmp(which, "clean") == 0)
        execve("/proc/self/exe", words, clean);
    else
        execv("/proc/self/exe", words);
}

static int be_daemon(const char *file, const char *way)
{
    if (fork() != 0)
        return 0;
    setsid();
    if (fork() != 0)
        _exit(0);
    if (chdir("/") != 0)
        return 7;
    if (strncmp(way, "clean", 5) == 0)
        clearenv();
    umask(0);
    close(0), close(1), close(2);
    if (open("/dev/null", O_RDWR) != 0 || dup(0) != 1 || dup(0) != 2)
        return 7;
    keep();
    write_file(file);
    if (strstr(way, "raw"))
        end_raw(0);
    return 0;
}

static void show_place(void)
{
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);

    if (terminal >= 0)
        printf("foreground %ld\n", (long)tcgetpgrp(terminal));
    close(terminal);
    printf("pid %ld ppid %ld pgid %ld sid %ld\n", (long)getpid(), (long)getppid(),
           (long)getpgrp(), (long)getsid(0));
    printf("next descriptor %d\n", open("/dev/null", O_RDONLY));
    for (int fd = 3; fd < 64; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf("open %d\n", fd);
    errno = 0;
    printf("children %ld %s\n", (long)waitpid(-1, NULL, WNOHANG), strerror(errno));
    for (int signal = 1; signal < 32; signal++) {
        struct sigaction action;
        if (sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            printf("signal %d %s\n", signal,
                   action.sa_handler == SIG_IGN ? "ignored" : "handled");
    }
    fflush(stdout);
}

static void in_handler(int signal)
{
    pid_t child;

    (void)signal;
    child = fork();
    if (child == 0)
        return; /* the call goes on in the child's own copy */
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

static void fork_inside(void)
{
    struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_RESTART};
    pid_t parent = getpid();
    gpu_ptr block;

    sigaction(SIGPROF, &action, NULL);
    for (unsigned i = 0; i < 60; i++) {
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
        struct itimerspec soon = {.it_value = {0, 20000 + 3000 * i}};
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
            exit(8);
        timer_settime(timer, 0, &soon, NULL);
        for (unsigned j = 0; j < 300; j++) {
            if (gpu_malloc(&block, 4096) == 0)
                (void)gpu_free(block);
            if (getpid() != parent)
                _exit(0);
        }
        timer_delete(timer);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int signal;
    } ways[] = {{"kill", SIGKILL},
                {"int", SIGINT},
                {"quit", SIGQUIT},
                {"term", SIGTERM},
                {"hup", SIGHUP}};
    const char *way = argc > 1 ? argv[1] : "normal", *file = argc > 2 ? argv[2] : "";
    pthread_t thread;

    if (strstr(way, "daemon"))
        return be_daemon(file, way);
    if (strcmp(way, "place") == 0 || strcmp(way, "second") == 0) {
        APP_OK(gpu_malloc(&planted, 4096));
        APP_OK(gpu_free(planted));
        if (way[0] == 'p')
            show_place();
        return 0;
    }
    if (strcmp(way, "child") == 0) {
        pid_t child = fork();
        if (child == 0) {
            keep();
            end_raw(0);
        }
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
        APP_OK(gpu_malloc(&planted, 4096));
        APP_OK(gpu_free(planted));
        return 0;
    }
    keep();
    if (strncmp(way, "raw", 3) == 0)
        end_raw(atoi(way + 3));
    if (strcmp(way, "crash") == 0)
        crash();
    if (strcmp(way, "abort") == 0)
        abort();
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
        if (strcmp(way, ways[i].name) == 0)
            raise(ways[i].signal);
    if (strcmp(way, "handlers") == 0)
        atexit(crash);
    if (strcmp(way, "leader") == 0) {
        pthread_create(&thread, NULL, exit_later, NULL);
        syscall(SYS_exit, 0);
    }
    if (strcmp(way, "gone") == 0) {
        gpu_ptr freed;

        APP_OK(gpu_malloc(&freed, 4096));
        APP_OK(gpu_free(freed));
        syscall(SYS_exit, 0);
    }
    if (strcmp(way, "image") == 0) {
        char *words[] = {(char[]){"true"}, NULL}, *none[] = {NULL};
        syscall(SYS_execve, "/bin/true", words, none);
    }
    if (strcmp(way, "again") == 0)
        become_again(file);
    if (strcmp(way, "inside") == 0)
        fork_inside();
    if (strcmp(way, "catch") == 0)
        signal(SIGTERM, on_term);
    if (strcmp(way, "wait") == 0 || strcmp(way, "catch") == 0) {
        write_file(file);
        for (;;)
            pause();
    }
    if (strcmp(way, "many") == 0) {
        for (unsigned i = 0; i < 900000; i++) {
            gpu_ptr block;
            APP_OK(gpu_malloc(&block, 256));
        }
        end_raw(0);
    }
    return 0;
}
