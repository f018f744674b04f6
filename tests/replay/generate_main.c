/*
 * generate_main.c - `generate`: an allocation trace on standard output.
 * Owns: nothing.   Lock: none.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"

static _Noreturn void refuse(const char *what, const char *value)
{
    fprintf(stderr, "generate: %s: %s (--help says what there is)\n", what, value);
    exit(2);
}

static void print_usage(void)
{
    printf("usage: generate PRESET [OPTION...] >TRACE\n"
           "Writes an allocation trace that the seed decides.\n"
           "  --seed N         (1)\n"
           "  --allocations N  about so many; the rest of these have a default a preset\n"
           "  --threads N      at most %u\n"
           "  --streams N      besides the default stream\n"
           "  --scale X        all sizes times X (1)\n"
           "  --binary         as the library records, not as CSV\n"
           "presets:\n",
           GS_REPLAY_THREADS);
    for (size_t i = 0; i < preset_count; i++)
        printf("  %-8s %u allocations, %u threads, %u streams\n           %s\n",
               presets[i].name, presets[i].allocations, presets[i].threads,
               presets[i].streams, presets[i].doc);
}

static uint64_t read_count(const char *name, uint64_t least, uint64_t most)
{
    char *end;
    uint64_t value = strtoull(optarg, &end, 10);

    if (*optarg < '0' || *optarg > '9' || *end != '\0' || value < least || value > most)
        refuse(name, optarg);
    return value;
}

static double read_scale(void)
{
    char *end;
    double value = strtod(optarg, &end);

    if (*end != '\0' || !(value >= 1e-6 && value <= 1e3))
        refuse("--scale", optarg);
    return value;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"seed", required_argument, NULL, 's'},
                                            {"allocations", required_argument, NULL, 'a'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"streams", required_argument, NULL, 'm'},
                                            {"scale", required_argument, NULL, 'x'},
                                            {"binary", no_argument, NULL, 'b'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct generate_settings settings = {.seed = 1, .scale = 1};
    const struct preset *preset;
    struct gs_replay_trace trace;
    bool binary = false, good;
    int letter;

    while ((letter = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (letter) {
        case 's':
            settings.seed = read_count("--seed", 0, UINT64_MAX);
            break;
        case 'a':
            settings.allocations = (uint32_t)read_count("--allocations", 1, 100000000);
            break;
        case 't':
            settings.threads = (uint32_t)read_count("--threads", 1, GS_REPLAY_THREADS);
            break;
        case 'm':
            settings.streams = (uint32_t)read_count("--streams", 1, 60000);
            break;
        case 'x':
            settings.scale = read_scale();
            break;
        case 'b':
            binary = true;
            break;
        case 'h':
            print_usage();
            return 0;
        default:
            return 2;
        }
    }
    if (optind + 1 != argc)
        refuse("one preset", optind == argc ? "none is named" : argv[optind + 1]);
    preset = preset_find(argv[optind]);
    if (!preset)
        refuse("no such preset", argv[optind]);
    generate(preset, &settings, &trace);
    good = binary ? gs_replay_write_binary(&trace, stdout)
                  : gs_replay_write_csv(&trace, stdout);
    gs_replay_free(&trace);
    if (!good)
        perror("generate");
    return good ? 0 : 1;
}
