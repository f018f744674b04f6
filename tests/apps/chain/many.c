/*
 * many.c - opens ./0.so, ./1.so, ... (how many: the argument), and looks a function up in
 * each, as an interpreter does with its modules. Says whether the look-ups took less time
 * than the opening.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int count, char **arguments)
{
    double opening = 0, looking = 0;
    for (int i = 0; count > 1 && i < atoi(arguments[1]); i++) {
        char file[32];
        snprintf(file, sizeof(file), "./%d.so", i);
        double begin = seconds();
        void *module = dlopen(file, RTLD_LAZY);
        double opened = seconds();
        if (!module || !dlsym(module, "address")) {
            puts(dlerror());
            return 1;
        }
        opening += opened - begin;
        looking += seconds() - opened;
    }
    puts(looking < opening ? "look-ups are cheap" : "look-ups are dear");
    return 0;
}
