/*
 * shim_server.c - proves what gpushim serve makes of text from outside: addresses and
 * headers of clients, names of links, and above all what processes answer, which may be
 * anybody's. That clients get it, tests/e2e/cases/serve.sh asks them.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/tools/server/jobs.h"
#include "shim/tools/server/listen.h"
#include "shim/tools/server/merge.h"
#include "shim/tools/server/pod_names.h"
#include "shim/tools/server/profile.h"

/* ---- addresses and headers -----------------------------------------------------------
 */

Test(server, an_address_is_read_or_refused)
{
    static const struct {
        const char *text, *shown;
        bool loopback;
    } good[] = {{"127.0.0.1:19400", "127.0.0.1:19400", true},
                {"80", "127.0.0.1:80", true},
                {"0", "127.0.0.1:0", true},
                {"localhost:1", "127.0.0.1:1", true},
                {"127.200.0.9:1", "127.200.0.9:1", true},
                {"0.0.0.0:9", "0.0.0.0:9", false},
                {"10.0.0.7:9", "10.0.0.7:9", false},
                {"[::1]:9", "[::1]:9", true},
                {"[::]:9", "[::]:9", false},
                {"unix:/tmp/x", "unix:/tmp/x", true}};
    static const char *const bad[] = {
        "",       ":80",          "host:80", "::1:80",      "127.0.0.1",     "127.0.0.1:",
        "[::1]",  "1.2.3:x",      "unix:",   "65536",       "1.2.3.4:65536", "-1",
        "999999", "[127.0.0.1:1", "[]:1",    "1.2.3.4:1:2", "*:80",          "[fe80::1"};
    struct gs_listen listen;
    for (size_t i = 0; i < GS_ARRAY_LEN(good); i++) {
        cr_expect(gs_listen_read(good[i].text, &listen), "%s", good[i].text);
        cr_expect_str_eq(listen.shown, good[i].shown);
        cr_expect_eq(listen.is_loopback, good[i].loopback, "%s", good[i].text);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        cr_expect_not(gs_listen_read(bad[i], &listen), "%s", bad[i]);
        cr_expect_neq(listen.problem[0], '\0', "%s", bad[i]);
    }
}

Test(server, a_host_is_this_machine_or_a_name_of_somebody_else)
{
    static const char *const own[] = {"localhost", "LocalHost:80", "127.0.0.1:19400",
                                      "127.9.9.9", "[::1]",        "[::1]:7"};
    static const char *const others[] = {"",
                                         "localhost.",
                                         "localhost.evil.org",
                                         "127.0.0.1.evil.org",
                                         "10.0.0.1",
                                         "localhost:80:80",
                                         "[::1",
                                         "[::1]x",
                                         "localhost:",
                                         "127.1",
                                         "2130706433",
                                         "[::ffff:127.0.0.1]",
                                         "127.0.0.1@",
                                         "evil@127.0.0.1:80",
                                         "::1"};
    for (size_t i = 0; i < GS_ARRAY_LEN(own); i++) {
        cr_expect(gs_listen_is_loopback_host(own[i]), "%s", own[i]);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++) {
        cr_expect_not(gs_listen_is_loopback_host(others[i]), "%s", others[i]);
    }
}

Test(server, a_format_is_chosen_by_its_weight)
{
    static const struct {
        const char *accept;
        bool open;
    } rows[] = {
        {NULL, false},
        {"", false},
        {"*/*", false},
        {"text/plain", false},
        {"application/openmetrics-text", true},
        {"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2,*/*;q=0.1",
         true},
        {"text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.3", false},
        {"application/openmetrics-text; q=0, text/plain", false},
        {"application/openmetrics-text;q=0", false},
        {"APPLICATION/OpenMetrics-Text", true},
        {"application/openmetrics-texts", false},
        {"x-application/openmetrics-text", false},
        {";;;q=1,,,", false},
        {"application/openmetrics-text;q=", false},
        {"application/openmetrics-text;version=\"q=0\"", true}};
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        cr_expect_eq(gs_job_wants_openmetrics(rows[i].accept), rows[i].open, "%s",
                     rows[i].accept);
    }
}

/* ---- names of pods -------------------------------------------------------------------
 */

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

