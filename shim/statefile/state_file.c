/*
 * state_file.c - creates the file, extends it, and drops it in a child.
 *
 * While the process runs, the data has a name of its own (output_map.h), so that a file
 * that is truncated is not the mapped one. Its blocks are allocated before anything is
 * stored in them (posix_fallocate): a store to a page for which a full disk has no block
 * would end the program. No descriptor stays open: to extend the file, it is opened
 * again, if it is still the file that was created.
 *
 * In a program that the command gpushim started, the state is kept without a file, too
 * (kept_state.h). In any other it is memory of the process in the same form, which the
 * command can ask for (export PID state).
 *
 * Owns:  the file and its mapping.   Lock: the lock of the state's memory while it grows;
 *        the first thread that finds a device writes its name.   Design: docs/state.md
 */
#include "shim/statefile/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_read_text.h"
#include "gs_uncancelled.h"
#include "shim/parts.h"
#include "shim/record.h"
#include "shim/settings/link_open.h"
#include "shim/settings/log.h"
#include "shim/settings/log_pattern.h"
#include "shim/settings/output.h"
#include "shim/settings/output_map.h"
#include "shim/statefile/kept_state.h"

/* The first size of the file; the sizes to try for the mapping, by the available address
 * space. */
#define FIRST_BYTES GS_MIB
#ifndef CIFS_MAGIC
#define CIFS_MAGIC 0xff534d42
#endif
static const size_t rooms[] = {64 * GS_GIB, 4 * GS_GIB, 256 * GS_MIB};

/* Of memory that nobody else has. */
#define PRIVATE_ROOM_BYTES (4 * GS_GIB)

static struct {
    struct gs_state_memory *memory; /* atomic; NULL: no file */
    void *bytes;
    size_t room;
    size_t length; /* the file's; changes under the memory's lock */
    struct gs_output_map named;
    struct gs_kept_state kept; /* in place of a file */
    bool is_private;           /* neither: pages of this process */
} file;

static void describe(const struct gs_options *options, struct gs_state_process *process)
{
    char command[GS_COMMAND_BYTES + 8];
    process->pid = (int64_t)syscall(SYS_getpid);
    if (gs_process_start(process->pid, &process->pid_start) != GS_OK) {
        process->pid_start = 0;
    }
    process->start_time = (int64_t)time(NULL);
    process->rank = gs_log_rank();
    process->stack_depth = options->stack_depth;
    gs_boot_id(process->boot, sizeof(process->boot));
    (void)gethostname(process->hostname, sizeof(process->hostname) - 1);
    gs_command_line(command);
    strcpy(process->command, command);
    ssize_t length =
        readlink("/proc/thread-self/exe", process->program, sizeof(process->program));
    if (length < 0 || length >= (ssize_t)sizeof(process->program)) {
        length = 0; /* a part would name another file */
    }
    process->program[length] = '\0';
}

static uint64_t layout_here(void)
{
    return gs_state_file_layout(gs_parts_statistics_form());
}

/* ---- the file ------------------------------------------------------------------- */

/* Returns true if the file is of this build and its process has written a report: nothing
 * is lost with it. */
static bool is_over(const char *path)
{
    static struct gs_state_header header; /* under the start lock */
    int fd = gs_link_open(path, O_RDONLY | O_NOFOLLOW, NULL);
    ssize_t length = fd < 0 ? 0 : read(fd, &header, sizeof(header));
    if (fd >= 0) {
        close(fd);
    }
    return length == (ssize_t)sizeof(header) &&
           memcmp(header.magic, GS_STATE_MAGIC, sizeof(header.magic)) == 0 &&
           header.layout == layout_here() && header.process.ending[0] != '\0';
}

/* Removes a file that is no longer needed. Another process may do the same, and have
 * created its own file by now: the file is checked once more after it was moved, and
 * moved back. */
static bool retire(const char *path)
{
    static char taken[PATH_MAX + 32]; /* as `header` */
    if (!is_over(path)) {
        return false;
    }
    snprintf(taken, sizeof(taken), "%s.%ld.over", path, (long)syscall(SYS_getpid));
    if (rename(path, taken) != 0) {
        return false;
    }
    if (!is_over(taken)) {
        if (link(taken, path) == 0) {
            (void)unlink(taken);
        }
        return false;
    }
    return unlink(taken) == 0;
}

/* Creates the file under NAME, NAME.PID, NAME.PID.2 and so on. Never writes to an
 * existing file, and removes one only if it is no longer needed. */
static int create_file(const char *wanted)
{
    char tail[24];
    snprintf(tail, sizeof(tail), ".%ld", (long)syscall(SYS_getpid));
    int fd = gs_output_map_create(&file.named, wanted, tail, retire);
    if (fd >= 0 && strcmp(file.named.path, wanted) != 0) {
        gs_log_line(GS_LOG_WARN, "GPUSHIM_STATE_FILE=%.400s: exists; writing %.400s",
                    wanted, file.named.path);
    }
    return fd;
}

