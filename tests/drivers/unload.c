/*
 * unload.c - opens, uses and closes a real driver, and looks whether it is still loaded.
 *
 *   unload STEPS     0: look-ups alone; 1: cuInit, too; 2: other calls as well
 *
 * Prints the codes, and "stays" or "gone". Ends with 2 without a driver. With
 * UNLOAD_WAITS set it waits 0.2 s after each round, for threads of the driver that are
 * left.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int function(void *, void *);

static int is_loaded(void)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");

    while (maps && fgets(line, sizeof(line), maps))
        found |= strstr(line, "/libcuda.so") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

int main(int argc, char **argv)
{
    static const char *const others[] = {"cuCtxSynchronize", "cuMemAlloc_v2",
                                         "cuMemFree_v2", "cuDriverGetVersion",
                                         "cuArrayDestroy"};
    int steps = argc > 1 ? atoi(argv[1]) : 0;

    for (int round = 0; round < 3; round++) {
        long value = 0;
        void *handle = dlopen("libcuda.so.1", RTLD_NOW);
        function *init = handle ? (function *)dlsym(handle, "cuInit") : NULL;
        if (!init)
            return 2;
        printf("round %d:", round);
        if (steps >= 1)
            printf(" cuInit %d", init(NULL, NULL));
        for (size_t i = 0; steps >= 2 && i < sizeof(others) / sizeof(others[0]); i++) {
            function *called = (function *)dlsym(handle, others[i]);
            void *first = i == 2 || i == 4 ? NULL : &value;
            printf(" %s %d", others[i], called(first, NULL));
        }
        dlclose(handle);
        printf(" %s\n", is_loaded() ? "stays" : "gone");
        if (getenv("UNLOAD_WAITS"))
            usleep(200000);
    }
    return 0;
}
