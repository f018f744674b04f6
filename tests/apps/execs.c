/*
 * execs.c - becomes another program by each function of the exec family.   execs WAY
 *
 * Proves that an exec passes arguments and environment through unchanged, that the memory
 * lost by it is reported, and that one which fails leaves the program as it was. WAY is
 * the function's name; with "missing" every one of them is tried on a program that is not
 * there.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define SELF    "/proc/self/exe"
#define MISSING "/nonexistent/missing"

APP_FRAME static void hold(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 131072)); /* LEAK: hold 131072 1 */
    APP_OK(gpu_set(block, 1, 131072));
}

static int try(const char *way, const char *path, char *name)
{
    char *arguments[] = {name, "arrived", "a b", "", NULL};
    const char *libraries = getenv("LD_LIBRARY_PATH");
    char library_setting[4096];
    char *settings[] = {"EXECS_WORD=passed", library_setting, NULL};

    snprintf(library_setting, sizeof(library_setting), "LD_LIBRARY_PATH=%s",
             libraries ? libraries : "");

    if (strcmp(way, "execv") == 0)
        return execv(path, arguments);
    if (strcmp(way, "execve") == 0)
        return execve(path, arguments, settings);
    if (strcmp(way, "execvp") == 0)
        return execvp(path, arguments);
    if (strcmp(way, "execvpe") == 0)
        return execvpe(path, arguments, settings);
    if (strcmp(way, "execl") == 0)
        return execl(path, name, "arrived", "a b", "", (char *)NULL);
    if (strcmp(way, "execlp") == 0)
        return execlp(path, name, "arrived", "a b", "", (char *)NULL);
    if (strcmp(way, "execle") == 0)
        return execle(path, name, "arrived", "a b", "", (char *)NULL, settings);
    if (strcmp(way, "fexecve") == 0)
        return fexecve(open(path, O_RDONLY | O_CLOEXEC), arguments, settings);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    if (strcmp(way, "execveat") == 0)
        return execveat(AT_FDCWD, path, arguments, settings, 0);
    if (strcmp(way, "execveat_open") == 0)
        return execveat(open(path, O_RDONLY | O_CLOEXEC), "", arguments, settings,
                        AT_EMPTY_PATH);
#else
    if (strncmp(way, "execveat", 8) == 0)
        return execve(path, arguments, settings);
#endif
    app_fail("execs", "no such way");
}

static void try_missing(char *name)
{
    static const char *const ways[] = {"execv", "execve", "execvp", "execvpe",
                                       "execl", "execlp", "execle", "execveat"};

    for (size_t i = 0; i < APP_COUNT(ways); i++) {
        int code = try(ways[i], MISSING, name);

        printf("execs: %s of a missing program: %d, %s\n", ways[i], code,
               errno == ENOENT ? "ENOENT" : "another errno");
        code = try(ways[i], "execs-no-such-word", name);
        printf("execs: %s of a missing word: %d, %s\n", ways[i], code,
               errno == ENOENT ? "ENOENT" : "another errno");
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "arrived") == 0) {
        const char *word = getenv("EXECS_WORD");

        printf("execs: arrived with %d words, '%s', '%s', EXECS_WORD %s\n", argc, argv[2],
               argv[3], word ? word : "unset");
        return 0;
    }
    app_gpu_start();
    hold();
    if (argc < 2 || strcmp(argv[1], "missing") == 0) {
        try_missing(argv[0]);
        return 0;
    }
    fflush(stdout);
    try(argv[1], SELF, argv[0]);
    app_fail(argv[1], "returned");
}
