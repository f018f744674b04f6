/*
 * tracker_export_out.c - proves what the writers stand on: numbers, what is UTF-8, the
 * buffer in front of a sink, the wire format of protocol buffers, JSON's syntax.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker/report/files/export_json_values.h"
#include "tracker/report/files/export_proto.h"
#include "tracker_export_helpers.h"

static void expect_bytes(struct test_bytes bytes, const char *expected)
{
    cr_expect_str_eq(bytes.data ? bytes.data : "", expected);
    free(bytes.data);
}

Test(export_out, numbers)
{
    struct test_bytes bytes = {0};
    struct gs_export_sink sink = {.write = test_bytes_write, .self = &bytes};
    struct gs_export_out out;
    static const uint64_t values[] = {0, 9, 10, 4294967296, UINT64_MAX};

    gs_out_begin(&out, &sink);
    for (size_t i = 0; i < GS_ARRAY_LEN(values); i++) {
        gs_out_number(&out, values[i]);
        gs_out_char(&out, ' ');
        gs_out_hex(&out, values[i]);
        gs_out_char(&out, ' ');
    }
    cr_assert_eq(gs_out_end(&out), GS_OK);
    expect_bytes(bytes, "0 0x0 9 0x9 10 0xa 4294967296 0x100000000 "
                        "18446744073709551615 0xffffffffffffffff ");
}

Test(export_out, every_length_arrives_whole)
{
    enum { PARTS = 300 };
    static char expected[PARTS * PARTS];
    struct test_bytes bytes = {0};
    struct gs_export_sink sink = {.write = test_bytes_write, .self = &bytes};
    struct gs_export_out out;
    size_t at = 0;

    gs_out_begin(&out, &sink);
    for (size_t i = 0; i < PARTS; i++) {
        memset(expected + at, (int)('a' + i % 26), i);
        gs_out_bytes(&out, expected + at, i);
        at += i;
    }
    cr_assert_eq(gs_out_end(&out), GS_OK);
    cr_assert_eq(bytes.length, at);
    cr_assert_gt(at, 2 * sizeof(out.data));
    cr_assert_eq(memcmp(bytes.data, expected, at), 0);
    free(bytes.data);
}

Test(export_out, a_sink_that_refuses_is_not_asked_again)
{
    struct test_bytes bytes = {.limit = 1};
    struct gs_export_sink sink = {.write = test_bytes_write, .self = &bytes};
    struct gs_export_out out;

    gs_out_begin(&out, &sink);
    for (size_t i = 0; i < 10 * sizeof(out.data); i++)
        gs_out_char(&out, 'x');
    cr_assert_eq(gs_out_end(&out), GS_ERR_IO);
    cr_assert_eq(bytes.calls, 1);
    cr_assert_null(bytes.data);
}

/* Tables 3-7 and 3-8 of the Unicode standard. */
Test(export_out, what_is_utf8)
{
    static const struct {
        const char *text;
        size_t length;
    } cases[] = {
        {"a", 1},
        {"\x7f", 1},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xee\x80\x80", 3},
        {"\xef\xbf\xbf", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\x80", 0},             /* goes on with nothing */
        {"\xc0\xaf", 0},         /* overlong */
        {"\xc1\xbf", 0},         /* overlong */
        {"\xe0\x9f\xbf", 0},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
        {"\xed\xa0\x80", 0},     /* a surrogate */
        {"\xf4\x90\x80\x80", 0}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", 0},
        {"\xff", 0},
        {"\xc2", 0},         /* ends too soon */
        {"\xe2\x82", 0},     /* ends too soon */
        {"\xf0\x9f\x98", 0}, /* ends too soon */
        {"\xe2\x28\xa1", 0},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        cr_expect_eq(gs_utf8_length(cases[i].text), cases[i].length, "case %zu", i);
}

/* Every byte alone and in pairs: what is taken for UTF-8 has the form of it. */
Test(export_out, json_text_is_utf8_whatever_comes_in)
{
    for (unsigned first = 1; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            char text[3] = {(char)first, (char)second, '\0'};
            struct test_bytes bytes = {0};
            struct gs_export_sink sink = {.write = test_bytes_write, .self = &bytes};
            struct gs_json json = {.depth = 0};

            gs_out_begin(&json.out, &sink);
            gs_json_text(&json, text);
            cr_assert_eq(gs_out_end(&json.out), GS_OK);
            for (const char *at = bytes.data; *at; at += gs_utf8_length(at)) {
                cr_assert_neq(gs_utf8_length(at), 0, "%02x %02x", first, second);
                cr_assert_geq((unsigned char)*at, ' ', "%02x %02x", first, second);
            }
            free(bytes.data);
        }
    }
}

Test(export_out, json_escapes)
{
    struct test_bytes bytes = {0};
    struct gs_export_sink sink = {.write = test_bytes_write, .self = &bytes};
    struct gs_json json = {.depth = 0};

    gs_out_begin(&json.out, &sink);
    gs_json_text(
        &json,
        "a\"b\\c/\b\t\n\v\f\r\x01\x1f\x7f \xc2\x9b \xc3\xa9 \xff \xf0\x9f\x98\x80");
    cr_assert_eq(gs_out_end(&json.out), GS_OK);
    expect_bytes(
        bytes,
        "\"a\\\"b\\\\c/\\b\\t\\n\\u000b\\f\\r\\u0001\\u001f\\u007f \\u009b \xc3\xa9 "
        "\xef\xbf\xbd \xf0\x9f\x98\x80\"");
}

Test(export_out, json_nests)
{
    struct test_bytes bytes = {0};
    struct gs_export_sink sink = {.write = test_bytes_write, .self = &bytes};
    struct gs_json json = {.depth = 0};

    gs_out_begin(&json.out, &sink);
    gs_json_open(&json, '{');
    gs_json_member(&json, "a", 1);
    gs_json_member_null(&json, "b");
    gs_json_member_open(&json, "c", '[');
    gs_json_open(&json, '{');
    gs_json_member_bool(&json, "d", true);
    gs_json_member_open(&json, "e", '[');
    gs_json_number(&json, 2);
    gs_json_hex(&json, 255);
    gs_json_close(&json, ']');
    gs_json_close(&json, '}');
    gs_json_bool(&json, false);
    gs_json_close(&json, ']');
    gs_json_member_open(&json, "f", '{');
    gs_json_close(&json, '}');
    gs_json_member_open(&json, "g", '[');
    gs_json_close(&json, ']');
    gs_json_close(&json, '}');
    cr_assert_eq(gs_out_end(&json.out), GS_OK);
    expect_bytes(bytes, "{\n  \"a\": 1,\n  \"b\": null,\n  \"c\": [\n"
                        "    {\"d\": true, \"e\": [2, \"0xff\"]},\n    false\n  ],\n"
                        "  \"f\": {},\n  \"g\": []\n}");
}

/* The examples of protobuf.dev, "Encoding". */
Test(export_out, the_wire_format)
{
    struct gs_proto message = {0}, inner = {0};

    gs_proto_number(&message, 1, 150);
    cr_assert_eq(message.length, 3);
    cr_assert_eq(memcmp(message.data, "\x08\x96\x01", 3), 0);
    gs_proto_clear(&message);
    gs_proto_bytes(&message, 2, "testing", 7);
    cr_assert_eq(message.length, 9);
    cr_assert_eq(memcmp(message.data, "\x12\x07testing", 9), 0);
    gs_proto_clear(&message);
    gs_proto_number(&inner, 1, 150);
    gs_proto_message(&message, 3, &inner);
    cr_assert_eq(message.length, 5);
    cr_assert_eq(memcmp(message.data, "\x1a\x03\x08\x96\x01", 5), 0);
    gs_proto_clear(&message);
    gs_proto_number(&message, 1, 0);
    cr_assert_eq(message.length, 0);
    gs_proto_varint(&message, UINT64_MAX);
    cr_assert_eq(message.length, 10);
    cr_assert_eq(memcmp(message.data, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10), 0);
    cr_assert_not(message.failed);
    gs_proto_free(&message);
    gs_proto_free(&inner);
}

Test(export_out, a_string_has_one_number)
{
    struct gs_proto_strings strings = {0};
    char text[32];

    cr_assert_eq(gs_proto_string(&strings, "a"), 1);
    cr_assert_eq(gs_proto_string(&strings, ""), 0);
    cr_assert_eq(gs_proto_string(&strings, NULL), 0);
    cr_assert_eq(gs_proto_string(&strings, "b\xff"), 2);
    cr_assert_eq(gs_proto_string(&strings, "b\xef\xbf\xbd"), 2);
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < 5000; i++) {
            snprintf(text, sizeof(text), "text %u", i);
            cr_assert_eq(gs_proto_string(&strings, text), 3 + i);
        }
    }
    uint64_t number = 0;
    for (const struct gs_proto_string *item = strings.items; item; item = item->hh.next) {
        cr_assert_eq(item->number, number++, "the order in which they are written");
        if (item->number == 2)
            cr_assert_str_eq(item->text, "b\xef\xbf\xbd");
    }
    cr_assert_eq(number, 5003);
    cr_assert_not(strings.failed);
    gs_proto_strings_free(&strings);
}
