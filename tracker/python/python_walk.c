/*
 * python_walk.c - walks the chain of the calling thread's Python frames.
 *
 * Owns:  struct gs_python.   Lock: python->lock for new frames; none for known ones.
 * Design: docs/python.md
 *
 * The frames belong to this thread, and the innermost is in the middle of a call. So no
 * other thread changes them, and each keeps its code object alive. This holds only while
 * the interpreter is on this thread's native stack (the caller has checked) and is not
 * ending: an ending interpreter frees the states of other threads.
 */
#include "tracker/python/python.h"

#include "tracker/host_memory.h"
#include "tracker/python/python_internal.h"
#include "tracker/statefile/state_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define OWNER_GENERATOR  1
#define OWNER_EVALUATION 3           /* a frame at the base of an evaluation */
#define FRAME_NONE       UINT64_C(1) /* in a slot: not a frame of the program's code */
#define WAYS             2u
#define PAIR_FACTOR      UINT64_C(0x9e3779b97f4a7c15)

/* The most frames that a walk visits. Base frames are between the kept ones, and an
 * overwritten chain may be a cycle. */
#define STEPS_MAX (4u * GS_STACK_MAX_DEPTH)

#define LAST_WALK_STEPS 128
#define CODE_OF_BASE    UINT64_C(1) /* in a step; no code object is there */

#define CFRAME_BYTES 24u /* the bytes read of a cframe */

/* The name of the frame that replaces omitted native frames; it has no file. */
#define LEFT_OUT "[native frames left out]"
#define SKIPPED  "[frames left out]" /* in the middle of a stack that is too deep */

/* The lowest bits of an object reference; since 3.14 they may be tags. */
#define CODE_TAGS 3u

#define NO_SANITIZE __attribute__((no_sanitize("address"), no_sanitize("thread")))

NO_SANITIZE static inline uintptr_t word_at(uintptr_t address)
{
    return *(const volatile uintptr_t *)address;
}

NO_SANITIZE static inline uint8_t byte_at(uintptr_t address)
{
    return *(const volatile uint8_t *)address;
}

static _Atomic uint64_t last_number; /* the number of the newest gs_python */

static size_t frame_bytes(const struct gs_python_layout *layout)
{
    const uint16_t fields[] = {layout->previous, layout->code, layout->instruction,
                               layout->owner, layout->is_entry};
    size_t bytes = 0;

    for (size_t i = 0; i < GS_ARRAY_LEN(fields); i++) {
        if (fields[i] != GS_PYTHON_NO_FIELD && fields[i] > bytes) {
            bytes = fields[i];
        }
    }
    return bytes + sizeof(uintptr_t);
}

NO_SANITIZE static inline uint32_t half_at(uintptr_t address)
{
    return *(const volatile uint32_t *)address;
}

struct gs_python *gs_python_create(const struct gs_python_symbols *symbols,
                                   struct gs_mutex *lock, struct gs_state_memory *memory)
{
    struct gs_python_layout layout;
    struct gs_python *python;
    uint64_t word;

    if (symbols->thread_state == NULL || symbols->runtime == NULL ||
        symbols->code_type == NULL || symbols->code.begin >= symbols->code.end ||
        gs_python_layout_find(symbols->version, symbols->runtime, &layout) != GS_OK ||
        !gs_python_copy(&word, (uintptr_t)symbols->runtime, sizeof(word))) {
        return NULL;
    }
    python = gs_state_map(memory, sizeof(*python));
    if (python == NULL) {
        return NULL;
    }
    gs_python_code_start();
    python->memory = memory;
    python->number = atomic_fetch_add(&last_number, 1) + 1;
    python->symbols = *symbols;
    python->layout = layout;
    python->lock = lock;
    python->code_bytes = gs_python_code_bytes(&layout);
    python->frame_bytes = frame_bytes(&layout);
    /* No lock: no other thread knows this interpreter yet. */
    python->left_out = gs_python_location_add(python, LEFT_OUT, "", 0);
    python->skipped = gs_python_location_add(python, SKIPPED, "", 0);
    return python;
}

struct gs_python *gs_python_create_bare(struct gs_mutex *lock,
                                        struct gs_state_memory *memory)
{
    struct gs_python *python = gs_state_map(memory, sizeof(*python));

