/*
 * handle.c - the handle table: a fixed reservation of slots, recycled last in, first out,
 * as drivers recycle theirs. A slot that is held when its handle is closed is free once
 * nobody holds it any more.
 * Owns:  the slots and the list of free ones.
 * Lock:  slot_locks[index % LOCKS] for a slot's object; free_lock for the free list.
 */
#include "handle.h"

#include <sys/mman.h>

#define SLOTS ((size_t)1 << 20)
#define LOCKS 64

struct slot {
    struct sim_object *object; /* slot lock; NULL while free, or closed and held */
    size_t next_free;          /* free_lock; index + 1, 0 ends the list */
    atomic_uint users;         /* 1 for the open handle, 1 for each hold; 0: free */
    uint32_t padding[3];
};

struct padded_lock {
    pthread_mutex_t mutex;
} __attribute__((aligned(64)));

static struct slot *slots;      /* free_lock while it is mapped, then immutable */
static atomic_bool slots_ready; /* published last */
static size_t first_free;       /* free_lock */
static size_t used_slots;       /* free_lock; slots beyond were never used */
static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static struct padded_lock slot_locks[LOCKS] = {
    [0 ... LOCKS - 1] = {.mutex = PTHREAD_MUTEX_INITIALIZER}};

void sim_object_init(struct sim_object *object, enum sim_type type,
                     void (*destroy)(struct sim_object *object))
{
    atomic_init(&object->refs, 1);
    object->type = type;
    object->handle = NULL;
    object->destroy = destroy;
    object->next = NULL;
    object->prev = NULL;
}

void sim_object_ref(struct sim_object *object)
{
    atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
}

void sim_object_unref(struct sim_object *object)
{
    if (atomic_fetch_sub_explicit(&object->refs, 1, memory_order_acq_rel) == 1)
        object->destroy(object);
}

/* Index of a free slot, taken off the list; SLOTS if there is none. */
static size_t take_slot(void)
{
    size_t index = SLOTS;

    pthread_mutex_lock(&free_lock);
    if (!slots) {
        void *area = mmap(NULL, SLOTS * sizeof(struct slot), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (area != MAP_FAILED) {
            slots = area;
            atomic_store_explicit(&slots_ready, true, memory_order_release);
        }
    }
    if (first_free) {
        index = first_free - 1;
        first_free = slots[index].next_free;
    } else if (slots && used_slots < SLOTS) {
        index = used_slots++;
    }
    pthread_mutex_unlock(&free_lock);
    return index;
}

/* One user less; the last one gives the slot back. */
static void leave_slot(size_t index)
{
    if (atomic_fetch_sub_explicit(&slots[index].users, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_lock(&free_lock);
    slots[index].next_free = first_free;
    first_free = index + 1;
    pthread_mutex_unlock(&free_lock);
}

/* Index of a handle's slot, or SLOTS if the value cannot be a handle. */
static size_t slot_index(const void *handle)
{
    if (!atomic_load_explicit(&slots_ready, memory_order_acquire))
        return SLOTS;
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)slots;
    if (offset % sizeof(struct slot) != 0 || offset / sizeof(struct slot) >= SLOTS)
        return SLOTS;
    return offset / sizeof(struct slot);
}

static pthread_mutex_t *slot_lock(size_t index)
{
    return &slot_locks[index % LOCKS].mutex;
}

void *sim_handle_open(struct sim_object *object)
{
    size_t index = take_slot();

    if (index == SLOTS)
        return NULL;
    sim_object_ref(object);
    object->handle = &slots[index];
    pthread_mutex_lock(slot_lock(index));
    slots[index].object = object;
    atomic_store_explicit(&slots[index].users, 1, memory_order_relaxed);
    pthread_mutex_unlock(slot_lock(index));
    return &slots[index];
}

struct sim_object *sim_handle_get(const void *handle, enum sim_type type)
{
    size_t index = slot_index(handle);

    if (index == SLOTS)
        return NULL;
    pthread_mutex_lock(slot_lock(index));
    struct sim_object *object = slots[index].object;
    if (object && object->type == type)
        sim_object_ref(object);
    else
        object = NULL;
    pthread_mutex_unlock(slot_lock(index));
    return object;
}

struct sim_object *sim_handle_close(const void *handle, enum sim_type type)
{
    size_t index = slot_index(handle);

    if (index == SLOTS)
        return NULL;
    pthread_mutex_lock(slot_lock(index));
    struct sim_object *object = slots[index].object;
    if (object && object->type == type)
        slots[index].object = NULL;
    else
        object = NULL;
    pthread_mutex_unlock(slot_lock(index));
    if (object)
        leave_slot(index);
    return object;
}

bool sim_handle_hold(const struct sim_object *object)
{
    size_t index = slot_index(object->handle);

    if (index == SLOTS)
        return false;
    pthread_mutex_lock(slot_lock(index));
    bool open = slots[index].object == object;
    if (open)
        atomic_fetch_add_explicit(&slots[index].users, 1, memory_order_relaxed);
    pthread_mutex_unlock(slot_lock(index));
    return open;
}

void sim_handle_let_go(const struct sim_object *object)
{
    leave_slot(slot_index(object->handle));
}
