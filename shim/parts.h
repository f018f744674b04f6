/*
 * parts.h - how a lower folder of shim/ reaches the ones above it.
 *
 * A folder includes and calls only what stands below it (docs/architecture.md). What has
 * to go up goes through this file: a lower part says what has happened, and the parts
 * above that have a row for the moment in parts.def act. parts.c is the one file that
 * knows them all.
 */
#ifndef GS_PARTS_H
#define GS_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_names.h"

struct gs_context;
struct gs_state;

/* The process's state, made and started by the first CUDA call. Under the start's lock.
 */
struct gs_state *gs_parts_make_state(void);
/* The options are read, tracker and pools exist. Names: state, options. */
void gs_parts_start(struct gs_state *state);
/* In a forked child, in its only thread: forget what the parent's threads were doing. */
void gs_parts_fork_in_child(void);

/* A context has been seen for the first time; it is current. Names: state, context. */
void gs_parts_context_met(struct gs_state *state, const struct gs_context *context);
/* The driver has told the name of a device. Under gs_contexts.lock. */
void gs_parts_device_named(int ordinal, const char *name);
/* A context's memory is gone, as far as it is known by the context's handle. Under
 * gs_contexts.ending. Names: state, handle. */
void gs_parts_context_lost(struct gs_state *state, CUcontext handle);
/* A context's heap has been killed; ... */
void gs_parts_heap_ended(struct gs_context *context);
/* ... and the context is gone from the map. Name of both: context. */
void gs_parts_context_ended(const struct gs_context *context);
/* The driver has answered a call in the context with this code. */
void gs_parts_context_error(const struct gs_context *context, CUresult result);
/* The context has failed for good. Name: context. */
void gs_parts_context_failed(const struct gs_context *context);

/* The program is told that it cannot have `bytes` of the device. Names: state, device,
 * api, bytes. */
void gs_parts_refused(struct gs_state *state, int device, unsigned api, size_t bytes);
/* The context is idle, or has just been waited for: memory may go back without a wait.
 * Names: state, context. */
void gs_parts_relax(struct gs_state *state, const struct gs_context *context);
/* What pinned and managed memory is kept for reuse goes back. Returns the bytes. May wait
 * for running work. Name: state. */
size_t gs_parts_trim(struct gs_state *state);
/* The quarantine's blocks of a device (-1: of all) become idle. */
void gs_parts_empty_quarantine(int device);
/* Waits a moment for frees in a stream's order that give a device (-1: all) memory back.
 * Returns whether they have. */
bool gs_parts_await_given(int device);
/* The driver is about to get a segment of the context back. */
void gs_parts_unmap(const struct gs_context *context, uint64_t addr, size_t bytes);

/* Nothing more is recorded in the context, which may be about to end; and: it has ended,
 * or lives on. */
void gs_parts_freeze(CUcontext handle);
void gs_parts_thaw(CUcontext handle, bool destroyed);

/* The program has looked for a symbol while a library is loaded that matters to the order
 * of work. */
void gs_parts_looked_up(void);
/* The thread is about to submit where it never has: a stream's handle and the bits of
 * submissions.h. */
void gs_parts_submits_elsewhere(uintptr_t where);
/* Memory that may become idle was freed, and no thread looks after it. */
void gs_parts_start_trim_thread(void);
/* No lock is held, and the call takes longer than a copy of the statistics does. */
void gs_parts_safe_point(struct gs_state *state);
/* A number for the form of the statistics in a state file. */
uint64_t gs_parts_statistics_form(void);

#endif
