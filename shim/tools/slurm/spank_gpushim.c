/*
 * spank_gpushim.c - a plug-in of Slurm: srun --gpushim[=OPTIONS] ./app
 *
 * A task gets the environment that the command gpushim of its node gives a command with
 * these options. Its reports and state files are in a folder of the step, of which srun
 * writes the sum at the end, where its own output goes. Steps without the option stay as
 * they are. What cannot be set up costs a line, never the task.
 *
 * Owns: the option's words and the folder's name.   Lock: none; one thread of srun, of
 *       slurmstepd or of the task calls.
 * Design: docs/clusters.md, "Slurm"   Source: spank(7)
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* srun passes SLURM_* on also with --export=NONE. */
#define FOLDER_VARIABLE "SLURM_GPUSHIM_FOLDER"
#define FOLDERS_MOST    100

#define WORDS_BYTES 4096
#define WORDS_MOST  256

/* As of a shell. */
#define NOT_RUN   126
#define NOT_FOUND 127

/* What Slurm looks up. */
#pragma GCC visibility push(default)
SPANK_PLUGIN(gpushim, 1)
int slurm_spank_init(spank_t spank, int count, char **arguments);
int slurm_spank_local_user_init(spank_t spank, int count, char **arguments);
int slurm_spank_task_init(spank_t spank, int count, char **arguments);
int slurm_spank_exit(spank_t spank, int count, char **arguments);
#pragma GCC visibility pop

static char command[PATH_MAX];
static char options[WORDS_BYTES]; /* separated by NULs */
static size_t options_length;
static bool used;
static char folder[PATH_MAX]; /* in srun; "": none */

/* ---- the command gpushim ---------------------------------------------------------- */

/* A command line: the words of the option between those of the plug-in. */
struct line {
    const char *words[WORDS_MOST];
    size_t count;
};

static void add(struct line *line, const char *word)
{
    if (line->count < WORDS_MOST - 1) {
        line->words[line->count++] = word;
    }
}

static void add_options(struct line *line)
{
    for (const char *word = options; word < options + options_length;
         word += strlen(word) + 1) {
        if (word[0]) {
            add(line, word);
        }
    }
}

/* Starts the command; its standard output is `output`. Returns its process; -1: none. */
static pid_t start(const struct line *line, int output, char **env)
{
    pid_t child = fork();
    if (child != 0) {
        return child;
    }
    if (dup2(output, STDOUT_FILENO) == STDOUT_FILENO) {
        execve(command, (char **)(uintptr_t)line->words, env);
    }
    _exit(NOT_FOUND);
}

/* Returns the exit status, NOT_FOUND if the command could not run. */
static int wait_for(pid_t child)
{
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return NOT_FOUND;
        }
    }
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : NOT_FOUND;
}

/* ---- the option -------------------------------------------------------------------- */

/* Returns whether a word is an option that concerns a task. */
static bool is_for_tasks(const char *word)
{
    static const char others[][16] = {"--print",   "--summary", "--help",
                                      "--version", "--watch",   "--error-no-cuda"};
    if (strncmp(word, "--", 2) != 0 || !word[2]) {
        slurm_error("gpushim: %s: not an option of the form --NAME or --NAME=VALUE",
                    word);
        return false;
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        size_t length = strlen(others[i]);
        if (strncmp(word, others[i], length) == 0 &&
            (word[length] == '\0' || word[length] == '=')) {
            slurm_error("gpushim: %s has no effect with srun", word);
            return false;
        }
    }
    return true;
}

/* Returns whether the command takes the options; it says what is wrong with them. */
static bool are_right(void)
{
    struct line line = {.count = 0};
    int status = NOT_FOUND;
    add(&line, command);
    add(&line, "--print");
    add_options(&line);
    for (size_t i = 2; i < line.count; i++) {
        if (!is_for_tasks(line.words[i])) {
            return false;
        }
    }
    add(&line, "--");
    add(&line, "true");
    FILE *nowhere = fopen("/dev/null", "we");
    if (nowhere) {
        status = wait_for(start(&line, fileno(nowhere), environ));
        (void)fclose(nowhere);
    }
    if (status == NOT_FOUND) { /* it may be installed on the nodes alone */
        slurm_error("gpushim: %s cannot be run here: options are not checked", command);
    }
    return status == 0 || status == NOT_FOUND;
}

/* srun ends if this fails. */
static int take_option(int value, const char *text, int remote)
{
    (void)value;
    text =
        text && strcmp(text, "(null)") != 0 ? text : ""; /* Slurm's word for no value */
    options_length = strlen(text);
    if (options_length >= sizeof(options)) {
        slurm_error("gpushim: the value of --gpushim is too long");
        return -1;
    }
    for (size_t i = 0; i <= options_length; i++) {
        options[i] = (char)(text[i] == ' ' ? '\0' : text[i]);
    }
    used = true;
    return remote || are_right() ? 0 : -1;
}

static struct spank_option option = {
    "gpushim", "[OPTIONS]", "record GPU memory; OPTIONS of gpushim, separated by spaces",
    2,         0,           take_option};

/* Finds the command of the installation that the plug-in is in: its folder is
 * PREFIX/lib/gpushim, or PREFIX/lib/TRIPLET/gpushim. */
static void find_command(void)
{
    char folder_of_plugin[PATH_MAX];
    Dl_info plugin;
    if (dladdr(&option, &plugin) == 0 || strlen(plugin.dli_fname) >= PATH_MAX) {
        return;
    }
    memcpy(folder_of_plugin, plugin.dli_fname, strlen(plugin.dli_fname) + 1);
    for (char *slash; (slash = strrchr(folder_of_plugin, '/')) != NULL;) {
        *slash = '\0';
        int printed =
            snprintf(command, sizeof(command), "%s/bin/gpushim", folder_of_plugin);
        if (printed < (int)sizeof(command) && access(command, X_OK) == 0) {
            return;
        }
    }
}

