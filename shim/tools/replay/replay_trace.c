/*
 * replay_trace.c - a trace in memory: built, read from a file, measured.
 * Owns: nothing.   Lock: none.
 */
#include "shim/settings/output_map.h"
#include "shim/tools/replay/replay_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kind_names[GS_TRACE_KINDS] = {
    [GS_TRACE_KIND_NONE] = "unknown",  [GS_TRACE_KIND_DEVICE] = "device",
    [GS_TRACE_KIND_ASYNC] = "async",   [GS_TRACE_KIND_MANAGED] = "managed",
    [GS_TRACE_KIND_PINNED] = "pinned", [GS_TRACE_KIND_VIRTUAL] = "virtual",
    [GS_TRACE_KIND_ARRAY] = "array",
};

const char *gs_replay_kind_name(unsigned kind)
{
    return kind < GS_TRACE_KINDS ? kind_names[kind] : NULL;
}

unsigned gs_replay_kind_of(const char *name)
{
    for (unsigned kind = 1; kind < GS_TRACE_KINDS; kind++) {
        if (!strcmp(name, kind_names[kind])) {
            return kind;
        }
    }
    return GS_TRACE_KIND_NONE;
}

static void release_data(const struct gs_replay_file *file)
{
    void *data = (void *)(uintptr_t)file->data;

    if (file->mapped) {
        munmap(data, file->mapped);
    } else {
        free(data);
    }
}

/* All but its data. */
static void free_file(struct gs_replay_trace *trace)
{
    if (trace->file) {
        free(trace->file->order);
        free(trace->file->refused);
    }
    free(trace->file);
    trace->file = NULL;
}

void gs_replay_free(struct gs_replay_trace *trace)
{
    free(trace->ops);
    if (trace->file) {
        release_data(trace->file);
    }
    free_file(trace);
    *trace = (struct gs_replay_trace){0};
}

void gs_replay_count(struct gs_replay_trace *trace, const struct gs_replay_op *op)
{
    trace->count++;
    trace->end_ns = op->time_ns;
    if (op->op != GS_TRACE_SYNC && op->id >= trace->allocations) {
        trace->allocations = op->id + 1;
    }
    if (op->thread >= trace->threads) {
        trace->threads = op->thread + 1u;
    }
    if (op->stream >= trace->streams) {
        trace->streams = op->stream + 1u;
    }
}

void gs_replay_add(struct gs_replay_trace *trace, const struct gs_replay_op *op)
{
    trace->ops = gs_replay_grow(trace->ops, trace->count, &trace->room, sizeof(*op));
    trace->ops[trace->count] = *op;
    gs_replay_count(trace, op);
}

void gs_replay_visit(const struct gs_replay_trace *trace, gs_replay_see *see, void *self)
{
    gs_replay_visit_ranges(trace, see, NULL, self);
}

void gs_replay_visit_ranges(const struct gs_replay_trace *trace, gs_replay_see *see,
                            gs_replay_see_range *see_range, void *self)
{
    if (trace->file) {
        gs_replay_visit_binary(trace->file, see, see_range, self);
    } else {
        for (size_t i = 0; i < trace->count; i++) {
            see(self, &trace->ops[i], 0);
        }
    }
}

void gs_replay_keep_kinds(struct gs_replay_trace *trace, unsigned kinds)
{
    size_t kept = 0;

    for (size_t i = 0; i < trace->count; i++) {
        if (trace->ops[i].op == GS_TRACE_SYNC || kinds >> trace->ops[i].kind & 1) {
            trace->ops[kept++] = trace->ops[i];
        }
    }
    trace->count = kept;
}

struct gs_replay_peaks gs_replay_find_peaks(const struct gs_replay_trace *trace)
{
    struct gs_replay_peaks peaks = {0};
    uint64_t bytes = 0;
    uint32_t count = 0;

    for (size_t i = 0; i < trace->count; i++) {
        const struct gs_replay_op *op = &trace->ops[i];

        if (op->op == GS_TRACE_ALLOC) {
            bytes += op->bytes;
            count++;
            peaks.made++;
        } else if (op->op == GS_TRACE_FREE) {
            bytes -= op->bytes;
            count--;
        }
        if (bytes > peaks.live_bytes) {
            peaks.live_bytes = bytes;
        }
        if (count > peaks.live_count) {
            peaks.live_count = count;
            peaks.live_count_at = i;
        }
    }
    return peaks;
}

/* ---- files ------------------------------------------------------------------------ */

/* All of a stream; NULL if it could not be read. */
static unsigned char *read_all(FILE *file, size_t *length)
{
    size_t room = 1 << 16, used = 0;
    unsigned char *data = malloc(room);

    while (data) {
        size_t got = fread(data + used, 1, room - used, file);

        used += got;
        if (got == 0) {
            break;
        }
        if (used == room) {
            unsigned char *grown = realloc(data, room *= 2);

            if (!grown) {
                free(data);
            }
            data = grown;
        }
    }
    if (data && ferror(file)) {
        free(data);
        data = NULL;
    }
    *length = used;
    return data;
}

