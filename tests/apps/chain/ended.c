/*
 * ended.c - a driver that cannot be called once it has ended (-DDRIVER), and a program
 * that opens it and calls nothing.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef DRIVER
static int has_ended;

__attribute__((destructor)) static void end(void)
{
    has_ended = 1;
}

static int answer(void)
{
    if (has_ended) {
        abort();
    }
    return 3;
}

#define ANSWER(name)                                                                     \
    int name(void);                                                                      \
    int name(void)                                                                       \
    {                                                                                    \
        return answer();                                                                 \
    }
ANSWER(cuInit)
ANSWER(cuDriverGetVersion)
ANSWER(cuCtxGetCurrent)
#else
int main(void)
{
    puts(dlopen("./libcuda.so.1", RTLD_NOW) ? "opened" : dlerror());
    return 0;
}
#endif
