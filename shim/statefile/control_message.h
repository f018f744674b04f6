/*
 * control_message.h - how the command gpushim (tools/reader/ask.c) asks a running process
 * (control/control.c).
 *
 * The process holds nothing for it but a thread: no socket, no descriptor, no file, no
 * shared memory. The thread's name is GS_CONTROL_THREAD and the number of seccomp filters
 * that it runs under, or GS_CONTROL_ANY. It sleeps in rt_sigtimedwait for signal 32,
 * directed to itself alone: the C library keeps this number from programs, it is blocked
 * in the thread, so no handler and no other thread sees it, and who may send it may end
 * the process anyway.
 *
 * The command makes a System V shared memory segment, removed at once, so it ends with
 * its last user however that one ends; writes the request; and sends the signal with the
 * segment's number. The process attaches the segment and answers in it, piece by piece.
 * For file and line of a report's frames it may ask back (tracker/names/line_message.h):
 * the command has the programs that find them, and the process starts no child.
 * The kernel has checked the rights of both: those of a signal, and of the segment.
 *
 * Locks: none; the word `turn` says whose the segment is.
 */
#ifndef GS_CONTROL_MESSAGE_H
#define GS_CONTROL_MESSAGE_H

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What `export` sends besides the formats of GPUSHIM_OUTPUT: a state file. */
#define GS_CONTROL_STATE "state"

#define GS_CONTROL_THREAD     "gpushim-ctrl:"
#define GS_CONTROL_ANY        "on"
#define GS_CONTROL_NAME_BYTES 16 /* of a thread, with its NUL */
/* SIGCANCEL of glibc, which takes it only from pthread_cancel. */
#define GS_CONTROL_SIGNAL 32
/* The library's own, to its thread. Unlike a real-time signal it is never refused,
 * however many signals wait (RLIMIT_SIGPENDING). Nobody sends it: Linux has no use for
 * it. */
#define GS_CONTROL_END_SIGNAL 16 /* SIGSTKFLT */
#define GS_CONTROL_END_MASK   (1ull << (GS_CONTROL_END_SIGNAL - 1))
#define GS_CONTROL_MASK       (1ull << (GS_CONTROL_SIGNAL - 1) | GS_CONTROL_END_MASK)

#define GS_CONTROL_REQUEST_BYTES 4096         /* with its NUL */
#define GS_CONTROL_PIECE_BYTES   (60u << 10)  /* of an answer */
#define GS_CONTROL_ANSWER_BYTES  (256u << 20) /* the most that the command takes */
#define GS_CONTROL_MAGIC         0x316d696873757067ull

enum gs_control_turn {
    GS_CONTROL_ASKED = 1, /* the request is there */
    GS_CONTROL_TAKEN,     /* the process works */
    GS_CONTROL_PIECE,     /* a piece is there; the last one ends the answer */
    GS_CONTROL_NEXT,      /* the command has it, and waits for the next */
    GS_CONTROL_LINES,     /* queries are there, and later, in their place, the answers */
    GS_CONTROL_LEFT,      /* the command waits no more */
    GS_CONTROL_OTHER      /* the process has another form of this struct */
};

struct gs_control_box {
    uint64_t magic;
    uint32_t turn;                          /* atomic */
    uint32_t bytes;                         /* sizeof this struct */
    uint32_t refused;                       /* 1: the answer says why there is none */
    uint32_t length;                        /* of the piece */
    uint64_t total;                         /* of the answer */
    uint32_t finds_lines;                   /* 1: the command answers GS_CONTROL_LINES */
    char request[GS_CONTROL_REQUEST_BYTES]; /* "WORD" or "WORD ARGUMENT" */
    char piece[GS_CONTROL_PIECE_BYTES];
    char lines[GS_CONTROL_PIECE_BYTES]; /* a message, with its NUL */
};

/* Hands the segment over, if it is still the caller's: `from` is the turn. */
static inline bool gs_control_hand_over(struct gs_control_box *box, uint32_t from,
                                        uint32_t to)
{
    bool done = __atomic_compare_exchange_n(&box->turn, &from, to, false,
                                            __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    (void)syscall(SYS_futex, &box->turn, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    return done;
}

/* Waits while the turn is `now`, `wait_ns` at most. Returns the turn. */
static inline uint32_t gs_control_await(struct gs_control_box *box, uint32_t now,
                                        uint64_t wait_ns)
{
    const struct timespec time = {.tv_sec = (time_t)(wait_ns / 1000000000u),
                                  .tv_nsec = (long)(wait_ns % 1000000000u)};
    if (__atomic_load_n(&box->turn, __ATOMIC_ACQUIRE) == now) {
        (void)syscall(SYS_futex, &box->turn, FUTEX_WAIT, now, &time, NULL, 0);
    }
    return __atomic_load_n(&box->turn, __ATOMIC_ACQUIRE);
}

/* How many seccomp filters a thread runs under, from the text of its file `status`.
 * Before Linux 5.9 more than one count as one. */
static inline unsigned gs_control_filters(const char *status)
{
    const char *mode = strstr(status, "\nSeccomp:"),
               *count = strstr(status, "\nSeccomp_filters:");
    if (!mode || strtoul(mode + strlen("\nSeccomp:"), NULL, 10) == 0) {
        return 0;
    }
    unsigned long filters =
        count ? strtoul(count + strlen("\nSeccomp_filters:"), NULL, 10) : 1;
    return filters > 0 ? (unsigned)filters : 1; /* strict mode */
}

#endif
