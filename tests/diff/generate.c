/*
 * generate.c - a seed becomes a list. It guesses what is there (what was made is taken
 * for there, what was ended for gone), so that most calls are right ones; that it can be
 * wrong is half of the point.
 */
#include <stdlib.h>
#include <string.h>

#include "diff.h"

struct guess {
    bool there[DIFF_THINGS][DIFF_SLOTS];
    bool was[DIFF_THINGS][DIFF_SLOTS];
    char kind[DIFF_SLOTS];    /* of memory */
    uint8_t home[DIFF_SLOTS]; /* of memory: the stream that mostly uses it */
    uint8_t process[DIFF_THINGS][DIFF_SLOTS];
};

struct maker {
    uint64_t state;
    struct diff_list *list;
    bool groups[DIFF_GROUPS];
    struct guess guesses[DIFF_THREADS]; /* [0] alone, unless threads run freely */
    unsigned threads, thread, process;
    unsigned small, large; /* sizes of this list, by number */
    int capture;           /* the stream that captures, -1: none */
};

static uint64_t draw(struct maker *maker, uint64_t limit)
{
    uint64_t z = maker->state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (z ^ (z >> 31)) % limit;
}

static bool chance(struct maker *maker, unsigned in_100)
{
    return draw(maker, 100) < in_100;
}

/* ---- what a list has ----------------------------------------------------------------
 */

static void choose_groups(struct maker *maker)
{
    static const unsigned chances[DIFF_GROUPS] = {
#define DIFF_GROUP(name, chance, what) chance,
#include "groups.def"
#undef DIFF_GROUP
    };
    /* What changes things for all threads needs the baton. */
    static const enum diff_group together[] = {
        DIFF_GROUP_capture, DIFF_GROUP_primary, DIFF_GROUP_contexts,
        DIFF_GROUP_peers,   DIFF_GROUP_ipc,     DIFF_GROUP_fork,
        DIFF_GROUP_broken,  DIFF_GROUP_pools,   DIFF_GROUP_questions};

    for (unsigned i = 0; i < DIFF_GROUPS; i++)
        maker->groups[i] = chance(maker, chances[i]);
    if (maker->list->free)
        for (unsigned i = 0; i < sizeof(together) / sizeof(*together); i++)
            maker->groups[together[i]] = false;
    /* What the runtime itself keeps of a primary context is not followed. */
    if (maker->groups[DIFF_GROUP_primary] || maker->groups[DIFF_GROUP_fork])
        maker->groups[DIFF_GROUP_runtime] = false;
    maker->groups[DIFF_GROUP_streams] |= maker->groups[DIFF_GROUP_capture];
    /* Whether memory has come back when a small device is full is a matter of time. */
    if (maker->list->memory_mib < 1024)
        maker->groups[DIFF_GROUP_async] = maker->groups[DIFF_GROUP_pools] =
            maker->groups[DIFF_GROUP_nodes] = maker->groups[DIFF_GROUP_runtime] = false;
}

static void choose_shape(struct maker *maker)
{
    static const unsigned small_devices[] = {64, 96, 128, 256};
    struct diff_list *list = maker->list;

    list->memory_mib = chance(maker, 15) ? small_devices[draw(maker, 4)] : 4096;
    list->devices = chance(maker, 30) ? 2 : 1;
    list->lean = chance(maker, 50);
    maker->threads = chance(maker, 50) ? 1 : 1 + (unsigned)draw(maker, DIFF_THREADS);
    list->free = maker->threads > 1 && list->memory_mib > 1024 && chance(maker, 25);
    list->way = (unsigned)draw(maker, DIFF_WAYS);
    maker->small = (unsigned)draw(maker, 12);
    maker->large = maker->small + 1 + (unsigned)draw(maker, 24 - maker->small);
    if (chance(maker, 40)) { /* one size, so that what is freed is soon used again */
        maker->small = (unsigned)draw(maker, 21);
        maker->large = maker->small + 1;
    }
}

/* ---- arguments ----------------------------------------------------------------------
 */

static enum diff_thing thing_of(char letter)
{
    static const char letters[] = "msecgxofri";

    return (enum diff_thing)(strchr(letters, letter) - letters);
}

static unsigned slots_of(enum diff_thing thing)
{
    return thing == DIFF_STREAM ? DIFF_STREAMS
           : thing == DIFF_CTX  ? DIFF_CONTEXTS
                                : DIFF_SLOTS;
}

