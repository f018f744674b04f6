/*
 * unseen.c - looks for a driver that nobody has called through the library.
 * Owns:  the process's id, and whether the line was written.   Lock: none, atomic.
 */
#include "unseen.h"

#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "elf_module.h"
#include "fork.h"
#include "linker.h"
#include "log.h"
#include "options.h"
#include "options_idle.h"
#include "real.h"
#include "state.h"

static pid_t process; /* immutable after the constructor */
static bool ended;    /* atomic */

void gs_unseen_begin(void)
{
    process = (pid_t)syscall(SYS_getpid);
    gs_elf_list_mark();
}

/* By the file's name. */
static bool names_driver(const char *path)
{
    const char *file = path;
    for (; *path; path++) {
        file = *path == '/' ? path + 1 : file;
    }
    return gs_elf_begins_with(file, "libcuda.so");
}

/* A driver that was found. */
struct driver {
    const char *path;
    struct gs_module_ref module;
    bool apart; /* in a namespace of its own */
};

/* A file of the driver's name may be another library: it is known by its functions. */
static bool visit_module(const char *path, const struct gs_module_ref *module, bool apart,
                         struct driver *out)
{
    if (!path || !names_driver(path) || !gs_real_is_driver(module)) {
        return false;
    }
    *out = (struct driver){.path = path, .module = *module, .apart = apart};
    return true;
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct gs_module_ref module = gs_elf_module_in(info);
    (void)size;
    return visit_module(info->dlpi_name, &module, false, data);
}

static bool visit_apart(const char *path, const struct gs_module_ref *module, void *data)
{
    return visit_module(path, module, true, data);
}

/* Returns true if the driver says that no call has initialized it, or that it is the
 * toolkit's stub, which refuses all calls. Any other answer, also that it has ended,
 * means that one did. */
static bool was_never_used(const struct driver *driver)
{
    CUcontext current;
    __typeof__(cuCtxGetCurrent) *get =
        driver->apart ? NULL
                      : (__typeof__(cuCtxGetCurrent) *)gs_elf_symbol(&driver->module,
                                                                     "cuCtxGetCurrent");
    CUresult answer = get ? get(&current) : CUDA_SUCCESS;
    return answer == CUDA_ERROR_NOT_INITIALIZED || answer == CUDA_ERROR_STUB_LIBRARY;
}

/* Another copy of the library, or another version, has seen the calls. */
static int visit_copies(struct dl_phdr_info *info, size_t size, void *unused)
{
    struct gs_module_ref module = gs_elf_module_in(info);
    (void)size;
    (void)unused;
    return gs_linker_is_copy(&module) && !gs_linker_is_own(&module);
}

static void log_idle_option(const char *name, const char *value, const char *why)
{
    gs_log_line(GS_LOG_WARN, "%s=%s: %s", name, value, why);
}

/* Logs what the start would have logged about the options. */
static void log_options(const struct gs_options *options,
                        const struct gs_options_messages *notes)
{
    gs_log_open(options->log_file, options->verbose);
    if (options->verbose >= GS_LOG_WARN && notes->length > 0) {
        gs_log_text(notes->text, notes->length);
    }
    if (!getauxval(AT_SECURE)) {
        gs_options_log_idle(options, environ, log_idle_option);
    }
}

int gs_unseen_end(int status)
{
    static struct gs_options options;        /* too large for a small stack */
    static struct gs_options_messages notes; /* likewise */
    struct driver driver;
    /* A program that is linked with the driver calls the wrappers: only what was loaded
     * later calls past them. */
    if (__atomic_load_n(&gs_state_begun, __ATOMIC_ACQUIRE) || !gs_elf_list_grew() ||
        process != (pid_t)syscall(SYS_getpid) || gs_fork_is_child() ||
        __atomic_exchange_n(&ended, true, __ATOMIC_ACQ_REL) ||
        !(gs_elf_visit(visit, &driver) ||
          gs_elf_visit_namespaces(visit_apart, &driver)) ||
        gs_elf_visit(visit_copies, NULL)) {
        return status;
    }
    gs_options_load(&options, environ, getauxval(AT_SECURE) != 0, &notes);
    if (!options.enable) {
        log_options(&options, &notes);
    }
    if (!options.enable || was_never_used(&driver)) {
        return status;
    }
    log_options(&options, &notes);
    bool changed = status == 0 && options.error_exitcode != 0;
    gs_log_line(
        GS_LOG_WARN,
        "a CUDA driver was loaded (%.256s) and no call was seen: nothing is known "
        "of this process's memory%s",
        driver.path, changed ? "; it ends with GPUSHIM_ERROR_EXITCODE" : "");
    return changed ? (int)options.error_exitcode : status;
}
