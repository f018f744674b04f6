/*
 * tracker_python_lines.c - proves that the line of every instruction is read from each
 * form of CPython's line tables, as the interpreter itself reads it, and that no table,
 * however broken, is read outside of its bytes.
 *
 * The tables are those of one function with steps forwards and backwards, by more than a
 * byte holds, and with code that has no line; the lines are what the same interpreter
 * says (dis.findlinestarts for 3.8, co_lines for the others; 0 stands for None).
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker/python/python_lines.h"

/* From this offset on, up to the next one's, code has this line. */
struct begin {
    int offset;
    unsigned line;
};

/* clang-format off */
static const uint8_t table_3_8[] = {
    0, 1, 2, 127, 0, 14, 2, 1, 2, 255, 2, 128, 0, 243, 4, 127, 0, 16, 2, 1, 6, 1, 8, 1,
    8, 4, 4, 1, 2, 255, 20, 3, 2, 1, 2, 255, 6, 3, 6, 0, 4, 0, 4, 0, 20, 0, 20, 0, 20,
    0, 20, 0, 20, 0, 20, 0, 20, 0, 20, 0, 20, 0, 20, 0, 20, 0, 20, 1,
};
static const struct begin begins_3_8[] = {
    {0, 2}, {2, 143}, {4, 144}, {6, 143}, {8, 2}, {12, 145}, {14, 146}, {20, 147},
    {28, 148}, {36, 152}, {40, 153}, {42, 152}, {62, 155}, {64, 156}, {66, 155},
    {72, 158}, {326, 159},
};
#define BYTES_3_8 330
static const uint8_t table_3_10[] = {
    2, 1, 0, 127, 2, 14, 2, 1, 2, 255, 0, 129, 4, 242, 0, 127, 2, 16, 6, 1, 8, 1, 8, 1,
    4, 4, 2, 1, 6, 255, 2, 251, 28, 255, 2, 128, 2, 9, 2, 1, 8, 255, 2, 1, 6, 255, 252,
    3, 4, 1,
};
static const struct begin begins_3_10[] = {
    {0, 2}, {2, 143}, {4, 144}, {6, 143}, {8, 2}, {12, 145}, {14, 146}, {20, 147},
    {28, 148}, {36, 152}, {40, 153}, {42, 152}, {48, 147}, {50, 146}, {78, 0},
    {80, 155}, {82, 156}, {84, 155}, {92, 156}, {94, 155}, {100, 158}, {352, 159},
};
#define BYTES_3_10 356
static const uint8_t table_3_11[] = {
    128, 0, 216, 9, 10, 240, 90, 4, 0, 10, 11, 136, 17, 216, 12, 13, 241, 3, 1, 10, 15,
    244, 0, 1, 10, 15, 241, 91, 4, 78, 2, 10, 15, 128, 65, 240, 94, 4, 12, 5, 10, 216,
    13, 14, 240, 0, 7, 9, 6, 144, 33, 216, 21, 22, 240, 0, 6, 13, 6, 240, 0, 6, 13, 6,
    144, 1, 216, 16, 17, 144, 81, 145, 6, 144, 1, 240, 8, 0, 22, 23, 152, 1, 216, 3, 4,
    240, 3, 1, 21, 6, 144, 1, 144, 1, 240, 11, 6, 13, 6, 240, 3, 7, 9, 6, 240, 0, 7, 9,
    6, 240, 0, 7, 9, 6, 241, 0, 7, 9, 6, 244, 0, 7, 9, 6, 240, 0, 7, 9, 6, 240, 0, 7, 9,
    6, 240, 0, 7, 9, 6, 240, 0, 7, 9, 6, 240, 0, 7, 9, 6, 240, 0, 7, 9, 6, 248, 248,
    248, 240, 0, 7, 9, 6, 240, 0, 7, 9, 6, 240, 0, 7, 9, 6, 240, 0, 7, 9, 6, 240, 18, 0,
    9, 10, 136, 1, 216, 10, 11, 241, 3, 2, 9, 10, 244, 0, 2, 9, 10, 240, 0, 2, 9, 10,
    240, 0, 2, 9, 10, 248, 136, 1, 136, 1, 216, 10, 11, 241, 3, 2, 9, 10, 244, 0, 2, 9,
    10, 240, 0, 2, 9, 10, 240, 0, 2, 9, 10, 248, 248, 248, 240, 6, 0, 8, 9, 240, 0, 0,
    5, 127, 5, 136, 97, 136, 33, 144, 81, 144, 17, 152, 81, 160, 1, 160, 49, 160, 97,
    168, 17, 168, 65, 168, 113, 176, 33, 208, 28, 52, 152, 1, 184, 49, 184, 97, 192, 17,
    192, 65, 192, 113, 200, 33, 200, 81, 208, 80, 81, 208, 58, 82, 176, 97, 208, 89, 90,
    208, 92, 93, 208, 95, 96, 208, 98, 99, 208, 101, 102, 208, 104, 105, 208, 107, 108,
    208, 110, 111, 208, 88, 112, 208, 84, 85, 208, 119, 120, 208, 122, 123, 208, 125,
    126, 240, 0, 0, 65, 2, 66, 2, 240, 0, 0, 68, 2, 69, 2, 240, 0, 0, 71, 2, 72, 2, 240,
    0, 0, 74, 2, 75, 2, 240, 0, 0, 77, 2, 78, 2, 240, 0, 0, 119, 1, 79, 2, 208, 114,
    115, 240, 0, 0, 86, 2, 87, 2, 240, 0, 0, 89, 2, 90, 2, 240, 0, 0, 92, 2, 93, 2, 240,
    0, 0, 95, 2, 96, 2, 240, 0, 0, 98, 2, 99, 2, 240, 0, 0, 101, 2, 102, 2, 240, 0, 0,
    104, 2, 105, 2, 240, 0, 0, 107, 2, 108, 2, 240, 0, 0, 85, 2, 109, 2, 240, 0, 0, 81,
    2, 82, 2, 240, 0, 0, 116, 2, 117, 2, 240, 0, 0, 119, 2, 120, 2, 240, 0, 0, 122, 2,
    123, 2, 240, 0, 0, 125, 2, 126, 2, 240, 0, 0, 64, 3, 65, 3, 240, 0, 0, 67, 3, 68, 3,
    240, 0, 0, 70, 3, 71, 3, 240, 0, 0, 73, 3, 74, 3, 240, 0, 0, 115, 2, 75, 3, 240, 0,
    0, 111, 2, 112, 2, 240, 0, 0, 82, 3, 83, 3, 240, 0, 0, 85, 3, 86, 3, 240, 0, 0, 88,
    3, 89, 3, 240, 0, 0, 91, 3, 92, 3, 240, 0, 0, 94, 3, 95, 3, 240, 0, 0, 97, 3, 98, 3,
    240, 0, 0, 100, 3, 101, 3, 240, 0, 0, 103, 3, 104, 3, 240, 0, 0, 81, 3, 105, 3, 240,
    0, 0, 77, 3, 78, 3, 240, 0, 0, 112, 3, 113, 3, 240, 0, 0, 115, 3, 116, 3, 240, 0, 0,
    118, 3, 119, 3, 240, 0, 0, 121, 3, 122, 3, 240, 0, 0, 124, 3, 125, 3, 240, 0, 0,
    127, 3, 64, 4, 240, 0, 0, 66, 4, 67, 4, 240, 0, 0, 69, 4, 70, 4, 240, 0, 0, 111, 3,
    71, 4, 240, 0, 0, 107, 3, 108, 3, 240, 0, 0, 78, 4, 79, 4, 240, 0, 0, 81, 4, 82, 4,
    240, 0, 0, 84, 4, 85, 4, 240, 0, 0, 87, 4, 88, 4, 240, 0, 0, 90, 4, 91, 4, 240, 0,
    0, 93, 4, 94, 4, 240, 0, 0, 96, 4, 97, 4, 240, 0, 0, 99, 4, 100, 4, 240, 0, 0, 77,
    4, 101, 4, 240, 0, 0, 73, 4, 74, 4, 240, 0, 0, 108, 4, 109, 4, 240, 0, 0, 111, 4,
    112, 4, 240, 0, 0, 114, 4, 115, 4, 240, 0, 0, 117, 4, 118, 4, 240, 0, 0, 120, 4,
    121, 4, 240, 0, 0, 123, 4, 124, 4, 240, 0, 0, 126, 4, 127, 4, 240, 0, 0, 65, 5, 66,
    5, 240, 0, 0, 107, 4, 67, 5, 240, 0, 0, 103, 4, 104, 4, 240, 0, 0, 74, 5, 75, 5,
    240, 0, 0, 77, 5, 78, 5, 240, 0, 0, 80, 5, 81, 5, 240, 0, 0, 83, 5, 84, 5, 240, 0,
    0, 86, 5, 87, 5, 240, 0, 0, 89, 5, 90, 5, 240, 0, 0, 92, 5, 93, 5, 240, 0, 0, 95, 5,
    96, 5, 240, 0, 0, 73, 5, 97, 5, 240, 0, 0, 69, 5, 70, 5, 240, 0, 0, 104, 5, 105, 5,
    240, 0, 0, 107, 5, 108, 5, 240, 0, 0, 110, 5, 111, 5, 240, 0, 0, 113, 5, 114, 5,
    240, 0, 0, 116, 5, 117, 5, 240, 0, 0, 119, 5, 120, 5, 240, 0, 0, 122, 5, 123, 5,
    240, 0, 0, 125, 5, 126, 5, 240, 0, 0, 103, 5, 127, 5, 240, 0, 0, 99, 5, 100, 5, 216,
    11, 12, 128, 72,
};
static const struct begin begins_3_11[] = {
    {0, 1}, {2, 2}, {4, 143}, {8, 144}, {10, 143}, {24, 2}, {30, 145}, {32, 146},
    {38, 147}, {46, 148}, {56, 152}, {60, 153}, {62, 152}, {68, 147}, {70, 146},
    {102, 0}, {108, 146}, {116, 155}, {120, 156}, {122, 155}, {140, 0}, {142, 155},
    {146, 156}, {148, 155}, {166, 0}, {172, 158}, {424, 159},
};
#define BYTES_3_11 428
static const uint8_t table_3_13[] = {
    128, 0, 216, 9, 10, 241, 90, 4, 0, 10, 11, 216, 12, 13, 243, 3, 1, 10, 15, 241, 91,
    4, 78, 2, 10, 15, 128, 65, 240, 94, 4, 12, 5, 10, 217, 13, 14, 144, 33, 219, 21, 22,
    144, 1, 216, 16, 17, 145, 6, 144, 1, 240, 8, 0, 22, 23, 216, 3, 4, 240, 3, 1, 21, 6,
    146, 1, 241, 11, 0, 22, 23, 247, 3, 0, 14, 15, 241, 18, 0, 9, 10, 216, 10, 11, 244,
    3, 2, 9, 10, 246, 6, 0, 8, 9, 136, 97, 136, 33, 144, 17, 160, 1, 160, 97, 168, 65,
    176, 33, 208, 28, 52, 152, 1, 184, 97, 192, 65, 200, 33, 208, 80, 81, 208, 58, 82,
    176, 97, 208, 92, 93, 208, 98, 99, 208, 104, 105, 208, 110, 111, 208, 88, 112, 208,
    84, 85, 208, 122, 123, 240, 0, 0, 65, 2, 66, 2, 240, 0, 0, 71, 2, 72, 2, 240, 0, 0,
    77, 2, 78, 2, 240, 0, 0, 119, 1, 79, 2, 208, 114, 115, 240, 0, 0, 89, 2, 90, 2, 240,
    0, 0, 95, 2, 96, 2, 240, 0, 0, 101, 2, 102, 2, 240, 0, 0, 107, 2, 108, 2, 240, 0, 0,
    85, 2, 109, 2, 240, 0, 0, 81, 2, 82, 2, 240, 0, 0, 119, 2, 120, 2, 240, 0, 0, 125,
    2, 126, 2, 240, 0, 0, 67, 3, 68, 3, 240, 0, 0, 73, 3, 74, 3, 240, 0, 0, 115, 2, 75,
    3, 240, 0, 0, 111, 2, 112, 2, 240, 0, 0, 85, 3, 86, 3, 240, 0, 0, 91, 3, 92, 3, 240,
    0, 0, 97, 3, 98, 3, 240, 0, 0, 103, 3, 104, 3, 240, 0, 0, 81, 3, 105, 3, 240, 0, 0,
    77, 3, 78, 3, 240, 0, 0, 115, 3, 116, 3, 240, 0, 0, 121, 3, 122, 3, 240, 0, 0, 127,
    3, 64, 4, 240, 0, 0, 69, 4, 70, 4, 240, 0, 0, 111, 3, 71, 4, 240, 0, 0, 107, 3, 108,
    3, 240, 0, 0, 81, 4, 82, 4, 240, 0, 0, 87, 4, 88, 4, 240, 0, 0, 93, 4, 94, 4, 240,
    0, 0, 99, 4, 100, 4, 240, 0, 0, 77, 4, 101, 4, 240, 0, 0, 73, 4, 74, 4, 240, 0, 0,
    111, 4, 112, 4, 240, 0, 0, 117, 4, 118, 4, 240, 0, 0, 123, 4, 124, 4, 240, 0, 0, 65,
    5, 66, 5, 240, 0, 0, 107, 4, 67, 5, 240, 0, 0, 103, 4, 104, 4, 240, 0, 0, 77, 5, 78,
    5, 240, 0, 0, 83, 5, 84, 5, 240, 0, 0, 89, 5, 90, 5, 240, 0, 0, 95, 5, 96, 5, 240,
    0, 0, 73, 5, 97, 5, 240, 0, 0, 69, 5, 70, 5, 240, 0, 0, 107, 5, 108, 5, 240, 0, 0,
    113, 5, 114, 5, 240, 0, 0, 119, 5, 120, 5, 240, 0, 0, 125, 5, 126, 5, 240, 0, 0,
    103, 5, 127, 5, 240, 0, 0, 99, 5, 100, 5, 216, 11, 12, 128, 72, 247, 27, 0, 14, 15,
    141, 81, 251, 241, 18, 0, 9, 10, 216, 10, 11, 245, 3, 2, 9, 10, 250,
};
static const struct begin begins_3_13[] = {
    {0, 1}, {2, 2}, {4, 143}, {8, 144}, {10, 143}, {18, 2}, {24, 145}, {26, 146},
    {32, 147}, {42, 148}, {50, 152}, {52, 153}, {54, 152}, {62, 147}, {66, 146},
    {82, 155}, {86, 156}, {88, 155}, {98, 158}, {262, 159}, {266, 146}, {294, 0},
    {302, 155}, {306, 156}, {308, 155}, {320, 0},
};
#define BYTES_3_13 326
/* clang-format on */