static bool suits(const struct maker *maker, const struct guess *guess,
                  enum diff_thing thing, unsigned slot, const char *kinds, char sign)
{
    bool mine = guess->process[thing][slot] == maker->process || thing == DIFF_HANDLE ||
                (thing == DIFF_STREAM && slot < 3);
    bool kind = thing != DIFF_MEM || !*kinds || strchr(kinds, guess->kind[slot]);

    if (sign == '+')
        return !guess->there[thing][slot];
    if (sign == '~')
        return !guess->there[thing][slot] && guess->was[thing][slot] && mine && kind;
    return guess->there[thing][slot] && mine && kind;
}

/* A slot that suits, most often; any other at times. */
static unsigned pick(struct maker *maker, struct guess *guess, enum diff_thing thing,
                     const char *kinds, char sign)
{
    unsigned slots = slots_of(thing), first = (unsigned)draw(maker, slots);

    if (chance(maker, 3))
        return first;
    if (sign != '+' && *kinds && chance(maker, 10))
        kinds = "";
    for (unsigned i = 0; i < slots; i++)
        if (suits(maker, guess, thing, (first + i) % slots, kinds, sign))
            return (first + i) % slots;
    return first;
}

static void took(struct maker *maker, struct guess *guess, enum diff_thing thing,
                 unsigned slot, const char *kinds, char sign)
{
    if (sign == '+') {
        guess->there[thing][slot] = true;
        guess->process[thing][slot] = (uint8_t)maker->process;
        if (thing == DIFF_MEM) {
            guess->kind[slot] = *kinds;
            guess->home[slot] = (uint8_t)draw(maker, DIFF_STREAMS);
        }
    } else if (sign == '-') {
        guess->there[thing][slot] = false;
        guess->was[thing][slot] = true;
    }
}

/* May half of the device be asked for? Not where it depends on others, or on what pools
 * of the driver's have given back by then. */
static bool roomy(const struct maker *maker)
{
    return !maker->list->free && !maker->groups[DIFF_GROUP_async] &&
           !maker->groups[DIFF_GROUP_pools] && !maker->groups[DIFF_GROUP_nodes] &&
           !maker->groups[DIFF_GROUP_runtime];
}

static int64_t draw_size(struct maker *maker)
{
    if (chance(maker, 2)) /* 0, or more than there is */
        return chance(maker, 30) ? 0
               : roomy(maker)    ? 24 + (int64_t)draw(maker, 4)
                                 : 26 + (int64_t)draw(maker, 2);
    if (chance(maker, 10)) /* large, where the list is about small ones, too */
        return (int64_t)draw(maker, 24);
    if (chance(maker, maker->large - maker->small > 1 ? 30 : 5)) /* a size of its own */
        return 64 + (int64_t)draw(maker, 1u << (8 + draw(maker, 15)));
    return (int64_t)(maker->small + draw(maker, maker->large - maker->small));
}

/* The stream that mostly uses the memory named before it: others must be put in order. */
static int64_t draw_stream(struct maker *maker, struct guess *guess, int memory)
{
    if (maker->capture >= 0 && chance(maker, 50))
        return maker->capture;
    if (memory >= 0 && chance(maker, 75) &&
        guess->there[DIFF_STREAM][guess->home[memory]])
        return guess->home[memory];
    if (!maker->groups[DIFF_GROUP_streams] && chance(maker, 80))
        return 0;
    return pick(maker, guess, DIFF_STREAM, "", ' ');
}

static int64_t draw_argument(struct maker *maker, struct guess *guess, const char *word,
                             size_t length, int *memory)
{
    char sign = strchr("+-~", *word) ? *word : ' ';
    char kinds[12] = "";
    enum diff_thing thing;
    unsigned slot;

    if (strncmp(word, "size", 4) == 0)
        return draw_size(maker);
    if (strncmp(word, "part", 4) == 0)
        return (int64_t)draw(maker, 6);
    if (strncmp(word, "value", 5) == 0)
        return (int64_t)draw(maker, 256);
    if (*word == 'n')
        return (int64_t)draw(maker, (uint64_t)atoi(word + 1));
    word += sign != ' ';
    length -= sign != ' ';
    thing = thing_of(*word);
    if (length > 2)
        snprintf(kinds, sizeof(kinds), "%.*s", (int)length - 2, word + 2);
    if (thing == DIFF_STREAM && sign == ' ')
        return draw_stream(maker, guess, *memory);
    slot = pick(maker, guess, thing, kinds, sign);
    took(maker, guess, thing, slot, kinds, sign);
    if (thing == DIFF_MEM)
        *memory = (int)slot;
    return slot;
}

