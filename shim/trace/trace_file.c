/*
 * trace_file.c - the slots of a trace file, handed out in batches.
 *
 * One counter numbers the slots; a table of pointers maps a number to its chunk. The
 * thread that draws the first number of a missing chunk extends the file, maps the chunk,
 * and publishes the pointer; or clears the oldest chunk, once the file has its size. Once
 * recording has ended the counter is so large that no number belongs to a chunk.
 *
 * Before a chunk is overwritten, its records are folded into the set of live allocations,
 * one chunk at each growth, and after each eighth of the file the set is written to the
 * file.
 *
 * Owns: the file, its mappings, and the set of live allocations.
 * Lock:  grow_lock while the file is extended or closed; counter and table are atomic.
 */
#include "gs_locks.h"
#include "gs_uncancelled.h"
#include "shim/trace/trace_file.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/settings/log.h"
#include "shim/settings/log_pattern.h"
#include "shim/settings/output.h"
#include "shim/settings/output_map.h"
#include "shim/trace/trace_live.h"
#include "tracker/host_memory.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* The counter's value at the end: no limit reaches it, no process passes it. */
#define ENDED ((uint64_t)1 << 62)

/* With fewer chunks recording ends at the limit. */
#define RING_CHUNKS_LEAST 8u
/* A base is written after so many parts of the file. */
#define RING_PARTS 8u
/* Records written to the file at a time. */
#define BASE_SLOTS 256u

static struct trace_file {
    struct gs_trace_slots slots;
    struct trace_file *earlier;      /* immutable after open: NULL, or the one before */
    uint64_t limit_bytes;            /* likewise: set by the user */
    uint64_t pid_start;              /* likewise: for the header */
    struct gs_trace_record **chunks; /* likewise; the pointers are atomic */
    uint64_t chunk_limit;            /* likewise: length of the table */
    uint64_t ring_chunks;            /* likewise: that length, or 0: no ring */
    bool began_late;                 /* under grow_lock: for the header */
    bool taken;                      /* atomic: gs_trace_file_take_late */
    uint64_t chunk_count;            /* under grow_lock, read atomically: begun */
    uint64_t folded, kept;           /* under grow_lock: the first chunk that is not in
                                      * `live`, and in the file's base */
    struct gs_trace_live live;       /* under grow_lock */
    struct gs_trace_base base;       /* likewise: the last one */
    pid_t pid;                  /* under grow_lock: the process that created the file */
    struct gs_output_map named; /* under grow_lock */
    char pattern[PATH_MAX];     /* immutable after open; absolute */
} * file; /* atomic, changes under grow_lock: the newest. NULL: none yet */

static struct gs_mutex grow_lock = GS_MUTEX(GS_RANK_TRACE_FILE);

/* ---- the end ---------------------------------------------------------------------- */

static struct gs_trace_header *header_of(void)
{
    return (struct gs_trace_header *)__atomic_load_n(&file->chunks[0], __ATOMIC_ACQUIRE);
}

/* grow_lock is held. Hands out no more slots; returns the number handed out. */
static uint64_t end_recording(enum gs_trace_end reason)
{
    uint64_t used = __atomic_exchange_n(&file->slots.next, ENDED, __ATOMIC_ACQ_REL);
    uint64_t words[2];

    if (used >= ENDED || file->chunk_count == 0) {
        return 0;
    }
    if (used > file->chunk_count * GS_TRACE_CHUNK_SLOTS) {
        used = file->chunk_count * GS_TRACE_CHUNK_SLOTS;
    }
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
    if (!__atomic_load_n(&file, __ATOMIC_ACQUIRE) || !gs_mutex_try(&grow_lock)) {
        return false;
    }
    ours = file->pid == 0 || file->pid == (pid_t)syscall(SYS_getpid);
    if (file->chunk_count > 0 && ours) {
        used = end_recording(GS_TRACE_END_EXIT);
        fd = used ? gs_output_map_open(&file->named) : -1;
        if (fd >= 0) {
            /* Every slot handed out is before `used`, in pages that stay. A file that has
             * its whole size stays as it is. */
            if (file->base.number == 0 &&
                used < file->chunk_limit * GS_TRACE_CHUNK_SLOTS &&
                ftruncate(fd, (off_t)(used * GS_TRACE_SLOT_BYTES)) != 0) {
                errno = 0; /* readers accept zeros at the end, too */
            }
            close(fd);
        }
        gs_output_map_log(&file->named, "GPUSHIM_TRACE_FILE",
                          gs_output_map_publish(&file->named));
    }
    gs_mutex_unlock(&grow_lock);
    errno = saved_errno;
    return ours;
}

