/*
 * watch_place.c - the watcher leaves the launcher's place: session, signals, descriptors,
 * folder, name.
 *
 * Owns: nothing.   Lock: none; one thread.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/tools/launcher/watch_table.h"

#define NAME "gpushim-watch"

/* What the launcher inherited is not the watcher's to keep open. */
static void close_others(const struct gs_watch *config)
{
    const int kept[] = {config->socket, config->main_fd, config->parent};
    int last = STDERR_FILENO;
    for (size_t i = 0; i < GS_ARRAY_LEN(kept); i++) {
        last = kept[i] > last ? kept[i] : last;
    }
    for (int fd = STDERR_FILENO + 1; fd <= last; fd++) {
        if (fd != kept[0] && fd != kept[1] && fd != kept[2]) {
            close(fd);
        }
    }
    if (syscall(SYS_close_range, (unsigned)last + 1, ~0u, 0) == 0) {
        return;
    }
    /* A kernel before 5.9, or a container that refuses the call. */
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        long fd = strtol(entry->d_name, NULL, 10);
        if (fd > last && fd != dirfd(folder)) {
            close((int)fd);
        }
    }
    if (folder) {
        closedir(folder);
    }
}

/* pgrep -f finds the command, as natively, and not its watcher. */
static void hide_words(char **words)
{
    char **word = words, *begin = *word, *end = begin;
    if (!begin) {
        return;
    }
    for (; *word && *word == end; word++) {
        end += strlen(end) + 1;
    }
    memset(begin, 0, (size_t)(end - begin));
    (void)snprintf(begin, (size_t)(end - begin), "%s", NAME);
}

/* Where the launcher has no standard descriptors, others got their numbers. */
static void lift(int *fd)
{
    int above = *fd >= 0 && *fd <= STDERR_FILENO
                    ? fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                    : -1;
    if (above >= 0) {
        close(*fd);
        *fd = above;
    }
}

void gs_watch_take_place(struct gs_watch *config)
{
    sigset_t all;
    struct rlimit files;
    struct stat info;
    lift(&config->socket);
    lift(&config->main_fd);
    lift(&config->parent);
    int null = open("/dev/null", O_RDWR);
    sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)setsid();
    (void)prctl(PR_SET_NAME, NAME);
    hide_words(config->words);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDOUT_FILENO);
    if (fstat(STDERR_FILENO, &info) != 0) {
        (void)dup2(null, STDERR_FILENO);
    }
    close_others(config);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (chdir("/") != 0) {
        return; /* the folder stays in use */
    }
}
