/*
 * cdi.c - gpushim cdi: a specification of the Container Device Interface, with which
 * Podman, Docker, containerd and CRI-O put the library into containers.
 *
 * What a specification sets replaces a variable of the image and of the runtime's own
 * command line; nothing can be appended. So there are two devices: "on" sets LD_PRELOAD,
 * "file" leaves it alone and mounts an /etc/ld.so.preload.
 *
 * Owns: nothing.   Lock: none.   Design: docs/clusters.md, "Docker and Podman"
 * Source: SPEC.md of cncf-tags/container-device-interface
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_printable.h"
#include "shim/settings/options.h"
#include "shim/settings/start_folder.h"
#include "shim/tools/launcher/launcher.h"
#include "tracker/report/files/export_json_values.h"

/* The oldest that parsers still accept; Podman 4.3 refuses 0.6.0. */
#define CDI_VERSION "0.3.0"
#define VENDOR      "gpushim.dev/"

#define CANNOT_WRITE 1

#define NAME_DEFAULT "default"
#define NAME_MOST    63u

/* Next to the library; its line is the library's path in the container. */
#define PRELOAD_FILE "ld.so.preload"

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char digits[] = "0123456789";

/* ---- what is asked for ------------------------------------------------------------- */

static bool is_in(const char *set, char c)
{
    return c && strchr(set, c);
}

static const char *checked_name(const char *name)
{
    size_t length = strlen(name), plain = 0;
    while (is_in(letters, name[plain]) || is_in(digits, name[plain]) ||
           is_in("_-", name[plain])) {
        plain++;
    }
    if (!is_in(letters, name[0]) || plain != length || is_in("_-", name[length - 1]) ||
        length > NAME_MOST) {
        gs_launcher_fail(GS_EXIT_USAGE,
                         "--name=%.100s: a name has up to %u letters, digits, - and _, "
                         "begins with a letter, and ends with a letter or digit",
                         name, NAME_MOST);
    }
    return name;
}

/* JSON has no other text. */
static void check_text(const char *what, const char *text)
{
    for (const char *at = text; *at; at += gs_utf8_length(at)) {
        if (gs_utf8_length(at) == 0) {
            gs_launcher_fail(GS_EXIT_USAGE, "%s=%.400s: not UTF-8", what, text);
        }
    }
}

static void check_folder(const char *folder)
{
    struct stat there;
    const char *problem = folder[0] != '/' ? "not a whole path"
                          : !folder[strspn(folder, "/.")]
                              ? "it would hide the container's own files"
                          : strchr(folder, '%') ? "a percent sign has a meaning in names "
                                                  "of files"
                                                : NULL;
    if (problem) {
        gs_launcher_fail(GS_EXIT_USAGE, "--folder=%.400s: %s", folder, problem);
    }
    check_text("--folder", folder);
    if (stat(folder, &there) == 0 && !S_ISDIR(there.st_mode)) {
        gs_launcher_fail(GS_EXIT_USAGE, "--folder=%.400s: not a folder", folder);
    }
    if (access(folder, F_OK) != 0) {
        gs_launcher_warn("--folder=%.400s: %s; containers do not start without it",
                         folder, gs_output_error_text(errno));
    }
}

/* Options of the command itself, which is not in the container. */
static void refuse_own_options(const struct gs_arguments *arguments)
{
    const char *own = arguments->summary                  ? "--summary"
                      : arguments->print                  ? "--print"
                      : arguments->error_no_cuda          ? "--error-no-cuda"
                      : arguments->watch != GS_WATCH_AUTO ? "--watch"
                                                          : NULL;
    if (own) {
        gs_help_refuse(GS_VERB_CDI,
                       "%s has no effect: the command gpushim is not in the container",
                       own);
    }
}

/* Returns whether the value of an option names a file without its folder. */
static bool is_relative(size_t row, const char *value)
{
    if (row == GS_OPTION_ROW_suppressions) {
        for (size_t length; *value; value += length + (value[length] == ':')) {
            length = strcspn(value, ":");
            if (length && value[0] != '/') {
                return true;
            }
        }
        return false;
    }
    if (row == GS_OPTION_ROW_warmup) {
        return value[0] == '@' && value[1] != '/';
    }
    return row != GS_OPTION_ROW_output &&
           gs_start_folder_matters(&gs_options_table[row], value);
}

