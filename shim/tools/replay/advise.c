/*
 * advise.c - gpushim advise: which settings of the pool suit a recorded trace.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/replay/advise.h"
#include "gs_string.h"
#include "shim/tools/replay/foreign.h"

#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: gpushim advise [OPTION...] TRACE\n"
    "Replays a trace (GPUSHIM_TRACE_FILE, or CSV) through the pool under other settings\n"
    "and shows the best next to the default ones, with the line to put before the "
    "command.\n"
    "  --device SIZE       on a device of that size: 24G, or 1.25x of peak live; else "
    "on\n"
    "                      one that is never full\n"
    "  --ready at-once     freed memory may be handed out again at once (the default)\n"
    "  --ready after:N     after N further allocations\n"
    "  --ready sync        at the trace's next wait for a context\n"
    "  --warmup            only the line GPUSHIM_WARMUP=... for this trace: the driver "
    "is\n"
    "                      called before the first request instead of during the run\n"
    "  --json              one object\n"
    "Ends with 0; 1 if the trace could not be read, was damaged or does not fit; 2 for\n"
    "wrong usage. No memory ages in a replay, and nothing else uses the device.\n";

/* ---- figures ----------------------------------------------------------------------- */

static double mib(uint64_t bytes)
{
    return (double)bytes / GS_MIB;
}

static double calls_per_1000(const struct gs_advise_case *wanted, uint64_t calls)
{
    return 1000.0 * (double)calls / wanted->peaks.made;
}

/* "-12 %"; "" where nothing is compared. */
static const char *difference(double mine, double theirs, char out[16])
{
    double percent = theirs > 0 ? 100 * (mine - theirs) / theirs : 0;

    if (percent > -0.5 && percent < 0.5) {
        return strcpy(out, "");
    }
    snprintf(out, 16, "%+.0f %%", percent);
    return out;
}

static void print_row(const struct gs_advise_case *wanted, const char *name,
                      const struct gs_advise_try *try, const struct gs_advise_try *than)
{
    char calls[16], memory[16], device[16];

    printf("  %-10s %9.1f %-7s %9.0f %-7s %9.0f %-7s %7.0f\n", name,
           calls_per_1000(wanted, try->out.calls),
           difference((double)try->out.calls, (double)than->out.calls, calls),
           mib(try->out.reserved_peak),
           difference((double)try->out.reserved_peak, (double)than->out.reserved_peak,
                      memory),
           mib(try->smallest),
           difference((double)try->smallest, (double)than->smallest, device), try->ns_op);
}

/* ---- as text ----------------------------------------------------------------------- */

static const char *const goals[GS_ADVISE_GOALS] = {
    "fewer driver calls, and no more memory reserved", "fewer driver calls",
    "less memory"};

/* Whether a goal of less number has the same settings. */
static bool is_repeated(const struct gs_advice *advice, unsigned goal)
{
    for (unsigned i = 0; i < goal; i++) {
        if (advice->best[i] == advice->best[goal]) {
            return true;
        }
    }
    return false;
}

static void print_choice(const struct gs_advise_try *try, char letter, const char *goal)
{
    unsigned next = 0;
    const char *cost;

    printf("\n%c: %s\n    %s\n", letter, goal, try->line);
    while ((cost = gs_advise_cost(try->variables, &next)) != NULL) {
        printf("  - %s\n", cost);
    }
}

