/*
 * page_state.c - reads the state of a mapping, and restores it.
 *
 * The flags that madvise sets are shown by /proc/self/smaps alone, which is slow. So the
 * caller reads them once, from a mapping that nobody has changed, and the restore clears
 * all other states without a query: each call ends at once where nothing has to change. A
 * policy of mbind is searched for instead: the pages stay where it has placed them, so
 * such memory is of no use to another owner. No call clears the advice on huge pages,
 * which changes no answer: it stays.
 *
 * Owns: nothing.   Lock: none.   Design: docs/host-memory.md, "Pinned memory"
 */
#include "shim/host/page_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_base.h"
#include "gs_uncancelled.h"

/* linux/mempolicy.h, linux/mman.h; older headers lack some. */
#define POLICY_DEFAULT 0
#define POLICY_OF_ADDR 2
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_KEEPONFORK
#define MADV_KEEPONFORK 19
#endif
#ifndef MADV_GUARD_REMOVE
#define MADV_GUARD_REMOVE 103
#endif

#define POLICY_STEP_BYTES   (2 * GS_MIB)
#define TEXT_BYTES          (64 * GS_KIB)
#define SMALLEST_PAGE_BYTES (4 * GS_KIB)
/* The flags of a mapping are in the last of its lines. */
#define FLAGS_WORD "VmFlags:"

/* ---- read -------------------------------------------------------------------------- */

/* The state that a line "VmFlags: rd wr mr mw me dc dd" tells. */
static unsigned state_of(const char *line)
{
    static const struct {
        char name[3];
        unsigned state;
    } flags[] = {{"dc", GS_PAGES_NO_FORK}, {"wf", GS_PAGES_WIPED},
                 {"dd", GS_PAGES_NO_DUMP}, {"lo", GS_PAGES_LOCKED},
                 {"rr", GS_PAGES_READ},    {"sr", GS_PAGES_READ},
                 {"mg", GS_PAGES_MERGED}};
    unsigned state = GS_PAGES_KNOWN;

    for (const char *word = strchr(line, ' '); word; word = strchr(word + 1, ' ')) {
        for (size_t i = 0; i < GS_ARRAY_LEN(flags); i++) {
            if (strncmp(word + 1, flags[i].name, 2) == 0) {
                state |= flags[i].state;
            }
        }
    }
    return state;
}

/* Whether the line begins the description of the mapping around the address. */
static bool begins(const char *line, uint64_t addr)
{
    char *end;
    uint64_t from = strtoull(line, &end, 16);
    return *end == '-' && addr >= from && addr < strtoull(end + 1, NULL, 16);
}

/* Reads whole lines into `text` until the mapping's flags are found. */
static unsigned search(int file, char *text, uint64_t addr)
{
    size_t kept = 0;
    bool inside = false;
    ssize_t got;

    while ((got = read(file, text + kept, TEXT_BYTES - 1 - kept)) > 0) {
        char *line = text, *end;
        text[kept + (size_t)got] = '\0';
        for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            if (inside && strncmp(line, FLAGS_WORD, strlen(FLAGS_WORD)) == 0) {
                return state_of(line);
            }
            inside = inside || begins(line, addr);
        }
        kept = strlen(line);
        if (kept == TEXT_BYTES - 1) {
            return 0; /* no line of smaps is that long */
        }
        memmove(text, line, kept);
    }
    return 0;
}

/* Whether the pages are anonymous and private: the kernel sets the flag for no others.
 * Afterwards it is clear. */
static bool are_private(void *memory, size_t bytes)
{
    bool are = madvise(memory, bytes, MADV_WIPEONFORK) == 0;
    return madvise(memory, bytes, MADV_KEEPONFORK) == 0 && are;
}

unsigned gs_page_state_read(uint64_t addr)
{
    int saved = errno, before = gs_uncancelled_begin();
    int file = open("/proc/thread-self/smaps", O_RDONLY | O_CLOEXEC);
    unsigned state = 0;

    if (file >= 0) {
        void *text = mmap(NULL, TEXT_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (text != MAP_FAILED) {
            state = search(file, text, addr);
            (void)munmap(text, TEXT_BYTES);
        }
        (void)close(file);
    }
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the page around the address */
    void *page = (void *)(uintptr_t)(addr & ~(uint64_t)(SMALLEST_PAGE_BYTES - 1));
    if ((state & GS_PAGES_KNOWN) && !(state & GS_PAGES_WIPED) && are_private(page, 1)) {
        state |= GS_PAGES_PRIVATE;
    }
    gs_uncancelled_end(before);
    errno = saved;
    return state;
}

/* ---- restore ----------------------------------------------------------------------- */

/* Whether the pages at an address have a NUMA policy of their own. */
static bool has_policy(uint64_t addr)
{
    int mode = POLICY_DEFAULT;
    return syscall(SYS_get_mempolicy, &mode, NULL, 0ul, addr, (long)POLICY_OF_ADDR) ==
               0 &&
           mode != POLICY_DEFAULT;
}

static bool has_any_policy(uint64_t addr, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += POLICY_STEP_BYTES) {
        if (has_policy(addr + at)) {
            return true;
        }
    }
    return has_policy(addr + bytes - 1);
}

/* Clears a flag, unless the driver had set it. The kernel refuses some flags of a
 * device's mappings (EINVAL); those stay as they are. */
static bool clear_flag(void *memory, size_t bytes, bool had, int advice)
{
    return had || madvise(memory, bytes, advice) == 0 || errno == EINVAL;
}

/* Removes the program's protection and its guards (MADV_GUARD_INSTALL, Linux 6.13). */
static bool give_access(void *memory, size_t bytes)
{
    return mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0 &&
           clear_flag(memory, bytes, false, MADV_GUARD_REMOVE);
}

bool gs_page_state_give_access(uint64_t addr, size_t bytes)
{
    int saved = errno;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the address of managed memory */
    bool done = give_access((void *)(uintptr_t)addr, bytes);
    errno = saved;
    return done;
}

bool gs_page_state_restore(uint64_t addr, size_t bytes, unsigned made)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the address of pinned memory */
    void *memory = (void *)(uintptr_t)addr;
    int saved = errno;
    bool done = (!(made & GS_PAGES_PRIVATE) || are_private(memory, bytes)) &&
                !has_any_policy(addr, bytes) && give_access(memory, bytes);

    if (done && (made & GS_PAGES_KNOWN)) {
        done = clear_flag(memory, bytes, made & GS_PAGES_NO_FORK, MADV_DOFORK) &&
               clear_flag(memory, bytes, made & (GS_PAGES_WIPED | GS_PAGES_PRIVATE),
                          MADV_KEEPONFORK) &&
               clear_flag(memory, bytes, made & GS_PAGES_NO_DUMP, MADV_DODUMP) &&
               clear_flag(memory, bytes, made & GS_PAGES_READ, MADV_NORMAL) &&
               clear_flag(memory, bytes, made & GS_PAGES_MERGED, MADV_UNMERGEABLE) &&
               ((made & GS_PAGES_LOCKED) || munlock(memory, bytes) == 0);
    }
    errno = saved;
    return done;
}
