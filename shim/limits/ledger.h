/*
 * ledger.h - the file of a group: creates and maps it, locks a member's byte, and reads
 * and writes its words.
 *
 * A member locks a byte of the file through an open file description of its own
 * (F_OFD_SETLK). The mapping keeps that description open, so no descriptor stays that the
 * program could close, and no child of a fork has the mapping. The kernel releases the
 * lock at any end of the process, and at exec; a process of any namespace can query it.
 *
 * A mapped page that a truncation has removed raises SIGBUS. So the words are read and
 * written by the kernel (process_vm_readv(2) of the own process), which answers EFAULT
 * then; where a filter refuses the call, through the file.
 *
 * Locks: none; the caller opens and closes under a lock of its own.
 */
#ifndef GS_LEDGER_H
#define GS_LEDGER_H

#include "gs_base.h"

#define GS_LEDGER_MEMBERS 512

/* A member's word is written by its process; when it has ended, by the process that holds
 * the lock of its byte. A device has the same place for all members. */
struct gs_ledger {
    uint64_t magic;                       /* changes with the layout */
    uint64_t devices[GS_MAX_DEVICES];     /* key of each device, 0: none */
    uint64_t owner[GS_LEDGER_MEMBERS];    /* 0: nobody */
    uint64_t space[GS_LEDGER_MEMBERS];    /* the namespace of its process number */
    uint64_t gives[GS_LEDGER_MEMBERS];    /* it checks the other members' requests */
    uint64_t requests[GS_LEDGER_MEMBERS]; /* counts its requests; never cleared */
    struct gs_ledger_device {
        uint64_t charged[GS_LEDGER_MEMBERS]; /* bytes */
        uint64_t tried[GS_LEDGER_MEMBERS];   /* of attempts to charge */
        uint64_t wanted[GS_LEDGER_MEMBERS];  /* of the other members' idle memory */
    } of[GS_MAX_DEVICES];
};

/* The byte whose lock guards `devices`; the member's own is its number. */
#define GS_LEDGER_DEVICES GS_LEDGER_MEMBERS

/*
 * Opens the ledger, or creates it, and maps it. A file that exists is never changed
 * unless it is a ledger.
 * Out:     *fd  to lock a byte before it is closed
 * Returns: NULL, or why there is no ledger; then nothing is open
 */
const char *gs_ledger_open(const char *path, int *fd);
/* Opens the mapped file once more, for queries and short locks. Returns -1 and sets
 * errno; ENOENT: the path is another file's by now. */
int gs_ledger_reopen(void);
/* Unmaps the ledger, which releases the lock. In a forked child there is no mapping. */
void gs_ledger_close(void);
/* The mapping, for the addresses of words; NULL: none. */
struct gs_ledger *gs_ledger_words(void);

enum gs_ledger_lock { GS_LEDGER_LOCKED, GS_LEDGER_TAKEN, GS_LEDGER_NO_LOCKS };
/* Locks a byte through this descriptor, without a wait. TAKEN: another has the lock. */
enum gs_ledger_lock gs_ledger_lock(int fd, unsigned byte) GS_MUST_USE;
void gs_ledger_unlock(int fd, unsigned byte);
/* Returns true only if it is certain that nobody has locked the byte. */
bool gs_ledger_is_unlocked(int fd, unsigned byte);

/* Copies words from or to the ledger. False: the file was shortened. */
bool gs_ledger_read(const uint64_t *from, uint64_t *to, size_t count) GS_MUST_USE;
bool gs_ledger_write(uint64_t *to, uint64_t value) GS_MUST_USE;

#endif