#define CASE(form, version)                                                              \
    {                                                                                    \
        {.kind = form,                                                                   \
         .table = table_##version,                                                       \
         .bytes = sizeof(table_##version),                                               \
         .first = 1},                                                                    \
            begins_##version, GS_ARRAY_LEN(begins_##version), BYTES_##version            \
    }

static struct {
    struct gs_python_lines lines;
    const struct begin *begins;
    size_t count;
    int bytes;
} cases[] = {
    CASE(GS_PYTHON_LNOTAB, 3_8),
    CASE(GS_PYTHON_LINETABLE, 3_10),
    CASE(GS_PYTHON_LOCATIONS, 3_11),
    CASE(GS_PYTHON_LOCATIONS, 3_13),
};

Test(python_lines, every_instruction_has_the_line_that_python_says)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        size_t at = 0;

        for (int offset = 0; offset < cases[i].bytes; offset += 2) {
            while (at + 1 < cases[i].count && cases[i].begins[at + 1].offset <= offset)
                at++;
            cr_expect_eq(gs_python_line(&cases[i].lines, offset),
                         cases[i].begins[at].line, "table %zu, offset %d: %u, not %u", i,
                         offset, gs_python_line(&cases[i].lines, offset),
                         cases[i].begins[at].line);
        }
    }
}

