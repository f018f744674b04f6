/*
 * embed.c - a program that loads an interpreter late, runs it, ends it and closes it,
 * twice: embed LIBPYTHON. It allocates before, around, within and after, and frees
 * nothing.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096

static int (*cuda_malloc)(void **pointer, size_t bytes);

static void *find(void *library, const char *name)
{
    void *found = library ? dlsym(library, name) : NULL;

    if (!found) {
        fprintf(stderr, "embed: no %s\n", name);
        exit(1);
    }
    return found;
}

static __attribute__((noinline)) void allocate(size_t pages)
{
    void *pointer;

    if (cuda_malloc(&pointer, pages * PAGE) != 0)
        exit(1);
}

static __attribute__((noinline)) void run_python(const char *path)
{
    static const char script[] = "import ctypes\n"
                                 "cuda = ctypes.CDLL('libcudart.so.13')\n"
                                 "def inside():\n"
                                 "    pointer = ctypes.c_void_p()\n"
                                 "    cuda.cudaMalloc(ctypes.byref(pointer), "
                                 "ctypes.c_size_t(3 * 4096))\n"
                                 "inside()\n";
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL), *found;
    void (*initialize)(void);
    int (*run)(const char *text), (*finalize)(void);

    found = find(library, "Py_Initialize");
    memcpy(&initialize, &found, sizeof(found));
    found = find(library, "PyRun_SimpleString");
    memcpy(&run, &found, sizeof(found));
    found = find(library, "Py_FinalizeEx");
    memcpy(&finalize, &found, sizeof(found));
    initialize();
    allocate(2);
    if (run(script) != 0)
        exit(1);
    finalize();
    allocate(4);
    dlclose(library);
    allocate(5);
}

int main(int argc, char **argv)
{
    void *found = find(dlopen("libcudart.so.13", RTLD_NOW), "cudaMalloc");

    memcpy(&cuda_malloc, &found, sizeof(found));
    allocate(1);
    for (int turn = 0; turn < 2 && argc > 1; turn++)
        run_python(argv[1]);
    return 0;
}
