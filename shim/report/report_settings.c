/*
 * report_settings.c - the options of every report (limits, names, rules) and its results
 * (text, files, an exit status).
 * Owns:  the names of runtime functions.   Lock: none.
 */
#include "shim/report/report_settings.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/cuda/cuda_names.h"
#include "shim/report/leak_rules.h"
#include "shim/report/write_rules.h"
#include "shim/settings/environment.h"
#include "shim/settings/log.h"
#include "shim/settings/progress.h"
#include "tracker/report/text/color.h"

struct gs_report_lines gs_report_lines_unheard(bool heard)
{
    static const char why[] = "file and line are left out: the program handles SIGCHLD, "
                              "and would see the helper program end";
    return (struct gs_report_lines){.wanted = !heard, .why_none = heard ? why : NULL};
}

/* Runtime functions that allocate, free, copy or set: their frames, and the ones below,
 * do not belong to the program. */
static const char *const runtime_names[] = {
    "cudaMalloc",
    "cudaMallocPitch",
    "cudaMalloc3D",
    "cudaMallocHost",
    "cudaHostAlloc",
    "cudaMallocManaged",
    "cudaMallocAsync",
    "cudaMallocFromPoolAsync",
    "cudaMallocArray",
    "cudaMalloc3DArray",
    "cudaMallocMipmappedArray",
    "cudaHostRegister",
    "cudaImportExternalMemory",
    "cudaExternalMemoryGetMappedBuffer",
    "cudaExternalMemoryGetMappedMipmappedArray",
    "cudaIpcOpenMemHandle",
    "cudaMemPoolImportPointer",
    "cudaGraphAddMemAllocNode",
    "cudaGraphAddNode",
    "cudaGraphAddNode_v2",
    "cudaFree",
    "cudaFreeHost",
    "cudaFreeAsync",
    "cudaFreeArray",
    "cudaFreeMipmappedArray",
    "cudaHostUnregister",
    "cudaDestroyExternalMemory",
    "cudaIpcCloseMemHandle",
    "cudaGraphLaunch",
    "cudaGraphLaunch_ptsz",
#define GS_RUNTIME_USE(symbol) #symbol,
#include "shim/checks/runtime_uses.def"
#undef GS_RUNTIME_USE
};

static bool peaks_asked;  /* GPUSHIM_PEAK_MAX is set; atomic */
static bool ranges_asked; /* NVTX is asked to load the library; constant after start */

/* Whether a variable names the library as the one that NVTX loads. */
static bool names_library(const char *entry)
{
    static const char name[] = "NVTX_INJECTION64_PATH=", library[] = "libgpushim.so";
    if (strncmp(entry, name, sizeof(name) - 1) != 0) {
        return false;
    }
    const char *slash = strrchr(entry, '/');
    const char *file = slash ? slash + 1 : entry + sizeof(name) - 1;
    return strncmp(file, library, sizeof(library) - 1) == 0;
}

void gs_report_settings_start(void)
{
    for (char *const *entry = gs_environment(); entry && *entry; entry++) {
        ranges_asked = ranges_asked || names_library(*entry);
    }
    if (gs_options_given(gs_environment(), "GPUSHIM_PEAK_MAX")) {
        gs_report_ask_peaks();
    }
}

void gs_report_ask_peaks(void)
{
    __atomic_store_n(&peaks_asked, true, __ATOMIC_RELAXED);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Warns once about missing folders, whose debug files cannot be found. */
static void check_folders(const struct gs_options *options)
{
    static atomic_flag checked = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&checked)) {
        return;
    }
    if (options->sysroot[0] && !is_folder(options->sysroot)) {
        gs_log_line(
            GS_LOG_WARN,
            "GPUSHIM_SYSROOT: %.300s is not a folder; files are read at their own paths",
            options->sysroot);
    }
    for (const char *at = options->debug_dir; *at;) {
        char folder[sizeof(options->debug_dir)];
        size_t length = strcspn(at, ":");
        memcpy(folder, at, length);
        folder[length] = '\0';
        if (length && !is_folder(folder)) {
            gs_log_line(GS_LOG_WARN,
                        "GPUSHIM_DEBUG_DIR: %.300s is not a folder; it is not searched",
                        folder);
        }
        at += length + (at[length] == ':');
    }
}

struct gs_report_config gs_report_settings(const struct gs_options *options,
                                           struct gs_report_lines lines)
{
    unsigned most_ms = options->symbolize_timeout_ms;
    check_folders(options);
    const struct gs_symbolizer_config symbols = {
        .debug_dirs = options->debug_dir,
        .sysroot = options->sysroot,
        .lines = options->symbolize && lines.wanted,
        .timeout_ms = lines.most_ms && lines.most_ms < most_ms ? lines.most_ms : most_ms,
        .why_none = options->symbolize ? lines.why_none : NULL,
        .server = lines.server};
    struct gs_symbolizer *symbolizer = NULL;
    if (gs_symbolizer_create(&symbols, &symbolizer) != GS_OK) {
        symbolizer = NULL;
    }
    return (struct gs_report_config){
        .stack_depth = options->stack_depth,
        .max_groups = options->leak_max,
        .peak_max = options->peak_max,
        .peaks_asked = __atomic_load_n(&peaks_asked, __ATOMIC_RELAXED),
        .ranges_asked = ranges_asked,
        .min_leak_bytes = options->leak_min_bytes,
        .caches_leak = !options->suppressions_builtin,
        .all_frames = options->stack_frames == GS_STACK_FRAMES_ALL,
        .full_paths = options->full_paths,
        .show_leaks = options->leak_report != GS_LEAK_REPORT_OFF ||
                      gs_environment_is_replaced(), /* only reports that are asked for */
        .runtime_names = runtime_names,
        .runtime_name_count = GS_ARRAY_LEN(runtime_names),
        .symbolizer = symbolizer,
        .suppressions = gs_rules(),
        .launch_api = GS_API_cuGraphLaunch,
    };
}

bool gs_report_compose(struct gs_tracker *tracker, struct gs_report_config config,
                       struct gs_output_contents *files, struct gs_text *text)
{
    struct gs_report_summary summary;
    struct gs_text rules = {0};
    config.job = files ? &files->job : NULL;
    config.rules = gs_rules_wanted() && !config.running ? &rules : NULL;
    gs_progress_tick();
    gs_report_write(tracker, &config, text, &summary);
    gs_progress_tick();
    if (files) {
        gs_output_contents_free(files);
    }
    if (config.rules) { /* its line precedes the report, whose SUMMARY is the last one */
        gs_rules_write(&rules, config.command);
        gs_text_free(&rules);
    }
    bool leaked = summary.leaked_count > 0 && !config.running;
    return summary.errors > 0 || leaked || summary.no_start;
}

/* Whether the output is a terminal that shows colours and the user wants them
 * (https://no-color.org). */
static bool shows_colors(int fd)
{
    const char *no_color = gs_environment_value("NO_COLOR");
    const char *terminal = gs_environment_value("TERM");
    return fd >= 0 && isatty(fd) && (!no_color || !no_color[0]) &&
           !gs_text_is_dumb(terminal);
}

void gs_report_color(const struct gs_options *options, int fd, struct gs_text *text)
{
    if (text->data && (options->color == GS_COLOR_ALWAYS ||
                       (options->color == GS_COLOR_AUTO && shows_colors(fd)))) {
        gs_text_color(text);
    }
}

void gs_report_log(const struct gs_options *options, struct gs_text *text)
{
    gs_report_color(options, options->log_file[0] ? -1 : STDERR_FILENO, text);
    if (text->data) {
        gs_log_text(text->data, text->length);
    }
}