/* ---- creation; grow_lock is held -------------------------------------------------- */

/* Creates the file. Never changes an existing one: it may be another recording, even one
 * in progress. */
static int create_file(void)
{
    static char wanted[PATH_MAX]; /* under grow_lock */
    int fd;

    if (gs_log_pattern_expand(file->pattern, wanted, sizeof(wanted)) != GS_OK) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = gs_output_map_create(&file->named, wanted, "", NULL);
    if (fd >= 0 && strcmp(file->named.path, wanted) != 0) {
        gs_log_line(GS_LOG_WARN, "GPUSHIM_TRACE_FILE=%.400s: exists; recording to %.400s",
                    wanted, file->named.path);
    }
    file->pid = fd >= 0 ? (pid_t)syscall(SYS_getpid) : 0;
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
    header->pid = (uint32_t)file->pid;
    header->pid_start = file->pid_start;
    header->ring_chunks = file->ring_chunks;
    header->began_late = file->began_late;
    if (program) {
        memcpy(header->program, program, strnlen(program, sizeof(header->program) - 1));
    }
    memcpy(header->magic, GS_TRACE_MAGIC, sizeof(header->magic));
    __atomic_store_n(
        &header->seal,
        gs_trace_seal((const uint64_t *)(const void *)header, GS_TRACE_HEADER_WORDS, 0),
        __ATOMIC_RELEASE);
    __atomic_store_n(&file->slots.start_ns, header->start_ns, __ATOMIC_RELEASE);
}

/*
 * Maps one more chunk of the file.
 * Returns 0 or the errno of the failure; the chunk is not published yet.
 */
