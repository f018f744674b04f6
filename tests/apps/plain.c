/*
 * plain.c - a program that makes no CUDA call.   plain [exit | _exit | exec | fork |
 * spawn]
 *
 * Proves that such a program has the same output and status, prints no report and pays
 * nothing for a preloaded libgpushim.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned mix(unsigned value)
{
    for (int i = 0; i < 1000; i++)
        value = value * 1664525u + 1013904223u;
    return value;
}

static int with_child(void)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0)
        _exit(12);
    waitpid(child, &status, 0);
    printf("plain: child ends with %d\n", status);
    return 0;
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "exit";
    char *const arguments[] = {argv[0], (char *)"_exit", NULL};

    printf("plain: %u\n", mix(1));
    fflush(stdout);
    if (strcmp(way, "_exit") == 0)
        _exit(11);
    if (strcmp(way, "exec") == 0)
        execv("/proc/self/exe", arguments);
    if (strcmp(way, "spawn") == 0)
        return system("exit 3") == 3 << 8 ? 0 : 1;
    if (strcmp(way, "fork") == 0)
        return with_child();
    return 0;
}
