/*
 * advise_search.c - looks for settings of the pool that suit a trace better.
 *
 * Each setting is tried alone, then those that helped in pairs. Driver calls and reserved
 * memory decide, which are the same in every run; time is only measured for what is
 * chosen.
 *
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/replay/advise.h"

#include <stdlib.h>
#include <string.h>

#include "shim/tools/replay/driver_model.h"

/* ---- candidates -------------------------------------------------------------------- */

/* A value of a variable, as text, or as a share of the peak of live memory. */
struct value {
    const char *text;
    double of_live;
};

#define VALUES 4

static const struct variable {
    const char *name;
    struct value values[VALUES];
    const char *cost;
} variables[] = {
    {"GPUSHIM_POOL_CARVE",
     {{"on", 0}},
     "a live block of 2 MiB and more keeps the segment that it shares"},
    {"GPUSHIM_POOL_SEGMENT",
     {{"2M", 0}, {"8M", 0}, {"64M", 0}, {"256M", 0}},
     "larger segments need fewer driver calls, smaller ones are returned sooner"},
    {"GPUSHIM_POOL_CACHE",
     {{"0", 0}, {"8M", 0}, {"128M", 0}, {"1G", 0}},
     "cached blocks serve their own size alone; without a cache each request is slower"},
    {"GPUSHIM_POOL_SIZE_CLASSES",
     {{"dotcompute", 0}, {"stratified", 0}},
     "rounding takes memory: not on a device that the program nearly fills"},
    {"GPUSHIM_POOL_RELEASE",
     {{NULL, 0.05}, {NULL, 0.125}, {NULL, 0.25}, {NULL, 0.5}},
     "idle memory beyond it is returned at once, and reserved again"},
    {"GPUSHIM_POOL_LIMIT",
     {{NULL, 1.02}, {NULL, 1.1}, {NULL, 1.25}, {NULL, 1.5}},
     "what the program needs beyond it costs a driver call each: raise it with the need"},
};

/* The longest line is a pair's. */
static_assert(GS_ADVISE_LINE_BYTES > 2 * sizeof("GPUSHIM_POOL_SIZE_CLASSES=18446744073M"),
              "room for any two");
/* Pairs are made of at most this many of the settings that helped. */
#define PAIRED 8u

static_assert(1 + GS_ARRAY_LEN(variables) * VALUES + PAIRED * (PAIRED - 1) / 2 <=
                  GS_ADVISE_TRIES,
              "room for every setting, and every pair");

const char *gs_advise_cost(unsigned of, unsigned *next)
{
    while (*next < GS_ARRAY_LEN(variables)) {
        unsigned i = (*next)++;

        if (of >> i & 1) {
            return variables[i].cost;
        }
    }
    return NULL;
}

void gs_advise_settings(const char *line, struct gs_replay_pool *out)
{
    static struct gs_options options;
    static struct gs_options_messages notes;
    char words[GS_ADVISE_LINE_BYTES], *env[4] = {NULL}, *rest = words;

    (void)stpcpy(words, line);
    for (size_t i = 0; i + 1 < GS_ARRAY_LEN(env); i++) {
        env[i] = strtok_r(i ? NULL : words, " ", &rest);
    }
    gs_options_load(&options, env, false, &notes);
    if (notes.length) {
        gs_replay_fail("%s: %s", line, notes.text);
    }
    gs_replay_settings(&options, out);
}

/* ---- trying ------------------------------------------------------------------------ */

static void run(const struct gs_advise_case *wanted, struct gs_advise_try *try)
{
    struct gs_replay_pool pool;
    const struct gs_replay_config config = {.pool = &pool};
    double ns;

    gs_advise_settings(try->line, &pool);
    gs_replay_through_pool(wanted->trace, wanted->capacity, &wanted->ready, &config,
                           &try->out);
    ns = try->out.run.ops ? (double)try->out.run.ns / (double)try->out.run.ops : 0;
    try->ns_op = try->ns_op == 0 || ns < try->ns_op ? ns : try->ns_op;
    gs_advise_progress();
}

static struct gs_advise_try *add(struct gs_advice *advice, unsigned variables_of)
{
    struct gs_advise_try *try = &advice->tries[advice->count++];

    *try = (struct gs_advise_try){.variables = variables_of};
    return try;
}

static void add_alone(const struct gs_advise_case *wanted, struct gs_advice *advice,
                      unsigned variable, const struct value *value)
{
    double live = (double)wanted->peaks.live_bytes * value->of_live;
    uint64_t mib = ((uint64_t)live / GS_MODEL_PAGE + 1) * (GS_MODEL_PAGE / GS_MIB);
    struct gs_advise_try *try = add(advice, 1u << variable);

    if (value->text) {
        snprintf(try->line, sizeof(try->line), "%s=%s", variables[variable].name,
                 value->text);
    } else {
        snprintf(try->line, sizeof(try->line), "%s=%lluM", variables[variable].name,
                 (unsigned long long)mib);
    }
    run(wanted, try);
}

/* ---- comparing --------------------------------------------------------------------- */

/* Differences below these, or below this part, are nothing to change a setting for. */
#define LEAST_CALLS    16u
#define LEAST_CALLS_IN 1000u /* one call in this many allocations */
#define LEAST_BYTES    (32 * GS_MIB)
#define LEAST_PART     0.1
/* One more variable has to be worth it. */
#define A_VARIABLE 0.05

struct comparison {
    double calls, memory; /* relative to the default settings */
    bool fewer, less;     /* by more than nothing */
};

