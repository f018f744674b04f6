/*
 * main.c - the differential fuzzer's commands:
 *
 *   diff fuzz                 random lists, natively and under the library; see --help
 *   diff check FILE...        these lists, in every mode
 *   diff shrink FILE|SEED     the smallest list that still differs
 *   diff list SEED            the list of a seed
 *   diff play FILE            the answers to a list, here and now
 */
#include <dirent.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "diff.h"

/* Each process of a list has a state file, in a folder of this job. */
static char state_folder[] = "/tmp/diff-state.XXXXXX";
static char state_setting[64];

static const char help[] =
    "usage: diff fuzz|check|shrink|list|play [options] [FILE|SEED...]\n"
    "  --calls N     driver calls compared in all (100000)\n"
    "  --seed N      first seed (1)\n"
    "  --ops N       operations of a list (400)\n"
    "  --jobs N      lists at a time (one for each core)\n"
    "  --modes LIST  of native, lazy, pool, off, carve, vmm, stack, state, twice\n"
    "                (native,lazy,pool)\n"
    "  --library F   the library (beside this program)\n"
    "  --set N=V     a variable for both, three at most\n"
    "  --stop N      end after so many differences (5)\n"
    "  --no-shrink   only tell of them\n"
    "  --keep DIR    write each shrunk list there\n";

static const struct mode {
    const char *name, *setting;
    const char *like; /* the mode of relation.def */
    bool native;      /* both sides without the library */
} modes[] = {
    {"native", NULL, "native", false},
    {"lazy", "GPUSHIM_FREE_SYNC=lazy", "lazy", false},
    {"pool", "GPUSHIM_ASYNC=pool", "pool", false},
    {"off", "GPUSHIM_ENABLE=off", "off", false},
    {"carve", "GPUSHIM_POOL_CARVE=on", "native", false},
    {"vmm", "GPUSHIM_POOL_VMM=on", "native", false},
    {"stack", "GPUSHIM_STACK=auto", "native", false},
    {"state", state_setting, "native", false},
    {"twice", NULL, "twice", true},
};
#define MODES (sizeof(modes) / sizeof(*modes))

static struct {
    uint64_t calls, seed;
    unsigned ops, jobs, stop;
    bool as_it_is; /* not shrunk */
    const char *library, *keep, *set[3];
    unsigned set_count;
    unsigned chosen[MODES], mode_count;
} options = {.calls = 100000, .seed = 1, .ops = 400, .stop = 5};

/* What all jobs have found. In memory that they share. */
struct totals {
    atomic_ullong next, compared, excused, left, differences;
    atomic_ullong exceptions[DIFF_EXCEPTIONS], kinds[DIFF_KINDS], called[DIFF_KINDS];
};
static struct totals *totals;

/* One job's servers, and what they answered. */
struct bench {
    struct diff_server native, library;
    struct diff_answers first, second;
    const struct mode *mode;
};

static void *shared(size_t bytes)
{
    void *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED) {
        fputs("diff: no memory\n", stderr);
        exit(2);
    }
    return at;
}

/* ---- two runs -----------------------------------------------------------------------
 */

/* The processes of the last list have ended. */
static void clear_state(void)
{
    DIR *folder = opendir(state_folder);
    struct dirent *file;

    while (folder && (file = readdir(folder)) != NULL)
        if (file->d_name[0] != '.')
            unlinkat(dirfd(folder), file->d_name, 0);
    if (folder)
        closedir(folder);
}

static struct bench *open_bench(void)
{
    struct bench *bench = shared(sizeof(*bench));

    if (mkdtemp(state_folder))
        snprintf(state_setting, sizeof(state_setting), "GPUSHIM_STATE_FILE=%s/%%p",
                 state_folder);

    if (!diff_server_start(&bench->native, NULL) ||
        !diff_server_start(&bench->library, options.library)) {
        fputs("diff: a server does not start\n", stderr);
        exit(2);
    }
    return bench;
}

static void close_bench(struct bench *bench)
{
    diff_server_stop(&bench->native);
    diff_server_stop(&bench->library);
    munmap(bench, sizeof(*bench));
    clear_state();
    rmdir(state_folder);
}

static void play_both(struct bench *bench, struct diff_list *list,
                      struct diff_verdict *verdict)
{
    static const char quiet[] = "GPUSHIM_REPORT_ON=oom", silent[] = "GPUSHIM_VERBOSE=0",
                      stackless[] = "GPUSHIM_STACK=off";
    const char *settings[8] = {quiet, silent, stackless};
    struct diff_server *second = bench->mode->native ? &bench->native : &bench->library;
    unsigned count = 3;

    if (bench->mode->setting)
        settings[count++] = bench->mode->setting;
    memcpy(&settings[count], options.set, sizeof(options.set));
    if (strcmp(bench->mode->name, "lazy") == 0)
        list->lean = false;
    if (!diff_server_ask(&bench->native, list, &settings[count]) ||
        (bench->mode->native && !diff_server_get(&bench->native, &bench->first)) ||
        !diff_server_ask(second, list, settings) ||
        (!bench->mode->native && !diff_server_get(&bench->native, &bench->first)) ||
        !diff_server_get(second, &bench->second)) {
        fputs("diff: a server has gone\n", stderr);
        exit(2);
    }
    diff_compare(list, &bench->first, &bench->second, bench->mode->like, verdict);
    if (bench->mode->setting == state_setting)
        clear_state();
}

