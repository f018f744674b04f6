/*
 * options.h - the GPUSHIM_* environment variables as a struct.
 *
 * Everything here expands from options.def. Reading is pure: it uses only the array it is
 * given, allocates nothing and prints nothing. Notes about bad values are collected; the
 * caller writes them at the first CUDA call.
 *
 * Locks: none; the start fills the one struct of a process, which is immutable
 * afterwards.
 */
#ifndef GS_OPTIONS_H
#define GS_OPTIONS_H

#include "gs_base.h"
#include "tracker/tracker.h"

enum gs_async_mode { GS_ASYNC_DRIVER, GS_ASYNC_POOL };
enum gs_color { GS_COLOR_AUTO, GS_COLOR_ALWAYS, GS_COLOR_NEVER };
enum gs_stack_free { GS_STACK_FREE_AUTO, GS_STACK_FREE_ON, GS_STACK_FREE_OFF };
enum gs_check_fill { GS_CHECK_FILL_OFF, GS_CHECK_FILL_ZERO, GS_CHECK_FILL_POISON };
enum gs_free_sync {
    GS_FREE_SYNC_NATIVE,
    GS_FREE_SYNC_WAIT,
    GS_FREE_SYNC_LAZY,
    GS_FREE_SYNC_VERIFY
};
enum gs_host_clear { GS_HOST_CLEAR_OFF, GS_HOST_CLEAR_LARGE, GS_HOST_CLEAR_ALL };
enum gs_vmm_mode { GS_VMM_OFF, GS_VMM_ON, GS_VMM_AUTO };
/* Values as those of enum gs_carving. */
enum gs_carve_mode { GS_CARVE_MODE_OFF, GS_CARVE_MODE_AUTO, GS_CARVE_MODE_ON };
enum gs_ipc_mode { GS_IPC_AUTO, GS_IPC_NATIVE, GS_IPC_POOL };
enum gs_stack_frames { GS_STACK_FRAMES_OWN, GS_STACK_FRAMES_ALL };
enum gs_leak_report { GS_LEAK_REPORT_OFF, GS_LEAK_REPORT_EXIT, GS_LEAK_REPORT_RESET };

/* The longest file name pattern or text, with its NUL. */
#define GS_OPTIONS_PATH_BYTES 1024

#define GS_OPTIONS_FIELD_BOOL(field)  bool field;
#define GS_OPTIONS_FIELD_SIZE(field)  uint64_t field;
#define GS_OPTIONS_FIELD_UINT(field)  unsigned field;
#define GS_OPTIONS_FIELD_TIME(field)  unsigned field;
#define GS_OPTIONS_FIELD_ENUM(field)  int field;
#define GS_OPTIONS_FIELD_PATH(field)  char field[GS_OPTIONS_PATH_BYTES];
#define GS_OPTIONS_FIELD_SHARE(field) uint64_t field;
#define GS_OPTIONS_FIELD_TEXT(field)  char field[GS_OPTIONS_PATH_BYTES];

/* The encoding of a share: a number of bytes below GS_SHARE_PARTS, or GS_SHARE_PARTS plus
 * thousandths of a percent. */
#define GS_SHARE_PARTS ((uint64_t)1 << 63)
#define GS_SHARE_WHOLE UINT64_C(100000)

static inline uint64_t gs_share_percent(unsigned percent)
{
    return GS_SHARE_PARTS | percent * (GS_SHARE_WHOLE / 100);
}

/* The bytes of a share of `total_bytes`; a share in bytes is returned as it is, even if
 * larger. */
uint64_t gs_share_bytes(uint64_t share, uint64_t total_bytes);

/* The options of a process, in the order of the docs. */
struct gs_options { // NOLINT(clang-analyzer-optin.performance.Padding)
#define GS_OPT(field, name, type, default_, min, max, group, doc)                        \
    GS_OPTIONS_FIELD_##type(field)
#include "shim/settings/options.def"
};

