/*
 * record.h - between the wrappers and the tracker: who allocates, from where.
 *
 * Unrecord before a real free, record after a real allocation: the other way round
 * another thread could be given the address in between, and its record would be taken
 * instead.
 */
#ifndef GS_RECORD_H
#define GS_RECORD_H

#include "state.h"

/* What an allocating wrapper knows. */
struct gs_request {
    const struct gs_context *context; /* may be NULL */
    CUstream stream;                  /* NULL for calls without one */
    bool per_thread;                  /* stream NULL is the thread's own */
    enum gs_memory_kind kind;
    enum gs_api api; /* the driver call; a runtime call in progress takes its place */
};

/* An allocation was made; `block` is the pool's, or NULL for memory of the driver's own.
 */
void gs_record_made(struct gs_state *state, const struct gs_request *request,
                    uint64_t addr, size_t bytes, struct gs_block *block);
/* The driver refused one. */
void gs_record_refused(struct gs_state *state, const struct gs_request *request);

/* A block of the pool is about to be freed. */
void gs_record_block_freed(struct gs_state *state, struct gs_block *block,
                           enum gs_api api);

/*
 * Memory of the driver's own is about to be freed.
 * Out: *was  what was recorded, addr 0 if nothing
 */
void gs_record_unmade(struct gs_state *state, uint64_t addr, enum gs_api api,
                      struct gs_allocation *was);
/* The driver has answered that free: an allocation it would not free goes back, a pointer
 * it did not know is an error of the program's. */
void gs_record_free_result(struct gs_state *state, uint64_t addr, enum gs_api api,
                           const struct gs_allocation *was, CUresult result);

/* Whether the driver's answer to a free says that nothing was freed: the caller may try
 * again (CUDA driver API, error codes of each call). */
bool gs_refused(CUresult result);
/* Whether it was refused because a stream captures. */
bool gs_refused_for_capture(CUresult result);

/* A free of something that is no live allocation. */
void gs_record_bad_free(struct gs_state *state, uint64_t addr, enum gs_api api);

/* A context's memory is gone. */
void gs_record_context_lost(struct gs_state *state, CUcontext handle);

#endif
