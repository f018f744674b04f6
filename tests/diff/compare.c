/*
 * compare.c - are two answers to a list equivalent? The relation is relation.def.
 */
#include <stdlib.h>
#include <string.h>

#include "diff.h"

enum after { GO_ON, END };

/* Of CUpointer_attribute: nothing of CUDA is used here. */
enum { SYNC_MEMOPS = 6, MAPPING_SIZE = 18 };

/* Two answers to an operation. */
struct pair {
    const struct diff_list *list;
    const struct diff_op *op;
    const char *native, *other;
};

/* ---- fields -------------------------------------------------------------------------
 */

/* The value of a field; "" where there is none. */
static void field(const char *line, const char *name, char *out, size_t size)
{
    const size_t length = strlen(name);

    out[0] = '\0';
    for (const char *at = line; (at = strchr(at, ' ')) != NULL;) {
        at++;
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            size_t value = strcspn(at + length + 1, " ");

            snprintf(out, size, "%.*s", (int)value, at + length + 1);
            return;
        }
    }
}

static bool is(const char *line, const char *name, const char *value)
{
    char text[64];

    field(line, name, text, sizeof(text));
    return strcmp(text, value) == 0;
}

static bool number(const char *line, const char *name, long long *out)
{
    char text[64], *end;

    field(line, name, text, sizeof(text));
    *out = strtoll(text, &end, 10);
    return end != text;
}

/* Is the memory of one of these kinds? */
static bool of_kind(const struct pair *pair, const char *kinds)
{
    char kind[8];

    field(pair->native, "kind", kind, sizeof(kind));
    return kind[0] && strchr(kinds, kind[0]);
}

static bool codes(const struct pair *pair, long long native, long long other)
{
    long long a, b;

    return number(pair->native, "code", &a) && number(pair->other, "code", &b) &&
           a == native && b == other;
}

/* ---- rules --------------------------------------------------------------------------
 */

/* A block of pinned memory has whole pages, from a page on. */
static bool whole_pages(const struct pair *pair)
{
    const long long page = 4096;
    long long native, other;

    return of_kind(pair, "h") && number(pair->native, "size", &native) &&
           number(pair->other, "size", &other) && native > page &&
           other == (native + page - 1) / page * page;
}

/* What the driver has mapped is the segment, which is as large as the block. */
static bool whole_mapping(const struct pair *pair)
{
    long long native, other;

    return pair->op->args[1] + 1 == MAPPING_SIZE && of_kind(pair, "dhgai") &&
           number(pair->native, "size", &native) && number(pair->other, "size", &other) &&
           other >= native;
}

/* To another process, what is opened is the segment: of memory from 2 MiB on. */
static bool whole_import(const struct pair *pair)
{
    const long long step = 2 << 20;
    long long native, other;

    return of_kind(pair, "i") && number(pair->native, "size", &native) &&
           number(pair->other, "size", &other) && native > step &&
           other == (native + step - 1) / step * step;
}

static bool either_alias(const struct pair *pair)
{
    return is(pair->native, "skip", "alias") || is(pair->other, "skip", "alias");
}

/* Where it is no other's address the wrong free is made, and breaks a capture. */
static bool alias_broke_capture(const struct pair *pair)
{
    const char *made = is(pair->native, "skip", "alias") ? pair->other : pair->native;

    return either_alias(pair) && (is(made, "code", "900") || is(made, "code", "906"));
}

/* A free here asks nothing of the current context, unless it owns the memory. */
static bool free_without_context(const struct pair *pair)
{
    return of_kind(pair, "dhga") &&
           (codes(pair, 201, 0) || codes(pair, 709, 0) || codes(pair, 201, 700) ||
            codes(pair, 709, 700) ||
            (codes(pair, 700, 0) && is(pair->native, "own", "0")));
}

/* Nothing is asked after, so nothing is heard of. */
static bool unheard(const struct pair *pair)
{
    return codes(pair, 700, 0);
}

/* What was freed since the context was last waited for is not told as free. */
static bool freed_unseen(const struct pair *pair)
{
    long long native, other;

    return number(pair->native, "free", &native) && number(pair->other, "free", &other) &&
           other <= native;
}

/* Natively it is refused since a stream captures, and breaks the capture. */
static bool free_in_capture(const struct pair *pair)
{
    return (of_kind(pair, "dhga") && (codes(pair, 900, 0) || codes(pair, 906, 0))) ||
           codes(pair, 906, 1) || codes(pair, 900, 1);
}

