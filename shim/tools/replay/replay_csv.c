/*
 * replay_csv.c - traces as text: t_us,op,id,bytes,stream[,thread[,kind]].
 *
 * `a` allocates, `f` frees, `s` is a wait for all work. An id is of one allocation only.
 * A first line that does not begin with a digit is the heading.
 *
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/replay/replay_map.h"
#include "shim/tools/replay/replay_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Longest line that can be one of ours. */
#define LINE_BYTES 256

enum {
    FIELD_TIME,
    FIELD_OP,
    FIELD_ID,
    FIELD_BYTES,
    FIELD_STREAM,
    FIELDS_NEEDED,
    FIELD_THREAD = FIELDS_NEEDED,
    FIELD_KIND,
    FIELDS
};

struct csv_reader {
    struct gs_replay_trace *trace;
    struct gs_replay_map ids, streams, threads;
    struct gs_replay_op *made; /* the allocations, by dense id */
    bool *live;
    size_t room;
    uint32_t strays;     /* frees of addresses that are not live */
    const char *problem; /* of the line last read */
};

/* Cut a line into fields; how many there were, 0 for too many. */
static size_t split(char *line, char *fields[FIELDS])
{
    size_t count = 0;
    char *text = line;

    while (text && count < FIELDS) {
        char *comma = strchr(text, ',');

        fields[count++] = text;
        if (comma) {
            *comma++ = '\0';
        }
        text = comma;
    }
    return text ? 0 : count;
}

static bool read_number(const char *text, uint64_t most, uint64_t *out)
{
    char *end;

    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0 && *out <= most;
}

static void keep(struct csv_reader *reader, const struct gs_replay_op *op)
{
    if (op->id >= reader->room) {
        size_t room = reader->room ? 2 * reader->room : 1024;
        struct gs_replay_op *made = gs_replay_alloc(room, sizeof(*made));
        bool *live = gs_replay_alloc(room, sizeof(*live));

        if (reader->room) {
            memcpy(made, reader->made, reader->room * sizeof(*made));
            memcpy(live, reader->live, reader->room * sizeof(*live));
        }
        free(reader->made);
        free(reader->live);
        reader->made = made;
        reader->live = live;
        reader->room = room;
    }
    reader->made[op->id] = *op;
    reader->live[op->id] = true;
}

/* An allocation or a free; false (and `problem`) if the line makes no sense. */
static bool add_memory(struct csv_reader *reader, struct gs_replay_op *op, uint64_t id)
{
    const uint64_t *known = gs_replay_map_find(&reader->ids, id);

    if (op->op == GS_TRACE_ALLOC) {
        reader->problem = "an id is allocated twice";
        if (known) {
            return false;
        }
        op->id = (uint32_t)gs_replay_map_number(&reader->ids, id);
        keep(reader, op);
    } else if (!known || !reader->live[*known]) {
        reader->strays++;
        return true;
    } else {
        op->id = (uint32_t)*known;
        op->bytes = reader->made[op->id].bytes;
        op->kind = reader->made[op->id].kind;
        reader->live[op->id] = false;
    }
    gs_replay_add(reader->trace, op);
    return true;
}

