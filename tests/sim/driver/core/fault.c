/*
 * fault.c - injected failures.
 *
 *   CUDASIM_FAIL = rule[,rule...]      rule = symbol:when[=code]
 *   when:   N      the Nth call of that exported symbol fails, counted from 1
 *           N+     the Nth call and every later one
 *           *%P    P percent of the calls, chosen by CUDASIM_SEED and the call's number
 *           *      every call
 *   code:   the CUresult as a number; CUDA_ERROR_OUT_OF_MEMORY where it is left out
 *
 * Owns:  rules and the calls counted per symbol.   Lock: none, the counters are atomic.
 */
#include "fault.h"

#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "log.h"

enum when { WHEN_NTH, WHEN_FROM_NTH, WHEN_PERCENT };

struct rule {
    enum sim_api api;
    enum when when;
    unsigned long number; /* call number from 1, or percent */
    CUresult code;
};

#define MAX_RULES 64

bool sim_fault_armed;                     /* immutable after sim_fault_load() */
static struct rule rules[MAX_RULES];      /* immutable after sim_fault_load() */
static unsigned rule_count;               /* immutable after sim_fault_load() */
static atomic_ulong calls[SIM_API_COUNT]; /* atomic */

static bool find_symbol(const char *name, size_t length, enum sim_api *out)
{
    for (unsigned i = 0; i < SIM_API_COUNT; i++) {
        const char *known = sim_api_name((enum sim_api)i);
        if (strlen(known) == length && memcmp(known, name, length) == 0) {
            *out = (enum sim_api)i;
            return true;
        }
    }
    return false;
}

/* A number of at least `min`; moves *text behind it. */
static bool take_number(const char **text, unsigned long min, unsigned long *out)
{
    char *end;

    if (**text < '0' || **text > '9')
        return false;
    *out = strtoul(*text, &end, 10);
    *text = end;
    return *out >= min;
}

static bool parse_when(const char **text, struct rule *rule)
{
    if (**text == '*') {
        (*text)++;
        rule->when = WHEN_PERCENT;
        rule->number = 100;
        if (**text != '%')
            return true;
        (*text)++;
        return take_number(text, 0, &rule->number) && rule->number <= 100;
    }
    rule->when = WHEN_NTH;
    if (!take_number(text, 1, &rule->number))
        return false;
    if (**text == '+') {
        (*text)++;
        rule->when = WHEN_FROM_NTH;
    }
    return true;
}

/* One rule of `length` bytes, already NUL-terminated. */
static bool parse_rule(const char *text, struct rule *rule)
{
    const char *colon = strchr(text, ':');
    unsigned long code = CUDA_ERROR_OUT_OF_MEMORY;

    if (!colon || !find_symbol(text, (size_t)(colon - text), &rule->api))
        return false;
    text = colon + 1;
    if (!parse_when(&text, rule))
        return false;
    if (*text == '=') {
        text++;
        if (!take_number(&text, 1, &code) || code > CUDA_ERROR_UNKNOWN)
            return false;
    }
    rule->code = (CUresult)code;
    return *text == '\0';
}

void sim_fault_load(void)
{
    const char *fail = sim_config()->fail;
    char *copy = fail ? strdup(fail) : NULL;
    char *save = NULL;

    if (!copy)
        return;
    for (char *item = strtok_r(copy, ",", &save); item;
         item = strtok_r(NULL, ",", &save)) {
        if (rule_count == MAX_RULES || !parse_rule(item, &rules[rule_count])) {
            sim_log_always("CUDASIM_FAIL: '%s' is not a rule, ignored", item);
            continue;
        }
        rule_count++;
    }
    free(copy);
    sim_fault_armed = rule_count > 0;
}

/* Evenly spread bits of (seed, symbol, call): the finalizer of a 64-bit mix. */
static uint64_t mix(uint64_t value)
{
    value ^= value >> 33;
    value *= 0xff51afd7ed558ccdull;
    value ^= value >> 33;
    value *= 0xc4ceb9fe1a85ec53ull;
    return value ^ (value >> 33);
}

static bool hits(const struct rule *rule, unsigned long call)
{
    switch (rule->when) {
    case WHEN_NTH:
        return call == rule->number;
    case WHEN_FROM_NTH:
        return call >= rule->number;
    case WHEN_PERCENT:
        break;
    }
    uint64_t key = sim_config()->seed ^ ((uint64_t)rule->api << 48) ^ call;
    return mix(key + 0x9e3779b97f4a7c15ull) % 100 < rule->number;
}

CUresult sim_fault_next(enum sim_api api)
{
    unsigned long call =
        1 + atomic_fetch_add_explicit(&calls[api], 1, memory_order_relaxed);

    for (unsigned i = 0; i < rule_count; i++) {
        if (rules[i].api == api && hits(&rules[i], call)) {
            sim_log(1, "%s: call %lu fails on request with %d", sim_api_name(api), call,
                    (int)rules[i].code);
            return rules[i].code;
        }
    }
    return CUDA_SUCCESS;
}
