/*
 * print.c - findings as text for people and as lines for programs, and the summary.
 *
 * A line for programs is "cudasim-finding:" and then name=value, separated by spaces:
 *
 *   kind=lost-order seed=7 address=0x7f0000200000 bytes=4096 first=cuLaunchKernel
 *   first_stream=3 first_op=41 first_access=write second=cuMemcpyDtoHAsync_v2
 *   second_stream=2 second_op=12 second_access=read allocation=12 before=9
 *
 * A host thread's access has first_thread= in place of _stream and _op; a layer's own has
 * first_own=1. Where a party is the allocation's beginning or end its access is "alloc"
 * or "free", and it has no stream. A call that blocks has call=, entry=, thread=,
 * awaited= and culprit= with their streams. What there is none of is left out.
 *
 * Owns:  names of kernels whose accesses are not known.   Lock: the oracle's, for those.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oracle_message.h"
#include "oracle_state.h"
#include "oracle_text.h"

#define MOST_KERNELS  64 /* told apart */
#define NAMED_KERNELS 8  /* named in the summary */
#define MOST_NAME     120

static const char *const names[ORACLE_FINDINGS] = {
    [ORACLE_LOST_ORDER] = "lost-order",
    [ORACLE_RACE] = "race",
    [ORACLE_MASKED] = "masked",
    [ORACLE_NO_ALLOCATION] = "no-allocation",
    [ORACLE_EARLY_RETIRE] = "early-retire",
    [ORACLE_HANDED_TWICE] = "handed-twice",
    [ORACLE_LAYER_BLOCKS] = "layer-blocks",
    [ORACLE_PROGRAM_BLOCKS] = "program-blocks",
};

static const char *const titles[ORACLE_FINDINGS] = {
    [ORACLE_LOST_ORDER] = "LOST ORDER: two accesses to the same memory that the program "
                          "had ordered were not",
    [ORACLE_RACE] = "RACE: the program has not ordered two uses of the same memory",
    [ORACLE_MASKED] = "MASKED: two uses of the same memory that the program has not "
                      "ordered were in order by chance",
    [ORACLE_NO_ALLOCATION] = "NO TENANT: an access to memory that is nobody's",
    [ORACLE_EARLY_RETIRE] = "EARLY RETIRE: memory is given to others because of an "
                            "operation that is not done",
    [ORACLE_HANDED_TWICE] = "HANDED TWICE: memory is given to a second owner while the "
                            "first one has it",
    [ORACLE_LAYER_BLOCKS] = "LAYER BLOCKS: a call waits for what it natively does not "
                            "wait for, and nothing can end that",
    [ORACLE_PROGRAM_BLOCKS] = "PROGRAM BLOCKS: a call waits, and nothing can end that",
};

const char *oracle_finding_name(enum oracle_finding kind)
{
    return names[kind];
}

/* ---- for people ------------------------------------------------------------------- */

/* Where the frames of a stack go. */
struct frames {
    struct oracle_text *text;
    unsigned count;
};

static void add_frame(const char *words, void *argument)
{
    struct frames *frames = argument;

    oracle_text_add(frames->text, "cudasim:     #%u %s\n", frames->count++, words);
}

static void add_callers(struct oracle_text *text, uint32_t stack)
{
    struct frames frames = {text, 0};

    oracle_callers_say(stack, add_frame, &frames);
}

static void add_party(struct oracle_text *text, const char *before,
                      const struct oracle_party *party)
{
    if (!party->call)
        return;
    oracle_text_add(text, "cudasim:   %s%s%s%s%s", before,
                    party->access ? party->access : "", party->access ? " by " : "",
                    party->call, party->own ? " (a layer's own)" : "");
    if (party->host)
        oracle_text_add(text, ", thread %" PRIu64 "\n", party->line);
    else
        oracle_text_add(text, ", operation %" PRIu64 " of stream %" PRIu64 "\n",
                        party->number, party->line);
    add_callers(text, party->callers);
}

