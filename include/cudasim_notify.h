/*
 * cudasim_notify.h - notifications to the order oracle of the simulated driver from a
 * layer between the program and the driver (an allocator that hands out parts of the
 * driver's memory).
 *
 * The simulated libcuda.so.1 exports cudasim_notify; a real driver does not. So a layer
 * looks the name up in the driver's module, and sends nothing where it is absent.
 *
 * Notifications are per thread and nest: between ENTER and LEAVE every driver call of the
 * thread is the layer's own, except those between FORWARD and BACK, which the layer makes
 * on behalf of the program. Test programs, too, may send HOST_READS and the like.
 *
 * Not installed.   Owns: nothing.   Lock: none.
 * Design: docs/simulator.md, "The oracle"
 */
#ifndef CUDASIM_NOTIFY_H
#define CUDASIM_NOTIFY_H

#include <stddef.h>
#include <stdint.h>

enum cudasim_note_kind {
    CUDASIM_ENTER = 1, /* the layer serves a call of the program: `call` */
    CUDASIM_LEAVE,
    CUDASIM_FORWARD, /* the next driver calls are the program's own */
    CUDASIM_BACK,
    CUDASIM_HAND_OUT,    /* address, bytes: handed to the program; stream, if ordered by
                          * one */
    CUDASIM_TAKE_BACK,   /* address: the program freed it, and the free has done all its
                          * waits; stream, if ordered by one */
    CUDASIM_RETIRE,      /* address: its bytes may be handed out, because `event` was seen
                          * complete, or, without event, because of the waits since ENTER;
                          * bytes: number of notifications that follow with more events */
    CUDASIM_YIELD,       /* a point where another thread may run */
    CUDASIM_HOST_READS,  /* the program itself reads or writes bytes */
    CUDASIM_HOST_WRITES, /* that the device can access */
    CUDASIM_LISTENS,     /* is anything recorded? 0: yes; 1: no notification has an
                          * effect */
    CUDASIM_HOST_SAW     /* the program saw the device's write at `address`: it continues
                          * after that write */
};

struct cudasim_note {
    uint32_t size; /* sizeof(struct cudasim_note) */
    uint32_t kind; /* enum cudasim_note_kind */
    const char *call;
    uint64_t address, bytes;
    void *stream;           /* CUstream */
    void *event;            /* CUevent */
    uint8_t stream_ordered; /* HAND_OUT, TAKE_BACK: ordered by `stream` */
    uint8_t per_thread;     /* stream 0 is the per-thread default stream */
    uint8_t native_waits;   /* ENTER: the program's call would wait natively, as a free of
                             * `bytes` at `address`; 0: as a free of large memory */
};

/* Returns 0 (for LISTENS perhaps 1), or -1 for an unknown kind. */
typedef int cudasim_notify_function(const struct cudasim_note *note);

#endif
