/*
 * tracker_python_frames.c - proves, on an interpreter made of plain memory, that frames
 * are found and named, that a code object which took another's place is not taken for it,
 * and that whatever else lies where a frame should be gives no frame and no fault.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "gs_locks.h"
#include "tracker/python/python.h"
#include "tracker/python/python_internal.h"
#include "tracker/python/python_layout.h"

#define VERSION(minor) (3u << 24 | (minor) << 16 | 1u << 8 | 0xf0u)

#define CODE_BYTES 512
#define FRAMES     8

/* All of it lies here, in words, so that everything is aligned. */
static struct {
    uint64_t runtime[128], type[4], state[64], cframe[4];
    uint64_t frames[FRAMES][16];
    uint64_t codes[FRAMES][CODE_BYTES / 8];
    uint64_t texts[2 * FRAMES][32];
    uint64_t tables[FRAMES][32];
} fake;

static struct gs_python_layout layout;
static struct gs_python *python;
static struct gs_mutex lock = GS_MUTEX(GS_RANK_STACKS);

static void *fake_state(void)
{
    return fake.state;
}

static void put(void *object, unsigned offset, uint64_t value)
{
    memcpy((char *)object + offset, &value, sizeof(value));
}

static void put_half(void *object, unsigned offset, uint32_t value)
{
    memcpy((char *)object + offset, &value, sizeof(value));
}

static void put_byte(void *object, unsigned offset, uint8_t value)
{
    memcpy((char *)object + offset, &value, sizeof(value));
}

/* A compact text of `kind` bytes a character, its hash not made yet. */
static void put_text(void *object, const void *data, size_t length, unsigned kind,
                     bool ascii)
{
    put(object, layout.text_length, length);
    put(object, layout.text_hash, UINT64_MAX);
    put_half(object, layout.text_state, kind << 2 | 1u << 5 | (ascii ? 1u << 6 : 0));
    memcpy((char *)object + (ascii ? layout.text_ascii : layout.text_wide), data,
           length * kind);
}

static void put_ascii(void *object, const char *text)
{
    put_text(object, text, strlen(text), 1, true);
}

/* A table that gives line `line` to all of the code, which begins on line 1. */
static void put_table(void *object, unsigned line)
{
    uint8_t *data = (uint8_t *)object + layout.bytes_data;

    switch ((enum gs_python_table)layout.lines) {
    case GS_PYTHON_LNOTAB:
    case GS_PYTHON_LINETABLE:
        data[0] = layout.lines == GS_PYTHON_LNOTAB ? 0 : 200;
        data[1] = (uint8_t)(line - 1);
        put(object, layout.bytes_length, 2);
        return;
    case GS_PYTHON_LOCATIONS:
        break;
    }
    for (unsigned i = 0; i < 8; i++) {
        data[2 * i] = (uint8_t)(0x80 | 13 << 3 | 7);
        data[2 * i + 1] = i == 0 ? (uint8_t)(2 * (line - 1)) : 0;
    }
    put(object, layout.bytes_length, 16);
}

/* The code object `i`: function, file, line. */
static void put_code(unsigned i, const char *function, const char *file, unsigned line)
{
    void *code = fake.codes[i];

    put(code, layout.object_type, (uintptr_t)fake.type);
    put(code, layout.object_bytes, 64);
    put_half(code, layout.first_line, 1);
    put(code, layout.name, (uintptr_t)fake.texts[2 * i]);
    put(code, layout.qualified_name, (uintptr_t)fake.texts[2 * i]);
    put(code, layout.file, (uintptr_t)fake.texts[2 * i + 1]);
    put(code, layout.line_table, (uintptr_t)fake.tables[i]);
    if (layout.version != GS_PYTHON_NO_FIELD)
        put_half(code, layout.version, 100 + i);
    put_ascii(fake.texts[2 * i], function);
    put_ascii(fake.texts[2 * i + 1], file);
    put_table(fake.tables[i], line);
}

