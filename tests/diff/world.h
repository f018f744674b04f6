/*
 * world.h - what a list has made: slots of memory, streams and all else, and which of
 * their work is ordered. Names addresses by whose they are.
 *
 * Owns: the tables. In memory that the processes of a list share; one operation at a time
 * changes them (play.c has the baton), but where threads run freely: each has its own.
 */
#ifndef GS_DIFF_WORLD_H
#define GS_DIFF_WORLD_H

#include "calls.h"

enum { DIFF_NEVER, DIFF_LIVE, DIFF_GONE };

/* Lines of work: a stream each; the legacy stream of each context; the default stream of
 * each thread in each context. */
enum {
    LINE_LEGACY = DIFF_STREAMS,
    LINE_THREAD = LINE_LEGACY + DIFF_CONTEXTS,
    LINES = LINE_THREAD + DIFF_CONTEXTS * DIFF_THREADS,
    SPANS = 6
};

typedef uint32_t diff_clock[LINES];

struct diff_slot {
    uint8_t state;
    uint8_t process;
    uint8_t ctx;    /* slot of the context it was made in */
    uint8_t device; /* a context's, a pool's */
    bool blocking;  /* a stream that the legacy stream waits for */
    bool recorded;  /* an event */
    bool captured;  /* recorded in a capture */
    bool shared;    /* an event that another process may have */
    uint64_t value; /* handle */
    uint64_t bytes;
    uint32_t touched; /* a graph: memory that its nodes use, and the lives of it */
    uint32_t lives[DIFF_SLOTS];
    diff_clock cover; /* an event: what it is behind */
    unsigned char handle[64];
};

/*
 * Memory. Kinds: d device, p pitched, g managed, h pinned, r registered, a
 * stream-ordered, v mapped, i another process's, n a graph's.
 */
struct diff_memory {
    uint8_t state;
    uint8_t process;
    uint8_t ctx;
    char kind;
    bool in_order; /* it was freed in a stream's order */
    bool told;     /* its free was answered with the failure of its context */
    uint32_t life; /* how many this slot has had */
    uint64_t at, bytes;
    uint64_t id; /* the buffer it was said to be in; 0: not asked */
    uint64_t pitch, width, height;
    uint64_t physical; /* v: its slot */
    uint64_t handle;   /* v: what the slot had */
    uint32_t source,
        source_life;    /* i: whose memory; n: its graph's or capture's number */
    diff_clock pending; /* the newest access of each line */
    unsigned spans;     /* bytes with known contents */
    uint64_t from[SPANS], to[SPANS];
};

/* A part of an allocation. */
struct diff_part {
    uint64_t at, bytes;
};

/* What a graph, or an executable one, does when it is launched. */
enum { DIFF_NODES = 24 };
struct diff_graph {
    int ctx;         /* of its nodes; -1: none is added */
    uint32_t number; /* one for each graph and capture: whose memory it is */
    unsigned count;  /* nodes that were added here */
    uint64_t nodes[DIFF_NODES];
    bool loose;                        /* its nodes are not in one row */
    bool has_memory;                   /* nodes that allocate */
    uint32_t unknown;                  /* memory in which nobody knows what it leaves */
    struct diff_part part[DIFF_SLOTS]; /* what it writes last, the same each time */
};

struct diff_world {
    struct diff_memory memory[DIFF_SLOTS];
    struct diff_slot slots[DIFF_THINGS][DIFF_SLOTS];
    struct diff_graph graphs[DIFF_SLOTS], execs[DIFF_SLOTS];
    diff_clock count;                 /* submitted */
    diff_clock seen[LINES];           /* what a line is behind */
    diff_clock host;                  /* seen complete by the host */
    diff_clock lost;                  /* accesses to freed memory whose slot was reused */
    bool lean, captures, pools, ends; /* of the list */
    bool stray;                       /* memory is live that is in no slot */
    uint32_t touched;                 /* memory used by what is being captured */
    uint32_t lives[DIFF_SLOTS];       /* of it, when it was first used */
    unsigned capturing;               /* captures that are not known to have ended */
    uint32_t capture;                 /* number of the newest, or of a newer graph */
};

/* One call of an operation: diff_do_* writes the answer. */
struct diff_call {
    struct diff_world *world;
    const struct diff_list *list;
    const struct diff_op *op;
    int ctx; /* slot of the current context, -1: none that is known */
    char *line;
    size_t used;
};

