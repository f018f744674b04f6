/*
 * python_layout.c - the layouts of the tested versions.
 * Owns: nothing.   Lock: none.   Design: docs/python.md
 *
 * Up to 3.12 this file has the offsets, one row per minor version: they do not change
 * after its release. From 3.13 on the interpreter's runtime begins with a table for
 * debuggers; this file has the offsets missing there. An untested version has no row,
 * whatever its table contains.
 * Source: the headers of each version, Include/cpython and Include/internal
 */
#include "tracker/python/python_layout.h"

#include <string.h>

#define NONE GS_PYTHON_NO_FIELD

/* Offsets in objects, strings and bytes objects; strings are smaller since 3.12. */
#define OBJECTS(ascii, wide)                                                             \
    .object_type = 8, .object_bytes = 16, .bytes_length = 16, .bytes_data = 32,          \
    .text_length = 16, .text_hash = 24, .text_state = 32, .text_ascii = (ascii),         \
    .text_wide = (wide)

/* Code objects of the versions in which a frame was an object. */
#define OLD_CODE                                                                         \
    .first_line = 40, .file = 104, .name = 112, .qualified_name = 112,                   \
    .line_table = 120, .version = NONE, .instructions = NONE, .first_traceable = NONE

#define OLD_FRAME(at)                                                                    \
    .state_frame = 24, .previous = 24, .code = 32, .instruction = (at), .owner = NONE,   \
    .is_entry = NONE

static const struct gs_python_layout layouts[] = {
    {.minor = 8,
     .chain = GS_PYTHON_FRAME_OBJECTS,
     .lines = GS_PYTHON_LNOTAB,
     .finalizing = 16,
     .state_cframe = NONE,
     OLD_FRAME(104),
     OLD_CODE,
     OBJECTS(48, 72)},
    {.minor = 9,
     .chain = GS_PYTHON_FRAME_OBJECTS,
     .lines = GS_PYTHON_LNOTAB,
     .finalizing = 16,
     .state_cframe = NONE,
     OLD_FRAME(104),
     OLD_CODE,
     OBJECTS(48, 72)},
    {.minor = 10,
     .chain = GS_PYTHON_FRAME_CFRAMES,
     .lines = GS_PYTHON_LINETABLE,
     .finalizing = 16,
     .turn = 432,
     .state_cframe = 48,
     .cframe_previous = 8,
     OLD_FRAME(96),
     OLD_CODE,
     OBJECTS(48, 72)},
    {.minor = 11,
     .chain = GS_PYTHON_FRAME_ENTRIES,
     .lines = GS_PYTHON_LOCATIONS,
     .finalizing = 24,
     .state_frame = NONE,
     .state_cframe = 56,
     .cframe_frame = 8,
     .cframe_previous = 16,
     .previous = 48,
     .code = 32,
     .instruction = 56,
     .owner = 69,
     .is_entry = 68,
     .first_line = 72,
     .file = 112,
     .name = 120,
     .qualified_name = 128,
     .line_table = 136,
     .version = NONE,
     .instructions = 184,
     .first_traceable = 168,
     OBJECTS(48, 72)},
    {.minor = 12,
     .chain = GS_PYTHON_FRAME_BASES,
     .lines = GS_PYTHON_LOCATIONS,
     .finalizing = 24,
     .state_frame = NONE,
     .state_cframe = 56,
     .cframe_frame = 0,
     .cframe_previous = 8,
     .previous = 8,
     .code = 0,
     .instruction = 56,
     .owner = 70,
     .is_entry = NONE,
     .first_line = 68,
     .file = 112,
     .name = 120,
     .qualified_name = 128,
     .line_table = 136,
     .version = 92,
     .instructions = 192,
     .first_traceable = 176,
     OBJECTS(40, 56)},
};

/*
 * The positions of the fields in _Py_DebugOffsets, by version. The table begins with a
 * cookie of eight bytes, the version, and whether the build is free-threaded. All fields
 * are 64-bit numbers.
 */
#define DEBUG_VERSION       1
#define DEBUG_FREE_THREADED 2
#define DEBUG_FIELDS_MAX    96

struct debug_fields {
    uint8_t minor;
    uint8_t finalizing, state_frame;
    uint8_t previous, code, instruction, owner;
    uint8_t file, name, qualified_name, line_table, first_line, instructions;
    uint8_t object_bytes, object_type;
    uint8_t bytes_length, bytes_data;
    uint8_t text_state, text_length, text_ascii;
};