static void print_choices(const struct gs_advise_case *wanted,
                          const struct gs_advice *advice)
{
    const struct gs_advise_try *plain = &advice->tries[0];
    char name[] = "A";
    unsigned shown = 0;

    printf("  %-10s %-17s %-17s %-17s %s\n", "", "driver calls", "reserved", "smallest",
           "about ns");
    printf("  %-10s %-17s %-17s %-17s %s\n", "settings", "per 1,000", "at most, MiB",
           "device, MiB", "an operation");
    print_row(wanted, "default", plain, plain);
    for (unsigned goal = 0; goal < GS_ADVISE_GOALS; goal++) {
        if (advice->best[goal] && !is_repeated(advice, goal)) {
            print_row(wanted, name, advice->best[goal], plain);
            name[0]++;
            shown++;
        }
    }
    if (!plain->out.run.fits) {
        printf(
            "The default settings are out of memory at operation %zu, for %llu bytes.\n",
            plain->out.run.failed_at, (unsigned long long)plain->out.run.failed_bytes);
    }
    if (shown == 0) {
        printf("\nOf %zu other settings none %s.\n", advice->count - 1,
               plain->out.run.fits ? "is better than the default ones" : "fits, either");
    }
    name[0] = 'A';
    for (unsigned goal = 0; goal < GS_ADVISE_GOALS; goal++) {
        if (advice->best[goal] && !is_repeated(advice, goal)) {
            print_choice(advice->best[goal], name[0]++, goals[goal]);
        }
    }
}

/* A warm-up that saves less of the calls than this is nothing to say. */
#define WARMUP_SAVES 0.2

static void print_warmup(const struct gs_advise_warmup *warmup)
{
    if (!warmup->text[0] ||
        (double)warmup->remaining > (1 - WARMUP_SAVES) * (double)warmup->calls) {
        return;
    }
    printf(
        "\nReady before the first request: of %llu driver calls %llu remain during the "
        "run\n    GPUSHIM_WARMUP=%s\n",
        (unsigned long long)warmup->calls, (unsigned long long)warmup->remaining,
        warmup->text);
}

static void print_text(const struct gs_advise_case *wanted, const char *name,
                       const struct gs_advice *advice,
                       const struct gs_advise_warmup *warmup)
{
    gs_foreign_print(stdout, name);
    printf(": %u allocation%s, at most %.1f MiB live in %u of them", wanted->peaks.made,
           wanted->peaks.made == 1 ? "" : "s", mib(wanted->peaks.live_bytes),
           wanted->peaks.live_count);
    if (wanted->capacity != GS_REPLAY_AMPLE) {
        printf(", on a device of %.0f MiB", mib(wanted->capacity));
    }
    printf("\n");
    print_choices(wanted, advice);
    if (advice->tries[0].out.run.fits) {
        print_warmup(warmup);
    }
}

/* ---- as JSON ----------------------------------------------------------------------- */

static void put_settings(const struct gs_advise_try *try, const char *best_in)
{
    printf("{\"best_in\": ");
    gs_replay_put_text(best_in);
    printf(", \"line\": ");
    gs_replay_put_text(try->line);
    printf(", \"fits\": %s, \"driver_calls\": %llu, \"reserved_peak_bytes\": %llu, "
           "\"smallest_bytes\": %llu, \"ns_per_op\": %.1f}",
           try->out.run.fits ? "true" : "false", (unsigned long long)try->out.calls,
           (unsigned long long)try->out.reserved_peak, (unsigned long long)try->smallest,
           try->ns_op);
}

static void print_json(const struct gs_advise_case *wanted, const char *name,
                       const struct gs_advice *advice,
                       const struct gs_advise_warmup *warmup)
{
    static const char *const words[GS_ADVISE_GOALS] = {"both", "driver_calls", "memory"};

    printf("{\"trace\": ");
    gs_replay_put_text(name);
    printf(", \"allocations\": %u, \"live_peak_bytes\": %llu, \"live_peak_count\": %u, "
           "\"tried\": %zu, \"default\": ",
           wanted->peaks.made, (unsigned long long)wanted->peaks.live_bytes,
           wanted->peaks.live_count, advice->count - 1);
    put_settings(&advice->tries[0], "");
    printf(", \"better\": [");
    for (unsigned goal = 0, shown = 0; goal < GS_ADVISE_GOALS; goal++) {
        if (advice->best[goal]) {
            printf("%s", shown++ ? ", " : "");
            put_settings(advice->best[goal], words[goal]);
        }
    }
    printf("], \"warmup\": ");
    gs_replay_put_text(warmup->text);
    printf(", \"warmup_driver_calls\": %llu, \"warmup_remaining\": %llu}\n",
           (unsigned long long)warmup->calls, (unsigned long long)warmup->remaining);
}

