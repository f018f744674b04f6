/*
 * metrics.c - see metrics.h.
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "tracker/report/files/metrics.h"

const struct gs_metric_family gs_metric_families[GS_METRICS] = {
#define GS_METRIC(row, unit, counter, help) {"gpushim_" #row, unit, help, counter},
#include "tracker/report/files/metrics.def"
};

void gs_metric_head(struct gs_export_out *out, const struct gs_metric_family *family,
                    bool text)
{
    const char *const lines[][2] = {{"TYPE", family->counter ? "counter" : "gauge"},
                                    {"UNIT", family->unit},
                                    {"HELP", family->help}};

    for (size_t i = 0; i < GS_ARRAY_LEN(lines); i++) {
        if (lines[i][1][0] == '\0' || (text && lines[i][1] == family->unit)) {
            continue;
        }
        gs_out_text(out, "# ");
        gs_out_text(out, lines[i][0]);
        gs_out_char(out, ' ');
        gs_out_text(out, family->name);
        gs_out_text(out, text && family->counter ? "_total " : " ");
        gs_out_text(out, lines[i][1]);
        gs_out_char(out, '\n');
    }
}

void gs_metric_label(struct gs_export_out *out, char separator, const char *name,
                     const char *value)
{
    gs_out_char(out, separator);
    gs_out_text(out, name);
    gs_out_text(out, "=\"");
    while (*value) {
        struct gs_utf8 c = gs_utf8_take(&value);

        if (*c.bytes == '"' || *c.bytes == '\\') {
            gs_out_char(out, '\\');
        }
        if (*c.bytes == '\n') {
            gs_out_text(out, "\\n");
        } else if (gs_is_control(c.bytes, c.length)) {
            gs_out_char(out, '?');
        } else {
            gs_out_bytes(out, c.bytes, c.length);
        }
    }
    gs_out_char(out, '"');
}
