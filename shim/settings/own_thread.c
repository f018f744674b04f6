/*
 * own_thread.c - the library's own threads.
 * Owns:  a slot for each running thread; the key whose destructor runs at the end of the
 *        first thread.
 * Lock:  none; a slot is claimed and released by an atomic exchange of its state.
 */
#include "shim/settings/own_thread.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_float_mode.h"
#include "gs_read_text.h"
#include "gs_wait.h"
#include "shim/settings/checkers.h"
#include "shim/settings/thread.h"
#include "shim/settings/thread_value.h"
#include "tracker/stacks/alt_stack.h"

#define STACK_BYTES (1u << 20)
#define MOST        16u
#define NAP_NS      20000
/* Our threads look for the end of the program's every 0.4 s or more often, under load
 * later. */
#define FIRST_WAIT_NS 5000000000ull

static struct slot {
    const char *name;      /* owned by the thread that has claimed the slot */
    void *(*body)(void *); /* likewise */
    pid_t number;          /* atomic; 0: the thread does not run, or not yet */
    bool taken;            /* atomic */
} slots[MOST];

static void *run(void *argument)
{
    struct slot *slot = argument;
    (void)prctl(PR_SET_NAME, slot->name);
    (void)gs_float_mode_begin(); /* it has that of the thread that started it */
    __atomic_store_n(&slot->number, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    gs_checkers_ignore_begin();
    gs_thread.is_own = true;
    (void)slot->body(NULL);
    gs_checkers_ignore_end();
    /* If this is the last thread, the C library calls exit here, and the report is the
     * program's. */
    gs_thread.depth = 0;
    gs_thread.is_own = false;
    __atomic_store_n(&slot->number, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->taken, false, __ATOMIC_RELEASE);
    return NULL;
}

/* A child that shares the memory (clone with CLONE_VM) has no threads of ours: they would
 * outlive it, in a process that its parent waits for. */
static pid_t process; /* of the library's start; 0: it has not started */

static struct slot *claim(void)
{
    if (process != 0 && (pid_t)syscall(SYS_getpid) != process) {
        return NULL;
    }
    for (size_t i = 0; i < MOST; i++) {
        if (!__atomic_exchange_n(&slots[i].taken, true, __ATOMIC_ACQ_REL)) {
            return &slots[i];
        }
    }
    return NULL;
}

/* The C library needs 4 KiB of stack, and its symbols are not bound yet. */
#define CREATE_BYTES ((size_t)8 << 10)

struct creation {
    struct slot *slot;
    bool done;
};

static void create(void *arg)
{
    struct creation *creation = arg;
    sigset_t all, trap, was;
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0) {
        return;
    }
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    sigemptyset(&trap);
    sigaddset(&trap, SIGSYS);
    (void)pthread_sigmask(SIG_BLOCK, &all, &was);
    /* A filter that traps, of the program or around it, ends the process where its
     * handler cannot run. */
    (void)pthread_sigmask(SIG_UNBLOCK, &trap, NULL);
    creation->done = pthread_create(&thread, &attributes, run, creation->slot) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
    (void)pthread_attr_destroy(&attributes);
}

bool gs_own_thread(const char *name, void *(*body)(void *))
{
    struct gs_wait wait = {.nap_ns = NAP_NS};
    struct slot *slot = claim();
    if (!slot) {
        return false;
    }
    slot->name = name;
    slot->body = body;
    struct creation creation = {.slot = slot};
    gs_alt_stack_call(CREATE_BYTES, create, &creation);
    if (!creation.done) {
        __atomic_store_n(&slot->taken, false, __ATOMIC_RELEASE);
        return false;
    }
    /* A thread that ends at once has released its slot already. */
    while (!__atomic_load_n(&slot->number, __ATOMIC_ACQUIRE) &&
           __atomic_load_n(&slot->taken, __ATOMIC_ACQUIRE)) {
        (void)gs_wait_step(&wait);
    }
    return true;
}

bool gs_own_thread_is(pid_t number)
{
    for (size_t i = 0; i < MOST; i++) {
        if (__atomic_load_n(&slots[i].number, __ATOMIC_ACQUIRE) == number) {
            return number != 0;
        }
    }
    return false;
}

/* ---- the first thread -------------------------------------------------------------- */