/* Returns true if a store may end the program although its page is allocated: a full disk
 * that copies on each write, a server that is gone. */
static bool is_unsafe(int fd)
{
    struct statfs info;
    return fstatfs(fd, &info) == 0 &&
           (info.f_type == BTRFS_SUPER_MAGIC || info.f_type == NFS_SUPER_MAGIC ||
            info.f_type == SMB_SUPER_MAGIC || info.f_type == CIFS_MAGIC);
}

/* Makes the next part of the room accessible. The rest is not: what searches the
 * process's memory, as Memcheck for leaks, would meet a SIGBUS in each word of a page
 * that the file does not have. */
static bool give_access(size_t length, size_t more)
{
    return mprotect((char *)file.bytes + length, more, PROT_READ | PROT_WRITE) == 0;
}

/* gs_state_config.grow */
static bool grow(void *self, size_t length, size_t more)
{
    (void)self;
    int saved_errno = errno;
    int before = gs_uncancelled_begin();
    int fd = gs_output_map_open(&file.named);
    int error = fd < 0 ? errno : gs_output_map_extend(fd, (off_t)length, more);
    if (fd >= 0) {
        close(fd);
    }
    if (!error && !give_access(length, more)) {
        error = errno;
    }
    if (!error) {
        file.length = length + more;
    } else {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_STATE_FILE=%.600s: cannot grow: %s; allocations from now on "
                    "may be missing from it",
                    file.named.path, gs_output_error_text(error));
    }
    gs_uncancelled_end(before);
    errno = saved_errno;
    return error == 0;
}

static void *map_file(int fd)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(rooms); i++) {
        void *bytes = mmap(NULL, rooms[i], PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (bytes != MAP_FAILED &&
            mprotect(bytes, FIRST_BYTES, PROT_READ | PROT_WRITE) == 0) {
            /* A child without fork handlers (_Fork, clone) must not write to it. */
            (void)madvise(bytes, rooms[i], MADV_DONTFORK);
            file.room = rooms[i];
            return bytes;
        }
        if (bytes != MAP_FAILED) {
            (void)munmap(bytes, rooms[i]);
        }
    }
    return NULL;
}

/* gs_state_config.grow */
static bool grow_kept(void *self, size_t length, size_t more)
{
    (void)self;
    if (!gs_kept_state_grow(&file.kept, length + more)) {
        return false;
    }
    file.length = length + more;
    return true;
}

/* Creates and maps the file, and hands it to the command. Returns 0 or an errno. */
static int make(const struct gs_options *options, const char *wanted)
{
    int fd = create_file(wanted);
    if (fd < 0) {
        return errno;
    }
    int error = is_unsafe(fd) ? EOPNOTSUPP : gs_output_map_extend(fd, 0, FIRST_BYTES);
    file.length = FIRST_BYTES;
    if (!error) {
        file.bytes = map_file(fd);
        error = file.bytes ? 0 : ENOMEM;
    }
    if (error) {
        gs_output_map_remove(&file.named);
    } else {
        gs_kept_state_send_file(options, fd);
    }
    close(fd);
    return error;
}

/* The file that the option names. False: none; a failure was logged. */
static bool make_file(const struct gs_options *options)
{
    static char pattern[PATH_MAX], wanted[PATH_MAX - 64]; /* under the start's lock */
    int error = ENAMETOOLONG;
    gs_log_pattern_keep(pattern, options->state_file);
    if (gs_log_pattern_expand(pattern, wanted, sizeof(wanted)) == GS_OK) {
        error = make(options, wanted);
    }
    if (error) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_STATE_FILE=%.600s: cannot be created: %s; not written",
                    options->state_file, gs_output_error_text(error));
    }
    return error == 0;
}

/* Memory that the command keeps. */
static bool make_kept(const struct gs_options *options)
{
    if (!gs_kept_state_asked() || !gs_kept_state_open(options, FIRST_BYTES, &file.kept)) {
        return false;
    }
    file.bytes = file.kept.bytes;
    file.room = file.kept.room;
    file.length = FIRST_BYTES;
    return true;
}

/* gs_state_config.grow */
static bool grow_private(void *self, size_t length, size_t more)
{
    (void)self;
    if (!give_access(length, more)) {
        return false;
    }
    file.length = length + more;
    return true;
}

/* Memory of this process alone. Not where address space is limited. */
static bool make_private(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) {
        return false;
    }
    void *bytes = mmap(NULL, PRIVATE_ROOM_BYTES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED) {
        return false;
    }
    file.bytes = bytes;
    file.room = PRIVATE_ROOM_BYTES;
    file.is_private = grow_private(NULL, 0, FIRST_BYTES);
    if (!file.is_private) {
        munmap(bytes, PRIVATE_ROOM_BYTES);
    }
    return file.is_private;
}