static void add_owner(struct oracle_text *text, const char *before,
                      const struct oracle_owner *owner)
{
    if (owner->number == 0)
        return;
    oracle_text_add(text, "%sallocation %" PRIu64 " (%s)", before, owner->number,
                    owner->call);
    if (owner->end_call)
        oracle_text_add(text, ", freed by %s", owner->end_call);
}

static void add_accesses(struct oracle_text *text, const struct oracle_message *message)
{
    oracle_text_add(text, "cudasim:   0x%" PRIxPTR ", %zu bytes", message->start,
                    (size_t)(message->end - message->start));
    add_owner(text, ", ", &message->allocation);
    add_owner(text, ", was ", &message->before);
    oracle_text_add(text, "\n");
    add_party(text, "", &message->first);
    add_party(text, message->first.call ? "then " : "", &message->second);
    if (message->note)
        oracle_text_add(text, "cudasim:   %s\n", message->note);
    if (message->begins)
        oracle_text_add(text, "cudasim:   and the allocation, which it is not behind\n");
    if (message->ends)
        oracle_text_add(text, "cudasim:   and the free, which is not behind it\n");
    const struct oracle_owner *freed =
        message->before.end_call ? &message->before : &message->allocation;
    if (freed->end_call && freed->end_callers != 0) {
        oracle_text_add(text, "cudasim:   allocation %" PRIu64 " was freed by %s\n",
                        freed->number, freed->end_call);
        add_callers(text, freed->end_callers);
    }
}

static void add_blocked(struct oracle_text *text, const struct oracle_message *message)
{
    oracle_text_add(text, "cudasim:   %s by thread %" PRIu64, message->call,
                    message->thread);
    if (message->own)
        oracle_text_add(text, ", a layer's own, on behalf of %s",
                        message->entry ? message->entry : "something unknown");
    oracle_text_add(text, "\n");
    add_callers(text, message->callers);
    add_party(text, "waits for ", &message->first);
    add_party(text, "held up by ", &message->second);
}

/* ---- for programs ----------------------------------------------------------------- */

static void add_fields(struct oracle_text *text, const char *name,
                       const struct oracle_party *party)
{
    if (!party->call)
        return;
    oracle_text_add(text, " %s=%s", name, party->call);
    if (party->host)
        oracle_text_add(text, " %s_thread=%" PRIu64, name, party->line);
    else
        oracle_text_add(text, " %s_stream=%" PRIu64 " %s_op=%" PRIu64, name, party->line,
                        name, party->number);
    if (party->access)
        oracle_text_add(text, " %s_access=%s", name, party->access);
    if (party->own)
        oracle_text_add(text, " %s_own=1", name);
}

static void add_line(struct oracle_text *text, const struct oracle_message *message)
{
    oracle_text_add(text, "cudasim-finding: kind=%s seed=%" PRIu64, names[message->kind],
                    oracle_options.seed);
    if (message->call) {
        oracle_text_add(text, " call=%s", message->call);
        if (message->entry)
            oracle_text_add(text, " entry=%s", message->entry);
        oracle_text_add(text, " thread=%" PRIu64, message->thread);
        add_fields(text, "awaited", &message->first);
        add_fields(text, "culprit", &message->second);
    } else {
        oracle_text_add(text, " address=0x%" PRIxPTR " bytes=%zu", message->start,
                        (size_t)(message->end - message->start));
        if (message->begins)
            oracle_text_add(text, " first=%s first_access=alloc",
                            message->allocation.call);
        add_fields(text, "first", &message->first);
        add_fields(text, "second", &message->second);
        if (message->ends)
            oracle_text_add(text, " second=%s second_access=free",
                            message->allocation.end_call ? message->allocation.end_call
                                                         : "?");
        if (message->allocation.number > 0)
            oracle_text_add(text, " allocation=%" PRIu64, message->allocation.number);
        if (message->before.number > 0)
            oracle_text_add(text, " before=%" PRIu64, message->before.number);
    }
    oracle_text_add(text, "\n");
}

