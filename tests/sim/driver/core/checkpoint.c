/*
 * checkpoint.c - locks the process, takes the device's memory away, and brings it back.
 *
 * A lock closes the door of every entry point, and waits for the work that was submitted.
 * A call that passed the door before may submit a little later: so the device must stay
 * idle for SETTLE_MS. A checkpoint copies the memory that is held to a file, as a driver
 * does to the host, and punches it out of the device's: what a restore would not bring
 * back reads as zeros.
 *
 * Owns: the page, the file.   Lock: the thread's own, but for the page, which is atomic.
 */
#include "checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config.h"
#include "context.h"
#include "device.h"
#include "ipc.h"
#include "log.h"
#include "sched_hostile.h"
#include "shared.h"
#include "space.h"
#include "stream.h"

#define NAME      "cudasim-checkpoint"
#define SETTLE_MS 100
#define NAP_NS    1000000

/* As CUprocessState, which older headers lack. */
enum state { RUNNING, LOCKED, SAVED };

struct page {
    atomic_int pid, tid; /* a forked child has the file, too */
    atomic_uint state;   /* enum state */
    atomic_uint asked;   /* number of the newest request; a futex */
    atomic_uint done;    /* number of the newest that was answered */
    atomic_uint ask, timeout_ms;
    atomic_int result; /* CUresult */
};

atomic_bool sim_checkpoint_locked;

static struct page *page;          /* immutable after cuInit */
static int saved[SIM_MAX_DEVICES]; /* the thread's: files of what devices had */

static long futex(atomic_uint *word, int what, unsigned value)
{
    return syscall(SYS_futex, (void *)word, what, value, NULL, NULL, 0);
}

static void nap(void)
{
    const struct timespec some = {.tv_nsec = NAP_NS};

    nanosleep(&some, NULL);
}

void sim_checkpoint_wait(enum sim_api api)
{
    bool passes = api >= SIM_ID_cuCheckpointProcessCheckpoint &&
                  api <= SIM_ID_cuCheckpointProcessUnlock;

    while (!passes && atomic_load_explicit(&sim_checkpoint_locked, memory_order_acquire))
        nap();
}

/* ---- the process that is asked ------------------------------------------------------
 */

static void look_for_work(struct sim_context *context, void *found)
{
    pthread_mutex_lock(&context->lock);
    for (struct sim_stream *stream = context->streams; stream; stream = stream->next) {
        pthread_mutex_lock(&stream->queue.lock);
        if (stream->queue.head)
            *(bool *)found = true;
        pthread_mutex_unlock(&stream->queue.lock);
    }
    pthread_mutex_unlock(&context->lock);
}

static bool has_work(void)
{
    bool found = false;

    for (int device = 0; device < sim_device_count(); device++)
        sim_context_visit(device, look_for_work, &found);
    return found;
}

static CUresult lock_process(unsigned timeout_ms)
{
    uint64_t began = sim_now_ns(), idle = 0;

    atomic_store(&sim_checkpoint_locked, true);
    for (;;) {
        uint64_t now = sim_now_ns();
        if (has_work())
            idle = 0;
        else if (idle == 0)
            idle = now;
        else if (now - idle > SETTLE_MS * UINT64_C(1000000))
            return CUDA_SUCCESS;
        if (timeout_ms != 0 && now - began > timeout_ms * UINT64_C(1000000)) {
            atomic_store(&sim_checkpoint_locked, false);
            return CUDA_ERROR_NOT_READY;
        }
        nap();
    }
}

/* Copies the units that are held from one file to the other. Needs space->lock. */
static bool copy_units(const struct sim_space *space, int from, int to)
{
    static char unit[SIM_UNIT_BYTES];
    const size_t bytes = sizeof(unit);

    for (size_t i = 0; i < space->range_units; i++) {
        if (!(space->bits[i / SIM_WORD_BITS] >> i % SIM_WORD_BITS & 1))
            continue;
        if (pread(from, unit, bytes, (off_t)(i * bytes)) != (ssize_t)bytes ||
            pwrite(to, unit, bytes, (off_t)(i * bytes)) != (ssize_t)bytes)
            return false;
    }
    return true;
}

static bool save(const struct sim_space *space)
{
    const size_t bytes = space->range_units * SIM_UNIT_BYTES;
    int file = memfd_create("cudasim-saved", MFD_CLOEXEC);

    if (file < 0)
        return false;
    if (ftruncate(file, (off_t)bytes) != 0 || !copy_units(space, space->fd, file)) {
        close(file);
        return false;
    }
    saved[space->device] = file;
    return true;
}

static bool restore(const struct sim_space *space)
{
    return copy_units(space, saved[space->device], space->fd);
}

static bool punch_out(const struct sim_space *space)
{
    return fallocate(space->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                     (off_t)(space->range_units * SIM_UNIT_BYTES)) == 0;
}

static bool forget(const struct sim_space *space)
{
    return close(saved[space->device]) == 0;
}

