/*
 * python_internal.h - declarations for the files of tracker/python/.
 * Owns: struct gs_python.   Lock: python->lock, for new frames.   Design: docs/python.md
 */
#ifndef GS_PYTHON_INTERNAL_H
#define GS_PYTHON_INTERNAL_H

#include "tracker/python/python.h"
#include "tracker/python/python_layout.h"
#include "tracker/python/python_lines.h"
#include "tracker/stacks/stack_table.h"

#include <stdatomic.h>

#define GS_PYTHON_CACHE_BITS 12
#define GS_PYTHON_PAIR_BITS  12
#define GS_PYTHON_PAGES      8192u
#define GS_PYTHON_PAGE_BITS  12 /* the smallest page size */
#define GS_PYTHON_CHUNK_BITS 10
#define GS_PYTHON_CHUNKS     16384u

/* The frame of an instruction of a code object, written and read without a lock.
 * `check` is the code object's fingerprint xor the frame, so halves of two writes do
 * not match. */
struct gs_python_slot {
    _Atomic uintptr_t code, at;
    _Atomic uint64_t check, frame;
};

/* The merged stack of a native stack and a walk; without a lock, like gs_python_slot. */
struct gs_python_pair {
    _Atomic uint64_t check, stack;
};

/* A larger cache, of slots or pairs, for what the first one has no room for. It is never
 * freed before the end, as a reader may be inside; so each has four times the entries of
 * its predecessor. */
struct gs_python_more {
    struct gs_python_more *older;
    size_t bytes;
    unsigned bits;         /* entries: 1 << bits */
    _Atomic uint32_t used; /* entries that are not empty */
    uint64_t entries[];
};

/* Identifies a copied line table. */
struct gs_python_table_key {
    uintptr_t code, table;
    uint64_t print;
};

/* A function, its file and one line. Immutable once it has a number. */
struct gs_python_node {
    const char *function, *file;
    uint32_t line;
    uint32_t next; /* of the same bucket */
};

struct gs_python_string {
    struct gs_python_string *next; /* of the same bucket */
    uint64_t hash;
    size_t length;
    char text[];
};

/* The first node, or string, of each hash. Grows with its content. */
struct gs_python_buckets {
    void *first; /* an array; NULL: none yet */
    unsigned bits;
    uint32_t held;
};

/* The captures with a stack; written and read without a lock. */
#define GS_PYTHON_USES 4096u
struct gs_python_use_slot {
    _Atomic uint32_t stack; /* 0: empty */
    _Atomic uint32_t count, first, last;
};

struct gs_python {
    uint64_t number;                  /* unique, never reused */
    struct gs_python_symbols symbols; /* immutable, as is the layout */
    struct gs_python_layout layout;
    size_t frame_bytes, code_bytes; /* bytes read of each; immutable */
    uintptr_t left_out;    /* the frame that replaces native ones; 0: none; immutable */
    uintptr_t skipped;     /* the frame that replaces skipped ones; 0: none; immutable */
    struct gs_mutex *lock; /* the owner's lock */

    struct gs_python_slot slots[1 << GS_PYTHON_CACHE_BITS];  /* no lock */
    struct gs_python_pair pairs[1 << GS_PYTHON_PAIR_BITS];   /* no lock */
    _Atomic uint32_t slots_used, pairs_used;                 /* entries not empty */
    _Atomic(struct gs_python_more *) more_slots, more_pairs; /* the newest; under lock */
    _Atomic uintptr_t pages[GS_PYTHON_PAGES];                /* known to be readable; no
                                                              * lock */
    struct gs_stack_table walks;                             /* added to under lock */
    struct gs_python_use_slot uses[GS_PYTHON_USES];          /* by stack; no lock */
    _Atomic uint32_t captures;                               /* so far; no lock */

    /* Added to under lock; read without. */
    _Atomic uint32_t count; /* nodes have the numbers 1..count */
    _Atomic(struct gs_python_node *) nodes[GS_PYTHON_CHUNKS];

