/*
 * rows.h - tables of calls that make memory and calls that end it, and what each is
 * given.
 *
 * rows.c has those of the driver, rows_runtime.c those of the runtime; rows_call.c goes
 * through either, and rows_main.c is the program around it and the process that exports
 * memory for it. A plug-in is all but the last.
 * Owns: rows_exporter, immutable once rows_run has begun.   Lock: none.
 */
#ifndef ROWS_H
#define ROWS_H

#include <cuda.h>

#include "peer.h"

#define ROWS_PAGE ((size_t)4096)
#define ROWS_UNIT (2 * APP_MIB)

/* ---- tables ------------------------------------------------------------------------
 */

/* What comes of a call, as others end it: PLAIN, WHOLE, ORDERED and GRAPH by the ordinary
 * free, and all but WHOLE by that in a stream's order. */
enum rows_kind {
    PLAIN = 1,
    WHOLE = 2,
    ORDERED = 4,
    GRAPH = 8,
    PINNED = 16,
    OPENED = 32,
    PHYSICAL = 64,
    MAPPED = 128,
    ARRAY = 256,
    LEVELS = 512,
    EXTERNAL = 1024,
    LOCKED = 2048,
};

enum rows_bytes { PAGES, UNITS };

struct rows_made {
    size_t bytes;
    CUdeviceptr address;
    CUmemGenericAllocationHandle physical;
    CUarray array;
    CUmipmappedArray levels;
    CUexternalMemory external;
    void *pointer;
};

/* Both return the call's code. */
struct rows_maker {
    const char *symbol, *owner, *standing;
    int (*make)(struct rows_made *made);
    unsigned kind;
    enum rows_bytes bytes;
};

struct rows_taker {
    const char *symbol;
    int (*take)(struct rows_made *made);
    unsigned kinds;
};

struct rows_missing {
    const char *symbol, *reason;
};

struct rows_table {
    const struct rows_maker *makers;
    size_t maker_count;
    const struct rows_taker *takers;
    size_t taker_count;
    const struct rows_missing *missing;
    size_t missing_count;
    bool (*is_left_out)(const char *symbol);
};

/* Make each; `keep`: it stays, and a line says what the report should have. Otherwise
 * each is made once for every call that can end it. */
void rows_call(const struct rows_table *table, bool keep);

/* Their names, each with what is done. */
void rows_print(const struct rows_table *table);

/* ---- what the calls are given ------------------------------------------------------
 */

/* A file of so many bytes, as another API would export its memory. */
int rows_file(size_t bytes);
/* Pages of the program's own. */
void *rows_pages(size_t bytes);
/* A new pool of device 0. */
CUmemoryPool rows_pool(void);
/* Launch it once, and end it: its memory stays. */
void rows_launch(CUgraph graph);

enum rows_wish { ROWS_BLOCK, ROWS_PHYSICAL, ROWS_POOL, ROWS_END };

struct rows_request {
    enum rows_wish wish;
    size_t bytes;
};

struct rows_offer {
    CUipcMemHandle block;
    CUmemPoolPtrExportData pointer;
};

/* What the other process exports; returns the file of ROWS_PHYSICAL and ROWS_POOL. */
int rows_ask(enum rows_wish wish, size_t bytes, struct rows_offer *out);
/* The pool of an offer's file, which is closed. */
CUmemoryPool rows_import_pool(int file);

extern const struct app_peer *rows_exporter;

/* ---- the parts ---------------------------------------------------------------------
 */

/* Call every row, found in that way. */
typedef void rows_run_fn(const char *way, bool keep, const struct app_peer *peer);
rows_run_fn rows_run APP_EXPORT;

/* The names of all rows, each with what is done. */
void rows_list(void);

#endif
