/*
 * tracker_color.c - unit tests of the colours of a report.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tracker/report/text/color.h"

/* The colored text; its escape sequences written as {1;31}, for reading. */
static const char *colored(const char *plain)
{
    static char out[4096];
    struct gs_text text = {0};
    size_t length = 0;

    gs_text_add(&text, "%s", plain);
    gs_text_color(&text);
    for (const char *at = text.data; *at; at++) {
        if (at[0] == '\033' && at[1] == '[') {
            out[length++] = '{';
            for (at += 2; *at != 'm'; at++)
                out[length++] = *at;
            out[length++] = '}';
        } else {
            out[length++] = *at;
        }
    }
    out[length] = '\0';
    gs_text_free(&text);
    return out;
}

#define LINE(plain, wanted) cr_expect_str_eq(colored(plain), wanted)

Test(color, marks_headlines_verdicts_and_titles)
{
    LINE("==1== LEAK 2: 3.00 MiB in 3 allocations\n",
         "{2}==1== {0}{1;31}LEAK 2{0}: 3.00 MiB in 3 allocations\n");
    LINE("==1== largest: 3.00 MiB leaked at step train.cu:42\n",
         "{2}==1== {0}{1;31}largest{0}: 3.00 MiB leaked at step train.cu:42\n");
    LINE("==1== PEAK 1: 3.00 MiB\n", "{2}==1== {0}{1}PEAK 1{0}: 3.00 MiB\n");
    LINE("==1== Note: a: b\n", "{2}==1== {0}{33}Note{0}: a: b\n");
    LINE(
        "==1== SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations\n",
        "{2}==1== {0}{1;32}SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations{0}\n");
    LINE("==1== SUMMARY: gpushim: 1 error, 0 B leaked\n",
         "{2}==1== {0}{1;31}SUMMARY: gpushim: 1 error, 0 B leaked{0}\n");
    LINE("==1== GPU 0 A: peak 3 B\n", "{2}==1== {0}{1}GPU 0 A{0}: peak 3 B\n");
    LINE("==1== Memory by  3 B\n", "{2}==1== {0}{1}Memory by{0}  3 B\n");
    LINE("==1==\n", "{2}==1=={0}\n");
}

Test(color, marks_functions_and_lines)
{
    LINE("==1==     #0 f(int, char)    a.c:3\n",
         "{2}==1== {0}    #0 {1}f(int, char){0}    {36}a.c:3{0}\n");
    LINE("==1==     #12 f\n", "{2}==1== {0}    #12 {1}f{0}\n");
}

Test(color, leaves_other_lines_alone)
{
    LINE("==1==   traffic        13 allocs\n",
         "{2}==1== {0}  traffic        13 allocs\n");
    LINE("no prefix\n", "no prefix\n");
    LINE("==x== LEAK\n", "==x== LEAK\n");
    LINE("==1==     #x y\n", "{2}==1== {0}    #x y\n");
    LINE("==1== LEAK without a colon", "{2}==1== {0}LEAK without a colon");
    LINE("==", "==");
    LINE("#", "#");
}