/* The same of a wrong free, which is refused at once for its address. */
static bool wrong_free_in_capture(const struct pair *pair)
{
    return codes(pair, 906, 1) || codes(pair, 900, 1);
}

/* Which of two reasons to refuse a free comes first. */
static bool both_refuse(const struct pair *pair)
{
    return codes(pair, 201, 1) || codes(pair, 709, 1) || codes(pair, 700, 1) ||
           codes(pair, 901, 1);
}

/* The runtime repeats the failure of a context that a free has told of. */
static bool failure_repeated(const struct pair *pair)
{
    return is(pair->native, "last", "700");
}

/* A free that tells of a failed context has freed the memory, or has not. */
static bool freed_with_failure(const struct pair *pair)
{
    return is(pair->native, "told", "1") && is(pair->other, "told", "1");
}

/* When a free in a stream's order runs is a matter of time. */
static bool freed_in_order(const struct pair *pair)
{
    return is(pair->native, "freed", "ordered") &&
           (codes(pair, 1, 0) || codes(pair, 500, 0) || codes(pair, 0, 1) ||
            codes(pair, 0, 500));
}

/* A handle of what was freed: its segment is there still. */
static bool stale_handle(const struct pair *pair)
{
    return is(pair->native, "stale", "1");
}

/* What was opened before was freed: whether the new memory has its address. */
static bool beside_stale(const struct pair *pair)
{
    return is(pair->native, "beside", "stale") &&
           (codes(pair, 0, 208) || codes(pair, 208, 0));
}

/* A stream's memory is mapped, given back and handed on in its order: that is work. */
static bool memory_moved(const struct pair *pair)
{
    if (!codes(pair, 0, 600))
        return false;
    for (const struct diff_op *op = pair->list->ops; op < pair->op; op++)
        if (op->kind == DIFF_async_alloc || op->kind == DIFF_rt_async_alloc)
            return true;
    return false;
}

/* SYNC_MEMOPS is set for all of a segment. */
static bool marked_beside(const struct pair *pair)
{
    return pair->op->args[1] + 1 == SYNC_MEMOPS && of_kind(pair, "dha");
}

/* A thread's context has ended, and a new one has its handle. */
static bool handle_again(const struct pair *pair)
{
    if (!codes(pair, 709, 0))
        return false;
    for (const struct diff_op *op = pair->list->ops; op < pair->op; op++)
        if (op->kind == DIFF_context_end)
            return true;
    return false;
}

/* The last of a device: what fits depends on the order things came in. */
static bool nearly_full(const struct pair *pair)
{
    const char *full = codes(pair, 0, 2) ? pair->other : pair->native;
    long long live, wanted, size = (long long)pair->list->memory_mib << 20;

    return (codes(pair, 0, 2) || codes(pair, 2, 0)) && number(full, "live", &live) &&
           number(full, "wanted", &wanted) &&
           live + wanted + live / 16 + (8 << 20) >= size;
}

/* What is freed while a stream captures is held back until none does. */
static bool held_by_a_capture(const struct pair *pair)
{
    long long captures;

    return codes(pair, 0, 2) && number(pair->other, "captures", &captures);
}

/* A pool's segments count as a whole where a part of them is in use. */
static bool about_as_much_used(const struct pair *pair)
{
    long long native, other;

    return number(pair->native, "used", &native) && number(pair->other, "used", &other) &&
           other >= native && other - native <= (20 << 20) + native / 8;
}

/* At most a segment apart, and an eighth of what is in use; and what a context that has
 * failed did not give back. */
static bool about_as_much(const struct pair *pair)
{
    const long long total = (long long)pair->list->memory_mib << 20;
    long long native, other, apart, failed = 0;

    if (!number(pair->native, "free", &native) || !number(pair->other, "free", &other))
        return false;
    (void)number(pair->native, "failed", &failed);
    apart = native < other ? other - native : native - other;
    return apart <= (20 << 20) + (total - native) / 8 + failed;
}

/* ---- the relation -------------------------------------------------------------------
 */

typedef bool rule(const struct pair *pair);