static bool read_line(struct csv_reader *reader, char *line)
{
    struct gs_replay_op op = {.kind = GS_TRACE_KIND_DEVICE};
    uint64_t time_us, id, stream, thread = 0;
    char *fields[FIELDS];
    size_t count = split(line, fields);

    reader->problem = "not t_us,op,id,bytes,stream";
    if (count < FIELDS_NEEDED || strlen(fields[FIELD_OP]) != 1 ||
        !strchr("afs", fields[FIELD_OP][0]) ||
        !read_number(fields[FIELD_TIME], UINT64_MAX / 1000, &time_us) ||
        !read_number(fields[FIELD_ID], UINT64_MAX, &id) ||
        !read_number(fields[FIELD_BYTES], (uint64_t)1 << 47, &op.bytes) ||
        !read_number(fields[FIELD_STREAM], UINT64_MAX, &stream)) {
        return false;
    }
    if (count > FIELD_THREAD && !read_number(fields[FIELD_THREAD], UINT64_MAX, &thread)) {
        return false;
    }
    if (count > FIELD_KIND) {
        op.kind = (uint8_t)gs_replay_kind_of(fields[FIELD_KIND]);
        reader->problem = "no such kind of memory";
        if (op.kind == GS_TRACE_KIND_NONE) {
            return false;
        }
    }
    op.time_ns = time_us * 1000;
    reader->problem = "too many streams or threads";
    stream = gs_replay_map_number(&reader->streams, stream);
    thread = gs_replay_map_number(&reader->threads, thread);
    if (stream > UINT16_MAX || thread >= GS_REPLAY_THREADS) {
        return false;
    }
    op.stream = (uint16_t)stream;
    op.thread = (uint16_t)thread;
    if (fields[FIELD_OP][0] == 's') {
        op.op = GS_TRACE_SYNC;
        op.how = GS_TRACE_SYNC_CONTEXT;
        op.bytes = 0;
        op.kind = GS_TRACE_KIND_NONE;
        gs_replay_add(reader->trace, &op);
        return true;
    }
    op.op = fields[FIELD_OP][0] == 'a' ? GS_TRACE_ALLOC : GS_TRACE_FREE;
    return add_memory(reader, &op, id);
}

/* All lines; false at the first bad one, `*number` is its. */
static bool read_lines(struct csv_reader *reader, const char *data, size_t length,
                       size_t *number)
{
    size_t begin = 0;

    for (*number = 1; begin < length; ++*number) {
        const char *newline = memchr(data + begin, '\n', length - begin);
        size_t bytes = newline ? (size_t)(newline - data) - begin : length - begin;
        char line[LINE_BYTES];

        reader->problem = newline ? "not a line of a trace" : "cut off";
        if (!newline || bytes >= sizeof(line) || memchr(data + begin, '\0', bytes)) {
            return false;
        }
        memcpy(line, data + begin, bytes);
        line[bytes] = '\0';
        if (bytes > 0 && line[bytes - 1] == '\r') {
            line[bytes - 1] = '\0';
        }
        begin += bytes + 1;
        if (*number == 1 && !strncmp(line, "t_us,op,id,", 11)) {
            continue;
        }
        if (line[0] != '\0' && !read_line(reader, line)) {
            return false;
        }
    }
    return true;
}

bool gs_replay_parse_csv(const char *data, size_t length, struct gs_replay_trace *out,
                         struct gs_replay_note *note)
{
    struct csv_reader reader = {.trace = out};
    size_t number = 0;
    bool whole = read_lines(&reader, data, length, &number);
    bool good = out->count > 0;

    if (!good) {
        snprintf(note->text, sizeof(note->text), "no trace: %s",
                 whole ? "nothing in it" : reader.problem);
    } else if (!whole) {
        snprintf(note->text, sizeof(note->text),
                 "line %zu: %s; %zu operations before it were read", number,
                 reader.problem, out->count);
    } else if (reader.strays > 0) {
        snprintf(note->text, sizeof(note->text),
                 "%u frees of memory that is not live were left out", reader.strays);
    }
    gs_replay_map_free(&reader.ids);
    gs_replay_map_free(&reader.streams);
    gs_replay_map_free(&reader.threads);
    free(reader.made);
    free(reader.live);
    return good;
}

bool gs_replay_write_csv(const struct gs_replay_trace *trace, FILE *file)
{
    fputs("t_us,op,id,bytes,stream,thread,kind\n", file);
    for (size_t i = 0; i < trace->count; i++) {
        const struct gs_replay_op *op = &trace->ops[i];
        bool sync = op->op == GS_TRACE_SYNC;
        char letter = sync ? 's' : op->op == GS_TRACE_ALLOC ? 'a' : 'f';

        fprintf(file, "%llu,%c,%u,%llu,%u,%u,%s\n",
                (unsigned long long)(op->time_ns / 1000), letter, op->id,
                (unsigned long long)op->bytes, op->stream, op->thread,
                gs_replay_kind_name(sync || op->kind == GS_TRACE_KIND_NONE
                                        ? GS_TRACE_KIND_DEVICE
                                        : op->kind));
    }
    return fflush(file) == 0 && !ferror(file);
}
