/*
 * server.c - a process that plays many lists, each in a child of its own: the child is
 * the first to use CUDA, so that every list finds a fresh device and a fresh library.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "diff.h"

enum { SETTINGS = 8, SETTING = 64, PATIENCE = 20000 /* ms for a list */ };

struct request {
    char settings[SETTINGS][SETTING];
    unsigned memory_mib, devices, way, count;
    bool lean, free;
};

static bool write_all(int file, const void *from, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t now = write(file, (const char *)from + done, bytes - done);

        if (now < 0 && errno == EINTR)
            continue;
        if (now <= 0)
            return false;
        done += (size_t)now;
    }
    return true;
}

static bool read_all(int file, void *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t now = read(file, (char *)to + done, bytes - done);

        if (now < 0 && errno == EINTR)
            continue;
        if (now <= 0)
            return false;
        done += (size_t)now;
    }
    return true;
}

/* ---- the other side -----------------------------------------------------------------
 */

bool diff_server_start(struct diff_server *server, const char *preload)
{
    int to[2], from[2];

    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        return false;
    server->pid = fork();
    if (server->pid < 0)
        return false;
    if (server->pid == 0) {
        char *const arguments[] = {(char *)"diff", (char *)"serve", NULL};

        dup2(to[0], 0);
        dup2(from[1], 1);
        if (!getenv("DIFF_STDERR")) { /* what is said there is not compared */
            int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

            dup2(nowhere, 2);
        }
        if (preload)
            setenv("LD_PRELOAD", preload, 1);
        execv("/proc/self/exe", arguments);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    server->to = to[1];
    server->from = from[0];
    return true;
}

void diff_server_stop(struct diff_server *server)
{
    close(server->to);
    close(server->from);
    waitpid(server->pid, NULL, 0);
}

bool diff_server_ask(struct diff_server *server, const struct diff_list *list,
                     const char *const *settings)
{
    struct request request;

    memset(&request, 0, sizeof(request));
    for (unsigned i = 0; i < SETTINGS && settings[i]; i++)
        snprintf(request.settings[i], SETTING, "%s", settings[i]);
    request.memory_mib = list->memory_mib;
    request.devices = list->devices;
    request.way = list->way;
    request.count = list->count;
    request.lean = list->lean;
    request.free = list->free;
    return write_all(server->to, &request, sizeof(request)) &&
           write_all(server->to, list->ops, list->count * sizeof(*list->ops));
}

bool diff_server_get(struct diff_server *server, struct diff_answers *out)
{
    const size_t head = offsetof(struct diff_answers, lines);

    return read_all(server->from, out, head) && out->count <= DIFF_OPS &&
           read_all(server->from, out->lines, (size_t)out->count * DIFF_LINE);
}

/* ---- this side ----------------------------------------------------------------------
 */

struct common {
    struct diff_list list;
    struct diff_answers answers;
    unsigned progress;
};

static void play_in_child(struct common *common, const struct request *request)
{
    char value[32];

    setpgid(0, 0);
    snprintf(value, sizeof(value), "%uM", common->list.memory_mib);
    setenv("CUDASIM_MEMORY", value, 1);
    snprintf(value, sizeof(value), "%u", common->list.devices);
    setenv("CUDASIM_DEVICES", value, 1);
    for (unsigned i = 0; i < SETTINGS && request->settings[i][0]; i++)
        putenv(strdup(request->settings[i]));
    diff_play(&common->list, &common->answers, &common->progress);
    _exit(0);
}

/* Waits for all who have the other end of `gone`; false: they took too long. */
static bool wait_for_all(int gone)
{
    struct pollfd file = {.fd = gone, .events = POLLIN};
    int ready;

    do
        ready = poll(&file, 1, PATIENCE);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

static void play_one(struct common *common, const struct request *request)
{
    struct diff_answers *answers = &common->answers;
    int gone[2], status = 0;
    bool in_time;
    pid_t child;

    memset(answers->lines, 0, (size_t)common->list.count * DIFF_LINE);
    common->progress = 0;
    answers->count = common->list.count;
    if (pipe2(gone, O_CLOEXEC) != 0)
        return;
    child = fork();
    if (child == 0) {
        close(gone[0]);
        play_in_child(common, request);
    }
    close(gone[1]);
    in_time = wait_for_all(gone[0]);
    if (!in_time)
        kill(-child, SIGKILL);
    waitpid(child, &status, 0);
    kill(-child, SIGKILL); /* who is left of it */
    close(gone[0]);
    if (!in_time)
        snprintf(answers->end, sizeof(answers->end), "timeout in %u", common->progress);
    else if (WIFSIGNALED(status))
        snprintf(answers->end, sizeof(answers->end), "signal %d in %u", WTERMSIG(status),
                 common->progress);
    else
        snprintf(answers->end, sizeof(answers->end), "%s%d",
                 WEXITSTATUS(status) ? "status " : "ok", WEXITSTATUS(status));
}

int diff_serve(int in, int out)
{
    struct common *common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct request request;

    if (common == MAP_FAILED)
        return 2;
    while (read_all(in, &request, sizeof(request))) {
        const size_t head = offsetof(struct diff_answers, lines);
        struct diff_list *list = &common->list;

        if (request.count > DIFF_OPS ||
            !read_all(in, list->ops, request.count * sizeof(*list->ops)))
            return 2;
        list->memory_mib = request.memory_mib;
        list->devices = request.devices;
        list->way = request.way;
        list->count = request.count;
        list->lean = request.lean;
        list->free = request.free;
        play_one(common, &request);
        if (!write_all(out, &common->answers, head) ||
            !write_all(out, common->answers.lines, (size_t)list->count * DIFF_LINE))
            return 2;
    }
    return 0;
}
