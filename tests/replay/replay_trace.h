/*
 * replay_trace.h - an allocation trace in memory, and the files it comes from and goes
 * to.
 *
 * Two formats are read: what the library records (shim/trace/trace_format.h) and the CSV
 * that traces/README.md describes, either of them gzip'd. What is damaged is read up to
 * the damage, with one sentence about it; what is no trace at all is refused.
 *
 * Owns: nothing; a trace is its holder's.   Lock: none.   Formats: docs/traces.md
 */
#ifndef REPLAY_TRACE_H
#define REPLAY_TRACE_H

#include <stdio.h>

#include "trace_format.h"

#define TRACE_MAX_THREADS 1024
#define TRACE_NOTE_BYTES  256

/* One operation. A thread's follow each other; all of them are in causal order. */
struct trace_op {
    uint64_t time_ns;
    uint64_t bytes;  /* of the allocation, also in its free */
    uint32_t id;     /* of the allocation, dense from 0 */
    uint32_t thread; /* dense from 0 */
    uint16_t stream; /* of this call: dense from 0 */
    uint8_t op;      /* GS_TRACE_ALLOC, _FREE or _SYNC */
    uint8_t kind;    /* enum gs_trace_kind of the allocation */
    uint8_t how;     /* enum gs_trace_how */
    uint8_t device;
};

struct trace {
    struct trace_op *ops;
    size_t count, room;
    uint32_t allocations; /* ids in use */
    uint32_t threads, streams;
};

/* What there was to say about a file: "" if nothing. */
struct trace_note {
    char text[TRACE_NOTE_BYTES];
};

void trace_free(struct trace *trace);
/* Ends the program if there is no memory. */
void trace_add(struct trace *trace, const struct trace_op *op);

/*
 * Read a trace.
 * Out:    *out   to be freed with trace_free, also if it was damaged
 *         *note  one sentence if something is wrong
 * Returns false if it is no trace; *out is empty then.
 */
bool trace_load(const char *path, struct trace *out, struct trace_note *note);
/* The same from memory: either format, not compressed. */
bool trace_parse(const unsigned char *data, size_t length, struct trace *out,
                 struct trace_note *note);

/* What trace_parse chooses from. */
bool trace_is_binary(const unsigned char *data, size_t length);
bool trace_parse_binary(const unsigned char *data, size_t length, struct trace *out,
                        struct trace_note *note);
bool trace_parse_csv(const char *data, size_t length, struct trace *out,
                     struct trace_note *note);

/* Write it. Returns false if the file could not be written; errno says why. */
bool trace_write_csv(const struct trace *trace, FILE *file);
bool trace_write_binary(const struct trace *trace, FILE *file);

/* Only the operations on memory of these kinds (bits 1 << kind), and the waits. */
void trace_keep_kinds(struct trace *trace, unsigned kinds);

/* Bytes and allocations live at most. */
struct trace_peaks {
    uint64_t live_bytes;
    uint32_t live_count;
    size_t live_count_at; /* the operation that reached live_count */
    uint32_t made;        /* allocations */
};
struct trace_peaks trace_find_peaks(const struct trace *trace);

/* "device", "async", ...; NULL: no such kind. */
const char *trace_kind_name(unsigned kind);
/* The kind of that name; GS_TRACE_KIND_NONE if there is none. */
unsigned trace_kind_of(const char *name);

/* Allocate zeroed memory or end the program with a line. */
void *trace_alloc(size_t count, size_t bytes);

#endif