static double ratio(uint64_t part, uint64_t whole)
{
    return ((double)part + 1) / ((double)whole + 1);
}

static struct comparison compare(const struct gs_advice *advice,
                                 const struct gs_advise_try *try)
{
    const struct gs_replay_outcome *mine = &try->out, *theirs = &advice->tries[0].out;
    struct comparison result;

    if (!theirs->run.fits && mine->run.fits) { /* it runs at all */
        return (struct comparison){0, 0, true, true};
    }
    result.calls = ratio(mine->calls, theirs->calls);
    result.memory = ratio(mine->reserved_peak, theirs->reserved_peak);
    result.fewer = result.calls <= 1 - LEAST_PART &&
                   mine->calls + LEAST_CALLS <= theirs->calls &&
                   mine->calls + advice->allocations / LEAST_CALLS_IN <= theirs->calls;
    result.less = result.memory <= 1 - LEAST_PART &&
                  mine->reserved_peak + LEAST_BYTES <= theirs->reserved_peak;
    return result;
}

/* How good settings are for a goal, less is better; negative: no better than the default
 * settings. Of the least memory not the last MiB counts, if it costs many driver calls.
 */
static double score(const struct comparison *result, enum gs_advise_goal goal)
{
    double square = result->memory * result->memory;
    double weighed = square * square * result->calls;

    switch (goal) {
    case GS_ADVISE_BOTH:
        return (result->fewer || result->less) && result->calls <= 1 &&
                       result->memory <= 1.01
                   ? result->calls * result->memory
                   : -1;
    case GS_ADVISE_CALLS:
        return result->fewer && result->calls < 0.8 ? result->calls + 0.1 * result->memory
                                                    : -1;
    default:
        return result->less && weighed < 0.65 ? weighed : -1;
    }
}

static const struct gs_advise_try *best_of(const struct gs_advice *advice,
                                           enum gs_advise_goal goal)
{
    const struct gs_advise_try *found = NULL;
    double least = 0;

    for (size_t i = 1; i < advice->count; i++) {
        const struct gs_advise_try *try = &advice->tries[i];
        struct comparison result = compare(advice, try);
        double mine = try->out.run.fits ? score(&result, goal) : -1;

        if (mine < 0) {
            continue;
        }
        mine *= 1 + A_VARIABLE * __builtin_popcount(try->variables);
        if (!found || mine < least) {
            found = try;
            least = mine;
        }
    }
    return found;
}

/* How much settings help in either way, less is more; 1: not at all. */
static double promise(const struct gs_advice *advice, const struct gs_advise_try *try)
{
    struct comparison result = compare(advice, try);

    if (!try->out.run.fits) {
        return 1;
    }
    return result.calls < result.memory ? result.calls : result.memory;
}

/* The settings that helped, the most helpful first. Returns how many. */
static size_t find_helpful(const struct gs_advice *advice, size_t out[PAIRED])
{
    size_t count = 0;

    for (size_t i = 1; i < advice->count; i++) {
        double mine = promise(advice, &advice->tries[i]);
        size_t at = count;

        if (mine > 0.95) {
            continue;
        }
        while (at > 0 && promise(advice, &advice->tries[out[at - 1]]) > mine) {
            at--;
        }
        if (at == PAIRED) {
            continue;
        }
        count += count < PAIRED;
        memmove(&out[at + 1], &out[at], (count - 1 - at) * sizeof(*out));
        out[at] = i;
    }
    return count;
}

/* ---- the search -------------------------------------------------------------------- */

static void try_pairs(const struct gs_advise_case *wanted, struct gs_advice *advice)
{
    size_t helpful[PAIRED];
    size_t count = find_helpful(advice, helpful);

    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct gs_advise_try *a = &advice->tries[helpful[i]];
            const struct gs_advise_try *b = &advice->tries[helpful[j]];
            struct gs_advise_try *try;

            if (a->variables == b->variables) {
                continue;
            }
            try = add(advice, a->variables | b->variables);
            (void)stpcpy(stpcpy(stpcpy(try->line, a->line), " "), b->line);
            run(wanted, try);
        }
    }
}

/* The figures that are wanted only of shown settings. */
static void finish(const struct gs_advise_case *wanted, struct gs_advise_try *try)
{
    struct gs_replay_pool pool;
    const struct gs_replay_config config = {.pool = &pool};

    if (try->smallest) {
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        run(wanted, try);
    }
    gs_advise_settings(try->line, &pool);
    try->smallest = gs_replay_smallest(wanted->trace, gs_replay_through_pool,
                                       &wanted->ready, &config);
    gs_advise_progress();
}

void gs_advise_search(const struct gs_advise_case *wanted, struct gs_advice *out)
{
    out->count = 0;
    out->allocations = wanted->peaks.made;
    run(wanted, add(out, 0));
    for (unsigned i = 0; i < GS_ARRAY_LEN(variables); i++) {
        for (unsigned j = 0; j < VALUES; j++) {
            if (variables[i].values[j].text || variables[i].values[j].of_live > 0) {
                add_alone(wanted, out, i, &variables[i].values[j]);
            }
        }
    }
    try_pairs(wanted, out);
    finish(wanted, &out->tries[0]);
    for (unsigned goal = 0; goal < GS_ADVISE_GOALS; goal++) {
        out->best[goal] = best_of(out, (enum gs_advise_goal)goal);
        if (out->best[goal]) {
            finish(wanted, &out->tries[out->best[goal] - out->tries]);
        }
    }
}