static int map_chunk(int fd, uint64_t index, void **out)
{
    off_t offset = (off_t)(index * GS_TRACE_CHUNK_BYTES);
    int error = gs_output_map_extend(fd, offset, GS_TRACE_CHUNK_BYTES);

    if (error) {
        return error;
    }
    *out =
        mmap(NULL, GS_TRACE_CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    if (*out == MAP_FAILED) {
        return errno;
    }
    /* Faulting in all pages at once is cheaper than one by one; kernels before 5.14
     * refuse. */
    (void)madvise(*out, GS_TRACE_CHUNK_BYTES, MADV_POPULATE_WRITE);
    return 0;
}

/* Logs one line with the reason for the end of recording. */
static void log_ended(enum gs_trace_end reason, int error)
{
    bool made = file->chunk_count > 0;

    if (reason == GS_TRACE_END_LIMIT) {
        gs_log_line(
            GS_LOG_WARN,
            "GPUSHIM_TRACE_LIMIT=%lluM: reached; nothing more is recorded in %.600s",
            (unsigned long long)(file->limit_bytes / GS_MIB), file->named.path);
    } else {
        gs_log_line(GS_LOG_WARN, "GPUSHIM_TRACE_FILE=%.600s: %s: %s; %s",
                    file->named.path[0] ? file->named.path : file->pattern,
                    made ? "cannot grow" : "cannot be created",
                    gs_output_error_text(error),
                    made ? "nothing more is recorded" : "nothing is recorded");
    }
}

/* ---- the ring; grow_lock is held -------------------------------------------------- */

static struct gs_trace_record *chunk_at(const struct trace_file *from, uint64_t index)
{
    uint64_t place = gs_trace_chunk_place(index, from->ring_chunks);

    return __atomic_load_n(&from->chunks[place], __ATOMIC_ACQUIRE);
}

static struct gs_trace_ring *ring_of(void)
{
    return (struct gs_trace_ring *)(void *)((char *)header_of() +
                                            GS_TRACE_HEADER_SLOTS * GS_TRACE_SLOT_BYTES);
}

/* Adds the records of a chunk, to which no thread writes any more, to the set of live
 * allocations. */
static void add_chunk_to_live(uint64_t chunk)
{
    const struct gs_trace_record *records = chunk_at(file, chunk);
    size_t first = chunk == 0 ? GS_TRACE_BATCH_SLOTS : 0;

    for (size_t i = first; i < GS_TRACE_CHUNK_SLOTS; i++) {
        uint64_t words[offsetof(struct gs_trace_record, seal) / 8];
        struct gs_trace_record record = records[i];

        memcpy(words, &record, sizeof(words));
        if (record.seal ==
            gs_trace_seal(words, GS_ARRAY_LEN(words), chunk * GS_TRACE_CHUNK_SLOTS + i)) {
            gs_trace_live_add(&file->live, &record, chunk);
        }
    }
}

/* The base being written. */
struct base_writer {
    int fd, error;
    uint64_t place;
    size_t count;
};

static struct gs_trace_record base_slots[BASE_SLOTS]; /* under grow_lock */

static void flush_base(struct base_writer *writer)
{
    size_t bytes = writer->count * GS_TRACE_SLOT_BYTES, done = 0;
    off_t at = (off_t)((writer->place - writer->count) * GS_TRACE_SLOT_BYTES);

    while (!writer->error && done < bytes) {
        ssize_t more =
            pwrite(writer->fd, (char *)base_slots + done, bytes - done, at + (off_t)done);

        if (more > 0) {
            done += (size_t)more;
        } else if (more == 0 || errno != EINTR) {
            writer->error = more == 0 ? EIO : errno;
        }
    }
    writer->count = 0;
}

static void put_base(void *arg, const struct gs_trace_record *record)
{
    uint64_t words[offsetof(struct gs_trace_record, seal) / 8];
    struct base_writer *writer = arg;
    struct gs_trace_record *slot = &base_slots[writer->count++];

    *slot = *record;
    memcpy(words, slot, sizeof(words));
    slot->seal =
        gs_trace_seal(words, GS_ARRAY_LEN(words), writer->place++ | GS_TRACE_BASE_SALT);
    if (writer->count == BASE_SLOTS) {
        flush_base(writer);
    }
}

/* Writes the live allocations before the chunk `file->folded` after the ring, where the
 * last base is not. Returns 0 or an errno. */
static int write_base(int fd)
{
    const uint64_t ring_slots = file->ring_chunks * GS_TRACE_CHUNK_SLOTS;
    struct gs_trace_base base = {.number = file->base.number + 1,
                                 .first_slot = file->folded * GS_TRACE_CHUNK_SLOTS,
                                 .place = ring_slots};
    struct gs_trace_base *out = &ring_of()->bases[base.number % 2];
    struct gs_output_shield shield;
    uint64_t words[GS_TRACE_BASE_WORDS];

    if (file->folded >= file->ring_chunks) {
        gs_trace_live_expire(&file->live, file->folded - file->ring_chunks);
    }
    base.records = gs_trace_live_count(&file->live);
    if (file->base.number != 0 && file->base.place - ring_slots < base.records) {
        base.place = file->base.place + file->base.records;
    }
    struct base_writer writer = {.fd = fd, .place = base.place};
    gs_output_shield_raise(&shield);
    gs_trace_live_visit(&file->live, put_base, &writer);
    flush_base(&writer);
    gs_output_shield_lower(&shield, writer.error);
    if (writer.error || file->live.no_memory) {
        return writer.error ? writer.error : ENOMEM;
    }
    memcpy(words, &base, sizeof(words));
    base.seal = gs_trace_seal(words, GS_TRACE_BASE_WORDS, 2);
    __atomic_store_n(&out->seal, 0, __ATOMIC_RELEASE);
    out->number = base.number;
    out->first_slot = base.first_slot;
    out->place = base.place;
    out->records = base.records;
    __atomic_store_n(&out->seal, base.seal, __ATOMIC_RELEASE);
    file->base = base;
    file->kept = file->folded;
    return 0;
}

/* Folds one more chunk, so that the oldest is in the base before it is overwritten. */
static int prepare_ring(int fd)
{
    uint64_t part = file->ring_chunks / RING_PARTS;

    if (file->ring_chunks == 0 || file->chunk_count < file->ring_chunks - part) {
        return 0;
    }
    add_chunk_to_live(file->folded++);
    return file->folded - file->kept >= part ? write_base(fd) : 0;
}

/* ---- growing; grow_lock is held --------------------------------------------------- */

/* Maps the next chunk, or clears the oldest one. Returns 0 or an errno. */
static int take_chunk(int fd)
{
    uint64_t place = gs_trace_chunk_place(file->chunk_count, file->ring_chunks);
    void *chunk = NULL;
    int error = 0;

    if (file->chunk_count >= file->chunk_limit) {
        memset(file->chunks[place], 0, GS_TRACE_CHUNK_BYTES);
        return 0;
    }
    error = map_chunk(fd, file->chunk_count, &chunk);
    if (!error && file->chunk_count == 0) {
        write_header(chunk);
    }
    if (!error) {
        __atomic_store_n(&file->chunks[place], chunk, __ATOMIC_RELEASE);
    }
    return error;
}

/* Begins the next chunk. Returns 0 or an errno. */
static int begin_chunk(void)
{
    int fd = file->chunk_count ? gs_output_map_open(&file->named) : create_file();
    int error = fd < 0 ? errno : 0;

    if (error) {
        return error;
    }
    error = prepare_ring(fd);
    if (!error) {
        error = take_chunk(fd);
    }
    if (error && file->chunk_count == 0) {
        gs_output_map_remove(&file->named); /* no record is in it */
    }
    close(fd);
    if (error) {
        return error;
    }
    if (file->ring_chunks != 0) {
        __atomic_store_n(&ring_of()->chunks, file->chunk_count + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&file->chunk_count, file->chunk_count + 1, __ATOMIC_RELEASE);
    return 0;
}

/* grow_lock is held. Creates the chunks up to this index. Returns 0 or an errno. */
static int grow_to(uint64_t index)
{
    int error = 0;

    while (!error && file->chunk_count <= index &&
           __atomic_load_n(&file->slots.next, __ATOMIC_ACQUIRE) < ENDED) {
        bool full = file->ring_chunks == 0 && file->chunk_count == file->chunk_limit;

        error = full ? EFBIG : begin_chunk();
        if (error) {
            enum gs_trace_end reason = full ? GS_TRACE_END_LIMIT : GS_TRACE_END_NO_SPACE;

            log_ended(reason, error);
            end_recording(reason);
        }
    }
    return error;
}

/* The chunk with this index, created if missing; NULL once recording has ended. */
static __attribute__((cold, noinline)) struct gs_trace_record *grow(struct trace_file *to,
                                                                    uint64_t index)
{
    struct gs_trace_record *chunk = NULL;
    int saved_errno = errno;
    int before = gs_uncancelled_begin();

    gs_mutex_lock(&grow_lock);
    if (to == file) { /* else another has begun since */
        (void)grow_to(index);
    }
    if (index < to->chunk_count) {
        chunk = chunk_at(to, index);
    }
    gs_mutex_unlock(&grow_lock);
    gs_uncancelled_end(before);
    errno = saved_errno;
    return chunk;
}

/* ---- the public part -------------------------------------------------------------- */

/* Fills in a file that has no slot yet. */
static enum gs_status prepare(struct trace_file *made, uint64_t limit_bytes)
{
    uint64_t chunk_limit = limit_bytes / GS_TRACE_CHUNK_BYTES;

    if (chunk_limit == 0) {
        chunk_limit = 1;
    }
    made->chunks = gs_host_map(chunk_limit * sizeof(*made->chunks));
    if (!made->chunks) {
        return GS_ERR_HOST_NOMEM;
    }
    made->limit_bytes = limit_bytes;
    made->chunk_limit = chunk_limit;
    made->ring_chunks = chunk_limit >= RING_CHUNKS_LEAST ? chunk_limit : 0;
    made->slots.stale = made->ring_chunks ? (chunk_limit - chunk_limit / RING_PARTS - 2) *
                                                GS_TRACE_CHUNK_SLOTS
                                          : UINT64_MAX;
    made->slots.next = GS_TRACE_BATCH_SLOTS;
    return GS_OK;
}

enum gs_status gs_trace_file_open(const char *pattern, uint64_t limit_bytes,
                                  uint64_t pid_start)
{
    struct trace_file *made;

    if (strlen(pattern) >= sizeof(made->pattern)) {
        return GS_ERR_INVALID;
    }
    made = gs_host_map(sizeof(*made));
    if (!made || prepare(made, limit_bytes) != GS_OK) {
        gs_host_unmap(made, sizeof(*made));
        return GS_ERR_HOST_NOMEM;
    }
    gs_log_pattern_keep(made->pattern, pattern);
    made->pid_start = pid_start;
    gs_mutex_lock(&grow_lock);
    made->earlier = file;
    __atomic_store_n(&file, made, __ATOMIC_RELEASE);
    gs_mutex_unlock(&grow_lock);
    return GS_OK;
}

int gs_trace_file_create(void)
{
    int error, before = gs_uncancelled_begin();

    gs_mutex_lock(&grow_lock);
    file->began_late = true;
    error = grow_to(0);
    gs_mutex_unlock(&grow_lock);
    gs_uncancelled_end(before);
    return error;
}

uint64_t gs_trace_file_start_ns(void)
{
    return __atomic_load_n(&file->slots.start_ns, __ATOMIC_ACQUIRE);
}

const char *gs_trace_file_path(void)
{
    return file ? file->named.path : "";
}

bool gs_trace_file_is_late(void)
{
    const struct trace_file *of = __atomic_load_n(&file, __ATOMIC_ACQUIRE);

    return of && of->began_late;
}

const char *gs_trace_file_take_late(void)
{
    struct trace_file *of = __atomic_load_n(&file, __ATOMIC_ACQUIRE);

    return of && of->began_late && of->chunk_count > 0 &&
                   of->pid == (pid_t)syscall(SYS_getpid) &&
                   !__atomic_exchange_n(&of->taken, true, __ATOMIC_ACQ_REL)
               ? of->named.path
               : "";
}

struct gs_trace_record *gs_trace_file_batch(struct gs_trace_slots **slots,
                                            uint64_t *number)
{
    struct trace_file *from = __atomic_load_n(&file, __ATOMIC_ACQUIRE);
    uint64_t slot =
        __atomic_fetch_add(&from->slots.next, GS_TRACE_BATCH_SLOTS, __ATOMIC_ACQ_REL);
    uint64_t index = slot / GS_TRACE_CHUNK_SLOTS;
    struct gs_trace_record *chunk = NULL;

    if (GS_UNLIKELY(slot >= ENDED)) {
        return NULL;
    }
    if (GS_LIKELY(index < __atomic_load_n(&from->chunk_count, __ATOMIC_ACQUIRE))) {
        chunk = chunk_at(from, index);
    }
    if (GS_UNLIKELY(!chunk)) {
        chunk = grow(from, index);
    }
    *slots = &from->slots;
    *number = slot;
    return chunk ? &chunk[slot % GS_TRACE_CHUNK_SLOTS] : NULL;
}

static void visit_chunks(const struct trace_file *of,
                         void (*visit)(void *arg, uintptr_t begin, size_t bytes),
                         void *arg)
{
    uintptr_t begin = 0, end = 0; /* chunks side by side */

    for (uint64_t i = 0; i < of->chunk_limit; i++) {
        uintptr_t chunk = (uintptr_t)__atomic_load_n(&of->chunks[i], __ATOMIC_ACQUIRE);

        if (chunk == 0) {
            break;
        }
        if (begin == chunk + GS_TRACE_CHUNK_BYTES) {
            begin = chunk;
        } else if (end == chunk) {
            end += GS_TRACE_CHUNK_BYTES;
        } else {
            if (end > begin) {
                visit(arg, begin, end - begin);
            }
            begin = chunk;
            end = chunk + GS_TRACE_CHUNK_BYTES;
        }
    }
    if (end > begin) {
        visit(arg, begin, end - begin);
    }
}

void gs_trace_file_visit(void (*visit)(void *arg, uintptr_t begin, size_t bytes),
                         void *arg)
{
    const struct trace_file *of = __atomic_load_n(&file, __ATOMIC_ACQUIRE);

    for (; of; of = of->earlier) {
        visit_chunks(of, visit, arg);
    }
}

static void drop_pages(void *unused, uintptr_t begin, size_t bytes)
{
    (void)unused;
    (void)madvise((void *)begin, bytes, MADV_DONTNEED);
}

void gs_trace_file_rest(void)
{
    if (!file) {
        return;
    }
    visit_chunks(file, drop_pages, NULL);
    gs_mutex_lock(&grow_lock);
    gs_trace_live_free(&file->live);
    gs_mutex_unlock(&grow_lock);
}

void gs_trace_file_reset(void)
{
    while (file) {
        struct trace_file *dropped = file;

        for (uint64_t i = 0; i < dropped->chunk_count && i < dropped->chunk_limit; i++) {
            munmap(dropped->chunks[i], GS_TRACE_CHUNK_BYTES);
        }
        gs_trace_live_free(&dropped->live);
        file = dropped->earlier;
        gs_host_unmap(dropped->chunks, dropped->chunk_limit * sizeof(*dropped->chunks));
        gs_host_unmap(dropped, sizeof(*dropped));
    }
    gs_mutex_init(&grow_lock, GS_RANK_TRACE_FILE);
}
