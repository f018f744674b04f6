/*
 * help.c - the texts of --help and usage.
 *
 * Owns: nothing.   Lock: none.   Source: shim/settings/options.def
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "shim/settings/options.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/replay/foreign.h"

#define REPORT_HELP                                                                      \
    "A REPORT is the JSON that a program wrote with --output=json, or the state file\n"  \
    "that it was given with --state-file."

static const char report_help[] =
    "Writes to standard output what a program had that was killed, or still runs,\n"
    "by the file that it was given with --state-file.\n"
    "\n"
    "  --summary                a line for each file, and one for all\n"
    "  --leak-max=NUMBER        call sites written out\n"
    "  --suppressions=FILE      suppress known leaks\n"
    "  --output=json --output-file=FILE\n"
    "                           the report for programs\n"
    "\n"
    "Every option of gpushim --help=all that says what is reported has its effect.\n";

static const char html_help[] =
    "Writes one page for a browser, which loads nothing else: flame graphs of what\n"
    "leaked and of the peaks, a table of call sites, errors with their stacks. With\n"
    "the trace of a run, live memory over time, and the flame graph of a moment or a\n"
    "range. A trace with its state file has call sites, a trace alone sizes. Of a\n"
    "folder, or of several processes, the page shows the one that is chosen there.\n"
    "\n"
    "  -o PAGE                  its file, - is standard output; else run.html for\n"
    "                           run.json, gpushim.html in a folder\n"
    "  --timeline=TRACE         as TRACE\n"
    "  --suppressions=FILE      suppress known leaks of a state file\n"
    "\n" REPORT_HELP "\n";

static const char diff_help[] =
    "Compares two runs: call sites whose leaked (or live) memory is new, has grown,\n"
    "has shrunk or is gone, by growth.\n"
    "\n"
    "  --fail-on=new,grown:10%  end with status 3 if a call site is new, or has\n"
    "                           grown by more than a tenth; also new:SIZE and\n"
    "                           grown:SIZE\n"
    "  --of=peak                what used the memory at the peaks, instead of leaks\n"
    "  --leak-max=NUMBER        call sites written out\n"
    "  --suppressions=FILE      suppress known leaks of a state file\n"
    "\n" REPORT_HELP "\n";

static const char merge_help[] =
    "Adds up many processes, such as the ranks of a job: a line for each call site\n"
    "with the sum, the most and the least of a process, and how many have it; then\n"
    "a line for each process. Of a FOLDER all its reports.\n"
    "\n"
    "  --of=peak                what used the memory at the peaks, instead of leaks\n"
    "  --leak-max=NUMBER        call sites written out\n"
    "  --suppressions=FILE      suppress known leaks of state files\n"
    "\n" REPORT_HELP "\n";

static const char top_help[] =
    "Shows what running processes have on each device, refreshed: of this user, of\n"
    "all for root, as they answer; and by the files of --state-file in the folder of\n"
    "GPUSHIM_STATE_FILE, or here. With names only these files. On a terminal keys\n"
    "choose, sort and filter, and show call stacks: h lists them. Elsewhere it is\n"
    "plain text, written once.\n"
    "\n"
    "  -d SECONDS               between two refreshes, 1 unless given\n"
    "  -n NUMBER                refreshes, then end\n"
    "  --once                   plain text, once\n";

static const char timeline_help[] =
    "Converts what --trace-file recorded, each allocation from its beginning to its\n"
    "end, for a program that shows it. Call stacks come from the STATE_FILE of the\n"
    "same run (--state-file).\n"
    "\n"
    "  --as=perfetto            for ui.perfetto.dev and chrome://tracing (default)\n"
    "  --as=memory_viz          for pytorch.org/memory_viz: memory of devices\n"
    "  --as=heaptrack           for heaptrack_gui and heaptrack_print\n"
    "  --as=massif              for ms_print and massif-visualizer\n"
    "  --most=NUMBER            the largest allocations, 100000 unless given, one\n"
    "                           by one (heaptrack, massif: all, by call stack)\n"
    "  -o FILE                  - is standard output; else the name of the trace,\n"
    "                           with .perfetto.json, .pickle, .heaptrack or .massif\n";

static const char pause_help[] =
    "pause copies the GPU memory of running processes to the host and frees it for\n"
    "others: their CUDA calls block until resume copies it back, to the same\n"
    "addresses. Any CUDA process will do, with or without the library. The driver\n"
    "does it: that of CUDA 12.8 (570) or later, x86-64.\n"
    "\n"
    "  --wait=SECONDS           how long the work of a process may take until it is\n"
    "                           paused, and how long a resume tries to get memory,\n"
    "                           10 unless given\n";

#define REQUEST_OPTIONS                                                                  \
    "\n"                                                                                 \
    "  NAME                     every process with this program's or script's name\n"    \
    "  --all                    every process of this user, for root of all users\n"     \
    "  --wait=SECONDS           for an answer, 10 unless given\n"
#define REQUEST_HELP                                                                     \
    "The process answers itself, without anything foreseen at its start: it runs\n"      \
    "under gpushim, has a CUDA context, and not GPUSHIM_CONTROL=off.\n" REQUEST_OPTIONS

static const char stats_help[] =
    "Writes what a running process has on each device, and in pinned "
    "memory.\n" REQUEST_HELP
    "  --json                   every counter, a line for each process\n";

static const char dump_help[] =
    "Writes the report of a running process as of now: its live memory, with call\n"
    "stacks. The program goes on.\n" REQUEST_HELP;

static const char owners_help[] =
    "Writes which program, library and file of a running process has how much live\n"
    "memory.\n" REQUEST_HELP;

static const char set_help[] =
    "Changes a setting of a running process, of those that gpushim.h can change\n"
    "(docs/api.md), such as verbose=3, leak-max=50, pool-limit=8G.\n" REQUEST_HELP;

static const char trim_help[] =
    "Has a running process return its pool's idle GPU memory to the driver, once its\n"
    "GPU is idle.\n" REQUEST_HELP;

static const char general_help[] =
    "Runs the command with libgpushim.so preloaded: GPU memory comes from a pool, and\n"
    "what is still allocated at exit, or at Ctrl-C or a crash, is reported.\n"
    "\n"
    "  --log-file=FILE          the report goes there (%p: process id)\n"
    "  --error-exitcode=NUMBER  end with this status if there were leaks or errors\n"
    "  --error-no-cuda          and also if the command made no CUDA call\n"
    "  --suppressions=FILE      suppress known leaks (docs/suppressions.md)\n"
    "  --write-suppressions=FILE  add a rule for each leak to this file\n"
    "  --check-args, --check-redzone=SIZE, --check-fill=poison\n"
    "                           find uses of freed memory and overruns\n"
    "  --stack=off, --no-pool   no call stacks: cheapest; no pool: only record\n"
    "  --output=json            additional report formats: json, pprof, collapsed ...\n"
    "  --state-file=FILE        keep state in FILE, readable with gpushim report FILE\n"
    "                           even after kill -9\n"
    "  --summary                at the end, a line for each process and each GPU\n"
    "  --torch=tensors          PyTorch: report tensors instead of allocator blocks\n"
    "  --full-paths             whole paths of source files, which editors open\n"
    "  --nvtx                   NVTX ranges of the program are scopes in the report\n"
    "  --print                  write the command with its variables, run nothing\n"
    "  --help=all, --version    every option (docs/options.md); the version\n"
    "\n"
    "Subcommands, each with --help:\n"
    "  report STATE_FILE...     the report of a process that was killed or runs\n"
    "  html REPORT|TRACE        one page for a browser: flame graphs, timeline\n"
    "  timeline TRACE           allocations over time, for Perfetto, heaptrack, ...\n"
    "  diff REPORT REPORT       call sites whose leaks are new, grew or are gone\n"
    "  merge REPORT|FOLDER...   the sum over processes, such as the ranks of a job\n"
    "  top [FOLDER]             the memory of running processes, refreshed\n"
    "  stats, dump, owners PID  the same, the report, or who has it, of one now\n"
    "  set PID NAME=VALUE, trim PID  change a setting, return idle memory\n"
    "  pause PID, resume PID    move a process's GPU memory to the host, and back\n"
    "  replay TRACE...          run a recorded trace through the pool, and measure it\n"
    "  advise TRACE             find better settings of the pool for a trace\n"
    "\n"
    "Each option sets a variable: --pool-segment=32M is GPUSHIM_POOL_SEGMENT=32M.\n"
    "To run a program called \"report\": gpushim -- report.\n";

static const char watch_help[] =
    "\n--watch=WAY\n"
    "  who writes the report of a process that was killed (docs/state.md): auto;\n"
    "  beside: a process beside the command, which takes the launcher's place;\n"
    "  parent: the launcher waits for the reports; off: nobody\n";

/* Each line of usage begins with "usage: " or as much space. */
#define PAUSE_USAGE                                                                      \
    "usage: gpushim pause [--wait=SECONDS] PID...\n"                                     \
    "       gpushim resume [--wait=SECONDS] PID...\n"

