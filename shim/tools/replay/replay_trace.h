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
#ifndef GS_REPLAY_TRACE_H
#define GS_REPLAY_TRACE_H

#include <stdio.h>

#include "shim/trace/trace_format.h"

/* The exit status where a trace cannot be read, was damaged or did not fit. */
enum { GS_REPLAY_BAD = 1 };

/* What messages begin with; set at start. */
extern const char *gs_replay_program;
/* Writes a line to stderr. */
void gs_replay_warn(const char *format, ...) GS_PRINTF(1, 2);
/* The same, and ends the program. */
_Noreturn void gs_replay_fail(const char *format, ...) GS_PRINTF(1, 2);
/* Ends standard output. Returns the exit status: 1, after a line, if it could not be
 * written; else `status`. */
int gs_replay_end(int status);
/* Shows on a terminal how much of a trace is read, the `visit`-th time; `all` 0: no more.
 */
void gs_replay_progress(unsigned visit, size_t done, size_t all);
/* Where it would stand among what is written. */
extern bool gs_replay_no_progress;

#define GS_REPLAY_THREADS    1024
#define GS_REPLAY_NOTE_BYTES 256

/* One operation. A thread's follow each other; all of them are in causal order. */
struct gs_replay_op {
    uint64_t time_ns;
    uint64_t bytes;  /* of the allocation, also in its free */
    uint32_t id;     /* of the allocation, dense from 0 */
    uint32_t stack;  /* of the allocation: its id in the state file; 0: none */
    uint16_t thread; /* dense from 0 */
    uint16_t stream; /* of this call: dense from 0 */
    uint8_t op;      /* GS_TRACE_ALLOC, _FREE or _SYNC */
    uint8_t kind;    /* enum gs_trace_kind of the allocation */
    uint8_t how;     /* enum gs_trace_how */
    uint8_t device;
};

/* A file that is read again for each visit (replay_file.h). */
struct gs_replay_file;

struct gs_replay_trace {
    struct gs_replay_op *ops; /* NULL: gs_replay_visit alone has them */
    size_t count, room;
    uint32_t allocations; /* ids in use */
    uint32_t threads, streams;
    uint64_t end_ns;             /* of the last operation */
    struct gs_replay_file *file; /* NULL: all is in memory */
    /* The process; 0 and "": not known. */
    uint32_t pid;
    uint64_t pid_start;     /* of the state file that has the stacks; 0: none has them */
    uint64_t start_real_ns; /* CLOCK_REALTIME of time 0 */
    char program[64];
};

/* What there was to say about a file: "" if nothing. */
struct gs_replay_note {
    char text[GS_REPLAY_NOTE_BYTES];
};

void gs_replay_free(struct gs_replay_trace *trace);
/* Ends the program if there is no memory. */
void gs_replay_add(struct gs_replay_trace *trace, const struct gs_replay_op *op);
/* An operation that is not kept: counts it, its threads, streams and allocations. */
void gs_replay_count(struct gs_replay_trace *trace, const struct gs_replay_op *op);

/*
 * Read a trace.
 * Out:    *out   to be freed with gs_replay_free, also if it was damaged
 *         *note  one sentence if something is wrong
 * Returns false if it is no trace; *out is empty then.
 */
bool gs_replay_load(const char *path, struct gs_replay_trace *out,
                    struct gs_replay_note *note);
/* The same from memory: either format, not compressed. */
bool gs_replay_parse(const unsigned char *data, size_t length,
                     struct gs_replay_trace *out, struct gs_replay_note *note);

/* gs_replay_load, but what the library recorded stays in its file, unless that is gzip'd.
 * In memory are 4 bytes an operation, and during a visit 100 for each address in use.
 * `ops` is NULL then. */
bool gs_replay_scan(const char *path, struct gs_replay_trace *out,
                    struct gs_replay_note *note);

/* An operation, and the address of its allocation; 0: not known. */
typedef void gs_replay_see(void *self, const struct gs_replay_op *op, uint64_t address);
/* Calls `see` for each operation, in causal order. */
void gs_replay_visit(const struct gs_replay_trace *trace, gs_replay_see *see, void *self);

/* What the pool held for itself: it got this memory of the driver, or has it no more: a
 * whole range, parts of ranges, or all that ended with a context. */
struct gs_replay_range {
    uint64_t time_ns, begin, bytes;
    uint16_t context; /* 0: none */
    uint8_t kind;     /* enum gs_trace_kind */
    uint8_t device;
    uint8_t op; /* GS_TRACE_MAPPED, GS_TRACE_UNMAPPED, GS_TRACE_CONTEXT_END */
};

typedef void gs_replay_see_range(void *self, const struct gs_replay_range *range);
/* gs_replay_visit with these between the operations. A trace that is in memory, and one
 * of before, has none. */
void gs_replay_visit_ranges(const struct gs_replay_trace *trace, gs_replay_see *see,
                            gs_replay_see_range *see_range, void *self);

/* Addresses by allocation for a trace without: no two overlap. From malloc. */
uint64_t *gs_replay_make_up_addresses(const struct gs_replay_trace *trace);

bool gs_replay_parse_csv(const char *data, size_t length, struct gs_replay_trace *out,
                         struct gs_replay_note *note);

/* Write it. Returns false if the file could not be written; errno says why. */
bool gs_replay_write_csv(const struct gs_replay_trace *trace, FILE *file);
bool gs_replay_write_binary(const struct gs_replay_trace *trace, FILE *file);

/* Only the operations on memory of these kinds (bits 1 << kind), and the waits. */
void gs_replay_keep_kinds(struct gs_replay_trace *trace, unsigned kinds);

/* Bytes and allocations live at most. */
struct gs_replay_peaks {
    uint64_t live_bytes;
    uint32_t live_count;
    size_t live_count_at; /* the operation that reached live_count */
    uint32_t made;        /* allocations */
};
struct gs_replay_peaks gs_replay_find_peaks(const struct gs_replay_trace *trace);

/* "device", "async", ...; NULL: no such kind. */
const char *gs_replay_kind_name(unsigned kind);
/* The kind of that name; GS_TRACE_KIND_NONE if there is none. */
unsigned gs_replay_kind_of(const char *name);

/* Allocate zeroed memory or end the program with a line. */
void *gs_replay_alloc(size_t count, size_t bytes);
/* Room for one more item after `count`: `items`, or twice as much with them in it.
 * Changed: *room. Ends the program if there is no memory. */
void *gs_replay_grow(void *items, size_t count, size_t *room, size_t bytes);

#endif