/* The most lines of notes for one environment; a last line counts further problems. */
#define GS_OPTIONS_MESSAGE_LINES 20

#define GS_OPTIONS_RENAMED_BYTES 8192

/* The notes about an environment: whole lines, each "gpushim: ...\n". */
struct gs_options_messages {
    char text[8192]; /* NUL-terminated */
    size_t length;
    unsigned lines;   /* in text, without the last line about dropped ones */
    unsigned dropped; /* problems without space for a line */
    /* A line for each list that variables of before say: the caller decides who writes
     * it. NUL-terminated. */
    char renamed[GS_OPTIONS_RENAMED_BYTES];
    char scratch[2048]; /* a list that is being read */
};

/*
 * Reads the options.
 *
 * In:   env     "NAME=value" strings, NULL at the end; may itself be NULL
 *       secure  the process runs with another user's rights (AT_SECURE): `env` is not
 *               read, and files and lines are not looked up, since this starts a helper
 *               found by PATH
 * Out:  *out    every field is set: the default if the variable is unset, empty or bad
 *       *notes  overwritten; one line for each bad value, unknown name or double entry
 *
 * A variable whose name has become an item of a list (options_lists.h) counts as before,
 * with a line in notes->renamed, unless the list is there too.
 *
 * Values are case-insensitive, except file names. The first of two entries with one name
 * counts, as with getenv. Never fails. Does not change errno.
 */
void gs_options_load(struct gs_options *out, char *const *env, bool secure,
                     struct gs_options_messages *notes);

/*
 * Reads one value as gs_options_load reads its variable.
 * In:     name  of a variable, with or without the prefix GPUSHIM_, in any case
 * Out:    *row      which one; on GS_OK and GS_ERR_INVALID
 *         *list     that the value is one of, for all of whose rows *out has values;
 *                   GS_LISTS: the value is the row's alone
 *         *out      a whole set of options with this value; on GS_OK
 *         *notes    the line of a bad value
 * Errors: GS_ERR_NOT_FOUND  no such variable
 *         GS_ERR_INVALID    no such value; also one that would be rounded
 */
enum gs_status gs_options_read_one(const char *name, const char *value,
                                   struct gs_options *out, unsigned *row, unsigned *list,
                                   struct gs_options_messages *notes) GS_MUST_USE;

/* The value that the environment has for the variable `name`, good or bad; "": none. The
 * first of two entries counts. */
const char *gs_options_given_text(char *const *env, const char *name);
/* Returns true if there is one. */
bool gs_options_given(char *const *env, const char *name);

/* The variable whose name is nearest to a word of `length` bytes, which lacks the prefix
 * GPUSHIM_; NULL if none is near. */
const char *gs_options_nearest(const char *word, size_t length);
/* How far a word is from a name that it is likely meant to be; UINT_MAX: it is not. */
unsigned gs_options_distance(const char *word, size_t length, const char *name);
/* Returns whether it is. */
bool gs_options_is_near(const char *word, size_t length, const char *name);

/* Receives text piece by piece; a piece is one or more whole lines. */
typedef void (*gs_options_sink)(void *self, const char *text, size_t length);

/* How the help writes an option: GPUSHIM_STACK=..., or --stack=... for the launcher. */
enum gs_options_form { GS_OPTIONS_AS_VARIABLES, GS_OPTIONS_AS_ARGUMENTS };

/* Writes all options by group, with type, default, range, choices and doc, 78 columns
 * wide. */
void gs_options_help(enum gs_options_form form, gs_options_sink sink, void *self);
/* Bytes for the name of an option of the launcher, with its NUL. */
#define GS_OPTION_ARGUMENT_BYTES 40
/* "--pool-segment" for GPUSHIM_POOL_SEGMENT. Returns `out`. */
const char *gs_option_argument(const char *variable, char out[GS_OPTION_ARGUMENT_BYTES]);

#endif
