/*
 * shim_json_read.c - proves that JSON is read as RFC 8259 says, in place, and that text
 * which is none ends the reading with a reason, wherever it is cut.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/tools/reader/json_read.h"

struct values {
    uint64_t number, hex;
    const char *text;
    bool yes;
};

static const struct gs_json_field fields[] = {
    {"number", offsetof(struct values, number), GS_JSON_NUMBER, NULL},
    {"hex", offsetof(struct values, hex), GS_JSON_HEX, NULL},
    {"text", offsetof(struct values, text), GS_JSON_TEXT, NULL},
    {"yes", offsetof(struct values, yes), GS_JSON_BOOL, NULL}};

/* Reads a copy, which lives until the next call. */
static struct values read_values(const char *text, const char **problem)
{
    static char *copy;
    struct values values = {.number = 7, .hex = 7};
    free(copy);
    copy = strdup(text);
    struct gs_json_read json = {.at = copy};
    gs_json_read_fields(&json, fields, GS_ARRAY_LEN(fields), &values);
    *problem = json.problem;
    return values;
}

Test(json_read, members_of_each_type)
{
    const char *problem;
    struct values found = read_values(
        " { \"other\" : [1, {\"number\": 2}, \"]\"],\n\"number\":18446744073709551615 , "
        "\"text\":\"a\\\"\\\\\\/\\b\\u0041\\u00e9\\ud83d\\ude00b\", \"hex\": \"0xfF\","
        "\"yes\":true} ",
        &problem);
    cr_assert_null(problem);
    cr_expect_eq(found.number, UINT64_MAX);
    cr_expect_eq(found.hex, 255);
    cr_expect_str_eq(found.text, "a\"\\/?A\xc3\xa9\xf0\x9f\x98\x80"
                                 "b");
    cr_expect(found.yes);
}

Test(json_read, values_of_other_types_are_skipped)
{
    const char *problem;
    struct values found = read_values(
        "{\"number\": -1, \"text\": null, \"hex\": 12, \"yes\": {\"yes\": true}}",
        &problem);
    cr_assert_null(problem);
    cr_expect_eq(found.number, 7);
    cr_expect_null(found.text);
    cr_expect_eq(found.hex, 7);
    cr_expect_not(found.yes);
    for (size_t i = 0; i < 5; i++) {
        static const char *const numbers[] = {"1.5", "1e3", "18446744073709551616",
                                              "\"1\"", "[1]"};
        char text[64];
        snprintf(text, sizeof(text), "{\"number\": %s, \"text\": \"x\"}", numbers[i]);
        found = read_values(text, &problem);
        cr_expect_null(problem, "%s", numbers[i]);
        cr_expect_eq(found.number, 7, "%s", numbers[i]);
        cr_expect_str_eq(found.text, "x", "%s", numbers[i]);
    }
}

Test(json_read, strings_have_no_control_characters)
{
    const char *problem;
    struct values found = read_values(
        "{\"text\": \"\\u001b[31m\x1b[2J\\u0000\\u009b\\ud800x\xff\\n\"}", &problem);
    cr_assert_null(problem);
    cr_expect_str_eq(found.text, "?[31m?[2J?\?\?\?x?\?");
}

Test(json_read, what_is_no_json_has_a_reason)
{
    static const char *const texts[] = {"{\"number\" 1}",
                                        "{number: 1}",
                                        "{\"number\": }",
                                        "{\"text\": \"\\x\"}",
                                        "{\"text\": \"\\u12g4\"}",
                                        "{\"other\": :}",
                                        "{1: 2}",
                                        "{\"other\": [}"};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        const char *problem;
        read_values(texts[i], &problem);
        cr_expect_not_null(problem, "%s", texts[i]);
    }
}

Test(json_read, cut_anywhere)
{
    static const char whole[] =
        "{\"text\": \"a\\u00e9\\n\", \"other\": [[], {\"a\": -1.5e3}], \"number\": 12}";
    for (size_t length = 0; length < sizeof(whole) - 2; length++) {
        char text[sizeof(whole)];
        const char *problem;
        memcpy(text, whole, length);
        text[length] = '\0';
        struct values found = read_values(text, &problem);
        cr_expect_not_null(problem, "%zu bytes", length);
        cr_expect(!found.text || strlen(found.text) < 8);
    }
}
