/*
 * files.h - part of gpushim_memory.h: files streamed through the device.
 */
#ifndef GPUSHIM_MEMORY_FILES_H
#define GPUSHIM_MEMORY_FILES_H

#ifndef GPUSHIM_MEMORY_H
#error "include gpushim_memory.h"
#endif

#ifdef O_CLOEXEC
#define GPUSHIM_CLOEXEC_ O_CLOEXEC
#elif defined(__O_CLOEXEC) /* strict C99 hides the names */
#define GPUSHIM_CLOEXEC_ __O_CLOEXEC
#else
#define GPUSHIM_CLOEXEC_ 0
#endif
#ifdef O_DIRECT
#define GPUSHIM_DIRECT_ O_DIRECT
#elif defined(__O_DIRECT)
#define GPUSHIM_DIRECT_ __O_DIRECT
#else
#define GPUSHIM_DIRECT_ 0
#endif

/* Alignment that O_DIRECT may need of addresses, offsets and lengths. */
enum { GPUSHIM_DISK_BLOCK_ = 4096 };

/* Reads until `bytes` are there, or the file ends. Goes on through the page cache where
 * the file system refuses O_DIRECT. Negative: failed, see errno. */
static inline ssize_t gpushim_read_(int file, char *to, size_t bytes)
{
    size_t got = 0;

    while (got < bytes) {
        ssize_t now = read(file, to + got, bytes - got);
        if (now > 0) {
            got += (size_t)now;
        }
        if (now == 0) {
            break;
        }
        if (now < 0 ? errno == EINVAL : got % GPUSHIM_DISK_BLOCK_ != 0) {
            int why = errno, flags = fcntl(file, F_GETFL);
            if (flags >= 0 && (flags & GPUSHIM_DIRECT_) &&
                fcntl(file, F_SETFL, flags & ~GPUSHIM_DIRECT_) == 0) {
                continue;
            }
            errno = why;
        }
        if (now < 0 && errno != EINTR) {
            return -1;
        }
    }
    return (ssize_t)got;
}

/* The loop of gpushim_read_file. */
static inline gpushim_result
gpushim_read_chunks_(const struct gpushim_calls_ *cuda, int file, uint64_t offset,
                     uint64_t bytes, size_t chunk_bytes, void *stream,
                     gpushim_each_chunk each, void *user, struct gpushim_buffer *pinned,
                     struct gpushim_buffer *device, void **copied, uint64_t *done)
{
    gpushim_result result = GPUSHIM_OK;
    struct gpushim_buffer chunk;
    unsigned turn;

    for (turn = 0; *done < bytes && result == GPUSHIM_OK; turn ^= 1) {
        size_t wanted =
            bytes - *done < chunk_bytes ? (size_t)(bytes - *done) : chunk_bytes;
        size_t whole = (wanted + GPUSHIM_DISK_BLOCK_ - 1) / GPUSHIM_DISK_BLOCK_ *
                       GPUSHIM_DISK_BLOCK_;
        ssize_t got;

        /* The copy of the chunk before the last has left this pinned buffer. */
        result = gpushim_from_cuda_(cuda->event_sync(copied[turn]));
        if (result != GPUSHIM_OK) {
            break;
        }
        got = gpushim_read_(file, (char *)pinned[turn].data, whole);
        if (got <= 0) {
            return got < 0 ? GPUSHIM_NOT_FOUND : GPUSHIM_OK;
        }
        wanted = (size_t)got < wanted ? (size_t)got : wanted;
        result = gpushim_buffer_copy(device, 0, &pinned[turn], 0, wanted, stream);
        if (result == GPUSHIM_OK) {
            result = gpushim_from_cuda_(cuda->event_record(copied[turn], stream));
        }
        if (result == GPUSHIM_OK) {
            result = gpushim_buffer_view(&chunk, device, 0, wanted);
        }
        if (result == GPUSHIM_OK) {
            result = each(user, &chunk, offset + *done, stream);
        }
        if (result == GPUSHIM_OK) {
            *done += wanted;
            if ((size_t)got < whole && *done < bytes) {
                break; /* the end of the file */
            }
        }
    }
    return result;
}

