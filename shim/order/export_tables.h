/*
 * export_tables.h - the consequences of a private table of the driver in the program's
 * hands (cuGetExportTable).
 *
 * A private table is an array of the driver's own functions, named by a GUID. NVIDIA's
 * runtime and libraries use such tables. The library passes every table on unchanged and
 * calls none of its functions. A table whose functions may launch work past the hooks
 * ends the proofs that rest on counted calls; export_tables.def lists the tables that are
 * known to be harmless.
 *
 * Owns: nothing.   Lock: none.   Design: docs/free.md, "What it cannot see"
 */
#ifndef GS_EXPORT_TABLES_H
#define GS_EXPORT_TABLES_H

#include "shim/cuda/cuda_names.h"

/* Bytes of a GUID as text: 8-4-4-4-12 hexadecimal digits and the final 0. */
#define GS_GUID_BYTES 37

struct gs_export_table {
    char purpose[32]; /* "": unknown table */
    bool ends_proof;  /* its functions may submit GPU work that is not counted */
    bool ends_order;  /* its functions may create a stream or a context past the hooks */
};

/* Writes the 16 bytes of `id`, in memory order, as text. */
void gs_export_table_guid(const CUuuid *id, char out[GS_GUID_BYTES]);

/* The row of a table. An unknown table ends both proofs. */
struct gs_export_table gs_export_table_find(const char *guid);

/* Called before the program receives this table. Ends the idle proof (known_functions.h)
 * and the single order (single_order.h) where the table requires this; ending the single
 * order may wait for an event. No lock may be held. Preserves errno. */
void gs_export_table_given(const CUuuid *id);

#endif