static void append_to_file(const struct oracle_text *text)
{
    int fd = open(oracle_options.file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);

    if (fd < 0)
        return;
    oracle_write_all(fd, text->bytes, text->used);
    close(fd);
}

void oracle_messages_print(struct oracle_message *first)
{
    while (first) {
        struct oracle_message *message = first;
        struct oracle_text line = {.used = 0}, text = {.used = 0};

        first = message->next;
        add_line(&line, message);
        if (oracle_options.file)
            append_to_file(&line);
        if (message->to_stderr) {
            oracle_text_add(&text, "cudasim: %s (seed %" PRIu64 ")\n",
                            titles[message->kind], oracle_options.seed);
            if (message->call)
                add_blocked(&text, message);
            else
                add_accesses(&text, message);
            oracle_text_add(&text, "%s", line.bytes);
            oracle_write_all(STDERR_FILENO, text.bytes, text.used);
        }
        free(message);
    }
}

/* ---- what is not checked ---------------------------------------------------------- */

static struct {
    char *name;
    uint64_t count;
} kernels[MOST_KERNELS];         /* the oracle's lock */
static size_t kernel_count;      /* the oracle's lock */
static uint64_t unchecked_count; /* the oracle's lock */
static bool more_kernels;        /* the oracle's lock: than are told apart */

void oracle_unchecked(const char *kernel)
{
    size_t at = 0;

    oracle_lock();
    unchecked_count++;
    while (at < kernel_count && strcmp(kernels[at].name, kernel) != 0)
        at++;
    if (at == kernel_count && at < MOST_KERNELS) {
        size_t bytes = strnlen(kernel, MOST_NAME) + 1;
        char *copy = oracle_allocate(NULL, bytes);
        if (copy) {
            memcpy(copy, kernel, bytes - 1);
            copy[bytes - 1] = '\0';
            kernels[kernel_count++].name = copy;
        }
    }
    if (at < kernel_count)
        kernels[at].count++;
    else
        more_kernels = true;
    oracle_unlock();
}

static void add_kernels(struct oracle_text *text)
{
    oracle_text_add(text, ", %" PRIu64 " unchecked launch%s (", unchecked_count,
                    unchecked_count == 1 ? "" : "es");
    for (size_t i = 0; i < kernel_count && i < NAMED_KERNELS; i++)
        oracle_text_add(text, "%s%s", i > 0 ? ", " : "", kernels[i].name);
    if (more_kernels || kernel_count > NAMED_KERNELS)
        oracle_text_add(text, ", ...");
    oracle_text_add(text, ")");
}

void oracle_summary(bool always)
{
    struct oracle_text text = {.used = 0};
    unsigned counts[ORACLE_FINDINGS], all = 0;
    const char *separator = " (";

    oracle_counts(counts);
    for (size_t kind = 0; kind < ORACLE_FINDINGS; kind++)
        all += counts[kind];
    oracle_lock();
    oracle_text_add(&text, "cudasim: oracle: %u finding%s", all, all == 1 ? "" : "s");
    for (size_t kind = 0; kind < ORACLE_FINDINGS; kind++) {
        if (counts[kind] == 0)
            continue;
        oracle_text_add(&text, "%s%u %s", separator, counts[kind], names[kind]);
        separator = ", ";
    }
    oracle_text_add(&text, "%s in %" PRIu64 " operations", all > 0 ? ")" : "",
                    oracle_operations);
    uint64_t forgotten = oracle_forgotten;
    bool anything = all > 0 || unchecked_count > 0 || oracle_lost > 0 || forgotten > 0;
    if (unchecked_count > 0)
        add_kernels(&text);
    if (oracle_lost > 0)
        oracle_text_add(&text, ", some of them not judged for want of memory");
    oracle_unlock();
    oracle_text_add(&text, "\n");
    if (forgotten > 0)
        oracle_text_add(&text, "cudasim: oracle: %" PRIu64 " reader%s forgotten\n",
                        forgotten, forgotten == 1 ? "" : "s");
    if (anything || always)
        oracle_write_all(STDERR_FILENO, text.bytes, text.used);
}
