/*
 * launcher.h - the program gpushim: runs a command with the library preloaded, shows
 * reports (as text, as a page, compared, added up), pauses processes, replays a trace, or
 * writes what container runtimes read.
 *
 * Locks: none; one thread.   Design: docs/architecture.md
 */
#ifndef GS_LAUNCHER_H
#define GS_LAUNCHER_H

#include <stdio.h>

#include "shim/settings/options_table.h"
#include "shim/settings/output.h"

/* Exit statuses of the launcher itself; the last two are those of a shell. 3: diff has
 * found what --fail-on names. */
enum {
    GS_EXIT_USAGE = 2,
    GS_EXIT_FAILED_ON = 3,
    GS_EXIT_CANNOT_RUN = 126,
    GS_EXIT_NOT_FOUND = 127
};

/* ---- messages (messages.c) ---- */

/* Writes a line "gpushim: ..." to stderr. */
void gs_launcher_warn(const char *format, ...) GS_PRINTF(1, 2);
/* The same, and ends the launcher. */
__attribute__((noreturn)) void gs_launcher_fail(int status, const char *format, ...)
    GS_PRINTF(2, 3);

/* ---- the command line (arguments.c) ---- */

/* What the first word that is no option asks for; the word itself is removed. */
enum gs_verb {
    GS_VERB_RUN,
    GS_VERB_REPORT,
    GS_VERB_HTML,
    GS_VERB_DIFF,
    GS_VERB_MERGE,
    GS_VERB_TOP,
    GS_VERB_TIMELINE,
    GS_VERB_PAUSE,
    GS_VERB_REPLAY,
    GS_VERB_ADVISE,
    GS_VERB_SERVE,
    GS_VERB_CDI,
    GS_VERB_ATTACH,
    GS_VERB_DETACH,
#define GS_REQUEST(word, verb, processes, argument) GS_VERB_##verb,
#include "shim/control/requests.def"
    GS_VERBS
};

/* Who writes the report of a process that could not (run.c). */
enum gs_watch_way {
    GS_WATCH_AUTO,
    GS_WATCH_BESIDE, /* the watcher; the command takes the launcher's place */
    GS_WATCH_PARENT, /* the watcher; the launcher waits, as the command's parent */
    GS_WATCH_OFF     /* nobody */
};

struct gs_arguments {
    enum gs_verb verb;
    enum gs_watch_way watch;
    bool summary, print, log_file, nvtx;
    bool error_no_cuda;  /* no CUDA call is an error for --error-exitcode */
    const char *page;    /* -o FILE of html and timeline; NULL: next to the report */
    const char *as;      /* of timeline: the format; NULL: the first one */
    const char *trace;   /* --timeline of html; NULL: none */
    const char *most;    /* of timeline: allocations shown; NULL: the default */
    const char *fail_on; /* of diff; NULL: nothing fails */
    const char *of;      /* of diff and merge: "leaks" or "peak"; NULL: leaks */
    const char *delay, *rounds, *once; /* -d, -n and --once of top; NULL: not given */
    const char *wait;                  /* of pause, attach, requests; NULL: the default */
    const char *stay;                  /* --for of attach and trace; NULL: not given */
    const char *every;                 /* --all of requests; NULL: not given */
    const char *json;            /* --json of stats, diff and merge; NULL: not given */
    const char *markdown;        /* of diff and merge; NULL: not given */
    const char *discard, *plain; /* of release; NULL: not given */
    const char *listen, *token_file, *pod_logs; /* of serve; NULL: not given */
    const char *name, *folder;                  /* of cdi; NULL: not given */
    const char *last_switch; /* the option just before the command, if it is a switch
                              * written without a value */
    const char *preload;     /* LD_PRELOAD of the command */
    char **all;              /* every word of the launcher's */
    char **command;          /* or files; NULL at the end; empty if there is none */
};

/* Reads the options before the command and sets their variables. For `report` and the
 * like, options may also stand among the files; `replay` and `advise` read what is left,
 * their own options and files. Ends the launcher on bad usage, --help and --version. */
void gs_arguments_read(char **words, struct gs_arguments *out);
/* Sets a variable of the command, as an option does. */
void gs_arguments_set(const char *variable, const char *value);
/* Returns whether an option has set it. */
bool gs_arguments_is_set(const char *variable);
/* The variables that options set, in their order; NULL after the last one. */
const char *gs_arguments_set_at(size_t index);
/* The word of a verb that is not GS_VERB_RUN. */
const char *gs_arguments_word(enum gs_verb verb);
/* Ends the command with GS_EXIT_USAGE and a line if an option could have no effect here,
 * or its file cannot be used. refuse.c. */