static const struct excuse {
    const char *name, *op, *field;
    rule *rule;
    const char *modes;
    enum after after;
} excuses[] = {
#define DIFF_EXCUSE(id, operation, field, rule, modes, after)                            \
    {#id, operation, field, rule, modes, after},
#include "relation.def"
#undef DIFF_EXCUSE
};
#define EXCUSES (sizeof(excuses) / sizeof(*excuses))

unsigned diff_exceptions(void)
{
    return EXCUSES;
}

const char *diff_exception_name(unsigned row)
{
    return excuses[row].name;
}

static bool matches(const char *pattern, const char *name)
{
    size_t length = strlen(pattern);

    if (*pattern == '*' && length > 1) /* *middle* */
        return memmem(name, strlen(name), pattern + 1, length - 2) != NULL;
    return length && pattern[length - 1] == '*' ? strncmp(pattern, name, length - 1) == 0
                                                : strcmp(pattern, name) == 0;
}

static bool holds(const struct excuse *excuse, const struct pair *pair, const char *mode)
{
    return matches(excuse->op, diff_rows[pair->op->kind].name) &&
           (strstr(excuse->modes, mode) ||
            (strcmp(excuse->modes, "all") == 0 && strcmp(mode, "twice") != 0)) &&
           excuse->rule(pair);
}

/* The row that excuses a field; EXCUSES: none. */
static unsigned find_excuse(const struct pair *pair, const char *name, const char *mode)
{
    for (unsigned i = 0; i < EXCUSES; i++)
        if (strcmp(excuses[i].field, name) == 0 && holds(&excuses[i], pair, mode))
            return i;
    return EXCUSES;
}

static bool field_differs(const struct pair *pair, const char *name)
{
    char native[64], other[64];

    field(pair->native, name, native, sizeof(native));
    field(pair->other, name, other, sizeof(other));
    return strcmp(native, other) != 0;
}

/* Every field of the line that differs has an excuse. `ends`: one of them ends it all. */
static bool fields_excused(const struct pair *pair, const char *line, const char *mode,
                           struct diff_verdict *out, bool *ends)
{
    for (const char *at = line; (at = strchr(at, ' ')) != NULL;) {
        char name[32];
        unsigned row;

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 1, "= "), at + 1);
        at++;
        if (!field_differs(pair, name))
            continue;
        row = find_excuse(pair, name, mode);
        if (row == EXCUSES) {
            snprintf(out->why, sizeof(out->why), "%s", name);
            return false;
        }
        out->exceptions[row]++;
        *ends = *ends || excuses[row].after == END;
    }
    return true;
}

static bool excused(const struct pair *pair, const char *mode, struct diff_verdict *out,
                    bool *ends)
{
    unsigned row = find_excuse(pair, "line", mode);

    if (row < EXCUSES) {
        out->exceptions[row]++;
        *ends = excuses[row].after == END;
        return true;
    }
    return fields_excused(pair, pair->native, mode, out, ends) &&
           fields_excused(pair, pair->other, mode, out, ends);
}

/*
 * Has a context failed though nothing was to break it? When the host learns of it is not
 * ordered with its calls, so such a list would not have the same answers twice: what
 * broke it is to be left out, or waited for (do_work.c).
 */
static bool broke(const struct pair *pair)
{
    if (!is(pair->native, "code", "700")) /* CUDA_ERROR_ILLEGAL_ADDRESS */
        return false;
    for (const struct diff_op *op = pair->list->ops; op < pair->op; op++)
        if (op->kind == DIFF_wild)
            return false;
    return true;
}

void diff_compare(const struct diff_list *list, const struct diff_answers *native,
                  const struct diff_answers *other, const char *mode,
                  struct diff_verdict *out)
{
    /* Threads that run freely have nothing in common: each goes on by itself. */
    bool ended[DIFF_THREADS] = {false};

    memset(out, 0, sizeof(*out));
    for (unsigned i = 0; i < list->count; i++) {
        const struct pair pair = {list, &list->ops[i], native->lines[i], other->lines[i]};
        bool ends = false;

        if (ended[list->free ? pair.op->thread : 0]) {
            out->left++;
            continue;
        }
        out->compared++;
        if (broke(&pair)) {
            snprintf(out->why, sizeof(out->why), "broke");
            out->op = i;
            return;
        }
        if (strcmp(pair.native, pair.other) == 0)
            continue;
        if (!excused(&pair, mode, out, &ends)) {
            out->op = i;
            return;
        }
        out->excused++;
        ended[list->free ? pair.op->thread : 0] = ends;
    }
    out->op = list->count;
    if (strcmp(native->end, other->end) != 0) {
        snprintf(out->why, sizeof(out->why), "end");
        return;
    }
    out->same = true;
}
