/*
 * oracle_message.h - a finding as it is printed: copies of all it names, so that it can
 * be printed when the lock is gone and the objects may be, too.
 * Owns:  nothing.   Lock: none.
 */
#ifndef ORACLE_MESSAGE_H
#define ORACLE_MESSAGE_H

#include "oracle.h"
#include "oracle_callers.h"

/* Who did something. */
struct oracle_party {
    const char *call;   /* NULL: there is no such party */
    const char *access; /* "read", "write", ... or NULL */
    uint64_t line, number;
    bool host, own;
    uint32_t callers; /* a stack, 0: none */
};

/* Whose the bytes were. */
struct oracle_owner {
    uint64_t number;             /* 0: nobody's */
    const char *call, *end_call; /* end_call NULL: it lives */
    uint32_t end_callers;
};

struct oracle_message {
    struct oracle_message *next;
    enum oracle_finding kind;
    bool to_stderr;
    uintptr_t start, end;
    struct oracle_party first, second;
    struct oracle_owner allocation, before;
    bool begins,
        ends; /* the allocation's beginning is the first party, its end the second */
    const char *note;

    /* Of a call that blocks; the parties are what it waits for and what does not end. */
    const char *call, *entry;
    bool own;
    uint64_t thread;
    uint32_t callers; /* a stack, 0: none */
};

const char *oracle_finding_name(enum oracle_finding kind);

#endif