/* The frame `i` evaluates the code object `i`, and was called by frame i + 1. */
static void put_frame(unsigned i, bool outermost)
{
    void *frame = fake.frames[i];
    bool old = layout.instructions == GS_PYTHON_NO_FIELD;

    put(frame, layout.previous, outermost ? 0 : (uintptr_t)fake.frames[i + 1]);
    put(frame, layout.code, (uintptr_t)fake.codes[i]);
    if (old)
        put_half(frame, layout.instruction, 4);
    else
        put(frame, layout.instruction,
            (uintptr_t)fake.codes[i] + layout.instructions + 4);
    if (layout.is_entry != GS_PYTHON_NO_FIELD)
        put_byte(frame, layout.is_entry, outermost);
}

static void put_debug_offsets(unsigned minor)
{
    /* By place in the table of 3.13: what 3.13 has there. */
    static const struct {
        unsigned place, value;
    } fields[] = {{4, 608}, {23, 72},  {29, 8},   {30, 0},   {31, 56},
                  {33, 70}, {35, 112}, {36, 120}, {37, 128}, {38, 136},
                  {39, 68}, {43, 200}, {44, 16},  {45, 8},   {65, 16},
                  {66, 32}, {68, 32},  {69, 16},  {70, 40}};

    memcpy(fake.runtime, "xdebugpy", 8);
    fake.runtime[1] = VERSION(minor);
    for (size_t i = 0; i < GS_ARRAY_LEN(fields); i++)
        fake.runtime[fields[i].place] = fields[i].value;
}

static struct gs_python_symbols symbols(unsigned version)
{
    return (struct gs_python_symbols){.version = version,
                                      .runtime = fake.runtime,
                                      .code_type = fake.type,
                                      .thread_state = fake_state,
                                      .code = {1 << 20, 2 << 20}};
}

/* An interpreter with `count` frames: f0 called by f1 and so on. */
static void start(unsigned minor, unsigned count)
{
    struct gs_python_symbols found = symbols(VERSION(minor));
    char name[16];

    memset(&fake, 0, sizeof(fake));
    if (minor >= 13)
        put_debug_offsets(minor);
    cr_assert_eq(gs_python_layout_find(found.version, fake.runtime, &layout), GS_OK);
    python = gs_python_create(&found, &lock, NULL);
    cr_assert_not_null(python);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "f%u", i);
        put_code(i, name, "/made/up.py", 10 + i);
        put_frame(i, i + 1 == count);
    }
    if (layout.state_cframe != GS_PYTHON_NO_FIELD) {
        put(fake.state, layout.state_cframe, (uintptr_t)fake.cframe);
        put(fake.cframe,
            layout.cframe_frame == GS_PYTHON_NO_FIELD ? 0 : layout.cframe_frame,
            (uintptr_t)fake.frames[0]);
    }
    if (layout.state_frame != GS_PYTHON_NO_FIELD)
        put(fake.state, layout.state_frame, (uintptr_t)fake.frames[0]);
}

/* "f0:10 f1:11|", a bar where a run ends; "!" where more is behind. */
static const char *walked(void)
{
    static char text[8192];
    struct gs_python_walk walk;
    struct gs_python_location place;
    size_t used = 0;

    gs_python_walk(python, &walk);
    text[0] = '\0';
    for (unsigned i = 0; i < walk.count; i++) {
        if (walk.entries[i] == GS_PYTHON_RUN_END) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "|");
            continue;
        }
        cr_assert_eq(gs_python_location(python, walk.entries[i], &place), GS_OK);
        used += (size_t)snprintf(text + used, sizeof(text) - used, " %s:%u",
                                 place.function, place.line);
    }
    if (walk.truncated && walk.count > 0)
        snprintf(text + used, sizeof(text) - used, "!");
    return text;
}

static const unsigned minors[] = {8, 9, 10, 11, 12, 13};

