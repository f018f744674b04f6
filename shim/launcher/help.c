/*
 * help.c - the texts of --help and usage.
 *
 * Owns: nothing.   Lock: none.   Source: shim/settings/options.def
 */
#include <stdio.h>

#include "launcher.h"
#include "options.h"

void gs_help_usage(FILE *to)
{
    fputs(
        "usage: gpushim [options] [--] command [args...]\n"
        "       gpushim [options] report [--summary] STATE_FILE...\n"
        "       gpushim html|timeline|diff|merge|top|pause|resume|replay|advise --help\n",
        to);
}

static void write_help(void *self, const char *text, size_t length)
{
    (void)self;
    (void)fwrite(text, 1, length, stdout);
}

/* The options that most runs need; all of them with --help=all. */
static void show_help(bool all)
{
    gs_help_usage(stdout);
    puts(
        "\n"
        "Runs the command with libgpushim.so preloaded: GPU memory comes from a pool, "
        "and\n"
        "what is still allocated at exit is reported.\n"
        "\n"
        "  --log-file=FILE          the report goes there (%p: process id)\n"
        "  --error-exitcode=NUMBER  end with this status if there were leaks or errors\n"
        "  --suppressions=FILE      leaks that are known: rules, docs/suppressions.md\n"
        "  --write-suppressions=FILE  add a rule for each leak to this file\n"
        "  --check-args, --check-redzone=SIZE, --check-fill=poison\n"
        "                           find uses of freed memory and overruns\n"
        "  --stack=off, --no-pool   no call stacks: cheapest; no pool: only record\n"
        "  --output=json            what else to write: json, pprof, collapsed ...\n"
        "  --state-file=FILE        survives kill -9; gpushim report FILE reads it\n"
        "  --summary                at the end, a line for each process and each GPU\n"
        "  --torch=tensors          PyTorch: the pool has each tensor, not blocks of "
        "them\n"
        "  --nvtx                   NVTX ranges of the program are scopes in the report\n"
        "  --print                  write the command with its variables, run nothing\n"
        "  --help=all, --version    every option (docs/options.md); the version\n"
        "\n"
        "Each option sets a variable: --pool-segment=32M is GPUSHIM_POOL_SEGMENT=32M. A\n"
        "command whose name is one of these words: gpushim -- report.");
    if (all) {
        puts("\n"
             "--watch=WAY\n"
             "  who writes the report of a process that was killed (docs/state.md): "
             "auto;\n"
             "  beside: a process beside the command, which takes the launcher's place;\n"
             "  parent: the launcher waits for the reports; off: nobody");
        gs_options_help(GS_OPTIONS_AS_ARGUMENTS, write_help, NULL);
    }
}

#define REPORT_HELP                                                                      \
    "A REPORT is the JSON that a program wrote with --output=json, or the state file\n"  \
    "that it was given with --state-file."

static void show_report_help(void)
{
    puts("usage: gpushim [options] report [options] STATE_FILE...\n"
         "\n"
         "Writes to standard output what a program had that was killed, or still runs, "
         "by\n"
         "the file that it was given with --state-file.\n"
         "\n"
         "  --summary                a line for each file, and one for all\n"
         "  --leak-max=NUMBER        call sites written out\n"
         "  --suppressions=FILE      leaks that are known\n"
         "  --output=json --output-file=FILE\n"
         "                           the report for programs\n"
         "\n"
         "Every option of gpushim --help=all that says what is reported has its effect.");
}

static void show_html_help(void)
{
    puts("usage: gpushim [options] html [options] REPORT\n"
         "\n"
         "Writes a report as one page for a browser, which loads nothing else: flame\n"
         "graphs of what leaked and of the peaks, a table of call sites, errors with\n"
         "their stacks.\n"
         "\n"
         "  -o PAGE                  its file, - is standard output; else run.html for\n"
         "                           run.json\n"
         "  --timeline=TRACE         with what was live over time, by call site: the "
         "trace "
         "of\n"
         "                           the state file's run (--trace-file)\n"
         "  --suppressions=FILE      leaks of a state file that are known\n"
         "\n" REPORT_HELP);
}

