/*
 * fault.c - injected faults.
 *
 *   CUDASIM_FAIL = rule[,rule...]      rule = name:when[=what]
 *   name:   an exported symbol (cuMemAlloc_v2), or a base name, which stands for all its
 *           variants (cuMemAlloc for cuMemAlloc_v2 too, cuEventRecord for _ptsz too)
 *   when:   N      the Nth call, counted from 1
 *           N+     the Nth call and every later one
 *           *%P    P percent of the calls, chosen by CUDASIM_SEED and the call's number
 *           *      every call
 *   what:   N        the call fails with that CUresult; left out:
 * CUDA_ERROR_OUT_OF_MEMORY never    the operation it gives to the device is never done
 *           lost     the device is lost from then on (sim_device_lose)
 *           slow:MS  the call takes so many milliseconds longer
 *
 * Each rule counts the calls it names. Of several rules that fit one call all delays and
 * `never` apply; of the errors the first one.
 *
 * Owns:  rules and the calls counted by each.   Lock: none, the counters are atomic.
 */
#include "fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "device.h"
#include "log.h"
#include "names.h"
#include "thread.h"

enum when { WHEN_NTH, WHEN_FROM_NTH, WHEN_PERCENT };
enum what { WHAT_FAIL, WHAT_NEVER, WHAT_LOST, WHAT_SLOW };

struct rule {
    enum sim_api api; /* the first it names */
    enum when when;
    unsigned long number; /* call number from 1, or percent */
    enum what what;
    unsigned long value; /* CUresult, or milliseconds */
    atomic_ulong calls;
};

#define MAX_RULES   64
#define MAX_SLOW_MS 3600000

bool sim_fault_armed;                    /* immutable after sim_fault_load() */
static struct rule rules[MAX_RULES];     /* immutable after that, but for `calls` */
static unsigned rule_count;              /* immutable after sim_fault_load() */
static uint64_t rules_of[SIM_API_COUNT]; /* a bit per rule; likewise */
static __thread bool next_never;         /* the thread's own */

/* Enter the rule at every symbol it names. True if there is one; *modelled if a call of
 * one of them is counted at all. */
static bool name_symbols(const char *name, size_t length, unsigned index, bool *modelled)
{
    struct sim_named named;

    if (!sim_names_find(name, length, &named))
        return false;
    rules[index].api = named.apis[0];
    *modelled = named.modelled;
    for (unsigned i = 0; i < named.count; i++)
        rules_of[named.apis[i]] |= UINT64_C(1) << index;
    return true;
}

static void forget_rule(unsigned index)
{
    for (unsigned i = 0; i < SIM_API_COUNT; i++)
        rules_of[i] &= ~(UINT64_C(1) << index);
}

/* A number of at least `min`; moves *text behind it. */
static bool take_number(const char **text, unsigned long min, unsigned long *out)
{
    char *end;

    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *out = strtoul(*text, &end, 10);
    *text = end;
    return !errno && *out >= min;
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

/* What stands behind '=', to the end. */
static bool parse_what(const char *text, struct rule *rule)
{
    if (strcmp(text, "never") == 0) {
        rule->what = WHAT_NEVER;
        return true;
    }
    if (strcmp(text, "lost") == 0) {
        rule->what = WHAT_LOST;
        return true;
    }
    if (strncmp(text, "slow:", 5) == 0) {
        text += 5;
        rule->what = WHAT_SLOW;
        return take_number(&text, 1, &rule->value) && rule->value <= MAX_SLOW_MS &&
               !*text;
    }
    rule->what = WHAT_FAIL;
    return take_number(&text, 1, &rule->value) && rule->value <= CUDA_ERROR_UNKNOWN &&
           !*text;
}

/* One rule, NUL-terminated, as number `index`. */
static bool parse_rule(const char *text, unsigned index)
{
    struct rule *rule = &rules[index];
    const char *when = strchr(text, ':');
    bool modelled = false;

    if (!when || !name_symbols(text, (size_t)(when - text), index, &modelled))
        return false;
    when++;
    rule->what = WHAT_FAIL;
    rule->value = CUDA_ERROR_OUT_OF_MEMORY;
    if (!parse_when(&when, rule) ||
        (*when && (*when != '=' || !parse_what(when + 1, rule)))) {
        forget_rule(index);
        return false;
    }
    if (!modelled)
        sim_log_always("CUDASIM_FAIL: '%s' names what is not modelled and does nothing",
                       text);
    return true;
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
        if (rule_count == MAX_RULES)
            sim_log_always("CUDASIM_FAIL: '%s' is behind the %d rules there may be, "
                           "ignored",
                           item, MAX_RULES);
        else if (parse_rule(item, rule_count))
            rule_count++;
        else
            sim_log_always("CUDASIM_FAIL: '%s' is not a rule, ignored", item);
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

/* Count the call; true if the rule chooses it. */
static bool hits(struct rule *rule)
{
    unsigned long call =
        1 + atomic_fetch_add_explicit(&rule->calls, 1, memory_order_relaxed);

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

static void delay(enum sim_api api, unsigned long ms)
{
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    sim_log(1, "%s: %lu ms longer on request", sim_api_name(api), ms);
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* The device of the current context; without one the first. */
static CUresult lose_device(enum sim_api api)
{
    struct sim_context *context = sim_thread_current();
    int device = context ? context->device : 0;

    sim_log(1, "%s: device %d is lost on request", sim_api_name(api), device);
    sim_device_lose(device);
    return SIM_DEVICE_LOST;
}

static CUresult obey(const struct rule *rule, enum sim_api api)
{
    switch (rule->what) {
    case WHAT_NEVER:
        sim_log(1, "%s: its operation never ends, on request", sim_api_name(api));
        next_never = true;
        break;
    case WHAT_SLOW:
        delay(api, rule->value);
        break;
    case WHAT_LOST:
        return lose_device(api);
    case WHAT_FAIL:
        sim_log(1, "%s fails on request with %lu", sim_api_name(api), rule->value);
        return (CUresult)rule->value;
    }
    return CUDA_SUCCESS;
}

CUresult sim_fault_next(enum sim_api api)
{
    CUresult first = CUDA_SUCCESS;

    next_never = false;
    for (uint64_t left = rules_of[api]; left; left &= left - 1) {
        struct rule *rule = &rules[__builtin_ctzll(left)];
        CUresult res = hits(rule) ? obey(rule, api) : CUDA_SUCCESS;
        if (first == CUDA_SUCCESS)
            first = res;
    }
    return first;
}

bool sim_fault_takes_never(void)
{
    bool never = next_never;

    next_never = false;
    return never;
}