/* Adds to the answer. */
void diff_say(struct diff_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* " skip=why": nothing was called. */
void diff_skip(struct diff_call *call, const char *why);
/* " NAME=code"; the code again. */
CUresult diff_code(struct diff_call *call, const char *name, CUresult code);
/* Of an allocation that is out of memory: how much there is, and was wanted. */
void diff_say_full(struct diff_call *call, CUresult code, uint64_t wanted);
/* " NAME=whose+offset": which live memory an address is in. */
/* Kind and size of the memory, and whether its free told of a failure. */
void diff_say_memory(struct diff_call *call, const struct diff_memory *memory);
void diff_say_where(struct diff_call *call, const char *name, uint64_t address);

/* ---- slots --------------------------------------------------------------------------
 */

/* The slot an argument names: a live one of this process, or NULL with the reason said.
 */
struct diff_memory *diff_memory_of(struct diff_call *call, unsigned argument);
struct diff_slot *diff_slot_of(struct diff_call *call, enum diff_thing thing,
                               unsigned argument);
/* One that holds nothing, to put something into; NULL likewise. */
struct diff_memory *diff_memory_free(struct diff_call *call, unsigned argument);
struct diff_slot *diff_slot_free(struct diff_call *call, enum diff_thing thing,
                                 unsigned argument);
/* One that was freed, whose address is nobody's now; NULL likewise. */
struct diff_memory *diff_memory_gone(struct diff_call *call, unsigned argument);

/* It is there from now on. Says whether it is apart from all other memory, and aligned.
 */
void diff_memory_made(struct diff_call *call, struct diff_memory *memory, char kind,
                      uint64_t at, uint64_t bytes);
void diff_slot_made(struct diff_call *call, struct diff_slot *slot, uint64_t value);
/* A context's end takes what it owns. */
void diff_context_gone(struct diff_world *world, unsigned ctx);

/* The stream an argument names, and its line; -1: it has none that is known. */
bool diff_stream_of(struct diff_call *call, unsigned argument, CUstream *stream,
                    int *line);
/* That of stream 0, and of calls without a stream. */
int diff_default_line(const struct diff_call *call);
unsigned diff_stream_argument(struct diff_call *call, unsigned argument);
/* Does the stream capture now? (Lists without captures do not ask.) */
bool diff_captures(struct diff_call *call, CUstream stream);
/* Which context is current now. */
void diff_find_context(struct diff_call *call);
/* Whose context a handle is; -1: nobody's. */
int diff_context_slot(struct diff_world *world, unsigned process, CUcontext context);

/* ---- what is ordered: clocks.c ------------------------------------------------------
 */

/* Is all use of the memory ordered before what the line does next? -1: before the host.
 */
bool diff_ordered(struct diff_world *world, const struct diff_memory *memory, int line);
/* Likewise, once all work of a context was waited for. */
bool diff_ordered_but(struct diff_world *world, const struct diff_memory *memory,
                      unsigned ctx);
/* The line gets work that uses these (either may be NULL). */
void diff_submitted(struct diff_world *world, int line, struct diff_memory *a,
                    struct diff_memory *b);
/* The line is about to get work: the legacy stream's order with others. */
void diff_enters(struct diff_world *world, int line);
void diff_host_waited(struct diff_world *world, int line);
void diff_host_waited_context(struct diff_world *world, unsigned ctx);
/* A new stream in a slot. Not while the work of the one before it may run: the line has
 * one count for both, and a wait for the new one is no wait for the old one. */
bool diff_line_made(struct diff_world *world, int line);
bool diff_line_quiet(struct diff_world *world, int line);
/* Is freed memory, which no slot has any more, perhaps in use? */
bool diff_lost(struct diff_world *world);
bool diff_all_quiet(struct diff_world *world);
void diff_recorded(struct diff_world *world, struct diff_slot *event, int line);
void diff_behind(struct diff_world *world, int line, const struct diff_slot *event);
bool diff_event_quiet(struct diff_world *world, const struct diff_slot *event);
void diff_event_waited(struct diff_world *world, const struct diff_slot *event);

/* ---- contents -----------------------------------------------------------------------
 */

struct diff_part diff_part_of(const struct diff_memory *memory, int64_t code);
void diff_define(struct diff_memory *memory, struct diff_part part);
void diff_undefine(struct diff_memory *memory, struct diff_part part);
bool diff_defined(const struct diff_memory *memory, struct diff_part part);
/* Of those bytes of the part that have known contents. */
uint64_t diff_hash(const struct diff_memory *memory, struct diff_part part,
                   const unsigned char *bytes);

/* A function for each row. */
#define DIFF_OP(name, group, weight, arguments, what)                                    \
    void diff_do_##name(struct diff_call *call);
#include "ops.def"
#undef DIFF_OP

#endif
