/*
 * sorted_records.h - memory for records that are members of trees (sorted.h).
 *
 * Each record begins with a node, by which a spare one is linked to the next.
 *
 * Owns: pages of records.   Lock: that of the records' owner.
 */
#ifndef GS_POOL_SORTED_RECORDS_H
#define GS_POOL_SORTED_RECORDS_H

#include "pool/sorted.h"

struct gs_sorted_page;

/* Begins as zero. */
struct gs_sorted_records {
    struct gs_sorted_node *spare;
    struct gs_sorted_page *pages;
};

/* A record that is in use by nobody; NULL: no memory. All records of one owner have the
 * same size. */
struct gs_sorted_node *gs_sorted_records_take(struct gs_sorted_records *records,
                                              size_t record_bytes);
void gs_sorted_records_give(struct gs_sorted_records *records,
                            struct gs_sorted_node *node);
/* Frees all records, also those in use. */
void gs_sorted_records_free(struct gs_sorted_records *records);

#endif
