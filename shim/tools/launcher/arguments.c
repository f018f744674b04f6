/*
 * arguments.c - the launcher's options: one for each GPUSHIM_* variable, and its own.
 *
 * Owns: nothing.   Lock: none.   Source: shim/settings/options.def
 */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/settings/options.h"
#include "shim/settings/options_lists.h"
#include "shim/settings/options_table.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/replay/replay.h"

#define NAME_BYTES GS_OPTION_ARGUMENT_BYTES
#define SET_MOST   256

/* An option as its variable: the library's with a row, lists and the launcher's without.
 */
struct option_row {
    const char *variable;
    const struct gs_option *option; /* NULL: a list, or a path */
};

/* Options that are no variables, and of what: GS_VERBS of every word. */
static const struct {
    char name[NAME_BYTES];
    enum gs_verb verb;
} own_options[] = {{"--summary", GS_VERB_RUN},       {"--summary", GS_VERB_REPORT},
                   {"--print", GS_VERB_RUN},         {"--help", GS_VERBS},
                   {"--version", GS_VERBS},          {"--nvtx", GS_VERB_RUN},
                   {"--torch=tensors", GS_VERB_RUN}, {"--watch=parent", GS_VERB_RUN},
                   {"--error-no-cuda", GS_VERB_RUN}};

/* Options of a word that is no command, and where their values go. A switch is its own
 * value. */
