/*
 * main.c - `replay`: an allocation trace through the pool, the modelled driver, or CUDA.
 * Owns: nothing.   Lock: none.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "through.h"

static const char usage[] =
    "usage: replay [OPTION...] TRACE...\n"
    "Carries an allocation trace out and measures it. TRACE: what GPUSHIM_TRACE_FILE\n"
    "recorded, or CSV (t_us,op,id,bytes,stream[,thread[,kind]]); gzip'd or not.\n"
    "  --through pool          the pool over a modelled driver (the default)\n"
    "  --through pages         the pool with pages that move (GPUSHIM_POOL_VMM)\n"
    "  --through native-model  that driver alone\n"
    "  --through blocks        a cache of whole blocks over it, nothing split or merged\n"
    "  --through device        the CUDA driver found here, preloaded or not\n"
    "  --ready at-once         freed memory may be handed out again at once (the "
    "default)\n"
    "  --ready after:N         after N further allocations\n"
    "  --ready sync            at the trace's next wait for a context\n"
    "  --kinds LIST            of device, async, managed, pinned, or all (pool and "
    "model:\n"
    "                          device; device: all)\n"
    "  --device SIZE           also on a device of that size: 24G, or 1.25x of peak "
    "live\n"
    "  --smallest              search the smallest device, also the modelled driver's\n"
    "  --threads               each thread's operations on a thread of its own\n"
    "  --window N              with --threads: how far one may run ahead (256)\n"
    "  --repeat N              time it N times, show the fastest (3)\n"
    "  --touch                 through device: set the first bytes of each allocation\n"
    "  --json                  one object a line\n"
    "  --to-csv, --to-binary   write the trace to standard output, do nothing else\n"
    "Ends with 0; 1 if a trace was damaged or did not fit; 2 if it could not be read.\n";

enum way { WAY_POOL, WAY_PAGES, WAY_MODEL, WAY_BLOCKS, WAY_DEVICE };

struct settings {
    enum way way;
    struct ready ready;
    const char *ready_text;
    unsigned kinds; /* 0: the way's own */
    const char *device_text;
    uint64_t device_bytes; /* 0: device_factor counts */
    double device_factor;
    bool smallest, touch, json, to_csv, to_binary;
    unsigned repeat;
    struct run_config run;
};

/* What is known at the end; a negative number is not known. */
struct figures {
    struct trace_peaks peaks;
    struct outcome ample, tight;
    double ns_op;
    uint64_t tight_bytes, smallest, native_smallest;
    double metadata;
};

static _Noreturn void refuse(const char *what, const char *value)
{
    fprintf(stderr, "replay: %s: %s (--help says what there is)\n", what, value);
    exit(2);
}

/* ---- options ----------------------------------------------------------------------- */

static uint64_t read_count(const char *text, const char *name)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0')
        refuse(name, text);
    return value;
}

static void read_device(struct settings *settings, const char *text)
{
    static const char units[] = "KMGT";
    const char *unit;
    char *end;
    double value = strtod(text, &end);

    if (*text < '0' || *text > '9' || value <= 0)
        refuse("--device", text);
    settings->device_text = text;
    if (!strcmp(end, "x")) {
        settings->device_factor = value;
        return;
    }
    unit = *end ? strchr(units, *end) : NULL;
    if (*end && (!unit || end[1] != '\0'))
        refuse("--device", text);
    for (; unit && unit >= units; unit--)
        value *= 1024;
    if (value >= (double)AMPLE_BYTES)
        refuse("--device", text);
    settings->device_bytes = (uint64_t)value;
}

static void read_ready(struct settings *settings, const char *text)
{
    settings->ready_text = text;
    settings->ready.after = 0;
    if (!strcmp(text, "at-once")) {
        settings->ready.when = READY_AT_ONCE;
    } else if (!strcmp(text, "sync")) {
        settings->ready.when = READY_SYNC;
    } else if (!strncmp(text, "after:", 6)) {
        settings->ready.when = READY_AFTER;
        settings->ready.after = read_count(text + 6, "--ready");
    } else {
        refuse("--ready", text);
    }
}