void gs_arguments_refuse(const struct gs_arguments *arguments);
/* The subcommand that a word is likely meant to be; NULL: none is near, or it is one. */
const char *gs_arguments_verb_near(const char *word);
/* Writes the variables that options set, as words "NAME=value " for a shell. */
void gs_arguments_print_set(void);

/* ---- values of options (values.c) ---- */

/* Ends the launcher with a line if the text is no value of the option.
 * In: label  what precedes the value in the line: "--leak-max="; NULL: the option's */
void gs_value_check(const struct gs_option *option, const char *label, const char *value);
/* The value of a variable that is a number or a switch, as the command will have it; its
 * default if it is not set or malformed. */
uint64_t gs_value_now(enum gs_option_row row);
/* The number that a word is. Ends the launcher with a line if the word is none from
 * `least` to `most`. In:  what  the line's subject: "--wait" */
unsigned long gs_value_number(const char *what, const char *word, unsigned long least,
                              unsigned long most);

/* ---- variables that are lists (lists.c) ---- */

/* Replaces each list in the environment by the variables of its items' own options, which
 * is how the launcher has all options. Says which variables have another name now. */
void gs_lists_split(void);
/* Sets the options of a list that is the value of an option. Ends the launcher with a
 * line if it has an unknown item, or a value that is none. */
void gs_lists_take(unsigned list, const char *value);
/* The same without setting anything. */
void gs_lists_check(unsigned list, const char *value);
/* The opposite of gs_lists_split, for the command. */
void gs_lists_join(void);

/* ---- help (help.c) ---- */

/* Writes the help of a subcommand, or of gpushim itself (all: with every option), to
 * standard output. Not for replay and advise, which have their own. */
void gs_help_show(enum gs_verb verb, bool all);
/* Returns whether the options of variables are of use to a subcommand. */
bool gs_help_has_options(enum gs_verb verb);
/* Ends the launcher for wrong usage, with a line that names it and the subcommand's
 * usage. */
__attribute__((noreturn)) void gs_help_refuse(enum gs_verb verb, const char *format, ...)
    GS_PRINTF(2, 3);

/* ---- words (words.c) ---- */

/* Removes words that are there before. */
void gs_words_once(char **words);

/* Writes a word, quoted for a shell where needed: with control characters as $'\033',
 * which bash, zsh and POSIX 2024 read. */
void gs_words_print(const char *word);

/* ---- files that options name (paths.c) ---- */

/* Makes the relative names in the variables of the command absolute. */
void gs_paths_make_absolute(void);
/* The value of an option, by its row, with absolute names of files: from malloc; NULL: as
 * it is. */
char *gs_path_absolute(size_t row, const char *value);
/* Removes each data file whose NAME is in the list, too (output_map.h), as a shell's
 * pattern gives them. */
void gs_paths_leave_data(char **paths);
/* Returns whether one of the files and folders exists; if none does, a line for each says
 * why not. */
bool gs_paths_any_exists(char *const *paths);

/* ---- the program (command.c) ---- */

/* The kind of machine that an ELF file is for: class, data and machine of its header. */
struct gs_elf_kind {
    unsigned char bytes[4];
    bool is_elf;
};

struct gs_elf_kind gs_elf_kind_read(const char *path);
bool gs_elf_kind_same(struct gs_elf_kind a, struct gs_elf_kind b);
/* "64-bit x86-64" and the like. Returns `out`. */
const char *gs_elf_kind_text(struct gs_elf_kind kind, char out[32]);

/* The N of the oldest glibc, 2.N, that a library runs with; 0: not known. */
unsigned gs_elf_glibc_minor(const char *path);

struct gs_command {
    char
        path[4096]; /* of the ELF file that will run; a script leads to its interpreter */
    struct gs_elf_kind kind;
    bool is_script;       /* the command is a script of that interpreter */
    bool preloads;        /* it has a dynamic linker, which preloads libraries */
    char sanitizer[4096]; /* the sanitizer runtime that it is linked with; "" if none */
};

/* Finds the program that a command runs. Ends the launcher where a shell would. */
void gs_command_find(const struct gs_arguments *arguments, struct gs_command *out);
/* Fills in `preloads` and `sanitizer`; warns of a program that ignores LD_PRELOAD. */
void gs_command_examine(struct gs_command *command);