static const struct {
    enum gs_verb verb;
    bool is_switch;
    char name[16];
    size_t offset; /* of a const char * in struct gs_arguments */
} verb_options[] = {
    {GS_VERB_HTML, false, "-o", offsetof(struct gs_arguments, page)},
    {GS_VERB_HTML, false, "--timeline", offsetof(struct gs_arguments, trace)},
    {GS_VERB_DIFF, false, "--fail-on", offsetof(struct gs_arguments, fail_on)},
    {GS_VERB_DIFF, false, "--of", offsetof(struct gs_arguments, of)},
    {GS_VERB_DIFF, true, "--json", offsetof(struct gs_arguments, json)},
    {GS_VERB_DIFF, true, "--markdown", offsetof(struct gs_arguments, markdown)},
    {GS_VERB_MERGE, false, "--of", offsetof(struct gs_arguments, of)},
    {GS_VERB_MERGE, true, "--json", offsetof(struct gs_arguments, json)},
    {GS_VERB_MERGE, true, "--markdown", offsetof(struct gs_arguments, markdown)},
    {GS_VERB_TOP, false, "-d", offsetof(struct gs_arguments, delay)},
    {GS_VERB_TOP, false, "-n", offsetof(struct gs_arguments, rounds)},
    {GS_VERB_TOP, true, "--once", offsetof(struct gs_arguments, once)},
    {GS_VERB_TIMELINE, false, "--as", offsetof(struct gs_arguments, as)},
    {GS_VERB_TIMELINE, false, "--most", offsetof(struct gs_arguments, most)},
    {GS_VERB_TIMELINE, false, "-o", offsetof(struct gs_arguments, page)},
    {GS_VERB_PAUSE, false, "--wait", offsetof(struct gs_arguments, wait)},
    {GS_VERB_RELEASE, true, "--discard", offsetof(struct gs_arguments, discard)},
    {GS_VERB_RELEASE, true, "--plain", offsetof(struct gs_arguments, plain)},
    {GS_VERB_ATTACH, false, "--for", offsetof(struct gs_arguments, stay)},
    {GS_VERB_ATTACH, false, "--wait", offsetof(struct gs_arguments, wait)},
    {GS_VERB_TRACE, false, "--for", offsetof(struct gs_arguments, stay)},
    {GS_VERB_DETACH, false, "--wait", offsetof(struct gs_arguments, wait)},
    {GS_VERB_STATS, true, "--json", offsetof(struct gs_arguments, json)},
    {GS_VERB_SERVE, false, "--listen", offsetof(struct gs_arguments, listen)},
    {GS_VERB_SERVE, false, "--token-file", offsetof(struct gs_arguments, token_file)},
    {GS_VERB_SERVE, false, "--pod-logs", offsetof(struct gs_arguments, pod_logs)},
    {GS_VERB_CDI, false, "--name", offsetof(struct gs_arguments, name)},
    {GS_VERB_CDI, false, "--folder", offsetof(struct gs_arguments, folder)},
#define GS_REQUEST(word, verb, processes, argument)                                      \
    {GS_VERB_##verb, false, "--wait", offsetof(struct gs_arguments, wait)},              \
        {GS_VERB_##verb, true, "--all", offsetof(struct gs_arguments, every)},
#include "shim/control/requests.def"
};

static const char *variables_set[SET_MOST];
static size_t set_count;

static size_t row_count(void)
{
    return GS_OPTIONS_COUNT + GS_LISTS + gs_launcher_options_count;
}

static struct option_row row_at(size_t i)
{
    if (i < GS_OPTIONS_COUNT) {
        return (struct option_row){gs_options_table[i].name, &gs_options_table[i]};
    }
    i -= GS_OPTIONS_COUNT;
    return (struct option_row){
        i < GS_LISTS ? gs_lists[i].name : gs_launcher_options[i - GS_LISTS].name, NULL};
}

static bool find_row(const char *key, size_t length, struct option_row *out)
{
    char name[NAME_BYTES];
    for (size_t i = 0; i < row_count(); i++) {
        *out = row_at(i);
        unsigned list = gs_list_named(out->variable, strlen(out->variable));
        if ((out->option && out->option->offset == offsetof(struct gs_options, help)) ||
            (!out->option && list < GS_LISTS &&
             gs_list_own_row(list) < GS_OPTIONS_COUNT)) {
            continue; /* the launcher has its own --help; and a row comes first */
        }
        gs_option_argument(out->variable, name);
        if (strlen(name) == length && memcmp(name, key, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Words that are no command. */
static const struct {
    char word[12];
    enum gs_verb verb;
} verbs[] = {
    {"report", GS_VERB_REPORT},     {"html", GS_VERB_HTML},
    {"timeline", GS_VERB_TIMELINE}, {"diff", GS_VERB_DIFF},
    {"merge", GS_VERB_MERGE},       {"top", GS_VERB_TOP},
    {"pause", GS_VERB_PAUSE},       {"replay", GS_VERB_REPLAY},
    {"advise", GS_VERB_ADVISE},     {"serve", GS_VERB_SERVE},
    {"attach", GS_VERB_ATTACH},     {"detach", GS_VERB_DETACH},
    {"cdi", GS_VERB_CDI},
#define GS_REQUEST(word, verb, processes, argument) {#word, GS_VERB_##verb},
#include "shim/control/requests.def"
};

const char *gs_arguments_word(enum gs_verb verb)
{
    size_t i = 0;
    while (verbs[i].verb != verb) {
        i++;
    }
    return verbs[i].word;
}

static enum gs_verb verb_of(const char *word)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(verbs); i++) {
        if (strcmp(verbs[i].word, word) == 0) {
            return verbs[i].verb;
        }
    }
    return GS_VERB_RUN;
}

/* ---- did you mean ------------------------------------------------------------------ */

const char *gs_arguments_verb_near(const char *word)
{
    const char *near = NULL;
    unsigned best = UINT_MAX;
    for (size_t i = 0; i < GS_ARRAY_LEN(verbs); i++) {
        unsigned distance = gs_options_distance(word, strlen(word), verbs[i].word);
        if (distance < best) {
            best = distance;
            near = verbs[i].word;
        }
    }
    return best == 0 ? NULL : near;
}

/* The letters of an option in lower case, without hyphens. Returns `out`. */
static const char *letters_of(const char *name, size_t length, char out[NAME_BYTES])
{
    size_t count = 0;
    for (size_t i = 0; i < length && count < NAME_BYTES - 1; i++) {
        if (name[i] != '-' && name[i] != '_') {
            out[count++] = (char)tolower((unsigned char)name[i]);
        }
    }
    out[count] = '\0';
    return out;
}

/* Finds the option of an item that has the letters of its list and its own, such as
 * --stack-sample for GPUSHIM_STACK=sample. Returns false if there is none. */
static bool find_item(const char *wanted, char out[NAME_BYTES])
{
    char name[NAME_BYTES], letters[NAME_BYTES];
    for (size_t i = 0; i < gs_items_count; i++) {
        const struct gs_item *item = &gs_items[i];
        int length = snprintf(name, sizeof(name), "%s%s",
                              gs_lists[item->list].name + strlen("GPUSHIM_"), item->word);
        if (item->word[0] && length < (int)sizeof(name) &&
            strcmp(letters_of(name, (size_t)length, letters), wanted) == 0) {
            gs_option_argument(gs_options_table[item->row].name, out);
            return true;
        }
    }
    return false;
}

/* The option of the verb nearest to an unknown one; "" if none is near. Returns `out`. */
static const char *nearest(enum gs_verb verb, const char *key, size_t length,
                           char out[NAME_BYTES])
{
    char wanted[NAME_BYTES], letters[NAME_BYTES];
    letters_of(key, length, wanted);
    for (size_t i = 0; i < GS_ARRAY_LEN(own_options); i++) {
        const char *name = own_options[i].name;
        letters_of(name, strlen(name), letters);
        if ((own_options[i].verb == verb || own_options[i].verb == GS_VERBS) &&
            gs_options_is_near(wanted, strlen(wanted), letters)) {
            return strcpy(out, name);
        }
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(verb_options); i++) {
        const char *name = verb_options[i].name;
        letters_of(name, strlen(name), letters);
        if (verb_options[i].verb == verb && name[1] == '-' &&
            gs_options_is_near(wanted, strlen(wanted), letters)) {
            return strcpy(out, name);
        }
    }
    if (gs_help_has_options(verb) && find_item(wanted, out)) {
        return out;
    }
    length = strlen(wanted);
    const char *variable =
        gs_help_has_options(verb) ? gs_options_nearest(wanted, length) : NULL;
    return variable ? gs_option_argument(variable, out) : strcpy(out, "");
}

__attribute__((noreturn)) static void unknown_option(enum gs_verb verb, const char *word)
{
    char meant[NAME_BYTES];
    int length = (int)strcspn(word, "=");
    const char *space = verb == GS_VERB_RUN ? "" : " ",
               *of = verb == GS_VERB_RUN ? "" : gs_arguments_word(verb);
    nearest(verb, word, (size_t)length, meant);
    if (strncmp(word, "--help=", 7) == 0) {
        gs_launcher_fail(GS_EXIT_USAGE, "--help takes all or no value");
    }
    if (strlen(meant) == (size_t)length && memcmp(meant, word, (size_t)length) == 0) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s takes no value (see gpushim%s%s --help)",
                         meant, space, of);
    }
    gs_launcher_fail(GS_EXIT_USAGE, "unknown option %.*s%s%s%s (see gpushim%s%s --help)",
                     length, word, meant[0] ? ": did you mean " : "", meant,
                     meant[0] ? "?" : "", space, of);
}

/* ---- options ----------------------------------------------------------------------- */

bool gs_arguments_is_set(const char *variable)
{
    for (size_t i = 0; i < set_count; i++) {
        if (strcmp(variables_set[i], variable) == 0) {
            return true;
        }
    }
    return false;
}

const char *gs_arguments_set_at(size_t index)
{
    return index < set_count ? variables_set[index] : NULL;
}

void gs_arguments_set(const char *variable, const char *value)
{
    (void)setenv(variable, value, 1);
    if (!gs_arguments_is_set(variable) && set_count < SET_MOST) {
        variables_set[set_count++] = variable;
    }
}

/* Returns whether an option may be written --no-NAME. */
static bool has_off(const struct gs_option *option)
{
    char words[GS_OPTION_WORDS_BYTES];
    if (!option) {
        return false;
    }
    if (option->type == GS_OPTION_BOOL) {
        return true;
    }
    gs_option_words(option, ",", words);
    size_t length = strlen(words);
    for (const char *at = words; option->type == GS_OPTION_ENUM && at < words + length;
         at += strcspn(at, ",") + 1) {
        if (strcspn(at, ",") == 3 && strncmp(at, "off", 3) == 0) {
            return true;
        }
    }
    return false;
}

/* Finds the option of --no-NAME. */
static bool find_off(const char *word, struct option_row *out)
{
    char plain[NAME_BYTES];
    if (strncmp(word, "--no-", 5) != 0 || strchr(word, '=') ||
        (size_t)snprintf(plain, sizeof(plain), "--%s", word + 5) >= sizeof(plain)) {
        return false;
    }
    return find_row(plain, strlen(plain), out) && has_off(out->option);
}

/* Returns whether a word is an option of the library's, with or without a value. */
static bool names_library_option(const char *word)
{
    struct option_row unused;
    return find_row(word, strcspn(word, "="), &unused) || find_off(word, &unused);
}

/* Sets an option's variable. A second --suppressions or --output adds to the first. */
static void set_or_add(const struct option_row *row, const char *value)
{
    const bool rules = row->option == &gs_options_table[GS_OPTION_ROW_suppressions],
               formats = row->option == &gs_options_table[GS_OPTION_ROW_output];
    const char *before = rules || formats ? getenv(row->variable) : NULL;
    char *both = NULL;
    if (before && before[0] && value[0] && gs_arguments_is_set(row->variable) &&
        asprintf(&both, "%s%c%s", before, rules ? ':' : ',', value) >= 0) {
        value = both;
    }
    gs_arguments_set(row->variable, value);
    free(both);
}

/* Reads the option at *words; returns its last word. */
static char **take_option(char **words, struct gs_arguments *out)
{
    char *word = *words, *value = strchr(word, '=');
    size_t length = strcspn(word, "=");
    struct option_row row;
    out->last_switch = NULL;
    if (find_row(word, length, &row)) {
        if (value) {
            value++;
        } else if (row.option && gs_option_is_switch(row.option)) {
            value = "on";
            out->last_switch = word;
        } else if (words[1]) {
            value = *++words;
        } else {
            gs_launcher_fail(GS_EXIT_USAGE, "%s needs a value (see gpushim --help)",
                             word);
        }
    } else if (find_off(word, &row)) {
        value = "off";
    } else {
        unknown_option(out->verb, word);
    }
    if (out->verb == GS_VERB_HTML && strncmp(word, "--output", 8) == 0) {
        gs_help_refuse(GS_VERB_HTML, "%.*s: the page's file is -o PAGE", (int)length,
                       word);
    }
    unsigned list = gs_list_named(row.variable, strlen(row.variable));
    char unused[GS_OPTION_WRONG_BYTES];
    if (list < GS_LISTS &&
        (gs_list_is_meant(list, value) ||
         gs_option_wrong(row.option, value, unused))) { /* the list says what it takes */
        gs_lists_take(list, value);
        return words;
    }
    if (row.option) {
        gs_value_check(row.option, NULL, value);
    }
    out->log_file |= strcmp(row.variable, "GPUSHIM_LOG_FILE") == 0;
    set_or_add(&row, value);
    return words;
}

/* ---- the whole line ---------------------------------------------------------------- */

static void set_watch(const char *value, struct gs_arguments *out)
{
    static const struct {
        const char *word;
        enum gs_watch_way way;
    } ways[] = {{"=auto", GS_WATCH_AUTO},
                {"=beside", GS_WATCH_BESIDE},
                {"=parent", GS_WATCH_PARENT},
                {"=off", GS_WATCH_OFF}};
    for (size_t i = 0; i < GS_ARRAY_LEN(ways); i++) {
        if (strcmp(value, ways[i].word) == 0) {
            out->watch = ways[i].way;
            return;
        }
    }
    gs_launcher_fail(GS_EXIT_USAGE,
                     "--watch takes auto, beside, parent or off, not %.100s",
                     value[0] ? value + 1 : "nothing");
}

/* PyTorch's own allocator without a cache: cudaMallocAsync for each tensor, which the
 * pool serves in the order of the tensor's stream. */
static void set_torch(const char *value)
{
    static const char backend[] = "backend:cudaMallocAsync";
    const char *name = "PYTORCH_CUDA_ALLOC_CONF", *settings = getenv(name);
    char all[4096];
    if (strcmp(value, "=tensors") != 0) {
        gs_launcher_fail(GS_EXIT_USAGE, "--torch takes tensors (--torch=tensors)");
    }
    if (!settings && getenv("PYTORCH_ALLOC_CONF")) { /* the newer name */
        settings = getenv(name = "PYTORCH_ALLOC_CONF");
    }
    bool chosen = settings && strstr(settings, "backend:");
    if (chosen && !strstr(settings, backend)) {
        gs_launcher_fail(GS_EXIT_USAGE, "--torch=tensors needs %s, but %s is %s", backend,
                         name, settings);
    }
    int printed = snprintf(all, sizeof(all), "%s%s%s", chosen ? "" : backend,
                           chosen || !settings || !settings[0] ? "" : ",",
                           settings ? settings : "");
    if (printed < 0 || (size_t)printed >= sizeof(all)) {
        gs_launcher_fail(GS_EXIT_USAGE, "--torch=tensors: %s is too long", name);
    }
    gs_arguments_set("PYTORCH_CUDA_ALLOC_CONF", all);
    if (!getenv("GPUSHIM_ASYNC")) {
        gs_arguments_set("GPUSHIM_ASYNC", "pool");
    }
}

/* Reads the launcher's own options; returns whether the word was one. */
static bool take_own_option(const char *word, struct gs_arguments *out)
{
    bool all = strcmp(word, "--help=all") == 0;
    if (all || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        gs_help_show(out->verb, all);
        exit(gs_replay_end(0));
    }
    if (strcmp(word, "--version") == 0) {
        puts("gpushim " GPUSHIM_VERSION);
        exit(gs_replay_end(0));
    }
    if (strncmp(word, "--torch", 7) == 0 && (word[7] == '=' || word[7] == '\0')) {
        out->last_switch = NULL;
        set_torch(word + 7);
        return true;
    }
    if (strncmp(word, "--watch", 7) == 0 && (word[7] == '=' || word[7] == '\0')) {
        out->last_switch = NULL;
        set_watch(word + 7, out);
        return true;
    }
    bool summary = strcmp(word, "--summary") == 0, print = strcmp(word, "--print") == 0,
         nvtx = strcmp(word, "--nvtx") == 0,
         no_cuda = strcmp(word, "--error-no-cuda") == 0;
    out->summary |= summary;
    out->print |= print;
    out->nvtx |= nvtx;
    out->error_no_cuda |= no_cuda;
    if (summary || print || nvtx || no_cuda) {
        out->last_switch = NULL;
    }
    return summary || print || nvtx || no_cuda;
}

/* Reads an option of the verb at *words; returns its last word, NULL: it is none. */
static char **take_verb_option(char **words, struct gs_arguments *out)
{
    const char *word = *words;
    size_t length = word[1] == '-' ? strcspn(word, "=") : strlen(word), i = 0;
    while (i < GS_ARRAY_LEN(verb_options) &&
           (verb_options[i].verb != out->verb || strlen(verb_options[i].name) != length ||
            memcmp(verb_options[i].name, word, length) != 0)) {
        i++;
    }
    if (i == GS_ARRAY_LEN(verb_options) ||
        (verb_options[i].is_switch && word[length] == '=')) {
        return NULL;
    }
    const char **value = (const char **)((char *)out + verb_options[i].offset);
    *value = word[length] == '='         ? word + length + 1
             : verb_options[i].is_switch ? word
                                         : *++words;
    if (!*value) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s needs a value (see gpushim %s --help)", word,
                         gs_arguments_word(out->verb));
    }
    return words;
}