struct gs_state_memory *gs_state_file_open(const struct gs_options *options)
{
    bool named = options->state_file[0] && make_file(options);
    bool kept = !named && make_kept(options);
    if (!named && !kept && !make_private()) {
        return NULL;
    }
    const struct gs_state_config config = {.file = file.bytes,
                                           .room = file.room,
                                           .length = FIRST_BYTES,
                                           .grow = named  ? grow
                                                   : kept ? grow_kept
                                                          : grow_private,
                                           .version = GPUSHIM_VERSION,
                                           .layout = layout_here()};
    describe(options, &((struct gs_state_header *)file.bytes)->process);
    struct gs_state_memory *memory = gs_state_memory_create(&config);
    if (!memory) {
        munmap(file.bytes, file.room);
        if (named) {
            gs_output_map_remove(&file.named);
        }
    }
    __atomic_store_n(&file.memory, memory, __ATOMIC_RELEASE);
    return memory;
}

/* NULL: there is no file. */
static struct gs_state_header *header_of(void)
{
    struct gs_state_memory *memory = __atomic_load_n(&file.memory, __ATOMIC_ACQUIRE);
    return memory ? gs_state_memory_header(memory) : NULL;
}

void gs_state_file_device(int ordinal, const char *name, const char *bus,
                          const char *uuid)
{
    struct gs_state_header *header = header_of();
    if (!header || ordinal < 0 || ordinal >= GS_MAX_DEVICES) {
        return;
    }
    strncpy(header->devices[ordinal], name, sizeof(header->devices[ordinal]) - 1);
    strncpy(header->buses[ordinal], bus, sizeof(header->buses[ordinal]) - 1);
    strncpy(header->uuids[ordinal], uuid, sizeof(header->uuids[ordinal]) - 1);
    if ((uint32_t)ordinal >= header->device_count) {
        __atomic_store_n(&header->device_count, (uint32_t)ordinal + 1, __ATOMIC_RELEASE);
    }
}

uint64_t gs_state_file_pid_start(void)
{
    const struct gs_state_header *header = header_of();
    return header ? header->process.pid_start : 0;
}

/* The data gets the file's name once it is complete. */
static void name_data(bool complete)
{
    if (complete) {
        gs_output_map_log(&file.named, "GPUSHIM_STATE_FILE",
                          gs_output_map_publish(&file.named));
    } else {
        gs_output_map_withdraw(&file.named);
    }
}

void gs_state_file_ending(const char *ending, bool bad)
{
    struct gs_state_header *header = header_of();
    if (!header) {
        return;
    }
    header->process.bad = bad;
    snprintf(header->process.ending, sizeof(header->process.ending), "%s", ending);
    if (!file.kept.bytes && !file.is_private) {
        name_data(ending[0] != '\0');
    }
}

void *gs_state_file_annex(size_t bytes)
{
    return gs_state_annex(__atomic_load_n(&file.memory, __ATOMIC_ACQUIRE), bytes);
}

bool gs_state_file_is_private(void)
{
    return file.is_private;
}

const void *gs_state_file_copy(struct gs_state_header *head, size_t *bytes)
{
    const struct gs_state_header *header = header_of();
    if (header) {
        *bytes = (size_t)__atomic_load_n(&header->used, __ATOMIC_ACQUIRE);
        memcpy(head, header, sizeof(*head));
        head->used = *bytes; /* no more is copied */
        head->process.copied_ns = gs_now_coarse_ns();
    }
    return header;
}

bool gs_state_file_is_kept(void)
{
    return file.kept.bytes && header_of();
}

const void *gs_state_file_range(size_t *bytes)
{
    *bytes = file.room;
    return header_of();
}

void gs_state_file_before_fork(void)
{
    if (gs_state_file_is_kept()) {
        gs_kept_state_before_fork(&file.kept);
    }
}

void gs_state_file_after_fork(void)
{
    if (gs_state_file_is_kept()) {
        gs_kept_state_after_fork(&file.kept);
    }
}

bool gs_state_file_after_fork_in_child(bool inside)
{
    const struct gs_state_header *header = header_of();
    if (!header) {
        return true;
    }
    if (file.is_private) { /* a copy, which stays: work in progress may write to it */
        munmap((char *)file.bytes + file.length, file.room - file.length);
        memset(&file, 0, sizeof(file));
        return true;
    }
    if (file.kept.bytes) {
        bool own = inside && gs_kept_state_copy_in_child(&file.kept, header->used);
        memset(&file, 0, sizeof(file));
        return own;
    }
    /* The file is not mapped here (map_file). Work in progress of the thread ends in a
     * copy. */
    int before = gs_uncancelled_begin();
    int fd = inside ? gs_output_map_open(&file.named) : -1;
    bool copied = fd >= 0 && mmap(file.bytes, file.length, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_FIXED, fd, 0) != MAP_FAILED;
    if (fd >= 0) {
        close(fd);
    }
    gs_uncancelled_end(before);
    memset(&file, 0, sizeof(file));
    return copied;
}
