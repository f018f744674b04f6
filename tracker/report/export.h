/*
 * export.h - the report as files for other programs: JSON, pprof, CSV and others.
 *
 * One snapshot holds all data of a report. Each row of export_formats.def is a function
 * that writes the snapshot to a sink. The report's caller owns the files: this code opens
 * none. Formats: docs/outputs.md.
 *
 * Locks: none, one thread writes a report.
 */
#ifndef GS_EXPORT_H
#define GS_EXPORT_H

#include "gs_base.h"

struct gs_export; /* all data to write */

/* Takes bytes, in order. Returns false on failure, and gets no more bytes then. */
struct gs_export_sink {
    bool (*write)(void *self, const void *data, size_t length);
    void *self;
};

struct gs_text;
/* Appends to a text; fails when the text is truncated. */
struct gs_export_sink gs_export_text_sink(struct gs_text *text);

/* A row of export_formats.def. */
struct gs_export_format {
    char name[16];      /* the user's word for it */
    char extension[16]; /* of its files, without the dot */
    char socket[32];    /* gets it in one message; "": it is a file */
    bool stacks;        /* the format names call sites */
    bool tallied;       /* the format needs gs_tracker_config.tally */
    enum gs_status (*write)(const struct gs_export *export,
                            const struct gs_export_sink *sink);
};

enum gs_export_row {
#define GS_EXPORT_FORMAT(name, word, extension, socket, stacks, tallied, doc)            \
    GS_EXPORT_##name,
#include "tracker/report/files/export_formats.def"
#undef GS_EXPORT_FORMAT
    GS_EXPORT_FORMATS
};
extern const struct gs_export_format gs_export_formats[GS_EXPORT_FORMATS];

/*
 * Writes the snapshot in one of the formats.
 * Errors: GS_ERR_IO          the sink failed; it has a part of the text
 *         GS_ERR_HOST_NOMEM  likewise
 */
enum gs_status gs_export_write(const struct gs_export *export, enum gs_export_row row,
                               const struct gs_export_sink *sink) GS_MUST_USE;

/* A frame as the files have it. Texts are the snapshot's. */
struct gs_export_frame {
    const char *function, *file, *module; /* NULL: unknown */
    unsigned line;                        /* 0: unknown */
    uint32_t number; /* of the frame, the same in each stack; below gs_export_frames */
    uint64_t offset; /* in the module's file */
};

/* Frames in the snapshot. */
size_t gs_export_frames(const struct gs_export *export);
/* Writes the frames that a report shows of a stack, the innermost first, at most `most`.
 * Returns how many; 0 if there are none. */
size_t gs_export_shown(const struct gs_export *export, uint32_t stack,
                       struct gs_export_frame *frames, size_t most);
/* The owner of what a stack allocates: the path of a module, or of a file of Python.
 * NULL: unknown. The text is the snapshot's. */
const char *gs_export_owner(const struct gs_export *export, uint32_t stack);

/* A setting in force, in the form that a user would write. */
struct gs_export_option {
    const char *name, *value;
};

/* The name and unit of a counter, without its values. The texts are in the row itself, so
 * a program that never calls CUDA pays for no relocation. */
struct gs_export_counter {
    char name[24], unit[8]; /* "hits", "count" */
};

/*
 * The data that the files have beyond the report, and the function that opens them.
 * `write` is called once, before the last line of the report; NULL: no memory for a
 * snapshot. It appends the files' names to `names`, separated by ", ".
 */
struct gs_text;
struct gs_export_job {
    void (*write)(void *self, const struct gs_export *export, struct gs_text *names);
    void *self;
    bool stacks;  /* a format that names call sites was requested */
    bool samples; /* a tallied format was requested */
    /* Stacks that the report's data does not refer to. */
    const uint32_t *more_stacks;
    size_t more_stack_count;
    const char *program;  /* path of the program's file; NULL: unknown */
    uint64_t end_unix_ms; /* now, since 1970 */
    uint64_t
        killed_unix_ms; /* when a process ended that could not report; 0: not known */
    const struct gs_export_option *options;
    size_t option_count;
    /* The pool's counters, device by device as in the report's configuration:
     * values[device * counter_count + counter]. */
    const struct gs_export_counter *counters;
    size_t counter_count;
    const uint64_t *values;
};

#endif
