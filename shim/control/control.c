/*
 * control.c - the thread that the command gpushim asks.
 *
 * The program must not notice it. So it holds no descriptor, sleeps in one system call
 * until it is asked, and lives no longer than a context does: at that time the driver has
 * threads of its own, so the process has several in any case. Where the driver has none,
 * a process whose first thread has ended ends with the program's last thread: from then
 * on the thread sleeps for short times, and ends when only the library's remain. That a
 * system call has ended the first thread only the library's other threads notice: in a
 * process that has freed no memory, and so has none, this one stays.
 *
 * A seccomp filter may end a process for a system call that the program never makes.
 * Filters that the first process of this process namespace has, too, are a container's,
 * and let general programs run; with any other there is no thread, unless GPUSHIM_CONTROL
 * is set. One that comes later finds the thread asleep: the context is made only once it
 * is, and the command then does not wake it.
 *
 * The signal stays blocked. But code of others that runs on the thread, such as an
 * allocator's, may block all signals and restore the mask by the C library, whose masks
 * never have this signal: it is blocked again before each wait, and one that comes in the
 * meantime finds a handler that blocks it and queues it again. Its default would end the
 * process.
 *
 * Owns:  the thread.   Lock: none; `life`, `number` and `wakers` are atomic.
 */
#include "shim/control/control.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_read_text.h"
#include "gs_uncancelled.h"
#include "gs_wait.h"
#include "shim/control/answers.h"
#include "shim/settings/environment.h"
#include "shim/settings/log.h"
#include "shim/settings/own_thread.h"
#include "shim/statefile/control_message.h"
#include "tracker/names/line_message.h"

#define MS_NS        1000000ull
#define PIECE_NS     (5000 * MS_NS) /* the command takes a piece in this time */
#define SLEEPS_NS    (200 * MS_NS)  /* in which the thread sleeps, at any load */
#define SLICE_NS     (100 * MS_NS)
#define TICK_NS      (100 * MS_NS)
#define NAP_NS       (MS_NS / 10)
#define MOST_FILTERS 99u

/* GIVEN_UP: there is no thread in this process. */
enum { IDLE, RUNS, GIVEN_UP };
static int life;
static pid_t number;    /* of the thread while it may be woken; 0: none */
static unsigned wakers; /* threads that are about to wake it */
/* Of the thread, set before it starts. */
static char name[GS_CONTROL_NAME_BYTES];

static struct gs_answer answer; /* the thread's; too large for its stack */

static bool has_context(void)
{
    struct gs_state *state = gs_state_peek();
    return state && gs_context_nth(state, 0);
}

/* ---- one request ------------------------------------------------------------------- */

/* Attaches the segment of a request. NULL: it is gone, or another user's. */
static struct gs_control_box *attach(int segment)
{
    struct shmid_ds about;
    uid_t own = (uid_t)syscall(SYS_geteuid);
    if (shmctl(segment, IPC_STAT, &about) != 0 ||
        (about.shm_perm.cuid != own && about.shm_perm.cuid != 0) ||
        about.shm_segsz < offsetof(struct gs_control_box, request)) {
        return NULL;
    }
    struct gs_control_box *box = shmat(segment, NULL, 0);
    if (box == (void *)-1) {
        return NULL;
    }
    if (box->magic == GS_CONTROL_MAGIC && box->bytes == sizeof(*box) &&
        about.shm_segsz >= sizeof(*box)) {
        return box;
    }
    if (box->magic == GS_CONTROL_MAGIC) {
        (void)gs_control_hand_over(box, GS_CONTROL_ASKED, GS_CONTROL_OTHER);
    }
    (void)shmdt(box);
    return NULL;
}