/*
 * Streams a part of a file through the device, larger than its memory if need be: while
 * the stream works on one chunk, the next is read from disk, past the page cache
 * (O_DIRECT) where the file system can and `offset` is a multiple of 4096. The callback
 * gets each chunk in device memory and queues work in the stream. Returns when the
 * stream's work is complete. Reads by read(): up to eight reads in flight by io_uring
 * were no faster (fio, 1 and 8 MiB a read), and containers often refuse io_uring.
 * In:     bytes        UINT64_MAX: to the end of the file
 *         chunk_bytes  device memory, and half of the pinned memory, rounded up to 4096
 *         stream       GPUSHIM_SYNC counts as NULL
 * Out:    *done  bytes whose callback returned GPUSHIM_OK; less than `bytes` where the
 *                file is shorter; may be NULL
 * Errors: as of gpushim_buffer_create, and what the callback returned
 *         NOT_FOUND  the file cannot be opened or read: errno says why
 */
static inline gpushim_result gpushim_read_file(const char *path, uint64_t offset,
                                               uint64_t bytes, size_t chunk_bytes,
                                               void *stream, gpushim_each_chunk each,
                                               void *user, uint64_t *done)
{
    const struct gpushim_calls_ *cuda;
    struct gpushim_buffer pinned, halves[2], device = GPUSHIM_BUFFER_INIT;
    void *copied[2] = {NULL, NULL}, *queue = stream == GPUSHIM_SYNC ? NULL : stream;
    gpushim_result result, ended;
    uint64_t so_far = 0;
    size_t sizes[2];
    int file, flags = O_RDONLY | GPUSHIM_CLOEXEC_, why = 0;

    if (!path || !bytes || !chunk_bytes || !each || offset > INT64_MAX ||
        chunk_bytes > SIZE_MAX / 4) {
        return GPUSHIM_INVALID;
    }
    if (done) {
        *done = 0;
    }
    chunk_bytes = (chunk_bytes + GPUSHIM_DISK_BLOCK_ - 1) / GPUSHIM_DISK_BLOCK_ *
                  GPUSHIM_DISK_BLOCK_;
    file = offset % GPUSHIM_DISK_BLOCK_ ? -1 : open(path, flags | GPUSHIM_DIRECT_);
    file = file < 0 ? open(path, flags) : file;
    if (file < 0) {
        return GPUSHIM_NOT_FOUND;
    }
    if (lseek(file, (off_t)offset, SEEK_SET) < 0) {
        why = errno;
        (void)close(file);
        errno = why;
        return GPUSHIM_NOT_FOUND;
    }
    sizes[0] = sizes[1] = chunk_bytes;
    memset(&pinned, 0, sizeof(pinned));
    result = gpushim_cuda_(&cuda);
    if (result == GPUSHIM_OK) {
        result =
            gpushim_from_cuda_(cuda->event_create(&copied[0], GPUSHIM_CU_NO_TIMING_));
    }
    if (result == GPUSHIM_OK) {
        result =
            gpushim_from_cuda_(cuda->event_create(&copied[1], GPUSHIM_CU_NO_TIMING_));
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_batch_create(&pinned, halves, sizes, 2, GPUSHIM_PINNED_HOST,
                                      GPUSHIM_DISK_BLOCK_, 0);
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_buffer_create(&device, GPUSHIM_DEVICE, chunk_bytes, 0, 0);
    }
    if (result == GPUSHIM_OK) {
        errno = 0;
        result = gpushim_read_chunks_(cuda, file, offset, bytes, chunk_bytes, queue, each,
                                      user, halves, &device, copied, &so_far);
        why = errno;
        ended = gpushim_from_cuda_(cuda->stream_sync(queue));
        result = result == GPUSHIM_OK ? ended : result;
    }
    ended = gpushim_buffer_free(&device);
    result = result == GPUSHIM_OK ? ended : result;
    ended = gpushim_buffer_free(&pinned);
    result = result == GPUSHIM_OK ? ended : result;
    if (copied[0]) {
        (void)cuda->event_destroy(copied[0]);
    }
    if (copied[1]) {
        (void)cuda->event_destroy(copied[1]);
    }
    (void)close(file);
    errno = why;
    if (done) {
        *done = so_far;
    }
    return result;
}

#undef GPUSHIM_CLOEXEC_
#undef GPUSHIM_DIRECT_

#endif
