/*
 * cudasim_notify.h - how a layer between a program and the simulated driver (an
 * allocator that hands out parts of the driver's memory) tells the driver's order oracle
 * what it does.
 *
 * The simulated libcuda.so.1 exports cudasim_notify; a real driver does not, so a layer
 * looks the name up in the driver's module and says nothing where it is absent.
 *
 * Notes are by the calling thread and nest: between ENTER and LEAVE every driver call of
 * the thread is the layer's own, except those between FORWARD and BACK, which it makes in
 * the program's place. Test programs, too, may use HOST_READS and the like.
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
    CUDASIM_HAND_OUT, /* address, bytes: the program gets it; stream, if ordered by one */
    CUDASIM_TAKE_BACK,   /* address: the program freed it, and the free has waited as it
                          * will; stream, if ordered by one */
    CUDASIM_RETIRE,      /* address: its bytes may be handed out, because `event` was seen
                          * complete; no event: because of the waits made since ENTER;
                          * bytes, if not 0: so many further notes tell of more events */
    CUDASIM_YIELD,       /* a place where another thread may run */
    CUDASIM_HOST_READS,  /* the program itself reads or writes bytes */
    CUDASIM_HOST_WRITES, /* that the device can see */
    CUDASIM_LISTENS,     /* is anybody to be told? 0: yes; 1: no note would do anything */
    CUDASIM_HOST_SAW     /* the program saw, in memory at `address`, that the device wrote
                          * there: it goes on behind that write */
};

struct cudasim_note {
    uint32_t size; /* sizeof(struct cudasim_note) */
    uint32_t kind; /* enum cudasim_note_kind */
    const char *call;
    uint64_t address, bytes;
    void *stream;           /* CUstream */
    void *event;            /* CUevent */
    uint8_t stream_ordered; /* HAND_OUT, TAKE_BACK: in the order of `stream` */
    uint8_t per_thread;     /* stream 0 is the thread's */
    uint8_t native_waits;   /* ENTER: the program's call would wait, too: as a free of
                               `bytes` at `address`; 0: as a free of large memory */
};

/* 0 (for LISTENS perhaps 1), or -1 for a note it does not know. */
typedef int cudasim_notify_function(const struct cudasim_note *note);

#endif