static void write_answer(struct gs_control_box *box, const struct gs_answer *from)
{
    const char *text = from->text;
    size_t left = from->length;
    uint32_t turn = GS_CONTROL_TAKEN;
    if (!from->refused && from->memory) {
        text = from->memory;
        left = from->memory_bytes;
    } else if (!from->refused && from->report.length > 0) {
        text = from->report.data;
        left = from->report.length;
    }
    box->refused = from->refused;
    box->total = left;
    do {
        size_t length = left < sizeof(box->piece) ? left : sizeof(box->piece);
        memcpy(box->piece, text, length);
        if (text == from->memory) {
            static_assert(sizeof(from->head) <= sizeof(box->piece), "in the first piece");
            memcpy(box->piece, &from->head, sizeof(from->head));
        }
        box->length = (uint32_t)length;
        text += length;
        left -= length;
        if (!gs_control_hand_over(box, turn, GS_CONTROL_PIECE)) {
            return;
        }
        uint64_t until_ns = gs_now_ns() + PIECE_NS;
        turn = GS_CONTROL_PIECE;
        /* Without a context the thread ends: the process may wait for it. */
        while (left > 0 && turn == GS_CONTROL_PIECE && gs_now_ns() < until_ns &&
               has_context()) {
            turn = gs_control_await(box, turn, SLICE_NS);
        }
    } while (left > 0 && turn == GS_CONTROL_NEXT);
}

/* ---- lines ------------------------------------------------------------------------- */

/* Who has asked, and finds lines. */
struct asker {
    struct gs_line_server server;
    struct gs_control_box *box;
};

/* Has one message answered in place. Returns whether that was done in time. */
static bool exchange(struct gs_control_box *box, uint64_t until_ns)
{
    uint32_t turn = GS_CONTROL_LINES;
    if (!gs_control_hand_over(box, GS_CONTROL_TAKEN, turn)) {
        return false;
    }
    while (turn == GS_CONTROL_LINES && gs_now_ns() < until_ns && has_context()) {
        turn = gs_control_await(box, turn, SLICE_NS);
    }
    /* Taken back, it is not the command's any more. */
    return turn == GS_CONTROL_TAKEN ||
           !gs_control_hand_over(box, GS_CONTROL_LINES, GS_CONTROL_TAKEN);
}

static const char *find_lines(const struct gs_line_server *server, unsigned timeout_ms,
                              struct gs_line_query *queries, size_t count)
{
    static char text[GS_CONTROL_PIECE_BYTES]; /* what is read does not change */
    struct gs_control_box *box = ((const struct asker *)server)->box;
    uint64_t until_ns = gs_now_ns() + timeout_ms * MS_NS;
    for (size_t at = 0, asked; at<count; at += asked> 0 ? asked : 1) {
        asked =
            gs_line_message_ask(queries + at, count - at, box->lines, sizeof(box->lines));
        if (asked > 0 && !exchange(box, until_ns)) {
            return "file and line are incomplete: gpushim has not found them in time";
        }
        memcpy(text, box->lines, sizeof(text));
        text[sizeof(text) - 1] = '\0';
        gs_line_message_take(text, queries + at, asked);
    }
    return NULL;
}

static void serve(int segment)
{
    static char line[GS_CONTROL_REQUEST_BYTES]; /* the thread's */
    struct gs_state *state = gs_state_peek();
    struct asker asker = {{find_lines}, attach(segment)};
    struct gs_control_box *box = asker.box;
    if (!box) {
        return;
    }
    memcpy(line, box->request, sizeof(line)); /* the data read does not change */
    answer.refused = answer.cut = false;
    answer.lines = box->finds_lines ? &asker.server : NULL;
    answer.memory = NULL;
    answer.length = 0;
    answer.text[0] = '\0';
    if (gs_control_hand_over(box, GS_CONTROL_ASKED, GS_CONTROL_TAKEN)) {
        if (memchr(line, '\0', sizeof(line)) == NULL) {
            gs_answer_refuse(&answer, "the request is too long");
        } else if (state) {
            gs_answer(state, line, &answer);
        } else {
            gs_answer_refuse(&answer, "the library is not active");
        }
        write_answer(box, &answer);
        gs_text_free(&answer.report);
        answer.report = (struct gs_text){0};
    }
    answer.lines = NULL; /* the asker is on this stack */
    (void)shmdt(box);
}

/* ---- the thread -------------------------------------------------------------------- */

/* Clears the thread's number and waits for the wakers that have read it, so that none
 * sends a signal to a thread that has ended. */
static void hide_number(void)
{
    struct gs_wait wait = {.nap_ns = NAP_NS};
    __atomic_store_n(&number, 0, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&wakers, __ATOMIC_SEQ_CST) > 0) {
        (void)gs_wait_step(&wait);
    }
}

/* Returns true if the thread ends because there is no context; a later one starts
 * another. */
