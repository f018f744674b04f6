/*
 * log_pattern.c - names of log files: resolves patterns.
 *
 * Two passes. The first resolves all parts that are constant for a program (host,
 * program, start, rank, variables). The second resolves the process id, again for each
 * write: a forked child gets its own file without a fork handler.
 *
 * Owns:  the start time, and buffers for names.   Lock: none, atomics.
 * No malloc, no locale, no time zone: may run in a signal handler.
 */
#include "shim/settings/log_pattern.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gs_date.h"
#include "shim/settings/environment.h"
#include "shim/settings/log.h"
#include "shim/settings/start_folder.h"
#include "tracker/host_memory.h"

/* Seconds since the epoch, 0 until gs_log_pattern_start; atomic. */
static int64_t start_seconds;

/* 0: the calling process; set before any other thread. */
static pid_t other_process;

/* Used by one thread at a time: a second thread, or a signal handler, maps its own.
 * `names_taken` is atomic. */
static struct gs_log_names own_names;
static bool names_taken;

/* Text being built; `overflow` is sticky. */
struct name_buffer {
    char *data;
    size_t length, capacity;
    bool overflow;
};

static void name_put(struct name_buffer *name, char c)
{
    if (name->length + 1 < name->capacity) {
        name->data[name->length++] = c;
    } else {
        name->overflow = true;
    }
}

/* Appends an external value, made fit for a file name and for the second pass. */
static void name_put_value(struct name_buffer *name, const char *value, size_t length,
                           bool slashes)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)value[i];

        if (c < 0x20 || c == 0x7f || (c == '/' && !slashes)) {
            name_put(name, '_');
        } else {
            name_put(name, (char)c);
        }
        if (c == '%') {
            name_put(name, '%');
        }
    }
}

/* Appends the directory unchanged: any change would name another folder. */
static void name_put_directory(struct name_buffer *name, const char *directory)
{
    for (; *directory; directory++) {
        name_put(name, *directory);
        if (*directory == '%') {
            name_put(name, '%');
        }
    }
}

static void name_put_number(struct name_buffer *name, uint64_t value, unsigned width)
{
    char digits[20];
    unsigned n = 0;

    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0 || n < width);
    while (n > 0) {
        name_put(name, digits[--n]);
    }
}

/* 20240131T235959Z */
static void name_put_time(struct name_buffer *name, int64_t seconds)
{
    struct gs_date date = gs_date_of(seconds);

    name_put_number(name, date.year, 4);
    name_put_number(name, date.month, 2);
    name_put_number(name, date.day, 2);
    name_put(name, 'T');
    name_put_number(name, date.hour, 2);
    name_put_number(name, date.minute, 2);
    name_put_number(name, date.second, 2);
    name_put(name, 'Z');
}

static int64_t start_time(void)
{
    int64_t start = __atomic_load_n(&start_seconds, __ATOMIC_RELAXED);

    return start ? start : (int64_t)time(NULL);
}