Test(python_frames, each_version_is_walked)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(minors); i++) {
        start(minors[i], 3);
        cr_expect_str_eq(
            walked(), minors[i] <= 10 ? " f0:10| f1:11| f2:12|" : " f0:10 f1:11 f2:12|",
            "3.%u: %s", minors[i], walked());
        gs_python_destroy(python);
    }
}

Test(python_frames, a_walk_made_before_is_recognised_and_no_other)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(minors); i++) {
        struct gs_python_walk walk;
        uint32_t id = 0;

        start(minors[i], 3);
        gs_python_walk(python, &walk);
        cr_assert(gs_python_recognise(python, &id) && id == walk.id);
        put_frame(1, true);
        cr_expect_not(gs_python_recognise(python, &id), "one frame less");
        put_frame(1, false);
        cr_assert(gs_python_recognise(python, &id) && id == walk.id);
        put_half(fake.frames[2], layout.instruction,
                 (uint32_t)((uintptr_t)fake.codes[2] + layout.instructions + 8));
        cr_expect_not(gs_python_recognise(python, &id), "another instruction");
        gs_python_destroy(python);
    }
}

/* The same address, name, file and first line; one line has moved. */
Test(python_frames, an_edited_function_at_the_same_address_is_another)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(minors); i++) {
        uint32_t id;

        start(minors[i], 1);
        cr_assert_str_eq(walked(), " f0:10|");
        put_table(fake.tables[0], 20);
        if (layout.version != GS_PYTHON_NO_FIELD) /* as the interpreter does */
            put_half(fake.codes[0], layout.version, 7);
        cr_expect_not(gs_python_recognise(python, &id));
        cr_expect_str_eq(walked(), " f0:20|", "3.%u: %s", minors[i], walked());
        gs_python_destroy(python);
    }
}

/* Fails if a part of the table is left out: a line that was added in the middle of a
 * function changes a single byte there. */
Test(python_frames, each_byte_of_a_line_table_counts)
{
    static uint64_t table[80];

    for (size_t i = 0; i < 4; i++) { /* without numbers of their own */
        struct gs_python_file file = {0};
        uint64_t print;
        uint8_t *data;

        start(minors[i], 1);
        data = (uint8_t *)table + layout.bytes_data;
        for (unsigned at = 0; at < 509; at++)
            data[at] = (uint8_t)(at * 7);
        put(fake.codes[0], layout.line_table, (uintptr_t)table);
        put(table, layout.bytes_length, 509);
        print = gs_python_code_print(python, (uintptr_t)fake.codes[0], &file);
        for (unsigned at = 0; at < 509; at++) {
            data[at] ^= 1u << at % 8;
            cr_expect_neq(gs_python_code_print(python, (uintptr_t)fake.codes[0], &file),
                          print, "3.%u: byte %u", minors[i], at);
            data[at] ^= 1u << at % 8;
        }
        cr_expect_eq(gs_python_code_print(python, (uintptr_t)fake.codes[0], &file),
                     print);
        gs_python_destroy(python);
    }
}

Test(python_frames, a_function_of_another_name_at_the_same_address_is_another)
{
    for (size_t i = 0; i < 4; i++) { /* without numbers of their own */
        start(minors[i], 1);
        cr_assert_str_eq(walked(), " f0:10|");
        put_ascii(fake.texts[0], "g0");
        cr_expect_str_eq(walked(), " g0:10|");
        put(fake.texts[0], layout.text_hash, 1);
        put_ascii(fake.texts[0], "h0");
        cr_expect_str_eq(walked(), " h0:10|");
        gs_python_destroy(python);
    }
}

