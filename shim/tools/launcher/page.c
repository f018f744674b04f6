/*
 * page.c - the one file that a command of the launcher writes.
 * Owns: nothing.   Lock: none.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/settings/output_ours.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/reader/report_file.h"
#include "shim/tools/reader/state_open.h"
#include "shim/tools/replay/foreign.h"
#include "shim/tools/replay/replay_trace.h"
#include "tracker/report/text/text.h"

#define CANNOT_WRITE 1

void gs_page_open(struct gs_page *page, const char *what, const char *path,
                  char *const *sources)
{
    *page =
        (struct gs_page){.what = what, .path = path, .to_stdout = strcmp(path, "-") == 0};
    if (page->to_stdout) {
        gs_replay_no_progress = isatty(STDOUT_FILENO) == 1;
        return;
    }
    for (; *sources; sources++) {
        if (gs_is_same_file(*sources, path)) {
            gs_launcher_fail(GS_EXIT_USAGE,
                             "%s: the %s would replace one of its input files", path,
                             what);
        }
    }
    gs_output_ours_force(gs_state_settings()->force);
    gs_output_file_open(&page->file, path);
    if (page->file.error == ENOTUNIQ) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s: %s; no %s written", path,
                         gs_output_error_text(ENOTUNIQ), what);
    }
}

bool gs_page_put(void *self, const void *data, size_t length)
{
    struct gs_page *page = self;
    page->bytes += length;
    return page->to_stdout ? fwrite(data, 1, length, stdout) == length
                           : gs_output_file_write(&page->file, data, length);
}

int gs_page_close(struct gs_page *page)
{
    char bytes[24];
    if (page->to_stdout) {
        if (fflush(stdout) != 0 || ferror(stdout)) {
            gs_launcher_fail(CANNOT_WRITE, "the %s cannot be written to standard output",
                             page->what);
        }
        return 0;
    }
    int error = gs_output_file_close(&page->file, true);
    if (error) {
        gs_launcher_fail(CANNOT_WRITE, "%s: %s; no %s written", page->path,
                         gs_output_error_text(error), page->what);
    }
    fputs("gpushim: wrote ", stdout);
    gs_foreign_print(stdout, page->path);
    printf(" (%s)\n", gs_text_bytes(page->bytes, bytes));
    return gs_replay_end(0);
}
