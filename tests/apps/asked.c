/*
 * asked.c - a program that is asked while it runs.   asked FILE [WAY]
 *
 * Takes 1 MiB and waits until FILE is there, at most a minute.
 *
 *   fork     first a child forks that does the same; then one that makes no CUDA call.
 *            Writes the numbers of both
 *   exec     becomes itself, without a way, once it has taken its memory
 *   close    closes each descriptor from 3 on, fills the table, and listens under a name
 *            of its own; whoever connects there is served by it, not by the library
 *   parent   handles SIGCHLD, and says when a child has ended
 *   blocker  blocks SIGCHLD in all its threads, and says whether one came
 *   hidden   the system protects it from its own user
 *   idle     takes and frees 40 MiB more
 *   leak     keeps its memory
 *   sets     sets options by gpushim.h
 *   samples  keeps 16 MiB in allocations of 4 KiB with sampled call stacks, then as many
 *            with all, then as many sampled again, and ends
 *   without  makes no CUDA call
 *   many     one of a thousand: waits for ten minutes, and looks seldom
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"
#include "gpushim.h"

static gpu_ptr held;
static const char *file;
static useconds_t nap_us = 20000;

APP_FRAME static void hold(void)
{
    app_gpu_start();
    APP_OK(gpu_malloc(&held, 1 << 20));
}

static void say(const char *what)
{
    printf("asked: %s\n", what);
    fflush(stdout);
}

static void set_options(void)
{
    static const char *const options[][2] = {
        {"OUTPUT", "json"},  {"OUTPUT_FILE", "own"},
        {"OUTPUT", "jason"}, {"WRITE_SUPPRESSIONS", "own.txt"},
        {"LEAK_SCAN", "on"}, {"FORCE", "on"}};

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        printf("asked: %s=%s: %s\n", options[i][0], options[i][1],
               gpushim_result_text(
                   gpushim_set_option(options[i][0], options[i][1], NULL, 0)));
}

static void set_stack(const char *value)
{
    printf("asked: STACK=%s: %s\n", value,
           gpushim_result_text(gpushim_set_option("STACK", value, NULL, 0)));
}

static void keep(void)
{
    gpu_ptr kept;

    for (int i = 0; i < 4096; i++)
        APP_OK(gpu_malloc(&kept, 4096));
}

/* Their ends differ, so that no linker makes one of them. */
APP_FRAME static void keep_sampled(void)
{
    keep();
    say("kept with sampled stacks");
}

APP_FRAME static void keep_all(void)
{
    keep();
    say("kept with all stacks");
}

static void change_samples(void)
{
    set_stack("sample:64K");
    keep_sampled();
    set_stack("sample:0");
    keep_all();
    set_stack("sample:256K");
    keep_sampled();
}

static void await(void)
{
    for (int i = 0; i < 3000 && access(file, F_OK) != 0; i++)
        usleep(nap_us);
}

static pid_t fork_one(int with_cuda)
{
    pid_t child = fork();

    if (child == 0) {
        if (with_cuda)
            hold();
        await();
        _exit(0);
    }
    printf("asked: %s child %ld\n", with_cuda ? "CUDA" : "plain", (long)child);
    fflush(stdout);
    return child;
}

/* No descriptor of the library is among them: the program's own number 3 listens. */
static void close_all(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct rlimit limit = {64, 64};
    int listening, client, other;

    hold();
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    listening = socket(AF_UNIX, SOCK_STREAM, 0);
    printf("asked: the first free descriptor is %d\n", listening);
    snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "asked-%ld", (long)getpid());
    app_expect(bind(listening, (struct sockaddr *)&name, sizeof(name)) == 0, "bind");
    app_expect(listen(listening, 1) == 0, "listen");
    other = socket(AF_UNIX, SOCK_STREAM, 0);
    app_expect(connect(other, (struct sockaddr *)&name, sizeof(name)) == 0, "connect");
    usleep(100000);
    client = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
    app_expect(client >= 0, "the program's own client");
    app_expect(setrlimit(RLIMIT_NOFILE, &limit) == 0, "limit");
    for (other = 0; open("/dev/null", O_RDONLY) >= 0; other++)
        ;
    printf("asked: %d more of 64 descriptors\n", other);
    say("ready");
    await();
    _exit(0); /* the device's files are closed */
}

static void on_child(int number)
{
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    say("a child has ended"); /* the program waits in usleep */
}

int main(int argc, char **argv)
{
    const char *way = argc > 2 ? argv[2] : "";
    gpu_ptr more;
    sigset_t children;

    file = argc > 1 ? argv[1] : "over";
    if (strcmp(way, "many") == 0)
        nap_us = 200000;
    if (strcmp(way, "fork") == 0)
        (void)fork_one(1);
    if (strcmp(way, "close") == 0)
        close_all();
    if (strcmp(way, "hidden") == 0)
        prctl(PR_SET_DUMPABLE, 0);
    if (strcmp(way, "parent") == 0)
        signal(SIGCHLD, on_child);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    if (strcmp(way, "blocker") == 0)
        sigprocmask(SIG_BLOCK, &children, NULL);
    if (strcmp(way, "without") != 0)
        hold();
    if (strcmp(way, "fork") == 0)
        (void)fork_one(0);
    if (strcmp(way, "exec") == 0)
        execl(argv[0], argv[0], file, (char *)NULL);
    if (strcmp(way, "sets") == 0)
        set_options();
    if (strcmp(way, "samples") == 0) {
        change_samples();
        return 0;
    }
    if (strcmp(way, "idle") == 0) {
        APP_OK(gpu_malloc(&more, 40 << 20));
        APP_OK(gpu_free(more));
    }
    say("ready");
    await();
    if (strcmp(way, "blocker") == 0) {
        sigpending(&children);
        say(sigismember(&children, SIGCHLD) ? "a child has ended" : "no child");
    }
    while (wait(NULL) > 0)
        ;
    if (strcmp(way, "without") != 0 && strcmp(way, "leak") != 0 &&
        strcmp(way, "sets") != 0)
        APP_OK(gpu_free(held));
    return 0;
}
