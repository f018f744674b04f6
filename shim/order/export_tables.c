/*
 * export_tables.c - searches the rows of export_tables.def and applies their
 * consequences.
 *
 * Owns:  the rows, immutable.   Lock: none.
 */
#include "shim/order/export_tables.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shim/link/known_functions.h"
#include "shim/link/recent_lookups.h"
#include "shim/order/single_order.h"

#define KEPT  false
#define ENDED true

static const struct row {
    char guid[GS_GUID_BYTES];
    struct gs_export_table table;
} rows[] = {
#define GS_EXPORT_TABLE(guid, purpose, counts, order, seen)                              \
    {guid, {purpose, counts, order}},
#include "shim/order/export_tables.def"
};

#undef KEPT
#undef ENDED

void gs_export_table_guid(const CUuuid *id, char out[GS_GUID_BYTES])
{
    const unsigned char *bytes = (const unsigned char *)id->bytes;
    (void)snprintf(out, GS_GUID_BYTES,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                   bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6],
                   bytes[7], bytes[8], bytes[9], bytes[10], bytes[11], bytes[12],
                   bytes[13], bytes[14], bytes[15]);
}

struct gs_export_table gs_export_table_find(const char *guid)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (strcmp(guid, rows[i].guid) == 0) {
            return rows[i].table;
        }
    }
    return (struct gs_export_table){.ends_proof = true, .ends_order = true};
}

void gs_export_table_given(const CUuuid *id)
{
    int saved_errno = errno;
    char guid[GS_GUID_BYTES], name[GS_KNOWN_NAME_BYTES];
    gs_export_table_guid(id, guid);
    gs_recent_lookups_add_table(guid);
    struct gs_export_table table = gs_export_table_find(guid);
    (void)snprintf(name, sizeof(name), "private table %s%s%s%s", guid,
                   table.purpose[0] ? " (" : "", table.purpose,
                   table.purpose[0] ? ")" : "");
    if (table.ends_proof) {
        gs_known_end_proof(name);
    }
    if (table.ends_order) {
        gs_single_order_end_by("cuGetExportTable", name);
    }
    errno = saved_errno;
}