/* ---- the command ------------------------------------------------------------------- */

struct settings {
    struct gs_replay_size device;
    struct gs_replay_ready ready;
    bool warmup, json;
    const char *path;
};

static const struct gs_replay_option option_rows[] = {{"--device", 'd', true},
                                                      {"--ready", 'r', true},
                                                      {"--warmup", 'w', false},
                                                      {"--json", 'j', false},
                                                      {"--help", 'h', false}};
static const struct gs_replay_options options = {"gpushim advise", option_rows,
                                                 GS_ARRAY_LEN(option_rows)};

unsigned gs_advise_option_words(char *const *words)
{
    return gs_replay_words_of(words, &options);
}

static void take_option(struct settings *settings, char letter, const char *value)
{
    switch (letter) {
    case 'd':
        settings->device = gs_replay_read_size(value);
        break;
    case 'r':
        settings->ready = gs_replay_read_ready(value);
        break;
    case 'w':
        settings->warmup = true;
        break;
    case 'j':
        settings->json = true;
        break;
    default:
        fputs(usage, stdout);
        exit(gs_replay_end(0));
    }
}

/* Returns false if no trace is named. */
static bool read_words(struct settings *settings, char **words)
{
    char *value = NULL;
    char letter;

    while (*words) {
        while ((letter = gs_replay_next_option(&words, &options, &value)) != 0) {
            take_option(settings, letter, value);
        }
        if (*words && settings->path) {
            gs_replay_refuse(*words, "a second TRACE: advise replays one");
        }
        if (*words) {
            settings->path = *words++;
        }
    }
    return settings->path != NULL;
}

/* Returns the exit status. */
static int advise(const struct settings *settings, const struct gs_advise_case *wanted)
{
    static struct gs_advice advice;
    static struct gs_advise_warmup warmup;
    const char *name = gs_file_name(settings->path);

    gs_advise_progress_begin();
    gs_advise_find_warmup(wanted, &warmup);
    if (!settings->warmup) {
        gs_advise_search(wanted, &advice);
    }
    gs_advise_progress_end();
    if (settings->warmup) {
        printf("%s%s\n", warmup.text[0] ? "GPUSHIM_WARMUP=" : "", warmup.text);
    } else if (settings->json) {
        print_json(wanted, name, &advice, &warmup);
    } else {
        print_text(wanted, name, &advice, &warmup);
    }
    return settings->warmup || advice.tries[0].out.run.fits ? 0 : GS_REPLAY_BAD;
}

int gs_advise_command(char **words)
{
    struct settings settings = {0};
    struct gs_replay_trace trace;
    struct gs_advise_case wanted = {.trace = &trace, .capacity = GS_REPLAY_AMPLE};
    int status;

    if (!read_words(&settings, words)) {
        fputs(usage, stderr);
        return GS_REPLAY_USAGE;
    }
    status = gs_replay_open(settings.path, gs_replay_load, &trace);
    if (trace.count == 0 ||
        !gs_replay_choose_kinds(&trace, 1u << GS_TRACE_KIND_DEVICE, settings.path)) {
        gs_replay_free(&trace);
        return GS_REPLAY_BAD;
    }
    wanted.peaks = gs_replay_find_peaks(&trace);
    wanted.ready = settings.ready;
    if (settings.device.text) {
        wanted.capacity = gs_replay_size_bytes(&settings.device, &wanted.peaks);
    }
    if (advise(&settings, &wanted) != 0) {
        status = GS_REPLAY_BAD;
    }
    gs_replay_free(&trace);
    return gs_replay_end(status);
}
