/*
 * report_file.h - the report of a process as a file: its JSON, or a state file, of which
 * the JSON is made. For the launcher's html, diff, merge and top.
 * Locks: none; one thread.   Design: docs/outputs.md
 */
#ifndef GS_REPORT_FILE_H
#define GS_REPORT_FILE_H

#include "shim/tools/reader/state_open.h"
#include "tracker/names/shown_path.h"
#include "tracker/names/symbolize.h"

/* The report's JSON, with a NUL after it, from malloc. NULL: *problem is the reason, as
 * the end of a sentence. */
char *gs_report_file_json(const char *path, bool lines, size_t *length,
                          const char **problem);

/* The reason of a file that is a report or messages as text: of --log-file, next to which
 * a folder often has files that can be read. */
extern const char gs_report_file_is_text[];

/* Returns whether the reason is that of a report or state file that ends too early. */
bool gs_report_file_is_cut(const char *problem);

/* Returns whether both names are of one file. */
bool gs_is_same_file(const char *a, const char *b);

/* Memory of one call site. */
struct gs_file_place {
    uint64_t bytes, count;
    const char *call, *kind; /* NULL: missing */
    const char *no_stack;    /* why there is no stack; NULL: not known */
    uint64_t device;         /* UINT64_MAX: host memory */
    size_t first, depth;     /* of its stack, in gs_report_file.stacks */
    bool cut;                /* the stack is incomplete */
    const char *inner;       /* folded before it, "23 frames of PyTorch"; NULL: nothing */
};

struct gs_file_frame {
    uint64_t address, module, offset, line; /* 0: no line; module UINT64_MAX: none */
    const char *function, *linkage, *file;  /* NULL: unknown */
    const char
        *file_there;    /* the file's path in the other report (moved_paths.h), or NULL */
    const char *family; /* "PyTorch": carries the program's calls; NULL: it does not */
    bool inlined;
};

struct gs_file_module {
    const char *path, *build_id; /* NULL: none */
    const char *path_there;      /* as gs_file_frame.file_there */
};

struct gs_file_device {
    uint64_t ordinal, live_bytes, peak_bytes;
    const char *name, *bus; /* NULL: unknown */
};

struct gs_file_scope {
    const char *path; /* NULL: missing */
#define GS_FILE_SCOPE(name) uint64_t name;
#include "shim/tools/reader/file_scopes.def"
};

/* What the places are: what leaked, or is live; or who had the memory at the peaks. */
enum gs_report_of { GS_REPORT_OF_LEAKS, GS_REPORT_OF_PEAK };

/* Numbers are 0, and texts "", where the file has none. */
struct gs_report_file {
    enum gs_report_of of;
    bool running;       /* live memory has not leaked yet */
    bool is_copy;       /* nor had it when the state was copied, as `ending` says */
    bool killed;        /* nor had it when the process ended without a report */
    bool has_peaks;     /* GS_REPORT_OF_PEAK: the file says who had them */
    char *text;         /* the JSON, which contains the strings */
    uint64_t pid, rank; /* rank UINT64_MAX: none */
    const char *command, *program, *hostname, *ending, *no_start;
    uint64_t start_unix_ms, end_unix_ms;
    uint64_t killed_unix_ms; /* the end of a process that wrote no report itself */
    uint64_t errors, leaked_bytes, leaked_count, peak_bytes, allocs;
    uint64_t rest_bytes, rest_count; /* leaked, and in no place */
    struct gs_file_device *devices;
    size_t device_count, device_room;
    struct gs_file_scope *scopes;
    size_t scope_count, scope_room;
    struct gs_file_place *places;
    size_t place_count, place_room;
    struct gs_file_place *suppressed_places; /* leaks that a rule took */
    size_t suppressed_place_count, suppressed_place_room;
    uint64_t *stacks; /* numbers of frames, innermost first; any number may stand there */
    size_t stack_count, stack_room;
    struct gs_file_frame *frames;
    size_t frame_count, frame_room;
    struct gs_file_module *modules;
    size_t module_count, module_room;
};

/* Reads a report; gs_report_file_free must follow. False: *problem, as above. */
bool gs_report_file_read(const char *path, enum gs_report_of of, bool lines,
                         struct gs_report_file *out, const char **problem);
/* The same of a report in JSON, from malloc, with a NUL after it, that this takes. */
bool gs_report_file_take(char *json, size_t length, enum gs_report_of of,
                         struct gs_report_file *out, const char **problem);
void gs_report_file_free(struct gs_report_file *file);

/* The frame at a position of a place's stack; NULL: the file has none. */
const struct gs_file_frame *gs_report_file_frame(const struct gs_report_file *file,
                                                 const struct gs_file_place *place,
                                                 size_t i);
/* The module of a frame; NULL: unknown. */
const struct gs_file_module *gs_report_file_module(const struct gs_report_file *file,
                                                   const struct gs_file_frame *frame);
/* Writes a place's stack, as the report does. `paths`: of all stacks that are written. */
void gs_report_file_stack(const struct gs_report_file *file,
                          const struct gs_file_place *place, struct gs_shown_paths *paths,
                          struct gs_text *text);
/* Adds the paths that gs_report_file_stack writes. */
void gs_report_file_paths(const struct gs_report_file *file,
                          const struct gs_file_place *place,
                          struct gs_shown_paths *paths);
/* "rank 3", or "process 4711". Returns `out`. */
const char *gs_report_file_who(const struct gs_report_file *file, char out[32]);

#endif