static bool still_differs(const struct diff_list *list, void *argument)
{
    static struct diff_list copy;
    struct diff_verdict verdict;

    copy = *list;
    play_both(argument, &copy, &verdict);
    return !verdict.same;
}

/* ---- what is said -------------------------------------------------------------------
 */

static void say_difference(struct bench *bench, const struct diff_list *list,
                           const struct diff_verdict *verdict, FILE *out)
{
    unsigned i = verdict->op;

    if (i == list->count) {
        fprintf(out, "# %s: natively it ended with %s, here with %s\n", bench->mode->name,
                bench->first.end, bench->second.end);
        return;
    }
    fprintf(out, "# %s: operation %u, %s:\n#   native%s\n#   here  %s\n",
            bench->mode->name, i, diff_rows[list->ops[i].kind].name,
            bench->first.lines[i], bench->second.lines[i]);
}

static void keep_list(const struct diff_list *list, const char *text)
{
    char name[PATH_MAX];
    FILE *file;

    if (!options.keep)
        return;
    snprintf(name, sizeof(name), "%s/%llu.list", options.keep,
             (unsigned long long)list->seed);
    file = fopen(name, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

/* Shrinks a list that differs, and writes it. */
static void report(struct bench *bench, struct diff_list *list,
                   const struct diff_verdict *first)
{
    struct diff_verdict verdict;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    unsigned asked;

    if (!out)
        return;
    if (!options.as_it_is)
        say_difference(bench, list, first, out);
    asked = options.as_it_is ? 0 : diff_shrink(list, still_differs, bench);
    play_both(bench, list, &verdict);
    fprintf(out, "# difference: seed %llu, shrunk to %u operations with %u runs\n",
            (unsigned long long)list->seed, list->count, asked);
    fprintf(out, "# replay: build/diff/diff check --modes %s FILE\n", bench->mode->name);
    if (verdict.same)
        fprintf(out, "# (not the same each time)\n");
    else
        say_difference(bench, list, &verdict, out);
    diff_list_print(list, out);
    fclose(out);
    fputs(text, stdout);
    fflush(stdout);
    keep_list(list, text);
    free(text);
}

static void add_up(const struct bench *bench, const struct diff_list *list,
                   const struct diff_verdict *verdict)
{
    totals->compared += verdict->compared;
    totals->excused += verdict->excused;
    totals->left += verdict->left;
    for (unsigned i = 0; i < diff_exceptions(); i++)
        totals->exceptions[i] += verdict->exceptions[i];
    for (unsigned i = 0; i < list->count; i++) {
        totals->kinds[list->ops[i].kind]++;
        if (!strstr(bench->first.lines[i], " skip="))
            totals->called[list->ops[i].kind]++;
    }
}

/* All rows of one name together. */
static void say_exception(unsigned row)
{
    unsigned long long sum = 0;

    for (unsigned i = 0; i < diff_exceptions(); i++) {
        if (strcmp(diff_exception_name(i), diff_exception_name(row)) != 0)
            continue;
        if (i < row)
            return;
        sum += totals->exceptions[i];
    }
    if (sum)
        printf("  %-24s %llu\n", diff_exception_name(row), sum);
}

static void say_totals(double seconds)
{
    printf("%llu calls compared in %.1f s, %llu excused, %llu behind an end\n",
           totals->compared, seconds, totals->excused, totals->left);
    for (unsigned i = 0; i < diff_exceptions(); i++)
        say_exception(i);
    if (getenv("DIFF_KINDS"))
        for (unsigned i = 0; i < DIFF_KINDS; i++)
            printf("  %-24s %llu of %llu\n", diff_rows[i].name, totals->called[i],
                   totals->kinds[i]);
    printf("%llu differences\n", totals->differences);
}

/* ---- commands -----------------------------------------------------------------------
 */

static void fuzz_job(void)
{
    struct bench *bench = open_bench();
    static struct diff_list list;
    struct diff_verdict verdict;

    while (totals->compared < options.calls && totals->differences < options.stop) {
        uint64_t number = totals->next++;

        diff_generate(options.seed + number, options.ops, &list);
        bench->mode = &modes[options.chosen[number % options.mode_count]];
        play_both(bench, &list, &verdict);
        add_up(bench, &list, &verdict);
        if (verdict.same)
            continue;
        totals->differences++;
        report(bench, &list, &verdict);
    }
    close_bench(bench);
}

static int fuzz(void)
{
    struct timespec from, to;
    int status, failed = 0;

    clock_gettime(CLOCK_MONOTONIC, &from);
    for (unsigned i = 0; i < options.jobs; i++)
        if (fork() == 0) {
            fuzz_job();
            _exit(0);
        }
    while (wait(&status) > 0)
        failed += status != 0;
    clock_gettime(CLOCK_MONOTONIC, &to);
    say_totals((double)(to.tv_sec - from.tv_sec) +
               (double)(to.tv_nsec - from.tv_nsec) / 1e9);
    return totals->differences || failed || totals->compared == 0;
}

static bool load(const char *name, struct diff_list *list)
{
    char *end;
    uint64_t seed = strtoull(name, &end, 10);
    FILE *file;
    bool good;

    if (*end == '\0') {
        diff_generate(seed, options.ops, list);
        return true;
    }
    file = fopen(name, "r");
    if (!file) {
        perror(name);
        return false;
    }
    good = diff_list_parse(file, list);
    fclose(file);
    return good;
}

static int check(char **names, bool shrink)
{
    struct bench *bench = open_bench();
    static struct diff_list list;
    struct diff_verdict verdict;
    int failed = 0;

    for (; *names; names++)
        for (unsigned i = 0; i < options.mode_count; i++) {
            if (!load(*names, &list))
                return 2;
            bench->mode = &modes[options.chosen[i]];
            play_both(bench, &list, &verdict);
            printf("%s %s, %s\n", verdict.same ? "ok" : "not ok", *names,
                   bench->mode->name);
            failed += !verdict.same;
            if (shrink && !verdict.same)
                report(bench, &list, &verdict);
            else if (!verdict.same)
                say_difference(bench, &list, &verdict, stdout);
        }
    close_bench(bench);
    return failed != 0;
}

static int play(const char *name)
{
    struct diff_answers *answers = shared(sizeof(*answers));
    unsigned *progress = shared(sizeof(*progress));
    static struct diff_list list;

    if (!load(name, &list))
        return 2;
    diff_play(&list, answers, progress);
    for (unsigned i = 0; i < list.count; i++)
        printf("%u.%u %s%s\n", list.ops[i].process, list.ops[i].thread,
               diff_rows[list.ops[i].kind].name, answers->lines[i]);
    return 0;
}

/* ---- options ------------------------------------------------------------------------
 */

static bool choose_modes(const char *text)
{
    options.mode_count = 0;
    while (*text) {
        size_t length = strcspn(text, ",");
        unsigned i;

        for (i = 0; i < MODES; i++)
            if (strlen(modes[i].name) == length &&
                strncmp(modes[i].name, text, length) == 0)
                break;
        if (i == MODES || options.mode_count == MODES)
            return false;
        options.chosen[options.mode_count++] = i;
        text += length + (text[length] == ',');
    }
    return options.mode_count > 0;
}

static bool set_option(const char *name, const char *value)
{
    if (strcmp(name, "--calls") == 0)
        options.calls = strtoull(value, NULL, 10);
    else if (strcmp(name, "--seed") == 0)
        options.seed = strtoull(value, NULL, 10);
    else if (strcmp(name, "--ops") == 0)
        options.ops = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(name, "--jobs") == 0)
        options.jobs = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(name, "--stop") == 0)
        options.stop = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(name, "--library") == 0)
        options.library = value;
    else if (strcmp(name, "--keep") == 0)
        options.keep = value;
    else if (strcmp(name, "--set") == 0 && options.set_count < 3)
        options.set[options.set_count++] = value;
    else
        return strcmp(name, "--modes") == 0 && choose_modes(value);
    return true;
}

