/*
 * kept_state.c - see kept_state.h.
 *
 * The memory is a series of memfds, each mapped after the one before and sent to the
 * command: a memfd can be extended by its descriptor alone, and no descriptor may stay
 * open in the program. Pages exist once they are written to. Core files leave them out.
 * System calls are direct where a function of libc would be one more symbol to bind at
 * the start of every program.
 *
 * Owns:  nothing; the state belongs to state_file.c.   Lock: the caller's.
 */
#include "shim/statefile/kept_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_read_text.h"
#include "gs_uncancelled.h"
#include "gs_wait.h"
#include "shim/settings/environment.h"
#include "shim/settings/log.h"
#include "shim/settings/log_pattern.h"
#include "shim/settings/options_table.h"
#include "shim/settings/output.h"
#include "shim/settings/output_map.h"
#include "shim/settings/start_folder.h"
#include "shim/statefile/watch_message.h"

/* Address space of the state; the first piece, enough for some 800,000 live allocations.
 * Each further piece doubles the state. */
#define ROOM_BYTES  (64 * GS_GIB)
#define FIRST_BYTES (32 * GS_MIB)
/* How long a message waits for space in the command's queue. */
#define SEND_NS 50000000ull

static uint64_t key; /* of this process's state; under the start lock */

static const char *watcher_name(void)
{
    return getauxval(AT_SECURE)
               ? ""
               : gs_options_given_text(gs_environment(), GS_WATCH_VARIABLE);
}

bool gs_kept_state_asked(void)
{
    size_t length = strlen(watcher_name());
    return length > GS_WATCH_SECRET_BYTES + 1 && length < GS_WATCH_NAME_BYTES;
}

/* ---- messages ---------------------------------------------------------------------- */

/* Sends to the command; returns 0 or an errno. The first part is the head. */
static int send_to_command(struct iovec *parts, size_t count, int fd)
{
    struct gs_watch_head *head = parts[0].iov_base;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {{0}};
    const char *name = watcher_name();
    size_t length = strlen(name) - GS_WATCH_SECRET_BYTES - 1;
    memcpy(to.sun_path + 1, name, length);
    memcpy(head->secret, name + length + 1, sizeof(head->secret));
    struct msghdr message = {
        .msg_name = &to,
        .msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length),
        .msg_iov = parts,
        .msg_iovlen = count,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *carried = CMSG_FIRSTHDR(&message);
    carried->cmsg_level = SOL_SOCKET;
    carried->cmsg_type = SCM_RIGHTS;
    carried->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(carried), &fd, sizeof(int));
    int from = (int)syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct gs_wait wait = {
        .nap_ns = 1000000, .longest_ns = 1000000, .until_ns = gs_now_ns() + SEND_NS};
    int error = from < 0 ? errno : 0;
    while (!error &&
           syscall(SYS_sendmsg, from, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        bool full = errno == EAGAIN || errno == EINTR || errno == ENOBUFS;
        error = full && gs_wait_step(&wait) ? 0 : errno ? errno : EAGAIN;
    }
    if (from >= 0) {
        close(from);
    }
    return error;
}

/* Text being built; `cut` is sticky. */
struct text {
    char bytes[GS_WATCH_TEXT_BYTES];
    size_t length;
    bool cut;
};

static void put(struct text *text, const char *name, size_t name_length,
                const char *value, bool is_name)
{
    size_t length = strlen(value), doubled = 0;
    for (size_t i = 0; is_name && i < length; i++) {
        doubled += value[i] == '%';
    }
    if (text->length + name_length + length + doubled + 2 > sizeof(text->bytes)) {
        text->cut = true;
        return;
    }
    char *at = text->bytes + text->length;
    at = mempcpy(at, name, name_length);
    *at++ = '=';
    for (size_t i = 0; i < length; i++) {
        *at++ = value[i];
        if (is_name && value[i] == '%') {
            *at++ = '%'; /* the reader resolves it once more */
        }
    }
    *at++ = '\0';
    text->length = (size_t)(at - text->bytes);
}

/* The settings of this process, with the names of its files as they are here: the command
 * is another process, in another folder. */
static void describe(const struct gs_options *options, struct text *text)
{
    static char pattern[PATH_MAX], path[PATH_MAX]; /* under the start lock */
    static const struct {
        enum gs_option_row row;
        size_t offset;
    } names[] = {
        {GS_OPTION_ROW_log_file, offsetof(struct gs_options, log_file)},
        {GS_OPTION_ROW_output_file, offsetof(struct gs_options, output_file)},
        {GS_OPTION_ROW_write_suppressions,
         offsetof(struct gs_options, write_suppressions)},
    };
    if (gs_start_folder(path)) {
        put(text, "", 0, path, false);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        const char *name = gs_options_table[names[i].row].name,
                   *value = (const char *)options + names[i].offset;
        if (value[0]) {
            gs_log_pattern_keep(pattern, value);
            if (gs_log_pattern_expand(pattern, path, GS_OPTIONS_PATH_BYTES) == GS_OK) {
                put(text, name, strlen(name), path, true);
            }
        }
    }
    for (char *const *entry = gs_environment(); entry && *entry; entry++) {
        size_t length = strcspn(*entry, "=");
        bool named = strncmp(*entry, "GPUSHIM_", 8) != 0 || (*entry)[length] == '\0';
        for (size_t i = 0; i < GS_ARRAY_LEN(names) && !named; i++) {
            const char *name = gs_options_table[names[i].row].name;
            named = strlen(name) == length && memcmp(name, *entry, length) == 0;
        }
        if (!named) {
            put(text, *entry, length, *entry + length + 1, false);
        }
    }
}