/* A shell word that stands for `path`; false if it is too long. */
static bool quote(const char *path, char *out, size_t room)
{
    size_t used = 0;

    for (; *path && used + 6 < room; path++) {
        const char *text = *path == '\'' ? "'\\''" : (char[]){*path, '\0'};

        used = (size_t)(stpcpy(out + used, text) - out);
    }
    out[used] = '\0';
    return *path == '\0';
}

/* What gzip makes of the file; *damaged if it complains. */
static unsigned char *read_compressed(const char *path, size_t *length, bool *damaged)
{
    char name[4096], command[4200];
    unsigned char *data = NULL;
    FILE *pipe;

    if (!quote(path, name, sizeof(name))) {
        return NULL;
    }
    snprintf(command, sizeof(command), "exec gzip -dc < '%s' 2>/dev/null", name);
    pipe = popen(command, "re"); /* NOLINT(cert-env33-c): the name is quoted */
    if (pipe) {
        data = read_all(pipe, length);
        *damaged = pclose(pipe) != 0;
    }
    return data;
}

/* gs_replay_see */
static void keep(void *trace, const struct gs_replay_op *op, uint64_t address)
{
    (void)address;
    gs_replay_add(trace, op);
}

/* The operations move from their file into memory. */
static void keep_operations(struct gs_replay_trace *trace)
{
    struct gs_replay_trace read = {.room = trace->count};

    if (!trace->file || trace->count == 0) {
        return;
    }
    read.ops = gs_replay_alloc(read.room, sizeof(*read.ops));
    gs_replay_visit(trace, keep, &read);
    trace->ops = read.ops;
    trace->room = read.room;
    trace->count = read.count; /* fewer if the file has changed */
}

static bool scan(const struct gs_replay_file *source, struct gs_replay_trace *out,
                 struct gs_replay_note *note)
{
    if (!source->mapped && !gs_replay_is_binary(source->data, source->length)) {
        return gs_replay_parse_csv((const char *)source->data, source->length, out, note);
    }
    out->file = gs_replay_alloc(1, sizeof(*out->file));
    *out->file = *source;
    return gs_replay_scan_binary(out->file, out, note);
}

bool gs_replay_parse(const unsigned char *data, size_t length,
                     struct gs_replay_trace *out, struct gs_replay_note *note)
{
    const struct gs_replay_file source = {.data = data, .length = length, .fd = -1};
    bool good;

    *out = (struct gs_replay_trace){0};
    note->text[0] = '\0';
    good = scan(&source, out, note);
    keep_operations(out);
    free_file(out);
    return good;
}

/* Maps what the library recorded. Returns false if it is something else. */
static bool map_recorded(int fd, struct gs_replay_file *out)
{
    unsigned char begin[sizeof(GS_TRACE_MAGIC)];
    struct stat status;
    ssize_t there = pread(fd, begin, sizeof(begin), 0);
    void *data;

    if (there < 0 || !gs_replay_is_binary(begin, (size_t)there) ||
        fstat(fd, &status) != 0 || status.st_size <= 0) {
        return false;
    }
    data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        return false;
    }
    out->data = data;
    out->length = out->mapped = (size_t)status.st_size;
    out->fd = fd;
    return true;
}

/* Maps or reads a file. Returns false if it cannot be read. */
static bool open_file(const char *path, struct gs_replay_file *out)
{
    int fd = gs_output_map_read(path, 0);
    FILE *file;

    *out = (struct gs_replay_file){.fd = -1};
    if (fd < 0) {
        return false;
    }
    if (map_recorded(fd, out)) {
        return true;
    }
    file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        return false;
    }
    out->data = read_all(file, &out->length);
    fclose(file);
    return out->data != NULL;
}

bool gs_replay_scan(const char *path, struct gs_replay_trace *out,
                    struct gs_replay_note *note)
{
    struct gs_replay_file file;
    bool damaged = false, good;

    *out = (struct gs_replay_trace){0};
    note->text[0] = '\0';
    if (!open_file(path, &file)) {
        snprintf(note->text, sizeof(note->text), "cannot be read: %s", strerror(errno));
        return false;
    }
    if (!file.mapped && file.length >= 2 && file.data[0] == 0x1f &&
        file.data[1] == 0x8b) {
        release_data(&file);
        file.data = read_compressed(path, &file.length, &damaged);
        if (!file.data) {
            snprintf(note->text, sizeof(note->text), "gzip cannot be run");
            return false;
        }
    }
    good = scan(&file, out, note);
    if (damaged && note->text[0] == '\0') {
        snprintf(note->text, sizeof(note->text),
                 "the compressed file is damaged; %zu operations were read", out->count);
    }
    if (file.fd >= 0) {
        close(file.fd);
    }
    if (!out->file) {
        release_data(&file);
    }
    return good;
}

bool gs_replay_load(const char *path, struct gs_replay_trace *out,
                    struct gs_replay_note *note)
{
    bool good = gs_replay_scan(path, out, note);

    keep_operations(out);
    if (out->file) {
        release_data(out->file);
    }
    free_file(out);
    return good;
}
