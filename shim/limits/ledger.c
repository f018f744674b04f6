/*
 * ledger.c - see ledger.h.
 *
 * A new ledger gets its name when it is complete: it is made under another name and
 * linked. So a file without a ledger's beginning is never one of ours.
 *
 * Owns:  the mapping.   Lock: the caller's for opening and closing; the pointer is
 * atomic.
 */
#include "shim/limits/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gs_clock.h"
#include "shim/settings/link_open.h"
#include "shim/settings/output.h"
#include "shim/settings/output_map.h"

#define MAGIC      UINT64_C(0x3430707567736772) /* rgsgup04 */
#define OF_VERSION 6                            /* bytes that all versions begin with */
/* Other processes may create and remove the file at any time. */
#define TRIES 100

static struct {
    struct gs_ledger *words; /* atomic */
    dev_t device;
    ino_t inode;
    pid_t pid;     /* of the process that mapped it */
    bool filtered; /* atomic: a filter of system calls refuses those of `copy` */
} ledger;

/* ---- the file ------------------------------------------------------------------------
 */

/* Why an open file is not a ledger; NULL: it is one. */
static const char *problem_of(int fd)
{
    static char text[64]; /* under the caller's lock */
    uint64_t magic = 0, expected = MAGIC;
    struct stat found;
    if (fstat(fd, &found) != 0) {
        return gs_output_error_text(errno);
    }
    if (found.st_uid != (uid_t)syscall(SYS_geteuid)) {
        snprintf(text, sizeof(text), "belongs to another user (%ld)", (long)found.st_uid);
        return text;
    }
    if (!S_ISREG(found.st_mode) || pread(fd, &magic, sizeof(magic), 0) < 0 ||
        memcmp(&magic, &expected, OF_VERSION) != 0) {
        return "not the file of a group; not changed";
    }
    if (magic != MAGIC) {
        return "a ledger of another version of gpushim: remove it once no process uses "
               "it";
    }
    return found.st_size < (off_t)sizeof(struct gs_ledger)
               ? "a ledger that was shortened: remove it once no process uses it"
               : NULL;
}

/* Gives a complete file its name, unless there is a file of this name. */
static int publish(const char *temporary, const char *path)
{
    if (link(temporary, path) == 0) {
        (void)unlink(temporary);
        return 0;
    }
#ifdef SYS_renameat2
    /* A file system without hard links. RENAME_NOREPLACE is 1. */
    if (errno != EEXIST &&
        syscall(SYS_renameat2, AT_FDCWD, temporary, AT_FDCWD, path, 1) == 0) {
        return 0;
    }
#endif
    return errno;
}

/* Creates the ledger. Returns 0 or an errno; EEXIST: another process was first. */
static int create(const char *path)
{
    static char temporary[PATH_MAX + 48]; /* under the caller's lock */
    uint64_t magic = MAGIC;
    /* Processes of several namespaces may have the same number. */
    snprintf(temporary, sizeof(temporary), "%s.%ld.%llx.new", path,
             (long)syscall(SYS_getpid), (unsigned long long)gs_now_ns());
    int fd = gs_link_open(temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, NULL);
    if (fd < 0) {
        return errno;
    }
    int error = gs_output_map_extend(fd, 0, sizeof(struct gs_ledger));
    if (!error && pwrite(fd, &magic, sizeof(magic), 0) != (ssize_t)sizeof(magic)) {
        error = EIO;
    }
    close(fd);
    error = error ? error : publish(temporary, path);
    if (error) {
        (void)unlink(temporary);
    }
    return error;
}

/* Returns a descriptor of the file, or -1 and sets errno. */
static int open_or_create(const char *path)
{
    int fd = -1, error = ENOENT;
    for (unsigned i = 0; i < TRIES && fd < 0 && (error == ENOENT || error == EEXIST);
         i++) {
        fd = gs_link_open(path, O_RDWR | O_NOFOLLOW, NULL);
        error = fd < 0 ? errno : 0;
        if (error == ENOENT) {
            error = create(path);
            if (error == ENOENT) { /* the folder is missing */
                break;
            }
            error = error ? error : EEXIST;
        }
    }
    errno = error;
    return fd;
}

static char mapped_path[PATH_MAX]; /* under the caller's lock */

/* Maps the open file, in no child. */
static int map(int fd)
{
    struct stat found;
    if (fstat(fd, &found) != 0) {
        return errno;
    }
    struct gs_ledger *words =
        mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (words == MAP_FAILED) {
        return errno;
    }
    if (madvise(words, sizeof(*words), MADV_DONTFORK) != 0) {
        int error = errno;
        (void)munmap(words, sizeof(*words));
        return error;
    }
    ledger.device = found.st_dev;
    ledger.inode = found.st_ino;
    ledger.pid = (pid_t)syscall(SYS_getpid);
    __atomic_store_n(&ledger.words, words, __ATOMIC_RELEASE);
    return 0;
}

