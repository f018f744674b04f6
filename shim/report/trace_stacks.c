/*
 * trace_stacks.c - the call stacks of a trace that began while the program ran.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/traces.md
 */
#include "shim/report/trace_stacks.h"

#include <stdio.h>

#include "shim/report/statistics.h"
#include "shim/settings/log.h"
#include "shim/settings/output.h"
#include "shim/state/state.h"
#include "shim/statefile/state_file.h"
#include "shim/trace/trace_file.h"

void gs_trace_stacks_write(void)
{
    static struct gs_output_file file; /* one caller at a time; too large for a stack */
    static struct gs_state_header head;
    static char path[PATH_MAX + 8];
    struct gs_state *state = gs_state_peek();
    const char *trace = gs_trace_file_take_late();
    size_t bytes;
    if (!trace[0] || !state || !state->tracker) {
        return;
    }
    gs_statistics_keep_now(state);
    const char *memory = gs_state_file_copy(&head, &bytes);
    if (!memory) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_TRACE_FILE=%.600s: no call stacks: the address space is "
                    "limited (ulimit -v)",
                    trace);
        return;
    }
    (void)snprintf(path, sizeof(path), "%s.state", trace);
    gs_output_file_open(&file, path);
    bool whole = gs_output_file_write(&file, &head, sizeof(head)) &&
                 gs_output_file_write(&file, memory + sizeof(head), bytes - sizeof(head));
    int error = gs_output_file_close(&file, whole);
    if (error) {
        gs_log_line(GS_LOG_WARN, "%.600s: no call stacks: %s", path,
                    gs_output_error_text(error));
    }
}