    if (python != NULL) {
        python->lock = lock;
        python->memory = memory;
    }
    return python;
}

void gs_python_destroy(struct gs_python *python)
{
    if (python == NULL) {
        return;
    }
    gs_python_locations_clear(python);
    gs_python_more_clear(atomic_load(&python->more_slots));
    gs_python_more_clear(atomic_load(&python->more_pairs));
    gs_stack_table_clear(&python->walks);
    gs_host_unmap(python->scratch, python->scratch_bytes);
    gs_state_unmap(python->memory, python, sizeof(*python));
}

size_t gs_python_bytes(const struct gs_python *python)
{
    return python == NULL
               ? 0
               : sizeof(*python) + gs_stack_table_bytes(&python->walks) +
                     atomic_load_explicit(&python->bytes, memory_order_relaxed);
}

/* A cache of slots: the first one, or a larger one. */
struct slots {
    struct gs_python_slot *set; /* the WAYS slots of an instruction */
    unsigned bits;
    _Atomic uint32_t *used;
};

/* Addresses in equal steps, as instructions are, are spread evenly by a constant factor,
 * the golden ratio; by one that depends on the code object they are not at all times. */
static uint64_t hash_of(uintptr_t code, uintptr_t at)
{
    return (at + code * 0xa0761d6478bd642fu) * 0x9e3779b97f4a7c15u;
}

static inline struct slots slots_of(struct gs_python *python, struct gs_python_more *more,
                                    uint64_t hash)
{
    struct gs_python_slot *slots =
        more != NULL ? (struct gs_python_slot *)more->entries : python->slots;
    unsigned bits = more != NULL ? more->bits : GS_PYTHON_CACHE_BITS;

    return (struct slots){.set = slots + (hash >> (64 - bits)) / WAYS * WAYS,
                          .bits = bits,
                          .used = more != NULL ? &more->used : &python->slots_used};
}

/* The slot in which to cache an instruction: its own if it has one, or an empty one. If
 * it displaces another and half of the slots are in use, in a larger cache. */
static struct gs_python_slot *slot_for(struct gs_python *python, uintptr_t code,
                                       uintptr_t at, uint64_t print)
{
    struct gs_python_more *more =
        atomic_load_explicit(&python->more_slots, memory_order_acquire);
    uint64_t hash = hash_of(code, at);

    for (;;) {
        struct slots slots = slots_of(python, more, hash);

        for (size_t way = 0; way < WAYS; way++) {
            struct gs_python_slot *slot = &slots.set[way];
            uintptr_t has = atomic_load_explicit(&slot->code, memory_order_relaxed);

            if (has == 0) {
                atomic_fetch_add_explicit(slots.used, 1, memory_order_relaxed);
                return slot;
            }
            if (has == code &&
                atomic_load_explicit(&slot->at, memory_order_relaxed) == at) {
                return slot;
            }
        }
        more = atomic_load_explicit(slots.used, memory_order_relaxed) >> (slots.bits - 1)
                   ? gs_python_more(python, &python->more_slots, more, slots.bits,
                                    sizeof(*slots.set))
                   : NULL;
        if (more == NULL) {
            return &slots.set[print & 1];
        }
    }
}

/* Reads the function and line of an instruction for the first time, and caches the
 * result. */
static __attribute__((noinline)) uintptr_t learn(struct gs_python *python, uintptr_t code,
                                                 uintptr_t at, uint64_t print)
{
    uintptr_t frame =
        gs_python_code_frame(python, code, at & ~(uintptr_t)1, (at & 1) != 0, print);
    uint64_t kept = frame != 0 ? frame : FRAME_NONE;
    struct gs_python_slot *slot = slot_for(python, code, at, print);

    atomic_store_explicit(&slot->code, code, memory_order_relaxed);
    atomic_store_explicit(&slot->at, at, memory_order_relaxed);
    atomic_store_explicit(&slot->frame, kept, memory_order_relaxed);
    atomic_store_explicit(&slot->check, gs_python_mix(print, kept), memory_order_relaxed);
    return frame;
}