const char *gs_ledger_open(const char *path, int *fd)
{
    int opened = open_or_create(path);
    if (opened < 0) {
        return gs_output_error_text(errno);
    }
    const char *problem = problem_of(opened);
    if (!problem) {
        int error = map(opened);
        problem = error ? gs_output_error_text(error) : NULL;
    }
    if (problem) {
        close(opened);
        return problem;
    }
    snprintf(mapped_path, sizeof(mapped_path), "%s", path);
    *fd = opened;
    return NULL;
}

int gs_ledger_reopen(void)
{
    struct stat found;
    int fd = gs_link_open(mapped_path, O_RDWR | O_NOFOLLOW, NULL);
    if (fd >= 0 && (fstat(fd, &found) != 0 || found.st_dev != ledger.device ||
                    found.st_ino != ledger.inode)) {
        close(fd);
        fd = -1;
        errno = ENOENT;
    }
    return fd;
}

void gs_ledger_close(void)
{
    struct gs_ledger *words = ledger.words;
    bool mapped = words && ledger.pid == (pid_t)syscall(SYS_getpid);
    memset(&ledger, 0, sizeof(ledger));
    if (mapped) {
        (void)munmap(words, sizeof(*words));
    }
}

struct gs_ledger *gs_ledger_words(void)
{
    return __atomic_load_n(&ledger.words, __ATOMIC_ACQUIRE);
}

/* ---- locks ---------------------------------------------------------------------------
 */

/* Bytes far after the data: a lock needs no byte of the file. */
static struct flock one_byte(short type, unsigned byte)
{
    return (struct flock){.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start = ((off_t)1 << 40) + (off_t)byte,
                          .l_len = 1};
}

enum gs_ledger_lock gs_ledger_lock(int fd, unsigned byte)
{
    struct flock lock = one_byte(F_WRLCK, byte);
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
        return GS_LEDGER_LOCKED;
    }
    return errno == EAGAIN || errno == EACCES ? GS_LEDGER_TAKEN : GS_LEDGER_NO_LOCKS;
}

void gs_ledger_unlock(int fd, unsigned byte)
{
    struct flock lock = one_byte(F_UNLCK, byte);
    (void)fcntl(fd, F_OFD_SETLK, &lock);
}

bool gs_ledger_is_unlocked(int fd, unsigned byte)
{
    struct flock lock = one_byte(F_WRLCK, byte);
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

/* ---- words ---------------------------------------------------------------------------
 */

/* Copies through the file, where a filter refuses the system calls of `copy`. */
static bool copy_in_file(bool read, const void *ledgers, void *own, size_t bytes)
{
    const off_t offset = (const char *)ledgers - (const char *)gs_ledger_words();
    int fd = gs_ledger_reopen();
    ssize_t done = -1;
    if (fd >= 0) {
        done = read ? pread(fd, own, bytes, offset) : pwrite(fd, own, bytes, offset);
        close(fd);
    }
    return done == (ssize_t)bytes;
}

/* Copies between the ledger and memory of this process. */
static bool copy(bool read, const void *ledgers, void *own, size_t bytes)
{
    const struct iovec local = {own, bytes};
    const struct iovec remote = {(void *)(uintptr_t)ledgers, bytes};
    const long call = read ? SYS_process_vm_readv : SYS_process_vm_writev;
    int saved_errno = errno;
    ssize_t done = -1;
    if (!__atomic_load_n(&ledger.filtered, __ATOMIC_RELAXED)) {
        done = syscall(call, (long)syscall(SYS_getpid), &local, 1l, &remote, 1l, 0l);
        if (done < 0 && (errno == ENOSYS || errno == EPERM)) {
            __atomic_store_n(&ledger.filtered, true, __ATOMIC_RELAXED);
        }
    }
    bool whole = __atomic_load_n(&ledger.filtered, __ATOMIC_RELAXED)
                     ? copy_in_file(read, ledgers, own, bytes)
                     : done == (ssize_t)bytes;
    errno = saved_errno;
    return whole;
}

bool gs_ledger_read(const uint64_t *from, uint64_t *to, size_t count)
{
    return copy(true, from, to, count * sizeof(*to));
}

bool gs_ledger_write(uint64_t *to, uint64_t value)
{
    return copy(false, to, &value, sizeof(value));
}
