/*
 * help.c - the texts of --help and usage.
 *
 * Owns: nothing.   Lock: none.   Source: shim/settings/options.def
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/settings/options.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/replay/foreign.h"

#define REPORT_HELP                                                                      \
    "A REPORT is a JSON file of --output=json, or a state file of --state-file."

static const char report_help[] =
    "Writes the report of a program that was killed, or that still runs, to standard\n"
    "output. STATE_FILE is the file of its --state-file.\n"
    "\n"
    "  --summary                a line for each file, and a total\n"
    "  --leak-max=NUMBER        call sites to list\n"
    "  --suppressions=FILE      suppress known leaks\n"
    "  --output=json --output-file=FILE\n"
    "                           also write the report as JSON\n"
    "\n"
    "All options of gpushim --help=all in the section Report work here, too.\n";

static const char html_help[] =
    "Writes one HTML page, which needs no network: flame graphs of leaks and peaks, a\n"
    "table of call sites, errors with their stacks. With the trace of a run it also\n"
    "has a chart of live memory over time, and the flame graph of any time or range.\n"
    "A trace with its state file has call sites; a trace alone has only sizes. For a\n"
    "folder or several files, the page lets you choose the process.\n"
    "\n"
    "  gpushim --trace-file=app.trace --state-file=app.state ./app\n"
    "  gpushim html app.trace app.state\n"
    "\n"
    "  -o PAGE                  the file to write, - for standard output; default:\n"
    "                           run.html for run.json, gpushim.html for a folder\n"
    "  --timeline=TRACE         same as TRACE\n"
    "  --suppressions=FILE      suppress known leaks of a state file\n"
    "\n" REPORT_HELP "\n";

static const char diff_help[] =
    "Compares two runs: call sites whose leaked (or live) memory is new, has grown,\n"
    "has shrunk or is gone, sorted by growth.\n"
    "\n"
    "  --fail-on=new,grown:10%  end with status 3 if a call site is new, or has\n"
    "                           grown by more than 10 %; also new:SIZE, grown:SIZE\n"
    "  --of=peak                memory at the peaks instead of leaks\n"
    "  --markdown               a table, for a comment on a pull request\n"
    "  --json                   all call sites as JSON\n"
    "  --leak-max=NUMBER        call sites to list\n"
    "  --suppressions=FILE      suppress known leaks of a state file\n"
    "\n" REPORT_HELP "\n";

static const char merge_help[] =
    "Adds up many processes, such as the ranks of a job: a line for each call site\n"
    "with the sum, the largest and the smallest process, and how many processes have\n"
    "it; a line for each scope; then one for each process. FOLDER stands for all\n"
    "reports in it.\n"
    "\n"
    "  --of=peak                memory at the peaks instead of leaks\n"
    "  --markdown               tables, for a comment on a pull request\n"
    "  --json                   all call sites, scopes and processes as JSON\n"
    "  --leak-max=NUMBER        call sites and scopes to list\n"
    "  --suppressions=FILE      suppress known leaks of state files\n"
    "\n" REPORT_HELP "\n";

static const char top_help[] =
    "Shows the memory of running processes on each device, and refreshes it. Without\n"
    "names: your processes (as root: all users') under gpushim with a CUDA context,\n"
    "and the state files in the folder of GPUSHIM_STATE_FILE, or in this folder. With\n"
    "names: only these state files. On a terminal, keys select, sort and filter\n"
    "processes, show call stacks and scopes (h lists them). Elsewhere plain text, once.\n"
    "\n"
    "  -d SECONDS               time between refreshes (default 1)\n"
    "  -n NUMBER                end after this many refreshes\n"
    "  --once                   plain text, once\n";

static const char timeline_help[] =
    "Converts a trace of --trace-file, with the lifetime of each allocation, for\n"
    "another viewer. Call stacks come from the STATE_FILE of the same run\n"
    "(--state-file).\n"
    "\n"
    "  --as=perfetto            for ui.perfetto.dev and chrome://tracing (default)\n"
    "  --as=memory_viz          for pytorch.org/memory_viz: memory of devices\n"
    "  --as=heaptrack           for heaptrack_gui and heaptrack_print\n"
    "  --as=massif              for ms_print and massif-visualizer\n"
    "  --most=NUMBER            keep this many of the largest allocations (default\n"
    "                           100000; heaptrack, massif: all, by call stack)\n"
    "  -o FILE                  the file to write, - for standard output; default:\n"
    "                           the name of the trace with .perfetto.json, .pickle,\n"
    "                           .heaptrack or .massif\n";

static const char pause_help[] =
    "pause copies the GPU memory of running processes to the host and frees it on the\n"
    "GPU. Their CUDA calls block until resume copies the memory back, to the same\n"
    "addresses. Works for any CUDA process, with or without gpushim; needs the driver\n"
    "of CUDA 12.8 (570) or later, on x86-64.\n"
    "\n"
    "  --wait=SECONDS           pause: how long to wait for running work;\n"
    "                           resume: how long to retry if the GPU is full\n"
    "                           (default 10)\n";

static const char attach_help[] =
    "attach records, from now on, the allocations of a process that was started\n"
    "without gpushim. Options are those of gpushim, such as --stack=depth:64. The pool\n"
    "stays off, and the process's output is unchanged: stats, dump, owners and top\n"
    "show what was recorded. detach writes the report; the process continues without\n"
    "gpushim.\n"
    "\n"
    "  --for=SECONDS            attach: detach after this time\n"
    "  --wait=SECONDS           how long to wait for the process (default 10)\n";

#define REQUEST_OPTIONS                                                                  \
    "\n"                                                                                 \
    "  NAME                     every process with this program's or script's name\n"    \
    "  --all                    all your processes; as root: all users' processes\n"     \
    "  --wait=SECONDS           how long to wait for an answer (default 10)\n"
#define REQUEST_HELP                                                                     \
    "The process must run under gpushim and have a CUDA context (and not have\n"         \
    "GPUSHIM_CONTROL=off).\n" REQUEST_OPTIONS

static const char stats_help[] =
    "Writes how much memory a running process has on each device, and how much pinned\n"
    "memory.\n" REQUEST_HELP
    "  --json                   all counters, a line for each process\n";

static const char dump_help[] =
    "Writes the current report of a running process: its live memory, with call\n"
    "stacks. The program continues.\n" REQUEST_HELP;

static const char owners_help[] =
    "Writes how much live memory each program, library and source file of a running\n"
    "process has.\n" REQUEST_HELP;

static const char set_help[] =
    "Changes an option of a running process, such as verbose=3, leak-max=50 or\n"
    "pool-limit=8G. PID alone lists the options that can be changed, with their\n"
    "values; PID NAME writes one value.\n" REQUEST_HELP;

static const char trim_help[] =
    "Makes a running process return its pool's idle GPU memory to the driver, once\n"
    "its GPU is idle.\n" REQUEST_HELP;

static const char release_help[] =
    "Frees the GPU memory of a scope of a running process, once the work on the memory\n"
    "has completed; its addresses stay reserved until resume. The process must run\n"
    "with --releasable=SCOPE (docs/tuning.md) and have a CUDA context.\n" REQUEST_OPTIONS
    "  --plain                  keep the contents in memory that is not page-locked\n"
    "  --discard                discard the contents\n";

static const char resume_help[] =
    "resume PID undoes pause: copies the GPU memory of a process back from the host.\n"
    "resume PID SCOPE undoes release: allocates the memory of the scope again, and\n"
    "restores its contents.\n" REQUEST_OPTIONS
    "                           resume PID: how long to retry if the GPU is full\n";

static const char trace_help[] =
    "Records every allocation and free of a running process, with what is live when\n"
    "it begins, until Ctrl-C or for a time; then writes FILE, and FILE.state with the\n"
    "call stacks. The program continues.\n"
    "\n"
    "  gpushim trace --for=10 4711 app.trace; gpushim html app.trace app.trace.state\n"
    "\n"
    "The process must run under gpushim and have a CUDA context (and not have\n"
    "GPUSHIM_CONTROL=off). gpushim set PID trace-limit=SIZE limits the file.\n"
    "\n"
    "  --for=SECONDS            end after this time\n"
    "  NAME                     the process with this program's or script's name\n"
    "  --wait=SECONDS           how long to wait for an answer (default 10)\n";

static const char export_help[] =
    "Writes the current report of a running process to standard output in a FORMAT of\n"
    "--output: json, pprof, openmetrics, csv and others. The program continues. FORMAT\n"
    "state is a state file, for gpushim report, html, diff, merge and timeline.\n"
    "\n"
    "  gpushim export 4711 pprof >heap.pb; go tool pprof -http=: heap.pb\n"
    "\n"
    "The process must run under gpushim and have a CUDA context (and not have\n"
    "GPUSHIM_CONTROL=off).\n"
    "\n"
    "  NAME                     the process with this program's or script's name\n"
    "  --wait=SECONDS           how long to wait for an answer (default 10)\n";

static const char general_help[] =
    "Runs the command with libgpushim.so preloaded: GPU memory comes from a pool, and\n"
    "what is still allocated at exit, or at Ctrl-C or a crash, is reported.\n"
    "\n"
    "  --error-exitcode=NUMBER  fail CI: end with this status after leaks or errors\n"
    "  --error-no-cuda          and also if the command made no CUDA call\n"
    "  --suppressions=FILE      known leaks; --write-suppressions=FILE adds new ones\n"
    "  --check-redzone=SIZE     find overruns; also --check-args, --check-fill=poison\n"
    "  --verbose=2              call sites of the peak, the pool's statistics\n"
    "  --stats-interval=TIME    at this interval, what is live and what grows: 1m\n"
    "  --state-file=FILE        state for gpushim report FILE, even after kill -9\n"
    "  --trace-file=FILE        record a chart over time, see gpushim html --help\n"
    "  --torch=tensors          PyTorch: allocate each tensor from gpushim's pool\n"
    "  --log-file=FILE          write the report to FILE (%p: process id, %r: rank)\n"
    "  --output=json            additional report formats: json, junit, journal ...\n"
    "  --full-paths             whole paths of source files, which editors open\n"
    "  --summary                at the end, a line for each process and each GPU\n"
    "  --mem-limit=SIZE         cap the GPU memory of the program: 8G, 50%\n"
    "  --stack=off, --no-pool   no call stacks (fastest); no pool, only the report\n"
    "  --help=all, --print      all options (docs/options.md); show the command only\n"
    "\n"
    "Subcommands, each with --help:\n"
    "  report STATE_FILE...     the report of a process that was killed or runs\n"
    "  html REPORT|TRACE        one page for a browser: flame graphs, chart over time\n"
    "  timeline TRACE           allocations over time, for Perfetto, heaptrack, ...\n"
    "  diff REPORT REPORT       call sites whose leaks are new, grew or are gone\n"
    "  merge REPORT|FOLDER...   the sum over processes, such as the ranks of a job\n"
    "  top [FOLDER]             the memory of running processes, refreshed\n"
    "  stats|dump|owners|export|trace|set|trim PID  ask a running process, change it\n"
    "  serve [--listen=ADDRESS] metrics, profiles and pages of all processes, by HTTP\n"
    "  cdi [--folder=FOLDER]    a device for containers, see gpushim cdi --help\n"
    "  attach PID, detach PID   record a process that was started without gpushim\n"
    "  pause PID, release PID SCOPE, resume  move GPU memory to the host, and back\n"
    "  replay TRACE...          run a recorded trace through the pool, and measure it\n"
    "  advise TRACE             find better settings of the pool for a trace\n"
    "\n"
    "Each option sets a variable: --pool-segment=32M is GPUSHIM_POOL_SEGMENT=32M.\n"
    "To run a program called \"report\": gpushim -- report.\n";

static const char watch_help[] =
    "\n--watch=WAY\n"
    "  which process writes the report of a killed process (docs/state.md):\n"
    "  beside: a helper process, while the command replaces the launcher;\n"
    "  parent: the launcher, which waits for the command; off: none; auto: as needed\n";

static const char serve_help[] =
    "Answers HTTP requests about your processes (as root: all users') under gpushim\n"
    "with a CUDA context, until Ctrl-C or SIGTERM.\n"
    "\n"
    "  /                        a table for a browser, refreshed; links to:\n"
    "  /process?pid=N           the report of a process, as a page\n"
    "  /metrics                 all processes, for Prometheus\n"
    "  /debug/pprof/heap?pid=N  a profile for go tool pprof, Pyroscope, Parca; also\n"
    "                           /debug/pprof/allocs, and name=PROGRAM for pid=N\n"
    "  /healthz                 ok\n"
    "\n"
    "  --listen=ADDRESS         ADDRESS:PORT, PORT or unix:FILE (default\n"
    "                           127.0.0.1:19400); other machines need --token-file\n"
    "  --token-file=FILE        answer only requests with Authorization: Bearer and\n"
    "                           the first line of FILE\n"
    "  --pod-logs=FOLDER        where Kubernetes has links to the logs of containers,\n"
    "                           for names of pods (default /var/log/containers)\n"
    "\n"
    "Needs libmicrohttpd (package libmicrohttpd12 or libmicrohttpd12t64).\n";

static const char cdi_help[] =
    "Writes a specification of the Container Device Interface to standard output, for\n"
    "Podman, Docker, containerd and CRI-O: a device that puts the library into a\n"
    "container, with the options given here.\n"
    "\n"
    "  gpushim cdi --name=leak --leak-scan >/etc/cdi/gpushim-leak.json\n"
    "  podman run --device gpushim.dev/leak=on IMAGE\n"
    "\n"
    "  --name=NAME              the devices are gpushim.dev/NAME=on and NAME=file\n"
    "                           (default: default)\n"
    "  --folder=FOLDER          a folder of the machine, mounted at the same path:\n"
    "                           reports and state files are written there\n"
    "\n"
    "=on sets LD_PRELOAD, and replaces the image's; =file mounts /etc/ld.so.preload\n"
    "instead. Variables of the device replace those of the image and of -e.\n";

#define REQUEST_MANY "PID|NAME...|--all"
#define REQUEST_ONE  "PID|NAME"
#define ATTACH_USAGE                                                                     \
    "usage: gpushim [options] attach [--for=SECONDS] [--wait=SECONDS] PID...\n"          \
    "       gpushim detach [--wait=SECONDS] PID...\n"

/* Each line of usage begins with "usage: " or as much space. */
#define PAUSE_USAGE                                                                      \
    "usage: gpushim pause [--wait=SECONDS] PID...\n"                                     \
    "       gpushim resume [--wait=SECONDS] PID...\n"

