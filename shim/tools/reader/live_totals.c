/*
 * live_totals.c - see live_totals.h.
 *
 * Reads with pread: if a file is cut during the reading, the reading ends, not the
 * reader. Owns: nothing.   Lock: none; one thread.   Design: docs/state.md
 */
#include "shim/tools/reader/live_totals.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_clock.h"
#include "shim/record.h"
#include "shim/settings/output.h"
#include "shim/settings/output_map.h"
#include "shim/statefile/state_file.h"
#include "shim/tools/reader/marks.h"
#include "shim/tools/reader/state_open.h"
#include "tracker/report/text/text.h"

const char gs_live_totals_too_early[] = "of a process that had just started";

static bool fetch(void *self, uint64_t offset, void *out, size_t bytes)
{
    ssize_t got;
    if (offset > INT64_MAX - bytes) {
        return false;
    }
    do {
        got = pread(*(int *)self, out, bytes, (off_t)offset);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)bytes;
}

const char *gs_live_totals_bytes(bool known, uint64_t bytes, char out[24])
{
    return known ? gs_text_bytes(bytes, out) : "-";
}

/* Reads the pool's reserved bytes of a device, as of a moment ago. False: not known,
 * or there is no pool. */
static bool read_reserved(int fd, const struct gs_state_header *header, unsigned device,
                          uint64_t *out)
{
    const uint64_t annex = header->annex - header->base;
    uint64_t current;
    struct gs_statistics statistics;
    if (header->annex == 0 || !fetch(&fd, annex, &current, sizeof(current)) ||
        current < 1 || current > 2 ||
        !fetch(&fd,
               annex + offsetof(struct gs_statistics_file, sets) +
                   ((current - 1) * GS_MAX_DEVICES + device) * sizeof(statistics),
               &statistics, sizeof(statistics)) ||
        statistics.at_ns == 0 || statistics.pool.allocs == 0) {
        return false;
    }
    *out = statistics.pool.reserved_bytes;
    return true;
}

/* Reads the rows that ever had memory. False: the file is cut short. */
static bool read_rows(int fd, const struct gs_state_header *header,
                      struct gs_live_totals *out)
{
    static struct gs_tracker_totals totals[GS_STATE_NOW_ROWS]; /* one thread reads */
    static_assert(GS_LIVE_TOTALS_HOST == GS_STATE_NOW_ROWS - 1, "the last row");
    if (!gs_state_read_now(header, fetch, &fd, totals)) {
        return false;
    }
    for (unsigned i = 0; i < GS_STATE_NOW_ROWS; i++) {
        if (totals[i].allocs > 0) {
            struct gs_live_totals_row *row = &out->rows[out->row_count++];
            *row = (struct gs_live_totals_row){.device = i,
                                               .live_bytes = totals[i].live_bytes,
                                               .peak_bytes = totals[i].peak_bytes,
                                               .allocs = totals[i].allocs,
                                               .has_counts = true};
            if (i != GS_LIVE_TOTALS_HOST) {
                row->has_reserved = read_reserved(fd, header, i, &row->reserved_bytes);
                memcpy(row->bus, header->buses[i], sizeof(header->buses[i]));
            }
        }
    }
    if (out->row_count == 0) {
        out->rows[out->row_count++] =
            (struct gs_live_totals_row){.device = 0, .has_counts = true};
    }
    return true;
}

/* Reads and checks the header. */
static bool read_header(int fd, struct gs_state_header *header, const char **problem)
{
    static char bytes[sizeof(*header)];
    static uint64_t layout;
    struct gs_state_read_config config = {.version = GPUSHIM_VERSION};
    ssize_t got = pread(fd, bytes, sizeof(bytes), 0);
    if (layout == 0) {
        layout = gs_state_file_layout(gs_statistics_form());
    }
    config.layout = layout;
    if (got >= (ssize_t)sizeof(header->magic) &&
        memcmp(bytes, (char[sizeof(header->magic)]){0}, sizeof(header->magic)) == 0) {
        *problem = gs_live_totals_too_early; /* the magic is written last */
        return false;
    }
    return gs_state_read_header(bytes, got > 0 ? (size_t)got : 0, &config, header,
                                problem) == GS_OK;
}

static const char *halt_of(const struct gs_state_process *process)
{
    return gs_mark_is_paused(process->pid, process->pid_start) ? "paused"
           : gs_process_is_stopped(process->pid)               ? "stopped"
                                                               : NULL;
}

bool gs_live_totals_read(const char *path, struct gs_live_totals *out,
                         const char **problem)
{
    static struct gs_state_header header; /* large, and one thread reads */
    struct stat info;
    int fd = gs_output_map_read(path, O_NONBLOCK);
    bool read = false;
    out->row_count = 0;
    if (fd < 0 || fstat(fd, &info) != 0) {
        *problem = gs_output_error_text(errno);
    } else if (!S_ISREG(info.st_mode)) {
        *problem = "not a regular file";
    } else if (read_header(fd, &header, problem)) {
        out->process = header.process;
        out->running = gs_state_runs(&header.process);
        out->halted = out->running ? halt_of(&header.process) : NULL;
        out->at_ns = gs_now_ns();
        *problem = gs_state_cut_short;
        read = fstat(fd, &info) == 0 && /* after the header: the file may grow */
               !gs_state_is_cut(&header, (uint64_t)info.st_size) &&
               read_rows(fd, &header, out);
    }
    if (fd >= 0) {
        close(fd);
    }
    return read;
}