static const struct {
    const char *usage;
    const char *text; /* NULL: the subcommand has a --help of its own */
} helps[] = {
    [GS_VERB_RUN] = {"usage: gpushim [options] [run] [--] command [args...]\n"
                     "       gpushim report|html|timeline|diff|merge|top|stats|dump|"
                     "owners|set|trim|\n"
                     "               pause|resume|replay|advise\n",
                     general_help},
    [GS_VERB_REPORT] = {"usage: gpushim [options] report [options] STATE_FILE...\n",
                        report_help},
    [GS_VERB_HTML] = {"usage: gpushim [options] html [options] REPORT|TRACE|FOLDER...\n",
                      html_help},
    [GS_VERB_TIMELINE] = {"usage: gpushim timeline [options] TRACE [STATE_FILE]\n",
                          timeline_help},
    [GS_VERB_DIFF] = {"usage: gpushim [options] diff [options] REPORT REPORT\n",
                      diff_help},
    [GS_VERB_MERGE] = {"usage: gpushim [options] merge [options] REPORT|FOLDER...\n",
                       merge_help},
    [GS_VERB_TOP] = {"usage: gpushim [options] top [options] [FOLDER|STATE_FILE...]\n",
                     top_help},
    [GS_VERB_PAUSE] = {PAUSE_USAGE, pause_help},
    [GS_VERB_RESUME] = {PAUSE_USAGE, pause_help},
    [GS_VERB_REPLAY] = {"usage: gpushim [options] replay [options] TRACE...\n", NULL},
    [GS_VERB_ADVISE] = {"usage: gpushim [options] advise [options] TRACE\n", NULL},
#define GS_REQUEST(word, verb, argument)                                                 \
    [GS_VERB_##verb] = {"usage: gpushim " #word " [options] PID|NAME...|--all" argument  \
                        "\n",                                                            \
                        word##_help},
#include "shim/control/requests.def"
};

static void write_help(void *self, const char *text, size_t length)
{
    (void)self;
    (void)fwrite(text, 1, length, stdout);
}

void gs_help_show(enum gs_verb verb, bool all)
{
    printf("%s\n%s", helps[verb].usage, helps[verb].text);
    if (verb == GS_VERB_RUN && all) {
        fputs(watch_help, stdout);
        gs_options_help(GS_OPTIONS_AS_ARGUMENTS, write_help, NULL);
    }
}

void gs_help_refuse(enum gs_verb verb, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    gs_foreign_line(stderr, "gpushim", format, words);
    va_end(words);
    fputs(helps[verb].usage, stderr);
    exit(GS_EXIT_USAGE);
}