Test(python_frames, names_of_any_script_become_utf8)
{
    static const uint8_t latin[] = {'g', 'r', 0xf6, 0xdf, 'e'};
    static const uint16_t wide[] = {0x6570, 0xd800, 'x'};
    static const uint32_t widest[] = {0x1f600, 0x7f, 0x10ffff + 1};

    start(12, 3);
    put_text(fake.texts[0], latin, 5, 1, false);
    put_text(fake.texts[2], wide, 3, 2, false);
    put_text(fake.texts[4], widest, 3, 4, false);
    cr_expect_str_eq(walked(), " gr\u00f6\u00dfe:10 \u6570?x:11 \U0001f600\x7f?:12|");
    gs_python_destroy(python);
}

Test(python_frames, what_is_no_code_object_ends_the_walk)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(minors); i++) {
        start(minors[i], 3);
        put(fake.codes[1], layout.object_type, (uintptr_t)fake.state);
        cr_expect_str_eq(walked(), " f0:10|!", "3.%u: %s", minors[i], walked());
        put(fake.codes[0], layout.object_type, 0);
        cr_expect_str_eq(walked(), "", "3.%u: %s", minors[i], walked());
        gs_python_destroy(python);
    }
}

/* Addresses at which nothing is mapped, or which are none at all. */
Test(python_frames, wild_pointers_end_the_walk)
{
    char *gone = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const uint64_t wild[] = {1,
                             8,
                             UINT64_MAX & ~7,
                             UINT64_C(0xdddddddddddddddd) & ~UINT64_C(7),
                             (uintptr_t)gone,
                             (uintptr_t)gone + 4,
                             (uintptr_t)fake.frames[0] + 3};

    cr_assert_neq(gone, MAP_FAILED);
    for (size_t i = 0; i < GS_ARRAY_LEN(minors); i++) {
        for (size_t k = 0; k < GS_ARRAY_LEN(wild); k++) {
            start(minors[i], 3);
            put(fake.frames[1], layout.code, wild[k] & ~UINT64_C(3));
            cr_expect_str_eq(walked(), " f0:10|!");
            put_frame(1, false);
            put(fake.frames[1], layout.previous, wild[k]);
            cr_expect_eq(strncmp(walked(), " f0:10", 6), 0);
            cr_expect_eq(walked()[strlen(walked()) - 1], '!');
            put_frame(1, false);
            put(fake.codes[1], layout.line_table, wild[k]);
            put(fake.codes[1], layout.file, wild[k]);
            put(fake.codes[1], layout.qualified_name, wild[k]);
            if (layout.version != GS_PYTHON_NO_FIELD)
                put_half(fake.codes[1], layout.version, 7);
            cr_expect_eq(strstr(walked(), "f1"), NULL, "3.%u: %s", minors[i], walked());
            if (layout.state_cframe != GS_PYTHON_NO_FIELD) {
                put(fake.state, layout.state_cframe, wild[k]);
                cr_expect_str_eq(walked(), "");
            }
            gs_python_destroy(python);
        }
    }
}

Test(python_frames, a_ring_of_frames_ends)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(minors); i++) {
        start(minors[i], 3);
        put(fake.frames[2], layout.previous, (uintptr_t)fake.frames[0]);
        cr_expect_eq(walked()[strlen(walked()) - 1], '!');
        gs_python_destroy(python);
    }
}

Test(python_frames, an_interpreter_that_ends_has_frames_for_one_thread)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(minors); i++) {
        start(minors[i], 1);
        put(fake.runtime, layout.finalizing, (uintptr_t)fake.frames);
        cr_expect_str_eq(walked(), "");
        put(fake.runtime, layout.finalizing, (uintptr_t)fake.state);
        cr_expect_str_eq(walked(), " f0:10|");
        gs_python_destroy(python);
    }
}

Test(python_frames, versions_that_were_not_tried_are_off)
{
    static const unsigned unknown[] = {VERSION(7), VERSION(15), VERSION(0),
                                       2u << 24 | 7u << 16 | 0xf0,
                                       VERSION(12) - 0xf0 + 0xc1 /* a candidate */};

    memset(&fake, 0, sizeof(fake));
    for (size_t i = 0; i < GS_ARRAY_LEN(unknown); i++) {
        struct gs_python_symbols found = symbols(unknown[i]);

        cr_expect_null(gs_python_create(&found, &lock, NULL), "%x", unknown[i]);
    }
}

