/*
 * vmm_physical.c - memory without an address: created, held by handles and users, shared
 * with other processes.
 *
 * A handle's number stays taken while anything maps the memory, so that
 * cuMemRetainAllocationHandle can give the same one again after it was released. What is
 * shared is a file of the memory's bytes and one more page that says what it is. A file
 * that comes back to the process it came from is the same object.
 *
 * Owns:  physical memory.   Lock: sim_vmm_lock.
 * Source: Driver API, cuMemCreate, cuMemRelease, cuMemExportToShareableHandle.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"
#include "space.h"
#include "vmm.h"

#define SHARE_MAGIC "cudasim memory 1"
#define SHARE_BYTES ((size_t)4096) /* behind the memory itself */

/* What the last page of a shared file holds. */
struct share {
    char magic[16];
    uint64_t bytes;
    CUmemAllocationProp prop;
};

pthread_mutex_t sim_vmm_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_physical *all; /* sim_vmm_lock */

static bool is_shareable(const struct sim_physical *physical)
{
    return physical->prop.requestedHandleTypes ==
           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

static void destroy(struct sim_object *object)
{
    struct sim_physical *physical = (struct sim_physical *)object;

    if (physical->own_fd)
        close(physical->fd);
    if (physical->units)
        sim_space_release(physical->space, physical->units);
    if (physical->multicast)
        sim_multicast_destroy(physical->multicast);
    free(physical);
}

bool sim_numa_node_exists(int id)
{
    char path[64];

    snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", id);
    return id == 0 || (id > 0 && access(path, F_OK) == 0);
}

static CUresult check_location(const CUmemAllocationProp *prop)
{
    int driver = sim_config()->driver_version;

    switch ((int)prop->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return sim_device_get(prop->location.id) ? CUDA_SUCCESS
                                                 : CUDA_ERROR_INVALID_DEVICE;
    case SIM_LOCATION_HOST:
        return driver >= SIM_HOST_SINCE && prop->requestedHandleTypes == 0
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    case SIM_LOCATION_HOST_NUMA:
        return driver >= SIM_HOST_NUMA_SINCE && sim_numa_node_exists(prop->location.id)
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_physical_check(const CUmemAllocationProp *prop)
{
    if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->win32HandleMetaData ||
        prop->allocFlags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC)
        return CUDA_ERROR_INVALID_VALUE;

    SIM_TRY(check_location(prop));
    switch ((int)prop->requestedHandleTypes) {
    case CU_MEM_HANDLE_TYPE_NONE:
    case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
        break;
    default: /* all that is left of the known ones is for other systems */
        return (unsigned)prop->requestedHandleTypes <= 0xf ? CUDA_ERROR_NOT_SUPPORTED
                                                           : CUDA_ERROR_INVALID_VALUE;
    }
    return prop->allocFlags.usage ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

/* Units of the device: its pages too, unless they are in a file of their own. */
static CUresult take_units(struct sim_physical *physical)
{
    struct sim_space *space = sim_device_space(physical->prop.location.id);
    struct sim_extent *units = calloc(1, sizeof(*units));

    if (!units)
        return CUDA_ERROR_OUT_OF_MEMORY;
    units->count = physical->bytes / SIM_UNIT_BYTES;
    pthread_mutex_lock(&space->lock);
    bool taken = sim_space_take(space, units->count, &units->first);
    pthread_mutex_unlock(&space->lock);
    if (!taken) {
        free(units);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->space = space;
    physical->units = units;
    physical->fd = space->fd;
    physical->fd_offset = units->first * SIM_UNIT_BYTES;
    return CUDA_SUCCESS;
}

static bool more_than_host(size_t bytes)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);

    return pages > 0 && page > 0 && bytes / (size_t)page >= (size_t)pages;
}

/* A file for the memory, with what it is behind it. */
static CUresult make_file(struct sim_physical *physical)
{
    struct share share = {.bytes = physical->bytes, .prop = physical->prop};
    int fd;

    memcpy(share.magic, SHARE_MAGIC, sizeof(share.magic));
    if (physical->bytes > (size_t)INT64_MAX - SHARE_BYTES ||
        (!physical->space && more_than_host(physical->bytes)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    fd = memfd_create("cudasim-memory", MFD_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (ftruncate(fd, (off_t)(physical->bytes + SHARE_BYTES)) != 0 ||
        pwrite(fd, &share, sizeof(share), (off_t)physical->bytes) != sizeof(share)) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->fd = fd;
    physical->fd_offset = 0;
    physical->own_fd = true;
    return CUDA_SUCCESS;
}

static struct sim_physical *new_physical(size_t bytes, const CUmemAllocationProp *prop)
{
    struct sim_physical *physical = calloc(1, sizeof(*physical));

    if (!physical)
        return NULL;
    sim_object_init(&physical->object, SIM_TYPE_PHYSICAL, destroy);
    physical->bytes = bytes;
    physical->prop = *prop;
    physical->prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_NONE;
    physical->prop.allocFlags.gpuDirectRDMACapable = 0;
    physical->id = sim_memory_next_id();
    physical->fd = -1;
    return physical;
}

struct sim_physical *sim_physical_new_multicast(struct sim_multicast *multicast,
                                                size_t bytes)
{
    const CUmemAllocationProp none = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    struct sim_physical *physical = new_physical(bytes, &none);

    if (physical)
        physical->multicast = multicast;
    return physical;
}

CUresult sim_physical_enter(struct sim_physical *physical,
                            CUmemGenericAllocationHandle *out)
{
    void *handle = sim_handle_open(&physical->object);

    if (!handle) {
        sim_object_unref(&physical->object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->handles = 1;
    physical->next = all;
    physical->link = &all;
    if (all)
        all->link = &physical->next;
    all = physical;
    *out = (CUmemGenericAllocationHandle)(uintptr_t)handle;
    return CUDA_SUCCESS;
}

CUresult sim_physical_create(size_t bytes, const CUmemAllocationProp *prop,
                             CUmemGenericAllocationHandle *out)
{
    struct sim_physical *physical = new_physical(bytes, prop);
    CUresult res = CUDA_SUCCESS;

    if (!physical)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!sim_physical_is_host(physical))
        res = take_units(physical);
    if (res == CUDA_SUCCESS && (sim_physical_is_host(physical) || is_shareable(physical)))
        res = make_file(physical);
    if (res != CUDA_SUCCESS) {
        sim_object_unref(&physical->object);
        return res;
    }
    pthread_mutex_lock(&sim_vmm_lock);
    res = sim_physical_enter(physical, out);
    pthread_mutex_unlock(&sim_vmm_lock);
    return res;
}

struct sim_physical *sim_physical_get(CUmemGenericAllocationHandle handle)
{
    struct sim_object *object =
        sim_handle_get((const void *)(uintptr_t)handle, SIM_TYPE_PHYSICAL);

    if (!object)
        return NULL;
    struct sim_physical *physical = (struct sim_physical *)object;
    sim_object_unref(object); /* the lock keeps it: whoever drops the last needs it */
    return physical->handles > 0 ? physical : NULL;
}

/* Nobody has a handle or uses it: it goes. */
static void end_unused(struct sim_physical *physical)
{
    if (physical->handles > 0 || physical->users > 0)
        return;
    *physical->link = physical->next;
    if (physical->next)
        physical->next->link = physical->link;
    struct sim_object *closed =
        sim_handle_close(physical->object.handle, SIM_TYPE_PHYSICAL);
    if (closed)
        sim_object_unref(closed);
    sim_object_unref(&physical->object);
}

void sim_physical_drop_handle(struct sim_physical *physical)
{
    physical->handles--;
    end_unused(physical);
}

void sim_physical_drop_user(struct sim_physical *physical)
{
    physical->users--;
    end_unused(physical);
}

int sim_physical_export(const struct sim_physical *physical)
{
    return fcntl(physical->fd, F_DUPFD_CLOEXEC, 0);
}

/* The object of this process that has that file, or NULL. */
static struct sim_physical *find_file(const struct stat *wanted)
{
    for (struct sim_physical *physical = all; physical; physical = physical->next) {
        struct stat have;
        if (physical->own_fd && fstat(physical->fd, &have) == 0 &&
            have.st_dev == wanted->st_dev && have.st_ino == wanted->st_ino)
            return physical;
    }
    return NULL;
}

/* True if it is a file of make_file. */
static bool read_share(int fd, const struct stat *stat, struct share *out)
{
    size_t size = (size_t)stat->st_size;

    return S_ISREG(stat->st_mode) && size > SHARE_BYTES &&
           pread(fd, out, sizeof(*out), (off_t)(size - SHARE_BYTES)) == sizeof(*out) &&
           memcmp(out->magic, SHARE_MAGIC, sizeof(out->magic)) == 0 &&
           out->bytes == size - SHARE_BYTES && out->bytes % SIM_UNIT_BYTES == 0;
}

CUresult sim_physical_import(int fd, CUmemGenericAllocationHandle *out)
{
    struct share share;
    struct stat stat;

    if (fd < 0 || fstat(fd, &stat) != 0 || !read_share(fd, &stat, &share))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_physical *known = find_file(&stat);
    if (known) {
        known->handles++;
        *out = (CUmemGenericAllocationHandle)(uintptr_t)known->object.handle;
        return CUDA_SUCCESS;
    }
    if (share.prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        !sim_device_get(share.prop.location.id))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_physical *physical = new_physical(share.bytes, &share.prop);
    if (!physical)
        return CUDA_ERROR_OUT_OF_MEMORY;
    physical->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (physical->fd < 0) {
        sim_object_unref(&physical->object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->own_fd = true;
    return sim_physical_enter(physical, out);
}
