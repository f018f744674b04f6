/*
 * inject_rest.c - completes a read that a stop has cut short.
 *
 * The kernel ends a long read of random numbers or zeros for a stop as for a signal: it
 * returns the part that is done, and repeats nothing. Programs that have no signals never
 * get a part. The rest is the same whoever reads it: the tracer does, and the thread
 * returns with all. If the tracer dies in the meantime, the thread returns with the part.
 *
 * Owns: nothing.   Lock: none.
 * Source: Linux, drivers/char/random.c (get_random_bytes_user), drivers/char/mem.c
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#include "shim/tools/launcher/inject_parts.h"

#define PART_BYTES ((size_t)1 << 20)
#define MOST_BYTES UINT64_C(0x7ffff000) /* of one read */

enum source { NONE, ZEROS, RANDOM };

/* What a file has; -1: getrandom. */
static enum source source_of(pid_t tid, int file)
{
    char path[64];
    struct stat now;
    if (file < 0) {
        return RANDOM;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)tid, file);
    if (stat(path, &now) != 0 || !S_ISCHR(now.st_mode) || major(now.st_rdev) != 1) {
        return NONE;
    }
    switch (minor(now.st_rdev)) {
    case 5:
        return ZEROS;
    case 8:
    case 9:
        return RANDOM;
    default:
        return NONE;
    }
}

bool gs_rest_is_due(const struct gs_traced *thread)
{
    struct gs_cut_read cut;
    return gs_arch_cut_read(&thread->regs, &cut) &&
           source_of(thread->tid, cut.file) != NONE;
}

/* Whether a signal waits for the thread: it ends the read natively. */
static bool has_signal(pid_t tid)
{
    unsigned long pending = (unsigned long)gs_inject_status(tid, "SigPnd", 16) |
                            (unsigned long)gs_inject_status(tid, "ShdPnd", 16);
    return (pending & ~(unsigned long)gs_inject_status(tid, "SigBlk", 16)) != 0;
}

/* Writes as the thread would: not to memory that it may not write. Returns how many bytes
 * of the part are there. */
static size_t write_part(pid_t tid, uint64_t to, enum source source, char *part,
                         size_t bytes)
{
    ssize_t got = source == RANDOM ? getrandom(part, bytes, 0) : (ssize_t)bytes;
    if (got <= 0) {
        return 0;
    }
    const struct iovec here = {part, (size_t)got};
    const struct iovec there = {(void *)(uintptr_t)to, (size_t)got};
    got = process_vm_writev(tid, &here, 1, &there, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

void gs_rest_read(struct gs_traced *thread)
{
    struct gs_cut_read cut;
    char *part;
    if (!gs_rest_is_due(thread) || !gs_arch_cut_read(&thread->regs, &cut) ||
        !(part = calloc(1, PART_BYTES))) {
        return;
    }
    enum source source = source_of(thread->tid, cut.file);
    uint64_t wanted = cut.wanted < MOST_BYTES ? cut.wanted : MOST_BYTES;
    size_t last = 1;
    while (cut.done < wanted && last > 0 && !has_signal(thread->tid)) {
        uint64_t left = wanted - cut.done;
        last = write_part(thread->tid, cut.to + cut.done, source, part,
                          left < PART_BYTES ? (size_t)left : PART_BYTES);
        cut.done += last;
    }
    free(part);
    gs_arch_set_result(&thread->regs, cut.done);
}
