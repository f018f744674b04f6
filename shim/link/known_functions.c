/*
 * known_functions.c - searches the names of submit.def and harmless.def.
 *
 * The tables hold offsets instead of pointers, so that a program that never calls CUDA
 * does not pay for relocating them.
 *
 * Owns:  whether the idle proof has ended, the name that ended it, and whether the proof
 *        is verified.
 * Lock:  none. Apart from the bit GS_PROOF_VERIFIED, `ended` goes from 0 to 1 (a thread
 *        writes the name) to 2.
 */
#include "shim/link/known_functions.h"

#include "shim/link/elf_module.h"
#include "shim/link/real.h"

enum { PROOF_HOLDS, PROOF_ENDING, PROOF_ENDED };

int gs_known_ended;                        /* atomic */
static char ended_by[GS_KNOWN_NAME_BYTES]; /* written once, before PROOF_ENDED */

/* ---- the tables -------------------------------------------------------------------- */

static const struct counted_text {
#define GS_SUBMIT(symbol, name, ...)                                                     \
    char symbol[sizeof(#symbol)];                                                        \
    char symbol##_name[sizeof(name)];
#include "shim/entries/submit.def"
} counted_text = {
#define GS_SUBMIT(symbol, name, ...) #symbol, name,
#include "shim/entries/submit.def"
};

static_assert(sizeof(struct counted_text) < UINT16_MAX, "offsets fit");

#define STREAM_LEGACY     false
#define STREAM_PER_THREAD true

const struct gs_counted gs_counted[] = {
#define GS_SUBMIT(symbol, name, since, stream, ...)                                      \
    {offsetof(struct counted_text, symbol),                                              \
     offsetof(struct counted_text, symbol##_name),                                       \
     offsetof(struct gs_real, symbol) / sizeof(void *), since, STREAM_##stream},
#include "shim/entries/submit.def"
};
const size_t gs_counted_count = GS_ARRAY_LEN(gs_counted);

static const struct harmless_text {
#define GS_HARMLESS(symbol, since, reason) char symbol[sizeof(#symbol)];
#include "shim/link/harmless.def"
} harmless_text = {
#define GS_HARMLESS(symbol, since, reason) #symbol,
#include "shim/link/harmless.def"
};

static_assert(sizeof(struct harmless_text) < UINT16_MAX, "offsets fit");

static const uint16_t harmless[] = {
#define GS_HARMLESS(symbol, since, reason) offsetof(struct harmless_text, symbol),
#include "shim/link/harmless.def"
};

/* ---- searching --------------------------------------------------------------------- */

static int char_rank(char c)
{
    return c == '_' ? 1 : (unsigned char)c;
}

/* Like strcmp, which a sanitizer may have replaced; in the order of the tables. */
static int compare(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return char_rank(*a) - char_rank(*b);
}

const char *gs_counted_symbol(const struct gs_counted *row)
{
    return (const char *)&counted_text + row->symbol;
}

const char *gs_counted_name(const struct gs_counted *row)
{
    return (const char *)&counted_text + row->name;
}

const struct gs_counted *gs_counted_find(const char *symbol)
{
    size_t low = 0, high = gs_counted_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(symbol, gs_counted_symbol(&gs_counted[middle]));
        if (order == 0) {
            return &gs_counted[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

bool gs_known_harmless(const char *symbol)
{
    size_t low = 0, high = GS_ARRAY_LEN(harmless);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(symbol, (const char *)&harmless_text + harmless[middle]);
        if (order == 0) {
            return true;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return false;
}

bool gs_known_is_driver_name(const char *name)
{
    return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z' &&
           !gs_elf_begins_with(name, "cuFile");
}

/* ---- the end of the proof ---------------------------------------------------------- */

void gs_known_end_proof(const char *name)
{
    int verified = __atomic_load_n(&gs_known_ended, __ATOMIC_RELAXED) & GS_PROOF_VERIFIED;
    int before = PROOF_HOLDS | verified;
    if (!__atomic_compare_exchange_n(&gs_known_ended, &before, PROOF_ENDING | verified,
                                     false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        return;
    }
    for (size_t i = 0; name && name[i] && i + 1 < sizeof(ended_by); i++) {
        ended_by[i] = name[i];
    }
    __atomic_store_n(&gs_known_ended, PROOF_ENDED | verified, __ATOMIC_RELEASE);
}

void gs_known_verify_proof(void)
{
    __atomic_or_fetch(&gs_known_ended, GS_PROOF_VERIFIED, __ATOMIC_RELEASE);
}

const char *gs_known_ended_by(void)
{
    int ended = __atomic_load_n(&gs_known_ended, __ATOMIC_ACQUIRE) & ~GS_PROOF_VERIFIED;
    return ended == PROOF_ENDED ? ended_by : "";
}

void gs_known_reset(void)
{
    for (size_t i = 0; i < sizeof(ended_by); i++) {
        ended_by[i] = '\0';
    }
    __atomic_store_n(&gs_known_ended, PROOF_HOLDS, __ATOMIC_RELEASE);
}