Test(server, a_link_names_a_container)
{
    static const char *const bad[] = {"",
                                      ".log",
                                      ID ".log",
                                      "pod_ns_c-" ID,
                                      "pod_ns_-" ID ".log",
                                      "pod_ns-" ID ".log",
                                      "pod_ns_c-0" ID ".log",
                                      "pod_ns_c" ID ".log",
                                      "_ns_c-" ID ".log",
                                      "pod__c-" ID ".log",
                                      "Pod_ns_c-" ID ".log",
                                      "pod_ns_c\n-" ID ".log",
                                      "pod_ns_a_c-" ID ".log"};
    struct gs_pod_name name;
    cr_assert(gs_pod_name_read("train-0.x_ml_side-car-1-" ID ".log", &name));
    cr_expect_str_eq(name.pod, "train-0.x");
    cr_expect_str_eq(name.namespace, "ml");
    cr_expect_str_eq(name.container, "side-car-1");
    cr_expect_str_eq(name.id, ID);
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        cr_expect_not(gs_pod_name_read(bad[i], &name), "%s", bad[i]);
    }
}

/* ---- profiles ------------------------------------------------------------------------
 */

Test(server, a_profile_gets_another_first_type)
{
    static const char good[] = "\x32\0\x32\1a\x70\1\x32\2bc"; /* "", "a", "bc" */
    static const struct {
        const char *data;
        size_t length;
    } bad[] = {{"", 0},         {"\x32", 1},
               {"\x32\5bc", 4}, {"\x32\0\x32\2cb", 6},
               {"\x32\2bc", 4}, {"\x35\0\0\0\0bc", 7},
               {"\x80", 1},     {"\x32\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11}};
    struct gs_text text = {0};
    gs_text_add_bytes(&text, good, sizeof(good) - 1);
    cr_assert(gs_profile_prefer(&text, "bc"));
    cr_expect_eq(text.length, sizeof(good) + 1);
    cr_expect_arr_eq(text.data + text.length - 2, "\x70\2", 2);
    gs_text_free(&text);
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        gs_text_add_bytes(&text, bad[i].data, bad[i].length);
        cr_expect_not(gs_profile_prefer(&text, "bc"), "row %zu", i);
        cr_expect_eq(text.length, bad[i].length);
        gs_text_free(&text);
    }
}

/* ---- metrics of many processes -------------------------------------------------------
 */

#define LIVE "gpushim_live_bytes{host=\"h\",pid=\"1\",device=\"0\"} 5\n"

static bool add(struct gs_merge *merge, const char *text, long pid)
{
    const struct gs_merge_labels labels = {.pid = pid, .program = "a\"b", .pod = "p"};
    return gs_merge_add(merge, text, strlen(text), &labels);
}

static bool add_piece(void *text, const void *data, size_t length)
{
    gs_text_add_bytes(text, data, length);
    return true;
}

/* The page; from malloc. */
static char *write(const struct gs_merge *merge, bool plain)
{
    struct gs_text text = {0};
    const struct gs_export_sink sink = {.write = add_piece, .self = &text};
    struct gs_export_out out;
    gs_text_add_bytes(&text, "", 0);
    gs_out_begin(&out, &sink);
    gs_merge_write(merge, plain, &out);
    cr_assert_eq(gs_out_end(&out), GS_OK);
    return text.data;
}

Test(server, samples_of_a_family_are_together)
{
    struct gs_merge merge = {0};
    cr_assert(add(&merge, "# TYPE gpushim_live_bytes counter\n" LIVE, 7));
    cr_assert(add(&merge,
                  "gpushim_frees_total{a=\"\\\\\\\"\\n\xc3\xa4\"} 1.5\n"
                  "gpushim_of_next_year{} 3\n" LIVE,
                  8));
    cr_assert(add(&merge, "", 9));
    char *open = write(&merge, false), *plain = write(&merge, true);
    cr_expect_str_eq(
        open, "# TYPE gpushim_live_bytes gauge\n# UNIT gpushim_live_bytes bytes\n"
              "# HELP gpushim_live_bytes Memory allocated and not freed.\n"
              "gpushim_live_bytes{pid=\"7\",program=\"a\\\"b\",pod=\"p\",host=\"h\","
              "device=\"0\"} 5\n"
              "gpushim_live_bytes{pid=\"8\",program=\"a\\\"b\",pod=\"p\",host=\"h\","
              "device=\"0\"} 5\n"
              "# TYPE gpushim_frees counter\n"
              "# HELP gpushim_frees Allocations freed.\n"
              "gpushim_frees_total{pid=\"8\",program=\"a\\\"b\",pod=\"p\","
              "a=\"\\\\\\\"\\n\xc3\xa4\"} 1.5\n");
    cr_expect_not_null(strstr(plain, "# TYPE gpushim_frees_total counter\n"));
    free(open);
    free(plain);
    gs_merge_free(&merge);
}

Test(server, a_malformed_process_is_left_out_whole)
{
    static const char *const bad[] = {
        "x",
        "\n",
        "gpushim_live_bytes",
        "gpushim_live_bytes 5\n",
        "gpushim_live_bytes{} 5",
        "gpushim_live_bytes{} -5\n",
        "gpushim_live_bytes{} NaN\n",
        "gpushim_live_bytes{} 5 1700000000\n",
        "gpushim_live_bytes{} 5.\n",
        "gpushim_live_bytes{}5\n",
        "gpushim_live_bytes{} "
        "111111111122222222223333333333444444444455555555556666666666\n",
        "gpushim_live_bytes{a=\"1\",a=\"2\"} 5\n",
        "gpushim_live_bytes{a=\"\\x\"} 5\n",
        "gpushim_live_bytes{a=\"\xff\"} 5\n",
        "gpushim_live_bytes{a=\"\033[31m\"} 5\n",
        "gpushim_live_bytes{a=\"\n\"} 5\n",
        "gpushim_live_bytes{a=\"1\"\n",
        "gpushim_live_bytes{a=\"1} 5\n",
        "gpushim_live_bytes{1a=\"1\"} 5\n",
        "gpushim_live_bytes{a:=\"1\"} 5\n",
        "gpushim_live_bytes{,} 5\n",
        "gpushim_live_bytes{a=\"1\",} 5\n",
        "up{} 1\n",
        "# a comment without an end",
        LIVE LIVE,
        "gpushim_live_bytes{pid=\"1\"} 5\ngpushim_live_bytes{pid=\"2\"} 5\n"};
    struct gs_merge merge = {0};
    cr_assert(add(&merge, LIVE, 7));
    char *before = write(&merge, false);
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        char text[400];
        (void)snprintf(text, sizeof(text), "gpushim_frees_total{} 1\n%s", bad[i]);
        cr_expect_not(add(&merge, text, 8), "row %zu: %s", i, bad[i]);
        char *after = write(&merge, false);
        cr_expect_str_eq(after, before);
        free(after);
    }
    const struct gs_merge_labels labels = {.pid = 8, .program = ""};
    cr_expect_not(gs_merge_add(&merge, LIVE "\0" LIVE, 2 * strlen(LIVE) + 1, &labels));
    cr_expect_not(gs_merge_failed(&merge));
    free(before);
    gs_merge_free(&merge);
}