static void show_diff_help(void)
{
    puts(
        "usage: gpushim [options] diff [options] REPORT REPORT\n"
        "\n"
        "Compares two runs: call sites whose leaked (or live) memory is new, has grown,\n"
        "has shrunk or is gone, by growth.\n"
        "\n"
        "  --fail-on=new,grown:10%  end with status 3 if a call site is new, or has\n"
        "                           grown by more than a tenth; also new:SIZE and\n"
        "                           grown:SIZE\n"
        "  --of=peak                who had the memory at the peaks, instead of leaks\n"
        "  --leak-max=NUMBER        call sites written out\n"
        "  --suppressions=FILE      leaks of a state file that are known\n"
        "\n" REPORT_HELP);
}

static void show_merge_help(void)
{
    puts("usage: gpushim [options] merge [options] REPORT|FOLDER...\n"
         "\n"
         "Adds up many processes, such as the ranks of a job: a line for each call site\n"
         "with the sum, the most and the least of a process, and how many have it; then "
         "a\n"
         "line for each process. Of a FOLDER all its reports.\n"
         "\n"
         "  --of=peak                who had the memory at the peaks, instead of leaks\n"
         "  --leak-max=NUMBER        call sites written out\n"
         "  --suppressions=FILE      leaks of state files that are known\n"
         "\n" REPORT_HELP);
}

static void show_top_help(void)
{
    puts(
        "usage: gpushim [options] top [options] [FOLDER|STATE_FILE...]\n"
        "\n"
        "Shows what running processes have on each device, refreshed, by the files that\n"
        "they were given with --state-file; without a name, those in the folder of\n"
        "GPUSHIM_STATE_FILE, or here. On a terminal keys choose, sort and filter, and\n"
        "show call stacks: h lists them. Elsewhere it is plain text, written once.\n"
        "\n"
        "  -d SECONDS               between two refreshes, 1 unless given\n"
        "  -n NUMBER                refreshes, then end\n"
        "  --once                   plain text, once");
}

static void show_timeline_help(void)
{
    puts(
        "usage: gpushim timeline [options] TRACE [STATE_FILE]\n"
        "\n"
        "Converts what --trace-file recorded, each allocation from its beginning to its\n"
        "end, for a program that shows it. Call stacks come from the STATE_FILE of the\n"
        "same run (--state-file).\n"
        "\n"
        "  --as=perfetto            for ui.perfetto.dev and chrome://tracing (the "
        "default)\n"
        "  --as=memory_viz          for pytorch.org/memory_viz: memory of devices\n"
        "  --as=heaptrack           for heaptrack_gui and heaptrack_print\n"
        "  --as=massif              for ms_print and massif-visualizer\n"
        "  --most=NUMBER            the largest allocations, 100000 unless given, one "
        "by\n"
        "                           one (heaptrack, massif: all, by call stack)\n"
        "  -o FILE                  - is standard output; else the name of the trace, "
        "with\n"
        "                           .perfetto.json, .pickle, .heaptrack or .massif");
}

static void show_pause_help(void)
{
    puts(
        "usage: gpushim pause [--wait=SECONDS] PID...\n"
        "       gpushim resume [--wait=SECONDS] PID...\n"
        "\n"
        "pause copies the GPU memory of running processes to the host and frees it for\n"
        "others: their CUDA calls block until resume copies it back, to the same\n"
        "addresses. Any CUDA process will do, with or without the library. The driver "
        "does\n"
        "it: that of CUDA 12.8 (570) or later, x86-64.\n"
        "\n"
        "  --wait=SECONDS           how long the work of a process may take until it is\n"
        "                           paused, and how long a resume tries to get memory,\n"
        "                           10 unless given");
}

void gs_help_show(enum gs_verb verb, bool all)
{
    static void (*const texts[])(void) = {
        [GS_VERB_REPORT] = show_report_help,     [GS_VERB_HTML] = show_html_help,
        [GS_VERB_TIMELINE] = show_timeline_help, [GS_VERB_DIFF] = show_diff_help,
        [GS_VERB_MERGE] = show_merge_help,       [GS_VERB_TOP] = show_top_help,
        [GS_VERB_PAUSE] = show_pause_help,       [GS_VERB_RESUME] = show_pause_help};
    if (verb < GS_ARRAY_LEN(texts) && texts[verb]) {
        texts[verb]();
    } else {
        show_help(all);
    }
}
