/*
 * torch_graph.c - walks from a tensor of PyTorch over what it holds, as a leak checker
 * does: by the pointers in memory, without PyTorch's declarations.
 *
 * A tensor holds its storage, its gradient, and the graph's node that computed it; a node
 * holds the nodes of its inputs, in a vector, and saved tensors. Each of these objects
 * begins with a pointer to a table of virtual functions in PyTorch's libraries, by which
 * the walk recognizes it. Objects of Python have none, so the walk does not leave the
 * graph. Sizes are those of glibc's malloc; with another malloc vectors are not followed.
 *
 * Owns:  what walks have found; objects of an ending process, which are not freed.
 * Lock:  `busy`, an atomic flag.
 */
#include "shim/api/torch_graph.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/link/elf_module.h"
#include "tracker/host_memory.h"

#define WORD sizeof(uintptr_t)

/* ---- PyTorch's libraries ---------------------------------------------------------- */

static struct range {
    uintptr_t begin, end;
} ranges[16];
static unsigned range_count;

static bool is_in_torch(uintptr_t address)
{
    bool is = false;

    for (unsigned i = 0; i < range_count; i++) {
        is = is || (address >= ranges[i].begin && address < ranges[i].end);
    }
    return is;
}

void gs_torch_graph_module(const struct dl_phdr_info *info, const char *soname)
{
    if ((gs_elf_begins_with(soname, "libtorch") ||
         gs_elf_begins_with(soname, "libc10")) &&
        range_count < GS_ARRAY_LEN(ranges)) {
        const struct gs_module_ref module = gs_elf_module_in(info);
        if (!is_in_torch(module.begin)) {
            ranges[range_count++] = (struct range){module.begin, module.end};
        }
    }
}

/* ---- reading ---------------------------------------------------------------------- */

/* The address may be any number. Returns how many words could be read. */
static size_t read_words(uintptr_t from, uintptr_t *words, size_t count)
{
    struct iovec here = {words, count * WORD}, there = {(void *)from, count * WORD};

    if (from % WORD != 0 || from < 4096 || from >> 47 != 0) {
        return 0;
    }
    ssize_t got = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    return got > 0 ? (size_t)got / WORD : 0;
}

#define WORDS_MOST 512u

/* The words of malloc's memory from an address that malloc has returned, by the size in
 * front of it; 0: it is no such address. */
static size_t words_of_block(uintptr_t at)
{
    uintptr_t size;

    if (at % 16 != 0 || read_words(at - WORD, &size, 1) == 0) {
        return 0;
    }
    size &= ~(uintptr_t)7;
    return size % 16 == 0 && size >= 32 && size <= WORDS_MOST * WORD ? size / WORD - 1
                                                                     : 0;
}

static bool is_object(uintptr_t at)
{
    uintptr_t table;

    return !is_in_torch(at) && read_words(at, &table, 1) == 1 && is_in_torch(table);
}

/* ---- the walk --------------------------------------------------------------------- */

#define OBJECTS_MOST ((size_t)1 << 17)
#define SLOTS        (2 * OBJECTS_MOST)

/* The objects found, in their order, and by address; and what is read, which is too large
 * for a small stack. */
static struct objects {
    size_t count, walked;
    uintptr_t items[OBJECTS_MOST], slots[SLOTS];
    uintptr_t own[WORDS_MOST], elements[WORDS_MOST];
} * objects;

/* Adds an object, once. */
static void add_object(uintptr_t at)
{
    size_t slot = (at * UINT64_C(0x9e3779b97f4a7c15) >> 20) % SLOTS;

    while (objects->slots[slot] != 0 && objects->slots[slot] != at) {
        slot = (slot + 1) % SLOTS;
    }
    if (objects->slots[slot] == 0 && objects->count < OBJECTS_MOST && is_object(at)) {
        objects->slots[slot] = at;
        objects->items[objects->count++] = at;
    }
}

/* Of a vector the elements, if they are pointers. */
static void add_elements(uintptr_t vector)
{
    uintptr_t *words = objects->elements;
    size_t count = words_of_block(vector);

    count = count > 0 ? read_words(vector, words, count) : 0;
    for (size_t i = 0; i < count; i++) {
        if (words[i] != 0) {
            add_object(words[i]);
        }
    }
}

/* One that std::make_shared has made comes after two words of its own. */
#define SHARED_WORDS 2u
#define WORDS_ELSE   24u

/* A storage has its memory after two words; then come two that lead to how it is freed,
 * and the device. */
#define MEMORY 2u
#define FREED  3u
#define DEVICE 5u
#define CUDA   1u

static bool is_of_gpu(const uintptr_t *words, size_t count)
{
    return count > DEVICE && (words[DEVICE] & 0xff) == CUDA &&
           (is_in_torch(words[FREED]) || is_in_torch(words[FREED + 1]));
}

static void walk_object(uintptr_t at, void (*found)(uint64_t addr))
{
    uintptr_t *words = objects->own;
    size_t count = words_of_block(at), shared = words_of_block(at - SHARED_WORDS * WORD);

    if (count == 0) {
        count = shared > SHARED_WORDS ? shared - SHARED_WORDS : WORDS_ELSE;
    }
    count = read_words(at, words, count);
    if (is_of_gpu(words, count)) {
        found(words[MEMORY]);
    }
    for (size_t i = 1; i < count; i++) {
        if (words[i] != 0 && is_object(words[i])) {
            add_object(words[i]);
        } else if (words[i] != 0) {
            add_elements(words[i]);
        }
    }
}

void gs_torch_graph_walk(uintptr_t tensor, void (*found)(uint64_t addr))
{
    static bool busy; /* atomic */

    if (__atomic_exchange_n(&busy, true, __ATOMIC_ACQUIRE)) {
        return;
    }
    if (!objects) {
        objects = gs_host_map(sizeof(*objects));
    }
    if (objects) {
        add_object(tensor);
        while (objects->walked < objects->count) {
            walk_object(objects->items[objects->walked++], found);
        }
    }
    __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
}
