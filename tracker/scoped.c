/*
 * scoped.c - the live allocations: all, or those of a scope.
 * Owns: nothing.   Lock: none.
 */
#include <string.h>

#include "tracker/stacks/scopes.h"
#include "tracker/tracker_internal.h"

struct search {
    const struct gs_stacks *stacks;
    const char *name;
    void (*visit)(void *self, const struct gs_allocation *allocation);
    void *self;
};

/* Returns true if the stack was captured within the scope: its outermost frame is the
 * path of the thread's scopes. */
static bool is_within(const struct search *search, uint32_t stack)
{
    static const char prefix[] = "[scope ";
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    struct gs_python_location location;
    unsigned count = gs_stacks_frames(search->stacks, stack, frames, GS_STACK_MAX_DEPTH);

    if (count == 0 || !gs_frame_is_scope(frames[count - 1]) ||
        gs_stacks_python(search->stacks, frames[count - 1], &location) != GS_OK) {
        return false;
    }
    return gs_scopes_path_has(location.function + strlen(prefix),
                              strlen(location.function) - strlen(prefix) - 1, /* the ] */
                              search->name);
}

static bool visit_within(void *arg, const struct gs_allocation *allocation)
{
    const struct search *search = arg;

    if (is_within(search, allocation->stack)) {
        search->visit(search->self, allocation);
    }
    return true;
}

void gs_tracker_visit_scope(struct gs_tracker *tracker, const char *name,
                            void (*call)(void *self,
                                         const struct gs_allocation *allocation),
                            void *self)
{
    struct search search = {tracker->config.stacks, name, call, self};

    if (search.stacks != NULL) {
        gs_records_visit(tracker, visit_within, &search);
    }
}

struct call {
    void (*visit)(void *self, const struct gs_allocation *allocation);
    void *self;
};

static bool call_visit(void *arg, const struct gs_allocation *allocation)
{
    const struct call *call = arg;

    call->visit(call->self, allocation);
    return true;
}

void gs_tracker_visit(struct gs_tracker *tracker,
                      void (*visit)(void *self, const struct gs_allocation *allocation),
                      void *self)
{
    struct call call = {visit, self};

    gs_records_visit(tracker, call_visit, &call);
}