static void read_kinds(struct settings *settings, char *text)
{
    char *rest = text;
    const char *word;

    while ((word = strsep(&rest, ",")) != NULL) {
        unsigned kind = trace_kind_of(word);

        if (!strcmp(word, "all"))
            settings->kinds |= ~0u;
        else if (kind == GS_TRACE_KIND_NONE)
            refuse("--kinds", word);
        else
            settings->kinds |= 1u << kind;
    }
}

static void read_way(struct settings *settings, const char *text)
{
    if (!strcmp(text, "pool"))
        settings->way = WAY_POOL;
    else if (!strcmp(text, "pages"))
        settings->way = WAY_PAGES;
    else if (!strcmp(text, "native-model"))
        settings->way = WAY_MODEL;
    else if (!strcmp(text, "blocks"))
        settings->way = WAY_BLOCKS;
    else if (!strcmp(text, "device"))
        settings->way = WAY_DEVICE;
    else
        refuse("--through", text);
}

static void read_options(struct settings *settings, int argc, char **argv)
{
    static const struct option options[] = {{"through", required_argument, NULL, 't'},
                                            {"ready", required_argument, NULL, 'r'},
                                            {"kinds", required_argument, NULL, 'k'},
                                            {"device", required_argument, NULL, 'd'},
                                            {"smallest", no_argument, NULL, 's'},
                                            {"threads", no_argument, NULL, 'T'},
                                            {"window", required_argument, NULL, 'w'},
                                            {"repeat", required_argument, NULL, 'n'},
                                            {"touch", no_argument, NULL, 'u'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"to-csv", no_argument, NULL, 'c'},
                                            {"to-binary", no_argument, NULL, 'b'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int letter;

    while ((letter = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (letter) {
        case 't':
            read_way(settings, optarg);
            break;
        case 'r':
            read_ready(settings, optarg);
            break;
        case 'k':
            read_kinds(settings, optarg);
            break;
        case 'd':
            read_device(settings, optarg);
            break;
        case 's':
            settings->smallest = true;
            break;
        case 'T':
            settings->run.threads = true;
            break;
        case 'w':
            settings->run.window = (uint32_t)read_count(optarg, "--window");
            break;
        case 'n':
            settings->repeat = (unsigned)read_count(optarg, "--repeat");
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
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            exit(2);
        }
    }
    if (settings->smallest && settings->way == WAY_DEVICE)
        refuse("--smallest", "a real device has the size it has");
    if (settings->device_text && settings->way == WAY_DEVICE)
        refuse("--device", "a real device has the size it has");
    if (settings->smallest && settings->run.threads)
        refuse("--smallest", "threads take turns as they like: a search needs the order");
}

/* ---- measuring ----------------------------------------------------------------------
 */

/* through_model as the searches call it. */
static void through_native(const struct trace *trace, size_t capacity,
                           const struct ready *ready, const struct run_config *config,
                           struct outcome *out)
{
    (void)ready;
    through_model(trace, capacity, config, out);
}

/* Likewise. */
static void through_kept(const struct trace *trace, size_t capacity,
                         const struct ready *ready, const struct run_config *config,
                         struct outcome *out)
{
    (void)ready;
    through_blocks(trace, capacity, config, out);
}

static bool is_pool(const struct settings *settings)
{
    return settings->way == WAY_POOL || settings->way == WAY_PAGES;
}

static uint64_t smallest_of_way(const struct settings *settings,
                                const struct trace *trace)
{
    static through_function *const ways[] = {through_pool, through_pages, through_native,
                                             through_kept};

    return smallest_device(trace, ways[settings->way], &settings->ready);
}

static void run_once(const struct settings *settings, const struct trace *trace,
                     size_t capacity, struct outcome *out)
{
    const char *why;

    switch (settings->way) {
    case WAY_POOL:
        through_pool(trace, capacity, &settings->ready, &settings->run, out);
        break;
    case WAY_PAGES:
        through_pages(trace, capacity, &settings->ready, &settings->run, out);
        break;
    case WAY_MODEL:
        through_model(trace, capacity, &settings->run, out);
        break;
    case WAY_BLOCKS:
        through_blocks(trace, capacity, &settings->run, out);
        break;
    case WAY_DEVICE:
        if (!through_device(trace, settings->touch, &settings->run, out, &why))
            refuse("--through device", why);
        break;
    }
}

static void measure(const struct settings *settings, const struct trace *trace,
                    struct figures *figures)
{
    unsigned repeat = settings->way == WAY_DEVICE ? 1 : settings->repeat;

    *figures = (struct figures){.peaks = trace_find_peaks(trace), .metadata = -1};
    for (unsigned i = 0; i < (repeat ? repeat : 1); i++) {
        struct outcome out;

        run_once(settings, trace, AMPLE_BYTES, &out);
        if (i == 0 || out.run.ns < figures->ample.run.ns)
            figures->ample = out;
    }
    if (figures->ample.run.ops)
        figures->ns_op = (double)figures->ample.run.ns / (double)figures->ample.run.ops;
    if (settings->device_text) {
        figures->tight_bytes =
            settings->device_bytes
                ? settings->device_bytes
                : (uint64_t)(settings->device_factor * (double)figures->peaks.live_bytes);
        figures->tight_bytes -= figures->tight_bytes % ((size_t)2 << 20);
        run_once(settings, trace, figures->tight_bytes, &figures->tight);
    }
    if (settings->smallest) {
        figures->native_smallest = smallest_device(trace, through_native, NULL);
        figures->smallest = settings->way == WAY_MODEL ? figures->native_smallest
                                                       : smallest_of_way(settings, trace);
    }
    if (is_pool(settings) && !settings->run.threads)
        figures->metadata = metadata_bytes(trace, &settings->ready);
}

/* ---- output --------------------------------------------------------------------------
 */

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static double calls_per_1000(uint64_t calls, const struct trace_peaks *peaks)
{
    return peaks->made ? 1000.0 * (double)calls / peaks->made : 0;
}

static void print_human(const struct settings *settings, const char *name,
                        const struct trace *trace, const struct figures *figures)
{
    static const char *const ways[] = {"the pool", "the pool with pages that move",
                                       "the modelled driver", "a cache of whole blocks",
                                       "the CUDA driver"};
    const struct outcome *ample = &figures->ample;

    printf("%s, through %s, freed memory ready %s%s\n", name, ways[settings->way],
           is_pool(settings) ? settings->ready_text : "as there",
           settings->run.threads ? ", with threads" : "");
    printf("  %-28s %u allocations, %zu operations, %u streams, %u threads\n", "trace",
           figures->peaks.made, trace->count, trace->streams, trace->threads);
    printf("  %-28s %.1f MiB in %u allocations at most\n", "live",
           mib(figures->peaks.live_bytes), figures->peaks.live_count);
    if (!ample->run.fits)
        printf("  out of memory at operation %zu, for %llu bytes\n", ample->run.failed_at,
               (unsigned long long)ample->run.failed_bytes);
    printf("  %-28s %.1f ns\n", "an operation", figures->ns_op);
    if (settings->way != WAY_DEVICE) {
        printf("  %-28s %.1f MiB, %.3f x live\n", "reserved at most",
               mib(ample->reserved_peak),
               ratio(ample->reserved_peak, figures->peaks.live_bytes));
        printf("  %-28s %.1f per 1,000 allocations\n", "driver calls",
               calls_per_1000(ample->calls, &figures->peaks));
        if (settings->way == WAY_PAGES)
            printf("  %-28s %.1f per 1,000 allocations\n", "calls for mappings",
                   calls_per_1000(ample->remaps, &figures->peaks));
    }
    if (settings->device_text && figures->tight.run.fits)
        printf("  %-28s %.1f per 1,000 allocations, %llu waits, on %s (%.0f MiB)\n",
               "driver calls", calls_per_1000(figures->tight.calls, &figures->peaks),
               (unsigned long long)figures->tight.waits, settings->device_text,
               mib(figures->tight_bytes));
    else if (settings->device_text)
        printf("  %-28s at operation %zu, for %llu bytes, on %s (%.0f MiB)\n",
               "out of memory", figures->tight.run.failed_at,
               (unsigned long long)figures->tight.run.failed_bytes, settings->device_text,
               mib(figures->tight_bytes));
    if (settings->way == WAY_PAGES && settings->device_text && figures->tight.run.fits)
        printf("  %-28s %.1f per 1,000 allocations, on %s\n", "calls for mappings",
               calls_per_1000(figures->tight.remaps, &figures->peaks),
               settings->device_text);
    if (settings->smallest)
        printf("  %-28s %.0f MiB, %.4f x the modelled driver's %.0f MiB\n",
               "smallest device", mib(figures->smallest),
               ratio(figures->smallest, figures->native_smallest),
               mib(figures->native_smallest));
    if (figures->metadata >= 0)
        printf("  %-28s %.1f bytes per live allocation\n", "metadata", figures->metadata);
}

/* A number, or null where it is not known. */
static void print_number(const char *name, bool known, double value)
{
    if (known)
        printf(", \"%s\": %.10g", name, value);
    else
        printf(", \"%s\": null", name);
}

static void print_flag(const char *name, bool known, bool value)
{
    printf(", \"%s\": %s", name, !known ? "null" : value ? "true" : "false");
}

static void print_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            printf("\\u%04x", (unsigned char)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

static void print_json(const struct settings *settings, const char *name,
                       const struct trace *trace, const struct figures *figures)
{
    static const char *const ways[] = {"pool", "pages", "native-model", "blocks",
                                       "device"};
    const struct outcome *ample = &figures->ample;
    bool device = settings->way == WAY_DEVICE;

    printf("{\"trace\": ");
    print_text(name);
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
    print_number("remap_calls", settings->way == WAY_PAGES, (double)ample->remaps);
    print_number("driver_ns", is_pool(settings), (double)ample->driver_ns);
    print_number("forwarded", !device, (double)ample->forwarded);
    print_number("device_bytes", settings->device_text, (double)figures->tight_bytes);
    print_flag("device_fits", settings->device_text, figures->tight.run.fits);
    print_number("device_driver_calls", settings->device_text && figures->tight.run.fits,
                 (double)figures->tight.calls);
    print_number("device_remap_calls",
                 settings->way == WAY_PAGES && settings->device_text &&
                     figures->tight.run.fits,
                 (double)figures->tight.remaps);
    print_number("device_driver_ns",
                 is_pool(settings) && settings->device_text && figures->tight.run.fits,
                 (double)figures->tight.driver_ns);
    print_number("device_waits", settings->device_text, (double)figures->tight.waits);
    print_number("smallest_bytes", settings->smallest, (double)figures->smallest);
    print_number("native_smallest_bytes", settings->smallest,
                 (double)figures->native_smallest);
    print_number("metadata_bytes_per_live", figures->metadata >= 0, figures->metadata);
    printf("}\n");
}

/* ---- one trace ------------------------------------------------------------------------
 */

/* The exit status it deserves. */
static int replay(const struct settings *settings, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    unsigned kinds = settings->kinds;
    struct trace_note note;
    struct figures figures;
    struct trace trace;
    int status = 0;

    if (!trace_load(path, &trace, &note)) {
        fprintf(stderr, "replay: %s: %s\n", path, note.text);
        return 2;
    }
    if (note.text[0] != '\0') {
        fprintf(stderr, "replay: %s: %s\n", path, note.text);
        status = 1;
    }
    if (settings->to_csv || settings->to_binary) {
        bool good = settings->to_csv ? trace_write_csv(&trace, stdout)
                                     : trace_write_binary(&trace, stdout);

        trace_free(&trace);
        return good ? status : 2;
    }
    if (kinds == 0)
        kinds = settings->way == WAY_DEVICE ? ~0u : 1u << GS_TRACE_KIND_DEVICE;
    trace_keep_kinds(&trace, kinds);
    measure(settings, &trace, &figures);
    if (!figures.ample.run.fits || (settings->device_text && !figures.tight.run.fits))
        status = 1;
    if (settings->json)
        print_json(settings, name, &trace, &figures);
    else
        print_human(settings, name, &trace, &figures);
    trace_free(&trace);
    return status;
}

int main(int argc, char **argv)
{
    struct settings settings = {
        .ready_text = "at-once", .repeat = 3, .run = {.window = 256}};
    int status = 0;

    read_options(&settings, argc, argv);
    if (optind == argc) {
        fputs(usage, stderr);
        return 2;
    }
    for (int i = optind; i < argc; i++) {
        int one = replay(&settings, argv[i]);

        status = one > status ? one : status;
    }
    return status;
}
