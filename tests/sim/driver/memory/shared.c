/*
 * shared.c - the file of CUDASIM_SHARED.
 * Owns, Lock: see shared.h
 */
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "log.h"

#define RECORDS 64

struct record {
    size_t units[SIM_MAX_DEVICES];
    bool away; /* of a process that is checkpointed: it holds nothing */
};

/* Its bytes are locks, too: the first of the whole file, then one for each record. */
struct file {
    struct record records[RECORDS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fd = -1;        /* never closed: a close would drop the locks */
static struct file *file;  /* NULL: not shared; immutable after cuInit */
static struct record *own; /* NULL: not yet */

/* A lock of the process on a byte of the file: of all of it, or of a record. */
static bool byte_lock(int command, short type, off_t byte, short *found)
{
    struct flock what = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

    if (fcntl(fd, command, &what) != 0)
        return false;
    if (found)
        *found = what.l_type;
    return true;
}

static void file_lock(void)
{
    pthread_mutex_lock(&lock);
    while (!byte_lock(F_SETLKW, F_WRLCK, 0, NULL) && errno == EINTR)
        ;
}

static void file_unlock(void)
{
    (void)byte_lock(F_SETLK, F_UNLCK, 0, NULL);
    pthread_mutex_unlock(&lock);
}

static bool is_alive(size_t i)
{
    short type = F_UNLCK;

    return &file->records[i] == own ||
           (byte_lock(F_GETLK, F_WRLCK, (off_t)i + 1, &type) && type != F_UNLCK);
}

/* Makes a record of nobody this process's own. The file is locked. */
static bool enter(void)
{
    for (size_t i = 0; i < RECORDS && !own; i++) {
        if (!is_alive(i) && byte_lock(F_SETLK, F_WRLCK, (off_t)i + 1, NULL)) {
            file->records[i] = (struct record){.away = false};
            own = &file->records[i];
        }
    }
    if (!own)
        sim_log_always("CUDASIM_SHARED: more than %d processes", RECORDS);
    return own != NULL;
}

/* What others hold of a device. The file is locked. */
static size_t others(int device)
{
    size_t units = 0;

    for (size_t i = 0; i < RECORDS; i++) {
        const struct record *record = &file->records[i];

        if (record != own && record->units[device] && !record->away && is_alive(i))
            units += record->units[device];
    }
    return units;
}

void sim_shared_open(void)
{
    const char *path = sim_config()->shared_path;
    void *mapped = MAP_FAILED;

    if (!path || file)
        return;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, sizeof(*file)) == 0)
        mapped = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        sim_log_always("CUDASIM_SHARED=%s cannot be used: not shared", path);
    else
        file = mapped;
}

bool sim_shared_take(int device, size_t units, size_t most)
{
    bool taken = true;

    if (!file || device < 0)
        return true;
    file_lock();
    taken = own || enter();
    if (taken) {
        size_t held = others(device) + own->units[device];

        taken = held <= most && units <= most - held;
    }
    if (taken)
        own->units[device] += units;
    file_unlock();
    return taken;
}

void sim_shared_give(int device, size_t units)
{
    if (!file || device < 0)
        return;
    file_lock();
    if (own)
        own->units[device] -= units;
    file_unlock();
}

size_t sim_shared_others(int device)
{
    size_t units;

    if (!file || device < 0)
        return 0;
    file_lock();
    units = others(device);
    file_unlock();
    return units;
}

void sim_shared_leave(void)
{
    if (!file)
        return;
    file_lock();
    if (own)
        own->away = true;
    file_unlock();
}

bool sim_shared_return(size_t most)
{
    bool fits = true;

    if (!file)
        return true;
    file_lock();
    for (int device = 0; device < SIM_MAX_DEVICES && own; device++)
        fits &= !own->units[device] || others(device) + own->units[device] <= most;
    if (own && fits)
        own->away = false;
    file_unlock();
    return fits;
}
