/*
 * replay.h - gpushim replay and gpushim advise: allocation traces through the pool.
 *
 * Owns: nothing.   Lock: none.   Design: docs/traces.md
 */
#ifndef GS_REPLAY_H
#define GS_REPLAY_H

#include "shim/settings/options.h"
#include "shim/tools/replay/through.h"

/* The exit status of bad usage; GS_REPLAY_BAD is the other one. */
enum { GS_REPLAY_USAGE = 2 };

/* ---- replay.c ---------------------------------------------------------------------- */

/* Through the CUDA driver of this machine; tests/replay has one. */
typedef bool gs_replay_device(const struct gs_replay_trace *trace, bool touch,
                              const struct gs_replay_config *config,
                              struct gs_replay_outcome *out, const char **why);

/* What the program around the command has. */
struct gs_replay_program {
    const char *usage;                 /* how the command is called: "gpushim replay" */
    const struct gs_replay_pool *pool; /* NULL: the default settings */
    gs_replay_device *device;          /* NULL: knows no CUDA */
};

/* Replays the traces among the words, which end with NULL. Returns the exit status. */
int gs_replay_command(char **words, const struct gs_replay_program *program);

/* ---- advise.c ---------------------------------------------------------------------- */

/* Looks for better settings for the trace among the words. Returns the exit status. */
int gs_advise_command(char **words);

/* ---- replay_settings.c ------------------------------------------------------------- */

/* What a replay can represent of the options; logs what is wrong with a list. */
void gs_replay_settings(const struct gs_options *options, struct gs_replay_pool *out);

/* How many words an option of the command takes, with its value; 0: it is none of the
 * command's. */
unsigned gs_replay_option_words(char *const *words);
unsigned gs_advise_option_words(char *const *words);

/* ---- replay_words.c: the command line ---------------------------------------------- */

struct gs_replay_option {
    const char *name; /* "--device" */
    char letter;      /* for the caller's switch */
    bool has_value;
};

/* The options of a command. */
struct gs_replay_options {
    const char *command; /* "gpushim replay" */
    const struct gs_replay_option *rows;
    size_t count;
};

/* An option, or 0: the words end, or a word that is none. The words are left after it.
 * Ends the program on an unknown option, or one without its value. */
char gs_replay_next_option(char ***words, const struct gs_replay_options *options,
                           char **value);
/* How many words the option takes, with its value; 0: it is not in the table. */
unsigned gs_replay_words_of(char *const *words, const struct gs_replay_options *options);
/* Ends the program: what is wrong with an option. */
_Noreturn void gs_replay_refuse(const char *what, const char *why);
/* Ends the program: an option has a value that is none of those possible. */
_Noreturn void gs_replay_refuse_value(const char *name, const char *value,
                                      const char *possible);

/* Options of both commands. Each ends the program if the text is none. */
uint64_t gs_replay_read_count(const char *text, const char *name, uint64_t least);
struct gs_replay_ready gs_replay_read_ready(const char *text);
/* Bits 1 << kind; separates the words of the text. */
unsigned gs_replay_read_kinds(char *text);

/* The size of a device: bytes, or a multiple of the peak of live memory. */
struct gs_replay_size {
    const char *text; /* NULL: none */
    uint64_t bytes;   /* 0: `factor` counts */
    double factor;
};
struct gs_replay_size gs_replay_read_size(const char *text);
/* In bytes, a multiple of GS_MODEL_PAGE. */
uint64_t gs_replay_size_bytes(const struct gs_replay_size *size,
                              const struct gs_replay_peaks *peaks);

/* gs_replay_load or gs_replay_scan */
typedef bool gs_replay_reader(const char *path, struct gs_replay_trace *out,
                              struct gs_replay_note *note);
/* Reads a trace, with a line on what is wrong with it. Returns the exit status, 0 or
 * GS_REPLAY_BAD; *out is to be freed whatever it is, and empty if it is no trace. */
int gs_replay_open(const char *path, gs_replay_reader *read, struct gs_replay_trace *out);
/* Keeps the operations on memory of these kinds. Returns whether there are allocations,
 * else with a line on what there is instead. */
bool gs_replay_choose_kinds(struct gs_replay_trace *trace, unsigned kinds,
                            const char *path);
/* Writes a text as JSON has it. */
void gs_replay_put_text(const char *text);

#endif
