/*
 * sched_seed.c - the dice of the hostile scheduler and what kind of run they make.
 *
 * A scheduler that always chose evenly would hardly ever leave a stream alone for a
 * hundred calls or run one to its end while the others stand still; yet those are the
 * orders that break programs. So the seed first draws a temperament, in which most values
 * are extremes, and the choices follow it.
 *
 * Owns:  the dice.   Lock: sim_hostile_lock.
 * Source: G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators",
 *         OOPSLA 2014: the generator (SplitMix).
 */
#include "config.h"
#include "sched_hostile.h"

struct sim_temper sim_temper; /* immutable once loaded */

static uint64_t dice[SIM_DICE_COUNT]; /* sim_hostile_lock */
static bool loaded;                   /* sim_hostile_lock */

static uint64_t roll(uint64_t *state)
{
    uint64_t value = *state += 0x9e3779b97f4a7c15u;

    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

unsigned sim_dice_below(enum sim_dice which, unsigned count)
{
    return (unsigned)(((roll(&dice[which]) >> 32) * count) >> 32);
}

bool sim_dice_yes(enum sim_dice which, unsigned of_256)
{
    return sim_dice_below(which, 256) < of_256;
}

static unsigned one_of(const unsigned *values, unsigned count)
{
    return values[sim_dice_below(SIM_DICE_CALLS, count)];
}

#define ONE_OF(...)                                                                      \
    one_of((const unsigned[]){__VA_ARGS__},                                              \
           GS_ARRAY_LEN(((const unsigned[]){__VA_ARGS__})))

void sim_seed_load(void)
{
    if (loaded)
        return;
    loaded = true;
    dice[SIM_DICE_CALLS] = sim_config()->seed;
    dice[SIM_DICE_TIME] = ~sim_config()->seed;
    sim_temper = (struct sim_temper){
        .most_gap = ONE_OF(1, 4, 16, 48),
        .act = ONE_OF(0, 0, 16, 96, 256),
        .burst = ONE_OF(1, 1, 4, 64),
        .greed = ONE_OF(0, 0, 32, 224),
        .overlap = ONE_OF(0, 128, 128, 256),
        .turn = ONE_OF(4, 32, 128, 224),
        .patience = ONE_OF(16, 64, 512),
        .pick = (enum sim_pick)sim_dice_below(SIM_DICE_CALLS, SIM_PICK_COUNT),
    };
}