/* Looks in a set of slots. *frame: of the instruction. */
static inline bool find_in(const struct gs_python_slot *set, uintptr_t code, uintptr_t at,
                           uint64_t print, uint64_t *out)
{
    for (size_t way = 0; way < WAYS; way++) {
        const struct gs_python_slot *slot = &set[way];
        uint64_t frame = atomic_load_explicit(&slot->frame, memory_order_relaxed);

        if (atomic_load_explicit(&slot->code, memory_order_relaxed) == code &&
            atomic_load_explicit(&slot->at, memory_order_relaxed) == at &&
            GS_LIKELY(atomic_load_explicit(&slot->check, memory_order_relaxed) ==
                      gs_python_mix(print, frame))) {
            *out = frame != FRAME_NONE ? frame : 0;
            return true;
        }
    }
    return false;
}

/* Returns the frame of an instruction; bit 0 of `at`: in a generator. 0: a frame that
 * reports do not show. */
static __attribute__((noinline)) uintptr_t
find_frame(struct gs_python *python, uintptr_t code, uintptr_t at, uint64_t print)
{
    uint64_t hash = hash_of(code, at), frame;
    struct gs_python_more *more;

    if (GS_LIKELY(find_in(slots_of(python, NULL, hash).set, code, at, print, &frame))) {
        return frame;
    }
    more = atomic_load_explicit(&python->more_slots, memory_order_acquire);
    if (more != NULL &&
        find_in(slots_of(python, more, hash).set, code, at, print, &frame)) {
        return frame;
    }
    return learn(python, code, at, print);
}

/*
 * This thread's last walk, of the gs_python with this number. The next walk usually
 * differs in a few inner frames only. The result for a frame is valid while the frame,
 * its code object and the instruction are the same. Lock: none, the thread's own.
 */
struct last_step {
    uintptr_t frame, code;
    uintptr_t instruction; /* as read from the frame */
    uint64_t print;
    uintptr_t entry; /* as find_frame returned it */
    uint8_t owner, is_entry;
};

struct last_walk {
    uint64_t number;
    uintptr_t state; /* the thread state that the walk read */
    unsigned count;  /* number of steps; 0: the walk cannot be reused as a whole */
    uint32_t id;
    struct last_step steps[LAST_WALK_STEPS];
};

/* Allocated at the thread's first walk, freed at the thread's end. A library that is
 * loaded late has little space for static thread-local data. */
static __thread struct last_walk *last_walk __attribute__((tls_model("initial-exec")));
static pthread_key_t walk_key;
static bool walk_key_made;

static void end_walk(void *walk)
{
    last_walk = NULL; /* a walk in another destructor allocates a new one */
    free(walk);
}

static void make_walk_key(void)
{
    walk_key_made = pthread_key_create(&walk_key, end_walk) == 0;
}

static GS_NOINLINE bool make_last_walk(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct last_walk *walk = NULL;

    pthread_once(&once, make_walk_key);
    if (walk_key_made) {
        walk = calloc(1, sizeof(*walk));
    }
    if (walk && pthread_setspecific(walk_key, walk) != 0) {
        free(walk);
        walk = NULL;
    }
    last_walk = walk;
    return walk != NULL;
}

/* The state of a walk. */
struct position {
    uintptr_t frame, cframe;
    struct last_step *step; /* step of the last walk, at the same depth */
    struct gs_python_file file;
};

/* Finds the start of the frame chain, and of the chain of cframes if the version has one.
 * False: the thread's state cannot be used. */
static inline bool find_chain(struct gs_python *python, struct position *position)
{
    const struct gs_python_layout *layout = &python->layout;
    uintptr_t state = (uintptr_t)python->symbols.thread_state();
    uintptr_t ending;

    if (GS_UNLIKELY(!last_walk) && !make_last_walk()) {
        return false;
    }
    if (GS_UNLIKELY(last_walk->state != state || last_walk->number != python->number)) {
        if (!gs_python_readable(python, state, GS_PYTHON_STATE_BYTES)) {
            return false;
        }
        memset(last_walk, 0, sizeof(*last_walk));
        last_walk->number = python->number;
        last_walk->state = state;
    }
    ending = word_at((uintptr_t)python->symbols.runtime + layout->finalizing);
    if (GS_UNLIKELY(ending != 0 && ending != state)) {
        return false;
    }
    position->cframe = 0;
    if (layout->state_cframe != GS_PYTHON_NO_FIELD) {
        position->cframe = word_at(state + layout->state_cframe);
        if (!gs_python_readable(python, position->cframe, CFRAME_BYTES)) {
            return false;
        }
    }
    position->frame = layout->state_frame != GS_PYTHON_NO_FIELD
                          ? word_at(state + layout->state_frame)
                          : word_at(position->cframe + layout->cframe_frame);
    return true;
}

