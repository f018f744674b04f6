/*
 * latency_table.c - how long calls take, by function and size.
 *
 *   origin: GPU, driver, date     before every row, in words of its own
 *   cuMemAlloc 2M 91000           NAME BYTES NANOSECONDS
 *   cuStreamQuery 350             NAME NANOSECONDS
 *
 * A name is one of CUDASIM_FAIL's. A row without a size is for every size for which there
 * is none with one. '#' begins a comment. A table that does not say where it comes from
 * is refused: durations are measured, not invented.
 *
 * Owns:  the rows.   Lock: none, immutable after sim_latency_table_load().
 */
#include "latency_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "log.h"
#include "names.h"

#define MAX_POINTS     64
#define MAX_FILE_BYTES (1024 * 1024)
#define MAX_NS         UINT64_C(3600000000000) /* an hour */
#define MAX_COMPLAINTS 20
#define MAX_WORDS      3
#define SHOWN          "%.80s" /* of a line that cannot be used */

struct point {
    size_t bytes;
    uint64_t ns;
};

struct curve {
    bool has_any;    /* a row without a size */
    uint64_t any_ns; /* its duration */
    unsigned count;
    struct point points[MAX_POINTS]; /* by size */
};

static struct curve *curves[SIM_API_COUNT]; /* NULL without a row */

/* A row as it stands in the file. */
struct row {
    const char *name;
    bool has_bytes;
    size_t bytes;
    uint64_t ns;
};

/* The file as it is read. */
struct source {
    const char *path;
    unsigned line;
    unsigned complaints;
    unsigned rows;
    char origin[128];
};

static const enum sim_api sized[] = {
    SIM_ID_cuMemAlloc_v2,        SIM_ID_cuMemAllocPitch_v2,
    SIM_ID_cuMemFree_v2,         SIM_ID_cuMemAllocManaged,
    SIM_ID_cuMemAllocHost_v2,    SIM_ID_cuMemHostAlloc,
    SIM_ID_cuMemFreeHost,        SIM_ID_cuMemHostRegister_v2,
    SIM_ID_cuMemHostUnregister,  SIM_ID_cuMemAllocAsync,
    SIM_ID_cuMemAllocAsync_ptsz, SIM_ID_cuMemAllocFromPoolAsync,
    SIM_ID_cuMemFreeAsync,       SIM_ID_cuMemAllocFromPoolAsync_ptsz,
    SIM_ID_cuMemFreeAsync_ptsz,  SIM_ID_cuMemCreate,
    SIM_ID_cuMemRelease,         SIM_ID_cuMemAddressReserve,
    SIM_ID_cuMemAddressFree,     SIM_ID_cuMemMap,
    SIM_ID_cuMemUnmap,           SIM_ID_cuMemSetAccess,
    SIM_ID_cuArrayCreate_v2,     SIM_ID_cuArray3DCreate_v2,
    SIM_ID_cuArrayDestroy,
};

bool sim_latency_table_is_sized(enum sim_api api)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(sized); i++) {
        if (sized[i] == api)
            return true;
    }
    return false;
}

/* ---- durations
 * --------------------------------------------------------------------------------- */

/* The logarithm to base 2, of 1 and more, in 65536ths. */
static uint64_t log2_of(uint64_t value)
{
    unsigned whole = 63 - (unsigned)__builtin_clzll(value);
    uint64_t mantissa = value << (63 - whole) >> 32; /* 1 is 2^31 */
    uint64_t log = whole;

    for (int bit = 0; bit < 16; bit++) {
        mantissa = mantissa * mantissa >> 31;
        log = log << 1 | mantissa >> 32;
        mantissa >>= mantissa >> 32;
    }
    return log;
}

static uint64_t between(const struct point *low, const struct point *high, size_t bytes)
{
    uint64_t begin = log2_of(low->bytes), end = log2_of(high->bytes);
    double part;

    if (end <= begin)
        return high->ns;
    part = (double)(log2_of(bytes) - begin) / (double)(end - begin);
    return (uint64_t)((double)low->ns * (1 - part) + (double)high->ns * part + 0.5);
}

uint64_t sim_latency_table_ns(enum sim_api api, size_t bytes)
{
    const struct curve *curve = curves[api];
    unsigned next = 0;

    if (!curve)
        return 0;
    if (curve->count == 0)
        return curve->any_ns;
    while (next < curve->count && curve->points[next].bytes < bytes)
        next++;
    if (next == curve->count)
        return curve->points[next - 1].ns;
    if (next == 0 || curve->points[next].bytes == bytes)
        return curve->points[next].ns;
    return between(&curve->points[next - 1], &curve->points[next], bytes);
}

/* ---- rows
 * --------------------------------------------------------------------------------------
 */

/* A line about the line being read; after a number of them none. */
static void complain(struct source *source, const char *text, const char *why)
{
    if (source->complaints++ < MAX_COMPLAINTS)
        sim_log_always("CUDASIM_LATENCY=%.300s:%u: '" SHOWN "' %s", source->path,
                       source->line, text, why);
    else if (source->complaints == MAX_COMPLAINTS + 1)
        sim_log_always("CUDASIM_LATENCY=%.300s:%u: this and further lines that cannot be "
                       "used are not named",
                       source->path, source->line);
}

enum outcome { TAKEN, REPLACED, NO_ROOM };

/* A row for one function. */
static enum outcome enter_point(struct curve *curve, const struct row *row)
{
    unsigned at = 0;

