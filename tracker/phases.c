/*
 * phases.c - see phases.h.
 * Owns: nothing.   Lock: none.
 */
#include "tracker/phases.h"

#include <string.h>

#include "tracker/stacks/scopes.h"

uint8_t gs_phases_add(struct gs_phases *phases, const char *scope, uint64_t after_ns)
{
    for (unsigned i = 0; i < phases->count; i++) {
        const struct gs_phase *phase = &phases->items[i];
        if (scope && phase->scope
                ? strcmp(scope, phase->scope) == 0
                : scope == phase->scope && after_ns == phase->after_ns) {
            return (uint8_t)(1u << i);
        }
    }
    if (phases->count == GS_PHASES_MAX) {
        return 0;
    }
    phases->items[phases->count] = (struct gs_phase){scope, after_ns};
    return (uint8_t)(1u << phases->count++);
}

/* Begins the conditions that the scopes of the calling thread meet. */
static void begin_scopes(struct gs_phases *phases)
{
    char path[GS_SCOPE_PATH_SIZE];

    if (!gs_scopes_current_path(path)) {
        return;
    }
    for (unsigned i = 0; i < phases->count; i++) {
        const char *scope = phases->items[i].scope;
        if (scope && gs_scopes_path_matches(path, strlen(path), scope, phases->matches)) {
            __atomic_fetch_or(&phases->begun, (uint8_t)(1u << i), __ATOMIC_RELAXED);
        }
    }
}

uint8_t gs_phases_now(struct gs_phases *phases, uint64_t now_ns)
{
    uint8_t bits = 0;
    bool missing = false;

    if (!phases) {
        return 0;
    }
    uint8_t begun = __atomic_load_n(&phases->begun, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < phases->count; i++) {
        const struct gs_phase *phase = &phases->items[i];
        missing = missing || (phase->scope && !(begun >> i & 1u));
        if (!phase->scope && now_ns >= phase->after_ns) {
            bits |= (uint8_t)(1u << i);
        }
    }
    if (missing) {
        begin_scopes(phases);
        begun = __atomic_load_n(&phases->begun, __ATOMIC_RELAXED);
    }
    return bits | begun;
}
