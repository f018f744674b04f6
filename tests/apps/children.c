/*
 * children.c - starts programs in every way there is.   children [WAY]
 *
 * Proves what a started program finds of LD_PRELOAD and of the other variables, and which
 * libraries it has. Makes no CUDA call. Without arguments it takes every way, in
 * children.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char *const ways[] = {
    "execv",   "execve",   "execvp",      "execvpe",      "execl",  "execlp", "execle",
    "fexecve", "execveat", "posix_spawn", "posix_spawnp", "system", "popen",  "syscall"};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Whether a file of that name is mapped. */
static int has_library(const char *name)
{
    char line[8192];
    FILE *maps = fopen("/proc/self/maps", "r");
    int found = 0;

    while (maps && fgets(line, sizeof(line), maps))
        found |= strstr(line, name) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static int arrived(const char *way)
{
    const char *preload = getenv("LD_PRELOAD"); /* NOLINT(concurrency-mt-unsafe) */
    const char *word = getenv("GPUSHIM_WORD");  /* NOLINT(concurrency-mt-unsafe) */

    printf("children: %s: LD_PRELOAD %s, the library %s, GPUSHIM_WORD %s\n", way,
           preload ? preload : "unset",
           has_library("libgpushim") ? "is there" : "is not there",
           word ? word : "unset");
    return 0;
}

static int wait_for(pid_t child)
{
    int status = -1;

    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static int by_shell(const char *path, const char *way)
{
    char command[8192];
    FILE *pipe;
    int status;

    snprintf(command, sizeof(command), "'%s' child %s; exit 5", path, way);
    if (strcmp(way, "system") == 0)
        return system(command) == 5 << 8 ? 0 : -1; /* NOLINT(concurrency-mt-unsafe) */
    pipe = popen(command, "r");
    while (pipe && fgets(command, sizeof(command), pipe))
        fputs(command, stdout);
    status = pipe ? pclose(pipe) : -1;
    return status == 5 << 8 ? 0 : -1;
}

/* Becomes `path`, or returns how the child ended. */
static int start(const char *way, char *path)
{
    char *arguments[] = {path, (char *)"child", (char *)(size_t)way, NULL};
    pid_t child = 0;

    if (strcmp(way, "execv") == 0)
        execv(path, arguments);
    if (strcmp(way, "execve") == 0)
        execve(path, arguments, environ);
    if (strcmp(way, "execvp") == 0)
        execvp(path, arguments);
    if (strcmp(way, "execvpe") == 0)
        execvpe(path, arguments, environ);
    if (strcmp(way, "execl") == 0)
        execl(path, path, "child", way, (char *)NULL);
    if (strcmp(way, "execlp") == 0)
        execlp(path, path, "child", way, (char *)NULL);
    if (strcmp(way, "execle") == 0)
        execle(path, path, "child", way, (char *)NULL, environ);
    if (strcmp(way, "fexecve") == 0)
        fexecve(open(path, O_RDONLY | O_CLOEXEC), arguments, environ);
    if (strcmp(way, "execveat") == 0) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
        execveat(AT_FDCWD, path, arguments, environ, 0);
#else
        execve(path, arguments, environ);
#endif
    }
    if (strcmp(way, "syscall") == 0) /* past every wrapper */
        syscall(SYS_execve, path, arguments, environ);
    if (strcmp(way, "posix_spawn") == 0)
        return posix_spawn(&child, path, NULL, NULL, arguments, environ)
                   ? -1
                   : wait_for(child);
    if (strcmp(way, "posix_spawnp") == 0)
        return posix_spawnp(&child, path, NULL, NULL, arguments, environ)
                   ? -1
                   : wait_for(child);
    if (strcmp(way, "system") == 0 || strcmp(way, "popen") == 0)
        return by_shell(path, way);
    return -1;
}

int main(int argc, char **argv)
{
    char path[4096] = "";

    if (argc > 2 && strcmp(argv[1], "child") == 0)
        return arrived(argv[2]);
    if (readlink("/proc/self/exe", path, sizeof(path) - 1) <= 0)
        return 2;
    if (argc > 1)
        return start(argv[1], path) == 0 ? 0 : 1;
    for (size_t i = 0; i < COUNT(ways); i++) {
        pid_t child;

        fflush(stdout);
        child = fork();
        if (child == 0) {
            int status = start(ways[i], path);

            fflush(stdout);
            _exit(status == 0 ? 0 : 1);
        }
        if (wait_for(child) != 0)
            return 1;
    }
    return 0;
}
