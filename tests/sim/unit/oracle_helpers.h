/*
 * oracle_helpers.h - shared by the oracle's tests: short words for the histories they
 * tell it, and what they expect it to find.
 */
#ifndef ORACLE_HELPERS_H
#define ORACLE_HELPERS_H

#include <criterion/criterion.h>

#include "oracle.h"

/* Addresses of no memory: the oracle never looks there. */
#define MEMORY ((uintptr_t)0x700000000000)
#define BYTES  ((size_t)4096)

enum rw { READS, WRITES, ATOMIC_READS, ATOMIC_WRITES };

/* Start it. Each test runs in a process of its own. */
void begin(void);
void begin_with(struct oracle_options options);
void begin_separate(void); /* host threads are ordered by what is seen alone */

/* The first host thread, another one, a stream. */
struct oracle_line *host(void);
struct oracle_line *host_new(uint64_t id);
struct oracle_line *stream_new(void);

/* Submit an operation of the program, by the first host thread; at most one to wait for.
 * References are kept until the process ends. */
struct oracle_op *put(struct oracle_line *stream, const struct oracle_op *after);
struct oracle_op *put_by(struct oracle_line *host, struct oracle_line *stream);
struct oracle_op *put_as(struct oracle_line *stream, enum oracle_overlap overlap);
struct oracle_op *put_own(struct oracle_line *stream, const struct oracle_op *after);
/* One behind all that was submitted to another stream so far. */
struct oracle_op *put_after_line(struct oracle_line *stream,
                                 const struct oracle_line *before);

/* It runs, touching memory of the allocation there, and is done. */
void run(struct oracle_op *op, enum rw rw);
void run_at(struct oracle_op *op, enum rw rw, uintptr_t address, size_t bytes);
void run_in(struct oracle_op *op, enum rw rw, struct oracle_allocation *allocation,
            uintptr_t address, size_t bytes);

/* An allocation of MEMORY, handed out and freed by the first host thread at once. */
struct oracle_allocation *give(void);
struct oracle_allocation *give_in(struct oracle_op *op); /* from a point in a stream on */
struct oracle_allocation *give_inner(uintptr_t address, size_t bytes);
void take(struct oracle_allocation *allocation);
void take_in(struct oracle_allocation *allocation, struct oracle_op *op);
void take_waiting(struct oracle_allocation *allocation, struct oracle_line *line);

/* A host thread has waited for it, on the program's account. */
void saw(const struct oracle_op *op);

/* So often, and nothing else. */
void expect(enum oracle_finding kind, unsigned count);
void expect_nothing(void);

/* What is written to stderr until it is called again with the answer of the first. */
int stderr_capture(void);
const char *stderr_text(int capture);

#endif