/* Whatever a process answers, each line is a comment of ours, or a sample of its own. */
Test(server, no_answer_forges_a_sample, .timeout = 120)
{
    static const char seed[] =
        "# HELP x\n" LIVE "gpushim_frees_total{pid=\"1\",path=\"/a b\\\"\"} 12.5\n"
        "gpushim_live_bytes{device=\"1\"} 5\ngpushim_new{a=\"b\"} 1\n";
    unsigned taken = 0;
    srandom(1);
    for (unsigned turn = 0; turn < 200000; turn++) {
        struct gs_merge merge = {0};
        char text[sizeof(seed)];
        memcpy(text, seed, sizeof(seed));
        for (long i = random() % 4; i >= 0; i--) {
            size_t at = (size_t)random() % (sizeof(seed) - 1);
            text[at] = random() % 2 ? seed[(size_t)random() % (sizeof(seed) - 1)]
                                    : (char)(1 + random() % 255);
        }
        bool added = add(&merge, text, 7);
        taken += added;
        char *page = write(&merge, true);
        cr_assert(added || page[0] == '\0');
        for (char *line = page, *end; *line; line = end + 1) {
            end = strchr(line, '\n');
            cr_assert_not_null(end);
            *end = '\0';
            cr_assert(strncmp(line, "# ", 2) == 0 ||
                          (strncmp(line, "gpushim_", 8) == 0 &&
                           strncmp(strchr(line, '{') ? strchr(line, '{') : "",
                                   "{pid=\"7\",", 9) == 0),
                      "%s", line);
        }
        free(page);
        gs_merge_free(&merge);
    }
    cr_assert_gt(taken, 10000);
    cr_assert_lt(taken, 190000);
}