    /* Under lock. */
    struct gs_python_buckets node_buckets;   /* of uint32_t */
    struct gs_python_buckets string_buckets; /* of struct gs_python_string * */
    struct gs_python_arena *arena;           /* the newest */
    uint8_t *scratch;                        /* a copied line table */
    size_t scratch_bytes;
    struct gs_python_lines lines; /* that table; its `table` NULL: none */
    struct gs_python_table_key lines_of;
    _Atomic size_t bytes;           /* in use outside of this struct */
    struct gs_state_memory *memory; /* of this struct, the nodes and the strings */
};

static inline uint64_t gs_python_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product =
        (unsigned __int128)(a ^ 0xa0761d6478bd642fu) * (b ^ 0xe7037ed1a0b428dbu);

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Queries the kernel whether a page is readable, and caches the answer. */
bool gs_python_query_page(struct gs_python *python, uintptr_t page);

static inline bool gs_python_page(struct gs_python *python, uintptr_t page)
{
    return GS_LIKELY(atomic_load_explicit(&python->pages[page % GS_PYTHON_PAGES],
                                          memory_order_relaxed) == page) ||
           gs_python_query_page(python, page);
}

/*
 * Returns true if an object may be at the address: `bytes` there, less than a page, are
 * readable. A frame's pointers lead to live objects; should one ever lead to unknown
 * memory, the kernel is queried before the memory is touched.
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

/* ---- python_code.c: from a code object to a function, file and line --------------- */

/* A file name hashed earlier in the same walk: most frames share one. */
struct gs_python_file {
    uintptr_t text;
    uint64_t print;
};

/* Called before the first interpreter is known. */
void gs_python_code_start(void);

/* A hash of the shown contents of a code object. The object is alive: a frame of this
 * thread holds it. */
uint64_t gs_python_code_contents(struct gs_python *python, uintptr_t code,
                                 struct gs_python_file *file);

/* A fingerprint that differs between successive code objects at one address. Since 3.12
 * the interpreter numbers code objects, until its numbers are used up. */
static inline __attribute__((no_sanitize("address"), no_sanitize("thread"))) uint64_t
gs_python_code_print(struct gs_python *python, uintptr_t code,
                     struct gs_python_file *file)
{
    const struct gs_python_layout *layout = &python->layout;
    uint32_t version = 0, first;

    if (GS_LIKELY(layout->version != GS_PYTHON_NO_FIELD)) {
        version = *(const volatile uint32_t *)(code + layout->version);
    }
    if (GS_UNLIKELY(version == 0)) {
        return gs_python_code_contents(python, code, file);
    }
    first = *(const volatile uint32_t *)(code + layout->first_line);
    return (uint64_t)first << 32 | version;
}

/* The number of bytes that are read of a code object, without its instructions. */
size_t gs_python_code_bytes(const struct gs_python_layout *layout);

/*
 * Reads the function, file and line of an instruction, by reads that cannot fault, and
 * numbers them. `at` is as in the frame, shifted by one if it is an index instead of an
 * address; `generator`: the frame belongs to a generator; `print`: the code object's
 * fingerprint. Returns the frame; 0: not a frame of the program's code, or not readable.
 */
uintptr_t gs_python_code_frame(struct gs_python *python, uintptr_t code, uintptr_t at,
                               bool generator, uint64_t print);

/* Copies this process's own memory; false if it is not all mapped. */
bool gs_python_copy(void *to, uintptr_t from, size_t bytes);

/* ---- python_more.c: caches that grow ----------------------------------------------- */

/* Makes a cache larger than `now`, the newest one (NULL: than the first cache, of
 * 1 << `bits` entries), and returns it. NULL: it may not grow, or there is no memory.
 * Takes the lock. */
struct gs_python_more *gs_python_more(struct gs_python *python,
                                      _Atomic(struct gs_python_more *) *newest,
                                      struct gs_python_more *now, unsigned bits,
                                      size_t entry_bytes);
void gs_python_more_clear(struct gs_python_more *newest);

/* ---- python_locations.c: functions, files and lines, each stored once -------------- */

/* Under lock. Returns the frame; 0: no memory. */
uintptr_t gs_python_location_add(struct gs_python *python, const char *function,
                                 const char *file, unsigned line);
/* Likewise, of a location that was added before; 0: it was not. */
uintptr_t gs_python_location_find(const struct gs_python *python, const char *function,
                                  const char *file, unsigned line);
void gs_python_locations_clear(struct gs_python *python);

#endif
