/*
 * nulls.c - which arguments a driver judges before it looks whether cuInit has run.
 *
 * Each function is called before cuInit with arguments that all point to zeros, with one
 * of the first eight zero, and with all zero. Prints a line a call: function, `none`, the
 * number of the argument that is zero, or `all`, and the code, or `signal` for a call
 * that ends the process. Ends with 2 without a driver.
 *
 * Owns:  nothing.   Lock: none; each call has a process of its own.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exports.h"

enum { ARGUMENTS = 12, ONE_BY_ONE = 8, CELL_BYTES = 1024, SECONDS = 5 };

typedef int function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                     uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static char cells[ARGUMENTS][CELL_BYTES];

/* In a child: the code goes through the pipe, and no exit handler runs. */
static void call(function *called, unsigned zero, int out)
{
    uintptr_t a[ARGUMENTS];

    for (unsigned i = 0; i < ARGUMENTS; i++)
        a[i] = zero & 1u << i ? 0 : (uintptr_t)cells[i];
    alarm(SECONDS);
    int code =
        called(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    _exit(write(out, &code, sizeof(code)) != sizeof(code));
}

static void print(const struct export *of, const char *which, unsigned zero)
{
    int code, ends[2];

    if (pipe(ends) != 0)
        return;
    pid_t child = fork();
    if (child == 0)
        call((function *)of->address, zero, ends[1]);
    close(ends[1]);
    if (read(ends[0], &code, sizeof(code)) == sizeof(code))
        printf("%s %s %d\n", of->name, which, code);
    else
        printf("%s %s signal\n", of->name, which);
    close(ends[0]);
    waitpid(child, NULL, 0);
}

int main(void)
{
    struct exports driver;

    setvbuf(stdout, NULL, _IOFBF, 1 << 20);
    if (!dlopen("libcuda.so.1", RTLD_NOW) || !exports_of("libcuda.so", &driver))
        return 2;
    for (size_t i = 0; i < driver.count; i++) {
        if (!exports_may_call(driver.all[i].name))
            continue;
        fflush(stdout);
        print(&driver.all[i], "none", 0);
        for (unsigned n = 0; n < ONE_BY_ONE; n++)
            print(&driver.all[i], (char[]){(char)('0' + n), 0}, 1u << n);
        print(&driver.all[i], "all", ~0u);
    }
    return 0;
}
