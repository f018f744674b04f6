/*
 * scoped.c - the live allocations: all, those of a scope, the one around an address.
 * Owns: nothing.   Lock: none.
 */
#include <string.h>

#include "tracker/stacks/scopes.h"
#include "tracker/tracker_internal.h"

struct search {
    const struct gs_tracker *tracker;
    const char *name;
    void (*visit)(void *self, const struct gs_allocation *allocation);
    void *self;
};

size_t gs_tracker_scope_of(const struct gs_tracker *tracker, uint32_t stack,
                           const char **path)
{
    static const char prefix[] = "[scope ";
    const struct gs_stacks *stacks = tracker->config.stacks;
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    struct gs_python_location location;
    unsigned count =
        stacks ? gs_stacks_frames(stacks, stack, frames, GS_STACK_MAX_DEPTH) : 0;

    *path = "";
    if (count == 0 || !gs_frame_is_scope(frames[count - 1]) ||
        gs_stacks_python(stacks, frames[count - 1], &location) != GS_OK) {
        return 0;
    }
    *path = location.function + strlen(prefix);
    return strlen(*path) - 1; /* the ] */
}

static bool visit_within(void *arg, const struct gs_allocation *allocation)
{
    const struct search *search = arg;
    const char *path;
    size_t length = gs_tracker_scope_of(search->tracker, allocation->stack, &path);

    if (length != 0 && gs_scopes_path_has(path, length, search->name)) {
        search->visit(search->self, allocation);
    }
    return true;
}

void gs_tracker_visit_scope(struct gs_tracker *tracker, const char *name,
                            void (*call)(void *self,
                                         const struct gs_allocation *allocation),
                            void *self)
{
    struct search search = {tracker, name, call, self};

    if (tracker->config.stacks != NULL) {
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

/* A number that no other allocation has: a slot, how often it was used, and the time. */
static uint64_t number_of(uint32_t id, uint64_t stamp)
{
    return (uint64_t)id << 32 | (stamp / GS_STAMP_SEQUENCE) << 17 |
           (stamp >> GS_STAMP_TIME & ((1u << 17) - 1));
}

/* A copy of a live record, and its number. */
static bool copy_numbered(const struct gs_tracker *tracker, uint32_t id,
                          struct gs_allocation *out, uint64_t *number)
{
    const struct gs_record *record = gs_record_of(tracker, id);
    enum gs_slot slot;
    uint64_t stamp;

    do {
        stamp = __atomic_load_n(&record->stamp, __ATOMIC_ACQUIRE);
        if (!gs_record_snapshot(tracker, id, record, out, &slot)) {
            return false;
        }
    } while (__atomic_load_n(&record->stamp, __ATOMIC_ACQUIRE) != stamp);
    *number = number_of(id, stamp);
    return true;
}

void gs_tracker_visit_numbered(struct gs_tracker *tracker,
                               bool (*visit)(void *self, uint64_t number,
                                             const struct gs_allocation *allocation),
                               void *self)
{
    uint32_t limit = __atomic_load_n(&tracker->record_limit, __ATOMIC_ACQUIRE);
    struct gs_allocation copy;
    uint64_t number;

    for (uint32_t id = 1; id < limit; id++) {
        if (copy_numbered(tracker, id, &copy, &number) && !visit(self, number, &copy)) {
            return;
        }
    }
}

/* Returns true if the address is one of the bytes, or the first of an unknown number. */
static bool contains(uint64_t begin, uint64_t bytes, uint64_t addr)
{
    return !gs_key_is_handle(begin) && (addr == begin || addr - begin < bytes);
}

/* Records that change are no answer, so a first look at each takes no copy. */
enum gs_status gs_tracker_around(struct gs_tracker *tracker, uint64_t addr,
                                 struct gs_allocation *out, uint64_t *number)
{
    uint32_t limit = __atomic_load_n(&tracker->record_limit, __ATOMIC_ACQUIRE);

    for (uint32_t id = 1; id < limit; id++) {
        const struct gs_record *record = gs_record_of(tracker, id);
        struct gs_allocation copy;
        uint64_t found;

        if (contains(__atomic_load_n(&record->addr, __ATOMIC_RELAXED),
                     __atomic_load_n(&record->size, __ATOMIC_RELAXED) & GS_BYTES_MAX,
                     addr) &&
            copy_numbered(tracker, id, &copy, &found) &&
            contains(copy.addr, copy.bytes, addr)) {
            *out = copy;
            *number = found;
            return GS_OK;
        }
    }
    return GS_ERR_NOT_FOUND;
}
