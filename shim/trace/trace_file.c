/*
 * trace_file.c - the slots of a trace file, handed out in batches.
 *
 * One counter numbers the slots; a table of pointers maps a number to its chunk. The
 * thread that draws the first number of a missing chunk extends the file, maps the chunk,
 * and publishes the pointer. Once recording has ended the counter is so large that no
 * number belongs to a chunk.
 *
 * Owns:  the file and its mappings.
 * Lock:  grow_lock while the file is extended or closed; counter and table are atomic.
 */
#include "trace_file.h"
#include "gs_locks.h"
#include "gs_uncancelled.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "log_pattern.h"
#include "output.h"
#include "output_map.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* The counter's value at the end: no limit reaches it, no process passes it. */
#define ENDED ((uint64_t)1 << 62)

static struct trace_file {
    uint64_t next;                   /* atomic: number of the next slot */
    uint64_t limit_bytes;            /* immutable after open: set by the user */
    uint64_t pid_start;              /* likewise: for the header */
    struct gs_trace_record **chunks; /* likewise; the pointers are atomic */
    uint64_t chunk_limit;            /* likewise: length of the table */
    uint64_t chunk_count;            /* under grow_lock: mapped */
    uint64_t start_ns;               /* atomic: written before the first chunk appears */
    pid_t pid;                  /* under grow_lock: the process that created the file */
    struct gs_output_map named; /* under grow_lock */
    char pattern[PATH_MAX];     /* immutable after open; absolute */
} file;

static struct gs_mutex grow_lock = GS_MUTEX(GS_RANK_TRACE_FILE);

/* ---- the end ---------------------------------------------------------------------- */

static struct gs_trace_header *header_of(void)
{
    return (struct gs_trace_header *)__atomic_load_n(&file.chunks[0], __ATOMIC_ACQUIRE);
}

/* grow_lock is held. Hands out no more slots; returns the number handed out. */
static uint64_t end_recording(enum gs_trace_end reason)
{
    uint64_t used = __atomic_exchange_n(&file.next, ENDED, __ATOMIC_ACQ_REL);
    uint64_t words[2];

    if (used >= ENDED || file.chunk_count == 0)
        return 0;
    if (used > file.chunk_count * GS_TRACE_CHUNK_SLOTS)
        used = file.chunk_count * GS_TRACE_CHUNK_SLOTS;
    words[0] = used;
    words[1] = reason;
    header_of()->end_slots = words[0];
    header_of()->end_reason = words[1];
    __atomic_store_n(&header_of()->end_seal, gs_trace_seal(words, 2, 1),
                     __ATOMIC_RELEASE);
    return used;
}

bool gs_trace_file_close(void)
{
    int saved_errno = errno;
    uint64_t used;
    bool ours;
    int fd;

    /* An exit does not wait for a thread that extends the file, since a signal handler
     * may have interrupted it. The file is then like after a crash. */
    if (!file.chunks || !gs_mutex_try(&grow_lock))
        return false;
    ours = file.pid == 0 || file.pid == (pid_t)syscall(SYS_getpid);
    if (file.chunk_count > 0 && ours) {
        used = end_recording(GS_TRACE_END_EXIT);
        fd = used ? gs_output_map_open(&file.named) : -1;
        if (fd >= 0) {
            /* Every slot handed out lies before `used`, in pages that stay. */
            if (ftruncate(fd, (off_t)(used * GS_TRACE_SLOT_BYTES)) != 0)
                errno = 0; /* readers accept zeros at the end, too */
            close(fd);
        }
        gs_output_map_log(&file.named, "GPUSHIM_TRACE_FILE",
                          gs_output_map_publish(&file.named));
    }
    gs_mutex_unlock(&grow_lock);
    errno = saved_errno;
    return ours;
}

/* ---- growing; grow_lock is held --------------------------------------------------- */

/* Creates the file. Never changes an existing one: it may be another recording, even one
 * in progress. */