static inline uintptr_t code_of(const struct gs_python_layout *layout, uintptr_t frame)
{
    return word_at(frame + layout->code) & ~(uintptr_t)CODE_TAGS;
}

/* Returns the instruction of a frame: an address, or a 32-bit number where frames are
 * objects. */
static inline __attribute__((always_inline)) uintptr_t
instruction_of(const struct gs_python_layout *layout, uintptr_t frame,
               enum gs_python_chain chain)
{
    return chain >= GS_PYTHON_FRAME_ENTRIES ? word_at(frame + layout->instruction)
                                            : half_at(frame + layout->instruction);
}

/* Returns true if the step is of the program's code, not of an evaluation's base. */
static inline bool has_code(const struct last_step *step, enum gs_python_chain chain)
{
    return chain != GS_PYTHON_FRAME_BASES || step->code != CODE_OF_BASE;
}

/*
 * Returns the number of the last walk if this walk would visit the same frames, else 0.
 * Reads only memory that the last walk has read. Before 3.12 the fingerprints come last:
 * they cost the most there, and most walks differ in an inner frame.
 */
static inline __attribute__((always_inline)) uint32_t
recognise(struct gs_python *python, uintptr_t frame, enum gs_python_chain chain)
{
    const struct gs_python_layout *layout = &python->layout;
    const struct last_step *step = last_walk->steps, *end = step + last_walk->count;
    struct gs_python_file file = {0};

    for (; step < end; step++) {
        if (step->frame != frame) {
            return 0;
        }
        if (chain >= GS_PYTHON_FRAME_ENTRIES &&
            step->owner != byte_at(frame + layout->owner)) {
            return 0;
        }
        if (chain == GS_PYTHON_FRAME_ENTRIES &&
            step->is_entry != byte_at(frame + layout->is_entry)) {
            return 0;
        }
        if (has_code(step, chain) &&
            (step->code != code_of(layout, frame) ||
             step->instruction != instruction_of(layout, frame, chain))) {
            return 0;
        }
        if (chain == GS_PYTHON_FRAME_BASES && has_code(step, chain) &&
            step->print != gs_python_code_print(python, step->code, &file)) {
            return 0;
        }
        frame = word_at(frame + layout->previous);
    }
    if (frame != 0) {
        return 0;
    }
    for (step = last_walk->steps; chain != GS_PYTHON_FRAME_BASES && step < end; step++) {
        if (step->print != gs_python_code_print(python, step->code, &file)) {
            return 0;
        }
    }
    return last_walk->id;
}

static uint32_t recognise_walk(struct gs_python *python, uintptr_t frame)
{
    if (last_walk->count == 0) {
        return 0;
    }
    switch ((enum gs_python_chain)python->layout.chain) {
    case GS_PYTHON_FRAME_BASES:
        return recognise(python, frame, GS_PYTHON_FRAME_BASES);
    case GS_PYTHON_FRAME_ENTRIES:
        return recognise(python, frame, GS_PYTHON_FRAME_ENTRIES);
    case GS_PYTHON_FRAME_CFRAMES:
    case GS_PYTHON_FRAME_OBJECTS:
        break;
    }
    return recognise(python, frame, GS_PYTHON_FRAME_OBJECTS);
}

static inline void end_run(struct gs_python_walk *walk, uintptr_t address)
{
    if (walk->runs < GS_ARRAY_LEN(walk->native_addresses) &&
        walk->count < GS_PYTHON_ENTRIES_MAX) {
        walk->native_addresses[walk->runs++] = address;
        walk->entries[walk->count++] = GS_PYTHON_RUN_END;
    } else {
        walk->truncated = true;
    }
}

/* Returns true if the run ends with this frame; *address is then an address in the native
 * frame. */