static int send_first(const struct gs_options *options, int fd, bool whole)
{
    static struct text text; /* under the start lock */
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return errno;
    }
    key = (uint64_t)info.st_ino ^ (uint64_t)info.st_dev << 48;
    text.length = 0;
    text.cut = false;
    describe(options, &text);
    struct gs_watch_head head = {.magic = GS_WATCH_MAGIC,
                                 .key = key,
                                 .whole = whole,
                                 .text_bytes = (uint32_t)text.length};
    struct iovec parts[] = {{&head, sizeof(head)}, {text.bytes, text.length}};
    return send_to_command(parts, 2, fd);
}

void gs_kept_state_send_file(const struct gs_options *options, int fd)
{
    if (gs_kept_state_asked()) {
        (void)send_first(options, fd, true);
    }
}

/* ---- memory ------------------------------------------------------------------------ */

/* Whether the kernel commits no more memory than there is: writing to a page without
 * memory would then end the process. */
static bool must_reserve(void)
{
    char text[8];
    return gs_read_text("/proc/sys/vm/overcommit_memory", text, sizeof(text)) > 0 &&
           text[0] == '2';
}

static bool is_limited(int resource, size_t bytes)
{
    struct rlimit limit; /* 64 bits, as the system call has it */
    return syscall(SYS_prlimit64, 0, resource, NULL, &limit) == 0 &&
           limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes;
}

/* A new memfd of this size, mapped at the end of the state. Returns it, or -1 with
 * errno. */
static int add_piece(struct gs_kept_state *state, size_t bytes)
{
    if (bytes > state->room - state->length) {
        errno = ENOMEM;
        return -1;
    }
    if (is_limited(RLIMIT_FSIZE, bytes)) {
        errno = EFBIG; /* a signal would come with it */
        return -1;
    }
    int fd = (int)syscall(SYS_memfd_create, "gpushim", 3u /* CLOEXEC, ALLOW_SEALING */);
    void *at = (char *)state->bytes + state->length;
    if (fd < 0) {
        return -1;
    }
    int error = must_reserve() ? gs_output_map_extend(fd, 0, bytes)
                : syscall(SYS_ftruncate, fd, (off_t)bytes) != 0 ? errno
                                                                : 0;
    if (!error && mmap(at, bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) == MAP_FAILED) {
        error = errno;
    }
    if (error) {
        close(fd);
        errno = error;
        return -1;
    }
    /* Or whoever has the descriptor could end the program, by SIGBUS. */
    (void)syscall(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK);
    (void)madvise(at, bytes, MADV_DONTFORK);
    (void)madvise(at, bytes, MADV_DONTDUMP);
    return fd;
}

bool gs_kept_state_open(const struct gs_options *options, size_t first,
                        struct gs_kept_state *out)
{
    struct gs_kept_state state = {.room = ROOM_BYTES};
    if (first < FIRST_BYTES && !must_reserve()) {
        first = FIRST_BYTES;
    }
    const char *why = NULL;
    int fd = -1;
    if (is_limited(RLIMIT_AS, RLIM_INFINITY - 1)) {
        why = "the address space is limited"; /* the rest of it is the program's */
    } else if (is_limited(RLIMIT_FSIZE, first)) {
        why = "the size of files is limited";
    } else {
        state.bytes = mmap(NULL, state.room, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        bool mapped = state.bytes != MAP_FAILED;
        fd = mapped ? add_piece(&state, first) : -1;
        int error = fd < 0 ? errno : send_first(options, fd, false);
        if (error) {
            why = error == ECONNREFUSED
                      ? "it is in another network namespace, or has ended"
                      : gs_output_error_text(error);
            if (mapped) {
                (void)munmap(state.bytes, state.room);
            }
        } else {
            (void)madvise(state.bytes, state.room, MADV_DONTFORK);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    if (why) {
        gs_log_line(GS_LOG_WARN,
                    "the command gpushim has no state of this process: %s; if this "
                    "process is killed, there is no report",
                    why);
        return false;
    }
    state.length = first;
    *out = state;
    return true;
}

bool gs_kept_state_grow(struct gs_kept_state *state, size_t length)
{
    if (length <= state->length) {
        return true;
    }
    int saved_errno = errno, before = gs_uncancelled_begin();
    size_t more = gs_round_up(length - state->length, GS_MIB);
    if (more < state->length && !must_reserve()) {
        more = state->length;
    }
    int fd = add_piece(state, more);
    struct gs_watch_head head = {
        .magic = GS_WATCH_MAGIC, .key = key, .offset = state->length};
    struct iovec part = {&head, sizeof(head)};
    bool done = fd >= 0 && send_to_command(&part, 1, fd) == 0;
    if (done) {
        state->length += more;
    } else if (fd >= 0) {
        (void)mmap((char *)state->bytes + state->length, more, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    gs_uncancelled_end(before);
    errno = saved_errno;
    return done;
}

/* ---- forks ------------------------------------------------------------------------- */

void gs_kept_state_before_fork(const struct gs_kept_state *state)
{
    (void)madvise(state->bytes, state->length, MADV_DOFORK);
}

void gs_kept_state_after_fork(const struct gs_kept_state *state)
{
    (void)madvise(state->bytes, state->length, MADV_DONTFORK);
}

bool gs_kept_state_copy_in_child(const struct gs_kept_state *state, size_t used)
{
    void *copy = mmap(NULL, state->length, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy == MAP_FAILED) {
        return false;
    }
    memcpy(copy, state->bytes, used < state->length ? used : state->length);
    return syscall(SYS_mremap, copy, state->length, state->length,
                   MREMAP_MAYMOVE | MREMAP_FIXED, state->bytes) != -1;
}
