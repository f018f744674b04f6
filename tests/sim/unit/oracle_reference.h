/*
 * oracle_reference.h - the oracle's rules once more, plainly: every happening is a node
 * of a graph, an order is an edge, and "behind" is a walk over the edges. No clocks, no
 * slots, no cells, nothing is dropped. Slow, and for a few hundred operations.
 *
 * Memory is a few units; things are numbered. N and S are graphs over the same nodes.
 */
#ifndef ORACLE_REFERENCE_H
#define ORACLE_REFERENCE_H

#include "oracle.h"

#define REF_UNITS       8
#define REF_OPS         400
#define REF_ALLOCATIONS 400
#define REF_STREAMS     64
#define REF_HOSTS       32
#define REF_NONE        (-1)

/* An access of units [from, to). */
struct ref_access {
    int from, to, allocation; /* allocation: as found at submission, or REF_NONE */
    bool writes, atomic, awaits, single;
};

/* A thing found: what the oracle must find, too. Kinds are a set of bits, where more than
 * one is right to name. */
struct ref_finding {
    unsigned kinds;
    int first, second; /* operations; REF_NONE where there is none */
    int allocation;    /* of a race with a beginning or an end, or handed out inside a
                        * block, which is then the first; else REF_NONE */
};

/* What one step must find. */
struct ref_step {
    struct ref_finding findings[4096];
    int count;
    bool beside_beginning; /* some access was not behind its allocation's beginning */
    int hidden; /* an access whose conflicts are hidden behind others', or NONE */
};

extern struct ref_step ref_step; /* of the last call */

void ref_begin(bool separate_hosts);

int ref_host_new(int creator);
void ref_host_end(int host);
int ref_stream_new(int host);

/* An operation that waits for `afters`, and for whole streams. */
int ref_submit(int host, int stream, enum oracle_overlap overlap, bool own,
               const int *afters, int after_count, const int *lines, int line_count);
void ref_saw_memory(int op, int unit, bool host_may);
void ref_run(int op, const struct ref_access *accesses, int count);
void ref_done(int op);

void ref_host_saw(int host, int op, bool own, bool asked);
void ref_host_saw_stream(int host, int stream, bool own, bool asked);
void ref_host_saw_memory(int host, int unit);
void ref_host_function(int op);
int ref_host_access(int host, const struct ref_access *access); /* its number */

int ref_allocation_begin(int host, int op, int from, int to, bool inner);
void ref_allocation_end(int allocation, int host, int op, const int *waited, int count);
void ref_allocation_retire(int allocation, int host, int op);
/* Is b behind a, in both graphs? */
bool ref_is_behind(int b, int a);

int ref_allocation_find(int unit);
bool ref_allocation_ended(int allocation);

#endif
