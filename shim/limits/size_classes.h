/*
 * size_classes.h - GPUSHIM_POOL_SIZE_CLASSES: what small requests are rounded up to.
 */
#ifndef GS_SIZE_CLASSES_H
#define GS_SIZE_CLASSES_H

#include "pool.h"

struct gs_size_classes {
    size_t bytes[GS_SIZE_CLASSES_MAX]; /* rising */
    unsigned count;                    /* 0: nothing is rounded */
};

/*
 * Read a preset's name, or sizes in rising order ("4K,64K,1M").
 * Out:     *out, empty unless all of the text is right
 * Returns: NULL, or what is wrong. Touches nothing else.
 */
const char *gs_size_classes_parse(const char *text, struct gs_size_classes *out);

/* The same, at start: what is wrong is said in one line of the log. */
void gs_size_classes_read(const char *text, struct gs_size_classes *out);

#endif
