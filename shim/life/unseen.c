/*
 * unseen.c - looks for a driver that nobody has called through the library.
 *
 * Whether the program has used it is decided without a call of the driver, which may have
 * ended: by the devices that the process has open.
 *
 * Owns:  the process's id, and whether the line was written.   Lock: none, atomic.
 */
#include "shim/life/unseen.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/life/fork.h"
#include "shim/link/elf_module.h"
#include "shim/link/linker.h"
#include "shim/link/real.h"
#include "shim/settings/environment.h"
#include "shim/settings/log.h"
#include "shim/settings/options.h"
#include "shim/settings/options_idle.h"
#include "shim/state/state.h"

static pid_t process; /* immutable after the constructor */
static bool ended;    /* atomic */

void gs_unseen_begin(void)
{
    process = (pid_t)syscall(SYS_getpid);
    gs_elf_list_mark();
}

/* Whether the path has the driver's file name. */
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
    bool apart; /* in a namespace of its own */
};

/* Stops at the driver. A file of the driver's name may be another library, so its
 * functions decide. */
static bool visit_module(const char *path, const struct gs_module_ref *module, bool apart,
                         struct driver *out)
{
    if (!path || !names_driver(path) || !gs_real_is_driver(module)) {
        return false;
    }
    *out = (struct driver){.path = path, .apart = apart};
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

/* The devices that a driver opens at its initialization, and no other library of
 * NVIDIA's: Linux, WSL, Tegra. */
static bool names_device(const char *path)
{
    static const char *const devices[] = {"/dev/nvidia-uvm", "/dev/dxg", "/dev/nvmap"};
    for (size_t i = 0; i < GS_ARRAY_LEN(devices); i++) {
        if (gs_elf_same_name(path, devices[i])) {
            return true;
        }
    }
    return false;
}

/* An entry of a folder, as the kernel writes it. */
struct entry {
    uint64_t inode, next;
    uint16_t bytes;
    uint8_t kind;
    char name[];
};

static bool any_device_among(int folder, const char *entries, long bytes)
{
    for (long at = 0; at < bytes;) {
        const struct entry *entry = (const struct entry *)(entries + at);
        char path[64];
        long length =
            syscall(SYS_readlinkat, folder, entry->name, path, sizeof(path) - 1);
        at += entry->bytes;
        if (length > 0) {
            path[length] = '\0';
            if (names_device(path)) {
                return true;
            }
        }
    }
    return false;
}

/* Whether the process has a device file open. Uses system calls alone: the driver itself
 * may have ended, and the process may be in a signal handler. */
static bool has_device(void)
{
    _Alignas(struct entry) char entries[1024];
    long bytes;
    bool found = false;
    int folder = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/fd",
                              O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return false;
    }
    while (!found &&
           (bytes = syscall(SYS_getdents64, folder, entries, sizeof(entries))) > 0) {
        found = any_device_among(folder, entries, bytes);
    }
    syscall(SYS_close, folder);
    return found;
}

/* Stops at another copy or version of this library, which has recorded the calls. */
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
        gs_options_log_idle(options, gs_environment(), log_idle_option);
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
    gs_options_load(&options, gs_environment(), getauxval(AT_SECURE) != 0, &notes);
    if (!options.enable) {
        log_options(&options, &notes);
    }
    if (!options.enable || !(driver.apart || has_device())) {
        return status;
    }
    log_options(&options, &notes);
    bool changed = status == 0 && options.error_exitcode != 0;
    gs_log_line(GS_LOG_WARN,
                "a CUDA driver was loaded (%.256s), but no call was seen: this process's "
                "memory is not recorded%s",
                driver.path, changed ? "; it ends with GPUSHIM_ERROR_EXITCODE" : "");
    return changed ? (int)options.error_exitcode : status;
}

void gs_unseen_give_up(void)
{
    __atomic_store_n(&ended, true, __ATOMIC_RELEASE);
}