static int create_file(void)
{
    static char wanted[PATH_MAX]; /* under grow_lock */
    int fd;

    if (gs_log_pattern_expand(file.pattern, wanted, sizeof(wanted)) != GS_OK) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = gs_output_map_create(&file.named, wanted, "", NULL);
    if (fd >= 0 && strcmp(file.named.path, wanted) != 0)
        gs_log_line(GS_LOG_WARN, "GPUSHIM_TRACE_FILE=%.400s: exists; recording to %.400s",
                    wanted, file.named.path);
    file.pid = fd >= 0 ? (pid_t)syscall(SYS_getpid) : 0;
    return fd;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void write_header(struct gs_trace_header *header)
{
    const char *program = program_invocation_short_name;

    header->version = GS_TRACE_VERSION;
    header->slot_bytes = GS_TRACE_SLOT_BYTES;
    header->header_slots = GS_TRACE_HEADER_SLOTS;
    header->chunk_slots = GS_TRACE_CHUNK_SLOTS;
    header->start_ns = clock_ns(CLOCK_MONOTONIC);
    header->start_real_ns = clock_ns(CLOCK_REALTIME);
    header->pid = (uint32_t)file.pid;
    header->pid_start = file.pid_start;
    if (program)
        memcpy(header->program, program, strnlen(program, sizeof(header->program) - 1));
    memcpy(header->magic, GS_TRACE_MAGIC, sizeof(header->magic));
    __atomic_store_n(
        &header->seal,
        gs_trace_seal((const uint64_t *)(const void *)header, GS_TRACE_HEADER_WORDS, 0),
        __ATOMIC_RELEASE);
    __atomic_store_n(&file.start_ns, header->start_ns, __ATOMIC_RELEASE);
}

/*
 * Maps one more chunk of the file.
 * Returns 0 or the errno of the failure; the chunk is not published yet.
 */
static int map_chunk(int fd, uint64_t index, void **out)
{
    off_t offset = (off_t)(index * GS_TRACE_CHUNK_BYTES);
    int error = gs_output_map_extend(fd, offset, GS_TRACE_CHUNK_BYTES);

    if (error)
        return error;
    *out =
        mmap(NULL, GS_TRACE_CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    if (*out == MAP_FAILED)
        return errno;
    /* Faulting in all pages at once is cheaper than one by one; kernels before 5.14
     * refuse. */
    (void)madvise(*out, GS_TRACE_CHUNK_BYTES, MADV_POPULATE_WRITE);
    return 0;
}

/* Logs one line with the reason for the end of recording. */
static void log_ended(enum gs_trace_end reason, int error)
{
    bool made = file.chunk_count > 0;

    if (reason == GS_TRACE_END_LIMIT)
        gs_log_line(
            GS_LOG_WARN,
            "GPUSHIM_TRACE_LIMIT=%lluM: reached; nothing more is recorded in %.600s",
            (unsigned long long)(file.limit_bytes / GS_MIB), file.named.path);
    else
        gs_log_line(GS_LOG_WARN, "GPUSHIM_TRACE_FILE=%.600s: %s: %s; %s",
                    file.named.path[0] ? file.named.path : file.pattern,
                    made ? "cannot grow" : "cannot be created",
                    gs_output_error_text(error),
                    made ? "nothing more is recorded" : "nothing is recorded");
}

/* Appends the next chunk. Returns 0 or an errno. */
static int append_chunk(void)
{
    void *chunk = NULL;
    int fd = file.chunk_count ? gs_output_map_open(&file.named) : create_file();
    int error = fd < 0 ? errno : 0;

    if (error)
        return error;
    error = map_chunk(fd, file.chunk_count, &chunk);
    if (error && file.chunk_count == 0)
        gs_output_map_remove(&file.named); /* no record is in it */
    close(fd);
    if (error)
        return error;
    if (file.chunk_count == 0)
        write_header(chunk);
    __atomic_store_n(&file.chunks[file.chunk_count], chunk, __ATOMIC_RELEASE);
    file.chunk_count++;
    return 0;
}

/* The chunk with this index, created if missing; NULL once recording has ended. */
static __attribute__((cold, noinline)) struct gs_trace_record *grow(uint64_t index)
{
    struct gs_trace_record *chunk = NULL;
    int saved_errno = errno;
    int error = 0, before = gs_uncancelled_begin();

    gs_mutex_lock(&grow_lock);
    while (!error && file.chunk_count <= index &&
           __atomic_load_n(&file.next, __ATOMIC_ACQUIRE) < ENDED) {
        bool full = file.chunk_count == file.chunk_limit;

        error = full ? EFBIG : append_chunk();
        if (error) {
            enum gs_trace_end reason = full ? GS_TRACE_END_LIMIT : GS_TRACE_END_NO_SPACE;

            log_ended(reason, error);
            end_recording(reason);
        }
    }
    if (index < file.chunk_count)
        chunk = file.chunks[index];
    gs_mutex_unlock(&grow_lock);
    gs_uncancelled_end(before);
    errno = saved_errno;
    return chunk;
}

/* ---- the public part -------------------------------------------------------------- */

enum gs_status gs_trace_file_open(const char *pattern, uint64_t limit_bytes,
                                  uint64_t pid_start)
{
    uint64_t chunk_limit = limit_bytes / GS_TRACE_CHUNK_BYTES;
    void *table;

    if (strlen(pattern) >= sizeof(file.pattern))
        return GS_ERR_INVALID;
    if (chunk_limit == 0)
        chunk_limit = 1;
    table = mmap(NULL, chunk_limit * sizeof(*file.chunks), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        return GS_ERR_HOST_NOMEM;
    gs_log_pattern_keep(file.pattern, pattern);
    file.limit_bytes = limit_bytes;
    file.pid_start = pid_start;
    file.chunk_limit = chunk_limit;
    file.chunks = table;
    __atomic_store_n(&file.next, GS_TRACE_BATCH_SLOTS, __ATOMIC_RELEASE);
    return GS_OK;
}

struct gs_trace_record *gs_trace_file_batch(uint64_t *number)
{
    uint64_t slot =
        __atomic_fetch_add(&file.next, GS_TRACE_BATCH_SLOTS, __ATOMIC_ACQ_REL);
    uint64_t index = slot / GS_TRACE_CHUNK_SLOTS;
    struct gs_trace_record *chunk = NULL;

    if (GS_UNLIKELY(slot >= ENDED))
        return NULL;
    if (GS_LIKELY(index < file.chunk_limit))
        chunk = __atomic_load_n(&file.chunks[index], __ATOMIC_ACQUIRE);
    if (GS_UNLIKELY(!chunk))
        chunk = grow(index);
    *number = slot;
    return chunk ? &chunk[slot % GS_TRACE_CHUNK_SLOTS] : NULL;
}

uint64_t gs_trace_file_start_ns(void)
{
    return __atomic_load_n(&file.start_ns, __ATOMIC_ACQUIRE);
}

void gs_trace_file_visit(void (*visit)(void *arg, uintptr_t begin, size_t bytes),
                         void *arg)
{
    uintptr_t begin = 0, end = 0; /* chunks side by side */

    for (uint64_t i = 0; file.chunks && i < file.chunk_limit; i++) {
        uintptr_t chunk = (uintptr_t)__atomic_load_n(&file.chunks[i], __ATOMIC_ACQUIRE);

        if (chunk == 0)
            break;
        if (begin == chunk + GS_TRACE_CHUNK_BYTES) {
            begin = chunk;
        } else if (end == chunk) {
            end += GS_TRACE_CHUNK_BYTES;
        } else {
            if (end > begin)
                visit(arg, begin, end - begin);
            begin = chunk;
            end = chunk + GS_TRACE_CHUNK_BYTES;
        }
    }
    if (end > begin)
        visit(arg, begin, end - begin);
}

void gs_trace_file_reset(void)
{
    for (uint64_t i = 0; i < file.chunk_count; i++)
        munmap(file.chunks[i], GS_TRACE_CHUNK_BYTES);
    if (file.chunks)
        munmap(file.chunks, file.chunk_limit * sizeof(*file.chunks));
    memset(&file, 0, sizeof(file));
    file.next = ENDED;
    gs_mutex_init(&grow_lock, GS_RANK_TRACE_FILE);
}