/* What cannot be finished for one device is begun for none: `finish` does not fail. */
static CUresult each_space(bool (*begin)(const struct sim_space *space),
                           bool (*finish)(const struct sim_space *space))
{
    bool done = true;

    for (int step = 0; step < 2 && done; step++) {
        for (int device = 0; device < sim_device_count(); device++) {
            struct sim_space *space = sim_device_space(device);
            pthread_mutex_lock(&space->lock);
            if (atomic_load(&space->reserved))
                done &= (step == 0 ? begin : finish)(space);
            pthread_mutex_unlock(&space->lock);
        }
    }
    return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult bring_back(void)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (!sim_shared_return(sim_config()->memory_bytes / SIM_UNIT_BYTES))
        return result;
    result = each_space(restore, forget);
    if (result != CUDA_SUCCESS)
        sim_shared_leave();
    return result;
}

/* What a request wants, does and leaves. */
static CUresult answer(enum sim_checkpoint_ask ask, unsigned timeout_ms)
{
    static const enum state wanted[] = {RUNNING, RUNNING, LOCKED, SAVED, LOCKED};
    static const enum state next[] = {RUNNING, LOCKED, SAVED, LOCKED, RUNNING};
    CUresult result = CUDA_SUCCESS;

    if (atomic_load(&page->state) != wanted[ask])
        return CUDA_ERROR_ILLEGAL_STATE;
    if (ask == SIM_CHECKPOINT_LOCK)
        result = lock_process(timeout_ms);
    else if (ask == SIM_CHECKPOINT_SAVE)
        result = each_space(save, punch_out);
    else if (ask == SIM_CHECKPOINT_RESTORE)
        result = bring_back();
    else
        atomic_store(&sim_checkpoint_locked, false);
    if (result == CUDA_SUCCESS && ask == SIM_CHECKPOINT_SAVE)
        sim_shared_leave();
    if (result == CUDA_SUCCESS)
        atomic_store(&page->state, next[ask]);
    return result;
}

static void *serve(void *unused)
{
    unsigned done = 0;

    atomic_store(&page->tid, (int)syscall(SYS_gettid));
    for (;;) {
        unsigned asked = atomic_load(&page->asked);
        if (asked == done) {
            (void)futex(&page->asked, FUTEX_WAIT, done);
            continue;
        }
        atomic_store(&page->result, (int)answer(atomic_load(&page->ask),
                                                atomic_load(&page->timeout_ms)));
        done = asked;
        atomic_store(&page->done, done);
    }
    return unused;
}

static struct page *map_page(int file)
{
    void *mapped =
        mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    return mapped == MAP_FAILED ? NULL : mapped;
}

void sim_checkpoint_start(void)
{
    if (!sim_config()->checkpoint || sim_config()->hostile)
        return;
    int file = memfd_create(NAME, MFD_CLOEXEC); /* open for as long as the process */
    if (file < 0)
        return;
    if (ftruncate(file, sizeof(struct page)) == 0)
        page = map_page(file);
    if (page && sim_own_thread_start(serve, NULL))
        atomic_store(&page->pid, (int)getpid());
    else
        sim_log_always("CUDASIM_CHECKPOINT: no thread or no memory for it");
}

/* ---- the process that asks ----------------------------------------------------------
 */

/* The page's file of another process, open; -1. */
static int open_page(int pid)
{
    char folder[32], path[sizeof(folder) + 16], target[64];
    int found = -1;
    const struct dirent *entry;

    snprintf(folder, sizeof(folder), "/proc/%d/fd", pid);
    DIR *files = opendir(folder);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is this call's own */
    while (files && found < 0 && (entry = readdir(files)) != NULL) {
        snprintf(path, sizeof(path), "%s/%.12s", folder, entry->d_name);
        ssize_t length = readlink(path, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = '\0';
        if (strncmp(target, "/memfd:" NAME " ", sizeof("/memfd:" NAME)) == 0)
            found = open(path, O_RDWR | O_CLOEXEC);
    }
    if (files)
        closedir(files);
    return found;
}

static CUresult request(struct page *other, int pid, enum sim_checkpoint_ask ask,
                        unsigned timeout_ms)
{
    unsigned number = atomic_load(&other->asked) + 1;

    atomic_store(&other->ask, ask);
    atomic_store(&other->timeout_ms, timeout_ms);
    atomic_store(&other->asked, number);
    (void)futex(&other->asked, FUTEX_WAKE, 1);
    while (atomic_load(&other->done) != number) {
        if (sim_process_is_gone(pid))
            return CUDA_ERROR_INVALID_VALUE;
        nap();
    }
    return (CUresult)atomic_load(&other->result);
}

CUresult sim_checkpoint_ask(int pid, enum sim_checkpoint_ask ask, unsigned timeout_ms,
                            unsigned *state, int *tid)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    int file = pid > 0 ? open_page(pid) : -1;

    if (file < 0)
        return result;
    struct page *other = map_page(file);
    if (other && flock(file, LOCK_EX) == 0 && atomic_load(&other->pid) == pid) {
        result = ask == SIM_CHECKPOINT_STATE ? CUDA_SUCCESS
                                             : request(other, pid, ask, timeout_ms);
        if (state)
            *state = atomic_load(&other->state);
        if (tid)
            *tid = atomic_load(&other->tid);
    }
    if (other)
        munmap(other, sizeof(*other));
    close(file);
    return result;
}
