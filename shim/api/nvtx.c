/*
 * nvtx.c - NVTX ranges as scopes: a program's phases in every report, without a change.
 *
 * NVTX loads the library that NVTX_INJECTION64_PATH names at a program's first mark, and
 * calls InitializeInjectionNvtx2, which puts functions into NVTX's table. Each library of
 * a program may have an NVTX of its own, with a table of its own.
 *
 * Ranges nest by thread and by domain, scopes by thread alone: if a range ends that is
 * not the innermost one, those within it end as well and begin again.
 *
 * Owns:   the ranges of a thread, while it is in one; domains and registered texts, for
 *         good.
 * Lock:   none, the thread's own.
 * Source: nvtx3/nvtxDetail/nvtxTypes.h, nvToolsExt.h
 * Design: docs/api.md, "NVTX"
 */
#include "shim/api/nvtx.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "gs_printable.h"
#include "shim/api/api.h"
#include "tracker/stacks/scopes.h"

/* What NVTX_NO_PUSH_POP_TRACKING says: the tool does not count. */
#define NOT_COUNTED (-2)

/* A range that is open. Deeper ones than scopes can nest are only counted. */
struct range {
    const void *domain;
    char name[GS_SCOPE_NAME_MAX + 1];
};

struct ranges {
    unsigned depth;
    struct range open[GS_SCOPES_MAX];
};

static __thread struct ranges *ranges_of_thread
    __attribute__((tls_model("initial-exec"))); /* NULL: in no range */

/* ---- names ---------------------------------------------------------------------- */

/* Makes a scope's name: what fits of whole characters, not empty. */
static void name_of_text(const char *text, char out[GS_SCOPE_NAME_MAX + 1])
{
    size_t length = 0;
    while (text && *text) {
        size_t bytes = gs_utf8_length(text);
        bytes = bytes ? bytes : 1;
        if (length + bytes > GS_SCOPE_NAME_MAX) {
            break;
        }
        memcpy(out + length, text, bytes);
        length += bytes;
        text += bytes;
    }
    out[length] = '\0';
    if (length == 0) {
        memcpy(out, "range", sizeof("range"));
    }
}

