/*
 * sorted_records.c - see sorted_records.h.
 * Owns: nothing.   Lock: that of the records' owner.
 */
#include "pool/sorted_records.h"

#include "pool/meta.h"

struct gs_sorted_page {
    struct gs_sorted_page *next;
    uint64_t records[]; /* to the end of the page */
};

struct gs_sorted_node *gs_sorted_records_take(struct gs_sorted_records *records,
                                              size_t record_bytes)
{
    struct gs_sorted_node *node = records->spare;
    struct gs_sorted_page *page = node ? NULL : gs_meta_map(GS_META_PAGE_BYTES);

    if (page) {
        size_t count = (GS_META_PAGE_BYTES - sizeof(*page)) / record_bytes;

        page->next = records->pages;
        records->pages = page;
        for (size_t i = 0; i < count; i++) {
            struct gs_sorted_node *next =
                (struct gs_sorted_node *)(void *)((char *)page->records +
                                                  i * record_bytes);

            next->less = node;
            node = next;
        }
    }
    if (node) {
        records->spare = node->less;
    }
    return node;
}

void gs_sorted_records_give(struct gs_sorted_records *records,
                            struct gs_sorted_node *node)
{
    node->less = records->spare;
    records->spare = node;
}

void gs_sorted_records_free(struct gs_sorted_records *records)
{
    for (struct gs_sorted_page *page = records->pages, *next; page; page = next) {
        next = page->next;
        gs_meta_unmap(page, GS_META_PAGE_BYTES);
    }
    *records = (struct gs_sorted_records){0};
}