static void set_defaults(void)
{
    static char library[PATH_MAX + 32];
    char name[PATH_MAX] = "";
    ssize_t length = readlink("/proc/self/exe", name, sizeof(name) - 1);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    char *slash = length > 0 ? strrchr(name, '/') : NULL;

    if (slash)
        *slash = '\0';
    snprintf(library, sizeof(library), "%s/../libgpushim.so", name);
    options.library = library;
    options.jobs = cores > 1 ? (unsigned)cores : 1;
    choose_modes("native,lazy,pool");
}

int main(int count, char **words)
{
    const char *command = count > 1 ? words[1] : "";
    char *names[256] = {NULL};
    unsigned named = 0;

    if (strcmp(command, "serve") == 0)
        return diff_serve(0, 1);
    set_defaults();
    for (int i = 2; i < count; i++) {
        if (strcmp(words[i], "--no-shrink") == 0)
            options.as_it_is = true;
        else if (words[i][0] == '-' && i + 1 < count &&
                 set_option(words[i], words[i + 1]))
            i++;
        else if (words[i][0] != '-' && named < 255)
            names[named++] = words[i];
        else
            command = "";
    }
    totals = shared(sizeof(*totals));
    if (strcmp(command, "fuzz") == 0)
        return fuzz();
    if (strcmp(command, "check") == 0 && named)
        return check(names, false);
    if (strcmp(command, "shrink") == 0 && named)
        return check(names, true);
    if (strcmp(command, "play") == 0 && named == 1)
        return play(names[0]);
    if (strcmp(command, "list") == 0 && named == 1) {
        static struct diff_list list;

        if (!load(names[0], &list))
            return 2;
        diff_list_print(&list, stdout);
        return 0;
    }
    fputs(help, stderr);
    return 2;
}