    if (!row->has_bytes) {
        bool again = curve->has_any;
        curve->has_any = true;
        curve->any_ns = row->ns;
        return again ? REPLACED : TAKEN;
    }
    while (at < curve->count && curve->points[at].bytes < row->bytes)
        at++;
    if (at < curve->count && curve->points[at].bytes == row->bytes) {
        curve->points[at].ns = row->ns;
        return REPLACED;
    }
    if (curve->count == MAX_POINTS)
        return NO_ROOM;
    memmove(&curve->points[at + 1], &curve->points[at],
            (curve->count - at) * sizeof(curve->points[0]));
    curve->points[at] = (struct point){row->bytes, row->ns};
    curve->count++;
    return TAKEN;
}

static enum outcome enter_api(enum sim_api api, const struct row *row)
{
    if (!curves[api])
        curves[api] = calloc(1, sizeof(*curves[api]));
    return curves[api] ? enter_point(curves[api], row) : NO_ROOM;
}

/* Enter the row at every function it names. */
static void enter_row(struct source *source, const char *text, const struct row *row)
{
    bool replaced = false, full = false, any = false;
    struct sim_named named;

    if (!sim_names_find(row->name, strlen(row->name), &named)) {
        complain(source, text, "names no function of the driver, ignored");
        return;
    }
    if (!named.modelled) {
        complain(source, text, "names what is not modelled, ignored");
        return;
    }
    for (unsigned i = 0; i < named.count; i++) {
        if (row->has_bytes && !sim_latency_table_is_sized(named.apis[i]))
            continue;
        enum outcome outcome = enter_api(named.apis[i], row);
        replaced = replaced || outcome == REPLACED;
        full = full || outcome == NO_ROOM;
        any = true;
    }
    if (!any)
        complain(source, text, "gives a size to a function that has none, ignored");
    else if (full)
        complain(source, text, "is more than there is room for, ignored");
    else
        source->rows++;
    if (replaced)
        complain(source, text, "replaces an earlier row");
}

/* A whole decimal number of nanoseconds. */
static bool parse_ns(const char *text, uint64_t *out)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || value > MAX_NS)
        return false;
    *out = value;
    return true;
}

/* Words are cut out of `text`. True if it is a row, whatever its name means. */
static bool parse_row(char *text, struct row *out)
{
    char *words[MAX_WORDS], *save = NULL;
    size_t count = 0;

    for (char *word = strtok_r(text, " \t", &save); word;
         word = strtok_r(NULL, " \t", &save)) {
        if (count == MAX_WORDS)
            return false;
        words[count++] = word;
    }
    if (count < 2)
        return false;
    out->name = words[0];
    out->has_bytes = count == MAX_WORDS;
    if (out->has_bytes &&
        (!sim_config_parse_size(words[1], &out->bytes) || out->bytes == 0))
        return false;
    return parse_ns(words[count - 1], &out->ns);
}

/* Without what is not printed, a comment, and blanks at both ends. */
static char *trim(char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\n' || line[i] == '\r' || line[i] == '\t')
            line[i] = ' ';
        else if ((unsigned char)line[i] < ' ' || line[i] == 127)
            line[i] = '?';
    }
    line[strcspn(line, "#")] = '\0';
    line += strspn(line, " ");
    length = strlen(line);
    while (length > 0 && line[length - 1] == ' ')
        line[--length] = '\0';
    return line;
}

static void read_row(struct source *source, char *text)
{
    char *shown = strdup(text);
    struct row row;

    if (!parse_row(text, &row))
        complain(source, shown ? shown : text, "is not a row, ignored");
    else
        enter_row(source, shown ? shown : text, &row);
    free(shown);
}

/* True if the line says where the table comes from. */
static bool read_origin(struct source *source, const char *text)
{
    static const char word[] = "origin:";

    if (strncmp(text, word, sizeof(word) - 1) != 0)
        return false;
    text += sizeof(word) - 1;
    text += strspn(text, " ");
    snprintf(source->origin, sizeof(source->origin), "%s", text);
    return source->origin[0] != '\0';
}

/* False, after a line, if the file does not say where it comes from. */
static bool read_lines(struct source *source, FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;

    while ((length = getline(&line, &room, file)) >= 0) {
        source->line++;
        char *text = trim(line, (size_t)length);
        if (!*text)
            continue;
        if (source->origin[0])
            read_row(source, text);
        else if (!read_origin(source, text))
            break;
    }
    free(line);
    if (ferror(file)) /* what was read of it counts */
        sim_log_always("CUDASIM_LATENCY=%.300s cannot be read to its end: %s",
                       source->path, strerror(errno));
    if (!source->origin[0])
        sim_log_always("CUDASIM_LATENCY=%.300s does not begin with 'origin: GPU, driver, "
                       "date', ignored",
                       source->path);
    return source->origin[0] != '\0';
}

/* NULL, after a line, unless it is a file of a table's size. */
static FILE *open_table(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* no pipe is waited for */
    const char *why = NULL;
    struct stat about;

    if (fd < 0 || fstat(fd, &about) != 0)
        why = strerror(errno);
    else if (S_ISDIR(about.st_mode))
        why = strerror(EISDIR);
    else if (!S_ISREG(about.st_mode))
        why = "not a file";
    else if (about.st_size > MAX_FILE_BYTES)
        why = "larger than 1 MiB";
    FILE *file = why ? NULL : fdopen(fd, "r");
    if (!file) {
        sim_log_always("CUDASIM_LATENCY=%.300s cannot be read, ignored: %s", path,
                       why ? why : strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    return file;
}

bool sim_latency_table_load(const char *path)
{
    struct source source = {.path = path};
    FILE *file = open_table(path);

    if (!file)
        return false;
    if (read_lines(&source, file)) {
        if (source.rows == 0)
            sim_log_always(
                "CUDASIM_LATENCY=%.300s has no row that can be used, calls take "
                "no time",
                path);
        else
            sim_log(1, "calls take what they took on %s: %u rows", source.origin,
                    source.rows);
    }
    fclose(file);
    return source.rows > 0;
}