/* A container has folders of its own, and its program may be in any of them. */
static void refuse_relative_names(void)
{
    char name[GS_OPTION_ARGUMENT_BYTES];
    for (size_t i = 0; i < GS_OPTIONS_COUNT; i++) {
        const char *variable = gs_options_table[i].name, *value = getenv(variable);
        if (value && gs_arguments_is_set(variable) && is_relative(i, value)) {
            gs_launcher_fail(GS_EXIT_USAGE,
                             "%s=%.400s: not a whole path, which a container needs",
                             gs_option_argument(variable, name), value);
        }
    }
}

/* ---- the specification ------------------------------------------------------------- */

/* What the container gets of a variable that an option has set. NULL: nothing, it is the
 * command's own, or an item that its list has taken. */
static const char *value_of(const char *variable)
{
    for (size_t i = 0; i < gs_launcher_options_count; i++) {
        if (strcmp(gs_launcher_options[i].name, variable) == 0) {
            return NULL;
        }
    }
    return getenv(variable);
}

/* Writes an entry "NAME=VALUE". */
static void put_variable(struct gs_json *json, const char *name, const char *value)
{
    char *entry = NULL;
    if (asprintf(&entry, "%s=%s", name, value) < 0) {
        gs_launcher_fail(GS_EXIT_CANNOT_RUN, "no memory");
    }
    gs_json_text(json, entry);
    free(entry);
}

static void put_mount(struct gs_json *json, const char *host, const char *container,
                      const char *access)
{
    const char *options[] = {access, "nosuid", "nodev", "bind"};
    gs_json_open(json, '{');
    gs_json_member_text(json, "hostPath", host);
    gs_json_member_text(json, "containerPath", container);
    gs_json_member_open(json, "options", '[');
    for (size_t i = 0; i < GS_ARRAY_LEN(options); i++) {
        gs_json_text(json, options[i]);
    }
    gs_json_close(json, ']');
    gs_json_close(json, '}');
}

/* Mounts a file that the run reads, unless it is in the folder. */
static void put_input(struct gs_json *json, const char *folder, const char *path)
{
    size_t length = folder ? strlen(folder) : 0;
    if (!folder || strncmp(path, folder, length) != 0 ||
        (path[length] != '/' && folder[length - 1] != '/')) {
        put_mount(json, path, path, "ro");
    }
}

static void put_inputs(struct gs_json *json, const char *folder)
{
    const char *warmup = gs_options_table[GS_OPTION_ROW_warmup].name,
               *rules = gs_options_table[GS_OPTION_ROW_suppressions].name;
    const char *list = gs_arguments_is_set(rules) ? getenv(rules) : NULL,
               *file = gs_arguments_is_set(warmup) ? getenv(warmup) : NULL;
    char path[GS_OPTIONS_PATH_BYTES];
    for (size_t length; list && *list; list += length + (list[length] == ':')) {
        length = strcspn(list, ":");
        (void)snprintf(path, sizeof(path), "%.*s", (int)length, list);
        if (length) {
            put_input(json, folder, path);
        }
    }
    if (file && file[0] == '@') {
        put_input(json, folder, file + 1);
    }
}

/* What both devices have: options as variables, the library and the files. */
static void put_common(struct gs_json *json, const struct gs_arguments *arguments,
                       const char *library)
{
    const char *variable, *value;
    gs_json_member_open(json, "containerEdits", '{');
    gs_json_member_open(json, "env", '[');
    for (size_t i = 0; (variable = gs_arguments_set_at(i)) != NULL; i++) {
        if ((value = value_of(variable)) != NULL) {
            put_variable(json, variable, value);
        }
    }
    gs_json_close(json, ']');
    gs_json_member_open(json, "mounts", '[');
    put_mount(json, library, GPUSHIM_CONTAINER_LIBRARY, "ro");
    if (arguments->folder) {
        put_mount(json, arguments->folder, arguments->folder, "rw");
    }
    put_inputs(json, arguments->folder);
    gs_json_close(json, ']');
    gs_json_close(json, '}');
}

