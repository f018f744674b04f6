/*
 * main.c - runs the programs under many seeds and judges the oracle.
 *
 *     order [--seeds N] [--first N] [--jobs N] [--list] [--verbose] [--threads]
 * [filter...]
 *
 * One line for each program that was judged wrongly, with the seed of the worst
 * status, or each with --verbose; figures last. Status 0: every verdict was right;
 * 1: one was not; 2: bad arguments. Programs run side by side, --jobs at a time (1): most
 * of the time a run waits for a verdict.
 *
 * --threads: by the schedule of threads instead of the hostile one, and the right
 * programs alone: a fault is found when it happens.
 *
 * A right program runs under every seed; one that is not under at most 40 (one that
 * hangs: 8), and half of them must find it (its faults do not depend on luck: an order is
 * missing or it is not).
 *
 * Owns:  the workers; of each, the child it runs.
 * Lock:  none; workers share counters in memory (struct shared).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "order.h"

#define STATUS_OF_FINDINGS 66
#define SECONDS            20 /* a child that lasts longer hangs */
#define OUTPUT_BYTES       16384
#define MOST_JOBS          64

#define MOST_SEEDS_OF_WRONG 40
#define MOST_SEEDS_OF_HANG  8 /* a quarter of all: each verdict takes a long wait */

extern const struct program *const __start_order_programs[];
extern const struct program *const __stop_order_programs[];

static const char *const words[VERDICTS] = {
    [RIGHT] = "right",
    [RACE] = "race",
    [LOST_ORDER] = "lost-order",
    [MASKED] = "masked",
    [NO_ALLOCATION] = "no-allocation",
    [EARLY_RETIRE] = "early-retire",
    [HANDED_TWICE] = "handed-twice",
    [LAYER_BLOCKS] = "layer-blocks",
    [PROGRAM_BLOCKS] = "program-blocks",
};

static bool threads; /* --threads; written before the first child is started */

/* What one run gave. */
struct run {
    int status;
    unsigned found[VERDICTS]; /* findings by name */
    char output[OUTPUT_BYTES];
};

static void child(const struct program *program, unsigned long seed, int output)
{
    char number[24];

    snprintf(number, sizeof(number), "%lu", seed);
    dup2(output, STDERR_FILENO);
    setenv("CUDASIM_SCHEDULE", threads ? "threads" : "hostile", 1);
    setenv("CUDASIM_ORACLE", "1", 1);
    setenv("CUDASIM_SEED", number, 1);
    if (!threads) /* whose time is the machine's: alarm() ends one that hangs */
        setenv("CUDASIM_HANG", "200", 0);
    unsetenv("CUDASIM_FINDINGS");
    char *settings = program->environment ? strdup(program->environment) : NULL;
    for (char *rest = settings, *one; rest && (one = strsep(&rest, " ")) != NULL;)
        putenv(one);
    alarm(SECONDS);
    world_begin();
    program->run();
    exit(0);
}

static void count_findings(struct run *run)
{
    static const char mark[] = "cudasim-finding: kind=";

    for (const char *at = run->output; (at = strstr(at, mark)) != NULL;) {
        at += sizeof(mark) - 1;
        for (unsigned i = 1; i < VERDICTS; i++) {
            size_t length = strlen(words[i]);
            if (strncmp(at, words[i], length) == 0 && at[length] == ' ')
                run->found[i]++;
        }
    }
}

static bool run_once(const struct program *program, unsigned long seed, struct run *run)
{
    int ends[2];
    size_t used = 0;
    ssize_t got;

    memset(run, 0, sizeof(*run));
    fflush(NULL);
    if (pipe(ends) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        child(program, seed, ends[1]);
    }
    close(ends[1]);
    char dropped[512];
    while (pid > 0 &&
           ((got = used < OUTPUT_BYTES - 1
                       ? read(ends[0], run->output + used, OUTPUT_BYTES - 1 - used)
                       : read(ends[0], dropped, sizeof(dropped))) > 0 ||
            (got < 0 && errno == EINTR))) {
        if (got > 0 && used < OUTPUT_BYTES - 1)
            used += (size_t)got;
    }
    close(ends[0]);
    if (pid < 0 || waitpid(pid, &run->status, 0) != pid)
        return false;
    count_findings(run);
    return true;
}

