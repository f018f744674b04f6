/*
 * replay.c - gpushim replay: an allocation trace through the pool, the modelled driver,
 * or CUDA. Owns: nothing.   Lock: none.
 */
#include "gs_string.h"
#include "shim/tools/replay/foreign.h"
#include "shim/tools/replay/replay.h"

#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: %s [OPTION...] TRACE...\n"
    "Runs an allocation trace and measures it. TRACE: what GPUSHIM_TRACE_FILE\n"
    "recorded, or CSV (t_us,op,id,bytes,stream[,thread[,kind]]); gzip'd or not.\n"
    "  --through pool          the pool over a modelled driver (the default)\n"
    "  --through native-model  that driver alone\n"
    "  --through blocks        a cache of whole blocks over it, nothing split or merged\n"
    "%s"
    "  --ready at-once         freed memory may be handed out again at once (the "
    "default)\n"
    "  --ready after:N         after N further allocations\n"
    "  --ready sync            at the trace's next wait for a context\n"
    "  --kinds LIST            of device (the default), async, managed, pinned, "
    "virtual,\n"
    "                          array, or all\n"
    "  --device SIZE           also on a device of that size: 24G, or 1.25x of peak "
    "live\n"
    "  --smallest              search the smallest device, also the modelled driver's\n"
    "  --threads               each thread's operations on a thread of its own\n"
    "  --window N              with --threads: how far one may run ahead (256)\n"
    "  --repeat N              time it N times, show the fastest (3)\n"
    "%s"
    "  --json                  one object a line\n"
    "  --to-csv, --to-binary   write the trace to standard output, do nothing else\n"
    "Ends with 0; 1 if a trace could not be read, was damaged or did not fit; 2 for "
    "wrong\n"
    "usage.\n";
static const char device_usage[] =
    "  --through device        the CUDA driver found here, preloaded or not; all kinds\n";
static const char touch_usage[] =
    "  --touch                 through device: set the first bytes of each allocation\n";
static const char pool_usage[] =
    "GPUSHIM_POOL_SEGMENT, _CACHE, _CARVE, _SIZE_CLASSES, _LIMIT and _RELEASE, and\n"
    "GPUSHIM_WARMUP, apply: gpushim replay --pool-carve=on TRACE. No memory ages.\n";

enum way { WAY_POOL, WAY_MODEL, WAY_BLOCKS, WAY_DEVICE };

struct settings {
    const struct gs_replay_program *program;
    enum way way;
    struct gs_replay_ready ready;
    const char *ready_text;
    unsigned kinds; /* 0: the way's own */
    struct gs_replay_size device;
    bool smallest, touch, json, to_csv, to_binary;
    unsigned repeat;
    const char *window; /* NULL: not given */
    struct gs_replay_config run;
};

/* What is known at the end; a negative number is not known. */
struct figures {
    struct gs_replay_peaks peaks;
    struct gs_replay_outcome ample, tight;
    double ns_op;
    uint64_t tight_bytes, smallest, native_smallest;
    double metadata;
};

/* ---- options ----------------------------------------------------------------------- */

static void show_usage(const struct gs_replay_program *program, FILE *to)
{
    fprintf(to, usage, program->usage, program->device ? device_usage : "",
            program->device ? touch_usage : "");
    if (program->pool) {
        fputs(pool_usage, to);
    }
}

static enum way read_way(const struct settings *settings, const char *text)
{
    static const char *const ways[] = {"pool", "native-model", "blocks", "device"};

    for (size_t i = 0; i < GS_ARRAY_LEN(ways); i++) {
        if (!strcmp(text, ways[i]) && (i != WAY_DEVICE || settings->program->device)) {
            return (enum way)i;
        }
    }
    gs_replay_refuse_value("--through", text,
                           settings->program->device
                               ? "pool, native-model, blocks or device"
                               : "pool, native-model or blocks");
}

