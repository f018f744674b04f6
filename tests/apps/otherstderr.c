/*
 * otherstderr.c - programs whose descriptor 2 is not what it was.
 *
 *   otherstderr closed|first FILE   closes it, before or after the first CUDA call, and
 *                                   opens FILE, which gets its number, for its data
 *   otherstderr socket FILE         likewise a socket, of which the other end's reader
 *                                   writes to FILE what it got
 *   otherstderr pipe FILE           likewise both ends of a pipe
 *   otherstderr fifo FILE           likewise a FIFO's end
 *   otherstderr both FILE           sends stdout and stderr to FILE
 *   otherstderr piped FILE          stderr to a pipe whose reader writes to FILE
 *   otherstderr detached FILE       closes it, and waits for the reader of what it was
 *
 * A reader makes FILE.end when it has come to the end. Proves that the data stays the
 * program's, and that what is sent elsewhere on purpose arrives there. Leaks, so that
 * there is a report.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

#define DATA "the program's own data\n"

static int number_two(int fd)
{
    app_expect(fd == STDERR_FILENO, "the number of stderr is given out again");
    return fd;
}

static void put_data(int fd)
{
    app_expect(write(fd, DATA, sizeof(DATA) - 1) == sizeof(DATA) - 1, "write");
}

/* A child that copies what it reads to a file; it has no other descriptors. */
static pid_t start_reader(int from, const char *path)
{
    pid_t child = fork();

    app_expect(child >= 0, "fork");
    if (child != 0)
        return child;
    char text[4096], end[4096];
    ssize_t length;
    snprintf(end, sizeof(end), "%s.end", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < 64; i++) {
        if (i != from && i != fd)
            close(i);
    }
    while ((length = read(from, text, sizeof(text))) > 0) {
        if (write(fd, text, (size_t)length) != length)
            _exit(1);
    }
    _exit(open(end, O_WRONLY | O_CREAT, 0600) < 0);
}

static void leak(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 100));
}

static void to_file(const char *path)
{
    close(STDERR_FILENO);
    put_data(number_two(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600)));
}

static void to_socket(const char *path)
{
    int ends[2];

    app_expect(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    start_reader(ends[1], path);
    close(ends[1]);
    close(STDERR_FILENO);
    put_data(number_two(dup(ends[0])));
    close(ends[0]);
}

/* stdin closed too, the writing end gets the number of stderr by itself. */
static void to_pipe(const char *path)
{
    int ends[2];

    close(STDIN_FILENO);
    close(STDERR_FILENO);
    app_expect(pipe(ends) == 0 && ends[0] == STDIN_FILENO, "pipe");
    put_data(number_two(ends[1]));
    start_reader(ends[0], path);
}

static void to_fifo(const char *path)
{
    char name[4096];

    snprintf(name, sizeof(name), "%s.fifo", path);
    app_expect(mkfifo(name, 0600) == 0, "mkfifo");
    int from = open(name, O_RDONLY | O_NONBLOCK);
    app_expect(from >= 0 && fcntl(from, F_SETFL, 0) == 0, "open");
    close(STDERR_FILENO);
    put_data(number_two(open(name, O_WRONLY)));
    start_reader(from, path);
    close(from);
}

static void to_log(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);

    app_expect(fd >= 0, path);
    app_expect(dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0, "dup2");
    close(fd);
    put_data(STDERR_FILENO);
}

/* Messages alone, as a server does that keeps a log of them. */
static void to_errors(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);

    app_expect(fd >= 0, path);
    app_expect(dup2(fd, STDERR_FILENO) >= 0, "dup2");
    close(fd);
    put_data(STDERR_FILENO);
}

static void to_reader(const char *path)
{
    int ends[2];

    app_expect(pipe(ends) == 0, "pipe");
    start_reader(ends[0], path);
    app_expect(dup2(ends[1], STDERR_FILENO) >= 0, "dup2");
    close(ends[0]);
    close(ends[1]);
    put_data(STDERR_FILENO);
}

/* As a daemon does: whoever reads its messages is told that there will be no more. */
static void detach(const char *path)
{
    int ends[2];

    app_expect(pipe(ends) == 0, "pipe");
    app_expect(dup2(ends[1], STDERR_FILENO) >= 0, "dup2");
    close(ends[1]);
    pid_t reader = start_reader(ends[0], path);
    close(ends[0]);
    put_data(STDERR_FILENO);
    leak();
    close(STDERR_FILENO);
    alarm(30);
    app_expect(waitpid(reader, NULL, 0) == reader, "the reader's end");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*go)(const char *path);
        bool first; /* before the first CUDA call */
    } ways[] = {{"closed", to_file, false},   {"first", to_file, true},
                {"socket", to_socket, false}, {"pipe", to_pipe, false},
                {"fifo", to_fifo, false},     {"both", to_log, false},
                {"piped", to_reader, false},  {"detached", detach, false},
                {"errors", to_errors, false}};
    const char *way = argc > 2 ? argv[1] : "";
    bool done = false;

    for (size_t i = 0; i < APP_COUNT(ways); i++) {
        if (strcmp(ways[i].name, way) != 0)
            continue;
        if (!ways[i].first)
            app_gpu_start();
        ways[i].go(argv[2]);
        if (ways[i].first)
            app_gpu_start();
        leak();
        done = true;
    }
    app_expect(done, "arguments");
    /* The readers end when this process has. */
    return 0;
}