static const struct {
    const char *usage;
    const char *text; /* NULL: the subcommand has a --help of its own */
} helps[] = {
    [GS_VERB_RUN] = {"usage: gpushim [options] [run] [--] command [args...]\n"
                     "       gpushim SUBCOMMAND [args...]\n",
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
    [GS_VERB_SERVE] = {"usage: gpushim serve [--listen=ADDRESS] [--token-file=FILE] "
                       "[--pod-logs=FOLDER]\n",
                       serve_help},
    [GS_VERB_CDI] = {"usage: gpushim [options] cdi [--name=NAME] [--folder=FOLDER]\n",
                     cdi_help},
    [GS_VERB_ATTACH] = {ATTACH_USAGE, attach_help},
    [GS_VERB_DETACH] = {ATTACH_USAGE, attach_help},
    [GS_VERB_REPLAY] = {"usage: gpushim [options] replay [options] TRACE...\n", NULL},
    [GS_VERB_ADVISE] = {"usage: gpushim [options] advise [options] TRACE\n", NULL},
#define GS_REQUEST(word, verb, processes, argument)                                      \
    [GS_VERB_##verb] = {"usage: gpushim " #word                                          \
                        " [options] " REQUEST_##processes argument "\n",                 \
                        word##_help},
#include "shim/control/requests.def"
};

bool gs_help_has_options(enum gs_verb verb)
{
    static const char begin[] = "usage: gpushim [options] ";
    return strncmp(helps[verb].usage, begin, strlen(begin)) == 0;
}

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
