/*
 * changed.c - its file is deleted, replaced or renamed while it runs, as an upgrade or a
 * build in another window does. Usage: changed keep|delete|replace|rename|wait
 */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static void serve_request(void)
{
    void *p;

    cudaMalloc(&p, 3 << 20);
    __asm__ volatile("" ::: "memory");
}

/* A new file at the path, as a linker makes it. */
static int replace(const char *path)
{
    char other[600];
    FILE *file;

    snprintf(other, sizeof(other), "%s.new", path);
    file = fopen(other, "w");
    if (file == NULL || fputs("not this program", file) < 0 || fclose(file) != 0)
        return 1;
    return rename(other, path);
}

int main(int argc, char **argv)
{
    char path[512], other[600];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (argc < 2 || length < 0)
        return 2;
    path[length] = '\0';
    snprintf(other, sizeof(other), "%s.old", path);
    serve_request();
    if (strcmp(argv[1], "delete") == 0)
        return unlink(path);
    if (strcmp(argv[1], "replace") == 0)
        return replace(path);
    if (strcmp(argv[1], "rename") == 0)
        return rename(path, other);
    if (strcmp(argv[1], "wait") == 0)
        return puts("waits"), fflush(stdout), getchar() == EOF;
    return 0;
}