/* ---- operations ---------------------------------------------------------------------
 */

static unsigned weight(const struct maker *maker, unsigned kind)
{
    /* What is freed memory to one thread may be another's that runs freely. */
    if (!maker->groups[diff_rows[kind].group] ||
        (maker->list->free && strchr(diff_rows[kind].arguments, '~')))
        return 0;
    return diff_rows[kind].weight;
}

static enum diff_kind draw_kind(struct maker *maker)
{
    uint64_t sum = 0, drawn;
    unsigned kind = 0;

    for (unsigned i = 0; i < DIFF_KINDS; i++)
        sum += weight(maker, i);
    drawn = draw(maker, sum);
    for (;; kind++) {
        if (drawn < weight(maker, kind))
            return (enum diff_kind)kind;
        drawn -= weight(maker, kind);
    }
}

static void choose_hand(struct maker *maker)
{
    if (chance(maker, 30))
        maker->thread = (unsigned)draw(maker, maker->threads);
    maker->process = maker->groups[DIFF_GROUP_ipc] && chance(maker, 25);
}

/* A capture ends on the stream it began on, most often. */
static void note_capture(struct maker *maker, struct diff_op *op)
{
    if (op->kind == DIFF_capture_begin && op->process == 0) {
        for (unsigned i = 0; op->args[0] < 3 && i < DIFF_STREAMS; i++)
            if (i > 2 && maker->guesses[0].there[DIFF_STREAM][i])
                op->args[0] = i;
        if (maker->capture < 0)
            maker->capture = (int)op->args[0];
        if (chance(maker, 60)) /* most other calls break a stricter one */
            op->args[1] = 2;
    } else if (op->kind == DIFF_capture_end && maker->capture >= 0) {
        if (chance(maker, 80))
            op->args[0] = maker->capture;
        maker->capture = -1;
    }
}

static void make_op(struct maker *maker, struct diff_op *op)
{
    struct guess *guess = &maker->guesses[0];
    const char *at;
    int memory = -1;

    choose_hand(maker);
    op->process = (uint8_t)maker->process;
    op->thread = (uint8_t)(maker->process ? 0 : maker->thread);
    op->kind = (uint16_t)draw_kind(maker);
    /* Most frees while a stream captures end the comparison. */
    while (maker->capture >= 0 && strstr(diff_rows[op->kind].name, "free") &&
           chance(maker, 90))
        op->kind = (uint16_t)draw_kind(maker);
    if (maker->capture >= 0 && op->process == 0 && chance(maker, 15))
        op->kind = DIFF_capture_end;
    if (maker->list->free)
        guess = &maker->guesses[op->thread];
    at = diff_rows[op->kind].arguments;
    for (unsigned i = 0; *at; i++) {
        size_t length = strcspn(at, " ");

        op->args[i] = draw_argument(maker, guess, at, length, &memory);
        at += length + (at[length] == ' ');
    }
    note_capture(maker, op);
}

static void guess_what_is_there(struct maker *maker)
{
    for (unsigned i = 0; i < DIFF_THREADS; i++) {
        struct guess *guess = &maker->guesses[i];

        for (unsigned j = 0; j < 3; j++)
            guess->there[DIFF_STREAM][j] = true;
        for (unsigned j = 0; j < DIFF_PRIMARIES; j++) {
            guess->there[DIFF_CTX][j] = j % 2 < maker->list->devices;
            guess->process[DIFF_CTX][j] = (uint8_t)(j / 2);
        }
    }
}

void diff_generate(uint64_t seed, unsigned ops, struct diff_list *out)
{
    struct maker maker;

    memset(&maker, 0, sizeof(maker));
    maker.state = seed * 0x2545f4914f6cdd1dull + 1;
    maker.list = out;
    maker.capture = -1;
    out->seed = seed;
    choose_shape(&maker);
    choose_groups(&maker);
    guess_what_is_there(&maker);
    out->count = ops < DIFF_OPS ? ops : DIFF_OPS;
    memset(out->ops, 0, out->count * sizeof(*out->ops));
    for (unsigned i = 0; i < out->count; i++)
        make_op(&maker, &out->ops[i]);
}
