/*
 * ctor.cpp - memory that is allocated by static constructors and freed by static
 * destructors, in the program and in a library it is linked with.
 *
 * Proves that calls before main are served, and that what a static destructor frees is
 * not reported as leaked.
 */
#include "static_owner.h"

extern "C" unsigned ctor_library_touch(void);

static StaticOwner owner("program", 3, 70000);

int main()
{
    printf("ctor: main, library says %u\n", ctor_library_touch());
    fflush(stdout);
    return 0;
}
