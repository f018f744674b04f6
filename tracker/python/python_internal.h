/*
 * python_internal.h - what the parts of Python's frames share.
 * Owns: struct gs_python.   Lock: python->lock, for what is new.   Design: docs/python.md
 */
#ifndef GS_PYTHON_INTERNAL_H
#define GS_PYTHON_INTERNAL_H

#include "python.h"
#include "python_layout.h"
#include "stack_table.h"

#include <stdatomic.h>

#define GS_PYTHON_CACHE_BITS  12
#define GS_PYTHON_PAIR_BITS   12
#define GS_PYTHON_BUCKET_BITS 12
#define GS_PYTHON_PAGES       1024u
#define GS_PYTHON_PAGE_BITS   12 /* the smallest that there are */
#define GS_PYTHON_CHUNK_BITS  10
#define GS_PYTHON_CHUNKS      16384u

/* The frame of an instruction of a code object. Written and read without a lock: `check`
 * is the code object's print xor the frame, so that halves of two writes do not match. */
struct gs_python_slot {
    _Atomic uintptr_t code, at;
    _Atomic uint64_t check, frame;
};

/* The stack of a native stack and a walk; likewise. */
struct gs_python_pair {
    _Atomic uint64_t check, stack;
};

/* A function, its file and a line of it. Immutable once it has a number. */
struct gs_python_node {
    const char *function, *file;
    uint32_t line;
    uint32_t next; /* of the same bucket */
};

struct gs_python_string {
    struct gs_python_string *next; /* of the same bucket */
    size_t length;
    char text[];
};

struct gs_python {
    uint64_t number;                  /* no other ever had it */
    struct gs_python_symbols symbols; /* immutable, as is the layout */
    struct gs_python_layout layout;
    size_t frame_bytes, code_bytes; /* of these that are read; immutable */
    uintptr_t left_out;    /* the frame that stands for native ones; 0: none; immutable */
    struct gs_mutex *lock; /* the owner's */

    struct gs_python_slot slots[1 << GS_PYTHON_CACHE_BITS]; /* no lock */
    struct gs_python_pair pairs[1 << GS_PYTHON_PAIR_BITS];  /* no lock */
    _Atomic uintptr_t pages[GS_PYTHON_PAGES];               /* were readable; no lock */
    struct gs_stack_table walks;                            /* added to under lock */

    /* Added to under lock; read without. */
    _Atomic uint32_t count; /* nodes have the numbers 1..count */
    _Atomic(struct gs_python_node *) nodes[GS_PYTHON_CHUNKS];

    /* Under lock. */
    uint32_t node_buckets[1 << GS_PYTHON_BUCKET_BITS];
    struct gs_python_string *string_buckets[1 << GS_PYTHON_BUCKET_BITS];
    struct gs_python_arena *arena; /* the newest */
    uint8_t *scratch;              /* a copied line table */
    size_t scratch_bytes;
    _Atomic size_t bytes;           /* held besides this */
    struct gs_state_memory *memory; /* of this, the nodes and the strings */
};

static inline uint64_t gs_python_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product =
        (unsigned __int128)(a ^ 0xa0761d6478bd642fu) * (b ^ 0xe7037ed1a0b428dbu);

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Ask the kernel, and remember. */
bool gs_python_query_page(struct gs_python *python, uintptr_t page);

static inline bool gs_python_page(struct gs_python *python, uintptr_t page)
{
    return GS_LIKELY(atomic_load_explicit(&python->pages[page % GS_PYTHON_PAGES],
                                          memory_order_relaxed) == page) ||
           gs_python_query_page(python, page);
}

/*
 * Can an object lie there, `bytes` of which are to be read? What a frame leads to is
 * alive; but should it ever lead elsewhere, to memory that was never looked at, the
 * kernel is asked before it is touched. Less than a page.
 */
static inline bool gs_python_readable(struct gs_python *python, uintptr_t address,
                                      size_t bytes)
{
    uintptr_t page = address >> GS_PYTHON_PAGE_BITS;
    uintptr_t last = (address + bytes - 1) >> GS_PYTHON_PAGE_BITS;

    return GS_LIKELY(address % sizeof(uintptr_t) == 0 && page != 0) &&
           gs_python_page(python, page) &&
           (GS_LIKELY(page == last) || gs_python_page(python, last));
}

/* --- python_code.c: from a code object to a place --------------------------------------
 */

/* A file name whose print was made during one and the same walk: most frames share one.
 */
struct gs_python_file {
    uintptr_t text;
    uint64_t print;
};

/* All that is shown of a code object, as a number. It is alive: a frame of this thread
 * holds it. */
uint64_t gs_python_code_contents(struct gs_python *python, uintptr_t code,
                                 struct gs_python_file *file);

/* Something that differs between code objects that lie at one address one after the
 * other. Since 3.12 the interpreter numbers them, unless it has given out all numbers. */
static inline __attribute__((no_sanitize("address"), no_sanitize("thread"))) uint64_t
gs_python_code_print(struct gs_python *python, uintptr_t code,
                     struct gs_python_file *file)
{
    const struct gs_python_layout *layout = &python->layout;
    uint32_t version = 0, first;

    if (GS_LIKELY(layout->version != GS_PYTHON_NO_FIELD))
        version = *(const volatile uint32_t *)(code + layout->version);
    if (GS_UNLIKELY(version == 0))
        return gs_python_code_contents(python, code, file);
    first = *(const volatile uint32_t *)(code + layout->first_line);
    return (uint64_t)first << 32 | version;
}

/* Bytes of a code object that are read of it, without its instructions. */
size_t gs_python_code_bytes(const struct gs_python_layout *layout);

/*
 * Read the place of an instruction, by reads that cannot fault, and give it a number.
 * `at` is as the frame has it, shifted by one where it is a number and no address;
 * `generator`: the frame is a generator's.
 * Returns the frame; 0: not one that the program wrote, or not to be had.
 */
uintptr_t gs_python_code_frame(struct gs_python *python, uintptr_t code, uintptr_t at,
                               bool generator);

/* Copy of this process's own memory; false where it is not all mapped. */
bool gs_python_copy(void *to, uintptr_t from, size_t bytes);

/* --- python_places.c: functions, files and lines, each kept once -----------------------
 */

/* Under lock. Returns the frame; 0: no memory. */
uintptr_t gs_python_place_add(struct gs_python *python, const char *function,
                              const char *file, unsigned line);
void gs_python_places_clear(struct gs_python *python);

#endif
