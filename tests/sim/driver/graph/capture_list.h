/*
 * capture_list.h - what capture.c and capture_check.c share: captures themselves.
 * Owns: nothing.   Lock: graph_lock for all of it, unless it says otherwise.
 */
#ifndef SIM_CAPTURE_LIST_H
#define SIM_CAPTURE_LIST_H

#include "capture.h"

struct sim_capture {
    atomic_uint refs;         /* the list, its streams, events recorded in it */
    uint64_t id;              /* immutable */
    CUstreamCaptureMode mode; /* immutable */
    uint64_t thread;          /* immutable: the one that began it */
    bool owns_graph;          /* nobody has the graph's handle before the end */
    bool invalid;
    bool ended;
    struct sim_graph *graph;    /* immutable; with a reference */
    struct sim_stream *origin;  /* immutable; one of `streams` */
    struct sim_stream *streams; /* each with a reference */
    struct sim_capture *next;
};

extern struct sim_capture *sim_capture_first;

void sim_capture_ref(struct sim_capture *capture);
void sim_capture_unref(struct sim_capture *capture);

/* Make a stream part of a capture. Needs graph_lock. */
void sim_capture_join(struct sim_stream *stream, struct sim_capture *capture);

/* A number for the calling thread, never 0 and never reused. Takes no lock. */
uint64_t sim_capture_thread(void);

/*
 * Invalidate the captures of blocking streams of the context if that is its legacy
 * stream.
 *
 * Errors:  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT  there were some
 */
CUresult sim_capture_forbid_legacy(const struct sim_stream *stream) GS_MUST_USE;

#endif
