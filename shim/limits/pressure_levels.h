/*
 * pressure_levels.h - GPUSHIM_PRESSURE: the share in use from which each level of memory
 * pressure begins, and the action at the level.
 */
#ifndef GS_PRESSURE_LEVELS_H
#define GS_PRESSURE_LEVELS_H

#include "gpushim.h"
#include "gs_base.h"

#define GS_PRESSURE_LEVELS ((size_t)GPUSHIM_OUT_OF_MEMORY + 1)

/* A level ends once the share is this much below its threshold. */
#define GS_PRESSURE_SLACK 0.03

/* Shares are from 0 to 1. */
struct gs_pressure_levels {
    double threshold[GS_PRESSURE_LEVELS];
    double target[GS_PRESSURE_LEVELS]; /* idle memory is returned down to it; 0: none */
};

/*
 * Parses "warning:0.80=shrink:0.70,critical:0.95=none". Has no other effect.
 * Out:     *out  the defaults for what the text does not give, or if it has an error
 * Returns: NULL, or a description of the error.
 */
const char *gs_pressure_parse(const char *text, struct gs_pressure_levels *out);

/* The level of a share, after the level `was`; never out of memory. */
gpushim_pressure gs_pressure_level(const struct gs_pressure_levels *levels,
                                   gpushim_pressure was, double share);

#endif
