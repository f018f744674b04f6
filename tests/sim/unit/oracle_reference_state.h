/*
 * oracle_reference_state.h - what the two files of the plain rules share: operations,
 * allocations, units, by number, and how a finding is noted.
 */
#ifndef ORACLE_REFERENCE_STATE_H
#define ORACLE_REFERENCE_STATE_H

#include "oracle_reference.h"

struct ref_op {
    int launch, start, access, end; /* nodes */
    bool own, done, host, saw;
    int heard;
};

struct ref_allocation {
    int from, to, outer;
    bool inner, ended, in_stream, follows;
    int birth, birth_point; /* nodes */
    int end, end_point, end_host, free;
    int born, over, retired;
};

struct ref_mark {
    int op, allocation;
    int manner;
    bool writes;
    bool taken_in; /* a later one stands for it */
    bool by_lives; /* ... and is behind it by their allocations' lives alone */
};

struct ref_unit {
    int newest, outer;
    struct ref_mark marks[2 * REF_OPS];
    int count;
};

extern struct ref_op ref_ops[REF_OPS];
extern struct ref_allocation ref_allocations[REF_ALLOCATIONS];
extern struct ref_unit ref_units[REF_UNITS];
extern int ref_op_count;

/* A step begins: nothing is found yet. */
void ref_step_begin(void);

/* It must find that, too. */
void ref_find(enum oracle_finding kind, int first, int second, int allocation);

/* A new node of the host's, behind the last. */
int ref_host_event(int host);

/* An operation on an allocation's memory must be before its end. */
void ref_race_with_end(int number, int op);

/* An operation of the host, at that node; its number. */
int ref_host_op(int event);

#endif