static bool may_end(void)
{
    int idle = IDLE;
    if (has_context()) {
        return false;
    }
    hide_number();
    __atomic_store_n(&life, IDLE, __ATOMIC_SEQ_CST);
    if (!has_context() ||
        !__atomic_compare_exchange_n(&life, &idle, RUNS, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)) {
        return true;
    }
    __atomic_store_n(&number, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    return may_end();
}

/* The kernel's form: the C library refuses this signal. */
struct action {
    void (*handler)(int number, siginfo_t *info, void *context);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

#if defined(__x86_64__)
#define RESTORER 0x04000000ul
void gs_control_restorer(void);
__asm__(".pushsection .text\n"
        ".type gs_control_restorer, @function\n"
        "gs_control_restorer:\n"
        "    mov $15, %rax\n" /* SYS_rt_sigreturn */
        "    syscall\n"
        ".size gs_control_restorer, . - gs_control_restorer\n"
        ".popsection");
#else /* the kernel has one */
#define RESTORER            0
#define gs_control_restorer NULL
#endif

/* On this thread: the signal waits, blocked, until the thread does. */
static void queue_again(int signal_number, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    pid_t thread = (pid_t)syscall(SYS_gettid);
    uint64_t mask;
    int saved = errno;
    if (thread == __atomic_load_n(&number, __ATOMIC_SEQ_CST)) {
        memcpy(&mask, &interrupted->uc_sigmask, sizeof(mask));
        mask |= GS_CONTROL_MASK;
        memcpy(&interrupted->uc_sigmask, &mask, sizeof(mask));
        (void)syscall(SYS_rt_tgsigqueueinfo, syscall(SYS_getpid), thread, signal_number,
                      info);
    }
    errno = saved;
}

/* Where pthread_cancel has a handler, that one remains: it does nothing for the command's
 * signal. */
static void set_handler(void)
{
    const struct action ours = {queue_again, SA_SIGINFO | SA_RESTART | RESTORER,
                                gs_control_restorer, ~UINT64_C(0)};
    struct action was;
    if (syscall(SYS_rt_sigaction, GS_CONTROL_SIGNAL, NULL, &was, sizeof(was.mask)) == 0 &&
        !was.handler &&
        syscall(SYS_rt_sigaction, GS_CONTROL_SIGNAL, &ours, &was, sizeof(was.mask)) ==
            0 &&
        was.handler && was.handler != queue_again) {
        (void)syscall(SYS_rt_sigaction, GS_CONTROL_SIGNAL, &was, NULL, sizeof(was.mask));
    }
}

/* By the system call: the C library leaves this signal out of its sets. */
static bool block(uint64_t mask)
{
    return syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof(mask)) == 0;
}

/* Waits for a signal. Returns its number, or -1 with errno; EAGAIN: time to check whether
 * the program's threads have ended. */
static long sleep_for(const uint64_t *mask, siginfo_t *info)
{
    const struct timespec tick = {.tv_nsec = TICK_NS};
    (void)block(*mask);
    return syscall(SYS_rt_sigtimedwait, mask, info,
                   gs_first_thread_ended() ? &tick : NULL, sizeof(*mask));
}

/* The thread that serves requests: waits for their signal until the program's threads
 * have ended. */
static void *run(void *unused)
{
    uint64_t mask = GS_CONTROL_MASK;
    pid_t own = (pid_t)syscall(SYS_getpid);
    siginfo_t info;
    gs_thread.depth = 1;
    bool blocked = block(mask);
    set_handler();
    (void)
        gs_own_threads_remain(); /* the first one may have ended before gpushim attach */
    if (blocked) {
        __atomic_store_n(&number, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
        (void)prctl(PR_SET_NAME, name); /* from now on it may be asked */
    }
    bool ended = false;
    while (blocked && !(ended = may_end())) {
        long got = sleep_for(&mask, &info);
        if (got == GS_CONTROL_SIGNAL && info.si_code == SI_QUEUE) {
            serve(info.si_value.sival_int);
        } else if (got == GS_CONTROL_END_SIGNAL &&
                   !(info.si_code == SI_TKILL && info.si_pid == own) &&
                   !(info.si_code == SI_USER && info.si_pid == 0)) {
            /* Where no signal can be queued the library's comes without its sender. */
            mask &= ~GS_CONTROL_END_MASK; /* the program's own, who knows why */
            (void)syscall(SYS_kill, own, GS_CONTROL_END_SIGNAL);
        } else if (got < 0 && errno != EINTR &&
                   (errno != EAGAIN || gs_own_threads_remain())) {
            break;
        }
    }
    if (!ended) {
        hide_number();
        __atomic_store_n(&life, GIVEN_UP, __ATOMIC_SEQ_CST);
    }
    return unused;
}

static bool is_given(void)
{
    return gs_options_given(gs_environment(), "GPUSHIM_CONTROL");
}

static void say_unavailable(const char *why)
{
    gs_log_line(is_given() ? GS_LOG_WARN : GS_LOG_INFO,
                "%s; the command gpushim cannot ask this process", why);
}

/* Writes the thread's name. Returns NULL, or why there must be no thread. */
static const char *choose_name(void)
{
    static char status[4096]; /* one thread starts it at a time */
    if (is_given()) {
        (void)strcpy(name, GS_CONTROL_THREAD GS_CONTROL_ANY);
        return NULL;
    }
    if (gs_read_text("/proc/thread-self/status", status, sizeof(status)) == 0) {
        return "/proc cannot be read";
    }
    unsigned filters = gs_control_filters(status), others = 0;
    if (filters > 0) {
        (void)gs_read_text("/proc/1/status", status, sizeof(status));
        others = syscall(SYS_getpid) == 1 ? 1 : gs_control_filters(status);
    }
    if (filters > others || filters > MOST_FILTERS) {
        return "a seccomp filter is in force (GPUSHIM_CONTROL=on: it allows "
               "rt_sigtimedwait, shmctl, shmat and shmdt)";
    }
    (void)snprintf(name, sizeof(name), GS_CONTROL_THREAD "%u", filters);
    return NULL;
}

/* Waits until the thread sleeps: where a filter that the program installs next must find
 * it. Its name is set after its last other call. */
static void await_sleep(void)
{
    struct gs_wait wait = {.nap_ns = NAP_NS / 4, .until_ns = gs_now_ns() + SLEEPS_NS};
    char path[64], status[256];
    do {
        pid_t thread = __atomic_load_n(&number, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&life, __ATOMIC_SEQ_CST) != RUNS) {
            return;
        }
        (void)snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", (long)thread);
        if (thread != 0 && gs_read_text(path, status, sizeof(status)) > 0) {
            const char *state = strrchr(status, ')');
            if (strstr(status, name) && state && strncmp(state, ") S", 3) == 0) {
                return;
            }
        }
    } while (gs_wait_step(&wait));
}

void gs_control_start(const struct gs_state *state)
{
    int idle = IDLE;
    if (!state->options.control || getauxval(AT_SECURE) ||
        !__atomic_compare_exchange_n(&life, &idle, RUNS, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)) {
        return;
    }
    int before = gs_uncancelled_begin();
    const char *why = choose_name();
    if (!why && !gs_own_thread("gpushim-starts", run)) {
        why = "no thread can be started";
    }
    if (!why) {
        await_sleep();
    } else {
        __atomic_store_n(&life, GIVEN_UP, __ATOMIC_RELEASE);
        say_unavailable(why);
    }
    gs_uncancelled_end(before);
}

/* Has the thread check whether it is to end, or for how long to sleep. */
static void wake(void)
{
    __atomic_add_fetch(&wakers, 1, __ATOMIC_SEQ_CST);
    pid_t thread = __atomic_load_n(&number, __ATOMIC_SEQ_CST);
    if (thread != 0) {
        long own = syscall(SYS_getpid);
        (void)syscall(SYS_tgkill, own, thread, GS_CONTROL_END_SIGNAL);
        /* Where the thread had to leave that one to the program. */
        (void)syscall(SYS_tgkill, own, thread, GS_CONTROL_SIGNAL);
    }
    __atomic_sub_fetch(&wakers, 1, __ATOMIC_SEQ_CST);
}

void gs_control_context_ended(void)
{
    if (__atomic_load_n(&life, __ATOMIC_SEQ_CST) == RUNS && !has_context()) {
        wake();
    }
}

void gs_control_first_thread_ends(void)
{
    if (__atomic_load_n(&life, __ATOMIC_SEQ_CST) == RUNS) {
        wake();
    }
}

void gs_control_reset(void)
{
    life = IDLE;
    number = 0;
    wakers = 0;
    answer.report = (struct gs_text){0};
    gs_moves_reset();
}
