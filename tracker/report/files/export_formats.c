/*
 * export_formats.c - the table of formats.
 * Owns: nothing.   Lock: none.
 */
#include "tracker/report/export_internal.h"

const struct gs_export_format gs_export_formats[GS_EXPORT_FORMATS] = {
#define GS_EXPORT_FORMAT(name, word, extension, socket, stacks, tallied, doc)            \
    {word, extension, socket, stacks, tallied, gs_export_write_##name},
#include "tracker/report/files/export_formats.def"
#undef GS_EXPORT_FORMAT
};

enum gs_status gs_export_write(const struct gs_export *export, enum gs_export_row row,
                               const struct gs_export_sink *sink)
{
    return gs_export_formats[row].write(export, sink);
}