/* Reads options until a word that is none, and past "--"; returns whether there was a
 * "--". */
static bool take_options(char ***words, struct gs_arguments *out)
{
    for (; **words && (**words)[0] == '-' && (**words)[1]; ++*words) {
        if (strcmp(**words, "--") == 0) {
            ++*words;
            return true;
        }
        if (take_own_option(**words, out)) {
            continue;
        }
        char **last = take_verb_option(*words, out);
        if (last) {
            *words = last;
            continue;
        }
        if ((**words)[1] != '-') {
            unknown_option(out->verb, **words);
        }
        *words = take_option(*words, out);
    }
    return false;
}

/* Takes the library's options out of the words of replay and advise, which read the rest
 * themselves. Returns how many words are left for them to judge: files, and unknown
 * options. */
static size_t take_words_of_replay(char **words, struct gs_arguments *out)
{
    char **kept = words;
    size_t files = 0;
    while (*words) {
        bool plain = strcmp(*words, "--") == 0;
        unsigned own = out->verb == GS_VERB_REPLAY ? gs_replay_option_words(words)
                                                   : gs_advise_option_words(words);
        if (own == 0 && !plain && names_library_option(*words)) {
            words = take_option(words, out) + 1;
            continue;
        }
        bool help = strcmp(*words, "--help") == 0 || strcmp(*words, "-h") == 0;
        files += help || own == 0;
        for (own = own ? own : 1; own > 0 || (plain && *words); own -= own > 0) {
            *kept++ = *words++;
        }
    }
    *kept = NULL;
    return files;
}