/* Did the oracle say of this run what the program says of itself, and nothing else? */
static bool as_expected(const struct program *program, const struct run *run)
{
    for (unsigned i = 1; i < VERDICTS; i++) {
        if ((i == (unsigned)program->verdict) != (run->found[i] > 0))
            return false;
    }
    return WIFEXITED(run->status) &&
           WEXITSTATUS(run->status) ==
               (program->verdict == RIGHT ? 0 : STATUS_OF_FINDINGS);
}

/* Did a run say something that is wrong of the program whatever the seed? */
static bool is_false(const struct program *program, const struct run *run)
{
    for (unsigned i = 1; i < VERDICTS; i++) {
        if (i != (unsigned)program->verdict && run->found[i] > 0)
            return true;
    }
    return !WIFEXITED(run->status) || (WEXITSTATUS(run->status) != 0 &&
                                       WEXITSTATUS(run->status) != STATUS_OF_FINDINGS);
}

struct figures {
    unsigned planted, found; /* programs that are wrong */
    unsigned right, alarms;  /* programs that are right; runs of them that were faulted */
    unsigned runs, failed;
};

/* What the workers share: atomics only. */
struct shared {
    size_t next; /* the program that is taken next */
    struct figures figures;
};

/* What is said of a run is its status: a finding, or a signal, counts for more than a
 * program that gave up. */
static int status_of(const struct run *run)
{
    return WIFEXITED(run->status) ? WEXITSTATUS(run->status)
                                  : 128 + WTERMSIG(run->status);
}

static void complain(const struct program *program, unsigned long seed,
                     const struct run *run, const char *what)
{
    printf("FAILED %s (seed %lu, status %d): %s\n%s", program->name, seed, status_of(run),
           what, run->output);
}

static void tally(unsigned *sum, unsigned more)
{
    __atomic_fetch_add(sum, more, __ATOMIC_RELAXED);
}

static bool hangs(const struct program *program)
{
    return program->verdict == LAYER_BLOCKS || program->verdict == PROGRAM_BLOCKS;
}

static void judge(const struct program *program, unsigned long first, unsigned long seeds,
                  bool verbose, struct figures *figures)
{
    static struct run run, worst; /* large; one program at a time */
    unsigned long hits = 0, alarms = 0, worst_seed = first;
    bool right = program->verdict == RIGHT;

    if (hangs(program))
        seeds = seeds > 4 * MOST_SEEDS_OF_HANG ? MOST_SEEDS_OF_HANG : (seeds + 3) / 4;
    else if (!right && seeds > MOST_SEEDS_OF_WRONG)
        seeds = MOST_SEEDS_OF_WRONG;
    for (unsigned long seed = first; seed < first + seeds; seed++) {
        if (!run_once(program, seed, &run)) {
            perror("order: a process cannot be started");
            exit(1);
        }
        hits += as_expected(program, &run);
        if (is_false(program, &run) &&
            (alarms++ == 0 || status_of(&run) > status_of(&worst))) {
            worst = run;
            worst_seed = seed;
        }
    }
    if (alarms > 0)
        complain(program, worst_seed, &worst, "the oracle is wrong");
    bool good = alarms == 0 && (right ? hits == seeds : hits * 2 >= seeds);
    if (!good && alarms == 0)
        complain(program, first + seeds - 1, &run, "the oracle did not see it");
    if (verbose || !good)
        printf("%-6s %-44s %-14s seen under %lu of %lu seeds\n", good ? "ok" : "FAILED",
               program->name, words[program->verdict], hits, seeds);
    tally(&figures->runs, (unsigned)seeds);
    tally(&figures->planted, !right);
    tally(&figures->found, !right && good);
    tally(&figures->right, right);
    tally(&figures->alarms, right ? (unsigned)alarms : 0);
    tally(&figures->failed, !good);
    fflush(stdout); /* a program's lines stay together */
}

static bool wanted(const char *name, char **filters, int count)
{
    for (int i = 0; i < count; i++) {
        if (strstr(name, filters[i]))
            return true;
    }
    return count == 0;
}

static bool waits_long(const struct program *program)
{
    return hangs(program) || strncmp(program->name, "deadlock.", 9) == 0;
}

