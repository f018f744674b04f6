/*
 * generated.c - a leak below generated code, whose name is in the file that compilers at
 * run time write for perf. Usage: generated new|old   (old: the file is of an earlier
 * process with this number). Prints the file's path; it stays.
 */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((noinline)) static void leak(void)
{
    void *p;

    cudaMalloc(&p, 3 << 20);
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
    /* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    unsigned char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char path[64];
    FILE *file;

    if (argc < 2 || memory == MAP_FAILED)
        return 2;
    memcpy(memory, code, sizeof(code));
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
    file = fopen(path, "w");
    if (file == NULL)
        return 2;
    fprintf(file, "nonsense\n%lx 4 JIT:older\n%lx %zx JIT:compute_kernel\n",
            (unsigned long)memory, (unsigned long)memory, sizeof(code));
    fclose(file);
    puts(path);
    if (strcmp(argv[1], "old") == 0)
        utimensat(AT_FDCWD, path, times, 0);
    ((void (*)(void (*)(void)))memory)(leak);
    __asm__ volatile("");
    return 0;
}