/* Moves the files after a verb to the front of the words, and reads the options among
 * them. */
static void take_files(char **words, struct gs_arguments *out)
{
    char **files = out->command;
    for (bool plain = false; *words; plain = plain || take_options(&words, out)) {
        while (*words && (plain || (*words)[0] != '-' || !(*words)[1])) {
            *files++ = *words++;
        }
    }
    *files = NULL;
    gs_paths_leave_data(out->command);
}

/* Turns `help [SUBCOMMAND]` into `[SUBCOMMAND] --help`. */
static void take_help(char **words)
{
    static char help[] = "--help";
    bool of_run = !words[1] || words[1][0] == '-' || strcmp(words[1], "run") == 0;
    if (!of_run && verb_of(words[1]) == GS_VERB_RUN) {
        const char *near = gs_arguments_verb_near(words[1]);
        gs_help_refuse(GS_VERB_RUN, "help: %s is not a subcommand%s%s%s", words[1],
                       near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
    }
    words[0] = of_run ? help : words[1];
    if (words[1]) {
        words[1] = of_run ? NULL : help;
    }
}

void gs_arguments_read(char **words, struct gs_arguments *out)
{
    *out = (struct gs_arguments){.command = words};
    if (*words && strcmp(*words, "help") == 0) {
        take_help(words);
    }
    bool plain = take_options(&words, out);
    if (!plain && *words && strcmp(*words, "run") == 0) {
        words++;
        plain = true;
        (void)take_options(&words, out);
    }
    out->command = words;
    if (!*words) {
        gs_help_refuse(GS_VERB_RUN, "no command is given");
    }
    out->verb = plain ? GS_VERB_RUN : verb_of(*words);
    if (out->verb == GS_VERB_RUN) {
        return;
    }
    if (out->verb == GS_VERB_REPLAY || out->verb == GS_VERB_ADVISE) {
        out->command++;
        if (take_words_of_replay(out->command, out) == 0) {
            gs_help_refuse(out->verb, "%s: no TRACE is given",
                           gs_arguments_word(out->verb));
        }
    } else {
        take_files(words + 1, out);
    }
}

void gs_arguments_print_set(void)
{
    for (size_t i = 0; i < set_count; i++) {
        const char *value = getenv(variables_set[i]);
        if (value) { /* setenv had the memory for it */
            printf("%s=", variables_set[i]);
            gs_words_print(value);
            putchar(' ');
        }
    }
}