static inline bool ends_run(struct gs_python *python, struct position *position,
                            uintptr_t *address)
{
    const struct gs_python_layout *layout = &python->layout;

    if (layout->chain == GS_PYTHON_FRAME_BASES ||
        (layout->chain == GS_PYTHON_FRAME_ENTRIES &&
         byte_at(position->frame + layout->is_entry) == 0)) {
        return false;
    }
    *address = position->cframe;
    if (gs_python_readable(python, position->cframe, CFRAME_BYTES)) {
        position->cframe = word_at(position->cframe + layout->cframe_previous);
    }
    return true;
}

/* Returns true if the address is that of a readable code object. */
static inline bool is_code(struct gs_python *python, uintptr_t code)
{
    return gs_python_readable(python, code, python->code_bytes) &&
           word_at(code + python->layout.object_type) ==
               (uintptr_t)python->symbols.code_type;
}

/* Reads a frame. False: there is no frame at the address. */
static bool add_frame(struct gs_python *python, struct position *position, uint8_t owner,
                      struct gs_python_walk *walk)
{
    const struct gs_python_layout *layout = &python->layout;
    enum gs_python_chain chain = (enum gs_python_chain)layout->chain;
    struct last_step *step = position->step, now = {.frame = position->frame};
    uintptr_t at, address;

    now.code = code_of(layout, now.frame);
    if (!is_code(python, now.code)) {
        return false;
    }
    now.instruction = instruction_of(layout, now.frame, chain);
    now.print = gs_python_code_print(python, now.code, &position->file);
    now.owner = owner;
    if (chain == GS_PYTHON_FRAME_ENTRIES) {
        now.is_entry = byte_at(now.frame + layout->is_entry);
    }
    at = chain >= GS_PYTHON_FRAME_ENTRIES ? now.instruction | (owner == OWNER_GENERATOR)
                                          : now.instruction << 1;
    if (step->code == now.code && step->instruction == now.instruction &&
        step->print == now.print && step->owner == owner) {
        now.entry = step->entry;
    } else {
        now.entry = find_frame(python, now.code, at, now.print);
    }
    *step = now;
    if (now.entry != 0) {
        walk->entries[walk->count++] = now.entry;
    }
    if (ends_run(python, position, &address)) {
        end_run(walk, address);
    }
    return true;
}

/* Returns true if the walk has a frame at its position, and space for the frame's
 * entries. */
static bool goes_on(struct gs_python *python, const struct position *position,
                    unsigned steps, const struct gs_python_walk *walk)
{
    return gs_python_readable(python, position->frame, python->frame_bytes) &&
           steps < STEPS_MAX && walk->count + 1 < GS_PYTHON_ENTRIES_MAX;
}

static uint32_t walk_id(struct gs_python *python, const struct gs_python_walk *walk)
{
    uint32_t hash, id;

    if (walk->count == 0) {
        return 0;
    }
    hash = gs_stack_hash(walk->entries, walk->count, walk->truncated);
    id = gs_stack_table_find(&python->walks, hash, walk->entries, walk->count,
                             walk->truncated);
    if (GS_LIKELY(id != 0)) {
        return id;
    }
    gs_mutex_lock(python->lock);
    id = gs_stack_table_add(&python->walks, hash, walk->entries, walk->count,
                            walk->truncated, 0);
    gs_mutex_unlock(python->lock);
    return id;
}

/* Completes a walk of `steps` steps, of which only the first ones are stored. */
static __attribute__((noinline)) void finish(struct gs_python *python, unsigned steps,
                                             struct gs_python_walk *walk)
{
    /* A truncated run counts, too. */
    if (walk->count > 0 && walk->entries[walk->count - 1] != GS_PYTHON_RUN_END) {
        end_run(walk, 0);
    }
    if (walk->count == walk->runs) {
        walk->count = walk->runs = 0;
    }
    walk->id = walk_id(python, walk);
    last_walk->id = walk->id;
    last_walk->count = walk->truncated || steps > LAST_WALK_STEPS ? 0 : steps;
}

static __attribute__((noinline)) void walk_from(struct gs_python *python,
                                                struct position *position,
                                                struct gs_python_walk *walk)
{
    const struct gs_python_layout *layout = &python->layout;
    struct last_step beyond = {0};
    unsigned steps = 0;

