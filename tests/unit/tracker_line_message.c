/*
 * Proves that queries of lines and their answers are read as they were written, that what
 * has no form in a message or no room is left out alone, and that no text makes a reader
 * leave its bounds.
 */
#include "tracker/names/line_message.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 4096

static char text[ROOM];
static struct gs_line_query got[GS_LINE_MESSAGE_QUERIES];

static void free_all(struct gs_line_query *queries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gs_line_query_free(&queries[i]);
    }
}

Test(line_message, queries_are_read_as_they_were_written)
{
    struct gs_line_query asked[] = {
        {.path = "/usr/bin/a b", .address = 0x1234567890abcdefu, .symbol = "main"},
        {.path = "/proc/self/map_files/1-2", .address = 0, .symbol = NULL},
    };
    cr_assert_eq(gs_line_message_ask(asked, 2, text, sizeof(text)), 2);
    cr_assert_eq(gs_line_message_read(text, got), 2);
    for (size_t i = 0; i < 2; i++) {
        cr_assert_str_eq(got[i].path, asked[i].path);
        cr_assert_eq(got[i].address, asked[i].address);
    }
    cr_assert_str_eq(got[0].symbol, "main");
    cr_assert_null(got[1].symbol);
}

/* A path with a newline would be two queries. */
Test(line_message, a_query_without_a_form_ends_the_message)
{
    struct gs_line_query asked[] = {
        {.path = "/a", .address = 1},
        {.path = "/b\n/c", .address = 2},
        {.path = "/d", .address = 3, .symbol = "tab\there"},
    };
    cr_assert_eq(gs_line_message_ask(asked, 3, text, sizeof(text)), 1);
    cr_assert_eq(gs_line_message_ask(asked + 1, 2, text, sizeof(text)), 0);
    cr_assert_eq(text[0], '\0');
    cr_assert_eq(gs_line_message_ask(asked + 2, 1, text, sizeof(text)), 0);
}

Test(line_message, a_message_has_at_most_so_many_queries_and_bytes)
{
    struct gs_line_query asked[100];
    for (size_t i = 0; i < 100; i++) {
        asked[i] = (struct gs_line_query){.path = "/some/path", .address = i};
    }
    cr_assert_eq(gs_line_message_ask(asked, 100, text, sizeof(text)),
                 GS_LINE_MESSAGE_QUERIES);
    for (size_t room = 1; room < 100; room++) {
        memset(text, 'x', sizeof(text));
        size_t written = gs_line_message_ask(asked, 100, text, room);
        cr_assert_lt(strlen(text), room);
        cr_assert_eq(text[room], 'x');
        cr_assert_eq(gs_line_message_read(text, got), written);
    }
}

Test(line_message, answers_are_read_as_they_were_written)
{
    struct gs_line_place first[] = {{"inlined", "a.c", 12}, {"outer", "b dir/b.c", 0}};
    struct gs_line_place third[] = {{NULL, NULL, 7}};
    struct gs_line_query asked[] = {{.path = "/a", .places = first, .count = 2},
                                    {.path = "/b"},
                                    {.path = "/c", .places = third, .count = 1}};
    struct gs_line_query taken[3] = {{0}};
    gs_line_message_answer(asked, 3, text, sizeof(text));
    gs_line_message_take(text, taken, 3);
    cr_assert_eq(taken[0].count, 2);
    cr_assert_str_eq(taken[0].places[0].function, "inlined");
    cr_assert_str_eq(taken[0].places[1].file, "b dir/b.c");
    cr_assert_eq(taken[0].places[0].line, 12);
    cr_assert_eq(taken[1].count, 0);
    cr_assert_eq(taken[2].count, 1);
    cr_assert_null(taken[2].places[0].function);
    cr_assert_eq(taken[2].places[0].line, 7);
    free_all(taken, 3);
}

/* Each query keeps its own answer, however little room there is. */
Test(line_message, answers_that_do_not_fit_are_left_out)
{
    struct gs_line_place place[] = {{"function", "file.c", 1}, {"caller", "file.c", 2}};
    struct gs_line_query asked[] = {{.places = place, .count = 2},
                                    {.places = place, .count = 2},
                                    {.places = place, .count = 1}};
    for (size_t room = 5; room < 120; room++) {
        struct gs_line_query taken[3] = {{0}};
        memset(text, 'x', sizeof(text));
        gs_line_message_answer(asked, 3, text, room);
        cr_assert_lt(strlen(text), room);
        cr_assert_eq(text[room], 'x');
        gs_line_message_take(text, taken, 3);
        for (int i = 0; i < 3; i++) {
            cr_assert_leq(taken[i].count, asked[i].count);
            cr_assert(taken[i].count == 0 ||
                      strcmp(taken[i].places[0].function, "function") == 0);
        }
        free_all(taken, 3);
    }
}

/* Who is asked may write anything, and so may who answers. */
Test(line_message, any_text_is_read_within_its_bounds)
{
    static const char pieces[] = "\t\t\n\n\n/a0x9f 1";
    srand(1);
    for (int turn = 0; turn < 20000; turn++) {
        struct gs_line_query taken[3] = {{0}};
        size_t length = (size_t)(rand() % 60);
        char *exact = malloc(length + 1); /* a sanitizer sees its end */
        for (size_t i = 0; i < length; i++) {
            exact[i] = pieces[(size_t)rand() % (sizeof(pieces) - 1)];
        }
        exact[length] = '\0';
        char *again = strdup(exact);
        cr_assert_leq(gs_line_message_read(exact, got), GS_LINE_MESSAGE_QUERIES);
        gs_line_message_take(again, taken, 3);
        free_all(taken, 3);
        free(exact);
        free(again);
    }
}
