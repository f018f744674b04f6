/*
 * start_folder.c - see start_folder.h.
 *
 * A program without a variable that names a file makes no system call for it (a start
 * costs microseconds).
 *
 * Owns:  the folder.   Lock: immutable after the constructor.
 */
#include "shim/settings/start_folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "shim/settings/options_table.h"

#define PREFIX "GPUSHIM_"

static char folder[PATH_MAX]; /* "": not recorded */

/* Options other than PATH whose value may name files, and the character before which a
 * value names none. */
static const struct {
    enum gs_option_row row;
    char mark; /* the value names a file only after this character; 0: always */
} text_rows[] = {{GS_OPTION_ROW_suppressions, 0},
                 {GS_OPTION_ROW_warmup, '@'},
                 {GS_OPTION_ROW_output, 0}}; /* the default name is relative */

bool gs_start_folder_matters(const struct gs_option *option, const char *value)
{
    size_t row = (size_t)(option - gs_options_table);
    if (!*value) {
        return false;
    }
    if (row == GS_OPTION_ROW_mem_group) { /* a name, or a path */
        return value[0] != '/' && strchr(value, '/') != NULL;
    }
    if (option->type == GS_OPTION_PATH) {
        return value[0] != '/';
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(text_rows); i++) {
        if (text_rows[i].row == row) {
            return !text_rows[i].mark || value[0] == text_rows[i].mark;
        }
    }
    return false;
}

static bool entry_matters(const char *entry)
{
    for (size_t i = 0; i < GS_OPTIONS_COUNT; i++) {
        size_t length = strlen(gs_options_table[i].name);
        if (strncmp(entry, gs_options_table[i].name, length) == 0 &&
            entry[length] == '=') {
            return gs_start_folder_matters(&gs_options_table[i], entry + length + 1);
        }
    }
    return false;
}

void gs_start_folder_remember(char *const *env)
{
    int saved_errno = errno;
    for (; env && *env; env++) {
        if ((*env)[0] != PREFIX[0] || strncmp(*env, PREFIX, strlen(PREFIX)) != 0 ||
            !entry_matters(*env) || getauxval(AT_SECURE)) {
            continue;
        }
        if (!getcwd(folder, sizeof(folder)) || folder[0] != '/') {
            folder[0] = '\0'; /* "(unreachable)", or removed */
        }
        break;
    }
    errno = saved_errno;
}

bool gs_start_folder(char out[PATH_MAX])
{
    if (folder[0]) {
        strcpy(out, folder);
        return true;
    }
    return getcwd(out, PATH_MAX) && out[0] == '/';
}

void gs_start_folder_absolute(const char *name, char out[PATH_MAX])
{
    size_t length = strlen(name);
    out[0] = '\0';
    if (name[0] != '/' && gs_start_folder(out) && strlen(out) + 1 + length < PATH_MAX) {
        strcat(out, "/");
    } else {
        out[0] = '\0';
    }
    size_t at = strlen(out);
    (void)snprintf(out + at, PATH_MAX - at, "%s", name);
}