Test(python_frames, a_table_of_offsets_that_is_not_the_one_expected_is_off)
{
    struct gs_python_symbols found = symbols(VERSION(13));
    const struct {
        unsigned place;
        uint64_t value;
    } changes[] = {{0, 0},  {1, VERSION(13) + 1}, {2, 1}, {23, 4096},
                   {43, 8}, {36, 1 << 20}};

    for (size_t i = 0; i < GS_ARRAY_LEN(changes); i++) {
        memset(&fake, 0, sizeof(fake));
        put_debug_offsets(13);
        fake.runtime[changes[i].place] = changes[i].value;
        cr_expect_null(gs_python_create(&found, &lock, NULL), "place %u",
                       changes[i].place);
    }
}

/* A function that allocates in more places than the first cache has room for: once
 * walked, a place is found without reading the code object again, which would show its
 * new name. */
Test(python_frames, places_beyond_the_first_cache_are_kept)
{
    enum { PLACES = 4 << GS_PYTHON_CACHE_BITS };
    unsigned again = 0;

    start(12, 1); /* code objects have numbers, so a new name alone is not seen */
    put(fake.codes[0], layout.object_bytes, PLACES);
    for (int round = 0; round < 3; round++) {
        if (round == 2)
            put_ascii(fake.texts[0], "new");
        for (unsigned i = 0; i < PLACES; i++) {
            put(fake.frames[0], layout.instruction,
                (uintptr_t)fake.codes[0] + layout.instructions + 2 * (uintptr_t)i);
            again += strstr(walked(), "new") != NULL;
        }
    }
    cr_expect_lt(again, PLACES / 10, "%u of %d were read again", again, PLACES);
    gs_python_destroy(python);
}

Test(python_frames, pairs_beyond_the_first_cache_are_kept)
{
    enum { PAIRS = 8 << GS_PYTHON_PAIR_BITS };
    unsigned missing = 0;

    start(12, 1);
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 1; i <= PAIRS; i++)
            if (gs_python_pair_find(python, i, 7) == 0)
                gs_python_pair_add(python, i, 7, i);
    for (uint32_t i = 1; i <= PAIRS; i++) {
        uint32_t stack = gs_python_pair_find(python, i, 7);

        cr_assert(stack == 0 || stack == i);
        missing += stack == 0;
    }
    cr_expect_lt(missing, PAIRS / 4, "%u of %d", missing, PAIRS);
    gs_python_destroy(python);
}

/* The names of scopes, and generated functions: each new one is compared with a few. */
Test(python_frames, chains_of_names_stay_short)
{
    enum { NAMES = 40000, LONGEST = 12 };
    struct gs_python *bare = gs_python_create_bare(&lock, NULL);
    struct gs_python_string **strings;
    uintptr_t first = 0;
    char name[32];

    cr_assert_not_null(bare);
    for (int round = 0; round < 2; round++)
        for (unsigned i = 0; i < NAMES; i++) {
            uintptr_t frame;

            snprintf(name, sizeof(name), "[scope step%u]", i);
            frame = gs_python_location_add(bare, name, "", 0);
            if (i == 0 && round == 0)
                first = frame;
            cr_assert_eq(frame, first + i);
        }
    strings = bare->string_buckets.first;
    for (size_t i = 0; i < (size_t)1 << bare->string_buckets.bits; i++) {
        unsigned length = 0;

        for (struct gs_python_string *string = strings[i]; string; string = string->next)
            length++;
        cr_assert_leq(length, LONGEST);
    }
    cr_expect_geq(1u << bare->node_buckets.bits, NAMES / 2);
    gs_python_destroy(bare);
}
