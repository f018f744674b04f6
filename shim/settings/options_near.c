/*
 * options_near.c - which name was probably meant by an unknown one.
 * Owns:  nothing.   Lock: none.
 */
#include <limits.h>
#include <string.h>

#include "shim/settings/options.h"
#include "shim/settings/options_lists.h"

/* Longer names are not compared with the known ones. */
#define NAME_BYTES 40

static unsigned lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

/*
 * The number of insertions, deletions, replacements and swaps of neighbours between two
 * names (optimal string alignment). Both are at most NAME_BYTES long.
 */
static unsigned edit_distance(const char *a, size_t a_length, const char *b,
                              size_t b_length)
{
    unsigned char rows[3][NAME_BYTES + 1] = {{0}};
    unsigned char *before = rows[0], *above = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b_length; j++) {
        above[j] = (unsigned char)j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        unsigned char *spare = before;

        row[0] = (unsigned char)i;
        for (size_t j = 1; j <= b_length; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            unsigned best = above[j - 1] + !same;

            if (best > above[j] + 1u) {
                best = above[j] + 1u;
            }
            if (best > row[j - 1] + 1u) {
                best = row[j - 1] + 1u;
            }
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]) && best > before[j - 2] + 1u) {
                best = before[j - 2] + 1u;
            }
            row[j] = (unsigned char)best;
        }
        before = above;
        above = row;
        row = spare;
    }
    return above[b_length];
}

/*
 * The distance of a word from a known name, in half edits: the least of the distances
 * from the whole name and, at half an edit more, from every tail after an underscore
 * (SEGMNET is close to POOL_SEGMENT).
 */
static unsigned name_distance(const char *word, size_t length, const char *name)
{
    unsigned best = UINT_MAX;

    for (const char *part = name; part; part = strchr(part, '_')) {
        unsigned distance;

        part += *part == '_';
        distance = 2 * edit_distance(word, length, part, strlen(part)) + (part != name);
        if (distance < best) {
            best = distance;
        }
    }
    return best;
}

/* Names at this distance, in half edits, and farther ones are not meant. */
static unsigned far_from(size_t length)
{
    return 2 * (length < 6 ? 1 : (unsigned)length / 3) + 2;
}

unsigned gs_options_distance(const char *word, size_t length, const char *name)
{
    unsigned distance = length >= 3 && length <= NAME_BYTES
                            ? name_distance(word, length, name)
                            : UINT_MAX;

    return distance < far_from(length) ? distance : UINT_MAX;
}

bool gs_options_is_near(const char *word, size_t length, const char *name)
{
    return gs_options_distance(word, length, name) != UINT_MAX;
}

const char *gs_options_nearest(const char *word, size_t length)
{
    const char *nearest = NULL;
    unsigned best = far_from(length);

    if (length < 3 || length > NAME_BYTES) {
        return NULL;
    }
    for (size_t i = 0; i < GS_OPTIONS_COUNT + GS_LISTS + gs_launcher_options_count; i++) {
        const size_t list = i - GS_OPTIONS_COUNT;
        const char *name = i < GS_OPTIONS_COUNT ? gs_options_table[i].name
                           : list < GS_LISTS    ? gs_lists[list].name
                                             : gs_launcher_options[list - GS_LISTS].name;
        unsigned distance = name_distance(word, length, name + strlen("GPUSHIM_"));

        if (distance < best) {
            best = distance;
            nearest = name;
        }
    }
    return nearest;
}