/* Becomes the command, whose words are `words`. Returns if that fails, with errno set. */
void gs_command_become(const struct gs_command *command, char **words);

/* ---- the library (library.c) ---- */

/* The value of LD_PRELOAD for a command, from malloc. Ends the launcher if no library
 * fits. */
char *gs_library_preload(const struct gs_command *command);

/* The library that gs_library_preload has chosen. */
const char *gs_library_path(void);

/* The library for programs that are not known yet: a path that lives as long as the
 * launcher. Ends the launcher if there is none. */
const char *gs_library_of_any(void);

/* ---- running it (run.c) ---- */

/* Becomes the command, with the watcher as a second process; or runs the command as a
 * child, and ends as the command did. Returns if the command cannot be run, with errno
 * set. */
void gs_run_command(const struct gs_command *command,
                    const struct gs_arguments *arguments);

/* ---- the file that a command writes (page.c) ---- */

struct gs_page {
    struct gs_output_file file;
    const char *what; /* "HTML", for messages */
    const char *path; /* the caller's */
    bool to_stdout;
    uint64_t bytes;
};

/* "-" is standard output. `sources`, with NULL at the end: files that it must not
 * replace. Ends the launcher, as gs_page_close does, if the file cannot be written. */
void gs_page_open(struct gs_page *page, const char *what, const char *path,
                  char *const *sources);
/* False: failed. For gs_export_sink. */
bool gs_page_put(void *page, const void *data, size_t length);
/* Returns the exit status; writes the file's name and size to standard output. */
int gs_page_close(struct gs_page *page);

/* ---- a page for a browser (html.c) ---- */

/* Writes the page of the one file among the words. Returns the exit status; ends the
 * launcher if the file is no report, or the page cannot be written. */
int gs_html_write(const struct gs_arguments *arguments);
/* Makes the page of one report, JSON. out->truncated: no memory. */
struct gs_text;
void gs_html_of_report(const char *json, struct gs_text *out);

/* ---- comparisons and sums (compare.c) ---- */

/* Compares the two reports among the words. Returns the exit status. */
int gs_diff_run(const struct gs_arguments *arguments);
/* Adds up the reports among the words. Returns the exit status. */
int gs_merge_run(const struct gs_arguments *arguments);
/* Writes a line for each process whose report is at the paths, a NULL after them, and
 * sums. ended: processes, a pid 0 after them; NULL: not known. Returns the exit
 * status. */
struct gs_state_ended;
int gs_summary_write(char *const *paths, const struct gs_state_ended *ended);

/* ---- what runs (top.c) ---- */

/* Shows the processes whose state files, or folders of them, are among the words. Returns
 * the exit status. */
int gs_top_run(const struct gs_arguments *arguments);

/* ---- processes without GPU memory (pause.c) ---- */

/* Pauses or resumes the processes among the words. Returns the exit status: 1 if one of
 * them could not be. */
int gs_pause_run(const struct gs_arguments *arguments);

/* ---- processes that were started without gpushim (attach.c) ---- */

/* Attaches to the processes among the words, or detaches from them. Returns the exit
 * status: 1 if one of them could not be. */
int gs_attach_run(const struct gs_arguments *arguments);

/* ---- what running processes answer (request.c) ---- */

/* Returns whether the words of `resume` name a scope; else they are paused processes. */
bool gs_request_names_scope(const struct gs_arguments *arguments);
/* The process that a word names: its number, or the one that answers of this program's or
 * script's name. 0: there is none, or several; a line has said so. */
pid_t gs_request_process(const char *name);
/* Asks the processes among the words. Returns the exit status: 1 if one has not done it.
 */
int gs_request_run(const struct gs_arguments *arguments);

/* ---- a trace of a running process (trace.c) ---- */

/* Records until Ctrl-C, the time of --for, or the process's end. Returns the exit status:
 * 1 if the trace or its call stacks are missing. */
int gs_trace_run(const struct gs_arguments *arguments);

/* ---- all processes by HTTP (serve.c) ---- */

/* Serves until a signal ends it. Returns the exit status. */
int gs_serve_run(const struct gs_arguments *arguments);

/* ---- a device for containers (cdi.c) ---- */

/* Writes the specification to standard output. Returns the exit status; ends the launcher
 * if what was asked for cannot be one. */
int gs_cdi_write(const struct gs_arguments *arguments);

/* ---- a trace for other programs (timeline.c) ---- */

/* Converts the trace among the words. Returns the exit status. */
int gs_timeline_run(const struct gs_arguments *arguments);

#endif
