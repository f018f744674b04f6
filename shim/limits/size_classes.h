/*
 * size_classes.h - GPUSHIM_POOL_SIZE_CLASSES: the sizes to which small requests are
 * rounded up.
 */
#ifndef GS_SIZE_CLASSES_H
#define GS_SIZE_CLASSES_H

#include "pool/pool.h"

struct gs_size_classes {
    size_t bytes[GS_SIZE_CLASSES_MAX]; /* rising */
    unsigned count;                    /* 0: no rounding */
};

/*
 * Parses a preset's name, or sizes in rising order ("4K,64K,1M").
 * Out:     *out, empty if there is an error
 * Returns: NULL, or a description of the error. Has no other effect.
 */
const char *gs_size_classes_parse(const char *text, struct gs_size_classes *out);

/* Like gs_size_classes_parse, at start: logs an error in one line. */
void gs_size_classes_read(const char *text, struct gs_size_classes *out);

#endif
