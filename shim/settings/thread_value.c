/*
 * thread_value.c - see thread_value.h.
 *
 * glibc has a thread's values in its struct pthread: blocks of 32, the first block within
 * the struct; directly after that block an array of pointers to all blocks, the others
 * made when they are needed; directly after the array a flag: the thread has values. The
 * first pointer points to the block before it, which tells the place. The kernel tells
 * where another thread's struct is, since the head of its robust mutexes is in it.
 * Nothing is written unless both threads' structs look like that.
 *
 * Owns: nothing.   Lock: none. The other thread runs: it neither reads nor writes the
 * words of a new key, unless it ends.
 */
#include "shim/settings/thread_value.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define VALUES       32u
#define BLOCKS       32u
#define STRUCT_BYTES 2048u /* a struct pthread is larger */

struct block {
    struct {
        uintptr_t sequence; /* of the key */
        void *value;
    } values[VALUES];
};

struct blocks {
    struct block first;
    struct block *all[BLOCKS];
    bool has_values;
};

/* Returns where a thread's struct pthread has its robust mutexes; NULL: not known. */
static char *robust_head(pid_t thread)
{
    char *head = NULL;
    size_t bytes;
    return syscall(SYS_get_robust_list, (long)thread, &head, &bytes) == 0 ? head : NULL;
}

/* The calling thread's blocks; NULL: it has none. */
static struct blocks *own_blocks(char *self)
{
    for (size_t at = 0; at + offsetof(struct blocks, all) < STRUCT_BYTES;
         at += sizeof(void *)) {
        const void *first;
        memcpy(&first, self + at + offsetof(struct blocks, all), sizeof(first));
        if (first == self + at) {
            return (struct blocks *)(void *)(self + at);
        }
    }
    return NULL;
}

/* The blocks of another thread; NULL: it has ended, or has none at that place. */
static struct blocks *blocks_of(pid_t thread, const char *self, const struct blocks *own)
{
    const char *own_head = robust_head(0);
    char *head = robust_head(thread);
    if (!head || (uintptr_t)own_head - (uintptr_t)self >= STRUCT_BYTES) {
        return NULL;
    }
    char *other = head - (own_head - self);
    struct blocks *blocks = (struct blocks *)(void *)(other + ((const char *)own - self));
    const struct block *first = NULL;
    const struct iovec here = {&first, sizeof(first)};
    const struct iovec there = {&blocks->all[0], sizeof(first)};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)sizeof(first) &&
                   first == &blocks->first
               ? blocks
               : NULL;
}

/* The block of that index, made if the thread has none. NULL: out of memory. */
static struct block *block_of(struct blocks *blocks, size_t index)
{
    struct block *block = __atomic_load_n(&blocks->all[index], __ATOMIC_ACQUIRE), *made;
    if (block || !(made = calloc(1, sizeof(*made)))) {
        return block;
    }
    if (!__atomic_compare_exchange_n(&blocks->all[index], &block, made, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        free(made);
        return block;
    }
    return made; /* the C library frees it at the thread's end */
}

static bool copy_value(const struct blocks *own, struct blocks *to, pthread_key_t key,
                       void *value)
{
    const size_t index = key / VALUES, at = key % VALUES;
    if (index >= BLOCKS || !own->has_values || !own->all[index] ||
        own->all[index]->values[at].value != value) {
        return false;
    }
    struct block *block = block_of(to, index);
    if (!block) {
        return false;
    }
    block->values[at].sequence = own->all[index]->values[at].sequence;
    __atomic_store_n(&block->values[at].value, value, __ATOMIC_RELEASE);
    __atomic_store_n(&to->has_values, true, __ATOMIC_RELEASE);
    return true;
}

bool gs_thread_value_set(pid_t thread, pthread_key_t key, void *value)
{
    char *self = (char *)pthread_self();
    const struct blocks *own = own_blocks(self);
    struct blocks *other = own ? blocks_of(thread, self, own) : NULL;
    bool set = other && pthread_setspecific(key, value) == 0 &&
               copy_value(own, other, key, value);
    (void)pthread_setspecific(key, NULL);
    return set;
}
