/*
 * ipc_process.c - the processes whose ledgers this one has mapped.
 * Owns:  their ledgers' mappings and files of their devices.   Lock: processes_lock;
 *        inside only.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ipc.h"

static struct sim_process *processes; /* processes_lock */
static pthread_mutex_t processes_lock = PTHREAD_MUTEX_INITIALIZER;

bool sim_process_is_gone(pid_t pid)
{
#ifdef SYS_pidfd_open
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    if (ended.fd >= 0) {
        bool gone =
            poll(&ended, 1, 0) == 1; /* readable once it has exited, reaped or not */
        close(ended.fd);
        return gone;
    }
#endif
    return kill(pid, 0) != 0 && errno == ESRCH;
}

/* A regular file another process has open, of at least so many bytes; -1. */
static int open_there(pid_t pid, int fd, size_t bytes)
{
    char path[64];
    struct stat status;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
    int file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return -1;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
        (size_t)status.st_size >= bytes)
        return file;
    close(file);
    return -1;
}

/* Map the ledger a name speaks of; NULL if it is not there or another one. */
static struct sim_ledger *map_ledger(const struct sim_name *name)
{
    int file = open_there(name->pid, name->ledger, sizeof(struct sim_ledger));

    if (file < 0)
        return NULL;
    struct sim_ledger *ledger =
        mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (ledger == MAP_FAILED)
        return NULL;
    if (ledger->nonce == name->nonce)
        return ledger;
    munmap(ledger, sizeof(*ledger));
    return NULL;
}

static struct sim_process *new_process(const struct sim_name *name)
{
    struct sim_ledger *ledger = sim_ledger_own();
    bool is_own = ledger && ledger->nonce == name->nonce;
    struct sim_process *process = calloc(1, sizeof(*process));

    if (!process)
        return NULL;
    process->refs = 1;
    process->nonce = name->nonce;
    process->pid = name->pid;
    process->is_own = is_own;
    process->ledger = is_own ? ledger : map_ledger(name);
    if (process->ledger)
        return process;
    free(process);
    return NULL;
}

CUresult sim_process_attach(const struct sim_name *name, struct sim_process **out)
{
    pthread_mutex_lock(&processes_lock);
    struct sim_process *process = processes;
    while (process && (process->nonce != name->nonce || process->pid != name->pid))
        process = process->next;
    if (process && !process->is_own && sim_process_is_gone(process->pid)) {
        process = NULL;
    } else if (process) {
        process->refs++;
    } else if ((process = new_process(name)) != NULL) {
        process->next = processes;
        processes = process;
    }
    pthread_mutex_unlock(&processes_lock);
    *out = process;
    return process ? CUDA_SUCCESS : CUDA_ERROR_MAP_FAILED;
}

static void destroy(struct sim_process *process)
{
    for (unsigned i = 0; i < SIM_MAX_DEVICES; i++) {
        if (process->files[i])
            close(process->files[i] - 1);
    }
    if (!process->is_own)
        munmap(process->ledger, sizeof(*process->ledger));
    free(process);
}

void sim_process_detach(struct sim_process *process)
{
    pthread_mutex_lock(&processes_lock);
    bool last = --process->refs == 0;
    if (last) {
        struct sim_process **link = &processes;
        while (*link != process)
            link = &(*link)->next;
        *link = process->next;
    }
    pthread_mutex_unlock(&processes_lock);
    if (last)
        destroy(process);
}

int sim_process_file(struct sim_process *process, int device)
{
    if (device < 0 || device >= SIM_MAX_DEVICES)
        return -1;
    pthread_mutex_lock(&processes_lock);
    if (!process->files[device]) {
        int fd = atomic_load(&process->ledger->device_files[device]) - 1;
        process->files[device] = fd < 0 ? 0 : 1 + open_there(process->pid, fd, 1);
    }
    int file = process->files[device] - 1;
    pthread_mutex_unlock(&processes_lock);
    return file;
}