static void take_option(struct settings *settings, char letter, char *value)
{
    switch (letter) {
    case 't':
        settings->way = read_way(settings, value);
        break;
    case 'r':
        settings->ready_text = value;
        settings->ready = gs_replay_read_ready(value);
        break;
    case 'k':
        settings->kinds |= gs_replay_read_kinds(value);
        break;
    case 'd':
        settings->device = gs_replay_read_size(value);
        break;
    case 's':
        settings->smallest = true;
        break;
    case 'T':
        settings->run.threads = true;
        break;
    case 'w':
        settings->window = value;
        settings->run.window = (uint32_t)gs_replay_read_count(value, "--window", 1);
        break;
    case 'n':
        settings->repeat = (unsigned)gs_replay_read_count(value, "--repeat", 1);
        break;
    case 'u':
        settings->touch = true;
        break;
    case 'j':
        settings->json = true;
        break;
    case 'c':
        settings->to_csv = true;
        break;
    case 'b':
        settings->to_binary = true;
        break;
    default:
        show_usage(settings->program, stdout);
        exit(gs_replay_end(0));
    }
}

static const struct gs_replay_option option_rows[] = {
    {"--through", 't', true}, {"--ready", 'r', true},     {"--kinds", 'k', true},
    {"--device", 'd', true},  {"--smallest", 's', false}, {"--threads", 'T', false},
    {"--window", 'w', true},  {"--repeat", 'n', true},    {"--touch", 'u', false},
    {"--json", 'j', false},   {"--to-csv", 'c', false},   {"--to-binary", 'b', false},
    {"--help", 'h', false}};
static const struct gs_replay_options options = {"gpushim replay", option_rows,
                                                 GS_ARRAY_LEN(option_rows)};

unsigned gs_replay_option_words(char *const *words)
{
    return gs_replay_words_of(words, &options);
}

/* Ends the program if two options do not go together. */
static void check_options(const struct settings *settings)
{
    if (settings->way == WAY_DEVICE && settings->smallest) {
        gs_replay_refuse("--smallest", "a real device has the size it has");
    }
    if (settings->way == WAY_DEVICE && settings->device.text) {
        gs_replay_refuse("--device", "a real device has the size it has");
    }
    if (settings->way != WAY_DEVICE && settings->touch) {
        gs_replay_refuse("--touch", "only a real device has memory to set");
    }
    if (settings->smallest && settings->run.threads) {
        gs_replay_refuse("--smallest",
                         "threads take turns as they like: a search needs the order");
    }
    if (settings->window && !settings->run.threads) {
        gs_replay_refuse("--window", "has no effect without --threads");
    }
}

/* Options may stand among the traces, which are moved to the front. Returns how many
 * there are. */
static size_t read_words(struct settings *settings, char **words)
{
    char **traces = words, **end = words, *value = NULL;
    char letter;

    while (*words) {
        while ((letter = gs_replay_next_option(&words, &options, &value)) != 0) {
            take_option(settings, letter, value);
        }
        if (*words) {
            *end++ = *words++;
        }
    }
    check_options(settings);
    return (size_t)(end - traces);
}

/* ---- measuring --------------------------------------------------------------------- */

/* gs_replay_through_model as the searches call it. */
static void through_native(const struct gs_replay_trace *trace, size_t capacity,
                           const struct gs_replay_ready *ready,
                           const struct gs_replay_config *config,
                           struct gs_replay_outcome *out)
{
    (void)ready;
    gs_replay_through_model(trace, capacity, config, out);
}

/* Likewise. */
static void through_kept(const struct gs_replay_trace *trace, size_t capacity,
                         const struct gs_replay_ready *ready,
                         const struct gs_replay_config *config,
                         struct gs_replay_outcome *out)
{
    (void)ready;
    gs_replay_through_blocks(trace, capacity, config, out);
}

static uint64_t smallest_of_way(const struct settings *settings,
                                const struct gs_replay_trace *trace)
{
    return gs_replay_smallest(
        trace, settings->way == WAY_BLOCKS ? through_kept : gs_replay_through_pool,
        &settings->ready, &settings->run);
}

static void run_once(const struct settings *settings, const struct gs_replay_trace *trace,
                     size_t capacity, struct gs_replay_outcome *out)
{
    const char *why;

    switch (settings->way) {
    case WAY_POOL:
        gs_replay_through_pool(trace, capacity, &settings->ready, &settings->run, out);
        break;
    case WAY_MODEL:
        gs_replay_through_model(trace, capacity, &settings->run, out);
        break;
    case WAY_BLOCKS:
        gs_replay_through_blocks(trace, capacity, &settings->run, out);
        break;
    case WAY_DEVICE:
        if (!settings->program->device(trace, settings->touch, &settings->run, out,
                                       &why)) {
            gs_replay_refuse("--through device", why);
        }
        break;
    }
}

