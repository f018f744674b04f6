/*
 * own.c - calls of the C library's own definitions of functions that programs and other
 * libraries replace.
 *
 * A replacement may not be callable yet: it finds the C library's function in a
 * constructor that runs after the shim's, or by a dlsym that calls it again. Or it counts
 * calls, and natively there are none. The linker binds the shim's calls to the
 * definitions here, and exports.map hides them from everybody else. Sanitizers keep the
 * C library's functions. __register_atfork is called by name: constructors of other
 * libraries, as of a runtime of CUDA, call it as early.
 *
 * Owns:  the addresses found.   Lock: none; idempotent writes of one word.
 */
#include "shim/link/elf_module.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/auxv.h>

extern int __cxa_atexit(void (*handler)(void *), void *argument, void *dso);
extern int __cxa_at_quick_exit(void (*handler)(void *), void *dso);

/* NULL: there is none. */
static void *find(void **known, const char *name)
{
    void *found = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (!found) {
        found = gs_elf_library_symbol(name);
        __atomic_store_n(known, found, __ATOMIC_RELAXED);
    }
    return found;
}

/* Calls the C library's function, or answers with `otherwise`. */
#define PASS_ON(name, otherwise, ...)                                                    \
    static void *known;                                                                  \
    __typeof__(&name) own = (__typeof__(&name))find(&known, #name);                      \
    return own ? own(__VA_ARGS__) : (otherwise)

unsigned long getauxval(unsigned long type)
{
    PASS_ON(getauxval, 0, type);
}

int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data)
{
    PASS_ON(dl_iterate_phdr, 0, visit, data);
}

int dladdr(const void *address, Dl_info *out)
{
    PASS_ON(dladdr, 0, address, out);
}

int on_exit(void (*handler)(int, void *), void *argument)
{
    PASS_ON(on_exit, -1, handler, argument);
}

/* What atexit calls, which is in the library itself. */
int __cxa_atexit(void (*handler)(void *), void *argument, void *dso)
{
    PASS_ON(__cxa_atexit, -1, handler, argument, dso);
}

int __cxa_at_quick_exit(void (*handler)(void *), void *dso)
{
    PASS_ON(__cxa_at_quick_exit, -1, handler, dso);
}

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    PASS_ON(pthread_key_create, EAGAIN, key, destructor);
}

int pthread_setspecific(pthread_key_t key, const void *value)
{
    PASS_ON(pthread_setspecific, EINVAL, key, value);
}

/* A thread that the program's or a library's pthread_create does not see. One beside an
 * allocator, of a sanitizer or a garbage collector, has to know each thread that
 * allocates. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*body)(void *), void *argument)
{
    struct gs_module_ref first;
    void *create = gs_elf_library_symbol("pthread_create");
    if (gs_elf_first_symbol("pthread_create", &first) &&
        gs_elf_callable(&first, "malloc")) {
        create = gs_elf_callable(&first, "pthread_create");
    }
    return create
               ? ((__typeof__(&pthread_create))create)(thread, attributes, body, argument)
               : EAGAIN;
}
