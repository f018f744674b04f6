/*
 * context_backend.h - the backend of a context's heap over the real driver.
 */
#ifndef GS_CONTEXT_BACKEND_H
#define GS_CONTEXT_BACKEND_H

#include "shim/state/contexts.h"

/* Frees a claimed block that becomes ready with the event, which was recorded for this
 * block alone. The block takes over the fence. */
void gs_context_free_behind(struct gs_block *block, gs_fence event);

/* The backend over the real driver; its `self` is a struct gs_context. */
extern const struct gs_backend gs_context_backend;

#endif
