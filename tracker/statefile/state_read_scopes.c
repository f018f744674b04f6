/*
 * state_read_scopes.c - reads what was allocated in each scope.
 * Owns: nothing.   Lock: none; one thread reads.   Design: docs/state.md
 */
#include "tracker/scope_totals.h"
#include "tracker/statefile/state_read_internal.h"

#define IN_CHUNK ((size_t)1 << GS_SCOPE_CHUNK_BITS)

/* This process's number of a scope of the file; 0: none. */
static uint32_t number_of(const struct gs_image *image, uint32_t number)
{
    uintptr_t frame =
        number == 0 ? 0 : gs_image_frame(image, GS_SCOPE_FRAME_BASE + number);

    return frame == 0 ? 0 : (uint32_t)(frame - GS_SCOPE_FRAME_BASE);
}

/* Adds the rows of a scope, at most one for each row of the totals. */
static void read_rows(const struct gs_image *image, const struct gs_scope_table *table,
                      uint32_t number, uint32_t scope)
{
    for (unsigned i = 0; i < GS_ROWS && number != 0; i++) {
        const struct gs_scope_row *rows = NULL;

        if (number >> GS_SCOPE_CHUNK_BITS < GS_SCOPE_CHUNKS) {
            rows = AT(
                image,
                (const struct gs_scope_row *)table->rows[number >> GS_SCOPE_CHUNK_BITS],
                IN_CHUNK);
        }
        if (!rows) {
            return;
        }
        rows += number % IN_CHUNK;
        if (rows->row < GS_ROWS) {
            gs_scopes_put_row(image->out->tracker, scope, rows);
        }
        number = rows->next;
    }
}

static void read_scope(const struct gs_image *image, const struct gs_scope_table *table,
                       const struct gs_scope *was, uint32_t number)
{
    uint32_t scope = was->begun == 0 ? 0 : number_of(image, number);

    if (scope != 0) {
        gs_scopes_put(image->out->tracker, scope, was);
        read_rows(image, table, was->first_row, scope);
    }
}

void gs_image_scopes(const struct gs_image *image)
{
    const struct gs_scope_table *table =
        AT(image, (const struct gs_scope_table *)image->tracker->scopes, 1);

    for (uint32_t chunk = 0; table && chunk < GS_SCOPE_CHUNKS; chunk++) {
        const struct gs_scope *scopes =
            AT(image, (const struct gs_scope *)table->scopes[chunk], IN_CHUNK);

        for (uint32_t i = 0; scopes && i < IN_CHUNK; i++) {
            read_scope(image, table, &scopes[i], (uint32_t)(chunk * IN_CHUNK) + i);
        }
    }
}