/* ---- in srun ----------------------------------------------------------------------- */

int slurm_spank_init(spank_t spank, int count, char **arguments)
{
    static const char name[] = "command=";
    enum spank_context context = spank_context();
    find_command();
    for (int i = 0; i < count; i++) {
        const char *value = arguments[i] + strlen(name);
        if (strncmp(arguments[i], name, strlen(name)) != 0 || value[0] != '/' ||
            strlen(value) >= sizeof(command)) {
            slurm_error("gpushim: plugstack.conf: %s is not command=/PATH/OF/gpushim",
                        arguments[i]);
            return -1;
        }
        memcpy(command, value, strlen(value) + 1);
    }
    if (context != S_CTX_LOCAL && context != S_CTX_REMOTE) {
        return 0;
    }
    return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}

/* Makes the folder of the step; a step that was requeued gets another one. */
int slurm_spank_local_user_init(spank_t spank, int count, char **arguments)
{
    uint32_t job = 0, step = 0;
    char here[PATH_MAX], again[8] = "";
    (void)count, (void)arguments;
    if (!used || folder[0]) { /* once for all parts of a job */
        return 0;
    }
    (void)spank_get_item(spank, S_JOB_ID, &job);
    (void)spank_get_item(spank, S_JOB_STEPID, &step);
    for (int i = 1; getcwd(here, sizeof(here)) && i < FOLDERS_MOST; i++) {
        int printed = snprintf(folder, sizeof(folder), "%s/gpushim.%u.%u%s", here, job,
                               step, again);
        if (printed < (int)sizeof(folder) && mkdir(folder, 0700) == 0) {
            (void)setenv(FOLDER_VARIABLE, folder, 1);
            return 0;
        }
        if (errno != EEXIST || printed >= (int)sizeof(folder)) {
            break;
        }
        (void)snprintf(again, sizeof(again), ".%d", i);
    }
    slurm_error("gpushim: no folder for the step's reports can be made in %s: %s", here,
                strerror(errno));
    folder[0] = '\0';
    (void)unsetenv(FOLDER_VARIABLE);
    return 0;
}

/* srun has written all output of the tasks. */
int slurm_spank_exit(spank_t spank, int count, char **arguments)
{
    struct line line = {.count = 0};
    (void)spank, (void)count, (void)arguments;
    if (!folder[0]) {
        return 0;
    }
    if (rmdir(folder) == 0) {
        slurm_info("gpushim: no task called CUDA");
        return 0;
    }
    /* With the options of reports, such as --leak-max; merge itself is not recorded. */
    add(&line, command);
    add(&line, "--watch=off");
    add_options(&line);
    add(&line, "--");
    add(&line, "/usr/bin/env");
    add(&line, "--unset=LD_PRELOAD");
    add(&line, command);
    add(&line, "merge");
    add(&line, folder);
    (void)fflush(stdout);
    if (wait_for(start(&line, STDERR_FILENO, environ)) >= NOT_RUN) {
        slurm_error("gpushim: %s cannot be run here: reports are in %s", command, folder);
    }
    return 0;
}

/* ---- in a task --------------------------------------------------------------------- */

static bool is_in(const char *entry, char *const *env)
{
    while (*env && strcmp(*env, entry) != 0) {
        env++;
    }
    return *env != NULL;
}

/* Sets each variable that the command has written and the task has otherwise. */
static void take_environment(spank_t spank, FILE *written, char *const *env)
{
    char *entry = NULL;
    size_t capacity = 0;
    while (getdelim(&entry, &capacity, '\0', written) > 0) {
        char *value = strchr(entry, '=');
        if (value && !is_in(entry, env)) {
            *value = '\0';
            (void)spank_setenv(spank, entry, value + 1, 1);
        }
    }
    free(entry);
}

/* Runs as the user. The command finds the library of this node, and joins the options
 * with variables that the task has. */
int slurm_spank_task_init(spank_t spank, int count, char **arguments)
{
    struct line line = {.count = 0};
    char where[PATH_MAX], log[PATH_MAX + 32], state[PATH_MAX + 32];
    char **env = NULL;
    int ends[2];
    (void)count, (void)arguments;
    if (!used || spank_get_item(spank, S_JOB_ENV, &env) != ESPANK_SUCCESS ||
        pipe(ends) != 0) {
        return 0;
    }
    add(&line, command);
    add(&line, "--watch=off"); /* no process next to `env` */
    if (spank_getenv(spank, FOLDER_VARIABLE, where, sizeof(where)) == ESPANK_SUCCESS) {
        (void)snprintf(log, sizeof(log), "--log-file=%s/report.%%r.%%h.%%p", where);
        (void)snprintf(state, sizeof(state), "--state-file=%s/state.%%r.%%h.%%p", where);
        add(&line, log);
        add(&line, state);
    }
    add_options(&line);
    add(&line, "--");
    add(&line, "/usr/bin/env");
    add(&line, "-0");
    pid_t child = start(&line, ends[1], env);
    (void)close(ends[1]);
    FILE *written = fdopen(ends[0], "r");
    if (written) {
        take_environment(spank, written, env);
        (void)fclose(written);
    } else {
        (void)close(ends[0]);
    }
    int status = wait_for(child);
    if (status != 0) {
        slurm_error("gpushim: %s: status %d, the task runs without it", command, status);
    }
    return 0;
}