static pthread_once_t first_key_once = PTHREAD_ONCE_INIT;
static pthread_key_t first_key;    /* immutable after first_key_once */
static bool first_key_made;        /* likewise */
static void (*at_first_end)(void); /* immutable after the constructor */
static bool first_ended;           /* atomic */
static bool first_awaits;          /* atomic; the first thread waits for ours to end */
static unsigned first_rounds;      /* of destructors; the first thread's */

static void first_has_ended(void)
{
    if (!__atomic_exchange_n(&first_ended, true, __ATOMIC_SEQ_CST) && at_first_end) {
        at_first_end();
    }
}

/* Links of /proc/self/task: two, one of each thread. */
#define FOLDER_LINKS 2u

/* Returns whether the process has the first thread and those of the library's own, and no
 * other. Out: *own  how many of the library's own run */
static bool others_have_ended(unsigned *own)
{
    struct stat tasks;
    *own = 0;
    for (size_t i = 0; i < MOST; i++) {
        *own += __atomic_load_n(&slots[i].number, __ATOMIC_ACQUIRE) != 0;
    }
    return stat("/proc/self/task", &tasks) == 0 &&
           (uint64_t)tasks.st_nlink <= FOLDER_LINKS + 1 + (uint64_t)*own;
}

/* Returns whether this thread is the last one of the process. */
static bool is_alone(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink <= FOLDER_LINKS + 1;
}

/*
 * If only the library's own threads remain, they end first. Then the C library calls exit
 * in the first thread, as natively, and with it the destructors of the thread's
 * thread_local objects, which nothing calls if another thread is the last. The program's
 * own keys may have destructors that start one of our threads again, so this is done in
 * each round of destructors.
 */
static void first_ends(void *unused)
{
    struct gs_wait wait = {.nap_ns = NAP_NS,
                           .longest_ns = 50 * (uint64_t)NAP_NS,
                           .until_ns = gs_now_ns() + FIRST_WAIT_NS};
    unsigned own;
    (void)unused;
    first_has_ended();
    __atomic_store_n(&first_awaits, true, __ATOMIC_SEQ_CST);
    while (!is_alone() && others_have_ended(&own) && gs_wait_step(&wait)) {
    }
    __atomic_store_n(&first_awaits, false, __ATOMIC_SEQ_CST);
    if (++first_rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
        (void)pthread_setspecific(first_key, &first_key);
    }
}

static void make_first_key(void)
{
    first_key_made = pthread_key_create(&first_key, first_ends) == 0;
}

static bool has_first_key(void)
{
    return pthread_once(&first_key_once, make_first_key) == 0 && first_key_made;
}

static void watch_first(void)
{
    if (syscall(SYS_gettid) == syscall(SYS_getpid) && has_first_key()) {
        (void)pthread_setspecific(first_key, &first_key);
    }
}

void gs_own_thread_watch_first(void (*ends)(void))
{
    at_first_end = ends;
    watch_first();
}

void gs_own_thread_watch_first_elsewhere(void)
{
    if (has_first_key()) {
        (void)gs_thread_value_set((pid_t)syscall(SYS_getpid), first_key, &first_key);
    }
}

bool gs_first_thread_ended(void)
{
    return __atomic_load_n(&first_ended, __ATOMIC_SEQ_CST);
}

/* ---- the last threads -------------------------------------------------------------- */

bool gs_own_threads_remain(void)
{
    char text[512];
    unsigned own;
    if (__atomic_load_n(&first_awaits, __ATOMIC_SEQ_CST)) {
        return others_have_ended(&own);
    }
    (void)gs_read_text("/proc/self/stat", text, sizeof(text));
    const char *name_end = strrchr(text, ')');
    if (!name_end || strncmp(name_end, ") Z", 3) != 0) {
        return false;
    }
    first_has_ended(); /* by the system call it ends without its key's destructor */
    return others_have_ended(&own);
}

/* ---- start and fork ---------------------------------------------------------------- */

void gs_own_thread_reset(void)
{
    memset(slots, 0, sizeof(slots));
    process = 0;
    first_ended = first_awaits = false;
    first_rounds = 0;
}

/* The first thread of a forked child may be another one of its parent's. */
void gs_own_thread_begin(void)
{
    process = (pid_t)syscall(SYS_getpid);
    if (at_first_end) {
        watch_first();
    }
}