static const struct debug_fields debug_tables[] = {
    {.minor = 13,
     .finalizing = 4,
     .state_frame = 23,
     .previous = 29,
     .code = 30,
     .instruction = 31,
     .owner = 33,
     .file = 35,
     .name = 36,
     .qualified_name = 37,
     .line_table = 38,
     .first_line = 39,
     .instructions = 43,
     .object_bytes = 44,
     .object_type = 45,
     .bytes_length = 65,
     .bytes_data = 66,
     .text_state = 68,
     .text_length = 69,
     .text_ascii = 70},
    {.minor = 14,
     .finalizing = 4,
     .state_frame = 26,
     .previous = 32,
     .code = 33,
     .instruction = 34,
     .owner = 36,
     .file = 40,
     .name = 41,
     .qualified_name = 42,
     .line_table = 43,
     .first_line = 44,
     .instructions = 48,
     .object_bytes = 50,
     .object_type = 51,
     .bytes_length = 75,
     .bytes_data = 76,
     .text_state = 78,
     .text_length = 79,
     .text_ascii = 80},
};

/* The limit of all offsets; objects that are read in one piece have smaller limits. */
#define OFFSET_MAX 4096u

/* In a code object, five 32-bit numbers are between the first line and the version. The
 * index of the first traceable instruction and a pointer precede the instructions. */
#define VERSION_BEHIND_LINE    24u
#define TRACEABLE_BEFORE_CODE  16u
#define WIDE_TEXT_BEHIND_ASCII 16u

/* Copies an entry of the interpreter's table; false: the entry is not a valid offset. */
static bool take(const uint64_t *words, uint8_t field, uint16_t *out)
{
    *out = (uint16_t)words[field];
    return words[field] < OFFSET_MAX;
}

static bool take_all(const uint64_t *words, const struct debug_fields *fields,
                     struct gs_python_layout *layout)
{
    return take(words, fields->finalizing, &layout->finalizing) &&
           take(words, fields->state_frame, &layout->state_frame) &&
           take(words, fields->previous, &layout->previous) &&
           take(words, fields->code, &layout->code) &&
           take(words, fields->instruction, &layout->instruction) &&
           take(words, fields->owner, &layout->owner) &&
           take(words, fields->file, &layout->file) &&
           take(words, fields->name, &layout->name) &&
           take(words, fields->qualified_name, &layout->qualified_name) &&
           take(words, fields->line_table, &layout->line_table) &&
           take(words, fields->first_line, &layout->first_line) &&
           take(words, fields->instructions, &layout->instructions) &&
           take(words, fields->object_bytes, &layout->object_bytes) &&
           take(words, fields->object_type, &layout->object_type) &&
           take(words, fields->bytes_length, &layout->bytes_length) &&
           take(words, fields->bytes_data, &layout->bytes_data) &&
           take(words, fields->text_state, &layout->text_state) &&
           take(words, fields->text_length, &layout->text_length) &&
           take(words, fields->text_ascii, &layout->text_ascii);
}

/* Fills a layout from the interpreter's own table. */
static enum gs_status fill_in(const struct debug_fields *fields, unsigned version,
                              const void *runtime, struct gs_python_layout *out)
{
    uint64_t words[DEBUG_FIELDS_MAX];
    struct gs_python_layout layout = {.minor = fields->minor,
                                      .chain = GS_PYTHON_FRAME_BASES,
                                      .lines = GS_PYTHON_LOCATIONS,
                                      .state_cframe = NONE,
                                      .is_entry = NONE,
                                      .text_hash = 24};

    memcpy(words, runtime, sizeof(words));
    if (memcmp(words, "xdebugpy", sizeof(*words)) != 0 ||
        words[DEBUG_VERSION] != version || words[DEBUG_FREE_THREADED] != 0 ||
        !take_all(words, fields, &layout) ||
        layout.instructions < TRACEABLE_BEFORE_CODE ||
        layout.state_frame > GS_PYTHON_STATE_BYTES - sizeof(uintptr_t) ||
        layout.instructions > GS_PYTHON_CODE_BYTES) {
        return GS_ERR_NOT_FOUND;
    }
    layout.version = (uint16_t)(layout.first_line + VERSION_BEHIND_LINE);
    layout.first_traceable = (uint16_t)(layout.instructions - TRACEABLE_BEFORE_CODE);
    layout.text_wide = (uint16_t)(layout.text_ascii + WIDE_TEXT_BEHIND_ASCII);
    *out = layout;
    return GS_OK;
}

enum gs_status gs_python_layout_find(unsigned version, const void *runtime,
                                     struct gs_python_layout *out)
{
    unsigned major = version >> 24, minor = version >> 16 & 0xff;
    unsigned level = version >> 4 & 0xf; /* 0xf: a release, no alpha, beta or candidate */

    if (major != 3 || level != 0xf) {
        return GS_ERR_NOT_FOUND;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(layouts); i++) {
        if (layouts[i].minor == minor) {
            *out = layouts[i];
            return GS_OK;
        }
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(debug_tables); i++) {
        if (debug_tables[i].minor == minor) {
            return fill_in(&debug_tables[i], version, runtime, out);
        }
    }
    return GS_ERR_NOT_FOUND;
}
