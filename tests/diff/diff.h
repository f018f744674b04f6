/*
 * diff.h - the differential fuzzer: lists of driver calls that are played natively and
 * under the library, and what both answered, line by line (docs/compatibility.md).
 *
 *   generate.c  a seed becomes a list      list.c      a list becomes text and back
 *   play.c      plays a list, in threads and processes that a baton passes through
 *   world.c     what the calls made; clocks.c  which of their work is ordered
 *   do_*.c      one function for each row of ops.def
 *   server.c    a process that plays many lists, each in a child of its own
 *   compare.c   the equivalence relation   shrink.c    the smallest list that differs
 */
#ifndef GS_DIFF_H
#define GS_DIFF_H

#include <stddef.h>
#include <stdio.h>

#include "gs_base.h"

enum {
    DIFF_ARGS = 5,      /* of one operation, at most */
    DIFF_OPS = 2000,    /* of one list, at most */
    DIFF_LINE = 200,    /* bytes of an answer, the end included */
    DIFF_THREADS = 4,   /* of a process */
    DIFF_PROCESSES = 2, /* the second one is there for memory that is shared */
};

/* What operations make and take; each has slots, which lists name by number. */
enum diff_thing {
    DIFF_MEM,
    DIFF_STREAM,
    DIFF_EVENT,
    DIFF_CTX,
    DIFF_GRAPH,
    DIFF_EXEC,
    DIFF_POOL,
    DIFF_PHYSICAL,
    DIFF_ARRAY,
    DIFF_HANDLE,
    DIFF_THINGS
};
#define DIFF_SLOTS     24 /* of each thing */
#define DIFF_STREAMS   12 /* 0, 1, 2: NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD */
#define DIFF_CONTEXTS  8  /* 0 to 3: the primary ones, two of each process */
#define DIFF_PRIMARIES 4

enum diff_kind {
#define DIFF_OP(name, group, weight, arguments, what) DIFF_##name,
#include "ops.def"
#undef DIFF_OP
    DIFF_KINDS
};

enum diff_group {
#define DIFF_GROUP(name, chance, what) DIFF_GROUP_##name,
#include "groups.def"
#undef DIFF_GROUP
    DIFF_GROUPS
};

struct diff_row {
    const char *name;
    enum diff_group group;
    unsigned weight;
    const char *arguments;
};
extern const struct diff_row diff_rows[DIFF_KINDS];

struct diff_op {
    uint8_t process, thread;
    uint16_t kind;
    int64_t args[DIFF_ARGS];
};

/* How the driver's functions are found. */
enum diff_way {
    DIFF_WAY_LINKED,
    DIFF_WAY_SYMBOL,     /* by dlsym */
    DIFF_WAY_NAME,       /* by cuGetProcAddress */
    DIFF_WAY_PER_THREAD, /* likewise; stream 0 is the thread's own */
    DIFF_WAYS
};

struct diff_list {
    uint64_t seed;       /* it was made from; 0: by hand */
    unsigned memory_mib; /* of each device */
    unsigned devices;
    unsigned way; /* enum diff_way */
    bool lean;    /* leans on the wait of a free: not for GPUSHIM_FREE_SYNC=lazy */
    bool free;    /* threads run freely, each in a world of its own */
    unsigned count;
    struct diff_op ops[DIFF_OPS];
};

/* ---- lists: list.c ------------------------------------------------------------------
 */

/* Writes the list as text. */
void diff_list_print(const struct diff_list *list, FILE *out);

/* Reads text; false, with a line on stderr, where it is none. */
bool diff_list_parse(FILE *in, struct diff_list *out) GS_MUST_USE;

/* Number of arguments of a kind. */
unsigned diff_arguments(enum diff_kind kind);

/* The list of a seed; `ops` of them: generate.c. */
void diff_generate(uint64_t seed, unsigned ops, struct diff_list *out);

/* ---- answers ------------------------------------------------------------------------
 */

/* What a list was answered: a line for each operation, and how the process ended. */
struct diff_answers {
    unsigned count; /* lines that there are */
    char end[64];   /* "ok", "signal 11 in 7", "timeout in 7" */
    char lines[DIFF_OPS][DIFF_LINE];
};

/* Plays a list in this process, which has not used CUDA before: play.c. Never returns an
 * error: what goes wrong is an answer. */
void diff_play(const struct diff_list *list, struct diff_answers *shared, unsigned *done);

/* ---- equivalence: compare.c ---------------------------------------------------------
 */

/* Rows of the relation. */
enum {
    DIFF_EXCEPTIONS = 0
#define DIFF_EXCUSE(id, operation, field, rule, modes, after) +1
#include "relation.def"
#undef DIFF_EXCUSE
};

struct diff_verdict {
    bool same;
    unsigned op;       /* the first one that differs */
    unsigned compared; /* operations looked at */
    unsigned excused;  /* of them, those that differ as relation.def allows */
    unsigned left;     /* operations behind an excuse that ends the comparison */
    unsigned exceptions[DIFF_EXCEPTIONS]; /* by row of relation.def */
    char why[64];
};

/* mode: which way the second was played ("native" twice: nothing is excused). */
void diff_compare(const struct diff_list *list, const struct diff_answers *native,
                  const struct diff_answers *other, const char *mode,
                  struct diff_verdict *out);
unsigned diff_exceptions(void);
const char *diff_exception_name(unsigned row);

/* ---- shrinking: shrink.c ------------------------------------------------------------
 */

/* Does the list still differ? */
typedef bool diff_differs(const struct diff_list *list, void *argument);

/* Takes out of the list what it differs without. Returns how often it asked. */
unsigned diff_shrink(struct diff_list *list, diff_differs *differs, void *argument);

/* ---- servers: server.c --------------------------------------------------------------
 */

struct diff_server {
    int to, from;
    int pid;
};

/* Start this program again as a server; preload NULL: without the library. */
bool diff_server_start(struct diff_server *server, const char *preload) GS_MUST_USE;
void diff_server_stop(struct diff_server *server);

/* One list, in a child of the server, with these settings (NAME=value each, NULL last).
 * ask gives it, get waits for the answers; false: the server has gone. */
bool diff_server_ask(struct diff_server *server, const struct diff_list *list,
                     const char *const *settings) GS_MUST_USE;
bool diff_server_get(struct diff_server *server, struct diff_answers *out) GS_MUST_USE;

/* The server's own loop. */
int diff_serve(int in, int out);

#endif
