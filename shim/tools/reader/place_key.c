/*
 * place_key.c - see place_key.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/reader/place_key.h"

#include <string.h>

#include "gs_compare.h"
#include "tracker/names/shown_path.h"

/* FNV-1a, and the same with another prime from another start. */
static void mix(struct gs_place_key *key, unsigned char byte)
{
    key->words[0] = (key->words[0] ^ byte) * 0x100000001b3u;
    key->words[1] = (key->words[1] ^ byte) * 0x9e3779b97f4a7c15u;
    key->words[1] ^= key->words[1] >> 29;
}

/* A NUL ends each text, so that no two rows of texts are the same bytes. */
static void mix_text(struct gs_place_key *key, const char *text)
{
    for (const char *at = text ? text : ""; *at; at++) {
        mix(key, (unsigned char)*at);
    }
    mix(key, 0);
}

static void mix_number(struct gs_place_key *key, uint64_t number)
{
    for (unsigned i = 0; i < 8; i++) {
        mix(key, (unsigned char)(number >> 8 * i));
    }
}

/* By its components, so that two spellings of a path are one. */
static void mix_path(struct gs_place_key *key, const char *path)
{
    struct gs_path_walk walk = gs_path_walk(path ? path : "");
    struct gs_path_part part;
    while (gs_path_next(&walk, &part)) {
        for (size_t i = 0; i < part.length; i++) {
            mix(key, (unsigned char)part.text[i]);
        }
        mix(key, '/');
    }
    mix(key, path && path[0] == '/');
}

static void mix_frame(struct gs_place_key *key, const struct gs_report_file *file,
                      const struct gs_file_frame *frame, enum gs_place_by by)
{
    const char *function = frame->linkage ? frame->linkage : frame->function;
    const struct gs_file_module *module = gs_report_file_module(file, frame);
    bool in_file = frame->file && frame->file[0], line = by == GS_PLACE_BY_LINE;
    bool address = by == GS_PLACE_BY_ADDRESS && module;
    if (!address) {
        mix_text(key, function);
    }
    /* Python has many functions of a name. */
    if (!address && in_file && (line || by == GS_PLACE_BY_FILE || !module)) {
        mix_path(key, frame->file_there ? frame->file_there : frame->file);
    }
    if (in_file && line) {
        mix_number(key, frame->line);
    }
    bool placed = address || !function || (line && !in_file);
    if (placed || (module && by == GS_PLACE_BY_MODULE)) {
        mix_path(key, !module              ? NULL
                      : module->path_there ? module->path_there
                                           : module->path);
    }
    if (placed) {
        mix_number(key, frame->offset);
    }
}

struct gs_place_key gs_place_key_of_names(const char *first, const char *second)
{
    struct gs_place_key key = {{0xcbf29ce484222325u, 0x6c62272e07bb0142u}};
    mix_text(&key, first);
    mix_text(&key, second);
    return key;
}

struct gs_place_key gs_place_key_of(const struct gs_report_file *file,
                                    const struct gs_file_place *place,
                                    enum gs_place_by by)
{
    struct gs_place_key key = gs_place_key_of_names(place->call, place->kind);
    mix_text(&key, place->no_stack);
    for (size_t i = 0; i < place->depth; i++) {
        const struct gs_file_frame *frame = gs_report_file_frame(file, place, i);
        bool skipped = frame && ((frame->inlined && by >= GS_PLACE_BY_SYMBOL) ||
                                 (frame->family && i > 0));
        if (frame && !skipped) {
            mix_frame(&key, file, frame, by);
        }
    }
    return key;
}

int gs_place_key_compare(const struct gs_place_key *a, const struct gs_place_key *b)
{
    unsigned i = a->words[0] == b->words[0];
    return GS_RISING(a->words[i], b->words[i]);
}
