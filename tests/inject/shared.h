/*
 * shared.h - what a test program and its runner share: file 3, mapped by both.
 */
#ifndef INJECT_SHARED_H
#define INJECT_SHARED_H

#include <semaphore.h>
#include <stdatomic.h>

struct shared {
    atomic_int stop;     /* the program is to end */
    atomic_ulong rounds; /* rounds of the program's threads */
    atomic_uint calls;   /* of probe_entry in this program */
    char far[4096];      /* glibc's locks are near multiples of 64 MiB */
    sem_t semaphore;     /* between processes */
};

#define SHARED_FILE 3

#endif
