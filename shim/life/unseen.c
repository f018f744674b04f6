/*
 * unseen.c - looks for a driver that nobody has called through the library.
 * Owns:  the process's id, and whether the line was written.   Lock: none, atomic.
 */
#include "unseen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "elf_module.h"
#include "fork.h"
#include "linker.h"
#include "log.h"
#include "options.h"
#include "state.h"

static pid_t process; /* immutable after the constructor */
static bool ended;    /* atomic */

void gs_unseen_begin(void)
{
    process = (pid_t)syscall(SYS_getpid);
}

static bool names_driver(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return path && gs_elf_begins_with(slash ? slash + 1 : path, "libcuda.so");
}

/* The file of a driver; "": none. */
struct driver {
    char path[256];
};

static bool is_driver(const char *path, const struct gs_module_ref *module, void *data)
{
    struct driver *out = data;
    const char *soname = gs_elf_soname(module);
    const char *name = path && *path ? path : soname;
    if (!name || (!names_driver(path) && !names_driver(soname))) {
        return false;
    }
    strncpy(out->path, name, sizeof(out->path) - 1);
    return true;
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct gs_module_ref module = gs_elf_module_in(info);
    (void)size;
    return is_driver(info->dlpi_name, &module, data);
}

/* Another copy of the library, or another version, has seen the calls. */
static int visit_copies(struct dl_phdr_info *info, size_t size, void *unused)
{
    struct gs_module_ref module = gs_elf_module_in(info);
    (void)size;
    (void)unused;
    return gs_linker_is_copy(&module) && !gs_linker_is_own(&module);
}

static bool find(struct driver *out)
{
    return gs_elf_visit(visit, out) || gs_elf_visit_namespaces(is_driver, out);
}

int gs_unseen_end(int status)
{
    static struct gs_options options;        /* too large for a small stack */
    static struct gs_options_messages notes; /* likewise */
    struct driver driver = {""};
    if (__atomic_load_n(&gs_state_begun, __ATOMIC_ACQUIRE) || gs_fork_is_child() ||
        process != (pid_t)syscall(SYS_getpid) ||
        __atomic_exchange_n(&ended, true, __ATOMIC_ACQ_REL) || !find(&driver) ||
        gs_elf_visit(visit_copies, NULL)) {
        return status;
    }
    gs_options_load(&options, environ, getauxval(AT_SECURE) != 0, &notes);
    if (!options.enable) {
        return status;
    }
    gs_log_open(options.log_file, options.verbose);
    bool changed = status == 0 && options.error_exitcode != 0;
    gs_log_line(GS_LOG_WARN,
                "a CUDA driver was loaded (%s) and no call was seen: nothing is known of "
                "this process's memory%s",
                driver.path, changed ? "; it ends with GPUSHIM_ERROR_EXITCODE" : "");
    return changed ? (int)options.error_exitcode : status;
}