/* Those that wait long come first: the others run beside them. */
static int by_name(const void *left, const void *right)
{
    const struct program *const *a = left, *const *b = right;

    if (waits_long(*a) != waits_long(*b))
        return waits_long(*a) ? -1 : 1;
    return strcmp((*a)->name, (*b)->name);
}

/* What the arguments ask for. */
struct wish {
    unsigned long seeds, first, jobs;
    bool list, verbose;
    char **filters;
    int filter_count;
};

static int usage(const char *wrong)
{
    fprintf(stderr,
            "order: %s\n"
            "usage: order [--seeds N] [--first N] [--jobs N] [--list] [--verbose] "
            "[--threads] [filter...]\n",
            wrong);
    return 2;
}

static bool number(const char *text, unsigned long *out)
{
    char *end;

    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoul(text, &end, 10);
    return errno == 0 && *end == '\0';
}

/* The first argument that is none, or NULL. */
static const char *read_arguments(int argc, char **argv, struct wish *wish)
{
    int next = 1;

    *wish = (struct wish){.seeds = 20, .first = 1, .jobs = 1};
    for (; next < argc && argv[next][0] == '-'; next++) {
        const char *option = argv[next];
        if (strcmp(option, "--list") == 0)
            wish->list = true;
        else if (strcmp(option, "--verbose") == 0)
            wish->verbose = true;
        else if (strcmp(option, "--threads") == 0)
            threads = true;
        else if ((strcmp(option, "--seeds") != 0 ||
                  !number(argv[++next], &wish->seeds)) &&
                 (strcmp(option, "--first") != 0 ||
                  !number(argv[++next], &wish->first)) &&
                 (strcmp(option, "--jobs") != 0 || !number(argv[++next], &wish->jobs)))
            return option;
    }
    wish->filters = argv + next;
    wish->filter_count = argc - next;
    if (wish->seeds == 0 || wish->jobs == 0 || wish->jobs > MOST_JOBS)
        return "nothing to do, or too many jobs";
    return NULL;
}

/* Take one program after the other until none is left. */
static void work(const struct program **programs, size_t count, const struct wish *wish,
                 struct shared *shared)
{
    for (;;) {
        size_t at = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED);
        if (at >= count)
            return;
        if (wanted(programs[at]->name, wish->filters, wish->filter_count) &&
            (!threads || programs[at]->verdict == RIGHT))
            judge(programs[at], wish->first, wish->seeds, wish->verbose,
                  &shared->figures);
    }
}

/* False: a worker could not be started, or died. */
static bool work_side_by_side(const struct program **programs, size_t count,
                              const struct wish *wish, struct shared *shared)
{
    bool well = true;
    int status;

    for (unsigned long i = 0; i < wish->jobs; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            work(programs, count, wish, shared);
            _exit(0);
        }
        well &= pid > 0;
    }
    while (wait(&status) > 0)
        well &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return well;
}

int main(int argc, char **argv)
{
    size_t count = (size_t)(__stop_order_programs - __start_order_programs);
    const struct program **programs = malloc((count + 1) * sizeof(*programs));
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct wish wish;
    const char *wrong = read_arguments(argc, argv, &wish);

    if (wrong || !programs || shared == MAP_FAILED)
        return usage(wrong ? wrong : "no memory");
    memcpy(programs, __start_order_programs, count * sizeof(*programs));
    qsort(programs, count, sizeof(*programs), by_name);
    if (wish.list) {
        for (size_t i = 0; i < count; i++) {
            if (wanted(programs[i]->name, wish.filters, wish.filter_count))
                printf("%-44s %-14s %s\n", programs[i]->name, words[programs[i]->verdict],
                       programs[i]->says);
        }
        return 0;
    }
    bool well = work_side_by_side(programs, count, &wish, shared);
    const struct figures *figures = &shared->figures;
    printf("order: %u planted, %u found; %u right, %u false alarms; %u runs\n",
           figures->planted, figures->found, figures->right, figures->alarms,
           figures->runs);
    if (!well)
        fprintf(stderr, "order: a worker did not end well: not everything was judged\n");
    return well && figures->failed == 0 ? 0 : 1;
}
