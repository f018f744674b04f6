/*
 * anonymous.c - loads a plug-in that has no file: a copy in memory, as some packers and
 * run times load theirs. Usage: anonymous PLUGIN keep|close   (close: its descriptor)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int from = argc > 2 ? open(argv[1], O_RDONLY) : -1, fd = memfd_create("plugin", 0);
    char piece[4096], path[64];
    ssize_t got;
    void *plugin;
    void (*allocate)(void);

    while (from >= 0 && (got = read(from, piece, sizeof(piece))) > 0)
        if (write(fd, piece, (size_t)got) != got)
            return 2;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    plugin = dlopen(path, RTLD_NOW);
    allocate = plugin ? (void (*)(void))dlsym(plugin, "plugin_allocate") : NULL;
    if (allocate == NULL)
        return 3;
    allocate();
    if (strcmp(argv[2], "close") == 0)
        close(fd);
    return 0;
}
