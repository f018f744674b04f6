/*
 * findings.c - counts what is found, and keeps what has not been printed yet.
 *
 * Findings of one kind whose call sites are the same are printed once: a loop would
 * otherwise say the same a thousand times. The site is the call stack where stacks are
 * kept, else the name of the function.
 *
 * Owns:  the counts; the sites printed before; messages on their way out.
 * Lock:  the oracle's.
 */
#include <stdlib.h>
#include <string.h>

#include "oracle_message.h"
#include "oracle_state.h"

#define MOST_SITES 4096 /* told apart; what comes later is counted alone */
#define SITES      8192 /* a power of two, more than that */
#define MOST_TOLD  64   /* pairs of one second that are told apart */

void (*oracle_on_finding)(const struct oracle_report *report); /* set by tests, once */

static unsigned counts[ORACLE_FINDINGS];                  /* the oracle's lock */
static uint64_t sites[SITES];                             /* the oracle's lock; hashes */
static size_t site_count;                                 /* the oracle's lock */
static unsigned printed;                                  /* the oracle's lock */
static struct oracle_message *waiting, **last = &waiting; /* the oracle's lock */

static struct {
    uint64_t second;
    uint64_t firsts[MOST_TOLD];
    size_t count;
} told; /* the oracle's lock */

bool oracle_told_before(uint64_t first, uint64_t second)
{
    if (told.second != second) {
        told.second = second;
        told.count = 0;
    }
    for (size_t i = 0; i < told.count; i++) {
        if (told.firsts[i] == first)
            return true;
    }
    if (told.count < MOST_TOLD)
        told.firsts[told.count++] = first;
    return false;
}

/* ---- new or not ------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ (hash >> 32);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; text && *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
    return mix(hash, 1);
}

static uint64_t mix_op(uint64_t hash, const struct oracle_op *op)
{
    if (!op)
        return mix(hash, 2);
    return op->stack ? mix(hash, op->stack) : mix_text(hash, op->call);
}

/* Was that never seen before? Remembers it. */
static bool is_new(uint64_t site)
{
    size_t at = (site >> 20) & (SITES - 1);

    site |= 1; /* 0 is an empty place */
    for (; sites[at]; at = (at + 1) & (SITES - 1)) {
        if (sites[at] == site)
            return false;
    }
    if (site_count == MOST_SITES)
        return false;
    sites[at] = site;
    site_count++;
    return true;
}

/* A message of that kind if it is to be told, all else 0; NULL if it is not. */
static struct oracle_message *message_new(enum oracle_finding kind, uint64_t site)
{
    bool to_stderr = printed < oracle_options.most_findings;

    counts[kind]++;
    if (!is_new(mix(site, kind)) || (!to_stderr && !oracle_options.file))
        return NULL;
    struct oracle_message *message = oracle_allocate(NULL, sizeof(*message));
    if (!message)
        return NULL;
    memset(message, 0, sizeof(*message));
    message->kind = kind;
    message->to_stderr = to_stderr;
    printed += to_stderr;
    *last = message;
    last = &message->next;
    return message;
}

struct oracle_message *oracle_messages_take(void)
{
    struct oracle_message *first = waiting;

    waiting = NULL;
    last = &waiting;
    return first;
}

/* ---- copies ----------------------------------------------------------------------- */

static struct oracle_party party_of(const struct oracle_op *op, const char *access)
{
    struct oracle_party party = {.access = access};

    if (!op)
        return party;
    party.call = op->call ? op->call : "something unknown";
    party.line = op->line;
    party.number = op->number;
    party.host = op->host;
    party.own = op->own;
    party.callers = op->stack;
    return party;
}

static struct oracle_party party_of_mark(const struct oracle_mark *mark, bool accesses)
{
    const char *access = NULL;

    if (!mark)
        return (struct oracle_party){.call = NULL};
    if (accesses && mark->manner == ORACLE_ATOMIC_WRITE)
        access = "atomic-write";
    else if (accesses && !mark->writes && mark->manner != ORACLE_READ)
        access = "atomic-read";
    else if (accesses)
        access = mark->writes ? "write" : "read";
    return party_of(mark->op, access);
}

static struct oracle_owner owner_of(const struct oracle_allocation *allocation)
{
    struct oracle_owner owner = {.number = 0};

    if (!allocation)
        return owner;
    owner.number = allocation->number;
    owner.call = allocation->call ? allocation->call : "something unknown";
    if (!allocation->ended)
        return owner;
    owner.end_call = allocation->end_call ? allocation->end_call : "something unknown";
    owner.end_callers = allocation->end_stack;
    return owner;
}

void oracle_found(const struct oracle_report *report)
{
    uint64_t site = mix_op(0, report->first ? report->first->op : NULL);

    if (oracle_on_finding)
        oracle_on_finding(report);
    site = mix_op(site, report->second ? report->second->op : NULL);
    if (report->ends || !report->second)
        site = mix_text(site, report->allocation ? report->allocation->end_call : NULL);
    struct oracle_message *message = message_new(report->kind, site);
    if (!message)
        return;
    message->start = report->start;
    message->end = report->end;
    message->first = party_of_mark(report->first, report->kind != ORACLE_EARLY_RETIRE);
    message->second = party_of_mark(report->second, true);
    message->allocation = owner_of(report->allocation);
    message->before = owner_of(report->before);
    message->begins = report->begins;
    message->ends = report->ends;
    message->note = report->note;
}

/* ---- liveness --------------------------------------------------------------------- */

void oracle_blocked(const char *call, const char *entry, struct oracle_line *host,
                    const struct oracle_op *op, const struct oracle_op *culprit, bool own,
                    bool native_waits)
{
    uint32_t stack = oracle_callers_take();
    bool layer = own && !native_waits;

    oracle_lock();
    uint64_t site = mix_text(mix_text(0, call), entry);
    struct oracle_message *message =
        message_new(layer ? ORACLE_LAYER_BLOCKS : ORACLE_PROGRAM_BLOCKS,
                    mix_op(mix_op(site, op), culprit));
    if (message) {
        message->call = call ? call : "something unknown";
        message->entry = entry;
        message->own = own;
        message->first = party_of(op, NULL);
        message->second = party_of(culprit, NULL);
        message->thread = host ? host->id : 0;
        message->callers = stack;
    }
    oracle_unlock();
}

/* ---- counts ----------------------------------------------------------------------- */

void oracle_counts(unsigned out[ORACLE_FINDINGS])
{
    oracle_lock();
    memcpy(out, counts, sizeof(counts));
    oracle_unlock();
}

unsigned oracle_findings(void)
{
    unsigned all = 0;

    oracle_lock();
    for (size_t kind = 0; kind < ORACLE_FINDINGS; kind++)
        all += counts[kind];
    oracle_unlock();
    return all;
}