static void measure(const struct settings *settings, const struct gs_replay_trace *trace,
                    struct figures *figures)
{
    unsigned repeat = settings->way == WAY_DEVICE ? 1 : settings->repeat;

    *figures = (struct figures){.peaks = gs_replay_find_peaks(trace), .metadata = -1};
    for (unsigned i = 0; i < repeat; i++) {
        struct gs_replay_outcome out;

        run_once(settings, trace, GS_REPLAY_AMPLE, &out);
        if (i == 0 || out.run.ns < figures->ample.run.ns) {
            figures->ample = out;
        }
    }
    if (figures->ample.run.ops) {
        figures->ns_op = (double)figures->ample.run.ns / (double)figures->ample.run.ops;
    }
    if (settings->device.text) {
        figures->tight_bytes = gs_replay_size_bytes(&settings->device, &figures->peaks);
        run_once(settings, trace, figures->tight_bytes, &figures->tight);
    }
    if (settings->smallest) {
        figures->native_smallest =
            gs_replay_smallest(trace, through_native, NULL, &settings->run);
        figures->smallest = settings->way == WAY_MODEL ? figures->native_smallest
                                                       : smallest_of_way(settings, trace);
    }
    if (settings->way == WAY_POOL && !settings->run.threads) {
        figures->metadata =
            gs_replay_metadata(trace, &settings->ready, settings->run.pool);
    }
}

/* ---- output ------------------------------------------------------------------------ */

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static double calls_per_1000(const struct gs_replay_outcome *out,
                             const struct gs_replay_peaks *peaks)
{
    return peaks->made ? 1000.0 * (double)out->calls / peaks->made : 0;
}

static void print_human(const struct settings *settings, const char *name,
                        const struct gs_replay_trace *trace,
                        const struct figures *figures)
{
    static const char *const ways[] = {"the pool", "the modelled driver",
                                       "a cache of whole blocks", "the CUDA driver"};
    const struct gs_replay_outcome *ample = &figures->ample;

    gs_foreign_print(stdout, name);
    printf(", through %s, freed memory ready %s%s\n", ways[settings->way],
           settings->way == WAY_POOL ? settings->ready_text : "as there",
           settings->run.threads ? ", with threads" : "");
    printf("  %-28s %u allocation%s, %zu operation%s, %u stream%s, %u thread%s\n",
           "trace", figures->peaks.made, plural(figures->peaks.made), trace->count,
           plural(trace->count), trace->streams, plural(trace->streams), trace->threads,
           plural(trace->threads));
    printf("  %-28s %.1f MiB in %u allocation%s at most\n", "live",
           mib(figures->peaks.live_bytes), figures->peaks.live_count,
           plural(figures->peaks.live_count));
    if (!ample->run.fits) {
        printf("  out of memory at operation %zu, for %llu bytes\n", ample->run.failed_at,
               (unsigned long long)ample->run.failed_bytes);
    }
    printf("  %-28s %.1f ns\n", "an operation", figures->ns_op);
    if (settings->way != WAY_DEVICE) {
        printf("  %-28s %.1f MiB, %.3f x live\n", "reserved at most",
               mib(ample->reserved_peak),
               ratio(ample->reserved_peak, figures->peaks.live_bytes));
        printf("  %-28s %.1f per 1,000 allocations\n", "driver calls",
               calls_per_1000(ample, &figures->peaks));
    }
    if (settings->device.text && figures->tight.run.fits) {
        printf("  %-28s %.1f per 1,000 allocations, %llu wait%s, on %s (%.0f MiB)\n",
               "driver calls", calls_per_1000(&figures->tight, &figures->peaks),
               (unsigned long long)figures->tight.waits, plural(figures->tight.waits),
               settings->device.text, mib(figures->tight_bytes));
    } else if (settings->device.text) {
        printf("  %-28s at operation %zu, for %llu bytes, on %s (%.0f MiB)\n",
               "out of memory", figures->tight.run.failed_at,
               (unsigned long long)figures->tight.run.failed_bytes, settings->device.text,
               mib(figures->tight_bytes));
    }
    if (settings->smallest) {
        printf("  %-28s %.0f MiB, %.4f x the modelled driver's %.0f MiB\n",
               "smallest device", mib(figures->smallest),
               ratio(figures->smallest, figures->native_smallest),
               mib(figures->native_smallest));
    }
    if (figures->metadata >= 0) {
        printf("  %-28s %.1f bytes per live allocation\n", "metadata", figures->metadata);
    }
}

