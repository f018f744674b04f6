/*
 * other_threads.c - finds the other threads of the process in /proc/self/task.
 *
 * A full search reads the names of all threads: about three system calls a thread, each
 * about a microsecond. A program that frees all the time would pay this price for each
 * epoch, so the result of a search is cached: the number of threads and, if all other
 * threads belong to the driver, their thread ids. (Threads of the library count as the
 * driver's: neither kind can end the work that a free waits for.) While the number of
 * threads is unchanged and all cached threads live, no other thread exists. The kernel
 * reuses the id of an ended thread only after all other ids, which takes far longer than
 * TRUST_NS; after TRUST_NS the next query searches in full. The answer "not alone" is
 * cached for the same time: a stale one only makes epochs wait for their events.
 *
 * Owns:  the result of the last full search.   Lock: alone_lock, not held in a full
 *        search.
 */
#include "shim/order/other_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_locks.h"
#include "gs_wait.h"
#include "shim/settings/own_thread.h"
#include "shim/settings/thread.h"

#define TRUST_NS    10000000u
#define MOST_OTHERS 16u
#define TASKS       "/proc/self/task"
/* The link count of a directory of threads exceeds the number of threads by two. */
#define OWN_LINKS 2u
/* How long gs_await_driver_threads looks, and how often. */
#define PATIENCE_NS 200000000u
#define NAP_NS      200000u

/* The record format of getdents64. */
struct entry {
    uint64_t inode, next;
    unsigned short size;
    unsigned char type;
    char name[];
};

struct search {
    bool alone;
    bool lasts; /* the link count gives the number of threads */
    uint32_t self;
    unsigned count;             /* of threads, up to where the search ended */
    pid_t drivers[MOST_OTHERS]; /* valid if alone: all threads but the calling one */
    unsigned driver_count;
    uint64_t links, at_ns;
};

static struct gs_mutex alone_lock = GS_MUTEX(GS_RANK_ALONE);
static struct search last; /* under alone_lock */

/* Reads the beginning of a thread's file of /proc. Returns the number of bytes, 0 if it
 * cannot be read. */
static size_t read_file(int tasks, const char *thread, const char *name, char *to,
                        size_t size)
{
    char path[48];
    int length = snprintf(path, sizeof(path), "%s/%s", thread, name);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        return 0;
    }
    int file = (int)syscall(SYS_openat, tasks, path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return 0;
    }
    long got = syscall(SYS_read, file, to, size);
    syscall(SYS_close, file);
    return got > 0 ? (size_t)got : 0;
}

/* Returns true if the thread has the name of a driver's thread. */
static bool is_drivers(int tasks, const char *thread)
{
    static const char driver[] = {'c', 'u', 'd', 'a'};
    char name[sizeof(driver)];
    return read_file(tasks, thread, "comm", name, sizeof(name)) == sizeof(name) &&
           memcmp(name, driver, sizeof(driver)) == 0;
}

/* Returns true if the thread runs, or waits for a processor. */
static bool is_runnable(int tasks, const char *thread)
{
    char status[64] = "";
    (void)read_file(tasks, thread, "stat", status, sizeof(status) - 1);
    const char *state = strrchr(status, ')');
    return state && strncmp(state, ") R", 3) == 0;
}

static pid_t number_of(const char *thread)
{
    pid_t number = 0;
    for (; *thread >= '0' && *thread <= '9'; thread++) {
        number = 10 * number + (*thread - '0');
    }
    return *thread == '\0' ? number : 0;
}

/* The link count of the directory of threads; 0: not available. */
static uint64_t links_now(void)
{
    struct stat about;
    return fstatat(AT_FDCWD, TASKS, &about, 0) == 0 ? (uint64_t)about.st_nlink : 0;
}

/* What visit_threads calls: the directory of all threads, and a thread's name in it. */
typedef bool thread_visitor(void *data, int tasks, const char *thread);

/* Visits the threads of the process until `visit` returns false. Returns true if it
 * visited all. */
static bool visit_threads(thread_visitor *visit, void *data)
{
    union {
        struct entry first;
        char bytes[1024];
    } buffer;
    bool goes_on = true;
    long got = -1;
    int tasks =
        (int)syscall(SYS_openat, AT_FDCWD, TASKS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (tasks >= 0 && goes_on &&
           (got = syscall(SYS_getdents64, tasks, &buffer, sizeof(buffer))) > 0) {
        for (long at = 0; at < got && goes_on;) {
            const struct entry *entry = (const void *)(buffer.bytes + at);
            goes_on = entry->name[0] == '.' || visit(data, tasks, entry->name);
            at += entry->size;
        }
    }
    if (tasks >= 0) {
        syscall(SYS_close, tasks);
    }
    return got == 0 && goes_on;
}

/* Counts one more thread. Returns false for a thread of the program: neither the driver's
 * nor the library's own. */
static bool count_thread(void *data, int tasks, const char *thread)
{
    struct search *search = data;
    pid_t number = number_of(thread);
    search->count++;
    if (number == (pid_t)search->self) {
        return true;
    }
    if (!gs_own_thread_is(number) && !is_drivers(tasks, thread)) {
        return false;
    }
    if (search->driver_count < MOST_OTHERS) {
        search->drivers[search->driver_count] = number;
    }
    search->driver_count++;
    return true;
}

/* Searches all threads of the process for one that may make calls of the program. */
static void search_fully(struct search *search)
{
    *search = (struct search){.self = gs_thread_id(), .at_ns = gs_now_ns()};
    search->alone =
        visit_threads(count_thread, search) && search->count == search->driver_count + 1;
    search->links = links_now();
    search->lasts = search->links != 0 &&
                    (!search->alone || (search->driver_count <= MOST_OTHERS &&
                                        search->links == search->count + OWN_LINKS));
}

static bool all_live(const struct search *search)
{
    pid_t process = getpid();
    for (unsigned i = 0; i < search->driver_count; i++) {
        if (syscall(SYS_tgkill, process, search->drivers[i], 0) != 0) {
            return false;
        }
    }
    return true;
}

/* Returns true if the cached result still holds. The order of the checks matters: with an
 * unchanged number of threads, a new thread can exist only if a cached one has ended. */
static bool still_holds(const struct search *search)
{
    return search->lasts && gs_now_ns() - search->at_ns < TRUST_NS &&
           (!search->alone || search->self == gs_thread_id()) &&
           search->links == links_now() && (!search->alone || all_live(search));
}

bool gs_alone(void)
{
    struct search search;
    gs_mutex_lock(&alone_lock);
    search = last;
    gs_mutex_unlock(&alone_lock);
    if (!still_holds(&search)) {
        search_fully(&search);
        gs_mutex_lock(&alone_lock);
        last = search;
        gs_mutex_unlock(&alone_lock);
    }
    return search.alone;
}

void gs_alone_reset(void)
{
    gs_mutex_init(&alone_lock, GS_RANK_ALONE);
    last.lasts = false;
}

static bool is_no_running_driver(void *data, int tasks, const char *thread)
{
    bool *found = data;
    *found = is_drivers(tasks, thread) && is_runnable(tasks, thread);
    return !*found;
}

void gs_await_driver_threads(void)
{
    struct gs_wait wait = {.nap_ns = NAP_NS, .until_ns = gs_now_ns() + PATIENCE_NS};
    int saved = errno;
    bool found = false;
    do {
        (void)visit_threads(is_no_running_driver, &found);
    } while (found && gs_wait_step(&wait));
    errno = saved;
}
