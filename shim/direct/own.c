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
#include "gs_base.h"
#include "shim/link/elf_module.h"
#include "shim/settings/checkers.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

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

/* ---- namesakes --------------------------------------------------------------------- */

/* ISO C reserves none of these names: a program or one of its libraries may have a
 * function of its own that does something else, and NVIDIA's driver calls none of them. */
typedef int compare_fn(const void *, const void *);
typedef void visit_fn(const void *, VISIT, int);

/* The first call is a function of its own: it alone needs a frame. `found` finds the
 * function, and writes it to known_`name`. */
#define OWN_BY(found, type, otherwise, name, parameters, ...)                            \
    static void *known_##name;                                                           \
    static GS_NOINLINE type first_##name parameters                                      \
    {                                                                                    \
        __typeof__(&name) own = (__typeof__(&name))(found);                              \
        return own ? own(__VA_ARGS__) : (otherwise);                                     \
    }                                                                                    \
    type name parameters                                                                 \
    {                                                                                    \
        __typeof__(&name) own =                                                          \
            (__typeof__(&name))__atomic_load_n(&known_##name, __ATOMIC_RELAXED);         \
        return own ? own(__VA_ARGS__) : first_##name(__VA_ARGS__);                       \
    }

#define OWN(type, otherwise, name, parameters, ...)                                      \
    OWN_BY(find(&known_##name, #name), type, otherwise, name, parameters, __VA_ARGS__)

/* It calls malloc: as plain_calls.c has the library's own calls of it, beside a program's
 * ThreadSanitizer. */
static void *tsearch_unwatched(const void *key, void **root, compare_fn *compare)
{
    static void *known;
    __typeof__(&tsearch) own = (__typeof__(&tsearch))find(&known, "tsearch");
    gs_checkers_ignore_begin();
    void *found = own ? own(key, root, compare) : NULL;
    gs_checkers_ignore_end();
    return found;
}

static void *find_tsearch(void **known)
{
    if (!gs_checkers.reads_begin) {
        return find(known, "tsearch");
    }
    __atomic_store_n(known, (void *)tsearch_unwatched, __ATOMIC_RELAXED);
    return (void *)tsearch_unwatched;
}

OWN_BY(find_tsearch(&known_tsearch), void *, NULL, tsearch,
       (const void *key, void **root, compare_fn *compare), key, root, compare)
OWN(void *, NULL, tfind, (const void *key, void *const *root, compare_fn *compare), key,
    root, compare)
OWN(void *, NULL, tdelete,
    (const void *restrict key, void **restrict root, compare_fn *compare), key, root,
    compare)
OWN(void, (void)0, twalk, (const void *root, visit_fn *visit), root, visit)
OWN(void *, NULL, memmem, (const void *in, size_t bytes, const void *part, size_t length),
    in, bytes, part, length)
OWN(void *, NULL, memrchr, (const void *in, int wanted, size_t bytes), in, wanted, bytes)
OWN(void *, NULL, mempcpy, (void *restrict to, const void *restrict from, size_t bytes),
    to, from, bytes)
OWN(char *, NULL, stpcpy, (char *restrict to, const char *restrict from), to, from)
OWN(char *, NULL, strcasestr, (const char *in, const char *part), in, part)
OWN(char *, NULL, strsep, (char **restrict from, const char *restrict ends), from, ends)
OWN(int, 1, strncasecmp, (const char *a, const char *b, size_t most), a, b, most)
OWN(void *, NULL, reallocarray, (void *from, size_t count, size_t bytes), from, count,
    bytes)
OWN(int, -1, faccessat, (int folder, const char *path, int mode, int flags), folder, path,
    mode, flags)
OWN(int, ENOSYS, posix_fallocate, (int file, off_t offset, off_t length), file, offset,
    length)
OWN(int, -1, munlock, (const void *from, size_t bytes), from, bytes)
OWN(void *, (void *)-1, shmat, (int segment, const void *at, int flags), segment, at,
    flags)
OWN(int, -1, shmctl, (int segment, int command, struct shmid_ds *about), segment, command,
    about)
OWN(int, -1, shmdt, (const void *at), at)
OWN(int, -1, sigpending, (sigset_t * out), out)
OWN(int, -1, sigtimedwait,
    (const sigset_t *restrict wanted, siginfo_t *restrict info,
     const struct timespec *restrict longest),
    wanted, info, longest)