/* A number, or null where it is not known. */
static void print_number(const char *name, bool known, double value)
{
    if (known) {
        printf(", \"%s\": %.10g", name, value);
    } else {
        printf(", \"%s\": null", name);
    }
}

static void print_flag(const char *name, bool known, bool value)
{
    printf(", \"%s\": %s", name, !known ? "null" : value ? "true" : "false");
}

static void print_json(const struct settings *settings, const char *name,
                       const struct gs_replay_trace *trace, const struct figures *figures)
{
    static const char *const ways[] = {"pool", "native-model", "blocks", "device"};
    const struct gs_replay_outcome *ample = &figures->ample;
    bool device = settings->way == WAY_DEVICE;

    printf("{\"trace\": ");
    gs_replay_put_text(name);
    printf(", \"through\": \"%s\", \"ready\": \"%s\", \"threads\": %s",
           ways[settings->way], settings->ready_text,
           settings->run.threads ? "true" : "false");
    print_flag("fits", true, ample->run.fits);
    print_number("operations", true, (double)trace->count);
    print_number("allocations", true, figures->peaks.made);
    print_number("live_peak_bytes", true, (double)figures->peaks.live_bytes);
    print_number("live_peak_count", true, figures->peaks.live_count);
    print_number("ns_per_op", true, figures->ns_op);
    print_number("reserved_peak_bytes", !device, (double)ample->reserved_peak);
    print_number("driver_calls", !device, (double)ample->calls);
    print_number("remap_calls", !device, (double)ample->remaps);
    print_number("driver_ns", !device, (double)ample->driver_ns);
    print_number("forwarded", !device, (double)ample->forwarded);
    print_number("device_bytes", settings->device.text, (double)figures->tight_bytes);
    print_flag("device_fits", settings->device.text, figures->tight.run.fits);
    print_number("device_driver_calls", settings->device.text && figures->tight.run.fits,
                 (double)figures->tight.calls);
    print_number("device_waits", settings->device.text, (double)figures->tight.waits);
    print_number("smallest_bytes", settings->smallest, (double)figures->smallest);
    print_number("native_smallest_bytes", settings->smallest,
                 (double)figures->native_smallest);
    print_number("metadata_bytes_per_live", figures->metadata >= 0, figures->metadata);
    printf("}\n");
}

/* ---- one trace --------------------------------------------------------------------- */

/* Returns the exit status that it deserves. */
static int replay(const struct settings *settings, const char *path)
{
    const char *name = gs_file_name(path);
    unsigned kinds = settings->kinds;
    struct figures figures;
    struct gs_replay_trace trace;
    int status = gs_replay_open(path, gs_replay_load, &trace);

    if (trace.count == 0) {
        return GS_REPLAY_BAD;
    }
    if (settings->to_csv || settings->to_binary) {
        bool good = settings->to_csv ? gs_replay_write_csv(&trace, stdout)
                                     : gs_replay_write_binary(&trace, stdout);

        gs_replay_free(&trace);
        return good ? status : GS_REPLAY_BAD;
    }
    if (kinds == 0) {
        kinds = settings->way == WAY_DEVICE ? ~0u : 1u << GS_TRACE_KIND_DEVICE;
    }
    if (!gs_replay_choose_kinds(&trace, kinds, path)) {
        gs_replay_free(&trace);
        return GS_REPLAY_BAD;
    }
    measure(settings, &trace, &figures);
    if (!figures.ample.run.fits || (settings->device.text && !figures.tight.run.fits)) {
        status = GS_REPLAY_BAD;
    }
    if (settings->json) {
        print_json(settings, name, &trace, &figures);
    } else {
        print_human(settings, name, &trace, &figures);
    }
    gs_replay_free(&trace);
    return status;
}

int gs_replay_command(char **words, const struct gs_replay_program *program)
{
    struct settings settings = {.program = program,
                                .ready_text = "at-once",
                                .repeat = 3,
                                .run = {.window = 256, .pool = program->pool}};
    size_t count = read_words(&settings, words);
    int status = 0;

    if (count == 0) {
        show_usage(program, stderr);
        return GS_REPLAY_USAGE;
    }
    for (size_t i = 0; i < count; i++) {
        int one = replay(&settings, words[i]);

        status = one > status ? one : status;
    }
    return gs_replay_end(status);
}
