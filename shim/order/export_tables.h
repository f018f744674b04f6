/*
 * export_tables.h - what follows from a private table of the driver's that the program
 * has been given (cuGetExportTable).
 *
 * Such a table is an array of the driver's own functions, named by a GUID. NVIDIA's
 * runtime and libraries use them. The library hands every table on as it is and calls
 * none of its functions. A table whose functions may launch work past the hooks ends what
 * is proven by counting calls: export_tables.def has those that are known not to.
 *
 * Owns: nothing.   Lock: none.   Design: docs/free.md, "What it cannot see"
 */
#ifndef GS_EXPORT_TABLES_H
#define GS_EXPORT_TABLES_H

#include "cuda_names.h"

/* Bytes of a GUID as text, 8-4-4-4-12 hexadecimal digits, and its end. */
#define GS_GUID_BYTES 37

struct gs_export_table {
    char purpose[32]; /* "": the table is not known */
    bool ends_proof;  /* its functions may give the GPU work that is not counted */
    bool ends_order;  /* ... or make a stream or a context that is not seen */
};

/* The 16 bytes of `id`, in memory order, as text. */
void gs_export_table_guid(const CUuuid *id, char out[GS_GUID_BYTES]);

/* What is known of a table. One that is not known ends both. */
struct gs_export_table gs_export_table_find(const char *guid);

/* The program is about to be handed this table. Ends the idle proof (known.h) and the
 * single order (single_order.h) where the table requires it; the latter may wait for a
 * mark. No lock is held. Keeps errno. */
void gs_export_table_given(const CUuuid *id);

#endif
