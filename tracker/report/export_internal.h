/*
 * export_internal.h - the snapshot behind the exported files, and its writers.
 * Owns: nothing.   Lock: none, one thread writes a report.
 */
#ifndef GS_EXPORT_INTERNAL_H
#define GS_EXPORT_INTERNAL_H

#include "tracker/report/export.h"
#include "tracker/report/files/export_out.h"
#include "tracker/report/report_internal.h"
#include "tracker/samples.h"

#define GS_EXPORT_NONE UINT32_MAX

/* A stack: frames[first] to frames[first + count - 1]; the report would show those from
 * `begin` to `end`. */
struct gs_export_stack {
    uint32_t id;
    uint32_t first, count;
    uint32_t begin, end; /* relative to first; the program's own frame is the first */
    uint32_t inner;      /* frames of frameworks before `begin` */
    const char *call;    /* runtime function that the program called; NULL: unknown */
    bool cut;            /* the recorded stack is incomplete */
};

struct gs_export {
    struct gs_tracker *tracker;
    const struct gs_report_config *config;
    const struct gs_export_job *job;
    const struct gs_report_source *source;
    const struct gs_report_data *data;
    const struct gs_report_summary *summary;

    struct gs_module *modules; /* the program's own first, if it has frames */
    size_t module_count, module_capacity;
    /* Distinct frames, each after the functions inlined in it; module is one of
     * `modules`. */
    struct gs_symbol_request *locations;
    uint32_t *location_modules; /* by location: its number, or GS_EXPORT_NONE */
    size_t location_count, location_capacity;
    struct gs_export_stack *stacks; /* by id, ascending */
    size_t stack_count;
    uint32_t *frames; /* locations of all stacks; none unless job->stacks */
    size_t frame_count, frame_capacity;
    struct gs_sample *samples; /* in a stable order; none unless job->samples */
    size_t sample_count;
    struct gs_owners owners;
};

/* Makes the snapshot and runs the job of the report's configuration. */
void gs_export_run(const struct gs_report_writer *writer,
                   const struct gs_report_summary *summary, struct gs_text *names);

/* ---- export_places.c: stacks and their modules ------------------------------------ */

/* Fills modules, locations, frames and stacks for these stacks; `ids` is sorted. */
enum gs_status gs_export_fill_stacks(struct gs_export *export, uint32_t *ids,
                                     size_t id_count) GS_MUST_USE;

/* ---- queries of the writers ------------------------------------------------------- */

/* NULL: unknown stack. */
const struct gs_export_stack *gs_export_stack(const struct gs_export *export,
                                              uint32_t stack);
/* "cudaMalloc": the report's name of the call. `stack` may be NULL. */
const char *gs_export_call(const struct gs_export *export,
                           const struct gs_export_stack *stack, uint16_t api);
/* That of a call site. */
const char *gs_export_call_of(const struct gs_export *export,
                              const struct gs_export_stack *stack,
                              const struct gs_group *group);
/* "device", "stream-ordered", "managed", "pinned" */
const char *gs_export_kind(unsigned kind);
/* Returns true for host memory, whose device has no meaning. */
bool gs_export_on_host(unsigned kind, int device);
/* The exit status of the process, before GPUSHIM_ERROR_EXITCODE. False: it has none. */
bool gs_export_exit_status(const struct gs_export *export, uint64_t *status);
/* The build id as hexadecimal digits; "": none. */
#define GS_BUILD_ID_TEXT (2 * sizeof((struct gs_module *)0)->build_id + 1)
const char *gs_export_build_id(const struct gs_module *module,
                               char out[GS_BUILD_ID_TEXT]);
/* Returns the address in the module's file, as addr2line expects it. 0 without a
 * module. */
uint64_t gs_export_offset(const struct gs_symbol_request *location);

/* export_collapsed.c: writes a frame's name, or its place in a module. */
void gs_export_put_frame(struct gs_export_out *out,
                         const struct gs_symbol_request *frame);
/* The frames that the report would show, each after a semicolon, the outermost first; or
 * the reason why there are none. */
void gs_export_put_frames(const struct gs_export *export, struct gs_export_out *out,
                          uint32_t stack);
/* One of them, the innermost is 0; NULL: there are no more. `stack` may be NULL. */
const struct gs_symbol_request *gs_export_frame(const struct gs_export *export,
                                                const struct gs_export_stack *stack,
                                                unsigned number);

#define GS_EXPORT_FORMAT(name, word, extension, socket, stacks, tallied, doc)            \
    enum gs_status gs_export_write_##name(const struct gs_export *export,                \
                                          const struct gs_export_sink *sink);
#include "tracker/report/files/export_formats.def"
#undef GS_EXPORT_FORMAT

#endif
