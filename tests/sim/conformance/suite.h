/*
 * suite.h - between the runner and what cases share.
 */
#ifndef GS_CONFORMANCE_SUITE_H
#define GS_CONFORMANCE_SUITE_H

#include "conformance.h"

/* Initialize CUDA and make device 0's primary context current. False: no device. */
bool suite_start(void);

/* After a case: the primary context current and in order again? */
bool suite_tidy(void);

/* What must come back or happen is given `ms` at most, where a case would give it more.
 * Before the cases run. */
void suite_set_returns_ms(unsigned ms);

#endif