/* Writes wide characters as UTF-8: what fits in `size`. */
static void to_utf8(const wchar_t *wide, char *out, size_t size)
{
    size_t length = 0;
    for (; wide && *wide && length + 5 <= size; wide++) {
        uint32_t c = (uint32_t)*wide;
        if (c < 0x80) {
            out[length++] = (char)c;
        } else if (c < 0x800) {
            out[length++] = (char)(0xc0 | c >> 6);
            out[length++] = (char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
            out[length++] = (char)(0xe0 | c >> 12);
            out[length++] = (char)(0x80 | (c >> 6 & 0x3f));
            out[length++] = (char)(0x80 | (c & 0x3f));
        } else if (c < 0x110000) {
            out[length++] = (char)(0xf0 | c >> 18);
            out[length++] = (char)(0x80 | (c >> 12 & 0x3f));
            out[length++] = (char)(0x80 | (c >> 6 & 0x3f));
            out[length++] = (char)(0x80 | (c & 0x3f));
        }
    }
    out[length] = '\0';
}

/* The name in a range's attributes. A size that does not reach the message: none. */
static void name_of_event(const struct gs_nvtx_event *event,
                          char out[GS_SCOPE_NAME_MAX + 1])
{
    char text[4 * GS_SCOPE_NAME_MAX];
    const char *name = NULL;
    if (event && event->size >= sizeof(*event)) {
        switch (event->message_type) {
        case GS_NVTX_ASCII:
        case GS_NVTX_REGISTERED: /* register_text */
            name = event->message;
            break;
        case GS_NVTX_UNICODE:
            to_utf8(event->message, text, sizeof(text));
            name = text;
            break;
        default:
            break;
        }
    }
    name_of_text(name, out);
}

/* ---- ranges --------------------------------------------------------------------- */

static unsigned open_in(const struct ranges *ranges, const void *domain)
{
    unsigned count = 0;
    for (unsigned i = 0; i < ranges->depth && i < GS_SCOPES_MAX; i++) {
        count += ranges->open[i].domain == domain;
    }
    return count;
}

/* Within a wrapper, or a signal handler that has interrupted one, ranges are not counted:
 * neither their begin nor their end. */
static bool is_inside(void)
{
    return gs_thread.depth > 0 || gs_thread.in_api;
}

/* Returns the level of the new range in its domain, from 0. */
static int push(const void *domain, const char name[GS_SCOPE_NAME_MAX + 1])
{
    struct ranges *ranges = ranges_of_thread;
    bool first = !ranges;
    if (is_inside()) {
        return NOT_COUNTED;
    }
    if (first && !(ranges = calloc(1, sizeof(*ranges)))) {
        return NOT_COUNTED;
    }
    gpushim_result result = gs_api_scope_begin(name);
    bool begun = result == GPUSHIM_OK || result == GPUSHIM_INVALID; /* too deep: owed */
    if (!begun) {
        if (first) {
            free(ranges);
        }
        return NOT_COUNTED;
    }
    ranges_of_thread = ranges;
    int level = (int)open_in(ranges, domain);
    if (ranges->depth < GS_SCOPES_MAX) {
        struct range *range = &ranges->open[ranges->depth];
        range->domain = domain;
        memcpy(range->name, name, strlen(name) + 1);
    }
    ranges->depth++;
    return level;
}

/* The innermost entry is over. */
static void leave(struct ranges *ranges)
{
    if (--ranges->depth == 0) {
        ranges_of_thread = NULL;
        free(ranges);
    }
}

/* Returns the level of the range that ended; an end without a range is none. */
static int pop(const void *domain)
{
    struct ranges *ranges = ranges_of_thread;
    if (!ranges || is_inside()) {
        return NOT_COUNTED;
    }
    if (ranges->depth > GS_SCOPES_MAX) {
        (void)gs_api_scope_end();
        leave(ranges);
        return NOT_COUNTED;
    }
    unsigned at = ranges->depth;
    while (at > 0 && ranges->open[at - 1].domain != domain) {
        at--;
    }
    if (at == 0) {
        return NOT_COUNTED;
    }
    int level = (int)open_in(ranges, domain) - 1;
    unsigned within = ranges->depth - at;
    for (unsigned i = 0; i < within; i++) {
        (void)gs_api_scope_end();
    }
    (void)gs_api_scope_end();
    memmove(&ranges->open[at - 1], &ranges->open[at], within * sizeof(ranges->open[0]));
    for (unsigned i = 0; i < within; i++) {
        (void)gs_api_scope_begin(ranges->open[at - 1 + i].name);
    }
    leave(ranges);
    return level;
}

/* ---- the functions in NVTX's tables ----------------------------------------------- */

static int range_push(const char *text)
{
    char name[GS_SCOPE_NAME_MAX + 1];
    name_of_text(text, name);
    return push(NULL, name);
}

static int range_push_wide(const wchar_t *wide)
{
    char text[4 * GS_SCOPE_NAME_MAX], name[GS_SCOPE_NAME_MAX + 1];
    to_utf8(wide, text, sizeof(text));
    name_of_text(text, name);
    return push(NULL, name);
}

static int domain_range_push(const void *domain, const struct gs_nvtx_event *event)
{
    char name[GS_SCOPE_NAME_MAX + 1];
    name_of_event(event, name);
    return push(domain, name);
}

static int range_push_event(const struct gs_nvtx_event *event)
{
    return domain_range_push(NULL, event);
}

static int domain_range_pop(const void *domain)
{
    return pop(domain);
}

static int range_pop(void)
{
    return pop(NULL);
}

/* Returns a handle of the domain, which only has to differ from all other handles. */
static const void *create_domain(const void *name)
{
    (void)name;
    return calloc(1, 1);
}

/* The handle of a registered text is the text. */
static const void *register_text(const void *domain, const char *text)
{
    (void)domain;
    char *copy = strdup(text ? text : "");
    return copy;
}

static const void *register_wide(const void *domain, const wchar_t *wide)
{
    char text[4 * GS_SCOPE_NAME_MAX];
    to_utf8(wide, text, sizeof(text));
    return register_text(domain, text);
}

typedef void (*call)(void);

/* A module's table of addresses of function pointers. */
struct table {
    call **slots;
    unsigned count;
};

static struct table table_of(const struct gs_nvtx_callbacks *callbacks, int module)
{
    struct table table = {.count = 0};
    bool there = callbacks->get_module(module, &table.slots, &table.count) != 0;
    return there && table.slots ? table : (struct table){.count = 0};
}

static void put(const struct table *table, unsigned number, call function)
{
    if (number < table->count && table->slots[number]) {
        *table->slots[number] = function;
    }
}

GS_EXPORT int InitializeInjectionNvtx2(gs_nvtx_get_table *get_table);

/* By calls, not by a table of ours: that would cost each start of a program relocations.
 */
int InitializeInjectionNvtx2(gs_nvtx_get_table *get_table)
{
    const struct gs_nvtx_callbacks *callbacks =
        get_table ? get_table(GS_NVTX_CALLBACKS) : NULL;
    if (!callbacks || callbacks->size < sizeof(*callbacks) || !gpushim_functions()) {
        return 0;
    }
    const struct table core = table_of(callbacks, GS_NVTX_CORE);
    put(&core, GS_NVTX_RANGE_PUSH_EX, (call)range_push_event);
    put(&core, GS_NVTX_RANGE_PUSH_A, (call)range_push);
    put(&core, GS_NVTX_RANGE_PUSH_W, (call)range_push_wide);
    put(&core, GS_NVTX_RANGE_POP, (call)range_pop);
    const struct table domains = table_of(callbacks, GS_NVTX_CORE2);
    put(&domains, GS_NVTX_DOMAIN_RANGE_PUSH_EX, (call)domain_range_push);
    put(&domains, GS_NVTX_DOMAIN_RANGE_POP, (call)domain_range_pop);
    put(&domains, GS_NVTX_DOMAIN_REGISTER_STRING_A, (call)register_text);
    put(&domains, GS_NVTX_DOMAIN_REGISTER_STRING_W, (call)register_wide);
    put(&domains, GS_NVTX_DOMAIN_CREATE_A, (call)create_domain);
    put(&domains, GS_NVTX_DOMAIN_CREATE_W, (call)create_domain);
    return 1;
}
