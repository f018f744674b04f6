/*
 * main.c - the program gpushim.
 *
 * Options become GPUSHIM_* variables and the command takes the place of the launcher, so
 * that process id, signals and exit status are the command's own, or is its child
 * (run.c).
 *
 * Owns: nothing.   Lock: none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/settings/stderr.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/reader/state_open.h"
#include "shim/tools/replay/replay.h"

/* Returns the exit status. */
static int report_command(const struct gs_arguments *arguments)
{
    size_t count = 0;
    int status = 0;
    while (arguments->command[count]) {
        count++;
    }
    if (count == 0) {
        gs_help_refuse(GS_VERB_REPORT, "report: no STATE_FILE is given");
    }
    if (arguments->log_file) {
        gs_launcher_warn("--log-file: the report goes to standard output; only messages "
                         "go to the file");
    }
    if (arguments->summary) {
        return gs_summary_write(arguments->command, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        int one = gs_state_report(arguments->command[i]);
        status = one > status ? one : status;
    }
    return status;
}

static void print(const struct gs_arguments *arguments, const char *preload)
{
    printf("LD_PRELOAD=");
    gs_words_print(preload);
    putchar(' ');
    gs_arguments_print_set();
    for (char **word = arguments->command; *word; word++) {
        gs_words_print(*word);
        putchar(word[1] ? ' ' : '\n');
    }
}

/* Replays the traces under the settings that GPUSHIM_* variables have. */
static int replay(char **words)
{
    static struct gs_options options;
    static struct gs_options_messages notes;
    static struct gs_replay_pool pool;
    const struct gs_replay_program program = {.usage = "gpushim [options] replay",
                                              .pool = &pool};
    gs_options_load(&options, environ, false, &notes);
    (void)fwrite(notes.text, 1, notes.length, stderr);
    gs_replay_settings(&options, &pool);
    return gs_replay_command(words, &program);
}

/* NVTX loads the library that the variable names. Another tool's stays. */
static void set_nvtx(void)
{
    const char *other = getenv("NVTX_INJECTION64_PATH");
    if (other && other[0] && strcmp(other, gs_library_path()) != 0) {
        gs_launcher_warn(
            "--nvtx: NVTX_INJECTION64_PATH is set: %.400s receives the ranges", other);
        return;
    }
    gs_arguments_set("NVTX_INJECTION64_PATH", gs_library_path());
}

int main(int unused, char **argv)
{
    struct gs_arguments arguments;
    static struct gs_command command;
    (void)unused;
    gs_stderr_remember();
    gs_lists_split();
    gs_arguments_read(argv + 1, &arguments);
    gs_arguments_refuse(&arguments);
    switch (arguments.verb) {
    case GS_VERB_REPORT:
        return report_command(&arguments);
    case GS_VERB_HTML:
        return gs_html_write(&arguments);
    case GS_VERB_DIFF:
        return gs_diff_run(&arguments);
    case GS_VERB_MERGE:
        return gs_merge_run(&arguments);
    case GS_VERB_TOP:
        return gs_top_run(&arguments);
    case GS_VERB_TIMELINE:
        return gs_timeline_run(&arguments);
    case GS_VERB_PAUSE:
        return gs_pause_run(&arguments);
    case GS_VERB_RESUME:
        return gs_request_names_scope(&arguments) ? gs_request_run(&arguments)
                                                  : gs_pause_run(&arguments);
    case GS_VERB_REPLAY:
        return replay(arguments.command);
    case GS_VERB_ADVISE:
        return gs_advise_command(arguments.command);
    case GS_VERB_SERVE:
        return gs_serve_run(&arguments);
    case GS_VERB_TRACE:
        return gs_trace_run(&arguments);
    case GS_VERB_CDI:
        return gs_cdi_write(&arguments);
    case GS_VERB_ATTACH:
    case GS_VERB_DETACH:
        return gs_attach_run(&arguments);
    case GS_VERB_RUN:
        break;
    default:
        return gs_request_run(&arguments);
    }
    gs_command_find(&arguments, &command);
    char *preload = gs_library_preload(&command);
    if (arguments.nvtx) {
        set_nvtx();
    }
    if (!arguments.print) {
        gs_paths_make_absolute();
    }
    gs_lists_join();
    if (arguments.print) {
        print(&arguments, preload);
        return gs_replay_end(0);
    }
    arguments.preload = preload;
    arguments.all = argv;
    gs_run_command(&command, &arguments);
    gs_launcher_fail(errno == ENOENT ? GS_EXIT_NOT_FOUND : GS_EXIT_CANNOT_RUN, "%s: %s",
                     arguments.command[0], strerror(errno));
}