    for (; position->frame != 0; steps++) {
        uint8_t owner = 0;

        position->step = steps < LAST_WALK_STEPS ? &last_walk->steps[steps] : &beyond;
        if (!goes_on(python, position, steps, walk)) {
            walk->truncated = true;
            break;
        }
        if (layout->owner != GS_PYTHON_NO_FIELD) {
            owner = byte_at(position->frame + layout->owner);
        }
        if (layout->chain == GS_PYTHON_FRAME_BASES && owner >= OWNER_EVALUATION) {
            end_run(walk, position->frame);
            *position->step = (struct last_step){
                .frame = position->frame, .code = CODE_OF_BASE, .owner = owner};
        } else if (!add_frame(python, position, owner, walk)) {
            walk->truncated = true;
            break;
        }
        position->frame = word_at(position->frame + layout->previous);
    }
    finish(python, steps, walk);
}

bool gs_python_recognise(struct gs_python *python, uint32_t *id)
{
    struct position position = {0};

    *id = find_chain(python, &position) ? recognise_walk(python, position.frame) : 0;
    return *id != 0;
}

void gs_python_walk(struct gs_python *python, struct gs_python_walk *walk)
{
    struct position position = {0};

    walk->count = walk->runs = walk->id = 0;
    walk->truncated = false;
    if (find_chain(python, &position)) {
        walk_from(python, &position, walk);
    }
}

/* The pair's place in the first cache, or in a larger one. */
static inline struct gs_python_pair *pair_of(const struct gs_python *python,
                                             struct gs_python_more *more, uint64_t key)
{
    uint64_t hash = gs_python_mix(key, 0);

    return more != NULL
               ? &((struct gs_python_pair *)more->entries)[hash >> (64 - more->bits)]
               : (struct gs_python_pair *)(uintptr_t)&python
                     ->pairs[hash >> (64 - GS_PYTHON_PAIR_BITS)];
}

/* Returns the stack; 0: the place has another pair. */
static inline uint32_t stack_of(const struct gs_python_pair *pair, uint64_t key)
{
    uint64_t stack = atomic_load_explicit(&pair->stack, memory_order_relaxed);

    return (atomic_load_explicit(&pair->check, memory_order_relaxed) ^
            stack * PAIR_FACTOR) == key
               ? (uint32_t)stack
               : 0;
}

static __attribute__((noinline)) uint32_t find_more(const struct gs_python *python,
                                                    uint64_t key)
{
    struct gs_python_more *more =
        atomic_load_explicit(&python->more_pairs, memory_order_acquire);

    return more != NULL ? stack_of(pair_of(python, more, key), key) : 0;
}

uint32_t gs_python_pair_find(const struct gs_python *python, uint32_t native,
                             uint32_t walk)
{
    uint64_t key = (uint64_t)native << 32 | walk;
    uint32_t stack = stack_of(pair_of(python, NULL, key), key);

    return GS_LIKELY(stack != 0) ? stack : find_more(python, key);
}

/* The place for a new pair: if it displaces another and a quarter of the places are in
 * use, in a larger cache. */
static struct gs_python_pair *place_for(struct gs_python *python, uint64_t key)
{
    struct gs_python_more *more =
        atomic_load_explicit(&python->more_pairs, memory_order_acquire);

    for (;;) {
        struct gs_python_pair *pair = pair_of(python, more, key);
        unsigned bits = more != NULL ? more->bits : GS_PYTHON_PAIR_BITS;
        _Atomic uint32_t *used = more != NULL ? &more->used : &python->pairs_used;

        if (atomic_load_explicit(&pair->stack, memory_order_relaxed) == 0) {
            atomic_fetch_add_explicit(used, 1, memory_order_relaxed);
            return pair;
        }
        more =
            atomic_load_explicit(used, memory_order_relaxed) >> (bits - 2)
                ? gs_python_more(python, &python->more_pairs, more, bits, sizeof(*pair))
                : NULL;
        if (more == NULL) {
            return pair;
        }
    }
}

void gs_python_pair_add(struct gs_python *python, uint32_t native, uint32_t walk,
                        uint32_t stack)
{
    uint64_t key = (uint64_t)native << 32 | walk;
    struct gs_python_pair *pair;

    if (stack == 0) {
        return;
    }
    pair = place_for(python, key);
    atomic_store_explicit(&pair->stack, stack, memory_order_relaxed);
    atomic_store_explicit(&pair->check, key ^ stack * PAIR_FACTOR, memory_order_relaxed);
}
