/*
 * child_env.c - removes this library from LD_PRELOAD for started programs.
 *
 * The setting is read before main, since the program may start another one before its
 * first CUDA call, or change its environment. A bad value means the default; it is
 * reported at the first CUDA call, with those of all other variables.
 *
 * Owns:  the setting.   Lock: immutable after the constructor.
 */
#include "shim/life/child_env.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "gs_string.h"
#include "shim/settings/options.h"
#include "shim/settings/options_table.h"

#define PRELOAD "LD_PRELOAD="

static char renamed_entry[] = GS_RENAMED_VARIABLE "=said";
static bool renamed; /* atomic */

static char own_name[256]; /* "": started programs keep the library */
static char *const *first; /* the environment at start, which the C library never frees */

static bool has_preload(char *const *env)
{
    for (; env && *env; env++) {
        if ((*env)[0] == PRELOAD[0] && strncmp(*env, PRELOAD, strlen(PRELOAD)) == 0) {
            return (*env)[strlen(PRELOAD)] != '\0';
        }
    }
    return false;
}

void gs_child_env_start(char *const *env, bool given)
{
    const struct gs_option *option = &gs_options_table[GS_OPTION_ROW_follow_children];
    const char *text = given ? gs_options_given_text(env, option->name) : "";
    uint64_t follow;
    Dl_info self;
    first = env;
    if (!*text || getauxval(AT_SECURE) ||
        gs_option_parse(option, text, &follow) != GS_OK || follow) {
        return;
    }
    if (dladdr(own_name, &self) && self.dli_fname) {
        (void)snprintf(own_name, sizeof(own_name), "%s", gs_file_name(self.dli_fname));
    }
}

bool gs_child_env_loses(char *const *env)
{
    return !own_name[0] && has_preload(first) && !has_preload(env);
}

/* Returns the end of the next word of LD_PRELOAD's value; *at is set to its first
 * character. */
static const char *next_word(const char **at)
{
    *at += strspn(*at, ": ");
    return *at + strcspn(*at, ": ");
}

static bool is_own(const char *own, const char *word, const char *end)
{
    const char *slash = memrchr(word, '/', (size_t)(end - word));
    const char *name = slash ? slash + 1 : word;
    size_t length = strlen(own);
    return (size_t)(end - name) == length && memcmp(name, own, length) == 0;
}

/* The value of LD_PRELOAD, if it contains `own`; else NULL. */
static const char *preload_with_own(const char *own, const char *entry)
{
    if (strncmp(entry, PRELOAD, strlen(PRELOAD)) != 0) {
        return NULL;
    }
    const char *word = entry + strlen(PRELOAD);
    for (const char *end = next_word(&word); word < end;
         word = end, end = next_word(&word)) {
        if (is_own(own, word, end)) {
            return entry + strlen(PRELOAD);
        }
    }
    return NULL;
}

struct gs_child_env gs_child_env_measure_for(const char *own, char *const *env)
{
    struct gs_child_env need = {.entries = 1, .bytes = 1};
    size_t entries = 1;
    size_t bytes = 0;
    for (size_t i = 0; own && own[0] && env && env[i]; i++) {
        entries++;
        bytes += preload_with_own(own, env[i]) ? strlen(env[i]) + 1 : 0;
    }
    if (bytes == 0) {
        return need;
    }
    need.own = own;
    need.entries = entries;
    need.bytes = bytes;
    return need;
}

void gs_child_env_note_renamed(void)
{
    __atomic_store_n(&renamed, true, __ATOMIC_RELAXED);
}

struct gs_child_env gs_child_env_measure(char *const *env)
{
    struct gs_child_env need = gs_child_env_measure_for(own_name, env);
    if (!__atomic_load_n(&renamed, __ATOMIC_RELAXED) ||
        gs_options_given(env, GS_RENAMED_VARIABLE)) {
        return need;
    }
    need.renamed = true;
    for (size_t i = 0; !need.own && env && env[i]; i++) {
        need.entries++;
    }
    need.entries++;
    return need;
}

/* Writes the entry without `own` at `text`. Returns its end, or `text` if no word is
 * left. */
static char *write_without_own(const char *own, const char *value, char *text)
{
    const char *word = value;
    char *out = stpcpy(text, PRELOAD);
    char *begin = out;
    for (const char *end = next_word(&word); word < end;
         word = end, end = next_word(&word)) {
        if (is_own(own, word, end)) {
            continue;
        }
        if (out > begin) {
            *out++ = ':';
        }
        out = mempcpy(out, word, (size_t)(end - word));
    }
    if (out == begin) {
        return text;
    }
    *out++ = '\0';
    return out;
}

char *const *gs_child_env_make(const struct gs_child_env *need, char *const *env,
                               char **entries, char *text)
{
    const char *text_end = text + need->bytes;
    const size_t most = need->entries - need->renamed;
    size_t count = 0;
    if (!need->own && !need->renamed) {
        return env;
    }
    /* Bounded, since another thread may be changing the variable. */
    for (; env && *env && count + 1 < most; env++) {
        const char *value = need->own ? preload_with_own(need->own, *env) : NULL;
        if (!value || strlen(*env) >= (size_t)(text_end - text)) {
            entries[count++] = *env;
            continue;
        }
        char *end = write_without_own(need->own, value, text);
        if (end > text) {
            entries[count++] = text;
            text = end;
        }
    }
    if (need->renamed) {
        entries[count++] = renamed_entry;
    }
    entries[count] = NULL;
    return entries;
}