void gs_log_pattern_start(int64_t seconds)
{
    int64_t unset = 0;

    __atomic_compare_exchange_n(&start_seconds, &unset, seconds, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

void gs_log_pattern_of_process(pid_t pid)
{
    other_process = pid;
}

/* The rank's digits in the environment, NULL if there are none. */
static const char *rank_text(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                            "PMIX_RANK", "SLURM_PROCID", "RANK"};

    for (size_t i = 0; i < GS_ARRAY_LEN(variables); i++) {
        const char *value = gs_environment_value(variables[i]);
        size_t digits = value ? strspn(value, "0123456789") : 0;

        if (digits > 0 && digits < 10 && value[digits] == '\0') {
            return value;
        }
    }
    return NULL;
}

int gs_log_rank(void)
{
    const char *text = rank_text();
    int rank = 0;

    if (!text) {
        return -1;
    }
    for (; *text; text++) {
        rank = rank * 10 + (*text - '0');
    }
    return rank;
}

static void name_put_host(struct name_buffer *name)
{
    char host[HOST_NAME_MAX + 1];

    if (gethostname(host, sizeof(host)) != 0) {
        strcpy(host, "unknown");
    }
    host[sizeof(host) - 1] = '\0';
    name_put_value(name, host, strlen(host), false);
}

/* `text` points after "%q{"; returns the closing brace. The pattern was checked. */
static const char *name_put_variable(struct name_buffer *name, const char *text)
{
    const char *end = strchr(text, '}');
    char variable[GS_LOG_LINE_BYTES];
    size_t length = (size_t)(end - text);
    const char *value = NULL;

    if (length < sizeof(variable)) {
        memcpy(variable, text, length);
        variable[length] = '\0';
        value = gs_environment_value(variable);
    }
    if (!value || !*value) {
        value = "unset";
    }
    name_put_value(name, value, strlen(value), true);
    return end;
}

/* Resolves one conversion; `text` points at the letter. Returns its last character. */
static const char *name_put_conversion(struct name_buffer *name, const char *text)
{
    const char *program = program_invocation_short_name;
    const char *rank;

    switch (*text) {
    case 'h':
        name_put_host(name);
        break;
    case 'e':
        if (!program || !*program) {
            program = "unknown";
        }
        name_put_value(name, program, strlen(program), false);
        break;
    case 't':
        name_put_time(name, start_time());
        break;
    case 'r':
        rank = rank_text();
        name_put_value(name, rank ? rank : "norank", strlen(rank ? rank : "norank"),
                       false);
        break;
    case 'q':
        return name_put_variable(name, text + 2);
    default: /* the second pass resolves %p and %% */
        name_put(name, '%');
        name_put(name, *text);
        break;
    }
    return text;
}

/* First pass: everything but %p and %%. The pattern was checked. */
enum gs_status gs_log_pattern_resolve(const char *pattern, char *out, size_t capacity)
{
    struct name_buffer name = {.data = out, .capacity = capacity};

    for (const char *text = pattern; *text; text++) {
        if (*text == '%') {
            text = name_put_conversion(&name, text + 1);
        } else {
            name_put(&name, *text);
        }
    }
    out[name.length] = '\0';
    return name.overflow ? GS_ERR_INVALID : GS_OK;
}

/* Second pass: %p and %%, which the first pass leaves. */
enum gs_status gs_log_pattern_finish(const char *pattern, char *out, size_t capacity)
{
    struct name_buffer name = {.data = out, .capacity = capacity};

    for (const char *text = pattern; *text; text++) {
        if (*text != '%') {
            name_put(&name, *text);
        } else if (*++text == 'p') {
            name_put_number(&name, (uint64_t)(other_process ? other_process : getpid()),
                            1);
        } else {
            name_put(&name, '%');
        }
    }
    out[name.length] = '\0';
    return name.overflow ? GS_ERR_INVALID : GS_OK;
}

const char *gs_log_pattern_problem(const char *pattern)
{
    for (const char *text = strchr(pattern, '%'); text; text = strchr(text + 1, '%')) {
        text++;
        if (*text == 'q') {
            const char *end = text[1] == '{' ? strchr(text, '}') : NULL;

            if (!end || end == text + 2) {
                return "%q needs a variable in braces, such as %q{USER}";
            }
            text = end;
        } else if (*text == '\0' || !strchr("phetr%", *text)) {
            return "only %p, %h, %e, %t, %r, %q{VAR} and %% may follow a percent sign";
        }
    }
    return NULL;
}

struct gs_log_names *gs_log_names_take(void)
{
    return __atomic_exchange_n(&names_taken, true, __ATOMIC_ACQUIRE)
               ? gs_host_map(sizeof(struct gs_log_names))
               : &own_names;
}

void gs_log_names_give(struct gs_log_names *names)
{
    if (names == &own_names) {
        __atomic_store_n(&names_taken, false, __ATOMIC_RELEASE);
    } else {
        gs_host_unmap(names, sizeof(*names));
    }
}

enum gs_status gs_log_pattern_expand(const char *pattern, char *out, size_t capacity)
{
    struct gs_log_names *names;
    enum gs_status status;

    if (gs_log_pattern_problem(pattern)) {
        return GS_ERR_INVALID;
    }
    names = gs_log_names_take();
    if (!names) {
        return GS_ERR_HOST_NOMEM;
    }
    status = gs_log_pattern_resolve(pattern, names->first, sizeof(names->first));
    if (status == GS_OK) {
        status =
            gs_log_pattern_finish(names->first, names->second, sizeof(names->second));
    }
    if (status == GS_OK && strlen(names->second) >= capacity) {
        status = GS_ERR_INVALID;
    }
    if (status == GS_OK) {
        strcpy(out, names->second);
    }
    gs_log_names_give(names);
    return status;
}

/* Prepends the start folder to a relative pattern; leaves the pattern unchanged on
 * failure. */
static void make_absolute(char pattern[PATH_MAX])
{
    struct name_buffer name = {.data = pattern, .capacity = PATH_MAX};
    struct gs_log_names *names = pattern[0] == '/' ? NULL : gs_log_names_take();
    size_t length = strlen(pattern);

    if (!names) {
        return;
    }
    if (gs_start_folder(names->first) &&
        2 * strlen(names->first) + 1 + length < PATH_MAX) {
        memcpy(names->second, pattern, length + 1);
        name_put_directory(&name, names->first);
        if (names->first[1]) { /* not the root */
            name_put(&name, '/');
        }
        memcpy(pattern + name.length, names->second, length + 1);
    }
    gs_log_names_give(names);
}

void gs_log_pattern_keep(char out[PATH_MAX], const char *pattern)
{
    gs_log_pattern_start((int64_t)time(NULL));
    strcpy(out, pattern);
    make_absolute(out);
}