Test(python_lines, code_that_has_not_begun_is_on_the_first_line)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        cr_expect_eq(gs_python_line(&cases[i].lines, -1), 1);
}

Test(python_lines, behind_the_end_there_is_no_line)
{
    for (size_t i = 1; i < GS_ARRAY_LEN(cases); i++)
        cr_expect_eq(gs_python_line(&cases[i].lines, cases[i].bytes), 0);
}

/* Each table at the end of memory of its own, cut at every byte and with bits turned: a
 * read outside of it is seen by the sanitized build, an endless loop by the clock. */
Test(python_lines, broken_tables_are_read_to_their_end)
{
    unsigned seed = 1;

    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        for (size_t bytes = 0; bytes <= cases[i].lines.bytes; bytes++) {
            uint8_t *table = malloc(bytes ? bytes : 1);
            struct gs_python_lines lines = cases[i].lines;

            cr_assert_not_null(table);
            memcpy(table, lines.table, bytes);
            for (unsigned turn = 0; turn < 16; turn++) {
                lines.table = table;
                lines.bytes = bytes;
                (void)gs_python_line(&lines, 2 * (int)turn * 40);
                seed = seed * 1103515245u + 12345u;
                if (bytes > 0)
                    table[(seed >> 8) % bytes] ^= (uint8_t)(1u << (seed >> 28) % 8);
            }
            free(table);
        }
    }
}

