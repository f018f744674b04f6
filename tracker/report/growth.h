/*
 * growth.h - which places hold more and more, look after look.
 *
 * A leak grows and never shrinks; what a program keeps for a while does both. So a place
 * is said to be growing once its live memory has become more in three looks since it last
 * became less, and lately.
 *
 * Locks: all functions may be called from any thread; locking is internal.
 * Design: docs/tracker.md, "Does it grow"
 */
#ifndef GS_GROWTH_H
#define GS_GROWTH_H

#include "groups.h"
#include "text.h"

struct gs_growth;
struct gs_report_config;
struct gs_tracker;

/* NULL: no memory. */
struct gs_growth *gs_growth_create(void);
void gs_growth_destroy(struct gs_growth *growth);

/* Look at what is live. Takes as long as a look at every record does. */
void gs_growth_look(struct gs_growth *growth, struct gs_tracker *tracker);

/* The last look in a line, and `most` places that are growing, by how much, with their
 * stacks; each line begins with "==PID== ". */
void gs_growth_write(struct gs_growth *growth, struct gs_tracker *tracker,
                     const struct gs_report_config *config, unsigned most,
                     struct gs_text *text);

/* Whether the group's place was growing when it was last looked at. NULL: it was not. */
bool gs_growth_has(struct gs_growth *growth, const struct gs_group *group);

#endif
