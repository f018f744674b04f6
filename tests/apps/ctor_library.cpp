/*
 * ctor_library.cpp - the library of ctor.cpp, with a static object of its own.
 */
#include "static_owner.h"

static StaticOwner owner("library", 4, 3 * APP_MIB);

extern "C" APP_EXPORT unsigned ctor_library_touch(void);

unsigned ctor_library_touch(void)
{
    return 42;
}