Test(python_lines, a_line_that_no_file_has_is_none)
{
    static const uint8_t far[] = {0xf0, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f,
                                  0x7f, 0x3e, 0,    0,    0};
    struct gs_python_lines lines = {
        .kind = GS_PYTHON_LOCATIONS, .table = far, .bytes = sizeof(far), .first = 1};

    cr_expect_eq(gs_python_line(&lines, 0), 0);
}

/* A function of many lines, in whatever order they run: each look-up continues where the
 * last one ended, or begins again. */
Test(python_lines, order_of_the_look_ups_does_not_matter)
{
    unsigned seed = 1;

    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        for (unsigned turn = 0; turn < 2000; turn++) {
            struct gs_python_lines fresh = cases[i].lines;
            int64_t offset;

            seed = seed * 1103515245u + 12345u;
            offset = 2 * (int64_t)((seed >> 8) % (unsigned)(cases[i].bytes / 2 + 2)) - 2;
            fresh.at = 0;
            fresh.covered = fresh.step = 0;
            cr_assert_eq(gs_python_line(&cases[i].lines, offset),
                         gs_python_line(&fresh, offset), "table %zu, offset %ld", i,
                         (long)offset);
        }
    }
}

Test(python_lines, look_up_of_the_next_line_does_not_read_the_table_again)
{
    static uint8_t table[20000];
    struct gs_python_lines lines = {
        .kind = GS_PYTHON_LOCATIONS, .table = table, .bytes = sizeof(table), .first = 1};

    for (size_t i = 0; i < sizeof(table); i++)
        table[i] = 0x80 | 11 << 3; /* one unit, the next line */
    cr_assert_eq(gs_python_line(&lines, 30000), 15002);
    cr_assert_eq(lines.at, 15000);
    table[0] = 0x80 | 15 << 3; /* would take one from the line */
    cr_expect_eq(gs_python_line(&lines, 30002), 15003);
    cr_expect_eq(gs_python_line(&lines, 4), 3, "from the begin, which has changed");
}
