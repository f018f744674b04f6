/*
 * daemon.c - a daemon as the textbook writes it: it forks twice, becomes a session's
 * leader, leaves its folder and its standard files, then uses CUDA. DATA: where it writes
 * what it read.
 */
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void serve(const char *name)
{
    unsigned words[1024], sum = 0;
    FILE *file = fopen(name, "w");
    void *memory;
    int code;

    for (unsigned i = 0; i < 1024; i++)
        words[i] = i * i;
    code = cudaMalloc(&memory, 3 << 20); /* LEAK: serve 3145728 1 */
    cudaMemcpy(memory, words, sizeof(words), cudaMemcpyHostToDevice);
    cudaMemcpy(words, memory, sizeof(words), cudaMemcpyDeviceToHost);
    for (unsigned i = 0; i < 1024; i++)
        sum += words[i];
    if (file) {
        fprintf(file, "cudaMalloc %d, sum %u\n", code, sum);
        fclose(file);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    if (fork() != 0)
        _exit(0);
    setsid();
    if (fork() != 0)
        _exit(0);
    if (chdir("/") != 0)
        return 1;
    umask(0);
    close(0), close(1), close(2);
    open("/dev/null", O_RDWR);
    if (dup(0) < 0 || dup(0) < 0)
        return 1;
    serve(argv[1]);
    return 0;
}
