/*
 * ipc_ledger.c - what this process shares with others, entry by entry.
 *
 * The ledger is a memfd, so that other processes map it through /proc; it is made when
 * the first thing is shared. An entry that was used once keeps counting its uses and an
 * event's records: a name, or a record under way, of an earlier use cannot be taken for
 * one of the present.
 *
 * Owns:  the ledger of this process.   Lock: ledger_lock; inside only.
 */
#include "ipc.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define LEDGER_MAGIC 0x6375646173696d31ULL
#define NAME_MAGIC   0x53494d31u

static struct sim_ledger *_Atomic own; /* ledger_lock while it is made, then immutable */
static int own_fd = -1;                /* ledger_lock, then immutable */
static uint32_t hint = 1;              /* ledger_lock; no free entry lies below */
static pthread_mutex_t ledger_lock = PTHREAD_MUTEX_INITIALIZER;

static_assert(sizeof(struct sim_name) == sizeof(CUipcMemHandle), "fits a handle");
static_assert(sizeof(struct sim_name) == sizeof(CUipcEventHandle), "fits a handle");
static_assert(sizeof(struct sim_name) == sizeof(CUmemPoolPtrExportData), "fits it");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "shared between processes");

struct sim_ledger *sim_ledger_own(void)
{
    return atomic_load_explicit(&own, memory_order_acquire);
}

/* Make the ledger at the first use. Needs ledger_lock. */
static struct sim_ledger *make(void)
{
    struct sim_ledger *ledger = sim_ledger_own();
    uint64_t nonce;

    if (ledger)
        return ledger;
    if (getrandom(&nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce))
        return NULL;
    int fd = memfd_create("cudasim-ledger", MFD_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (ftruncate(fd, sizeof(*ledger)) != 0)
        goto close_fd;
    ledger = mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ledger == MAP_FAILED)
        goto close_fd;
    ledger->nonce = nonce;
    ledger->magic = LEDGER_MAGIC;
    own_fd = fd;
    atomic_store_explicit(&own, ledger, memory_order_release);
    return ledger;
close_fd:
    close(fd);
    return NULL;
}

/* Needs ledger_lock. 0: all are in use. */
static uint32_t take_entry(struct sim_ledger *ledger)
{
    while (hint < SIM_LEDGER_ENTRIES && atomic_load(&ledger->entries[hint].serial))
        hint++;
    return hint < SIM_LEDGER_ENTRIES ? hint : 0;
}

/* Needs ledger_lock. */
static uint32_t enter(struct sim_ledger *ledger, const struct sim_shared *shared)
{
    uint32_t index = take_entry(ledger);

    if (!index)
        return 0;
    struct sim_entry *entry = &ledger->entries[index];
    entry->shared = *shared;
    entry->shared.before = atomic_load(&entry->recorded);
    atomic_store(&entry->opens, 0);
    if (++entry->last_serial == 0)
        entry->last_serial = 1;
    atomic_store_explicit(&entry->serial, entry->last_serial, memory_order_release);
    return index;
}

/* FNV-1a over what precedes `check`: a handle that was made up or cut short shows. */
static uint64_t checksum(const struct sim_name *name)
{
    const unsigned char *bytes = (const unsigned char *)name;
    uint64_t sum = 0xcbf29ce484222325ULL;

    for (size_t i = 0; i < offsetof(struct sim_name, check); i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3ULL;
    return sum;
}

static void write_name(struct sim_ledger *ledger, uint32_t index, struct sim_name *out)
{
    struct sim_entry *entry = &ledger->entries[index];

    memset(out, 0, sizeof(*out));
    out->magic = NAME_MAGIC;
    out->kind = entry->shared.kind;
    out->nonce = ledger->nonce;
    out->pid = getpid();
    out->ledger = own_fd;
    out->entry = index;
    out->serial = atomic_load(&entry->serial);
    out->check = checksum(out);
}

bool sim_name_is_valid(const struct sim_name *name, enum sim_share_kind kind)
{
    static const unsigned char zero[sizeof(name->zero)];

    return name->magic == NAME_MAGIC && name->kind == (uint32_t)kind &&
           name->check == checksum(name) && name->entry > 0 &&
           name->entry < SIM_LEDGER_ENTRIES && name->serial != 0 && name->pid > 0 &&
           name->ledger >= 0 && memcmp(name->zero, zero, sizeof(zero)) == 0;
}

CUresult sim_ledger_enter(atomic_uint *share, const struct sim_shared *shared,
                          int device_fd, struct sim_name *out)
{
    CUresult res = CUDA_ERROR_OUT_OF_MEMORY;

    pthread_mutex_lock(&ledger_lock);
    struct sim_ledger *ledger = make();
    uint32_t index = atomic_load(share);
    if (ledger && !index)
        index = enter(ledger, shared);
    if (ledger && index) {
        if (device_fd >= 0)
            atomic_store(&ledger->device_files[shared->device], device_fd + 1);
        write_name(ledger, index, out);
        atomic_store(share, index);
        res = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&ledger_lock);
    return res;
}

unsigned sim_ledger_strike(atomic_uint *share)
{
    struct sim_ledger *ledger = sim_ledger_own();

    if (atomic_load_explicit(share, memory_order_relaxed) == 0 || !ledger)
        return 0;
    pthread_mutex_lock(&ledger_lock);
    uint32_t index = atomic_exchange(share, 0);
    unsigned opens = 0;
    if (index) {
        opens = atomic_load(&ledger->entries[index].opens);
        atomic_store_explicit(&ledger->entries[index].serial, 0, memory_order_release);
        if (index < hint)
            hint = index;
    }
    pthread_mutex_unlock(&ledger_lock);
    return opens;
}

bool sim_entry_read(const struct sim_entry *entry, uint32_t serial,
                    enum sim_share_kind kind, struct sim_shared *out)
{
    if (atomic_load_explicit(&entry->serial, memory_order_acquire) != serial)
        return false;
    *out = entry->shared;
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&entry->serial, memory_order_relaxed) == serial &&
           out->kind == (uint32_t)kind;
}