static void put_devices(struct gs_json *json, const char *preload_file)
{
    gs_json_member_open(json, "devices", '[');
    gs_json_open(json, '{');
    gs_json_member_text(json, "name", "on");
    gs_json_member_open(json, "containerEdits", '{');
    gs_json_member_open(json, "env", '[');
    put_variable(json, "LD_PRELOAD", GPUSHIM_CONTAINER_LIBRARY);
    gs_json_close(json, ']');
    gs_json_close(json, '}');
    gs_json_close(json, '}');
    if (preload_file) {
        gs_json_open(json, '{');
        gs_json_member_text(json, "name", "file");
        gs_json_member_open(json, "containerEdits", '{');
        gs_json_member_open(json, "mounts", '[');
        put_mount(json, preload_file, "/etc/" PRELOAD_FILE, "ro");
        gs_json_close(json, ']');
        gs_json_close(json, '}');
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
}

/* ---- the command ------------------------------------------------------------------- */

/* Sets a variable to a file in the folder, unless an option names one. */
static void set_file(enum gs_option_row row, const char *folder, const char *pattern)
{
    char path[PATH_MAX];
    const char *name = gs_options_table[row].name;
    if (gs_arguments_is_set(name)) {
        return;
    }
    if (snprintf(path, sizeof(path), "%s/%s", folder, pattern) >= GS_OPTIONS_PATH_BYTES) {
        gs_launcher_fail(GS_EXIT_USAGE, "--folder=%.400s: the path is too long", folder);
    }
    gs_arguments_set(name, path);
}

static void set_variables(const struct gs_arguments *arguments)
{
    const char *folder = arguments->folder;
    if (folder) {
        set_file(GS_OPTION_ROW_log_file, folder, "report.%h.%p");
        set_file(GS_OPTION_ROW_state_file, folder, "state.%h.%p");
        if (gs_arguments_is_set(gs_options_table[GS_OPTION_ROW_output].name)) {
            set_file(GS_OPTION_ROW_output_file, folder, "output.%h.%p");
        }
    }
    if (arguments->nvtx) {
        gs_arguments_set("NVTX_INJECTION64_PATH", GPUSHIM_CONTAINER_LIBRARY);
    }
    gs_lists_join();
    for (size_t i = 0; gs_arguments_set_at(i); i++) {
        const char *value = value_of(gs_arguments_set_at(i));
        check_text(gs_arguments_set_at(i), value ? value : "");
    }
}

/* Sets `library` to its real path. Returns the file next to it; NULL: there is none. */
static const char *find_files(char library[PATH_MAX])
{
    static char file[PATH_MAX];
    const char *found = gs_library_of_any();
    if (!realpath(found, library)) {
        gs_launcher_fail(GS_EXIT_USAGE, "%.400s: %s", found, gs_output_error_text(errno));
    }
    check_text("GPUSHIM_LIBRARY", library);
    int length = (int)(strrchr(library, '/') - library);
    if (snprintf(file, sizeof(file), "%.*s/" PRELOAD_FILE, length, library) >= PATH_MAX ||
        access(file, R_OK) != 0) {
        gs_launcher_warn("%.400s: %s; the device \"file\" is left out", file,
                         gs_output_error_text(errno));
        return NULL;
    }
    return file;
}

int gs_cdi_write(const struct gs_arguments *arguments)
{
    static struct gs_json json;
    static char kind[sizeof(VENDOR) + NAME_MOST], library[PATH_MAX];
    const char *name = checked_name(arguments->name ? arguments->name : NAME_DEFAULT);
    struct gs_page page;
    struct gs_export_sink sink = {gs_page_put, &page};
    if (arguments->command[0]) {
        gs_help_refuse(GS_VERB_CDI, "cdi takes only options, not %.200s",
                       arguments->command[0]);
    }
    refuse_own_options(arguments);
    if (arguments->folder) {
        check_folder(arguments->folder);
    }
    refuse_relative_names();
    const char *preload_file = find_files(library);
    set_variables(arguments);
    unsigned minor = gs_elf_glibc_minor(library);
    if (minor > 0) { /* the dynamic linker ends programs, in place of leaving it out */
        gs_launcher_warn("programs do not start in images whose glibc is older than 2.%u",
                         minor);
    }
    (void)snprintf(kind, sizeof(kind), VENDOR "%s", name);

    gs_page_open(&page, "specification", "-", NULL);
    gs_out_begin(&json.out, &sink);
    gs_json_open(&json, '{');
    gs_json_member_text(&json, "cdiVersion", CDI_VERSION);
    gs_json_member_text(&json, "kind", kind);
    put_devices(&json, preload_file);
    put_common(&json, arguments, library);
    gs_json_close(&json, '}');
    gs_out_char(&json.out, '\n');
    enum gs_status status = gs_out_end(&json.out);
    int exit_status = gs_page_close(&page);
    return status == GS_OK ? exit_status : CANNOT_WRITE;
}
